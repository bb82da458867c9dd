"""Tensor memory: which element an instruction brings to a register, products of two thread blocks,
and what is refused."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from tests.gluon import pair_programs
from tests.gluon.support import compiled, launcher
from tests.nvidia.support import in_order
from tritium.backends.nvidia.lower import tensor_memory
from tritium.codegen.gpu.context import Memory
from tritium.codegen.llvm.writer import Value
from tritium.errors import CompilationError, InterpreterError, OutOfResources
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    cluster,
    get_tmem_reg_layout,
    mbarrier,
    tcgen05_mma,
    tma,
)
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP, linear
from tritium.ir.layouts.tensor_memory import COLUMN, ROW, TensorMemorySpace
from tritium.ops.parsing import parse_module
from tritium.ops.ttgir.tcgen05 import TCGen5CommitOp, TCGen5MMAOp
from tritium.ops.ttgir.types import memdesc_of


class _Lowering:
    """A context as far as `_Access` asks for one."""

    def unsupported(self, op: Any, why: str) -> Exception:
        return NotImplementedError(why)


REACHED: dict[str, Any] = {
    "32x32b": lambda lane, r: (lane, r),
    "16x64b": lambda lane, r: (lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * r),
    "16x128b": lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)),
    "16x256b": lambda lane, r: (lane // 4 + 8 * (r // 2 % 2), lane % 4 * 2 + r % 2 + 8 * (r // 4)),
}
"""The row and the column, from the address on, of a lane's registers (PTX ISA, "Data movement
shapes")."""


def _some(count: int) -> set[int]:
    """Numbers that show where all are: places are linear in their bits."""
    return {0, count - 1, *(1 << i for i in range(count.bit_length() - 1))}


@pytest.mark.covering(2)
@pytest.mark.parametrize("how", [*REACHED, "32x32b_splitn"])
@pytest.mark.parametrize("warps", [4, pytest.param(8, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize(("dtype", "element", "shape", "layout"), [
    (gl.float32, ir.f32, (128, 64), TensorMemoryLayout((128, 64), 1)),
    (gl.float16, ir.f16, (128, 64), TensorMemoryLayout((128, 64), 1)),
    (gl.float16, ir.f16, (128, 64), TensorMemoryLayout((128, 64), 2)),
    (gl.float32, ir.f32, (128, 64), TensorMemoryLayout((64, 64), 1)),
    (gl.float32, ir.f32, (256, 64), TensorMemoryLayout((128, 32), 1)),
    (gl.float32, ir.f32, (128, 64), TensorMemoryLayout((64, 64), 1, [[1, 0]], True)),
    (gl.int8, ir.i8, (256, 16), TensorMemoryScalesLayout()),
])  # fmt: skip
def test_registers_hold_what_instructions_reach(
    dtype: Any, element: Any, shape: Any, layout: Any, warps: int, how: str
) -> None:
    try:
        registers = get_tmem_reg_layout(dtype, shape, layout, warps, how)
    except ValueError:
        assert "splitn" in how
        return
    encoding, tile = layout.to_encoding(), registers.to_encoding()
    memory = Memory(Value("i32", "%m"), memdesc_of(shape, element, encoding,
                                                   space=TensorMemorySpace()))  # fmt: skip
    access = tensor_memory._Access(
        _Lowering(), None, ir.tensor_of(shape, element, tile), memory  # pyright: ignore
    )
    where, have = linear(encoding, shape), linear(tile, shape)
    assert access.shape.name == how.partition("_")[0]
    seen = 0
    for run in access.runs:
        assert f".aligned.{how[:5]}" in access.instruction("ld", len(run))[0]
        for number, place in enumerate(run):
            for register, bit in access.words[place]:
                seen += 1
                for lane in _some(32) if number in _some(len(run)) else ():
                    row, column = REACHED[access.shape.name](lane, number)
                    for warp in _some(warps):
                        start = [32 * (warp % 4), 0]
                        for i, step in enumerate(access.warps[2:]):
                            if warp >> (i + 2) & 1:
                                start = [start[0] + step[0], start[1] + step[1] // 32]
                        at = {ROW: start[0] + run[0][0] + row,
                              COLUMN: ((start[1] + run[0][1] + column) * 32 + bit)
                              // ir.bit_width(element)}  # fmt: skip
                        found = where.apply({**dict.fromkeys(where.in_names, 0), **at})
                        wanted = have.apply({**dict.fromkeys(have.in_names, 0),
                                             REGISTER: register, LANE: lane, WARP: warp})
                        assert found == wanted, (how, register, lane, warp)
    assert seen == have.in_size(REGISTER)


@pytest.mark.parametrize(("shape", "rows", "columns"), [
    ((128, 4), 32, [[0, 1], [0, 2], [32, 0], [64, 0]]),
    ((256, 2), 32, [[0, 1], [0, 0], [32, 0], [64, 0], [128, 0]]),
    ((128, 1), 32, [[0, 0], [0, 0], [32, 0], [64, 0]]),
    ((64, 8), 32, [[0, 1], [0, 2], [32, 0], [0, 4]]),
    ((32, 8), 32, [[0, 1], [0, 2], [0, 0], [0, 4]]),
    ((16, 4), 16, [[0, 1], [0, 2], [0, 0]]),
])  # fmt: skip
def test_where_scales_are(shape: tuple[int, int], rows: int, columns: list[list[int]]) -> None:
    """Those of 32 rows begin at a column of their own, as tcgen05.mma reads them (PTX ISA, "Scale
    factor A"), however few a row has. (Facts that Triton 3.9 prints of its layout.)"""
    layout = linear(TensorMemoryScalesLayout().to_encoding(), shape)
    lanes = [[x if x < rows else 0, 0] for x in (1, 2, 4, 8, 16)]
    assert [list(b) for b in layout.bases(ROW)] == [*lanes, [0, 0], [0, 0]]
    assert [list(b) for b in layout.bases(COLUMN)] == columns
    for warps in (4, 8):
        test_registers_hold_what_instructions_reach(
            gl.int8, ir.i8, shape, TensorMemoryScalesLayout(), warps, "32x32b"
        )


@gluon.jit
def rows_kernel(out, layout: gl.constexpr):
    memory = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], 1))
    memory.store(gl.zeros([128, 64], gl.float32, layout))
    gl.store(out, gl.max(gl.max(memory.load(layout), 1), 0))


def test_layouts_that_no_instruction_has() -> None:
    """The error names the layouts of the block and of the memory, and what gives others."""
    layout = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    with pytest.raises(NotImplementedError, match=r"memory\.store") as caught:
        compiled(rows_kernel, "*fp32", {"layout": layout}, 100)
    text = str(caught.value)
    assert "#ttg.blocked<" in text and "#ttng.tensor_memory_encoding<" in text
    assert "layouts that get_tmem_reg_layout gives are allowed" in text


def kernel_of(case: str, commit: bool = False, arch: int = 100) -> Any:
    layouts, shapes, constants = pair_programs.arguments(case)
    a, b = (f"tensordesc<fp16[{m},{n}],{layout!r}>"
            for (m, n), layout in zip(shapes, layouts, strict=True))  # fmt: skip
    return compiled(pair_programs.matmul_kernel, f"{a} {b} *fp32 i32",
                    {**constants, "COMMIT": commit}, arch,
                    num_ctas=1 << len(constants["CGA"]))  # fmt: skip


def test_products_of_two_blocks() -> None:
    """The first of two blocks starts products of 256 rows, for which copies of both arrive at its
    barrier; both blocks hear of their end."""
    kernel = kernel_of("pair")
    in_order(kernel.asm["ttgir"], "CGALayout = .*, twoCTAs = true>", r"init_barrier .*<1xi64",
             r"init_barrier .*<2xi64", r"ttng.tc_gen5_mma .*\{is_async, two_ctas\}")  # fmt: skip
    in_order(kernel.asm["ptx"], "barrier.cluster.wait", "tcgen05.alloc.cta_group::2",
             r"mbarrier.init.shared::cta.b64 \[%r\d+\], 2;", "mapa.shared::cluster",
             r"arrive.expect_tx.shared::cluster.b64 _, .*, 10240;",
             *[r"bulk.tensor.2d.cta_group::2.shared::cluster.*complete_tx::bytes \["] * 2,
             r"bra DONE;.*try_wait.*shared::cta",
             f"mov.b32 how, {16 << 24 | 8 << 17 | 1 << 16 | 1 << 4};",
             r"tcgen05.mma.cta_group::2.kind::f16 \[to\], da, db, how, use;",
             r"tcgen05.commit.cta_group::2.*multicast::cluster.b64 \[%r\d+\], %rs",
             "tcgen05.ld.sync", "barrier.cluster.wait", "tcgen05.dealloc.cta_group::2",
             "ret;")  # fmt: skip
    ptx = kernel_of("64 rows").asm["ptx"]
    assert f"mov.b32 how, {8 << 24 | 8 << 17 | 1 << 16 | 1 << 4};" in ptx


def test_ends_of_products_are_told_to_blocks_with_copies() -> None:
    kernel = kernel_of("two pairs", commit=True)
    module = parse_module(kernel.asm["ttgir"])
    (commit,) = (op for op in module.walk() if isinstance(op, TCGen5CommitOp))
    (product,) = (op for op in module.walk() if isinstance(op, TCGen5MMAOp))
    assert commit.reaches_blocks and product.reaches_blocks and commit.most_arrivals() == inf
    ptx = kernel.asm["ptx"]
    in_order(ptx, r"mbarrier.init.shared::cta.b64 \[%r\d+\], 2;", r"mov.b(16|32) .*, 15;",
             "tcgen05.commit.cta_group::2.*multicast::cluster.b64")  # fmt: skip
    ptx = kernel_of("copies").asm["ptx"]
    in_order(ptx, r"mbarrier.init.shared::cta.b64 \[%r\d+\], 1;",
             r"mbarrier.init.shared::cta.b64 \[%r\d+\], 2;",
             "mbarrier::complete_tx::bytes.multicast::cluster",
             "tcgen05.commit.cta_group::1.*multicast::cluster.b64")  # fmt: skip


def test_too_few_arrivals_of_other_blocks() -> None:
    """A barrier that counts the arrivals of one block gets those of two."""
    layouts, _, constants = pair_programs.arguments("copies")

    @gluon.jit
    def kernel(CGA: gl.constexpr, A: gl.constexpr, B: gl.constexpr):
        left = gl.allocate_shared_memory(gl.float16, [256, 32], A)
        right = gl.allocate_shared_memory(gl.float16, [32, 64], B)
        acc = allocate_tensor_memory(gl.float32, [256, 64], TensorMemoryLayout([128, 64], 1, CGA))
        done = mbarrier.allocate_mbarrier()
        mbarrier.init(done, count=1)
        cluster.barrier()
        tcgen05_mma(left, right, acc, use_acc=False, multicast=True, mbarriers=[done])

    with pytest.raises(InterpreterError, match="more than 1 arrivals in one phase"):
        launcher("interpreted")(kernel, (1,), CGA=constants["CGA"], A=layouts[0], B=layouts[1],
                                num_ctas=2)  # fmt: skip


ROWS, COLUMNS, BOTH = [[1, 0]], [[0, 1]], [[0, 0]]


@gluon.jit
def product_kernel(
    A: gl.constexpr, B: gl.constexpr, D: gl.constexpr, N: gl.constexpr, PAIR: gl.constexpr,
    OTHER: gl.constexpr,
):  # fmt: skip
    left = gl.allocate_shared_memory(gl.float16, [256, 32], A)
    right = gl.allocate_shared_memory(gl.float16, [32, N], B)
    done = mbarrier.allocate_mbarrier(two_ctas=PAIR)
    acc = allocate_tensor_memory(gl.float32, [256, N], D)
    if OTHER:
        pair: gl.constexpr = TensorMemoryLayout([128, 32], 1, [[1, 0]], True)
        allocate_tensor_memory(gl.float32, [256, 32], pair)
    tcgen05_mma(left, right, acc, mbarriers=[done])


def shared(cga: Any) -> Any:
    return gl.NVMMASharedLayout(32, 16, 2, cga_layout=cga)


def sums(n: int, cga: Any = ROWS, pair: bool = True) -> Any:
    return TensorMemoryLayout([128, n], 1, cga, pair)


@pytest.mark.parametrize(("a", "b", "d", "n", "pair", "message"), [
    (ROWS, COLUMNS, sums(64), 64, True, "a barrier that blocks share .*without two_ctas"),
    (ROWS, BOTH, sums(64), 64, False, r"b is .* begin at \[\[0, 0\]\].* \[\[0, 32\]\] is required"),
    (BOTH, COLUMNS, sums(64), 64, False, r"a is .* \[\[128, 0\]\] is required"),
    (ROWS, COLUMNS, sums(64, pair=False), 64, False, r"b is .* \[\[0, 0\]\] is required"),
    (ROWS, COLUMNS, sums(256), 512, False, "each two blocks have 512 columns.*at most 256"),
    (ROWS, COLUMNS, sums(32), 64, False, "each two blocks have 64 columns.*at most 32"),
])  # fmt: skip
def test_products_of_other_parts(a: Any, b: Any, d: Any, n: int, pair: bool, message: str) -> None:
    given = {"A": shared(a), "B": shared(b), "D": d, "N": n, "PAIR": pair, "OTHER": False}
    with pytest.raises(CompilationError, match=rf"tcgen05_mma\((.|\n)*{message}"):
        compiled(product_kernel, "", given, 100, num_ctas=2)


def test_products_of_one_block_beside_those_of_two() -> None:
    given = {"A": shared(ROWS), "B": shared(BOTH), "D": sums(64, pair=False), "N": 64}
    with pytest.raises(NotImplementedError, match="of one block, in a kernel with products of two"):
        compiled(product_kernel, "", {**given, "PAIR": False, "OTHER": True}, 100, num_ctas=2)


@gluon.jit
def copy_kernel(src):
    memory = gl.allocate_shared_memory(src.dtype, src.block_shape, src.layout)
    bar = mbarrier.allocate_mbarrier(two_ctas=True)
    mbarrier.init(bar, count=1)
    tma.async_load(src, [0, 0], bar, memory)


def test_barriers_of_two_blocks() -> None:
    text = f"tensordesc<fp16[128,32],{shared(ROWS)!r}>"
    for arch in (90, 120):
        with pytest.raises(NotImplementedError, match="of each two blocks, on sm_100 to sm_119"):
            compiled(copy_kernel, text, {}, arch, num_ctas=2)
    with pytest.raises(CompilationError, match="num_ctas=1; 2 or more are required"):
        compiled(copy_kernel, f"tensordesc<fp16[128,32],{shared([])!r}>", {}, 100)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: TensorMemoryLayout([128, 64], 1, [], True), r"its first basis is \[1, 0\]"),
    (lambda: TensorMemoryLayout([128, 64], 1, [[1]]), "two axes are required"),
    (lambda: get_tmem_reg_layout(gl.float32, (128, 64), sums(64), 4, "16x32b"),
     "one of 32x32b, 16x64b, 16x128b, 16x256b, 32x32b_splitn"),
    (lambda: get_tmem_reg_layout(gl.float32, (128, 4), TensorMemoryLayout([128, 4], 1), 4,
                                 "16x256b"), r"16x256b by 4 warps for tensor memory of \[128, 4\]"),
    (lambda: get_tmem_reg_layout(gl.float32, (128, 1), TensorMemoryLayout([128, 1], 1), 8),
     "32x32b by 8 warps"),
])  # fmt: skip
def test_layouts_that_there_are_not(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@gluon.jit
def allocating_kernel(N: gl.constexpr):
    layout: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    for _ in gl.static_range(N):
        allocate_tensor_memory(gl.float32, [128, 64], layout)


def test_columns_of_a_kernel() -> None:
    """All of a kernel's columns are in its metadata (a power of two, as the hardware hands them
    out), and tuning skips a configuration that wants more than there are."""
    assert compiled(allocating_kernel, "", {"N": 0}, 100).metadata.tmem_size == 0
    assert compiled(allocating_kernel, "", {"N": 3}, 100).metadata.tmem_size == 256
    with pytest.raises(OutOfResources, match=r"tensor memory, Required: 576, Hardware limit: 512"):
        compiled(allocating_kernel, "", {"N": 9}, 100)
