"""Values for pieces of memory: what those of shared memory and of tensor memory have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tritium.experimental.gluon.language._types import memory_type
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.values.base import Handle, base_value
from tritium.language.values.tensor import tensor
from tritium.language.values.types import dtype
from tritium.ops.base import Op

if TYPE_CHECKING:
    from typing_extensions import Self


class memory_descriptor(base_value):
    """Base of pieces of memory.

    Attributes:
        handle: its value in the IR, whose type says all but the sign of integers.
        type, dtype, shape, rank: of its elements.
        layout: how they lie in memory.
    """

    TYPE: ClassVar[type[memory_type]]
    """The class of `type`."""

    def __init_subclass__(cls) -> None:
        cls.TYPE.value_class = cls

    def __init__(self, handle: Any, element_ty: dtype, *_: Any, **__: Any):
        self.handle = handle
        self.type: Any = self.TYPE.of(handle.type, element_ty)

    def flatten(self) -> list[Handle]:
        return [self.handle]

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.type.element_ty

    @property
    def shape(self) -> list[int]:
        """The extents."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def layout(self) -> Any:
        """The layout of the elements in memory."""
        return self.type.layout

    def _view(self, cls: type[Op], *operands: Any, **attrs: Any) -> Self:
        """A piece of the memory, by an op that takes a descriptor first."""
        (handle,) = emit(cls, self, *operands, **attrs)  # pyright: ignore[reportArgumentType]
        return type(self)(handle, self.dtype)

    def _to_store(self, value: Any) -> tensor:
        """A block to store; a `ValueError` unless it has the memory's shape and dtype."""
        x = casts.to_tensor(value)
        if list(x.type.shape) != self.shape or x.dtype != self.dtype:
            raise ValueError(
                f"store of {x.type} to {self.type}; shapes and dtypes must be the same"
            )
        return x

    def __repr__(self) -> str:
        return repr(self.type)
