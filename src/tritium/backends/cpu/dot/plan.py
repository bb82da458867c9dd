"""The plan of a dot on a host: the instruction, the register block, what is packed first.

Figures behind the choices are from Zen 4 (AVX-512), ratios to MKL, and in `benchmarks/cpu_dot.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from tritium.backends.cpu.dot.operand import (
    BFLOAT16,
    ELEMENT_BYTES,
    FLOAT16,
    Chunks,
    Operand,
    View,
    operand_a,
    operand_b,
    static,
)

PRECISIONS = ("ieee", "tf32", "tf32x3")
SWEEP_BYTES, SWEEP_DEPTH = 128 * 1024, 512
"""The bytes of B, and the cells of K, that the register blocks of a tile go over before the
accumulators return to scratch. All rows of blocks share that part, so it must stay in L2, of which
rows of A take as much (Zen 3, 512 KiB of L2: 64 KiB of B .955 of OpenBLAS at 512, 128 .987, 256
.975). Twice as much of operands read in place where L2 has 1 MiB (Emerald Rapids, 2 MiB, other
programs beside: 1.02 to 1.2 times as fast by least times, 0.99 to 1.04 by medians)."""
_LONG_ROW = 1024
"""Rows of A further apart than these bytes are packed for AMX, which reads 16 of them at once."""
_STEPS_AHEAD = 32
_STEPS = 2


@dataclass(frozen=True)
class Host:
    """Facts about a processor for the emitters.

    Args:
        bits: width of a vector register; `registers`: how many there are.
        fma: fused multiply-add in hardware (without it `llvm.fma` would be a library call).
        half: conversions between fp16 and fp32 in hardware.
        bf16_dot: `vdpbf16ps` at 512, 256 and 128 bits; `bfdot` and `bfmmla`.
        vnni: `vpdpbusd` at `bits` and below.
        madd: `pmaddwd` at `bits` and below (x86).
        amx: the formats that AMX multiplies: `bf16`, `fp16`, `int8`.
        arm: whether it is an AArch64; `sdot`: `sdot` and `udot` at 128 bits; `mmla`: `smmla` and
            `ummla`.
    """

    bits: int
    registers: int
    fma: bool
    half: bool
    bf16_dot: bool
    vnni: bool
    madd: bool
    amx: frozenset[str] = frozenset()
    arm: bool = False
    sdot: bool = False
    mmla: bool = False

    @classmethod
    def of(cls, arch: str, features: Collection[str]) -> Host:
        """The host of an architecture (`x86_64`, `aarch64`, anything else: plain 128-bit vectors)
        with LLVM's names of features that are on (`avx512f`, `fma`, `avx512bf16`)."""
        have = frozenset(f.lstrip("+") for f in features if not f.startswith("-"))
        if arch.lower() in ("aarch64", "arm64"):
            bf16, sdot, mmla = (name in have for name in ("bf16", "dotprod", "i8mm"))
            return cls(128, 32, True, True, bf16, False, False, arm=True, sdot=sdot, mmla=mmla)
        if arch.lower() not in ("x86_64", "amd64", "i686"):
            return cls(128, 16, False, False, False, False, False)
        wide = {"avx512f", "avx512vl", "avx512bw"} <= have
        bits = 512 if wide else 256 if "avx2" in have else 128
        return cls(
            bits,
            32 if wide else 16,
            fma=wide or ("fma" in have and bits >= 256),
            half=wide or ("f16c" in have and bits >= 256),
            bf16_dot=wide and "avx512bf16" in have,
            vnni=(wide and "avx512vnni" in have) or (bits == 256 and "avxvnni" in have),
            madd=True,
            amx=frozenset(n[4:] for n in have if n.startswith("amx-") and "amx-tile" in have),
        )

    @classmethod
    def read(cls, text: str) -> Host:
        """The host that `str` gives the text of. Raises `ValueError` for other texts."""
        match = re.fullmatch(r"(\d+)x(\d+)((?:\+[\w-]+)*)", text)
        words = set(match[3].split("+")[1:]) if match else set[str]()
        amx = {word for word in words if word.startswith("amx-")}
        if match is None or not words - amx <= set(_FLAGS):
            raise ValueError(
                f"host {text!r}; BITSxREGISTERS and some of +{' +'.join(_FLAGS)} +amx-FORMAT"
            )
        flags = {name: name in words for name in _FLAGS}
        return cls(int(match[1]), int(match[2]), **flags, amx=frozenset(w[4:] for w in amx))

    def __str__(self) -> str:
        words = [name for name in _FLAGS if getattr(self, name)]
        words += (f"amx-{name}" for name in sorted(self.amx))
        return "+".join((f"{self.bits}x{self.registers}", *words))


_FLAGS = ("fma", "half", "bf16_dot", "vnni", "madd", "arm", "sdot", "mmla")


class Method(Enum):
    """The instruction that multiplies and accumulates; named after what one cell holds.

    A cell is what one lane takes from an operand: `group` neighbours along k.
    """

    FMA = "fma"
    """One element a cell, converted to the accumulator's type; correct for all types."""
    BF16 = "bf16"
    """Two bfloat16 a cell, `vdpbf16ps` or `bfdot`."""
    MADD = "madd"
    """Two int16 a cell, `pmaddwd` and an add; exact for all of 8 bits."""
    VNNI = "vnni"
    """Four int8 a cell, `vpdpbusd` with A offset by 128 and a correction per column."""
    SDOT = "sdot"
    """Four int8 a cell, all signed or all unsigned."""
    MMLA = "mmla"
    """Eight int8 a cell, the same; two rows of A by two columns of B at once."""
    BFMMLA = "bfmmla"
    """Four bfloat16 a cell, two rows by two columns."""
    AMX_BF16 = "amx-bf16"
    """Two bfloat16 a cell, AMX's registers of 16 x 16 cells."""
    AMX_FP16 = "amx-fp16"
    """Two fp16 a cell, the same."""
    AMX_INT8 = "amx-int8"
    """Four int8 a cell, the same; each operand is signed or unsigned."""

    @property
    def group(self) -> int:
        """Elements along k in one cell."""
        return {Method.FMA: 1, Method.MMLA: 8, **dict.fromkeys(_FOURS, 4)}.get(self, 2)

    @property
    def word(self) -> str:
        """The method's name in texts."""
        return self.name.lower()

    @property
    def in_pairs(self) -> bool:
        """True for the methods whose accumulators have two columns of two rows."""
        return self in (Method.MMLA, Method.BFMMLA)

    @property
    def in_tiles(self) -> bool:
        """True for the methods that multiply registers of AMX."""
        return self.value.startswith("amx")


_FOURS = (Method.VNNI, Method.SDOT, Method.BFMMLA, Method.AMX_INT8)


@dataclass(frozen=True)
class Plan:
    """All choices for one dot.

    Args:
        host: the processor.
        method: the instruction.
        compute: LLVM type that elements are converted to (`float`, `i16`, ...).
        accumulate: LLVM type of an accumulator lane in registers.
        result: LLVM type of an element of the accumulator tile in scratch.
        lanes: accumulator lanes of one vector.
        block_rows, block_vectors: the register block, in rows and in vectors.
        unroll: steps of k (in cells) in one iteration of the innermost loop.
        prefetch: how many steps of k ahead B is prefetched; 0: not.
        pack_a, pack_b: the operand is first copied to scratch in the form the kernel reads.
        swap: compute the transpose, B's columns by A's rows: for N = 1, whose result is the same
            memory both ways, so that vectors run along M. All of the above is of that product.
        together: how many iterations of a loop around the dot go over with the accumulators in
            registers.
        instruction: the intrinsic that multiplies, without `llvm.`; none for `Method.FMA`.
    """

    host: Host
    method: Method
    compute: str
    accumulate: str
    result: str
    lanes: int
    block_rows: int
    block_vectors: int
    unroll: int
    prefetch: int
    pack_a: bool
    pack_b: bool
    swap: bool = False
    together: int = 1
    instruction: str = ""

    @property
    def cell(self) -> str:
        """LLVM type of a cell."""
        if self.method is Method.FMA:
            return self.accumulate
        return "i64" if self.method.in_pairs else "i32"

    @property
    def shortest(self) -> Plan:
        """The plan whose code is the shortest: a register block of one register."""
        rows = 16 if self.method.in_tiles else 2 if self.method.in_pairs else 1
        return replace(self, block_rows=rows, block_vectors=1, unroll=1, prefetch=0)

    @property
    def compact(self) -> Plan:
        """The plan for what runs at the ends of matrices: a register block that divides the rows,
        which is half of the code, and reaches nine tenths of the speed."""
        rows = self.block_rows if self.method.in_tiles else min(4, self.block_rows)
        return replace(self, block_rows=rows, prefetch=0)

    def alone(self, depth: int) -> Plan:
        """The plan for a product that no loop adds up: its loops over k are short, and processors
        foresee the end of one of few iterations (Zen 3, attention with K = 64: 1.02 to 1.05 times
        as fast by two steps an iteration; four take LLVM a fifth longer; no gain where K runs
        on to 512)."""
        if self.host.registers >= 32 or self.method.in_tiles:
            return self
        return replace(self, unroll=max(self.unroll, min(_STEPS, depth // self.method.group)))

    def orient(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """(M, N, K) of the product that is computed."""
        return (shape[1], shape[0], shape[2]) if self.swap else shape

    def operands(
        self, a: View | Chunks, b: View | Chunks, shape: tuple[int, int, int]
    ) -> tuple[Operand, Operand]:
        """The operands of the product that is computed; `shape` is the one before `orient`."""
        return oriented(a, b, shape, self.swap)

    def reading(self, a: Operand, b: Operand) -> Plan:
        """The plan for operands of which less may be known than when it was made: those that the
        kernel cannot read where they are, are packed. They are those of the computed product."""
        pack_a = self.pack_a or not is_readable(a, self.method, self.compute, 1)
        pack_b = self.pack_b or not is_readable(b, self.method, self.compute, self.lanes)
        if (pack_a, pack_b) == (self.pack_a, self.pack_b):
            return self
        return replace(self, pack_a=pack_a, pack_b=pack_b, prefetch=0 if pack_b else self.prefetch)

    def for_copies(self, a: Operand, b: Operand, rows: int) -> Plan:
        """The plan for dense copies of the operands, for where they cannot be read in place; those
        and `rows` are of the computed product."""
        return replace(
            self, pack_a=_needs_pack(a, self.method, self.compute, 1, True),
            pack_b=_needs_pack(b, self.method, self.compute, self.lanes, rows > self.block_rows),
        )  # fmt: skip


def oriented(
    a: View | Chunks, b: View | Chunks, shape: tuple[int, int, int], swap: bool
) -> tuple[Operand, Operand]:
    rows, columns, depth = shape
    oa, ob = operand_a(a, rows, depth), operand_b(b, depth, columns)
    return (ob, oa) if swap else (oa, ob)


def _types(left: View | Chunks, right: View | Chunks, result: str) -> tuple[str, str]:
    """The types to compute and to accumulate in."""
    floats = {FLOAT16, BFLOAT16, "float", "double"}
    a, b = left.element, right.element
    if result in (FLOAT16, "float", "double"):
        converted = left.convert is not None and right.convert is not None
        if not converted and not {a, b} <= floats:
            raise NotImplementedError(f"dot: {a} x {b} -> {result}; give the views a `convert`")
        wide = "double" if result == "double" else "float"
        return wide, wide
    if result in ("i8", "i16", "i32", "i64") and not {a, b} & floats:
        return result, result
    raise NotImplementedError(
        f"dot: {a} x {b} -> {result}; the result is half, float or double for floats, i8 to i64 "
        "for integers"
    )


def methods(
    host: Host, a: View | Chunks, b: View | Chunks, result: str, shape: tuple[int, int, int]
) -> Iterator[Method]:
    """The methods that a host has for operands of these types, the fastest first."""
    rows, columns, depth = shape
    if columns >= 4:
        # Cells of several elements need B packed, which pays only if rows share the packed form.
        elements = {BFLOAT16 if v.convert else v.element for v in (a, b)}
        tiled = _in_tiles(host, elements, result, shape)
        if tiled is not None:
            yield tiled
        if elements == {BFLOAT16} and result in ("float", FLOAT16) and host.bf16_dot:
            if host.arm and depth % 4 == 0 and rows >= 4:
                yield Method.BFMMLA
            if depth % 2 == 0 and rows >= 4:
                yield Method.BF16
        elif elements <= {"i8", "i16"} and result == "i32" and depth % 2 == 0 and rows >= 2:
            yield from _integer_methods(host, a, b, depth)
    yield Method.FMA


def _integer_methods(
    host: Host, a: View | Chunks, b: View | Chunks, depth: int
) -> Iterator[Method]:
    """The methods of vectors for operands of 8 and 16 bits."""
    if {a.element, b.element} == {"i8"} and depth % 4 == 0:
        if host.vnni and not a.unsigned and not b.unsigned:
            yield Method.VNNI
        if host.mmla and a.unsigned == b.unsigned and depth % 8 == 0:
            yield Method.MMLA
        if host.sdot and a.unsigned == b.unsigned:
            yield Method.SDOT
    # An unsigned i16 does not fit a signed one.
    if host.madd and all(not (v.element == "i16" and v.unsigned) for v in (a, b)):
        yield Method.MADD


def _in_tiles(
    host: Host, elements: set[str], result: str, shape: tuple[int, int, int]
) -> Method | None:
    """The AMX method for operands of these types, if there is one."""
    rows, columns, depth = shape
    kinds = {(BFLOAT16, "float"): Method.AMX_BF16, (FLOAT16, "float"): Method.AMX_FP16,
             ("i8", "i32"): Method.AMX_INT8}  # fmt: skip
    method = kinds.get((next(iter(elements)), result)) if len(elements) == 1 else None
    if method is None or method.value[4:] not in host.amx:
        return None
    # LLVM gives each register one shape in a function: all have 16 rows of 64 bytes.
    return method if min(rows, columns, depth // method.group) >= 16 else None


def _tile_block(rows: int, columns: int) -> tuple[int, int]:
    """Rows and registers across of an AMX register block: of 8 registers 4 accumulate."""
    down, across = rows // 16, columns // 16
    down, across = min(down, 4 if across == 1 else 2), min(across, 4 if down == 1 else 2)
    return 16 * down, across


def _instruction(host: Host, method: Method, bits: int, a: View | Chunks, b: View | Chunks) -> str:
    """The intrinsic of a method for vectors of `bits` bits."""
    signs = f"{'u' if a.unsigned else 's'}{'u' if b.unsigned else 's'}"
    return {
        Method.FMA: "",
        Method.BF16: f"x86.avx512bf16.dpbf16ps.{bits}" if not host.arm else
                     "aarch64.neon.bfdot.v4f32.v8bf16",
        Method.MADD: "x86." + {512: "avx512.pmaddw.d.512", 256: "avx2.pmadd.wd"}.get(
                     bits, "sse2.pmadd.wd"),
        Method.VNNI: f"x86.avx512.vpdpbusd.{bits}",
        Method.SDOT: f"aarch64.neon.{signs[0]}dot.v4i32.v16i8",
        Method.MMLA: f"aarch64.neon.{signs[0]}mmla.v4i32.v16i8",
        Method.BFMMLA: "aarch64.neon.bfmmla",
        Method.AMX_BF16: "x86.tdpbf16ps.internal",
        Method.AMX_FP16: "x86.tdpfp16ps.internal",
        Method.AMX_INT8: f"x86.tdpb{signs}d.internal",
    }[method]  # fmt: skip


def _block(host: Host, rows: int, vectors: int, fma: bool) -> tuple[int, int, int]:
    """Rows, vectors and unrolling of the register block.

    With 32 registers: 6 x 4, 8 x 2 or 8 x 1 accumulators; with 16: 6 x 2 (6 x 4 spills: .41
    against .83), 4 x 2 where a product needs a register of its own. One or two rows take 8 vectors,
    because they read long pieces of B's rows then.
    """
    if rows <= 2:
        wide = min(vectors, 8 if host.registers >= 32 else 8 // rows)
    elif host.registers >= 32:
        wide = min(vectors, 4)
    else:
        wide = min(vectors, 2)
    if host.registers >= 32:
        tall = 6 if wide == 4 else 8
    else:
        tall = (6 if wide == 2 else 8) if fma else 4
    tall = min(tall, rows)
    unroll = 1
    while tall * wide * unroll < 8 and unroll < 8:
        unroll *= 2
    return tall, wide, unroll


def _prefetch(host: Host, rows: int, columns: int, depth: int, b: Operand) -> int:
    """The number of steps of k by which B, read where it is, is prefetched to L2; 0 for none.

    The hardware sees no stream in rows of less than a page that are apart, and where few rows of A
    share B, memory is waited for (Zen 4, N = K = 4096 in fp32, GB/s with and without: 1 row in
    tiles of 128 columns 20 and 12, 4 rows 18 and 10, 16 rows 10 and 7; AVX2, 1 row: 21 and 11).
    Prefetches to L1 have fewer buffers and reach 13. Rows of a page are a stream, which prefetches
    disturb.
    """
    step = None if b.k_step is None else static(b.k_step)
    dense = step is not None and step <= columns
    if rows > host.bits // 16 or dense or columns * b.size >= 4096:
        return 0
    return min(depth, _STEPS_AHEAD)


def _needs_pack(operand: Operand, method: Method, compute: str, chunk: int, shared: bool) -> bool:
    """True if an operand is copied; `shared`: a converted copy would be read more than once."""
    if not is_readable(operand, method, compute, chunk):
        return True
    return method is Method.FMA and shared and _converts(operand, compute)


def is_readable(operand: Operand, method: Method, compute: str, chunk: int) -> bool:
    """True if the kernel can read the operand where it is. `chunk`: how many neighbours of the
    outer dimension one load takes (1 for A, whose cells are broadcast)."""
    if operand.k_step is None or operand.outer_run < chunk:
        return False
    if method is Method.FMA:
        return True
    if _converts(operand, compute):
        return False
    if method.in_tiles and chunk == 1:
        return not _rows_apart(operand)
    return chunk == 1 and static(operand.k_step) == 1


def _converts(operand: Operand, compute: str) -> bool:
    """True if elements are of another type than they are computed in."""
    return operand.element != compute or operand.convert is not None


def _rows_apart(operand: Operand) -> bool:
    """True if AMX cannot read rows of A where they are, or would from few sets of the cache."""
    step = None if operand.outer_step is None else static(operand.outer_step)
    return static(operand.k_step or 0) != 1 or step is None or step * operand.size > _LONG_ROW


def make_plan(
    host: Host,
    a: View | Chunks,
    b: View | Chunks,
    result: str,
    shape: tuple[int, int, int],
    input_precision: str = "ieee",
    l2: int = 0,
) -> Plan:
    """Choose how to compute a (M, K) @ (K, N) dot of powers of two; `shape` is (M, N, K); `l2`: the
    bytes of the second cache of a core, 0 if they are not known.

    `input_precision` is a permission to be less exact; all of its values compute in full fp32.

    Raises:
        NotImplementedError: types that no method covers.
        ValueError: an unknown precision, or a shape that is not of powers of two.
    """
    if input_precision not in PRECISIONS:
        raise ValueError(
            f"dot: input_precision {input_precision!r}; allowed are {', '.join(PRECISIONS)}"
        )
    rows, columns, depth = shape
    if any(s < 1 or s & (s - 1) for s in shape):
        raise ValueError(f"dot: shape {rows}x{columns}x{depth}; each must be a power of two")
    swap = columns == 1 and rows > 1
    oa, ob = oriented(a, b, shape, swap)
    if swap:
        rows, columns = columns, rows
    method = next(methods(host, a, b, result, (rows, columns, depth)))
    accumulate = _types(a, b, result)[1]
    lanes = min(host.bits // (8 * ELEMENT_BYTES[accumulate]), columns)
    fused = host.fma or method is not Method.FMA
    tall, wide, unroll = _block(host, rows, columns // lanes, fused)
    if method.in_tiles:
        lanes = 16
        tall, wide = _tile_block(rows, columns)
    plan = complete(
        host, a, b, result, method=method, lanes=lanes, block_rows=tall, block_vectors=wide,
        unroll=min(unroll, depth // method.group), swap=swap,
    )  # fmt: skip
    pack_b = _needs_pack(ob, method, plan.compute, lanes, rows > tall)
    pack_a = _needs_pack(oa, method, plan.compute, 1, True)
    panel = columns * depth * ELEMENT_BYTES[plan.compute]
    times = 2 if l2 >= 8 * SWEEP_BYTES and not (pack_a or pack_b) else 1
    most = times * SWEEP_BYTES // panel, times * SWEEP_DEPTH * method.group // depth
    return replace(
        plan, pack_a=pack_a, pack_b=pack_b, together=max(1, min(most)),
        prefetch=0 if pack_b else _prefetch(host, rows, columns, depth, ob),
    )  # fmt: skip


def complete(
    host: Host, a: View | Chunks, b: View | Chunks, result: str, *, method: Method, lanes: int,
    block_rows: int, block_vectors: int, unroll: int, prefetch: int = 0, pack_a: bool = False,
    pack_b: bool = False, swap: bool = False, together: int = 1,
) -> Plan:  # fmt: skip
    """A plan of choices, with what follows from them and from the types of the operands."""
    compute, accumulate = types(a, b, result, method)
    return Plan(
        host, method, compute, accumulate, result, lanes, block_rows, block_vectors, unroll,
        prefetch, pack_a, pack_b, swap, together, _instruction(host, method, 32 * lanes, a, b),
    )  # fmt: skip


def types(a: View | Chunks, b: View | Chunks, result: str, method: Method) -> tuple[str, str]:
    """The types that a method computes and accumulates in."""
    compute, accumulate = _types(a, b, result)
    if method in (Method.BF16, Method.BFMMLA, Method.AMX_BF16):
        compute = BFLOAT16
    elif method is Method.AMX_FP16:
        compute = FLOAT16
    elif method is not Method.FMA:
        compute = "i16" if method is Method.MADD else "i8"
    return compute, accumulate


def extent_plan(
    plan: Plan, a: View | Chunks, b: View | Chunks, shape: tuple[int, int, int]
) -> Plan:
    """The plan for part of K, of a length only known at run time, of the dot that `plan` is for.

    One element a cell, converted when loaded, and nothing read beyond the length. It is for the
    rest of a loop: a block of 4 rows keeps its code short.
    """
    oa, ob = plan.operands(a, b, shape)
    return replace(
        plan, method=Method.FMA, compute=plan.accumulate, block_rows=min(4, plan.block_rows),
        unroll=1, prefetch=0, pack_a=oa.k_step is None,
        pack_b=ob.k_step is None or ob.outer_run < plan.lanes,
    )  # fmt: skip
