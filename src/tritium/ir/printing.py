"""Writing IR text, in the reference's form.

Values are named after their name hints: `%x`, and `%x_3` where `%x` is taken; constants without a
hint `%c1_i32`, `%cst`; other values are numbered. As in MLIR all values of a region are named
before those of the regions inside it, and sibling regions go on from the same numbers.
Locations are aliases (`loc(#loc3)`), defined at the end but for those that arguments need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.printer import Printer

from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ir.layouts.encodings import alias_of
from tritium.ir.locations import LOCATIONS, location_text, name_of, parts_of, quoted

_PLAIN: dict[int, tuple[Attribute, str]] = {}
"""Texts of attributes that no alias is in, by identity, for all printers: the modules of a kernel's
stages share most attributes. They are kept alive."""
_MOST, _LONG = 4096, 256
"""Entries of that table; characters that are too many for one."""


def print_module(
    module: ModuleOp, locations: bool = True, generic: bool = False, variables: bool = True
) -> str:
    """The text of a module; without `locations` only the operations; `generic` uses MLIR's
    generic form for all ops but the module itself. With `variables`, values have the names of the
    program's variables."""
    return print_op(module, locations, generic, variables)


def print_op(
    op: Operation, locations: bool = False, generic: bool = False, variables: bool = True
) -> str:
    """The text of one op, its values numbered afresh. Operands from outside have no names."""
    printer = IRPrinter(print_debuginfo=locations, print_generic_format=generic)
    printer.name_values(op, variables)
    printer.print_op(op)
    printer.finish()
    return printer.text()


class IRPrinter(Printer):
    """xDSL's printer with MLIR's names, grouped results, and location aliases."""

    def __init__(self, print_debuginfo: bool = False, print_generic_format: bool = False):
        super().__init__(
            stream=StringIO(),
            print_debuginfo=print_debuginfo,
            print_generic_format=print_generic_format,
        )
        self._parts: list[str] = []
        self._same: dict[int, tuple[Attribute, str]] = {}
        """Attributes printed before, by identity: their hash takes long. They are kept alive."""
        self._references: dict[int, tuple[Attribute, str]] = {}
        """Aliases of locations, likewise."""
        self._aliases: dict[str, str] = {}
        """Aliases of locations by their text."""
        self._early: set[str] = set()
        self._encodings: dict[Attribute, tuple[str, str]] = {}
        """Aliases of encodings, and their texts."""
        self._aliases_used = 0

    def text(self) -> str:
        """The text printed so far."""
        return "".join(self._parts)

    def finish(self) -> None:
        """Add the definitions of the location aliases: those that block arguments use first
        (MLIR resolves these as it reads them), the others at the end. Those of encodings come
        before all."""
        before = [f"{alias} = {text}\n" for alias, text in sorted(self._encodings.values())]
        self._parts.append("\n")
        for text, alias in self._aliases.items():
            (before if alias in self._early else self._parts).append(f"{alias} = loc({text})\n")
        self._parts[:0] = before

    # Output, without xDSL's tracking of lines and columns.

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Append text; new lines in it are indented."""
        if "\n" in text:
            pad = " " * ((self._indent if indent is None else indent) * self.indent_num_spaces)
            text = text.replace("\n", "\n" + pad)
        self._parts.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        depth = self._indent if indent is None else indent
        self._parts.append("\n" + " " * (depth * self.indent_num_spaces))

    # Names

    def name_values(self, root: Operation, variables: bool = True) -> None:
        """Name all values that `root` and the ops in its regions define, with `variables` after
        the program's variables."""
        names = _Names(self._ssa_values, variables)
        names.name_results(root)
        pending = [(region, names) for region in root.regions]
        while pending:
            region, outer = pending.pop()
            inner = outer.nested()
            inner.name_region(region)
            pending += [(r, inner) for op in _scopes(region) for r in op.regions]

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print a value's name; a value of no named region gets a number."""
        name = self._ssa_values.get(value)
        if name is None:
            name = f"<<{len(self._ssa_values)}>>" if value.name_hint is None else value.name_hint
            self._ssa_values[value] = name
        self._parts.append(f"%{name}")
        return name

    def _print_results(self, op: Operation) -> None:
        results = op.results
        if not results:
            return
        names = [self._ssa_values.get(r) or "_" for r in results]
        if len(names) > 1 and "#" in names[0]:
            names = [f"{names[0].split('#')[0]}:{len(names)}"]
        self._parts.append(f"%{', %'.join(names)} = ")

    # Attributes

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute or type; locations as `loc(#alias)`."""
        key = id(attribute)
        known = _PLAIN.get(key)
        if known is None and (known := self._same.get(key)) is not None:
            self._aliases_used += 1  # perhaps
        if known is not None:
            self._parts.append(known[1])
            return
        start, aliases = len(self._parts), self._aliases_used
        if type(attribute) in LOCATIONS:
            self._print_location(attribute)
        elif (alias := alias_of(type(attribute))) is not None:
            self._print_alias(attribute, alias)
        else:
            self._print_text(attribute)
        text = "".join(self._parts[start:])
        if aliases == self._aliases_used and len(text) < _LONG and "\n" not in text:
            if len(_PLAIN) >= _MOST:
                _PLAIN.clear()
            _PLAIN[key] = attribute, text
        else:
            self._same[key] = attribute, text

    def _print_alias(self, attribute: Attribute, alias: str) -> None:
        self._aliases_used += 1
        known = self._encodings.get(attribute)
        if known is None:
            start = len(self._parts)
            self._print_text(attribute)
            text = "".join(self._parts[start:])
            del self._parts[start:]
            count = sum(name.rstrip("0123456789") == f"#{alias}" for name, _ in
                        self._encodings.values())  # fmt: skip
            known = self._encodings[attribute] = f"#{alias}{count or ''}", text
        self._parts.append(known[0])

    def _print_text(self, attribute: Any) -> None:
        if type(attribute) is DenseIntOrFPElementsAttr:
            self._print_dense(attribute)
        elif type(attribute) is TensorType:
            self._print_tensor(attribute)
        else:
            super().print_attribute(attribute)

    def _print_location(self, location: Attribute) -> None:
        self._parts.append(f"loc({self._reference(location)})")

    def _reference(self, location: Attribute) -> str:
        self._aliases_used += 1
        known = self._references.get(id(location))
        if known is not None:
            return known[1]
        text = location_text(location, self._reference)  # its parts are numbered first
        number = len(self._aliases)
        alias = self._aliases.setdefault(text, f"#loc{number or ''}")
        self._references[id(location)] = location, alias
        return alias

    def _print_tensor(self, type: TensorType[Any]) -> None:
        dimensions = "".join(f"{'?' if n == DYNAMIC_INDEX else n}x" for n in type.get_shape())
        self._parts.append(f"tensor<{dimensions}")
        self.print_attribute(type.element_type)
        if ir.encoding_of(type) is not None:
            self._parts.append(", ")
            self.print_attribute(type.encoding)
        self._parts.append(">")

    def _print_dense(self, attribute: DenseIntOrFPElementsAttr[Any]) -> None:
        element, shape = attribute.type.element_type, attribute.get_shape()
        data, dtype = attribute.data.data, ir.numpy_dtype(element)
        values = np.frombuffer(data, dtype)
        if data and data == data[: dtype.itemsize] * len(values):
            text = _element_text(values[0], element)
        elif len(values) > 100:
            text = f'"0x{data.hex().upper()}"'
        else:
            text = _list_text(values.reshape(shape), element)
        self.print_string(f"dense<{text}> : ")
        self.print_attribute(attribute.type)

    def print_string_literal(self, string: str) -> None:
        """Print a string in quotes."""
        self._parts.append(quoted(string))

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Print a number as MLIR does: six digits if that is exact, else all, else hexadecimal."""
        self.print_string(float_text(value, type))

    # Operations

    def print_op(self, op: Operation) -> None:
        """Print an op with its location."""
        if type(op) is not ModuleOp:
            super().print_op(op)
            return
        self.print_string("module")
        attributes = {**op.attributes, **op.properties}
        if attributes:
            self.print_string(" attributes")
            self.print_op_attributes(attributes)
        self.print_string(" ")
        self.print_region(op.body, print_empty_block=False)
        self._print_location_of(op)

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        """Print a region in braces; its blocks, but for the entry, with their labels."""
        for index, block in enumerate(region.blocks):
            if block not in self._blocks:
                self._populate_block_name(block, index)
        self.print_string("{")
        for block in region.blocks:
            empty = print_empty_block and block.is_empty
            if not _is_entry(block) or (block.args and print_entry_block_args) or empty:
                self._print_label(block)
            last = None if print_block_terminators else block.last_op
            self._indent += 1
            for op in ops_of(block):
                if op is last and _is_terminator(op):
                    continue
                self._print_new_line()
                if self.print_generic_format or Operation.print is type(op).print:
                    super().print_op(op)
                    continue
                # What `print_op` does of such an op, in fewer calls: regions are nested deeply.
                self._print_results(op)
                self._parts.append(op.name)
                op.print(self)
                self._print_location_of(op)
            self._indent -= 1
        self._print_new_line()
        self.print_string("}")

    def _print_label(self, block: Block) -> None:
        """Print a block's name and arguments, and which blocks lead to it."""
        self._print_new_line()
        self.print_block_name(block)
        if block.args:
            self.print_string("(")
            self.print_list(block.args, self.print_block_argument)
            self.print_string(")")
        self.print_string(":")
        if not _is_entry(block):
            self.print_string(self._predecessors_text(block))

    def _print_location_of(self, op: Operation) -> None:
        if self.print_debuginfo:
            self._parts.append(" ")
            self.print_attribute(op.location)

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        """Print a block argument with its type and, spelled out, its location."""
        self.print_ssa_value(arg)
        if print_type:
            self._parts.append(": ")
            self.print_attribute(arg.type)
            self.print_argument_location(arg)

    def print_argument_location(self, arg: BlockArgument) -> None:
        """Print ` loc(...)` if locations are printed."""
        if self.print_debuginfo:
            self._parts.append(f" loc({location_text(arg.location, self._early_reference)})")

    def _early_reference(self, location: Attribute) -> str:
        alias = self._reference(location)
        if alias not in self._early:
            self._early.add(alias)
            for part in parts_of(location):
                self._early_reference(part)
        return alias

    def _predecessors_text(self, block: Block) -> str:
        region = block.parent
        assert region is not None
        found = [
            self._get_block_name(b)
            for b in region.blocks
            if b.last_op is not None and block in b.last_op.successors
        ]
        if not found:
            return "  // no predecessors"
        count = "pred" if len(found) == 1 else f"{len(found)} preds"
        return f"  // {count}: " + ", ".join(f"^{name}" for name in found)


def _is_entry(block: Block) -> bool:
    return block.parent is not None and block.parent.blocks.first is block


def _is_terminator(op: Operation) -> bool:
    return any(type(t).__name__ == "IsTerminator" for t in op.traits.traits)


def _scopes(region: Region) -> Iterator[Operation]:
    """The ops in a region with regions of their own, whose values are known only there."""
    for op in (op for block in region.blocks for op in ops_of(block) if op.regions):
        if getattr(op, "scoped", True):
            yield op
        else:
            yield from _scopes(op.regions[0])


class _Names:
    """Chooses names, with MLIR's counters for numbers, arguments and conflicts."""

    def __init__(self, chosen: dict[SSAValue, str], variables: bool):
        self.chosen, self.variables = chosen, variables
        self.named: dict[int, tuple[Attribute, str | None]] = {}
        """Locations of ops and the names in them, by identity: many ops share one."""
        self.used: set[str] = set()
        self.number = self.argument = self.conflict = 0

    def nested(self) -> _Names:
        """The names for a region inside: those in use stay in use, counters go on."""
        inner = _Names(self.chosen, self.variables)
        inner.used, inner.named = set(self.used), self.named
        inner.number, inner.argument = self.number, self.argument
        inner.conflict = self.conflict
        return inner

    def name_region(self, region: Region) -> None:
        for block in region.blocks:
            entry = _is_entry(block)
            for argument in block.args:
                default = None
                if entry:
                    default = f"arg{self.argument}"
                    self.argument += 1
                hint = argument.name_hint or name_of(argument.location)
                self._choose(argument, (self.variables and hint) or default)
            for op in ops_of(block):
                self.name_results(op)
                if op.regions and not getattr(op, "scoped", True):
                    self.name_region(op.regions[0])

    def name_results(self, op: Operation) -> None:
        results = op.results
        if not results:
            return
        declared = getattr(op, "result_names", ())
        if declared and op.results[0].name_hint in (None, declared[0]):
            for result, name in zip(results, declared, strict=True):
                self._choose(result, name)
            return
        name = self._choose(results[0], self._wanted(op))
        if len(results) > 1:
            for i, result in enumerate(results):
                self.chosen[result] = f"{name}#{i}"

    def _wanted(self, op: Operation) -> str | None:
        if not self.variables:
            return getattr(op, "default_name", None)
        hint = op.results[0].name_hint
        location = op.location
        known = self.named.get(id(location))
        if known is None:
            known = self.named[id(location)] = location, name_of(location)
        named = known[1]
        if named is not None and (hint is None or named.startswith(hint + "_")):
            # xDSL cuts `_1` off a hint; the location knows the variable's whole name.
            return re.sub(r"[^\w$.-]", "_", named)
        return hint if hint is not None else getattr(op, "default_name", None)

    def _choose(self, value: SSAValue, wanted: str | None) -> str:
        if wanted is None:
            name = str(self.number)
            self.number += 1
        else:
            name = wanted
            while name in self.used:
                name = f"{wanted}_{self.conflict}"
                self.conflict += 1
            self.used.add(name)
        self.chosen[value] = name
        return name


def _list_text(values: np.ndarray, element: Attribute) -> str:
    if values.ndim == 0:
        return _element_text(values[()], element)
    return f"[{', '.join(_list_text(v, element) for v in values)}]"


def _element_text(value: Any, element: Attribute) -> str:
    if isinstance(element, AnyFloat):
        return float_text(float(value), element, value)
    if element == ir.i1:
        return "true" if value else "false"
    return str(int(value))


def float_text(value: float, type: Attribute, exact: Any = None) -> str:
    """A number as MLIR writes it: with six digits if they give the same bits back, else as many
    as the type needs, else (infinities, NaN, large integers) the bits in hexadecimal."""
    dtype = ir.numpy_dtype(type)
    held = dtype.type(value) if exact is None else exact
    if np.isfinite(held):
        precision: int = _PRECISION.get(str(dtype)) or ml_dtypes.finfo(dtype).nmant + 1  # pyright: ignore[reportUnknownVariableType]
        short = decimal_text(float(held), 6, 0, False)  # pyright: ignore[reportUnknownArgumentType]
        if dtype.type(float(short)).tobytes() == held.tobytes():
            return short
        long = decimal_text(float(held), 2 + precision * 59 // 196, 3, True)  # pyright: ignore[reportUnknownArgumentType]
        if "." in long:
            return long
    bits = int.from_bytes(np.asarray(held).tobytes(), "little")
    return f"0x{bits:0{2 * dtype.itemsize}X}"


_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def decimal_text(value: float, digits: int, padding: int, trim: bool) -> str:
    """A finite number in decimal, with the digits and the form that LLVM's `APFloat::toString`
    gives: at most `digits` digits; scientific if more than
    `padding` zeros would be needed; `trim` leaves out trailing zeros.

    LLVM truncates the exact decimal expansion to a few more bits than `digits` needs before it
    rounds; the same is done here, because the last digit can depend on it.
    """
    if value == 0:
        zero = "0.0E+0" if trim else f"0.{'0' * digits}e+00"
        return f"-{zero}" if np.signbit(value) else zero
    mantissa, exponent = np.frexp(abs(value))
    number, exponent = int(mantissa * 2**53), int(exponent) - 53
    trailing = (number & -number).bit_length() - 1
    number, exponent = number >> trailing, exponent + trailing
    power = 0  # the value is number * 10 ** power from here on
    if exponent >= 0:
        number <<= exponent
    else:
        number *= 5**-exponent
        power = exponent
    excess = number.bit_length() - (digits * 196 + 58) // 59
    removable = excess * 59 // 196 if excess > 0 else 0
    number, power = number // 10**removable, power + removable
    text = str(number)
    if len(text) > digits:
        cut = len(text) - digits
        number = number // 10**cut + (text[digits] >= "5")
        text, power = str(number), power + cut
    stripped = text.rstrip("0")
    power += len(text) - len(stripped)
    sign = "-" if value < 0 else ""
    return sign + _arrange(stripped, power, digits, padding, trim)


def _arrange(text: str, power: int, digits: int, padding: int, trim: bool) -> str:
    """The digits `text` times 10 ** `power`, plain or scientific."""
    leading = power + len(text) - 1
    if padding == 0:
        scientific = True
    elif power >= 0:
        scientific = power > padding or len(text) + power > digits
    else:
        scientific = leading < 0 and -leading > padding
    if scientific:
        rest = text[1:] or ("0" if trim else "")
        rest = rest if trim else rest.ljust(digits, "0")
        size = str(abs(leading)) if trim else f"{abs(leading):02}"
        return f"{text[0]}.{rest}{'E' if trim else 'e'}{'-' if leading < 0 else '+'}{size}"
    if power >= 0:
        return text + "0" * power
    if leading >= 0:
        return f"{text[: leading + 1]}.{text[leading + 1 :]}"
    return "0." + "0" * (-leading - 1) + text
