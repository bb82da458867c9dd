"""Memory that a kernel needs beside its arguments, supplied by the program (`set_allocator`)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Buffer(Protocol):
    """Device memory."""

    def data_ptr(self) -> int:
        """The address of its first byte."""
        ...


class Allocator(Protocol):
    """Supplies device memory."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """`size` bytes, aligned to `alignment` bytes, to be used on `stream`."""
        ...


class NullAllocator:
    """The allocator when none is set: it says so."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        raise RuntimeError(
            "Kernel requires a runtime memory allocation, but no allocator was set. "
            "Use triton.set_allocator to specify an allocator."
        )


_allocator: ContextVar[Allocator] = ContextVar("allocator", default=NullAllocator())  # noqa: B039
_profile_allocator: ContextVar[Allocator | None] = ContextVar("profile_allocator", default=None)


def set_allocator(allocator: Allocator | None) -> None:
    """Use `allocator(size, alignment, stream)` in this context for kernels that need global
    scratch memory; None takes it back."""
    _check(allocator)
    _allocator.set(NullAllocator() if allocator is None else allocator)


def set_profile_allocator(allocator: Allocator | None) -> None:
    """The same for memory in which instrumented kernels record profiles."""
    _check(allocator)
    _profile_allocator.set(allocator)


def allocate(size: int, alignment: int, stream: int | None) -> tuple[Buffer, int]:
    """Memory from this context's allocator, and its address. Raises `RuntimeError` where there is
    no allocator, or where what it gives is not aligned."""
    buffer = _allocator.get()(size, alignment, stream)
    address = buffer.data_ptr()
    if address % alignment:
        raise RuntimeError(
            f"the allocator given to set_allocator returned memory at {address:#x} for alignment "
            f"{alignment}; a multiple of it is required"
        )
    return buffer, address


def _check(allocator: Any) -> None:
    if allocator is not None and not callable(allocator):
        raise TypeError(f"the allocator must be callable; got {allocator!r}")
