"""A profiler of scopes and kernels (`triton.profiler`).

    import triton.profiler as proton
    session = proton.start("matmul", hook="triton")
    with proton.scope("warm"):
        kernel[grid](...)
    proton.finalize()                        # writes matmul.hatchet
    from triton.profiler import viewer
    viewer.print_tree(*viewer.parse(["time/ms", "count"], "matmul.hatchet"))

Each launch is counted under the scopes around it and timed by the device's events, or by CUPTI.
With `hook="triton"` the kernel's `launch_metadata` (`flops`, `flops8`, ..., `bytes`) is added up
there.
"""

from __future__ import annotations

from tritium.profiler import context, data, hooks, mode, specs
from tritium.profiler.profile import (
    DEFAULT_PROFILE_NAME,
    activate,
    deactivate,
    finalize,
    profile,
    start,
)
from tritium.profiler.scope import cpu_timed_scope, enter_scope, exit_scope, scope
from tritium.profiler.state import enter_state, exit_state, metadata_state, state

__all__ = [
    "DEFAULT_PROFILE_NAME", "activate", "configure_runtime", "context", "cpu_timed_scope",
    "data", "deactivate", "enter_scope", "enter_state", "exit_scope", "exit_state", "finalize",
    "hooks", "metadata_state", "mode", "profile", "scope", "specs", "start", "state",
]  # fmt: skip


def configure_runtime() -> None:
    """Choose the ROCm libraries that are loaded: this profiler loads none."""
