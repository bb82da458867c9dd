"""The class that every op of every dialect derives from.

An op is stated once. Its class says: the name; the operands and attributes; `infer`, which gives
the result types or raises `OpError` (and so is the frontend's check and the verifier at once);
`evaluate`, its meaning on NumPy arrays; and its effects. Everything else reads these: the printer
and parser (`syntax`), the interpreter, constant folding, generated tests, passes, lowerings.

xDSL supplies the SSA graph (`xdsl.ir.Operation`); its declarative op definitions are not used
because they cost some 20 µs an op and a second at import for a dialect of this size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeGuard, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.irdl import OpTraits
from xdsl.traits import NoTerminator, OpTrait
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops import syntax as custom_syntax
from tritium.ops.axis_info import AxisInfo
from tritium.ops.declared import DeclaredOp
from tritium.ops.effects import Action, Effect, Effects, Resource, only_read

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from tritium.ir.layouts.encodings import Encoding
    from tritium.ops.memory import Context


class Movement(Enum):
    """The order of elements in the results of an op that only moves elements of its operands."""

    IN_ORDER = "in row-major order, each once or repeated along axes"
    REORDERED = "in another order, or not all of them"


class ControlEdge(NamedTuple):
    """A way that control takes into, between or out of the regions of an op, or to a block, and
    the values that it takes along."""

    source: Operation
    """The op itself, or a terminator in its regions."""
    values: Sequence[SSAValue]
    targets: Sequence[SSAValue]
    """Arguments of a block, or results of the op."""


Range = tuple[int, int]
"""The least and the largest number that something can be."""

REGISTRY: dict[str, type[Op]] = {}
"""Every op class by name. Filled as dialect modules are imported."""


def _blocks(op: Operation, reverse: bool = False) -> Iterator[Block]:
    """The blocks of the regions of an op."""
    order: Any = reversed if reverse else iter
    return (block for region in order(op.regions) for block in order(region.blocks))


class Op(DeclaredOp):
    """Base class of ops. See the module's docstring; `docs/adding-an-op.md` walks through one."""

    name: ClassVar[str]
    traits: ClassVar[OpTraits] = OpTraits(tuple)

    effects: ClassVar[Effects] = ()
    """The op's side effects, by resource (`ops/effects.py`). Ops without
    effects may be moved, merged, dropped. `op.memory_effects()` adds those of regions."""

    recursive_effects: ClassVar[bool] = False
    """True if the op has the effects of the ops in its regions as well."""

    speculatable: ClassVar[bool] = True
    """True if a pure op may be executed where the program would not have executed it."""

    builders: ClassVar[tuple[str, ...] | None] = ()
    """The methods of the reference's builders that make the op (`language/builder_methods.py`), the
    most general one last; none for the one that is named as the op. None if it takes more than
    arguments to make it: regions, a place at the end of one, another function."""

    builder_family: ClassVar[str] = ""
    """The method by which the reference's interpreter computes all ops of the kind."""

    commutative: ClassVar[bool] = False

    cost: ClassVar[int] = 1
    """Estimated cost of one element of the results, the operands given, in simple instructions on
    vectors: what it takes to compute it again."""

    elementwise: ClassVar[bool] = False
    """True if each element of the results is computed from the elements of the operands at the same
    place (and from scalars) alone; see `op.is_elementwise`, which knows attributes."""

    piecewise: ClassVar[bool] = False
    """True if aligned groups of neighbours may be equal or consecutive in the result where an
    operand's are, though all of the tile is not: quotients, remainders, bits, choices."""

    weights: ClassVar[tuple[int, ...]] = ()
    """The result of a linear op is the sum of its operands, each times the number here (pointers
    and offsets count elements). Empty for other ops."""

    multiplies: ClassVar[bool] = False
    """True if the result is the product of the two operands, which are integers."""

    widened_operand: ClassVar[str | None] = None
    """The operand of integers of which the op may make numbers, or addresses, of more bits."""

    modular: ClassVar[bool] = False
    """True if operands that differ by multiples of `2**bits` give results that do so as well."""

    exact: ClassVar[str] = ""
    """The rule by which exact comparisons of kernels replace the op, where it has floats
    (`tritium.sanitize.exact`): the name of one; "bits" where it stays, because it looks at no
    number; "none" where the op has no meaning there. Empty for ops that only move numbers, and for
    functions of which nothing is known."""

    in_pairs: ClassVar[bool] = False
    """Some processors compute two results of the op by one instruction; the hardware says of which
    types."""

    loads_elements: ClassVar[bool] = False
    stores_elements: ClassVar[bool] = False
    """True if the op reads, or writes, the elements at the addresses `ptr` where `mask` holds, in
    any order, and does no more."""

    changes_memory: ClassVar[bool] = False
    """True if an op that reads and writes memory leaves a value there. Atomic and volatile loads,
    which count as writes in order to stay where they are, do not."""

    movement: ClassVar[Movement | None] = None
    """The order in which the op places elements of its operands; None for one that computes."""

    extracts: ClassVar[bool] = False
    """True if the result is the only element of the operand, a tile."""

    chooses: ClassVar[bool] = False
    """True if the result is the second or the third operand, or elements of both, by the first one,
    a condition."""

    repeats: ClassVar[bool] = False
    """True if the result has each element of the operand once or more, along axes of size 1 or
    that the operand lacks; the type of the result says how often."""

    reshapes: ClassVar[bool] = False
    """True if the result has the operand's elements in row-major order, in another shape."""

    is_loop: ClassVar[bool] = False
    """True if control may come back to the op's regions."""

    may_wait: ClassVar[bool] = False
    """True if it is not certain that the op, or a loop that it is part of, ends without another
    program."""

    counts_programs: ClassVar[bool] = False
    """True if the result is the program's place along the axis `axis` of the grid."""

    is_call: ClassVar[bool] = False
    """True if the op runs another function of the module."""

    concurrent: ClassVar[bool] = False
    """True if the op's regions run at the same time: the first one by the threads that run the
    code around the op, the others by threads of their own."""

    @property
    def reaches_blocks(self) -> bool:
        """True if the op accesses the shared memory of other thread blocks of the cluster, which
        must not have ended then."""
        return False

    @property
    def stores_to_blocks(self) -> bool:
        """True if the op's threads write to the shared memory of other thread blocks of the
        cluster, which must have begun then."""
        return False

    @property
    def tile_memory(self) -> SSAValue | None:
        """The shared memory whose elements are the result as they are; None for other ops."""
        return None

    @property
    def synchronizes(self) -> bool:
        """True if all threads of the program come to the op, and all memory is as they left it,
        before one of them executes it."""
        return False

    scoped: ClassVar[bool] = True
    """True if what the op's regions define is known only inside of them."""

    tile_source: ClassVar[bool] = False
    """True if the op makes a tile of nothing, or of scalars."""

    is_constant: ClassVar[bool] = False
    """True if the op only states its result, which is the same wherever and whenever it runs."""

    changes_layout: ClassVar[bool] = False
    """True if the result is the operand, distributed over threads in another way."""

    per_operand: ClassVar[bool] = False
    """True if the op does the same for each of its operands, one after another."""

    interleaves: ClassVar[bool] = False
    """True if elements of the operands alternate along the last axis of the result."""

    memory_operands: ClassVar[tuple[str, ...]] = ()
    """The operands whose memory the results stand for: results are pointers into it, or views."""

    follows_layout: ClassVar[bool] = False
    """True if the layouts of tile operands and results determine each other; those of elementwise
    ops do as well."""

    layouts_from: ClassVar[Literal["operands", "results"] | None] = None
    """The layouts that those of results, or of operands, are found from (`result_layout`,
    `operand_layouts`) if all that is known is the shape of tiles."""

    capabilities: ClassVar[Range] = 0, 999
    """The first and the last compute capability (90: sm_90) of NVIDIA GPUs that have the op's
    instruction."""

    takes_any_layout: ClassVar[bool] = False
    """True if tile operands may have any layout, which says nothing about that of the results."""

    whole_operands: ClassVar[tuple[str, ...]] = ()
    """The operands any element of which an element of the results may depend on."""

    reads_operand_types: ClassVar[bool] = False
    """True if `evaluate` looks at the types of operands, which are then there in any case."""

    placed_by: ClassVar[str | None] = None
    """The operand whose layout the results have, while that of the other ones is free."""

    def __init_subclass__(cls, traits: Sequence[OpTrait] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if traits:
            chosen = tuple(traits)
            cls.traits = OpTraits(lambda: chosen)
        if cls.syntax is not None and "print" not in vars(cls):
            cls.print = custom_syntax.print_op  # pyright: ignore[reportAttributeAccessIssue]
            cls.parse = classmethod(custom_syntax.parse_op)  # pyright: ignore
        if "name" in vars(cls):
            known = REGISTRY.setdefault(cls.name, cls)
            assert known is cls or known.__qualname__ == cls.__qualname__, f"{cls.name} twice"

    # Access

    @classmethod
    def lacking(cls, arch: int) -> str | None:
        """Why a GPU of a compute capability has no such instruction; None if it has."""
        first, last = cls.capabilities
        if first <= arch <= last:
            return None
        upto = {999: " and later", first: ""}.get(last, f" to sm_{last}")
        return f"an instruction of sm_{first}{upto}; the target is sm_{arch}"

    @property
    def result(self) -> SSAValue:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results"
        return self.results[0]

    def walk(self, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
        """Iterate over this op and all in its regions, as xDSL's `walk`; the time that each takes
        does not depend on how deeply it is nested."""
        if not region_first:
            yield self
        owner: Operation = self
        blocks, op = _blocks(self, reverse), cast("Any", None)
        pending: list[tuple[Operation, Iterator[Block], Operation | None]] = []
        while True:
            if op is None:
                block = next(blocks, None)
                if block is not None:
                    op = block.last_op if reverse else block.first_op
                    continue
                if region_first:
                    yield owner
                if not pending:
                    return
                owner, blocks, op = pending.pop()
                continue
            # The fields behind `prev_op` and `next_op`: this is what most passes begin with.
            here, op = op, op._prev_op if reverse else op._next_op
            if not here.regions:
                yield here
                continue
            if not region_first:
                yield here
            pending.append((owner, blocks, op))
            owner, blocks, op = here, _blocks(here, reverse), None

    def own_effects(self) -> Effects:
        """The effects of this op without those of its regions; attributes may add to `effects`."""
        return self.effects

    def memory_effects(self, known: dict[Operation, Effects] | None = None) -> Effects:
        """The op's effects, those of the ops in its regions included where it has them. `known`
        keeps the effects of ops with regions from one call to the next."""
        own = self.own_effects()
        if not self.recursive_effects:
            return own
        if known is not None and self in known:
            return known[self]
        found = dict.fromkeys(own)
        for block in _blocks(self):
            for op in ops_of(block):
                if isinstance(op, Op):
                    found.update(dict.fromkeys(op.memory_effects(known)))
        if known is not None:
            known[self] = tuple(found)
        return tuple(found)

    @property
    def is_elementwise(self) -> bool:
        """True if this op is elementwise; attributes may restrict what the class says."""
        return self.elementwise

    @property
    def keeps_places(self) -> bool:
        """True if each element of the results is, or is computed from, elements of the operands at
        the same place of the tile; another thread may have it."""
        return self.is_elementwise or self.changes_layout

    @property
    def is_speculatable(self) -> bool:
        """True if this op is speculatable; operands may allow more than the class says."""
        return self.speculatable

    @property
    def is_constant_memory(self) -> bool:
        """True if the op allocates memory, fills it, and nothing changes it afterwards."""
        return False

    @property
    def is_pure(self) -> bool:
        """True if the op only computes its results."""
        return not self.memory_effects()

    @property
    def only_reads(self) -> bool:
        """True if the op has no effects but reads."""
        return only_read(self.memory_effects())

    def writes(self, resource: Resource) -> bool:
        """True if the op may write the resource."""
        return any(
            effect.action is Action.WRITE and effect.resource is resource
            for effect in self.memory_effects()
        )

    def forwarded_values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """(source, target) for each value that the op hands on unchanged: along `control_edges`,
        or as a choice gives one of its alternatives."""
        for edge in self.control_edges():
            yield from zip(edge.values, edge.targets, strict=True)

    def control_edges(self) -> Iterator[ControlEdge]:
        """The ways of control into, between and out of the op's regions, or to other blocks."""
        return iter(())

    def tied_values(self) -> list[tuple[SSAValue, ...]]:
        """The arguments of blocks and the results that always take the same value from
        `control_edges`, such as what a loop carries and what it gives."""
        targets: dict[Operation, list[Sequence[SSAValue]]] = {}
        for edge in self.control_edges():
            targets.setdefault(edge.source, []).append(edge.targets)
        tied = (values for lists in targets.values() for values in zip(*lists, strict=True))
        return list(dict.fromkeys(tied))

    @property
    def counting(self) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue] | None:
        """The counter of a loop, its bounds, and its step; None for other ops."""
        return None

    @property
    def controls(self) -> bool:
        """True if control goes into, between or out of the op's regions: of loops and choices."""
        return bool(self.regions) and any(self.control_edges())

    def memory_edges(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """(source, target) such that the target may stand for memory that the source stands for:
        `forwarded_values`, and results with what `memory_operands` names."""
        yield from self.forwarded_values()
        for name in self.memory_operands:
            for source in self.operand_values(name):
                yield from ((source, result) for result in self.results)

    def surely_runs(self, region: Region) -> bool:
        """True if a region of the op runs at least once whenever the op does."""
        return False

    def isolates(self, region: Region) -> bool:
        """True if a region of the op sees, of the values from outside, constants alone: what runs
        it has no others."""
        return False

    def source_axes(self) -> Sequence[int | None] | None:
        """For each axis of the result, the axis of the first operand along which its elements run;
        None for an axis along which elements repeat. None for an op that does not just repeat an
        operand along axes and permute them."""
        return None

    def stated_number(self) -> int | None:
        """The number that is all of the op's result, where attributes alone say so."""
        return None

    def spacing(self, axis: int) -> int | None:
        """The difference of neighbours, as signed numbers, along an axis of the tile that an op
        makes of nothing; None where there is not one."""
        return None

    @property
    def permuted_axes(self) -> tuple[int, ...] | None:
        """For each axis of the result, that of the first operand, for an op that only permutes the
        axes of a tile; None for others."""
        return None

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        """The facts about the op's only result along each axis, by those about its operands."""
        type = self.results[0].type
        return facts.uniform(type, operands) if self.is_elementwise else facts.unknown(type)

    def counter_info(self, of: Callable[[SSAValue], AxisInfo]) -> dict[SSAValue, AxisInfo]:
        """The facts about arguments of blocks that the op computes and no edge of control passes,
        by those about other values."""
        return {}

    @property
    def has_interval(self) -> bool:
        """True if the op says of the interval of its result more than its type does."""
        return self.movement is not None or type(self).interval is not Op.interval

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        """The interval of the elements of the only result, by those of the operands."""
        type = self.results[0].type
        if self.movement is None:
            return algebra.unknown(type)
        moved = [v for name in self.memory_operands for v in self.operand_values(name)]
        known = dict(zip(self.operands, operands, strict=True))
        return intervals.union(algebra, type, *(known[v] for v in moved))

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        """The layouts that tile operands need for the results to have this one."""
        return [result if isinstance(v.type, TensorType) else None for v in self.operands]

    def result_layout(self, operand: Encoding) -> Encoding | None:
        """The layout of the results where tile operands have this one; None if there is none."""
        return operand

    @property
    def ordered_axis(self) -> int | None:
        """The axis along which a thread must hold its elements in order, and warps theirs, for the
        op to be done; None if any layout will do."""
        return None

    @property
    def separate_axis(self) -> int | None:
        """The axis along which no bits of a layout may move that move along another one, or more
        bits than it takes, for the op to be done; None if any layout will do."""
        return None

    @property
    def neighbours(self) -> int:
        """Elements next to each other in row-major order that one thread must hold together."""
        return 1

    def most_arrivals(self) -> float:
        """The most arrivals of the op at a barrier that an effect of it names."""
        return inf

    def expected_bytes(self) -> int:
        """The bytes that the op adds to those that the current phase of its barrier waits for;
        negative where the op copies them."""
        return 0

    @property
    def phase_arrivals(self) -> int | None:
        """The arrivals that end a phase of the mbarrier that the op makes, if it makes one."""
        return None

    publishes_stores: ClassVar[bool] = False
    """The op makes what its threads stored to shared memory visible to the async proxy."""

    @property
    def left_in_flight(self) -> int:
        """The newest groups of a queue that may stay in flight when the op has waited for it."""
        return 0

    def affected(self, effect: Effect) -> tuple[SSAValue, ...]:
        """The operands or results that an effect of this op names; none where it names none, and
        where an optional operand is absent."""
        if effect.value is None:
            return ()
        if effect.value not in self.operand_names():
            return tuple(self.results)
        return self.operand_values(effect.value)

    # Meaning

    def evaluate(self, context: Context, *values: Any, **never: Any) -> Any:
        """The op's meaning: results for these operand values (a value, a tuple of several, or
        None). Values are NumPy arrays of `numpy_dtype(type)`: 0-d or NumPy scalars for scalars,
        uint64 for pointers; an absent optional operand is None, a variadic one a tuple. Must not
        look at `self.operands` (the interpreter builds ops without any), and at their types only
        where `reads_operand_types` says so."""
        raise NotImplementedError(f"{self.name} has no reference semantics")

    def numpy_function(self) -> Any:
        """The NumPy function that alone computes an elementwise op, None if there is none."""
        compute = getattr(self, "compute", None)
        return compute if isinstance(compute, np.ufunc) else None

    # Verification

    def verify(self, verify_nested_ops: bool = True) -> None:
        """Check the op and those in its regions, however deep they are nested."""
        for op in self.walk(region_first=True) if verify_nested_ops else (self,):
            for region in op.regions:
                block = region.first_block
                empty = block is not None and block is region.last_block and block.is_empty
                if empty and not op.has_trait(NoTerminator):
                    raise VerifyException(f"{op.name}: a region has no terminator")
            block = op.parent
            last = block is None or block.last_op is op
            if last or op.successors or ErasedSSAValue in map(type, op.operands):
                Operation.verify(op, verify_nested_ops=False)
                continue
            try:  # all else that xDSL checks
                op.verify_()
            except VerifyException as error:
                op.emit_error(f"Operation does not verify: {error}", error)

    def verify_(self) -> None:
        types, fields = self.operand_types, self.operand_fields
        if len(self._leading) != len(fields):
            types = self._grouped(types)
        elif len(types) != len(fields):
            raise VerifyException(f"{self.name}: wrong number of operands: {len(types)}")
        found = self.result_types
        given = {n: f.get(self) for n, f in self.attr_fields.items() if n in self.properties}
        try:
            expected = self.result_types_for(types, given, found[0] if len(found) == 1 else found)
        except OpError as error:
            raise VerifyException(str(error)) from error
        if expected != found:
            raise VerifyException(
                f"{self.name}: result types are ({', '.join(map(str, found))}); "
                f"its operands give ({', '.join(map(str, expected))})"
            )
        self.verify_structure()

    def _grouped(self, operands: Sequence[Attribute]) -> list[Any]:
        """The types of the operands by declared field."""
        groups = self.operand_groups()
        if len(groups) != len(self.operand_fields) or sum(map(len, groups)) != len(operands):
            raise VerifyException(f"{self.name}: wrong number of operands: {len(operands)}")
        types: list[Any] = []
        for field, group in zip(self.operand_fields, groups, strict=True):
            if field.kind == "variadic":
                types.append(tuple(v.type for v in group))
            elif field.kind == "one" and len(group) != 1:
                raise VerifyException(f"{self.name}: operand '{field.name}' is missing")
            else:
                types.append(group[0].type if group else None)
        return types

    def verify_structure(self) -> None:
        """Further invariants (of regions, say); raises `VerifyException`."""

    if TYPE_CHECKING:
        # Assigned by __init_subclass__ for ops with a custom syntax.
        def print(self, printer: Printer) -> None: ...
        @classmethod
        def parse(cls, parser: Parser) -> Any: ...


def is_constant(value: SSAValue) -> bool:
    """True if an op that only states it defines a value."""
    return isinstance(value.owner, Op) and value.owner.is_constant


def repeated(value: SSAValue) -> SSAValue | None:
    """The scalar or the tile that the op of a value repeats in it; None where it does not."""
    op = value.owner
    return op.operands[0] if isinstance(op, Op) and op.repeats else None


def permutes(op: object) -> TypeGuard[Op]:
    """True if an op only permutes the axes of a tile."""
    return isinstance(op, Op) and op.permuted_axes is not None


def changes_layout(op: object) -> TypeGuard[Op]:
    """An op only distributes a tile over threads in another way."""
    return isinstance(op, Op) and op.changes_layout


def retypes_pointers(op: object) -> TypeGuard[Op]:
    """True if an op gives pointers another type of elements of the same size, as it takes to store
    booleans: the same tile of memory."""
    if not isinstance(op, Op) or not op.is_elementwise or len(op.operands) != 1:
        return False
    before, after = op.operands[0].type, op.results[0].type
    if not (ir.is_pointer(before) and ir.is_pointer(after)):
        return False
    return ir.pointee_bytes(before) == ir.pointee_bytes(after)
