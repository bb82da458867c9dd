"""Loads and stores by LLVM's own instructions, in a branch where there is a mask, for targets whose
instructions have no predicates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from tritium.codegen.gpu.emitter import Emitter, word_type
from tritium.codegen.gpu.hardware import Caching, SharedMemory
from tritium.codegen.gpu.memory.llvm_atomics import zero
from tritium.codegen.llvm.writer import Value


class LLVMGlobalMemory:
    """Vector accesses."""

    def flags(self, e: Emitter, caching: Caching) -> tuple[str, str]:
        """Text before and behind an access, for its cache hints."""
        return "", ""

    def load(
        self, e: Emitter, pointer: Value, element: str, count: int, mask: Value | None,
        others: Sequence[Value] | None, caching: Caching,
    ) -> list[Value]:  # fmt: skip
        """Words leave the branch whole: elements that are smaller would each take a register from
        there on, and the branch would wait for them."""
        read = partial(e.load_words, pointer, element, count, *self.flags(e, caching))
        if mask is None:
            return e.unpack(read(), element)
        word = word_type(element, count) if count > 1 else element
        rest = e.pack(others or [zero(element)] * count, word)
        return e.unpack(e.f.choose_all(mask, rest, read), element)

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
        caching: Caching,
    ) -> None:  # fmt: skip
        store_where(e, pointer, parts, condition, *self.flags(e, caching))


class LLVMSharedMemory(SharedMemory):
    """Accesses to shared memory. `scope`: LLVM's text for the threads of a block."""

    scope: ClassVar[str] = ""

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None
    ) -> None:
        store_where(e, pointer, parts, condition)

    def add(self, e: Emitter, pointer: Value, number: Value, condition: Value) -> None:
        with e.f.when(condition, "add", "added"):
            e.f.emit("i32", f"atomicrmw add {pointer}, {number} {self.scope}monotonic, align 4")


def store_where(
    e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
    flags: str = "", metadata: str = "",
) -> None:  # fmt: skip
    """Write neighbours where a condition holds."""
    with e.f.where(condition):
        e.store_neighbours(pointer, parts, flags, metadata)
