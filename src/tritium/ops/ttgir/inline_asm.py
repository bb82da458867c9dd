"""`ttg.inline_asm`: assembly on all registers of a thread at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.ops.elementwise import describe
from tritium.ops.ttgir.types import MemDescType
from tritium.ops.ttir.extern import AssemblyOp


class InlineAsmOp(AssemblyOp):
    """Assembly that each thread runs once. Its operands are, results first, the registers of tiles
    in the order of their layouts, scalars, and the addresses (i32) of memory."""

    name = "ttg.inline_asm"
    syntax = "$asm_string attrs $arguments : functional"

    @classmethod
    def infer(
        cls, arguments: Sequence[ir.Type], *, pure: bool, constraints: str, result: Any,
        **attrs: Any,
    ) -> Sequence[ir.Type]:  # fmt: skip
        results = (result,) if isinstance(result, Attribute) else tuple(result or ())
        if pure and any(isinstance(a, MemDescType) for a in arguments):
            raise OpError(f"{cls.name}: {describe(*arguments)}; assembly with memory is not pure")
        codes = codes_of(constraints)
        outputs, inputs = (sum(map(registers, types)) for types in (results, arguments))
        found = sum(code.startswith("=") for code in codes)
        if (found, len(codes) - found) != (outputs, inputs):
            raise OpError(
                f"{cls.name}: {constraints!r} has {found} outputs and {len(codes) - found} inputs; "
                f"the operands are {outputs} registers of results and {inputs} of arguments"
            )
        return results


def codes_of(constraints: str) -> list[str]:
    """The constraints of operands one by one, clobbers left out."""
    codes = [code.strip() for code in constraints.split(",")]
    return [code for code in codes if code and not code.startswith("~{")]


def registers(type: ir.Type) -> int:
    """The registers of a thread that hold a value of the type."""
    shape = () if isinstance(type, MemDescType) else ir.shape_of(type)
    return linear(ir.encoding_of(type), shape).in_size(REGISTER) if shape else 1
