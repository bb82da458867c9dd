"""The class that every op of every dialect derives from.

An op is stated once. Its class says: the name; the operands and attributes; `infer`, which gives
the result types or raises `OpError` (and so is the frontend's check and the verifier at once);
`evaluate`, its meaning on NumPy arrays; and its effects. Everything else reads these: the printer
and parser (`syntax`), the interpreter, constant folding, generated tests, passes, lowerings.

xDSL supplies the SSA graph (`xdsl.ir.Operation`); its declarative op definitions are not used
because they cost some 20 µs an op and a second at import for a dialect of this size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import OpTraits
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ops import axis_info as facts
from tritium.ops import syntax as custom_syntax
from tritium.ops.axis_info import AxisInfo
from tritium.ops.effects import Action, Effect, Effects, Resource, only_read
from tritium.ops.fields import AttrField, OperandField, i32_array

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from tritium.ops.evaluation import Context

OpT = TypeVar("OpT", bound="Op")

REGISTRY: dict[str, type[Op]] = {}
"""Every op class by name. Filled as dialect modules are imported."""

SEGMENTS = "operandSegmentSizes"


class Op(Operation):
    """Base class of ops. See the module's docstring; `docs/adding-an-op.md` walks through one."""

    name: ClassVar[str]
    traits: ClassVar[OpTraits] = OpTraits(tuple)

    effects: ClassVar[Effects] = ()
    """The op's side effects, by resource (`ops/effects.py`). Ops without
    effects may be moved, merged, dropped. `op.memory_effects()` adds those of regions."""

    recursive_effects: ClassVar[bool] = False
    """Whether the op has the effects of the ops in its regions as well."""

    speculatable: ClassVar[bool] = True
    """Whether a pure op may be executed where the program would not have executed it."""

    commutative: ClassVar[bool] = False

    elementwise: ClassVar[bool] = False
    """Whether each element of the results is computed from the elements of the operands at the same
    place (and from scalars) alone; see `op.is_elementwise`, which knows attributes."""

    tile_source: ClassVar[bool] = False
    """Whether the op makes a tile of nothing, or of scalars."""

    memory_operands: ClassVar[tuple[str, ...]] = ()
    """The operands whose memory the results stand for: results are pointers into it, or views."""

    syntax: ClassVar[str | None] = None
    """The custom syntax, in the notation of `ops/syntax.py`; None for MLIR's generic form."""

    operand_fields: ClassVar[tuple[OperandField, ...]] = ()
    attr_fields: ClassVar[Mapping[str, AttrField[Any]]] = {}
    attr_defaults: ClassVar[Mapping[str, Any]] = {}
    segmented: ClassVar[bool] = False
    """Whether the operand groups cannot be told from their number alone."""
    takes_result: ClassVar[bool] = False
    _leading: ClassVar[Mapping[str, int]] = {}
    """The positions of the operands before the first optional or variadic one."""

    short_result: ClassVar[type[Attribute] | None] = None
    """The class of the result's type where the custom syntax leaves its name out."""

    result_names: ClassVar[tuple[str, ...]] = ()
    """Default names of several results, printed `%a, %b = ` rather than `%0:2 = `."""

    def __init_subclass__(cls, traits: Sequence[OpTrait] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        operands = dict.fromkeys(f.name for f in cls.operand_fields)
        attrs = dict(cls.attr_fields)
        for name, field in vars(cls).items():
            if isinstance(field, OperandField):
                operands[name] = None
            elif isinstance(field, AttrField):
                attrs[name] = field
        cls.operand_fields = tuple(getattr(cls, name) for name in operands)
        cls.attr_fields = attrs
        cls.attr_defaults = {n: f.default for n, f in attrs.items() if not f.required}
        cls.segmented = sum(f.kind != "one" for f in cls.operand_fields) > 1
        leading = takewhile(lambda f: f.kind == "one", cls.operand_fields)
        cls._leading = {field.name: position for position, field in enumerate(leading)}
        infer = cls.infer.__func__.__code__  # pyright: ignore[reportAttributeAccessIssue]
        arguments = infer.co_varnames[: infer.co_argcount + infer.co_kwonlyargcount]
        cls.takes_result = "result" in arguments
        if traits:
            chosen = tuple(traits)
            cls.traits = OpTraits(lambda: chosen)
        if cls.syntax is not None and "print" not in vars(cls):
            cls.print = custom_syntax.print_op  # pyright: ignore[reportAttributeAccessIssue]
            cls.parse = classmethod(custom_syntax.parse_op)  # pyright: ignore
        if "name" in vars(cls):
            known = REGISTRY.setdefault(cls.name, cls)
            assert known is cls or known.__qualname__ == cls.__qualname__, f"{cls.name} twice"

    # Construction

    @classmethod
    def infer(cls, *types: Any, **attrs: Any) -> Sequence[Attribute] | Attribute:
        """The result type (or types) for operands of these types and these attribute values.

        Called with one argument an operand, in order: its type, None where an optional one is
        absent, a tuple for a variadic one; attributes as keyword arguments, in their Python form.
        An op whose result type is not determined by its operands takes a keyword `result`: the
        requested type (or types), which it checks and returns. Raises `OpError`.
        """
        raise NotImplementedError(f"{cls.name} does not define infer")

    @classmethod
    def read_attributes(cls, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        """The attributes of an op in a text, where another release writes them differently."""
        return attributes

    @classmethod
    def result_types_for(
        cls, types: Sequence[Any], attrs: Mapping[str, Any], result: Any = None
    ) -> tuple[Attribute, ...]:
        """`infer`, with defaults filled in and the result always a tuple. Errors name the op."""
        values = {**cls.attr_defaults, **attrs}
        if len(values) != len(cls.attr_fields):
            missing = ", ".join(f"'{n}'" for n in cls.attr_fields if n not in values)
            raise OpError(f"{cls.name}: attribute {missing} is missing")
        if cls.takes_result:
            values["result"] = result
        inferred = cls.infer(*types, **values)
        return (inferred,) if isinstance(inferred, Attribute) else tuple(inferred)

    @classmethod
    def build(
        cls: type[OpT],
        *operands: SSAValue | Sequence[SSAValue] | None,
        result: Any = None,
        regions: Sequence[Region] = (),
        location: LocationAttr | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        successors: Sequence[Block] = (),
        **attrs: Any,
    ) -> OpT:
        """Make the op, its result types inferred.

        Operands are given in their declared order: a value, None for an absent optional one, a
        sequence for a variadic one. Raises `OpError` where `infer` does.
        """
        flat, types, sizes = cls._flatten(operands)
        properties: dict[str, Attribute] = {}
        for name, value in attrs.items():
            field = cls.attr_fields.get(name)
            assert field is not None, f"{cls.name} has no attribute {name}"
            # Defaults are not stored, so that equal ops have equal properties.
            if field.required or value != field.default:
                properties[name] = field.encode(value)
        if cls.segmented:
            properties[SEGMENTS] = i32_array(tuple(sizes))
        return cls.create(  # pyright: ignore[reportUnknownVariableType]
            operands=flat,
            result_types=cls.result_types_for(types, attrs, result),
            properties=properties,
            attributes=attributes or {},
            regions=regions,
            successors=successors,
            location=location,
        )

    @classmethod
    def _flatten(cls, operands: Sequence[Any]) -> tuple[list[SSAValue], list[Any], list[int]]:
        flat: list[SSAValue] = []
        types: list[Any] = []
        sizes: list[int] = []
        missing = len(cls.operand_fields) - len(operands)
        assert missing >= 0, f"{cls.name} takes {len(cls.operand_fields)} operands"
        for field, given in zip(cls.operand_fields, (*operands, *(None,) * missing), strict=True):
            if field.kind == "variadic":
                group = list(given or ())
                types.append(tuple(v.type for v in group))
            else:
                assert given is not None or field.kind == "optional", f"{cls.name}.{field.name}"
                group = [] if given is None else [given]
                types.append(None if given is None else given.type)
            flat += group
            sizes.append(len(group))
        return flat, types, sizes

    # Access

    def operand_groups(self) -> list[tuple[SSAValue, ...]]:
        """The operands by declared field, in order."""
        operands, fields = tuple(self.operands), self.operand_fields
        sizes = self.properties.get(SEGMENTS)
        if isinstance(sizes, DenseArrayBase):
            counts = list(sizes.get_values())
        else:
            flexible = len(operands) - sum(f.kind == "one" for f in fields)
            counts = [1 if f.kind == "one" else flexible for f in fields]
        groups: list[tuple[SSAValue, ...]] = []
        start = 0
        for count in counts:
            groups.append(operands[start : start + count])
            start += count
        return groups

    def operand_group(self, name: str) -> SSAValue | tuple[SSAValue, ...] | None:
        """The operand (or operands) declared under `name`."""
        position, operands = self._leading.get(name), self.operands
        if position is not None and position < len(operands):
            return operands[position]
        for field, group in zip(self.operand_fields, self.operand_groups(), strict=True):
            if field.name == name:
                return group if field.kind == "variadic" else (group[0] if group else None)
        raise AttributeError(f"{self.name} has no operand '{name}'")

    @classmethod
    def operand_names(cls) -> list[str]:
        """The names of the declared operands, in order."""
        return [f.name for f in cls.operand_fields]

    @classmethod
    def operand_kind(cls, name: str) -> str:
        """"one", "optional" or "variadic"."""
        return next(f.kind for f in cls.operand_fields if f.name == name)

    @property
    def result(self) -> SSAValue:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results"
        return self.results[0]

    def own_effects(self) -> Effects:
        """The effects of this op without those of its regions; attributes may add to `effects`."""
        return self.effects

    def memory_effects(self) -> Effects:
        """The op's effects, those of the ops in its regions included where it has them."""
        own = self.own_effects()
        if not self.recursive_effects:
            return own
        found = dict.fromkeys(own)
        for region in self.regions:
            for block in region.blocks:
                for op in block.ops:
                    if isinstance(op, Op):
                        found.update(dict.fromkeys(op.memory_effects()))
        return tuple(found)

    @property
    def is_elementwise(self) -> bool:
        """Whether this op is elementwise; attributes may restrict what the class says."""
        return self.elementwise

    @property
    def is_speculatable(self) -> bool:
        """Whether this op is speculatable; operands may allow more than the class says."""
        return self.speculatable

    @property
    def is_pure(self) -> bool:
        """Whether the op only computes its results."""
        return not self.memory_effects()

    @property
    def only_reads(self) -> bool:
        """Whether the op has no effects but reads."""
        return only_read(self.memory_effects())

    def writes(self, resource: Resource) -> bool:
        """Whether the op may write the resource."""
        return any(
            effect.action is Action.WRITE and effect.resource is resource
            for effect in self.memory_effects()
        )

    def forwarded_values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """(source, target) for each value that the op hands on unchanged: loops and branches pair
        what enters and leaves their regions, a choice its alternatives with the result."""
        return iter(())

    def memory_edges(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """(source, target) such that the target may stand for memory that the source stands for:
        `forwarded_values`, and results with what `memory_operands` names."""
        yield from self.forwarded_values()
        for name in self.memory_operands:
            for source in self.operand_values(name):
                yield from ((source, result) for result in self.results)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        """The facts about the op's only result along each axis, by those about its operands."""
        type = self.results[0].type
        return facts.uniform(type, operands) if self.is_elementwise else facts.unknown(type)

    def operand_values(self, name: str) -> tuple[SSAValue, ...]:
        """The operands declared under `name`, none where an optional one is absent."""
        found = self.operand_group(name)
        return found if isinstance(found, tuple) else () if found is None else (found,)

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
        look at `self.operands` (the interpreter builds ops without any)."""
        raise NotImplementedError(f"{self.name} has no reference semantics")

    # Verification

    def verify_(self) -> None:
        groups = self.operand_groups()
        if len(groups) != len(self.operand_fields) or sum(map(len, groups)) != len(self.operands):
            raise VerifyException(f"{self.name}: wrong number of operands: {len(self.operands)}")
        types: list[Any] = []
        for field, group in zip(self.operand_fields, groups, strict=True):
            if field.kind == "variadic":
                types.append(tuple(v.type for v in group))
            elif field.kind == "one" and len(group) != 1:
                raise VerifyException(f"{self.name}: operand '{field.name}' is missing")
            else:
                types.append(group[0].type if group else None)
        found = tuple(r.type for r in self.results)
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

    def verify_structure(self) -> None:
        """Further invariants (of regions, say); raises `VerifyException`."""

    if TYPE_CHECKING:
        # Assigned by __init_subclass__ for ops with a custom syntax.
        def print(self, printer: Printer) -> None: ...
        @classmethod
        def parse(cls, parser: Parser) -> Any: ...
