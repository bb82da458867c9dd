"""What `torch.compile` is told of us, once it is in use."""

from __future__ import annotations

import sys
from typing import Any

_TRACED = (
    "tritium.language.constexpr.ConstexprFunction#__call__",
    "tritium.language.constexpr.unwrap",
    "tritium.language.base.class_of",
    "tritium.language.sizes.cdiv#fn",
    "tritium.language.sizes.next_power_of_2#fn",
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
    if hasattr(rules, "torch_name_rule_map"):
        rules.torch_name_rule_map.append(dict.fromkeys(_TRACED, rules.UserFunctionVariable))
        rules.get_torch_obj_rule_map.cache_clear()


_told: list[Any] = []
