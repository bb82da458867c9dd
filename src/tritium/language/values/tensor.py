"""`tensor`: what kernels compute with, a scalar or a block.

The class holds a handle and a type. Operators and methods are attached where they are defined
(`operators.py`, and every function marked `tensor_member`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tritium.language.emitter import Divergence, Evaluated, current
from tritium.language.values.base import Handle, base_value
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tuples import tuple
from tritium.language.values.types import block_type, dtype, tensor_descriptor_type

if TYPE_CHECKING:
    from collections.abc import Iterator


class tensor(base_value):
    """A scalar or block of numbers or pointers.

    Args:
        handle: the IR value, or the evaluated one in the interpreter.
        type: a `dtype` for a scalar, a `block_type` for a block.

    """

    def __init__(self, handle: object, type: dtype):
        if isinstance(handle, (base_value, int)):
            raise TypeError(
                f"tl.tensor({handle}, {type}): the first argument is a value of the IR; "
                f"tl.full((), {handle}, {type}) makes a tensor of a number, tl.cast converts one"
            )
        if isinstance(handle, Evaluated):
            handle = handle.read_as(type)
        elif hasattr(handle, "data") and (adopt := getattr(current(), "adopt", None)):
            handle = adopt(handle, type)  # of a program's own class
        self.handle: Any = handle
        self.type: dtype = type

    @property
    def shape(self) -> tuple:
        """The extents as a tuple of constexpr; () for a scalar."""
        return tuple([constexpr(extent) for extent in self.type.shape])

    @property
    def numel(self) -> constexpr:
        """The number of elements."""
        return constexpr(self.type.numel if isinstance(self.type, block_type) else 1)

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.type.scalar

    def flatten(self) -> list[Handle]:
        return [self.handle]

    # What is known of the value in the interpreter

    @property
    def value(self) -> Any:
        """The NumPy array (or scalar) in an interpreted kernel. Raises `AttributeError` in a
        compiled one, where the value is not known."""
        if not isinstance(self.handle, Evaluated):
            raise AttributeError("a tensor has a value only in an interpreted kernel")
        array = np.asarray(self.handle.array)
        if self.dtype.is_int_unsigned() and not self.dtype.is_bool():
            array = array.view(f"u{array.dtype.itemsize}")
        return array if array.ndim else array[()]

    @property
    def data(self) -> Any:
        """The same as `value`."""
        return self.value

    def _scalar(self, what: str) -> Any:
        if not isinstance(self.handle, Evaluated):
            raise TypeError(
                f"{what} of a tensor is not known when the kernel is compiled; "
                "only compile-time values (tl.constexpr) can be used here"
            )
        if np.ndim(self.handle.array) > len(self.type.shape):
            raise Divergence
        if self.numel.value != 1:
            raise TypeError(f"{what} of a tensor of shape {self.type.shape}: one element is needed")
        return np.asarray(self.value).reshape(-1)[0]

    def __bool__(self) -> bool:
        if self.numel.value != 1:
            raise ValueError(
                "Boolean value of Tensor with more than one value is ambiguous: "
                "reduce it, or use `&`, `|` and tl.where"
            )
        return bool(self._scalar("the truth"))

    def __int__(self) -> int:
        return int(self._scalar("the integer value"))

    def __index__(self) -> int:
        if not self.dtype.is_int():
            raise TypeError(f"a tensor of {self.dtype} cannot be used as an index")
        return int(self._scalar("the integer value"))

    def __float__(self) -> float:
        return float(self._scalar("the float value"))

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("a scalar has no len()")
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a tensor cannot be iterated over; tl.split and tl.reduce take it apart")

    def __repr__(self) -> str:
        if isinstance(self.handle, Evaluated):
            return (
                f"tensor({np.array2string(np.asarray(self.value), prefix='tensor(')}, {self.type})"
            )
        extents = "x".join(str(e) for e in self.type.shape)
        return f"{self.dtype}[{extents}]"

    __str__ = __repr__

    def __hash__(self) -> int:
        return id(self)

    if TYPE_CHECKING:
        # Attached by `operators`.
        def __add__(self, other: TensorLike) -> tensor: ...
        def __radd__(self, other: TensorLike) -> tensor: ...
        def __sub__(self, other: TensorLike) -> tensor: ...
        def __rsub__(self, other: TensorLike) -> tensor: ...
        def __mul__(self, other: TensorLike) -> tensor: ...
        def __rmul__(self, other: TensorLike) -> tensor: ...
        def __truediv__(self, other: TensorLike) -> tensor: ...
        def __rtruediv__(self, other: TensorLike) -> tensor: ...
        def __floordiv__(self, other: TensorLike) -> tensor: ...
        def __mod__(self, other: TensorLike) -> tensor: ...
        def __and__(self, other: TensorLike) -> tensor: ...
        def __or__(self, other: TensorLike) -> tensor: ...
        def __xor__(self, other: TensorLike) -> tensor: ...
        def __lshift__(self, other: TensorLike) -> tensor: ...
        def __rshift__(self, other: TensorLike) -> tensor: ...
        def __lt__(self, other: TensorLike) -> tensor: ...
        def __le__(self, other: TensorLike) -> tensor: ...
        def __gt__(self, other: TensorLike) -> tensor: ...
        def __ge__(self, other: TensorLike) -> tensor: ...
        def __neg__(self) -> tensor: ...
        def __invert__(self) -> tensor: ...
        def __getitem__(self, index: object) -> tensor: ...
        def item(self) -> tensor: ...
        def to(
            self, dtype: object, fp_downcast_rounding: str | None = None, bitcast: bool = False
        ) -> tensor: ...


TensorLike: TypeAlias = "tensor | constexpr | int | float"
"""A tensor, or a number that becomes one."""

dtype.value_class = tensor


class tensor_descriptor(base_value):
    """A strided tensor in memory that is loaded and stored block by block.

    Made by `tl.make_tensor_descriptor`, or passed to the kernel.

    Attributes:
        shape: the tensor's extents, int32 scalars.
        strides: in elements, int64 scalars; the last is 1.
        block_type, block_shape, dtype: of the blocks.
    """

    def __init__(self, handle: Any, shape: Any, strides: Any, block_type: block_type):
        self.handle = handle
        self.shape = shape if isinstance(shape, tuple) else tuple(shape)
        self.strides = strides if isinstance(strides, tuple) else tuple(strides)
        types = (block_type, self.shape.type, self.strides.type)
        self.type: tensor_descriptor_type = tensor_descriptor_type(*types)

    def flatten(self) -> list[Handle]:
        return [self.handle, *self.shape.flatten(), *self.strides.flatten()]

    @property
    def block_type(self) -> block_type:
        """The type of a block."""
        return self.type.block_type

    @property
    def block_shape(self) -> list[int]:
        """The shape of a block."""
        return list(self.block_type.shape)

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.block_type.element_ty

    def __repr__(self) -> str:
        return f"tensor_descriptor<{self.block_type}>"


tensor_descriptor_type.value_class = tensor_descriptor
