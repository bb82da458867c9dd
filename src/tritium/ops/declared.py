"""The declared structure of an op class: its operands and attributes, and how an op is built."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.errors import OpError
from tritium.ir.graph import Result, by_identity, set_operands
from tritium.ops.fields import AttrField, OperandField, i32_array

OpT = TypeVar("OpT", bound="DeclaredOp")

SEGMENTS = "operandSegmentSizes"
NOTHING: Mapping[str, Attribute] = {}


class OpMeta(ABCMeta):
    """The class of op classes. What is an instance of one is decided by inheritance alone, since no
    class is registered with one (`ABCMeta.register`): a fifth of the time of `ABCMeta`'s answer."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class DeclaredOp(Operation, metaclass=OpMeta):
    """An op whose class declares operands, attributes and their text; `Op` adds what it does."""

    __hash__, __eq__ = by_identity
    operands: Any = property(attrgetter("_operands"), set_operands)
    next_op: Any = property(attrgetter("_next_op"))
    prev_op: Any = property(attrgetter("_prev_op"))

    @property
    def operand_types(self) -> tuple[Attribute, ...]:
        return tuple([operand.type for operand in self.operands])

    @property
    def result_types(self) -> tuple[Attribute, ...]:
        return tuple([result.type for result in self.results])

    syntax: ClassVar[str | None] = None
    """The custom syntax, in the notation of `ops/syntax.py`; None for MLIR's generic form."""

    operand_fields: ClassVar[tuple[OperandField, ...]] = ()
    attr_fields: ClassVar[Mapping[str, AttrField[Any]]] = {}
    attr_defaults: ClassVar[Mapping[str, Any]] = {}
    segmented: ClassVar[bool] = False
    """True if the operand groups cannot be told from their number alone."""
    takes_result: ClassVar[bool] = False
    _leading: ClassVar[Mapping[str, int]] = {}
    """The positions of the operands before the first optional or variadic one."""

    short_result: ClassVar[type[Attribute] | None] = None
    """The class of the result's type where the custom syntax leaves its name out."""

    result_names: ClassVar[tuple[str, ...]] = ()
    """Default names of several results, printed `%a, %b = ` rather than `%0:2 = `."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = [base for base in cls.__bases__ if issubclass(base, DeclaredOp)]
        operands = dict.fromkeys(f.name for base in inherited for f in base.operand_fields)
        attrs: dict[str, AttrField[Any]] = {}
        for name, field in (item for base in inherited for item in base.attr_fields.items()):
            attrs.setdefault(name, field)
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

    @property
    def default_name(self) -> str | None:
        """Default name of the only result."""
        return None

    @classmethod
    def infer(cls, *types: Any, **attrs: Any) -> Sequence[Attribute] | Attribute | None:
        """The result type (or types; None for none) for these types of operands and attributes.

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
        inferred: Any = cls.infer(*types, **values)
        if inferred is None:
            return ()
        return tuple(cast(Any, inferred)) if isinstance(inferred, (tuple, list)) else (inferred,)

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
    def create(
        cls: type[OpT],
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = NOTHING,
        attributes: Mapping[str, Attribute] = NOTHING,
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> OpT:
        """Make an op as xDSL's `create`, which takes twice as long for the setters it calls."""
        op = cls.__new__(cls)
        set_operands(op, operands)
        results = tuple([Result(type, op, i) for i, type in enumerate(result_types)])
        op.results = cast(Any, results)
        op.properties, op.attributes = dict(properties), dict(attributes)
        op.location = UNKNOWN_LOC if location is None else location
        op.regions = ()
        if successors:
            op.successors = successors
        for region in regions:
            op.add_region(region)
        return op

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

    def operand_groups(self) -> list[tuple[SSAValue, ...]]:
        """The operands by declared field, in order."""
        operands, fields = tuple(self.operands), self.operand_fields
        if len(self._leading) == len(fields) == len(operands):
            return [(operand,) for operand in operands]
        sizes: Any = self.properties.get(SEGMENTS)
        if sizes is not None:
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

    @property
    def leading_operands(self) -> Sequence[SSAValue]:
        """The operands before the first optional or variadic one."""
        return self.operands[: len(self._leading)]

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
    @cache
    def operand_names(cls) -> tuple[str, ...]:
        """The names of the declared operands, in order."""
        return tuple(field.name for field in cls.operand_fields)

    @classmethod
    @cache
    def operand_kind(cls, name: str) -> str:
        """"one", "optional" or "variadic"."""
        return next(f.kind for f in cls.operand_fields if f.name == name)

    def operand_values(self, name: str) -> tuple[SSAValue, ...]:
        """The operands declared under `name`, none where an optional one is absent."""
        found = self.operand_group(name)
        return found if isinstance(found, tuple) else () if found is None else (found,)
