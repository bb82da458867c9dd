"""The reference's path of allocators."""

from tritium.backends.allocation import (
    Allocator,
    Buffer,
    NullAllocator,
    set_allocator,
    set_profile_allocator,
)

__all__ = ["Allocator", "Buffer", "NullAllocator", "set_allocator", "set_profile_allocator"]
