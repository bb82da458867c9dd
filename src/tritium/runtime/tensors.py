"""Stand-ins for tensors: by dtype only (`MockTensor`), or with another dtype (`TensorWrapper`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.launch.signature import canonical_dtype


class MockTensor:
    """A tensor that exists only as a dtype, for `warmup`; its address is 0."""

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """`arg`, or a mock tensor if it is a dtype of torch or of NumPy."""
        kind: type[Any] = type(arg)  # pyright: ignore[reportUnknownVariableType]
        if kind.__name__ == "dtype" and kind.__module__ in ("torch", "numpy"):
            return MockTensor(arg)
        if kind.__module__ == "numpy.dtypes":
            return MockTensor(arg)
        if kind is type and arg.__module__ == "numpy" and hasattr(arg, "dtype"):  # numpy.float32
            return MockTensor(arg)
        return arg

    def __init__(self, dtype: Any, shape: Sequence[int] | None = None):
        self.dtype = dtype
        self.shape = [1] if shape is None else list(shape)

    def stride(self) -> tuple[int, ...]:
        """Strides of a contiguous tensor of this shape, in elements."""
        strides = [1]
        for size in self.shape[:0:-1]:
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    @staticmethod
    def data_ptr() -> int:
        """0, which counts as aligned."""
        return 0

    @staticmethod
    def ptr_range() -> int:
        """The size of the storage in bytes: unknown, counted as 0."""
        return 0


class TensorWrapper:
    """A tensor seen with a dtype of the kernel language that its library may not have."""

    def __init__(self, base: Any, dtype: Any):
        self.base = base
        self.dtype = dtype
        self._data: Any = None
        self.device = getattr(base, "device", None)
        self.shape = base.shape
        self.is_cuda = getattr(base, "is_cuda", False)

    @property
    def data(self) -> Any:
        """The base's `data`, unless another was assigned, which changes nothing else."""
        return self.base.data if self._data is None else self._data

    @data.setter
    def data(self, value: Any) -> None:
        self._data = value

    def data_ptr(self) -> int:
        """The address of the first element."""
        if hasattr(self.base, "data_ptr"):
            return self.base.data_ptr()
        return self.base.__array_interface__["data"][0]

    def stride(self, *args: Any) -> Any:
        """Strides in elements, as the base has them."""
        if hasattr(self.base, "stride"):
            return self.base.stride(*args)
        strides = tuple(s // self.base.itemsize for s in self.base.strides)
        return strides[args[0]] if args else strides

    def element_size(self) -> int:
        """Bytes of one element."""
        base = self.base
        return base.element_size() if hasattr(base, "element_size") else base.itemsize

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"

    __repr__ = __str__

    def cpu(self) -> TensorWrapper:
        """A copy in host memory (for a NumPy array: itself, which is there)."""
        return TensorWrapper(self.base.cpu(), self.dtype) if hasattr(self.base, "cpu") else self

    def copy_(self, other: TensorWrapper) -> None:
        """Copy another wrapped tensor's data into this one."""
        if hasattr(self.base, "copy_"):
            self.base.copy_(other.base)
        else:
            self.base[...] = other.base

    def clone(self) -> TensorWrapper:
        """A copy."""
        copy = self.base.clone if hasattr(self.base, "clone") else self.base.copy
        return TensorWrapper(copy(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """A copy on another device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Sequence[int]) -> TensorWrapper:
        """A new tensor of the same kind, contents undefined."""
        base = self.base
        if hasattr(base, "new_empty"):
            return TensorWrapper(base.new_empty(sizes), self.dtype)
        return TensorWrapper(np.empty(sizes, base.dtype), self.dtype)


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """View a tensor's storage as elements of `dtype` (`tl.float8e5` over int8 storage, say).

    Going back to the original dtype unwraps. Raises `TypeError` for what is no tensor.
    """
    if isinstance(tensor, TensorWrapper):
        if _same_dtype(dtype, tensor.base.dtype):
            return tensor.base
        return TensorWrapper(tensor.base, dtype)
    if hasattr(tensor, "data_ptr") or hasattr(tensor, "__array_interface__"):
        canonical_dtype(dtype)
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"Cannot reinterpret a {type(tensor)}.")


def _same_dtype(left: Any, right: Any) -> bool:
    return canonical_dtype(left) == canonical_dtype(right)
