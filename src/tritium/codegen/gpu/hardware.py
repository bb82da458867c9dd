"""The protocol between GPU code generation and a processor: `Hardware`, one object a concern.

Each method writes the instructions of one thread through an `Emitter`. Where a processor cannot do
what is asked, a method raises `Unsupported`, which becomes an error with the op's name and source
line. Copy engines, and products by groups of warps, are lowering rules that the processor registers
under its own name.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol
from zlib import crc32

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.types import ELEMENTWISE, GPU
from tritium.codegen.llvm.writer import Function, Module, Value
from tritium.codegen.registry import Rule, rules, scratch_bytes, scratch_in_rounds
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.tensor_maps import describe
from tritium.ops.base import Op
from tritium.ops.ttir import AtomicKind, CacheModifier, EvictionPolicy, MemScope, MemSemantic
from tritium.target import Banks


class Unsupported(Exception):
    """A processor cannot do what is asked; the message says what."""


@dataclass(frozen=True)
class Caching:
    """The cache hints of an access."""

    modifier: CacheModifier
    eviction: EvictionPolicy
    volatile: bool = False
    hints: str = ""


@dataclass(frozen=True)
class Assembly:
    """The assembly that programs may bring.

    Attributes:
        title: its name in error messages.
        registers: LLVM's constraints of operands in registers.
        explained: in words, which these are.
        missing: says why there is none on this machine; "" where there is.
    """

    title: str
    registers: re.Pattern[str]
    explained: str
    missing: Callable[[], str] = str


@dataclass(frozen=True)
class Order:
    """The memory semantics of an atomic access."""

    semantic: MemSemantic
    scope: MemScope


class Grid(Protocol):
    """The positions of threads, thread blocks and programs."""

    def thread(self, f: Function, threads: int) -> Value:
        """The thread's index in its block, which has `threads`."""
        ...

    def block_in_cluster(self, e: Emitter) -> Value:
        """The index of the thread block in its cluster."""
        ...

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        """The index of the program (with `blocks` of the thread block) along an axis."""
        ...

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        """The number of programs (with `blocks` of thread blocks) along an axis."""
        ...


class Shuffles(Protocol):
    """Moves of 32-bit words between the lanes of a warp. All lanes take part."""

    def xor(self, e: Emitter, word: Value, mask: int, alike: int) -> Value:
        """The word of the lane whose number differs in `mask`. Lanes whose numbers differ in the
        bits `alike` have the same words."""
        ...

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        """The word of a lane, whose number is taken modulo the number of lanes."""
        ...


class GlobalMemory(Protocol):
    """Loads and stores through pointers, of up to 16 aligned bytes. Elements are as in memory."""

    def load(
        self, e: Emitter, pointer: Value, element: str, count: int, mask: Value | None,
        others: Sequence[Value] | None, caching: Caching,
    ) -> list[Value]:  # fmt: skip
        """`count` neighbours; where `mask` is false `others` (zero by default)."""
        ...

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
        caching: Caching,
    ) -> None:  # fmt: skip
        """Write neighbours where the condition holds."""
        ...


class Buffers(Protocol):
    """Accesses to global memory that check 32-bit offsets, unsigned, against the size of a buffer.
    What lies beyond it reads as zero, and is not written. Elements are as in memory.

    Attributes:
        atomics: the element types of `update`.
    """

    atomics: tuple[str, ...]

    def resource(self, e: Emitter, start: Value, size: int) -> Any:
        """A buffer of `size` bytes from `start` on, for the methods below."""
        ...

    def load(
        self, e: Emitter, resource: Any, offset: Value, element: str, count: int, caching: Caching
    ) -> list[Value]:
        """`count` neighbours, at an offset that is a multiple of 4, or of their size if that is
        less."""
        ...

    def store(
        self, e: Emitter, resource: Any, offset: Value, parts: Sequence[Value], caching: Caching
    ) -> None:
        """Write neighbours, at such an offset."""
        ...

    def copy(
        self, e: Emitter, resource: Any, offset: Value, to: Value, size: int, caching: Caching
    ) -> None:
        """Start a copy of `size` bytes of each lane of the warp, at offsets of their own, to
        neighbouring places of shared memory from `to` on, the first lane's; of zeros from beyond
        the buffer. It is waited for as `AsyncCopies` are."""
        ...

    def update(
        self, e: Emitter, kind: AtomicKind, resource: Any, offset: Value, operand: Value
    ) -> Value:
        """Combine memory with the operand, atomically among the threads of the GPU, without any
        order; the former content."""
        ...

    def compare_and_swap(
        self, e: Emitter, resource: Any, offset: Value, expected: Value, new: Value
    ) -> Value:
        """Replace memory where it holds the expected bits, likewise."""
        ...

    def fence(self, e: Emitter, order: Order, *, release: bool) -> None:
        """Write what goes before updates that release, or after those that acquire."""
        ...


class SharedMemory(Protocol):
    """Memory that the threads of a block share. Elements are as in memory."""

    def read_metadata(self, e: Emitter) -> str:
        """LLVM metadata of loads."""
        return ""

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None
    ) -> None:
        """Write neighbours, up to 16 aligned bytes, where the condition holds."""
        ...

    def add(self, e: Emitter, pointer: Value, number: Value, condition: Value) -> None:
        """Add to an i32 atomically where the condition holds."""
        ...

    def load_remote(
        self, e: Emitter, place: Value, block: Value, element: str, count: int
    ) -> list[Value]:
        """Neighbours from the memory of another block of the cluster, at a pointer into this
        block's (or its address, an i32)."""
        raise Unsupported("shared memory of other thread blocks")

    def store_remote(
        self, e: Emitter, place: Value, block: Value, parts: Sequence[Value],
        condition: Value | None,
    ) -> None:  # fmt: skip
        """Write neighbours to the memory of a block of the cluster, at an address (i32) as in this
        block's, where the condition holds."""
        raise Unsupported("shared memory of other thread blocks")

    def remote(self, e: Emitter, place: Value, block: Value) -> Value:
        """A pointer to the memory of a block of the cluster, for atomic operations; arguments as of
        `store_remote`."""
        raise Unsupported("shared memory of other thread blocks")


class MatrixMoves(Protocol):
    """Instructions by which a warp moves small matrices between registers and shared memory.

    `place` maps (register, lane, warp, block) to offsets in elements.
    """

    loads: bool
    stores: bool
    """True if there are any."""

    def find_load(
        self, place: LinearLayout, size: int, origin: int = 0, gaps: Sequence[tuple[int, int]] = ()
    ) -> Any | None:
        """An instruction that reads a tile of elements of `size` bytes; None if there is none.
        `origin` is XORed to offsets, `gaps` are then between elements."""
        ...

    def find_store(self, place: LinearLayout, size: int) -> Any | None:
        """An instruction that writes such a tile; None if there is none."""
        ...

    def load(
        self, e: Emitter, tile: LinearLayout, place: LinearLayout, base: Value, element: str,
        how: Any,
    ) -> list[Value]:  # fmt: skip
        """Read a tile's registers; `how` is from `find_load`."""
        ...

    def store(
        self, e: Emitter, values: Sequence[Value], tile: LinearLayout, place: LinearLayout,
        base: Value, element: str, how: Any,
    ) -> None:  # fmt: skip
        """Write a tile's registers; `how` is from `find_store`."""
        ...


class NoMatrixMoves:
    """The answers of processors without instructions that move matrices."""

    loads = stores = False

    def find_load(
        self, place: LinearLayout, size: int, origin: int = 0, gaps: Any = ()
    ) -> Any | None:
        return None

    def find_store(self, place: LinearLayout, size: int) -> Any | None:
        return None

    def load(self, *arguments: Any, **named: Any) -> list[Value]:
        raise Unsupported("loads of small matrices")

    def store(self, *arguments: Any, **named: Any) -> None:
        raise Unsupported("stores of small matrices")


class AsyncCopies(Protocol):
    """Copies from global to shared memory that each thread starts and waits for."""

    least_bytes: int
    fills: ClassVar[bool] = True
    """True where `copy` takes `filled`; else what is not filled is stored by the thread."""
    stored_bytes: ClassVar[tuple[int, ...]] = ()
    """The bytes that a copy from shared to global memory may have; none: there are no such."""

    def store(
        self, e: Emitter, to: Value, source: Value, size: int, condition: Value | None
    ) -> None:
        """Start copying `size` bytes of shared memory to global memory, where the condition
        holds."""
        raise Unsupported("asynchronous copies from shared to global memory")

    def copy(
        self, e: Emitter, to: Value, source: Value, size: int, filled: Value | None, keep: bool,
        condition: Value | None,
    ) -> None:  # fmt: skip
        """Start a copy of `size` bytes where the condition holds; of zeros where `filled` is
        false. With `keep` it goes into the first-level cache too. Where the program gives hints
        (see `HintedOp`), they are one more argument."""
        ...

    def commit(self, e: Emitter) -> None:
        """Put the copies since the last commit into a group, where there are groups."""

    def wait(self, e: Emitter, pending: int) -> None:
        """Wait for all but the newest `pending` groups of this thread."""
        ...


class NoAsyncCopies(AsyncCopies):
    """The answers of processors on which threads start no copies."""

    least_bytes = 4

    def copy(self, *arguments: Any, **named: Any) -> None:
        raise Unsupported("asynchronous copies to places of each thread")

    wait = copy


class Barriers(Protocol):
    """Synchronization of threads."""

    def block(self, e: Emitter, proxy: bool, everything: bool) -> None:
        """Synchronize the threads that run this code: a thread block, or a partition of it
        (`e.barrier_number`). Each sees what the others wrote to shared memory, with `everything` to
        all memory. `proxy`: what was written to shared memory is then also visible to
        matrix units and copy engines that read it on their own."""
        ...

    def named(self, e: Emitter, number: int, warps: int) -> None:
        """Synchronize `warps` warps of a block at the barrier `number`."""
        raise Unsupported("barriers of some warps of a thread block")

    def cluster(self, e: Emitter, *, relaxed: bool = False) -> None:
        """Synchronize all warps of a cluster of several blocks, which see what each other wrote
        unless `relaxed`."""
        raise Unsupported("clusters of thread blocks")

    def prepare_clusters(self, e: Emitter, places: Sequence[Value]) -> None:
        """Make barriers in shared memory for `cluster_at`. All warps of all blocks run this, and
        synchronize before one of the barriers is used."""
        raise Unsupported("barriers of some warps of a thread block")

    def cluster_at(self, e: Emitter, place: Value) -> None:
        """`cluster` for the warps that run this code, in each block, by a barrier in memory."""
        raise Unsupported("barriers of some warps of a thread block")


OWN = -1


def meeting(blocks: int) -> list[int]:
    """The mbarriers at which the first thread of a block arrives in `Barriers.cluster_at`, in
    order: its block's `OWN`, then those of all blocks by number, but its own. It then waits for the
    end of the phase of its own one that it has arrived in. Each counts as many arrivals as there
    are blocks.

    A block that this one has told may go on, and arrive here for the next time, at once: if this
    one arrived at its own later, that would end this time's phase in its place.
    """
    return [OWN, *range(blocks)]


class Atomics(Protocol):
    """Atomic accesses to global memory. Results are zero where the condition does not hold."""

    def width(self, op: Any) -> int:
        """The most neighbours that one instruction of an atomic op takes."""
        ...

    def update(
        self, e: Emitter, kind: AtomicKind, order: Order, pointer: Value, operand: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        """Combine memory with the operand; the former content."""
        ...

    def add_several(
        self, e: Emitter, order: Order, pointer: Value, values: Sequence[Value],
        condition: Value | None,
    ) -> list[Value]:  # fmt: skip
        """Add to neighbours, each by itself; the former contents."""
        ...

    def compare_and_swap(
        self, e: Emitter, order: Order, pointer: Value, expected: Value, new: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        """Replace memory by `new` if it holds `expected`; the former content."""
        ...

    def load(
        self, e: Emitter, order: Order, type: str, pointer: Value, condition: Value | None
    ) -> Value:
        """An element of an LLVM type."""
        ...

    def store(
        self, e: Emitter, order: Order, pointer: Value, value: Value, condition: Value | None
    ) -> Value:
        """Write an element; the result is void."""
        ...

    def nanoseconds(self, e: Emitter) -> Value:
        """A clock that all thread blocks share, as i64."""
        ...


class Conversions(Protocol):
    """Conversions of floats that some processors have instructions for."""

    integer_to_bfloat: bool
    """True if LLVM's conversion of i32 and i64 to bfloat rounds once."""

    def fp8(self, e: Emitter, a: Value, source: str, target: str) -> Value | None:
        """A number in an 8-bit format, to nearest even; of one in such a format the same number,
        half or float. `source`, `target`: names as in `FORMATS`. None where it takes integer
        arithmetic."""
        ...

    def toward_zero(self, e: Emitter, a: Value, type: str, *, signed: bool = True) -> Value:
        """A float or an integer as a narrower LLVM type."""
        ...


class Functions(Protocol):
    """Functions of floats and of doubles."""

    def call(self, e: Emitter, name: str, *values: Value) -> Value:
        """A function by its name in C (`rsqrt`: one over the square root)."""
        ...

    def divide(self, e: Emitter, a: Value, b: Value, approximate: bool) -> Value:
        """A quotient within 2.5 ulp; `approximate`: perhaps not of very large divisors."""
        ...

    def external(self, c: Any, op: Any, *values: Value) -> Value:
        """The function of a library that an op names by its symbol, in a `Context`."""
        ...


class Products(Protocol):
    """Products by matrix units, of operands in registers."""

    def multiply(self, c: Any, op: Any) -> None:
        """Lower a product whose result has the layout of a matrix unit, in a `Context`."""
        ...


class Host(Protocol):
    """The services of the host that a kernel asks for while it runs."""

    def print(self, e: Emitter, format: str, values: Sequence[Value]) -> None:
        """Write a line, by a format of C's `printf`."""
        ...

    def fail(self, e: Emitter, message: str, file: str, line: int) -> None:
        """Stop the kernel with a message."""
        ...


class Hardware(ABC):
    """A processor that runs warps of threads; one object a compilation.

    Lowering rules that are registered under its `name` (those of single elements under
    `name.elementwise`) go before the shared ones.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """Its name in error messages."""
    triple: ClassVar[str]
    data_layout: str
    lanes: int
    """The threads of a warp, a power of two."""
    max_shared: int
    """The most bytes of shared memory that a thread block may have."""
    banks: Banks
    """The banks of shared memory."""
    kernel_linkage: ClassVar[str]
    function_attributes: ClassVar[str]
    descriptor_attributes: ClassVar[str]
    """LLVM attributes of functions, and of parameters of kernels that are tensor descriptors."""
    reserved_names: ClassVar[re.Pattern[str]]
    """Names that no function of a program may have."""

    assembly: Assembly | None = None
    """None where programs cannot bring any."""
    carries_words: ClassVar[bool] = False
    """True where loops carry narrow elements of tiles together, as words."""
    pairs: frozenset[str] = frozenset()
    """The LLVM types of floats of which one instruction adds or multiplies two."""
    computes_again: ClassVar[bool] = False
    """True where the compiler of the LLVM IR holds in registers, or spills, over a loop what is
    cheap to compute again: in its iterations, or behind it."""
    descriptors_in_registers: bool = False
    """True where descriptors of tensors are values in registers, not maps in memory."""
    grid: Grid
    shuffles: Shuffles
    memory: GlobalMemory
    buffers: Buffers | None = None
    """None where there are no such accesses."""
    shared: SharedMemory
    matrices: MatrixMoves
    async_copies: AsyncCopies
    barriers: Barriers
    atomics: Atomics
    conversions: Conversions
    functions: Functions
    products: Products
    host: Host

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
        return scratch_bytes(self._lowered_by(op), op)

    def scratch_in_rounds(self, op: Any, rounds: int) -> int | None:
        """These bytes where the lowering works in `2**rounds` rounds; None where it cannot."""
        return scratch_in_rounds(self._lowered_by(op), op, rounds)

    def _lowered_by(self, op: Any) -> str:
        return self.name if type(op) in rules(self.name) else GPU

    def prefetch_maps(self, e: Emitter, maps: Sequence[Value]) -> None:
        """Have the copy engine read tensor maps that a kernel is called with, at its beginning."""
        return

    def define_descriptors(self, c: Any, arguments: Sequence[Any], *, of_kernel: bool) -> None:
        """Define the tensor descriptors among a function's arguments, in a `Context`, where they
        are more than a pointer to a map. Raises `NotImplementedError` where they cannot be
        passed."""
        return

    def describe_map(self, type: Any) -> dict[str, Any] | None:
        """The fields of the tensor map that a kernel takes for a descriptor of this type; None
        where it takes the pointer, the shape and the strides alone."""
        return describe(type)

    def partition_registers(self, plan: Any, shared: int, options: Any) -> Any | None:
        """The registers that partitions of a thread block hand to each other
        (`partitions.Registers`); None where they keep what they have. `plan`: a `partitions.Plan`;
        `shared`: bytes of shared memory."""
        return None

    def set_registers(self, e: Emitter, count: int, before: int) -> None:
        """Change the registers of each thread of a group of warps, which had `before`."""
        raise Unsupported("a change of the number of registers")

    def symbol(self, name: str, taken: Sequence[str] | set[str] = ()) -> str:
        """A function's name in letters that LLVM and the assembler take, other than the names
        `taken`."""
        usable = re.fullmatch(r"[A-Za-z_$][\w$]*", name, flags=re.ASCII)
        if usable and not self.reserved_names.fullmatch(name) and name not in taken:
            return name
        clean = re.sub(r"\W", "_", name, flags=re.ASCII)
        return f"k_{clean}_{crc32(name.encode()):08x}"

    @abstractmethod
    def check_cluster(self, num_ctas: int) -> None:
        """Raise `ValueError` for numbers of thread blocks that cannot run one program."""

    @abstractmethod
    def prepare(self, module: Module, options: Any) -> None:
        """Write what an LLVM module needs once: flags, say."""

    def cast_together(self, source: str, target: str) -> int:
        """The number of floats that a conversion, by names of `FORMATS`, takes as a vector: a power
        of 2."""
        return 1

    def handed_on(self, e: Emitter, value: Value, iteration: Value | None = None) -> Value:
        """A value of 32 bits, of which the compiler of the LLVM IR does not see that it is the same
        as before, or the same in each iteration of a loop (`iteration`: the loop's index)."""
        return value

    def finish(self, module: Module) -> None:
        """Add to an LLVM module whose functions are written."""
        return

    @abstractmethod
    def kernel_attributes(
        self, num_warps: int, num_ctas: int, options: Any, registers: int | None
    ) -> str:
        """The LLVM attributes of a kernel. `registers`: of a thread at the launch, where they
        change later."""
