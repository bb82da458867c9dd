"""Compilation targets: a frozen value that backends, options and cache keys share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class GPUTarget:
    """A compilation target. The name is the reference's; a CPU is a target as well.

    Attributes:
        backend: which backend compiles for it: `cuda`, `hip`, `cpu`, ...
        arch: what the backend calls the processor: `90` (CUDA), `"gfx942"` (HIP), `"znver4"` (CPU).
        warp_size: threads that run in step: 32 (CUDA), 32 or 64 (HIP), 1 (CPU).
    """

    backend: str
    arch: int | str
    warp_size: int

    def __post_init__(self) -> None:
        if not self.backend:
            raise ValueError("GPUTarget: backend is empty; expected a name such as 'cuda' or 'cpu'")
        if self.warp_size < 0:
            raise ValueError(f"GPUTarget: warp_size is {self.warp_size}; expected at least 0")


_default: list[Callable[[], GPUTarget]] = []


def provide_default(find: Callable[[], GPUTarget]) -> None:
    """Say how the target is found that launches are for (by `backends.active`)."""
    _default[:] = [find]


def default_target() -> GPUTarget | None:
    """The target that launches are for; None if none can be."""
    try:
        return _default[0]() if _default else None
    except RuntimeError:  # no driver, or several
        return None


@dataclass(frozen=True)
class Banks:
    """The banks of the memory that the threads of a block share."""

    count: int = 32
    word_bytes: int = 4

    @property
    def row_bytes(self) -> int:
        """The bytes that all banks together move at once."""
        return self.count * self.word_bytes


class MatrixUnit(Protocol):
    """A kind of matrix instruction; products are `ops.ttir.dot.MatrixProduct`s."""

    @property
    def from_shared(self) -> Any:
        """The op of products that groups of warps compute from shared memory, while they go on;
        None for units that take operands in registers."""
        ...

    @property
    def scaled(self) -> bool:
        """True if it takes products of operands with scales (`ops.ttir.DotScaledOp`)."""
        ...

    def takes(self, product: Any, num_warps: int, part: tuple[int, ...]) -> bool:
        """True if the product can be computed; `part` is what a thread block has of its result."""
        ...

    def encoding(
        self, product: Any, num_warps: int, cluster: tuple[tuple[int, ...], ...], chained: bool
    ) -> Any:
        """The encoding of the result. `cluster`: its `CGALayout`; `chained`: the result of one
        product is an operand of another."""
        ...

    def neighbours(self, product: Any, encoding: Any = None) -> int:
        """The elements along K of an operand that are neighbours in a thread (`kWidth`)."""
        ...

    def tuned(self, rows: int, pack: int) -> MatrixUnit:
        """The unit with instructions of `rows` rows (0: as fits the product), and with the
        operands of `pack` instructions as neighbours. Raises `ValueError` where there is no
        choice."""
        ...

    def scales(self, product: Any, encoding: Any, index: int) -> Any:
        """The encoding of an operand's scales, where that of the result is given."""
        ...

    def rounds_sums(self, product: Any) -> bool:
        """True if the accumulator is added outside of the product, which would round it."""
        ...


@dataclass(frozen=True)
class BulkCopies:
    """The abilities of an engine that copies blocks of tensors.

    Attributes:
        most_bytes: of a block, which must find room in shared memory.
        alignment: what addresses, and steps along all axes but the last, are multiples of.
        sums: the element types of each kind of `tt.descriptor_reduce`.
        without_nan: element types of which it fills no NaN in beside the tensor.
        rows: whether it gathers and scatters rows.
    """

    most_bytes: int
    alignment: int
    sums: tuple[tuple[str, frozenset[str]], ...] = ()
    without_nan: tuple[str, ...] = ()
    rows: bool = False


def square_parts(num_warps: int, rows: int, columns: int, *, chained: bool) -> tuple[int, int]:
    """The numbers of warps over which a product has its rows, and its columns: `num_warps` in all,
    with parts of about as many instructions along both. `chained`: rows stay in one warp."""
    down = across = 1
    while down * across < num_warps:
        left = rows // down
        if chained or (left >= columns // across and left > 1):
            down *= 2
        else:
            across *= 2
    return down, across


@dataclass(frozen=True)
class Processor:
    """The facts about a GPU that passes ask for; its backend states them.

    Attributes:
        name: in the text of modules: `cuda:90`.
        lanes: the threads of a warp, a power of two.
        max_shared: the most bytes of shared memory that a thread block may have.
        sum_widths: how many neighbours one atomic instruction adds to, by element type; 1 else.
        least_k_bytes: the least bytes along K of a product by matrix units.
        matrix_units: the best first.
        float8_products: the names of the 8-bit floats that matrix units multiply.
        product_part: the least rows and columns of a product that a block of a cluster gets.
        bulk_copies: of the engine that copies blocks of tensors, where there is one.
        copy_bytes: the least and the most bytes of a copy from global to shared memory that a
            thread starts; empty where there are none.
        lane_copy_bytes: the sizes, ascending, of copies from global to shared memory by which the
            lanes of a warp fill neighbouring places; empty where there are none.
        ahead_in_registers: whether loops without such copies load ahead into registers.
        transposes_in_threads: whether threads transpose parts of operands of products as they
            write them to shared memory.
        registers: the 32-bit registers of a multiprocessor, and the most of a thread; empty where
            loops are not to be kept within them.
        access_bytes: the most bytes that a thread loads or stores at once.
        even_accesses: whether loads take as few elements as the stores of what is computed from
            them, and the other way round, rather than move elements between threads.
        bfloat_by_float: whether products of bfloat16 are computed in float32, and rounded.
        banks: of shared memory.
        buffers: whether global memory is accessed through buffers (`codegen.gpu.hardware.Buffers`).
        buffer_atomics: the element types of atomic operations on buffers.
        line_bytes, sector_bytes: of a line of the caches, and of the parts that memory delivers.
    """

    name: str
    lanes: int
    max_shared: int
    sum_widths: tuple[tuple[str, int], ...] = ()
    least_k_bytes: int = 1
    matrix_units: tuple[MatrixUnit, ...] = ()
    float8_products: tuple[str, ...] = ()
    product_part: tuple[int, int] = (1, 1)
    bulk_copies: BulkCopies | None = None
    copy_bytes: tuple[int, ...] = ()
    lane_copy_bytes: tuple[int, ...] = ()
    ahead_in_registers: bool = False
    transposes_in_threads: bool = False
    registers: tuple[int, ...] = ()
    access_bytes: int = 16
    even_accesses: bool = False
    bfloat_by_float: bool = False
    banks: Banks = Banks()
    buffers: bool = False
    buffer_atomics: tuple[str, ...] = ()
    line_bytes: int = 128
    sector_bytes: int = 32

    def sum_width(self, element: str) -> int:
        """The number of neighbours of a type that one atomic instruction adds to."""
        return dict(self.sum_widths).get(element, 1)


_processors: list[Callable[[GPUTarget], Processor]] = []


def provide_processors(find: Callable[[GPUTarget], Processor]) -> None:
    """Say how a target's processor is found (by `backends.base`)."""
    _processors[:] = [find]


def processor_named(name: str) -> Processor:
    """The processor of a name such as `cuda:90`. Raises `ValueError` where no backend has it."""
    backend, colon, arch = name.partition(":")
    if not (backend and colon and arch):
        raise ValueError(f"target is {name!r}; a name such as 'cuda:90' is required")
    if not _processors:
        raise ValueError(f"target {name!r}: no backend is loaded; import tritium.backends")
    return _processors[0](GPUTarget(backend, int(arch) if arch.isdigit() else arch, 0))
