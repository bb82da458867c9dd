"""Gluon's blocks and layouts: the IR that kernels become, and what is refused."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.gluon.programs import auto_kernel, copy_kernel, helpers_kernel, transpose_kernel
from tests.gluon.support import compiled, launcher
from tests.nvidia.support import in_order
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import mma_v2
from tritium.experimental.gluon.language.nvidia.hopper import warpgroup_mma
from tritium.experimental.gluon.nvidia import hopper
from tritium.frontend.builder import IRBuilder
from tritium.ir.layouts.encodings import linear
from tritium.language import emitter
from tritium.language.emitter import TargetFeatures

BLOCKED = gl.BlockedLayout([4], [32], [4], [0])
ROWS = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])


def ptx_of(kernel: Any, arch: int) -> str:
    text: str = kernel.asm["ptx"]
    assert f"sm_{arch}" in text
    return text


@pytest.mark.parametrize("arch", [80, 90])
def test_copies_in_wide_accesses(arch: int) -> None:
    kernel = compiled(copy_kernel, "*fp32 *fp32 i32", {"layout": BLOCKED, "BLOCK": 512}, arch)
    assert "ttir" not in kernel.asm
    in_order(kernel.asm["ttgir"], r"#blocked = #ttg.blocked<{sizePerThread = \[4\], threadsPerWarp "
             r"= \[32\], warpsPerCTA = \[4\], order = \[0\]}>", '"ttg.num-warps" = 4 : i32',
             "tt.make_range .* : tensor<512xi32, #blocked>", "tt.load .*#blocked>",
             "tt.store .*#blocked>")  # fmt: skip
    in_order(ptx_of(kernel, arch), r"ld.global.v4.b32", r"st.global.v4.b32")


def test_each_layout_is_as_the_program_says() -> None:
    narrow = gl.BlockedLayout([1], [32], [4], [0])
    kernel = compiled(copy_kernel, "*fp32 *fp32 i32", {"layout": narrow, "BLOCK": 512})
    assert "ld.global.b32" in kernel.asm["ptx"] and "v4" not in kernel.asm["ptx"]


def test_a_coalesced_layout_is_found() -> None:
    constants = {"layout": gl.CoalescedLayout(), "BLOCK": 512}
    kernel = compiled(copy_kernel, "*fp32 *fp32 i32", constants)
    assert "#gluon.coalesced_encoding" in kernel.asm["glir"]
    assert "sizePerThread = [4]" in kernel.asm["ttgir"]
    assert "ld.global.v4.b32" in kernel.asm["ptx"]


@gluon.constexpr_function
def with_one_more(shape: Any, size: int) -> list[int]:
    assert isinstance(shape, list)
    return [*shape, size]


@gluon.jit
def zeros_kernel(out, shape: gl.constexpr, layout: gl.constexpr):
    gl.static_assert(isinstance(shape, list) and shape == [2, 4] and len(shape) == 2)
    first, second = shape
    gl.static_assert((first, second) == (2, 4))
    whole: gl.constexpr = with_one_more(shape, 128)
    x = gl.zeros(whole, gl.float32, layout)
    gl.store(out + gl.zeros([*shape, 128], gl.int32, layout), x)


def test_lists_stay_lists_at_compile_time() -> None:
    layout = gl.BlockedLayout([1, 1, 1], [1, 1, 32], [2, 2, 1], [2, 1, 0])
    constants = {"shape": [2, 4], "layout": layout}
    assert "tensor<2x4x128xf32" in compiled(zeros_kernel, "*fp32", constants).asm["ttgir"]


NVIDIA = gl.nvidia.hopper


@gluon.jit
def cached_kernel(src, out, layout: gl.constexpr, policy: gl.constexpr):
    i = gl.arange(0, 512, layout)
    gl.store(out + i, gl.load(src + i, cache_policy=policy), cache_modifier=".cs")


HALF = NVIDIA.FractionalEvictionPolicy("evict_last", 0.5, "evict_first")
MOST = NVIDIA.CachePolicy(l1="no_allocate", l2=HALF, l2_prefetch_size=128)


@gluon.jit
def hinted_kernel(src, out, n, layout: gl.constexpr, policy: gl.constexpr, store: gl.constexpr):
    i = gl.arange(0, 512, layout)
    memory = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.nvidia.ampere.async_copy.async_load(memory, src + i, i < n, cache_policy=policy)
    gl.nvidia.ampere.async_copy.commit_group()
    x = gl.load(src + i, i < n, 1.0, cache_policy=policy)
    gl.nvidia.ampere.async_copy.wait_group(0)
    gl.store(out + i, x + memory.load(layout), i < n, cache_policy=store)


def test_policies_of_the_second_level_cache() -> None:
    """ptxas takes the instructions, whose last operands are the policies."""
    store = NVIDIA.CachePolicy(l2=NVIDIA.FractionalEvictionPolicy("evict_first", 1.0))
    constants = {"layout": BLOCKED, "policy": MOST, "store": store}
    ptx = compiled(hinted_kernel, "*fp32 *fp32 i32", constants, 80).asm["ptx"]
    in_order(
        ptx, "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %rd[0-9]+, 0.5;",
        r"cp.async.cg.shared.global.L2::cache_hint.L2::128B .*, 16, %p\d+, %rd\d+;",
        r"@%p\d+ ld.global.L1::no_allocate.L2::cache_hint.L2::128B.v4.b32 .*, %rd\d+;",
        "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd[0-9]+, 1.0;",
        r"@%p\d+ st.global.L2::cache_hint.v4.b32 .*, %rd\d+;",
    )  # fmt: skip
    src, out = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    launcher("interpreted")(hinted_kernel, (1,), src, out, 300, **constants)
    np.testing.assert_array_equal(out, np.where(np.arange(512) < 300, 2 * src, 0))


@gluon.jit
def bulk_kernel(desc, out, policy: gl.constexpr):
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    bar = NVIDIA.mbarrier.allocate_mbarrier()
    NVIDIA.mbarrier.init(bar, count=1)
    NVIDIA.mbarrier.expect(bar, desc.nbytes_per_cta)
    NVIDIA.tma.async_load(desc, [0, 0], bar, memory, cache_policy=policy)
    NVIDIA.mbarrier.wait(bar, 0)
    NVIDIA.tma.async_store(out, [0, 0], memory, cache_policy=policy)
    NVIDIA.tma.store_wait(0)


@pytest.mark.parametrize("policy", [
    NVIDIA.CachePolicy(l2=HALF), gl.CachePolicy("none", "evict_first"),
])  # fmt: skip
def test_policies_of_bulk_copies(policy: Any) -> None:
    layout = gl.NVMMASharedLayout(128, 16)
    desc = f"tensordesc<fp16[64, 64],{layout!r}>"
    ptx = compiled(bulk_kernel, f"{desc} {desc}", {"policy": policy}).asm["ptx"]
    in_order(
        ptx, "createpolicy.fractional",
        r"cp.async.bulk.tensor.2d.shared.*bytes.L2::cache_hint \[.*\], %rd\d+;",
        r"cp.async.bulk.tensor.2d.global.*.bulk_group.L2::cache_hint \[.*\], %rd\d+;",
    )  # fmt: skip


def test_bulk_copies_take_no_policy_of_the_first_level_cache() -> None:
    desc = f"tensordesc<fp16[64, 64],{gl.NVMMASharedLayout(128, 16)!r}>"
    with pytest.raises(CompilationError, match="bulk copies take a policy of the second-level"):
        compiled(bulk_kernel, f"{desc} {desc}", {"policy": MOST})


@pytest.mark.parametrize(("policy", "load"), [
    (gl.CachePolicy("cg"), "ld.global.cg.v4"), (NVIDIA.CachePolicy("cs"), "ld.global.cs.v4"),
    (gl.CachePolicy("none", "evict_last"), "ld.global.L1::evict_last"),
    (NVIDIA.CachePolicy(l1="evict_first"), "ld.global.L1::evict_first"),
    (NVIDIA.CachePolicy("cg", l2_prefetch_size=64), "ld.global.cg.L2::64B.v4"),
])  # fmt: skip
def test_cache_policies(policy: Any, load: str) -> None:
    ptx = compiled(cached_kernel, "*fp32 *fp32", {"layout": BLOCKED, "policy": policy}).asm["ptx"]
    in_order(ptx, load, "st.global.cs")


@gluon.jit
def filled_kernel(layout: gl.constexpr, count: gl.constexpr):
    gl.full([64] * count, 0, gl.int32, layout)


@pytest.mark.parametrize(("layout", "message"), [
    (gl.BlockedLayout([3], [32], [4], [0]),
     r"BlockedLayout\(size_per_thread=\[3\], .*: the size of dim0 is 3; a power of two"),
    (gl.SliceLayout(2, gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])),
     r"SliceLayout\(dim=2, .*dim 2 of a block of 2 axes; 0 to 1 are required"),
])  # fmt: skip
def test_layouts_that_hold_no_block(layout: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(filled_kernel, "", {"layout": layout, "count": 1})


@pytest.mark.parametrize(("make", "message"), [
    (lambda: gl.CachePolicy("none", "evict_unchanged"), "'evict_unchanged'; one of evict_normal"),
    (lambda: NVIDIA.CachePolicy(l2="evict_last"), "a FractionalEvictionPolicy is required"),
    (lambda: NVIDIA.FractionalEvictionPolicy("evict_last", 1.5), "fraction is 1.5"),
    (lambda: NVIDIA.CachePolicy(), r"CachePolicy\(\) says nothing"),
    (lambda: NVIDIA.CachePolicy("cg", "evict_first"), "a cache_modifier says what"),
])  # fmt: skip
def test_cache_policies_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_automatic_layouts_are_found() -> None:
    layout = gl.BlockedLayout([1, 2], [8, 4], [1, 4], [1, 0])
    kernel = compiled(auto_kernel, "*fp32 *fp32", {"layout": layout})
    in_order(kernel.asm["glir"], r"tensor<16xi32, #gluon.auto_encoding>", "gluon.set_auto_layout")
    in_order(kernel.asm["ttgir"],
             r"make_range .* tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>>")  # fmt: skip
    assert "gluon." not in kernel.asm["ttgir"]


def test_changes_of_layout_stay() -> None:
    kernel = compiled(transpose_kernel, "*fp32 *fp32", {"M": 64, "N": 32})
    assert kernel.asm["ttgir"].count("ttg.convert_layout") == 1
    assert kernel.metadata.shared == 64 * 32 * 4


@gluon.jit
def undecided_kernel(out):
    i = gl.arange(0, 128)
    gl.store(out + i, i)


def test_a_layout_that_nothing_decides() -> None:
    with pytest.raises(CompilationError, match=r"\^\n%.*nothing decides its layout"):
        compiled(undecided_kernel, "*i32")


@gluon.jit
def conflict_kernel(out, a: gl.constexpr, b: gl.constexpr):
    i = gl.arange(0, 128)
    gl.store(out + gl.set_auto_layout(i, a), 1)
    gl.store(out + gl.set_auto_layout(i, b), 1)


def test_two_layouts_for_one_value() -> None:
    message = r"\^\n.*two layouts are found for it, .*\[1\].*and .*\[2\]"
    with pytest.raises(CompilationError, match=message):
        compiled(conflict_kernel, "*i32", {"a": gl.BlockedLayout([1], [32], [4], [0]),
                                           "b": gl.BlockedLayout([2], [32], [4], [0])})  # fmt: skip


@gluon.jit
def sum_kernel(out, a: gl.constexpr, b: gl.constexpr):
    i = gl.arange(0, 128, a) + gl.arange(0, 128, b)
    gl.store(out + i, i)


@gluon.jit
def store_kernel(out, a: gl.constexpr, b: gl.constexpr):
    gl.store(out + gl.arange(0, 128, a), gl.full([128], 1, gl.int32, b))


@pytest.mark.parametrize("kernel", [sum_kernel, store_kernel])
def test_blocks_of_different_layouts(kernel: Any) -> None:
    layouts = {"a": gl.BlockedLayout([1], [32], [4], [0]), "b": BLOCKED}
    message = (r"size_per_thread=\[1\].*size_per_thread=\[4\].*convert_layout")
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, "*i32", layouts)
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(kernel, (1,), np.zeros(128, np.int32), **layouts)


@gluon.jit
def ranks_kernel(out, a: gl.constexpr, b: gl.constexpr):
    gl.store(out + gl.zeros([4, 128], gl.int32, a) + gl.arange(0, 128, b), 1)


@pytest.mark.parametrize("b", [gl.SliceLayout(1, ROWS), BLOCKED])
def test_blocks_of_different_ranks(b: Any) -> None:
    message = (r"different ranks, <\[128\], .*Layout.*> and <\[4, 128\], .*BlockedLayout.*"
               r"must be SliceLayout\(0, that of the other")
    with pytest.raises(CompilationError, match=message):
        compiled(ranks_kernel, "*i32", {"a": ROWS, "b": b})
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(ranks_kernel, (1,), np.zeros(128, np.int32), a=ROWS, b=b)


@gluon.jit
def one_block(out, layout: gl.constexpr, N: gl.constexpr):
    i = gl.arange(0, N, layout)
    gl.store(out + i, i)


@pytest.mark.parametrize(("layout", "message"), [
    (gl.BlockedLayout([1], [32], [8], [0]), r"has 8 warps; the kernel runs with num_warps=4"),
    (gl.BlockedLayout([1], [16], [4], [0]), r"has 16 threads a warp; 32 are required"),
    (ROWS, r"rank mismatch: shape \[128\], BlockedLayout\(.*has rank 2"),
    (gl.SwizzledSharedLayout(1, 1, 1, [0]), r"Swizzled.*a DistributedLayout is required"),
    (gl.DistributedLinearLayout([], [[1], [2], [0], [8], [16]], [[0], [0]], [], [32]),
     r"does not reach all elements of a block of \[128\]"),
    (gl.SliceLayout(2, ROWS), r"#ttg.slice: dim 2 of a block of 2 axes"),
    (gl.SliceLayout(-1, ROWS), r"#ttg.slice: dim -1 of a block of 2 axes"),
])  # fmt: skip
def test_layouts_that_do_not_fit(layout: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(one_block, "*i32", {"layout": layout, "N": 128})
    message = message.replace("32 are", "32 or 64 are")
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(one_block, (1,), np.zeros(128, np.int32), layout=layout, N=128)


def test_layouts_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"shape=\[64\]\): the bases are of blocks of \[32\]"):
        gl.DistributedLinearLayout([], [[1], [2], [4], [8], [16]], [[0], [0]], [], [64])
    with pytest.raises(ValueError, match=r"order \[1, 1\] must be a permutation of 0 to 1"):
        gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 1])


@gluon.jit
def wrapped_kernel(out, layout: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    gl.store(out + i * 32 + j, i * 100 + j)


@pytest.mark.parametrize(("registers", "shape", "further"), [
    ([[1, 0]], [8, 8], [[8, 0], [0, 8], [0, 16]]),
    ([[0, 8], [1, 0]], [8, 16], [[0, 16], [8, 0]]),
])  # fmt: skip
def test_larger_blocks_wrap_around_into_registers(registers: Any, shape: Any, further: Any) -> None:
    lanes, warps = [[0, 1], [0, 2], [0, 4], [2, 0], [4, 0]], [[0, 0], [0, 0]]
    layout = gl.DistributedLinearLayout(registers, lanes, warps, [], shape)
    out = np.zeros((16, 32), np.int32)
    launcher("engine")(wrapped_kernel, (1,), out, layout=layout)
    np.testing.assert_array_equal(out, np.arange(16)[:, None] * 100 + np.arange(32))
    found = linear(layout.to_encoding(), (16, 32)).bases("register")
    assert [list(basis) for basis in found] == [*registers, *further]


@gluon.jit
def branches_kernel(n, a: gl.constexpr, b: gl.constexpr):
    x = gl.full([128], 1, gl.int32, a)
    if n > 3:
        x = gl.convert_layout(x, b)


def test_branches_with_different_layouts() -> None:
    layouts = {"a": gl.BlockedLayout([1], [32], [4], [0]), "b": BLOCKED}
    with pytest.raises(CompilationError, match=r"_thread=\[4\].*_thread=\[1\].*`convert_layout`"):
        compiled(branches_kernel, "i32", layouts)


@gluon.jit
def unknown_kernel(out):
    gl.zeros([128], gl.int32, "blocked")


def test_no_layout_in_a_function_of_the_library() -> None:
    message = r"def unknown_kernel.*\^\n.*the layout of a block is 'blocked'"
    with pytest.raises(InterpreterError, match=re.compile(message, re.DOTALL)):
        launcher("interpreted")(unknown_kernel, (1,), np.zeros(1, np.int32))


@gluon.jit
def shared_block(out, layout: gl.constexpr):
    gl.allocate_shared_memory(gl.int32, [128], layout)


def test_a_layout_of_shared_memory_with_too_many_axes() -> None:
    layout, message = gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), r"more axes than the shape \[128\]"
    with pytest.raises(CompilationError, match=message):
        compiled(shared_block, "*i32", {"layout": layout})
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(shared_block, (1,), np.zeros(1, np.int32), layout=layout)


@gluon.jit
def expanded_kernel(out, layout: gl.constexpr):
    i = gl.arange(0, 128, layout)[:, None]
    gl.store(out + i, i)


def test_a_new_axis_needs_a_slice() -> None:
    with pytest.raises(CompilationError, match=r"#ttg.slice<{dim = 1, ...}> needed"):
        compiled(expanded_kernel, "*i32", {"layout": BLOCKED})


@gluon.jit
def trivial_kernel(out, a: gl.constexpr, b: gl.constexpr):
    x = gl.convert_layout(gl.arange(0, 128, a), b, assert_trivial=True)
    gl.store(out + x, x)


def test_a_conversion_that_must_be_trivial() -> None:
    layout = gl.BlockedLayout([1], [32], [4], [0])
    linear = gl.DistributedLinearLayout([], [[1 << i] for i in range(5)], [[32], [64]], [], [128])
    assert compiled(trivial_kernel, "*i32", {"a": layout, "b": linear}).asm["ptx"]
    lanes = [[1 << i] for i in range(5)]
    ahead = gl.DistributedLinearLayout([[32], [64], [0]], lanes, [], [], [128])
    turned = gl.DistributedLinearLayout([[64], [32]], lanes, [], [], [128])
    assert compiled(trivial_kernel, "*i32", {"a": ahead, "b": turned}, num_warps=1).asm["ptx"]
    for a, b in ((layout, BLOCKED), (layout, gl.AutoLayout()), (gl.AutoLayout(), layout)):
        with pytest.raises(CompilationError, match=r"is not trivial(.|\n)*lane_bases=\[\[1\], "):
            compiled(trivial_kernel, "*i32", {"a": a, "b": b})


@gluon.jit
def linear_kernel(layout: gl.constexpr, shared: gl.constexpr):
    found: gl.constexpr = gl.to_linear_layout(layout, [16, 16])
    gl.static_assert(found == gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [8, 0]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], [], [], [16, 16]))
    gl.static_assert(gl.to_linear_layout(found, [16, 16]) == found)
    distributed: gl.constexpr = gl.distributed_type(gl.int32, [16, 16], layout)
    memory: gl.constexpr = gl.shared_memory_descriptor_type(gl.int32, [16, 16], shared, [16, 16])
    gl.static_print("conflicts", gl.bank_conflicts(distributed, memory))


def test_linear_layouts_and_conflicts(capsys: pytest.CaptureFixture[str]) -> None:
    layout = gl.BlockedLayout([1, 4], [8, 4], [1, 1], [1, 0])
    for order, conflicts in (([1, 0], 0), ([0, 1], 3)):
        shared = gl.SwizzledSharedLayout(1, 1, 1, order)
        compiled(linear_kernel, "", {"layout": layout, "shared": shared}, num_warps=1)
        assert capsys.readouterr().out.split() == ["conflicts", str(conflicts)]


@gluon.jit
def halves_kernel(layout: gl.constexpr):
    x = gl.zeros([16, 512], gl.float32, layout)
    first, second = gl.split(x.reshape([16, 256, 2]))
    pairs = gl.join(second, -first)
    gl.static_assert(pairs.type.layout == x.reshape([16, 256, 2]).type.layout)
    gl.static_assert((pairs.reshape([16, 512]) + x).type.layout == layout)


def test_halves_that_are_joined_again_have_the_layout_of_the_whole() -> None:
    compiled(halves_kernel, "", {"layout": gl.BlockedLayout([1, 8], [4, 8], [1, 4], [1, 0])})


def test_functions_are_named_after_layouts() -> None:
    layout = gl.BlockedLayout([1], [32], [4], [0])
    kernel = compiled(helpers_kernel, "*i32 *i32", {"layout": layout})
    assert helpers_kernel.is_gluon()
    assert re.search(r"tests.gluon.programs.scale__i32S128SLB1_32_4_0_BL_", kernel.asm["glir"])


def test_through_the_alias() -> None:
    program = (
        "import tritium.compat as c; c.install()\n"
        "from triton.experimental import gluon\n"
        "import triton.experimental.gluon.language as ttgl\n"
        "import tritium.experimental.gluon as ours\n"
        "assert gluon is ours and ttgl.BlockedLayout is ours.language.BlockedLayout\n"
        "import triton.language as tl; assert ttgl.float32 is tl.float32\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@gluon.jit
def nothing():
    pass


@gluon.jit
def worker(x):
    pass


@pytest.mark.parametrize(("arguments", "message"), [
    ("[(nothing, ())], [1]", r"got 0 partitions but 1 warp counts"),
    ("[(nothing, ()), (nothing, ())], [1], [24, 24]", r"got 1 partitions but 2 register counts"),
    ("[(nothing, ()), (nothing, ())], [3]", r"a partition of 3 warps; a power of two"),
    ("[(nothing, ()), (nothing, ())], [1], [20]", r"20 registers .*multiple of 8 from 24 to 256"),
    ("[(nothing, ()), (worker, (gl.arange(0, 128, layout),))], [1]", r"captures tensor<.*tiles go"),
    ("[(nothing, ()), nothing], [1]", r"partition 1 is .*a pair \(function, arguments\)"),
])  # fmt: skip
def test_partitions_that_do_not_fit(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "partitions.py").write_text(
        "from tests.gluon.test_language import gl, gluon, nothing, worker\n"
        "@gluon.jit\ndef kernel(layout: gl.constexpr):\n"
        f"    gl.warp_specialize({arguments})\n"
    )
    spec: Any = importlib.util.spec_from_file_location("partitions", tmp_path / "partitions.py")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(CompilationError, match=message):
        compiled(module.kernel, "", {"layout": gl.BlockedLayout([1], [32], [4], [0])})


@gluon.constexpr_function
def biased(outputs, inputs):
    (sums,), (x, bias) = outputs, inputs
    return " ".join(f"add.f32 {to}, {of}, {bias[0]};" for to, of in zip(sums, x, strict=True))


@gluon.jit
def assembly_kernel(src, out, bias, text: gl.constexpr, codes: gl.constexpr, pure: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    i = gl.arange(0, 512, layout)
    x = gl.load(src + i)
    gl.store(out + i, gl.inline_asm(text, codes, [x, bias], x.type, is_pure=pure))


def test_assembly_of_all_registers() -> None:
    kernel = compiled(assembly_kernel, "*fp32 *fp32 fp32",
                      {"text": biased, "codes": ("=&f", "f", "f"), "pure": True})  # fmt: skip
    text = " ".join(f"add.f32 ${i}, ${4 + i}, $8;" for i in range(4))
    codes = "=&f,=&f,=&f,=&f,f,f,f,f,f"
    assert f'asm "{text}" {{constraints = "{codes}", pure = true}}' in kernel.asm["ttgir"]
    assert f'asm "{text}", "{codes}"(float' in kernel.asm["llir"]
    assert kernel.asm["ptx"].count("add.f32") == 4


@pytest.mark.parametrize(("text", "codes", "message"), [
    ("", "=f,f", "'=f,f' has 1 outputs and 1 inputs; the operands are 4 .* and 5 of arguments"),
    ("", ("=f", "f"), "2 constraints; one for each of 3 results and arguments is required"),
    ("", ("=f", "x", "f"), "the constraint 'x' in .* is none of PTX"),
])  # fmt: skip
def test_assembly_that_does_not_fit(text: str, codes: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(assembly_kernel, "*fp32 *fp32 fp32",
                 {"text": text, "codes": codes, "pure": False})  # fmt: skip


@gluon.jit
def assembly_of_memory_kernel(out, pure: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, 128, layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    memory = gl.allocate_shared_memory(gl.int32, [128], shared, i)
    lane, time = gl.inline_asm("mov.u32 $0, %laneid; mov.u32 $1, %clock;", "=r,=r", [],
                               [gl.int32, gl.int32])  # fmt: skip
    gl.inline_asm("// at $0", "r", [memory], is_pure=pure)
    gl.store(out + i, lane + time + memory.load(layout))


def test_assembly_of_memory() -> None:
    kernel = compiled(assembly_of_memory_kernel, "*i32", {"pure": False})
    in_order(kernel.asm["llir"], r'call { i32, i32 } asm sideeffect "mov.u32 \$0, %laneid',
             r'call void asm sideeffect "// at \$0", "r"\(i32 %')  # fmt: skip
    with pytest.raises(CompilationError, match="assembly with memory is not pure"):
        compiled(assembly_of_memory_kernel, "*i32", {"pure": True})


@pytest.mark.parametrize("call", [
    "gl.nvidia.rubin.add4()",
    "gl.nvidia.rubin.TensorMemoryScalesLayout(block_rep_order='kThenMn')",
])  # fmt: skip
def test_what_is_not_built_is_named(call: str) -> None:
    name = call.partition("(")[0].split(".")[-1]
    with emitter.activate(IRBuilder(TargetFeatures())), \
            pytest.raises(NotImplementedError, match=rf"{name}.*not built"):  # fmt: skip
        eval(call, {"gl": gl, "hopper": gl.nvidia.hopper, "ampere": gl.nvidia.ampere})


def test_pictures() -> None:
    """A rectangle for each element, with the text of `format_tensor_view`; a hue for each warp."""
    layout = gl.BlockedLayout([1, 2], [8, 4], [2, 2], [1, 0])
    root = ElementTree.fromstring(layout.to_svg([16, 16]))
    cells = [e for e in root if e.tag.endswith("rect")]
    assert len(cells) == 256
    assert len({re.match(r"hsl\((\d+)", e.get("fill", ""))[1] for e in cells}) == 4  # pyright: ignore
    texts = [e.text for e in root if e.tag.endswith("text")]
    rows = layout.format_tensor_view([16, 16]).split("\n")
    for row in rows:
        for cell in row.strip("[]").split(","):
            assert cell.strip() in texts
    memory = gl.SwizzledSharedLayout(2, 1, 4, [1, 0]).to_svg([4, 8])
    assert memory.count("<rect") == 32 and ">31<" in memory
    cube = gl.BlockedLayout([1, 1, 2], [1, 8, 4], [1, 2, 2], [2, 1, 0]).to_svg([2, 16, 16])
    assert cube.count("<rect") == 512 and "[1]" in cube


@gluon.jit
def coalesced_mask_kernel(src, out, n):
    """The mask's layout is left open, and that of addresses is the best for the access."""
    i = gl.arange(0, 128, gl.AutoLayout())
    policy: gl.constexpr = gl.nvidia.ampere.CachePolicy(cache_modifier=".ca")
    x = gl.load(gl.set_auto_layout(src + i, gl.CoalescedLayout()), i < n, 0.0, cache_policy=policy)
    gl.store(gl.set_auto_layout(out + i, gl.CoalescedLayout()), x)


def test_coalesced_layout_is_set() -> None:
    kernel = compiled(coalesced_mask_kernel, "*fp32 *fp32 i32")
    assert "gluon." not in kernel.asm["ttgir"] and "ld.global.ca" in kernel.asm["ptx"]


@gluon.jit(noinline=True)
def numbered(out, N: gl.constexpr, layout: gl.constexpr):
    gl.store(out + gl.arange(0, N, layout), gl.cumsum(gl.full([N], 1, gl.int32, layout)))
    count_of_warps(out + N)


@gluon.jit(noinline=True)
def count_of_warps(out):
    gl.store(out, gl.num_warps())


@gluon.jit
def numbers(out):
    numbered(out, 256, gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))


@gluon.jit
def calls_in_partitions_kernel(out):
    gl.warp_specialize([(numbers, (out,)), (numbers, (out + 257,)), (numbers, (out + 514,))],
                       [8, 1])  # fmt: skip
    numbers(out + 771)


@pytest.mark.parametrize("how", ["interpreted", "simt"])
def test_partitions_call_functions(how: str) -> None:
    """A function that several partitions call runs with the warps of each."""
    out = np.zeros(4 * 257, np.int32)
    launcher(how)(calls_in_partitions_kernel, (1,), out, num_warps=4)
    for part, warps in enumerate((4, 8, 1, 4)):
        expected = [*range(1, 257), warps]
        np.testing.assert_array_equal(out[257 * part : 257 * (part + 1)], expected)


@gluon.jit
def elements_of_memory_kernel(out, PURE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    i = gl.arange(0, 256, layout)
    half = gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))
    memory = gl.allocate_shared_memory(gl.int32, [256], gl.SwizzledSharedLayout(1, 1, 1, [0]), i)
    gl.inline_asm_elementwise("// $0 $1 $2", "=r,r,r", [memory.slice(128, 128), half], gl.int32,
                              PURE, 1)  # fmt: skip
    gl.store(out + i, memory.load(layout))


def test_assembly_of_memory_by_elements() -> None:
    """The address is that of the slice; threads meet before and after."""
    kernel = compiled(elements_of_memory_kernel, "*i32", {"PURE": False})
    in_order(kernel.asm["ptx"], "st.*shared", "bar.sync", r"// %r\d+", "bar.sync", "ld.shared")
    in_order(kernel.asm["llir"], "ptrtoint", "mul i32 128, 4", "add i32 ", "asm sideeffect")
    with pytest.raises(CompilationError, match="assembly with memory is not pure"):
        compiled(elements_of_memory_kernel, "*i32", {"PURE": True})


@gluon.jit
def strided_kernel(x, stride: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(32, 16, 2)
    gl.nvidia.hopper.tma.make_tensor_descriptor(x, [16, 16], [stride, 1], [16, 16], layout)


def test_a_stride_that_no_tensor_map_has_is_an_error() -> None:
    compiled(strided_kernel, "*fp16", {"stride": 16})
    with pytest.raises(CompilationError, match=r"16-byte aligned; strides\[0\] is 15, 30 bytes"):
        compiled(strided_kernel, "*fp16", {"stride": 15})


@gluon.jit
def narrow_kernel(x, layout: gl.constexpr):
    gl.nvidia.hopper.tma.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 32], layout)


@pytest.mark.parametrize("cga", [[[0, 1]], [[0, 1], [0, 2]], [[1, 0], [0, 1]]])
def test_rows_too_short_for_copies_are_an_error(cga: list[list[int]]) -> None:
    """Each block of a cluster has a part of a row; 8 bytes are an illegal instruction."""
    layout = gl.NVMMASharedLayout(0, 8, 2, cga_layout=cga)
    array, blocks = np.zeros((64, 64), np.int8), 1 << len(cga)
    if len(cga) == 1 or cga[0] == [1, 0]:  # 16 bytes
        hopper.TensorDescriptor.from_tensor(array, [16, 32], layout)
        compiled(narrow_kernel, "*i8", {"layout": layout}, num_ctas=blocks)
        array = array[:, :32].copy()
        with pytest.raises(ValueError, match=r"each thread block has \[\d+, 8\].*16 elements"):
            hopper.TensorDescriptor.from_tensor(array, [16, 16], layout)
        return
    message = r"\[16, 32\], of which each thread block has \[16, 8\].*16 bytes or more"
    with pytest.raises(ValueError, match=message):
        hopper.TensorDescriptor.from_tensor(array, [16, 32], layout)
    with pytest.raises(CompilationError, match=message):
        compiled(narrow_kernel, "*i8", {"layout": layout}, num_ctas=blocks)


@gluon.jit
def hides(x, y, n: gl.constexpr, layout: gl.constexpr):
    i = gl.arange(0, n, layout)
    types: gl.constexpr = (gl.int32, gl.int32)
    a, b = gl.inline_asm_elementwise("", "=v,=v,1,0", [gl.load(x + i), i], types, False, 1)
    gl.store(y + a, b)


def test_assembly_without_instructions_is_its_arguments() -> None:
    layout = gl.BlockedLayout([1], [32], [4], [0])
    x, y = np.arange(128, dtype=np.int32) * 7, np.zeros(128, np.int32)
    launcher("interpreted")(hides, (1,), x, y, n=128, layout=layout)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: gl.BlockedLayout([1, 1], [4, 8], [4, 1], [0, 0]),
     r"^BlockedLayout\(.*order=\[0, 0\].*must be a permutation of 0 to 1"),
    (lambda: gl.SwizzledSharedLayout(3, 1, 1, [1, 0]), r"^SwizzledSharedLayout\(vec=3, .*vec is 3"),
])  # fmt: skip
def test_errors_name_the_layout(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@gluon.jit
def products_kernel(left: gl.constexpr, right: gl.constexpr, shared: gl.constexpr, a: gl.constexpr,
                    b: gl.constexpr, acc: gl.constexpr):  # fmt: skip
    if shared is None:
        x = gl.full([64, 64], 1.0, left, a)
        mma_v2(x, gl.full([64, 64], 1.0, right, b), gl.zeros([64, 64], gl.float32, acc))
    else:
        x = gl.allocate_shared_memory(left, [64, 64], shared)
        y = gl.allocate_shared_memory(right, [64, 64], shared)
        warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, acc))


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_operands_that_do_not_fit(how: str) -> None:
    by_warps = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    by_groups = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    sides = {"a": gl.DotOperandLayout(0, by_warps, 4), "b": gl.DotOperandLayout(1, by_warps, 2)}
    memory = gl.NVMMASharedLayout(128, 16, 2)
    for constants, message in (
        ({**sides, "left": gl.float16, "right": gl.float16, "shared": None, "acc": by_warps},
         "mma_v2: operands with k_width 4 and 2; one is required"),
        ({"a": 0, "b": 0, "left": gl.float16, "right": gl.bfloat16, "shared": memory,
          "acc": by_groups}, r"64x64xf16, .*64x64xbf16, .*; one dtype, or two of fp8, is required"),
    ):  # fmt: skip
        with pytest.raises((CompilationError, InterpreterError), match=message):
            if how == "compiled":
                compiled(products_kernel, "", constants)
            else:
                launcher("interpreted")(products_kernel, (1,), **constants)
