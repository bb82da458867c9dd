"""Register Tritium's classes with `torch.compile`, once it is in use."""

from __future__ import annotations

import sys
from typing import Any

from tritium.language import core
from tritium.language.values.base import is_builtin, module_of, rename_module

_TRACED = (
    "tritium.language.values.constexpr.ConstexprFunction#__call__",
    "tritium.language.values.constexpr.unwrap",
    "tritium.language.values.base.class_of",
    "tritium.language.builtins.sizes.cdiv#fn",
    "tritium.language.builtins.sizes.next_power_of_2#fn",
)
"""Functions that compute sizes: of symbolic ones too, which only tracing them can."""


def leave_to_python() -> None:
    """Have `torch.compile` run our own functions as they are: it cannot look into the compiler or
    into native launches. Those that grids are computed with it is to trace."""
    dynamo = sys.modules.get("torch._dynamo")
    rules: Any = getattr(dynamo, "trace_rules", None)
    if not hasattr(rules, "add") or dynamo in _told:
        return
    _told.append(dynamo)
    rules.add(__name__.partition(".")[0])
    name_by_alias()
    if hasattr(rules, "torch_name_rule_map"):
        rules.torch_name_rule_map.append(dict.fromkeys(_TRACED, rules.UserFunctionVariable))
        rules.get_torch_obj_rule_map.cache_clear()


_told: list[Any] = []


def name_by_alias() -> None:
    """Under the alias, say of the functions and types of the language that they are `triton`'s: the
    generator imports what a kernel names unqualified (`load`, `float32`) where its module says so.
    """
    top, ours = "triton", __name__.partition(".")[0]
    if getattr(sys.modules.get(f"{top}.language.core"), "__name__", "") != core.__name__:
        return
    prefix = f"{ours}.language"
    for name, module in list(sys.modules.items()):
        if name != prefix and not name.startswith(f"{prefix}."):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, core.dtype):  # it is imported as `tl.int32`
                value.__module__ = f"{top}.language"
            elif is_builtin(value) and module_of(value).startswith(prefix):
                rename_module(value, top + module_of(value).removeprefix(ours))
