"""The reference's path of allocators."""

from tritium.launch.allocation import (
    Allocator,
    Buffer,
    NullAllocator,
    _allocator,  # pyright: ignore[reportPrivateUsage]
    _profile_allocator,  # pyright: ignore[reportPrivateUsage]
    set_allocator,
    set_profile_allocator,
)

__all__ = [
    "Allocator",
    "Buffer",
    "NullAllocator",
    "_allocator",
    "_profile_allocator",
    "set_allocator",
    "set_profile_allocator",
]
