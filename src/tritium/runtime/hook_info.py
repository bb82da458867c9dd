"""The information that compilation hooks receive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tritium.runtime.serialize import to_json

_SHOWN = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion", "launch_cooperative_grid")


class JitFunctionInfo:
    """Names of a kernel, for hooks."""

    def __init__(self, module: str, name: str, jit_function: Any):
        self.module, self.name, self.jit_function = module, name, jit_function


def hook_info(
    function: Any,
    key: str,
    signature: Mapping[str, Any],
    device: Any,
    constants: Mapping[Any, Any],
    options: Any,
    attrs: Mapping[Any, Any],
    warmup: bool,
) -> dict[str, Any]:
    """The information about a compilation for `jit_cache_hook` and `jit_post_compile_hook`; its
    `specialization_data` is what `preload` takes."""
    types = ", ".join(f"{name}: {t}" for name, t in signature.items())
    shown = {n: getattr(options, n) for n in _SHOWN if hasattr(options, n)}
    details = ", ".join(f"{n}={v}" for n, v in shown.items())
    data = json.dumps(
        {
            "name": function.qualified_name,
            "signature": {k: to_json(v) for k, v in signature.items()},
            "constant_keys": [list(p) for p in constants],
            "constant_vals": [to_json(v) for v in constants.values()],
            "attrs_keys": [list(p) for p in attrs],
            "attrs_vals": list(attrs.values()),
            "options": {k: to_json(v) for k, v in options.__dict__.items()},
            "key": key,
        }
    )
    return {
        "key": key,
        "repr": f"{function.__qualname__}[{details}]({types})",
        "fn": JitFunctionInfo(function.__module__, function.__qualname__, function),
        "compile": {
            "signature": signature,
            "device": device,
            "constants": constants,
            "configs": [attrs],
            "extern_libs": getattr(options, "extern_libs", None),
            "specialization_data": data,
            "is_warmup": warmup,
            "key": key,
            **options.__dict__,
        },
        "is_manual_warmup": warmup,
    }
