"""What the language's ops become: instructions in the PTX, without a GPU and without ptxas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import in_order
from tritium.backends.nvidia import libdevice, ptx
from tritium.compiler import ASTSource
from tritium.errors import CompilationError
from tritium.ir.layouts.encodings import LinearEncoding, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import covers
from tritium.ir.tensor_maps import box
from tritium.passes.ttgir.convert_ttir_to_ttgir import packed_encoding, scan_encoding
from tritium.passes.ttgir.layout_propagation import Threads, nvmma_encoding
from tritium.target import GPUTarget

needs_libdevice = pytest.mark.skipif(
    libdevice.find() is None, reason="libdevice is in a CUDA toolkit or nvidia-nvvm"
)


def compiled(
    fn: Any, signature: str, arch: int = 90, *, aligned: bool = False, **options: Any
) -> Any:
    """A kernel's stages; `signature` are the types of its arguments; `aligned`: they are multiples
    of 16. ptxas does not run."""
    kinds = dict(zip(fn.arg_names, signature.split(), strict=True))
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(kinds) if aligned else 0)}
    source = ASTSource(fn, kinds, {}, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@pytest.fixture(autouse=True)
def no_ptxas(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def assemble(text: str, arch: int, arguments: Any) -> tuple[bytes, str]:
        return text.encode() + b"\0", ""

    monkeypatch.setattr(ptx, "assemble", assemble)


@tritium.jit
def cumulative(x, o):
    i = tl.arange(0, 1024)
    tl.store(o + i, tl.cumsum(tl.load(x + i)))


def test_scan_goes_over_registers_lanes_and_warps():
    text = compiled(cumulative, "*fp32 *fp32").asm["ptx"]
    assert len(re.findall(r"shfl\.sync\.idx", text)) == 6, "five steps, and the one before"
    assert len(re.findall(r"bar(rier)?(\.cta)?\.sync", text)) >= 1


def barriers(kernel: Any) -> int:
    return len(re.findall(r"bar(?:rier)?(?:\.cta)?\.sync", kernel.asm["ptx"]))


@tritium.jit
def sort_rows(x, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(o + i, tl.sort(tl.load(x + i)))


@tritium.jit
def sort_one_row(x, o):
    i = tl.arange(0, 1024)
    tl.store(o + i, tl.sort(tl.load(x + i)))


@tritium.jit
def best_of_rows(x, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    best = tl.topk(tl.load(x + i), 8)
    tl.store(o + tl.arange(0, 16)[:, None] * 8 + tl.arange(0, 8)[None, :], best)


@tritium.jit
def gather_rows(x, j, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(j + i), 1))


def test_rows_of_a_warp_are_sorted_by_shuffles():
    """No element leaves its warp; where a row has several warps, few exchanges are between them."""
    kernel = compiled(sort_rows, "*fp32 *fp32", aligned=True)
    text = kernel.asm["ptx"]
    assert barriers(kernel) == 0 and ".shared" not in text
    assert "shfl.sync.bfly" in text
    assert barriers(compiled(sort_one_row, "*fp32 *fp32", aligned=True)) < 12
    best = compiled(best_of_rows, "*fp32 *fp32", aligned=True)
    assert barriers(best) <= 1, "for the store of the result"


def test_gathers_take_tiles_as_they_are():
    """The source is written as it was loaded and the result is where the indices were loaded."""
    assert barriers(compiled(gather_rows, "*fp32 *i32 *fp32", aligned=True)) == 1


def registers_lanes_warps(layout: LinearLayout, axis: int) -> list[int]:
    return [b[axis] for n in ("register", "lane", "warp") for b in layout.bases(n) if b[axis]]


@pytest.mark.parametrize("shape", [(8,), (1024,), (4, 64), (64, 4), (2, 2, 16), (1, 1)])
@pytest.mark.parametrize(("warps", "lanes"), [(1, 32), (4, 32), (16, 32), (4, 64), (1, 16)])
def test_scans_have_neighbours_in_order(shape: tuple[int, ...], warps: int, lanes: int):
    for axis in range(len(shape)):
        layout = linear(scan_encoding(shape, axis, Threads(warps, lanes)), shape)
        assert layout.is_surjective and layout.in_size("warp") == warps
        assert layout.in_size("lane") == lanes
        bits = registers_lanes_warps(layout, axis)
        assert bits == [1 << i for i in range(len(bits))]


@pytest.mark.parametrize(("shape", "pack"), [((64,), 4), ((8, 2), 8), ((4, 4, 4), 2)])
def test_packed_neighbours_are_in_one_thread(shape: tuple[int, ...], pack: int):
    layout = linear(packed_encoding(shape, pack, Threads(4, 32)), shape)
    held = layout.apply({"register": np.arange(pack)})
    flat = np.ravel_multi_index([np.broadcast_to(v, pack) for v in held.values()], shape)
    assert sorted(flat.tolist()) == list(range(pack))


@tritium.jit
def looked_up(x, i, o, h):
    at = tl.arange(0, 128)
    index = tl.load(i + at)
    tl.store(o + at, tl.gather(tl.load(x + at), index, 0))
    tl.store(h + tl.arange(0, 32), tl.histogram(index, 32))


def test_gather_and_histogram_use_shared_memory():
    text = compiled(looked_up, "*fp32 *i32 *fp32 *i32").asm["ptx"]
    in_order(text, r"st\.shared", r"bar", r"ld\.shared", r"red\.shared\.add\.u32")


@tritium.jit
def to_small(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.load(x + i).to(tl.float8e5))


@pytest.mark.parametrize(("arch", "hardware"), [(80, False), (89, True), (90, True), (120, True)])
def test_fp8_is_converted_by_hardware_that_can(arch: int, hardware: bool):
    text = compiled(to_small, "*fp32 *fp8e5", arch).asm["ptx"]
    assert ("cvt.rn.satfinite.e5m2x2.f32" in text) == hardware


@tritium.jit
def sines(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.sin(tl.load(x + i)))


@needs_libdevice
def test_libdevice_leaves_only_what_is_used():
    text = compiled(sines, "*fp64 *fp64").asm["ptx"]
    functions = re.findall(r"\.func .*?(\w+)\(", text)
    assert "fma.rn.f64" in text and "__nv_sin" not in functions and len(functions) <= 1, (
        "all is inlined but the reduction of huge arguments"
    )


@needs_libdevice
def test_libdevice_is_inlined_without_optimization(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert "__nvvm_reflect" not in compiled(sines, "*fp32 *fp32").asm["ptx"]


def test_missing_libdevice_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(tmp_path / "none.bc"))
    with pytest.raises(FileNotFoundError) as caught:
        compiled(sines, "*fp32 *fp32")
    assert re.search(
        r"__nv_sinf is in NVIDIA's libdevice.10.bc, but TRITON_LIBDEVICE_PATH names .*none.bc"
        r".*pip install nvidia-nvvm", str(caught.value),
    )  # fmt: skip


def test_broken_libdevice_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "broken.bc"
    path.write_bytes(b"no bitcode")
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(path))
    with pytest.raises(RuntimeError, match=r"cannot link .*broken.bc"):
        compiled(sines, "*fp32 *fp32")


@tl.core.extern
def halved(x, _semantic=None):
    return tl.core.extern_elementwise(
        "mine", "", [x], {(tl.float32,): ("my_half", tl.float32)}, True, _semantic=_semantic
    )


@tritium.jit
def halves(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, halved(tl.load(x + i)))


def test_libraries_of_ones_own_are_linked(tmp_path: Path):
    module = llvm.parse_assembly(
        "define float @my_half(float %x) { %y = fmul float %x, 0.5 ret float %y }"
        " define float @other(float %x) { ret float %x }"
    )
    path = tmp_path / "mine.bc"
    path.write_bytes(module.as_bitcode())
    text = compiled(halves, "*fp32 *fp32", extern_libs={"mine": str(path)}).asm["ptx"]
    assert "my_half" not in text and "other" not in text
    assert re.search(r"mul\.rn?\.?f32.*0f3F000000", text)


@tritium.jit(noinline=True)
def apart(x, i):
    return tl.sum(x, 0) + i, x * 2


@tritium.jit
def calls(x, o):
    i = tl.arange(0, 128)
    s, d = apart(tl.load(x + i), 3)
    t, e = apart(d, 4)
    tl.store(o + i, e + s + t)


def test_functions_that_stay_functions():
    kernel = compiled(calls, "*fp32 *fp32")
    text = kernel.asm["ptx"]
    assert len(re.findall(r"^\.func ", text, re.M)) + text.count(".visible .func") >= 1
    calls_ = [m.start() for m in re.finditer(r"call\.uni", text)]
    assert len(calls_) == 2
    between = text[calls_[0] : calls_[1]]
    assert re.search(r"bar(rier)?(\.cta)?\.sync", between), "the first call's memory is used again"
    assert kernel.metadata.shared >= 4 * 4


@tritium.jit
def says(x):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.device_print("100% value", v)
    tl.device_assert(v > 0, 'not "positive"')


def test_printing_and_assertions():
    ir = compiled(says, "*fp32", debug=True).asm["llir"]
    assert 'idx (%1u) 100%% value: %f\\0A\\00"' in ir
    assert 'not \\22positive\\22\\00"' in ir and "@__assertfail" in ir
    assert "@__assertfail" not in compiled(says, "*fp32").asm["llir"]


@tritium.jit
def packed(x, o):
    i = tl.arange(0, 512)
    y = tl.inline_asm_elementwise(
        "not.b32 $0, $1;", "=r,r", [tl.load(x + i)], dtype=tl.int8, is_pure=True, pack=4
    )
    tl.store(o + i, y)


def test_assembly_takes_four_bytes_at_once():
    text = compiled(packed, "*i8 *i8").asm["ptx"]
    assert len(re.findall(r"not\.b32", text)) == 1


@tritium.jit
def asks_the_gpu(o):
    tl.extra.cuda.gdc_wait()
    i = tl.arange(0, tl.extra.cuda.num_threads())
    tl.store(o + i, tl.extra.cuda.globaltimer() + tl.extra.cuda.smid() + i)
    tl.extra.cuda.gdc_launch_dependents()
    tl.static_assert(tl.extra.cuda.num_warps() == 2)


def test_what_only_nvidia_gpus_have():
    stages = compiled(asks_the_gpu, "*i64", num_warps=2).asm
    words = ["griddepcontrol.wait;", "%globaltimer;", "%smid;", "griddepcontrol.launch_dependents;"]
    assert [stages["ptx"].count(word) for word in words] == [1, 1, 1, 1]
    in_order(stages["ptx"], words[0], "st.global", words[3])
    assert "tensor<64xi32>" in stages["ttir"]


@tritium.jit
def shared_sum(p, x):
    i = tl.arange(0, 64)
    tl.atomic_add(p + i % 8, tl.load(x + i))


@pytest.mark.parametrize(("arch", "native"), [(80, False), (90, True)])
def test_sums_of_bfloat(arch: int, native: bool):
    text = compiled(shared_sum, "*bf16 *bf16", arch).asm["ptx"]
    assert ("add.noftz.bf16" in text) == native
    assert native or ".cas." in text


@pytest.mark.parametrize(
    ("shape", "size", "want"),
    [((512,), 2, (256,)), ((64, 64), 2, (64, 64)), ((64, 128), 2, (64, 64)),
     ((512, 8), 4, (256, 8)), ((4, 64, 64), 2, (4, 64, 64)), ((4, 64, 128), 2, (1, 64, 64)),
     ((2, 3, 512, 8), 2, (1, 1, 256, 8)), ((300, 2, 8, 16), 2, (256, 2, 8, 16))],
)  # fmt: skip
def test_boxes(shape: tuple[int, ...], size: int, want: tuple[int, ...]):
    encoding = nvmma_encoding(shape, 8 * size, len(shape) - 1) if len(shape) > 1 else None
    assert box(shape, encoding, size) == want


def test_an_encoding_by_bases_may_be_too_small():
    small = linear(scan_encoding((8,), 0, Threads(1, 32)), (8,))
    encoding = LinearEncoding.from_layout(small)
    assert covers(encoding, (8,)) and not covers(encoding, (16,))
    assert covers(scan_encoding((8,), 0, Threads(1, 32)), (16,))


@tritium.jit
def fp8_product(a, b, o, n, LIMIT: tl.constexpr):
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        x = tl.load(a + m[:, None] * 64 + k[None, :] + i)
        y = tl.load(b + k[:, None] + m[None, :] * 64 + i)
        acc = tl.dot(x, y, acc, max_num_imprecise_acc=LIMIT)
    tl.store(o + m[:, None] * 64 + m[None, :], acc)


@pytest.mark.parametrize(
    ("limit", "wgmma", "adds"), [(None, True, False), (64, True, True), (32, False, False)]
)
def test_how_precisely_fp8_products_are_summed(limit: int | None, wgmma: bool, adds: bool):
    kinds = {"a": "*fp8e4nv", "b": "*fp8e4nv", "o": "*fp32", "n": "i32", "LIMIT": "constexpr"}
    source = ASTSource(fp8_product, kinds, {(4,): limit})
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert ("wgmma.mma_async" in text, "mma.sync" in text) == (wgmma, not wgmma)
    assert bool(re.search(r"add(\.rn)?\.f32", text)) == adds


@tritium.jit
def product_of_bytes(a, b, out, k):
    rows = tl.arange(0, 64)
    depth = tl.arange(0, 32)
    sums = tl.zeros((64, 64), tl.int32)
    for i in range(0, k, 32):
        x = tl.load(a + rows[:, None] * 1024 + (i + depth)[None, :])
        y = tl.load(b + (i + depth)[:, None] * 1024 + rows[None, :])
        sums = tl.dot(x, y, sums)
    tl.store(out + rows[:, None] * 64 + rows[None, :], sums)


def test_bytes_that_change_places_are_not_copied_ahead():
    """A wgmma of bytes reads the right operand by columns; it is stored by rows here, and a copy
    that the program does not wait for moves four bytes at least."""
    source = ASTSource(
        product_of_bytes, {"a": "*i8", "b": "*i8", "out": "*i32", "k": "i32"}, {},
        {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )  # fmt: skip
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8" in text
    copies = re.findall(r"cp\.async\.c[ag]\.shared.*", text)
    assert copies and all(", 16" in line for line in copies)


@tritium.jit
def assembly(o, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr):
    i = tl.arange(0, 512)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", CONSTRAINTS, [tl.load(o + i)], dtype=tl.int32, is_pure=True, pack=PACK
    )
    tl.store(o + i, y)


@pytest.mark.parametrize(
    "constraints,pack,message",
    [
        ("=v,v", 1, "the constraint '=v' in '=v,v' is none of PTX: letters of registers are b"),
        ("=r,n", 1, "the constraint 'n' in"),
        ("=r,1", 1, "the constraint '1' in"),
        ("=r,r,r", 1, "'=r,r,r' has 1 outputs and 2 inputs; the operands .* are 1 .* and 1 of arg"),
        ("=r,r", 2, r"the operands \(pack=2\) are 2 registers of results and 2 of arguments"),
        ("r", 1, "'r' has 0 outputs and 1 inputs"),
    ],
)
def test_assembly_that_does_not_fit(constraints: str, pack: int, message: str):
    """LLVM would end the process, or show its own IR."""
    source = ASTSource(
        assembly,
        {"o": "*i32", "CONSTRAINTS": "constexpr", "PACK": "constexpr"},
        {"CONSTRAINTS": constraints, "PACK": pack},
    )
    with pytest.raises(CompilationError, match=message) as caught:
        tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "test_language_lowering.py" in str(caught.value)


@tritium.jit
def to_bfloat(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.load(x + i).to(tl.bfloat16))


@pytest.mark.parametrize(("kind", "name"), [("fp64", "f64"), ("i32", "s32"), ("i64", "s64")])
@pytest.mark.parametrize("arch", [80, 90])
def test_bfloats_are_rounded_once(kind: str, name: str, arch: int):
    """Through a float toward zero whose last bit is odd where it is inexact, or directly."""
    text = compiled(to_bfloat, f"*{kind} *bf16", arch).asm["ptx"]
    assert f"cvt.rn.f32.{name}" not in text
    assert f"cvt.rz.f32.{name}" in text or f"cvt.rn.bf16.{name}" in text
