"""Grid dependency control: kernels of one stream overlap (`launch_pdl=True`, from sm_90 on)."""

from __future__ import annotations

from tritium.language.builtins.external import inline_asm_elementwise
from tritium.language.decorators import builtin
from tritium.language.target_info import current_target
from tritium.language.values.types import int32


@builtin
def gdc_wait() -> None:
    """Wait until the kernels before this one have finished and their writes can be seen."""
    _control("wait")


@builtin
def gdc_launch_dependents() -> None:
    """Let the next kernel of the stream start, once all programs of this one have come here."""
    _control("launch_dependents")


def _control(what: str) -> None:
    target = current_target()
    if target is None or target.backend == "cpu":
        return  # A grid starts when those before it have ended, on the CPU and interpreted.
    # Inline assembly has a result, which nothing reads.
    inline_asm_elementwise(f"griddepcontrol.{what}; // $0", "=r", [], int32, False, 1)
