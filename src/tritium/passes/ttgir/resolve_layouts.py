"""Find the encodings that a Gluon program leaves open.

before:
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #gluon.auto_encoding>
    %j = gluon.set_auto_layout %i : ... -> tensor<128xi32, #blocked>
after:
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>

`resolve-auto-encodings` takes them from the ops that set one; `infer-coalesced-encodings` from the
addresses of loads and stores, as the pass `coalesce` would choose. From there they spread to all
values that the ops' own rules (`result_layout`, `operand_layouts`) connect.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.regions import defined, functions
from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import Encoding, linear
from tritium.ir.layouts.undecided import AutoEncoding, CoalescedEncoding, UndecidedEncoding
from tritium.ops import ttir
from tritium.ops.base import Op
from tritium.ops.gluon import SetAutoLayoutOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import erase
from tritium.passes.ttgir.clusters import num_ctas_of, split_rows
from tritium.passes.ttgir.coalesce import access_encoding
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert, convert_operand, convert_result
from tritium.passes.ttgir.layout_propagation import processor_of, retype, threads_at


@dataclass(frozen=True)
class ResolveAutoEncodings(Pass):
    """Give values of `AutoLayout` the encodings that the program sets."""

    name: ClassVar[str] = "gluon-resolve-auto-encodings"
    title: ClassVar[str] = "GluonResolveAutoEncodingsPass"

    def run(self, module: ModuleOp) -> bool:
        found = _Found(AutoEncoding)
        settings = [op for op in module.walk() if isinstance(op, SetAutoLayoutOp)]
        for op in settings:
            found.decide(op.src, ir.encoding_of(op.result.type), op)
        found.apply(module)
        for op in settings:
            source = convert(op.src, ir.encoding_of(op.result.type), op)
            op.result.replace_all_uses_with(source)
            erase(op)
        return bool(settings)


@dataclass(frozen=True)
class InferCoalescedEncodings(Pass):
    """Give values of `CoalescedLayout` the encodings that suit the accesses of memory."""

    name: ClassVar[str] = "gluon-infer-coalesced-encodings"
    title: ClassVar[str] = "GluonInferCoalescedEncodingsPass"

    def run(self, module: ModuleOp) -> bool:
        found, processor = _Found(CoalescedEncoding), processor_of(module)
        unused = [
            op for op in module.walk()
            if isinstance(op, SetAutoLayoutOp) and op.result.first_use is None
            and isinstance(ir.encoding_of(op.result.type), CoalescedEncoding)
        ]  # fmt: skip
        for op in unused:
            erase(op)  # nothing would decide its layout
        for function in functions(module):
            analysis = AxisAnalysis(function, assume_no_wrap=True)
            for op in function.walk():
                if isinstance(op, (ttir.ElementAccess, ttir.AtomicOp)) and isinstance(
                    ir.encoding_of(op.operands[0].type), CoalescedEncoding
                ):
                    cluster = split_rows(ir.shape_of(op.operands[0].type), num_ctas_of(module))
                    chosen = access_encoding(op, analysis, processor, threads_at(op), cluster)
                    found.decide(op.operands[0], chosen, op)
        found.apply(module)
        return bool(unused or found.encodings)


class _Found:
    """The encodings found so far of values whose encoding is of the class `kind`."""

    def __init__(self, kind: type[UndecidedEncoding]):
        self.kind = kind
        self.encodings: dict[SSAValue, Attribute] = {}
        self.has_synonyms = False
        """True if two encodings were found for a value, which are one layout."""

    def decide(self, value: SSAValue, encoding: Attribute, op: Operation) -> None:
        """The value has the encoding because of the op; so have those that follow from it."""
        pending: list[tuple[SSAValue, Attribute, Operation]] = [(value, encoding, op)]
        while pending:
            value, encoding, op = pending.pop()
            if not isinstance(ir.encoding_of(value.type), self.kind):
                continue
            known = self.encodings.get(value)
            if known is None:
                self.encodings[value] = encoding
                for user in _related(value):
                    pending += [(v, e, user) for v, e in _follow(user, value, encoding)]
            elif not _mean_the_same(known, encoding, ir.shape_of(value.type)):
                raise _error(op, value, f"two layouts are found for it, {known} and {encoding}")
            elif known != encoding:
                self.has_synonyms = True

    def apply(self, module: ModuleOp) -> None:
        """Write the encodings into the types. Raises `OpError` where one is not found."""
        for value, encoding in self.encodings.items():
            retype(value, encoding)
        for function in functions(module):
            for op in function.walk():
                for value in defined(op):
                    if isinstance(ir.encoding_of(value.type), self.kind):
                        raise _error(op, value, "nothing decides its layout; `set_auto_layout`, or "
                                     "an operation with a block that has a layout, does")
            if self.has_synonyms:
                for op in list(function.walk()):
                    _use_one_encoding(op, self.encodings)
            function.update_type()


def _mean_the_same(a: Attribute, b: Attribute, shape: tuple[int, ...]) -> bool:
    """True if two encodings, of which one may have come through a reshape, are one layout."""
    if not isinstance(a, Encoding) or not isinstance(b, Encoding):
        return a == b
    return a == b or linear(a, shape) == linear(b, shape)


def _error(op: Operation, value: SSAValue, message: str) -> OpError:
    name = f"%{value.name_hint}" if value.name_hint else f"the result of {op.name}"
    error = OpError(f"{name} of type {value.type}: {message}")
    error.location = op.location
    return error


def _related(value: SSAValue) -> Iterator[Operation]:
    """The ops that use or define a value."""
    for use in value.uses:
        yield use.operation
        if use.operation.parent_op() is not None:
            yield use.operation.parent_op()  # pyright: ignore[reportReturnType]
    owner = value.owner
    if isinstance(owner, Block):
        owner = owner.parent_op()
    if owner is not None:
        yield owner


def _follow(op: Operation, value: SSAValue, encoding: Any) -> Iterator[tuple[SSAValue, Attribute]]:
    """The values whose encodings follow from one of an op's, and these."""
    if not isinstance(op, Op):
        return
    for source, target in op.forwarded_values():
        if value is source:
            yield target, encoding
        elif value is target:
            yield source, encoding
    if op.controls:
        return
    if op.layouts_from is not None:
        yield from _through(op, value, encoding)
    else:
        for other in _alike(op):
            yield other, encoding


def _alike(op: Op) -> Sequence[SSAValue]:
    """The values of an op that does not change shapes which have one layout."""
    if op.takes_any_layout or op.is_call or isinstance(op, SetAutoLayoutOp):
        return ()
    if op.has_trait(IsTerminator):  # its values go to other ops, each on its own
        return ()
    placed = op.operands if op.placed_by is None else op.operand_values(op.placed_by)
    return (*placed, *op.results)


def _use_one_encoding(op: Operation, decided: Container[SSAValue]) -> None:
    """Convert operands and results among the values whose layout was found, where the op has one
    encoding for a layout and they have two."""
    if not isinstance(op, Op):
        return
    for first, *others in op.tied_values():
        for other in others if first in decided else ():
            retype(other, ir.encoding_of(first.type))
    for edge in op.control_edges():
        start = 0
        for value, target in zip(edge.values, edge.targets, strict=True):
            given = list(edge.source.operands)
            if value in given[start:]:  # else an edge to other targets has converted it
                start = given.index(value, start) + 1
                if target in decided:
                    convert_operand(edge.source, start - 1, ir.encoding_of(target.type))
    changes_shape = op.layouts_from is not None
    values = [v for v in (op.operands if changes_shape else _alike(op)) if v in decided]
    if op.controls or not values:
        return
    encoding = ir.encoding_of(values[0].type)
    for index, operand in enumerate(op.operands):
        if operand in values:
            convert_operand(op, index, encoding)
    if changes_shape:
        encoding = op.result_layout(encoding)
    for result in op.results:
        if result in decided and encoding is not None:
            convert_result(result, encoding)


def _through(op: Op, value: SSAValue, encoding: Encoding) -> Iterator[tuple[SSAValue, Attribute]]:
    """The layouts that a value's one gives to the other values of an op that changes shapes."""
    if value in op.operands:
        result = op.result_layout(encoding)
        if result is None:
            raise _error(op, value, f"{op.name} does not take {encoding}")
        for other in op.operands:
            yield other, encoding
        encoding = result
    else:
        for other, wanted in zip(op.operands, op.operand_layouts(encoding), strict=True):
            if wanted is not None:
                yield other, wanted
    for other in op.results:
        yield other, encoding
