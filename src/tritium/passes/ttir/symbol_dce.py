"""Remove private functions that no public one calls, directly or through others.

before:
    tt.func public @kernel() { tt.return }
    tt.func private @helper() { tt.return }
after:
    tt.func public @kernel() { tt.return }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation

from tritium.passes.base import Pass


@dataclass(frozen=True)
class SymbolDCE(Pass):
    """Remove private functions that nothing calls."""

    name: ClassVar[str] = "symbol-dce"
    title: ClassVar[str] = "SymbolDCE"

    def run(self, module: ModuleOp) -> bool:
        return remove_uncalled(module)


def remove_uncalled(module: ModuleOp) -> bool:
    """Remove the private symbols that no public one reaches."""
    block = module.body.block
    symbols = {name: op for op in block.ops if (name := symbol_name(op)) is not None}
    pending = [op for op in block.ops if not _is_private(op)]
    reached = set(pending)
    while pending:
        for name in referenced_symbols(pending.pop()):
            op = symbols.get(name)
            if op is not None and op not in reached:
                reached.add(op)
                pending.append(op)
    dead = [op for op in symbols.values() if op not in reached]
    for op in dead:
        block.erase_op(op)
    return bool(dead)


def symbol_name(op: Operation) -> str | None:
    """The name under which other ops refer to this one."""
    name: Any = op.properties.get("sym_name")
    return None if name is None else name.data


def _is_private(op: Operation) -> bool:
    visibility: Any = op.properties.get("sym_visibility")
    return visibility is not None and visibility.data == "private"


def referenced_symbols(op: Operation) -> set[str]:
    """The symbols that an op and those in its regions refer to."""
    return {
        attribute.string_value()
        for nested in op.walk()
        for attribute in nested.properties.values()
        if isinstance(attribute, SymbolRefAttr)
    }
