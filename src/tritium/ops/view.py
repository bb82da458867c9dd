"""Looking at IR the way the reference's Python bindings let one do; `_C.libtriton.ir` is this.

Names and methods are those of the bindings, which programs use to find out about kernels:
`torch.compile` looks for the pointers that a kernel writes through.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, StringAttr, SymbolRefAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tritium.ir.printing import print_module
from tritium.ops.dialects import default_context
from tritium.ops.parsing import parse_module


def context() -> Context:
    """A context with all dialects; modules do not depend on which one they were made in."""
    return default_context()


def load_dialects(context: Context) -> None:
    """Do nothing: a context knows every dialect from the start."""


class value:
    """A result of an operation."""

    def __init__(self, value: SSAValue):
        self._value = value

    def id(self) -> int:
        """A number that is the same for the same value."""
        return id(self._value)


class block:
    """A block of operations."""

    def __init__(self, block: Block):
        self._block = block

    def get_num_arguments(self) -> int:
        return len(self._block.args)

    def get_argument(self, index: int) -> value:
        return value(self._block.args[index])

    def get_parent(self) -> region | None:
        """The region that it is in."""
        return None if self._block.parent is None else region(self._block.parent)

    def id(self) -> int:
        """A number that is the same for the same block."""
        return id(self._block)


class region:
    """A region of an operation."""

    def __init__(self, region: Region):
        self._region = region

    def size(self) -> int:
        """The number of blocks."""
        return len(self._region.blocks)

    def id(self) -> int:
        """A number that is the same for the same region."""
        return id(self._region)


class operation:
    """An operation."""

    def __init__(self, op: Operation):
        self._op = op

    def get_name(self) -> str:
        return self._op.name

    def get_num_operands(self) -> int:
        return len(self._op.operands)

    def get_operand(self, index: int) -> value:
        return value(self._op.operands[index])

    def get_num_results(self) -> int:
        return len(self._op.results)

    def get_result(self, index: int) -> value:
        return value(self._op.results[index])

    def get_num_regions(self) -> int:
        return len(self._op.regions)

    def get_region(self, index: int) -> region:
        return region(self._op.regions[index])

    def get_block(self) -> block | None:
        """The block that it is in; None for the module."""
        return None if self._op.parent is None else block(self._op.parent)

    def _attribute(self, name: str) -> Attribute | None:
        return self._op.properties.get(name) or self._op.attributes.get(name)

    def get_str_attr(self, name: str) -> str | None:
        """The text of a string attribute; None where there is none of this name."""
        attribute = self._attribute(name)
        return attribute.data if isinstance(attribute, StringAttr) else None

    def get_bool_attr(self, name: str) -> bool | None:
        """The value of a boolean attribute; None where there is none of this name."""
        attribute = self._attribute(name)
        if not isinstance(attribute, IntegerAttr):
            return None
        number = cast("IntegerAttr[IntegerType]", attribute)
        return bool(number.value.data) if number.type == i1 else None

    def get_flat_symbol_ref_attr(self, name: str) -> str | None:
        """The symbol that an attribute refers to; None where there is none of this name."""
        attribute = self._attribute(name)
        return attribute.root_reference.data if isinstance(attribute, SymbolRefAttr) else None


class module(operation):
    """A module."""

    def __init__(self, op: ModuleOp):
        super().__init__(op)
        self._module = op

    def walk(self, fn: Callable[[operation], object]) -> None:
        """Call `fn` for every operation, those inside of one before it, the module last."""
        for op in list(self._module.walk(region_first=True)):
            fn(module(op) if isinstance(op, ModuleOp) else operation(op))

    def verify(self) -> bool:
        """True if the module keeps the rules of all its operations."""
        try:
            self._module.verify()
        except VerifyException:
            return False
        return True

    def str_nodebug(self) -> str:
        """The op's text without source locations and names of variables."""
        return print_module(self._module, locations=False, variables=False)

    def __str__(self) -> str:
        return print_module(self._module)


def parse_mlir_module(path: str, context: Context | None = None) -> module:
    """The module in a file. Raises `ParseError` with the place for text that is not IR."""
    return module(parse_module(Path(path).read_text(encoding="utf-8"), str(path)))
