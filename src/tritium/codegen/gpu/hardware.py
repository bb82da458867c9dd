"""The interface of a SIMT processor for code generation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.types import ELEMENTWISE, GPU
from tritium.codegen.llvm.writer import Function, Module, Value
from tritium.codegen.registry import Rule, rules, scratch_bytes
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops.base import Op


class MatrixMoves(ABC):
    """Instructions by which a warp moves small matrices between registers and shared memory."""

    stores: bool
    """Whether any instruction writes."""

    @abstractmethod
    def find_load(self, place: LinearLayout, size: int) -> Any | None:
        """How to read a tile of elements of `size` bytes from the offsets that `place` gives to
        (register, lane, warp, block); None where no instruction can."""

    @abstractmethod
    def find_store(self, place: LinearLayout, size: int) -> Any | None:
        """How to write such a tile; None where no instruction can."""

    @abstractmethod
    def load(
        self, e: Emitter, tile: LinearLayout, place: LinearLayout, base: Value, element: str,
        how: Any,
    ) -> list[Value]:  # fmt: skip
        """Read a tile's registers; `how` is from `find_load`."""

    @abstractmethod
    def store(
        self, e: Emitter, values: Sequence[Value], tile: LinearLayout, place: LinearLayout,
        base: Value, element: str, how: Any,
    ) -> None:  # fmt: skip
        """Write a tile's registers; `how` is from `find_store`."""


class Hardware(ABC):
    """A processor that runs warps of threads; one object a compilation.

    Lowering rules that are registered under its `name` (those of single elements under
    `name.elementwise`) go before the shared ones.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """Its name in error messages."""
    triple: ClassVar[str]
    data_layout: ClassVar[str]
    lanes: ClassVar[int]
    """The threads of a warp, a power of two."""
    kernel_linkage: ClassVar[str]
    function_attributes: ClassVar[str]
    descriptor_attributes: ClassVar[str]
    """LLVM attributes of functions, and of parameters of kernels that are tensor descriptors."""
    matrices: MatrixMoves
    arch: int

    @cached_property
    def rules(self) -> Mapping[type[Op], Rule]:
        """The lowering rules of ops."""
        return {**rules(GPU), **rules(self.name)}

    @cached_property
    def elementwise(self) -> Mapping[type[Op], Rule]:
        """The lowering rules of single elements."""
        return {**rules(ELEMENTWISE), **rules(f"{self.name}.elementwise")}

    def scratch_bytes(self, op: Any) -> int:
        """The bytes of shared memory that the lowering of an op needs for itself."""
        return scratch_bytes(self.name if type(op) in rules(self.name) else GPU, op)

    @abstractmethod
    def check_cluster(self, num_ctas: int) -> None:
        """Raise `ValueError` for numbers of thread blocks that cannot run one program."""

    @abstractmethod
    def prepare(self, module: Module, options: Any) -> None:
        """Write what an LLVM module needs once: flags, say."""

    @abstractmethod
    def kernel_attributes(self, num_warps: int, num_ctas: int, options: Any) -> str:
        """The LLVM attributes of a kernel."""

    @abstractmethod
    def thread_in_block(self, f: Function) -> Value:
        """The thread's index in its block."""

    @abstractmethod
    def block_in_cluster(self, e: Emitter) -> Value:
        """The index of the thread block in its cluster."""

    @abstractmethod
    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        """The index of the program (with `blocks` of the thread block) along an axis."""

    @abstractmethod
    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        """The number of programs (with `blocks` of thread blocks) along an axis."""

    @abstractmethod
    def block_barrier(self, e: Emitter, proxy: bool) -> None:
        """See `Context.barrier`."""

    @abstractmethod
    def cluster_barrier(self, e: Emitter) -> None:
        """Synchronize the threads of a cluster of several blocks."""

    @abstractmethod
    def address_in_block(self, e: Emitter, address: Value, block: Value) -> Value:
        """See `Context.in_block`."""
