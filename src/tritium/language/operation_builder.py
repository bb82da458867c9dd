"""The reference's builder of single operations (`_semantic.builder`), for any op.

A method's name and arguments are those that the op's class states (`builder_methods.py`).
Operands and results are handles of tensors, types those of IR or of the language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.language.builder_methods import Maker, makers
from tritium.language.emitter import current
from tritium.ops.base import Op


class Making(NamedTuple):
    """The op that a builder's method is called for."""

    cls: type[Op]
    operands: Sequence[Any]
    """Handles, tuples of them, or None, by the fields of the class."""
    attributes: Mapping[str, Any]
    result: Any
    """The type of the result where the class takes it."""
    given: Mapping[str, Any]
    """The method's arguments by name."""


class BuilderMethod:
    """A method of a builder that makes ops: of the first of some classes that takes its arguments.

    Args:
        builder: what the method is of.
        name: the method's name.
    """

    def __init__(self, builder: OperationBuilder, name: str):
        self.builder, self.__name__ = builder, name

    def __call__(self, *args: object, **kwargs: object) -> object:
        """The op's result, results or None. Raises `TypeError` for other arguments than the method
        takes, `OpError` for what the op does not."""
        refused: OpError | None = None
        for maker in self.builder.candidates(self.__name__):
            try:
                making = self._making(maker, args, kwargs)
                return self.builder.make(maker, making)
            except OpError as error:
                refused = refused or error
        raise refused or TypeError(f"{self.__name__}: no operation takes {args}")

    def _making(self, maker: Maker, args: Sequence[object], kwargs: Mapping[str, object]) -> Making:
        names = maker.method.arguments
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or set(given) - set(names):
            raise TypeError(
                f"{self.__name__}() takes ({', '.join(names)}); {len(args)} arguments"
                + "".join(f", {name}=" for name in kwargs) + " were given"
            )  # fmt: skip
        for name, value in given.items():
            if name in ("True", "False") and bool(value) != (name == "True"):
                raise OpError(f"{maker.cls.name}: not made with {value!r}")
        cls = maker.cls
        handles = {n: self._handles(given.get(n)) for n in cls.operand_names()}
        attributes = dict(maker.attributes)
        attributes |= {
            n: given[n] for n in cls.attr_fields if n in given and given[n] is not None
        }  # fmt: skip
        result = self._result(cls, given, handles)
        return Making(cls, list(handles.values()), attributes, result, given)

    def _handles(self, value: object) -> object:
        if isinstance(value, (list, tuple)):
            return tuple(self.builder.handle(member) for member in value)  # pyright: ignore
        return None if value is None else self.builder.handle(value)

    @staticmethod
    def _result(
        made: type[Op], arguments: Mapping[str, object], handles: Mapping[str, object]
    ) -> ir.Type | None:
        if not made.takes_result:
            return None
        given: Any = arguments
        first: Any = next(iter(handles.values()), None)
        if "block_shape" in given:
            return ir.pointer_to(ir.tensor_of(tuple(given["block_shape"]), first.type.pointee))
        if "shape" in given and "shape" not in handles:
            return ir.tensor_of(tuple(given["shape"]), ir.element_type(first.type))
        found: Any = given.get("result")
        return found.to_ir() if hasattr(found, "to_ir") else found


class OperationBuilder:
    """See the module."""

    def __getattr__(self, name: str) -> BuilderMethod:
        if not name.startswith("_") and name in makers():
            return BuilderMethod(self, name)
        if name.startswith(("create_", "get_", "set_")):
            raise NotImplementedError(
                f"{type(self).__name__}.{name}: not built; the functions of tritium.language build "
                "operations, classes of tritium.ops evaluate them"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def candidates(self, name: str) -> Iterator[Maker]:
        """The classes that a method may make, in the order in which they are tried."""
        return iter(makers()[name])

    def handle(self, value: object) -> object:
        """A method's argument as the handle of a tensor."""
        return value

    def make(self, maker: Maker, making: Making) -> object:
        """Make the op: its result, a tuple of several, or None."""
        cls, operands, attributes, result, _ = making
        made = current().emit(cls, *operands, result=result, **attributes)
        return made[0] if len(made) == 1 else tuple(made) or None
