"""`interpreter_builder`: the object whose methods `create_...` a program may replace.

Ops evaluate themselves (`Op.evaluate`). Where a program has put a function of its own in place of a
method of `interpreter_builder`, or of its class, that function gives the results instead; the
methods that make an op are those of its class, tried from the special to the general one. What a
program calls as the original method continues behind the method that it replaced.

Handles of a program's own class may stand for values that are not known, such as terms of a
solver: their `data` is no NumPy array. They pass from one of its functions to the next (`Foreign`);
an op that it has not replaced refuses them.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tritium.ir import types as ir
from tritium.language import emitter
from tritium.language.builder_methods import Maker, Method, makers, methods
from tritium.language.emitter import Evaluated
from tritium.language.operation_builder import BuilderMethod, Making, OperationBuilder
from tritium.language.values.base import as_tuple
from tritium.language.values.types import dtype, from_ir
from tritium.ops.base import Op
from tritium.ops.ttir import repetition
from tritium.ops.ttir.memory import PaddingOption, Tile


class _Handles(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Evaluated)


class TensorHandle(Evaluated, metaclass=_Handles):
    """The handle of a tensor of an interpreted kernel. All such handles are instances.

    Args:
        data: the elements; a scalar has one dimension of one. Of bfloat16 and FP8 the bits.
        dtype: the language's type of an element.

    Raises `ValueError` if the elements of `data` are wider than those of `dtype`.
    """

    def __init__(self, data: np.ndarray, dtype: dtype):
        width = 64 if dtype.is_ptr() else dtype.primitive_bitwidth
        if data.dtype != np.bool_ and data.itemsize * 8 > width:
            raise ValueError(
                f"numpy data itemsize ({data.itemsize * 8} bits) exceeds dtype primitive_bitwidth "
                f"({width} bits) for triton type {dtype}"
            )
        super().__init__(dtype.to_ir(), _stored(data, dtype.to_ir()))

    def read_as(self, type: dtype) -> Evaluated:
        """The handle of the same elements for a tensor of this type; a scalar's is one number."""
        return handle_of(self, type.to_ir()).read_as(type)


class Unknown:
    """The elements of a value of which only a program's own handle knows something."""

    def __init__(self, handle: Any):
        self.handle = handle

    def __bool__(self) -> bool:
        return bool(self.handle.data)

    def __int__(self) -> int:
        return int(self.handle.data)

    def __float__(self) -> float:
        return float(self.handle.data)


class Foreign(Evaluated):
    """The handle of an `Unknown` value: for the program, one of its own class in all but its
    Python type."""

    def __getattribute__(self, name: str) -> Any:
        found: Any = super().__getattribute__("array" if name == "__class__" else name)
        return found.handle.__class__ if name == "__class__" else found

    @property
    def data(self) -> Any:
        return self.array.handle.data

    @property
    def dtype(self) -> Any:
        return self.array.handle.dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.array.handle, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.array.handle, name, value)

    def read_as(self, type: dtype) -> Evaluated:
        return self


def _stored(data: np.ndarray, type: ir.Type) -> np.ndarray:
    """Elements as arrays of a type keep them; `data` may have the bits of bfloat16 and FP8."""
    storage = ir.numpy_dtype(type)
    bits = data.dtype.kind == "u" and data.itemsize == storage.itemsize
    return data.view(storage) if bits else data.astype(storage)


_KNOWN: Any = np.ndarray, np.generic


def handle_of(value: Any, type: ir.Type) -> Evaluated:
    """The handle of a value of a type for one that a program gave: of ours, or of its own class
    with the elements in `data`. Raises `TypeError` for what is no handle, `ValueError` for another
    number of elements."""
    if not isinstance(value, Evaluated) and not hasattr(value, "data"):
        raise TypeError(f"interpreter_builder: {value!r:.80} for a value of type {type}; a handle "
                        "with `data` and `dtype` is required")  # fmt: skip
    array = value.array if isinstance(value, Evaluated) else value.data
    if isinstance(array, Tile):
        return Evaluated(type, array)
    if isinstance(array, Unknown) or not isinstance(array, _KNOWN):
        return Foreign(type, array if isinstance(array, Unknown) else Unknown(value))
    array = _stored(np.asarray(array), type)
    shape = ir.shape_of(type)
    if array.size < 1 or (shape and array.size != prod(shape)):
        raise ValueError(f"interpreter_builder: a handle with {array.size} elements for a value of "
                         f"type {type}")  # fmt: skip
    return Evaluated(type, array.reshape(shape) if shape else array.reshape(-1)[0])


_OF_TILES = "boundaryCheck", "padding"
"""The attributes of an access that are about block pointers."""


class _Call(NamedTuple):
    """An op that a program's function is asked for in place of its `evaluate`."""

    op: Op
    attributes: Mapping[str, Any]
    position: int


class Computation:
    """The meaning of an elementwise op as a function of arrays, the argument `op` of
    `unary_op`, `binary_op` and `ternary_op`."""

    def __init__(self, op: Op, context: Any):
        self._op, self._context = op, context
        self.__name__ = op.name

    def __call__(self, *arrays: Any) -> Any:
        """The op's result for these arrays."""
        return self._op.evaluate(self._context, *arrays)


class Replaced:
    """The functions that a program has put in place of methods of the builder.

    Args:
        functions: the functions by name.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]]):
        self.functions = functions
        self.running: list[_Call] = []
        self.after: int | None = None
        """For the next op: the place of the method that a program has called."""

    def evaluate(
        self, context: Any, op: Op, operands: Sequence[Any], attrs: Mapping[str, Any],
        values: Sequence[Any],
    ) -> Any:  # fmt: skip
        """The arrays of an op's results (one, or a tuple): those of the first function in place of
        a method that makes the op, else of its own `evaluate`."""
        attributes = {**op.attr_defaults, **attrs}
        start, self.after = 0 if self.after is None else self.after + 1, None
        for position, method in enumerate(methods(type(op), attributes)[start:], start):
            function = self.functions.get(method.name)
            if function is None:
                continue
            given = _in_memory(op, operands, attributes) if method.of_tiles is False else operands
            if not _makes(method, op, given):
                continue
            self.running.append(_Call(op, attributes, position))
            try:
                given = function(*_arguments(method, op, given, attributes, context))
            finally:
                self.running.pop()
                self.after = None
            return _arrays(given, op, method.name)
        _check_known(op, attributes, values)
        found = op.evaluate(context, *values)
        return self._repeated(context, op, found) if op.is_constant else found

    def _repeated(self, context: Any, op: Op, array: Any) -> Any:
        """A constant tile: of one number the scalar repeated, if a program repeats scalars."""
        element = ir.element_type(op.results[0].type)
        cls = repetition(element)
        if np.ndim(array) == 0 or not any(m.name in self.functions for m in methods(cls, {})):
            return array
        if (array != array.flat[0]).any():
            return array
        scalar = Evaluated(element, array.flat[0])
        return context.emit(cls, scalar, result=op.results[0].type)[0].array


def _check_known(op: Op, attributes: Mapping[str, Any], values: Sequence[Any]) -> None:
    """Raise `NotImplementedError` for an op that gets `Unknown` values and is not replaced."""
    for value in (each for given in values for each in as_tuple(given)):
        if isinstance(value, Unknown):
            names = [method.name for method in methods(type(op), attributes)]
            raise NotImplementedError(
                f"interpreter_builder: {op.name} of a handle whose `data` is "
                f"{value.handle.data.__class__.__name__}, not a NumPy array; "
                + (f"only a function in place of {' or '.join(names)} can compute with it" if names
                   else "no method of the builder makes this op")
            )  # fmt: skip


def _computation(op: Op, context: Any) -> Any:
    """The computation of an elementwise op: the NumPy function, if one alone is it, else the op."""
    return op.numpy_function() or Computation(op, context)


def _in_memory(
    op: Op, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Sequence[Any]:
    """The operands of an access of a block pointer's tile with the addresses of the elements and a
    mask of those within the bounds."""
    given = dict(zip(op.operand_names(), operands, strict=False))
    tile = given["ptr"].array
    if not isinstance(tile, Tile):
        return operands
    pointee: Any = given["ptr"].type.pointee
    shape, size = ir.shape_of(pointee), ir.numpy_dtype(pointee).itemsize
    addresses, inside = tile.addresses(shape, size, attributes["boundaryCheck"])
    pointers = ir.with_element(pointee, ir.pointer_to(ir.element_type(pointee)))
    given["ptr"] = Evaluated(pointers, addresses)
    given["mask"] = Evaluated(ir.with_element(pointee, ir.i1), inside)
    if attributes.get("padding") is PaddingOption.PAD_NAN:
        given["other"] = Evaluated(pointee, np.full(shape, np.nan, ir.numpy_dtype(pointee)))
    return [given.get(name) for name in op.operand_names()]


def _makes(method: Method, op: Op, operands: Sequence[Any]) -> bool:
    """True if a method has an argument for each operand that is there, and is for such pointers."""
    if method.of_tiles and not any(isinstance(getattr(o, "array", None), Tile) for o in operands):
        return False
    given = zip(op.operand_names(), operands, strict=False)
    return all(o is None or o == () or n in method.arguments for n, o in given)


def _arguments(
    method: Method, op: Op, operands: Sequence[Any], attributes: Mapping[str, Any], context: Any
) -> list[Any]:
    given = dict(zip(op.operand_names(), operands, strict=False))
    result = op.result_types[0] if op.results else None

    def argument(name: str) -> Any:
        if name == "mask" and given.get(name) is None:
            return _full(next(iter(given.values())).type)
        if name in op.operand_names():
            return given.get(name)
        if name in attributes:
            return attributes[name]
        if name in ("True", "False"):
            return name == "True"
        if name == "op":
            return _computation(op, context)
        pointee = getattr(result, "pointee", None)
        shape = {"shape": result, "block_shape": pointee}.get(name)
        return from_ir(result) if shape is None else list(ir.shape_of(shape))  # pyright: ignore

    return [argument(name) for name in method.arguments]


def _full(pointer: ir.Type) -> Evaluated:
    """The mask of an access without one."""
    type = ir.with_element(pointer, ir.i1)
    return Evaluated(type, np.ones(ir.shape_of(type), np.bool_)[()])


def _arrays(given: Any, op: Op, name: str) -> Any:
    if not op.results:
        return None
    several = as_tuple(given)
    if len(several) != len(op.results) or any(each is None for each in several):
        raise TypeError(
            f"interpreter_builder.{name}: the function in its place returned {given!r}; "
            f"{op.name} has {len(op.results)} result(s), each a handle with `data` and `dtype`"
        )
    arrays = [handle_of(v, r.type).array for v, r in zip(several, op.results, strict=True)]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


class _Place(threading.local):
    program_id: tuple[int, int, int] = 0, 0, 0
    num_programs: tuple[int, int, int] = 1, 1, 1


_place = _Place()


class InterpreterBuilder(OperationBuilder):
    """State of the running interpreted program, and a method for each op. See the module."""

    def set_grid_idx(self, x: int, y: int, z: int) -> None:
        """Say which program runs, for one that a tool runs itself."""
        _place.program_id = x, y, z

    def set_grid_dim(self, nx: int, ny: int, nz: int) -> None:
        """Say how many programs a tool runs itself."""
        _place.num_programs = nx, ny, nz

    @property
    def grid_idx(self) -> tuple[int, int, int]:
        """The program's place in the grid. Raises `ValueError` outside of an interpreted kernel."""
        return _place.program_id if self._running().of_tool else self._running().program_id

    @property
    def grid_dim(self) -> tuple[int, int, int]:
        """The grid's sizes. Raises `ValueError` outside of an interpreted kernel."""
        return _place.num_programs if self._running().of_tool else self._running().num_programs

    @staticmethod
    def _running() -> Any:
        current: Any = emitter.current()
        if not hasattr(current, "of_tool"):
            raise ValueError("interpreter_builder: no interpreted kernel is running")
        return current

    def candidates(self, name: str) -> Iterator[Maker]:
        """The class of the op that a function in place of the method is asked for, if any."""
        known, running = makers()[name], self._call()
        asked = [m for m in known if running is not None and m.cls is type(running.op)]
        return iter(asked or known)

    def _call(self) -> _Call | None:
        replaced = self._running().replaced
        return replaced.running[-1] if replaced is not None and replaced.running else None

    def handle(self, value: Any) -> Any:
        """A method's argument, a handle of a program's own class too, as one of ours."""
        if type(value) in (Evaluated, Foreign):
            return value
        element = value.dtype.scalar.to_ir()
        if not isinstance(value.data, _KNOWN):
            return handle_of(value, ir.tensor_of(tuple(value.shape), element))
        scalar = np.size(value.data) == 1 and np.ndim(value.data) < 2
        shape = () if scalar else np.shape(value.data)
        return handle_of(value, ir.tensor_of(shape, element))

    def make(self, maker: Maker, making: Making) -> Any:
        """Evaluate the op; what the method's arguments leave open is as in the op that a function
        in its place is asked for."""
        compute, call = making.given.get("op"), self._call()
        of_op = isinstance(compute, Computation) or (
            call is not None and compute is call.op.numpy_function()
        )
        if compute is not None and not of_op:
            array = np.asarray(compute(*(o.array for o in making.operands)))
            last = making.operands[-1].type
            result = ir.with_element(last, ir.i1) if array.dtype == np.bool_ else last
            return handle_of(Evaluated(result, array), result)
        replaced = self._running().replaced
        if call is not None and type(call.op) is maker.cls:
            result = making.result
            if result is None and maker.cls.takes_result:
                result = call.op.result_types[0]
            kept = {**call.attributes, **making.attributes}
            if maker.method.of_tiles is False:  # the addresses are those within the bounds
                kept |= {n: f.default for n, f in maker.cls.attr_fields.items() if n in _OF_TILES}
            making = making._replace(attributes=kept, result=result)
        if replaced is not None:
            replaced.after = maker.position
        return super().make(maker, making)


interpreter_builder = InterpreterBuilder()
_OWN = frozenset(vars(InterpreterBuilder)) | frozenset(vars(OperationBuilder))


def replaced() -> Replaced | None:
    """The functions that a program has put in place of methods of `interpreter_builder` or its
    class; None if there are none."""
    own, of_class = vars(interpreter_builder), vars(InterpreterBuilder)
    if not own and len(of_class) <= len(_OWN) and of_class.keys() <= _OWN:
        return None
    functions = {
        name: getattr(interpreter_builder, name)
        for name in {*own, *of_class} - _OWN
        if name in makers() and not isinstance(inspect.getattr_static(
            interpreter_builder, name), BuilderMethod)
    }  # fmt: skip
    return Replaced(functions) if functions else None
