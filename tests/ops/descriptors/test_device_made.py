"""Descriptors that kernels make: tensor maps and bulk copies in PTX, and what the ttgir means."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import KERNELS, in_order
from tests.ops.descriptors.cases import Case, cases, numbers, type_name
from tritium import knobs
from tritium.backends.nvidia import ptx
from tritium.compiler import ASTSource
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

CASES = cases()
ASSEMBLE = ptx.assemble
ASSEMBLER = knobs.nvidia.ptxas


@pytest.fixture(scope="module", autouse=True)
def no_ptxas() -> Any:
    """PTX is assembled by a test of its own."""
    patch = pytest.MonkeyPatch()
    patch.setattr(ptx, "assemble", lambda text, *_: (text.encode() + b"\0", ""))
    yield
    patch.undo()


def compiled(fn: Any, signature: dict[str, str], constants: Any, arch: int, **options: Any) -> Any:
    source = ASTSource(fn, signature, constants)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@cache
def kernel_of(name: str, arch: int) -> Any:
    case = CASES[name]
    types = {
        n: f"*{type_name(v)}" if isinstance(v, np.ndarray) else "i32"
        for n, v in case.arguments.items()
    }
    return compiled(case.kernel, types | dict.fromkeys(case.constants, "constexpr"),
                    case.constants, arch, **case.options)  # fmt: skip


def run(kernel: Any, case: Case) -> None:
    """Run a kernel's ttgir on NumPy, on copies of the case's arrays, and compare."""
    module = parse_module(kernel.asm["ttgir"])
    module.verify()
    before = {n: v.copy() for n, v in case.arguments.items() if isinstance(v, np.ndarray)}
    arrays = {n: case.arguments[n] for n in before}
    values = [
        np.uint64(v.ctypes.data) if isinstance(v, np.ndarray) else np.int32(v)
        for v in case.arguments.values()
    ]
    memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays.values()])
    Evaluator(module, memory).launch(case.kernel.__name__, values, case.grid)
    found = {n: arrays[n].copy() for n in case.want}
    for name, contents in before.items():
        arrays[name][...] = contents
    for name, want in case.want.items():
        compare(found[name], want, case.tolerance)


def compare(found: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    """Equal, NaN to NaN; or close."""
    if want.dtype.kind in "iu":
        np.testing.assert_array_equal(found, want)
    else:
        f, w = found.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance, equal_nan=True)


ASSEMBLED = [
    name for name in CASES
    if CASES[name].kernel.__name__ not in ("copy_block", "combine_blocks")
    or name.endswith(("-2 to 3", "nan", "many rows", "u64", "bf16"))
]  # fmt: skip
REST = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in ASSEMBLED]


@pytest.mark.parametrize("name", [*ASSEMBLED, *REST])
@pytest.mark.every(12)
def test_hopper_uses_tensor_maps(name: str, fresh_cache: Path):
    """Each op that makes a descriptor has a map of 128 bytes; what is computed is right."""
    case, kernel = CASES[name], kernel_of(name, 90)
    assert kernel.metadata.global_scratch_size == 128 * case.maps
    assert kernel.metadata.global_scratch_align == (128 if case.maps else 1)
    assert ("cp.async.bulk.tensor" in kernel.asm["ptx"]) == bool(case.maps)
    assert ("tensormap.cp_fenceproxy" in kernel.asm["ptx"]) == bool(case.maps)
    run(kernel, case)


@pytest.mark.every(12)
@pytest.mark.parametrize("name", [*ASSEMBLED, *REST])
def test_ampere_uses_pointers(name: str, fresh_cache: Path):
    kernel = kernel_of(name, 80)
    assert kernel.metadata.global_scratch_size == 0
    assert "tensormap" not in kernel.asm["ptx"] and "bulk" not in kernel.asm["ptx"]
    run(kernel, CASES[name])


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("name", ASSEMBLED)
def test_ptxas_takes_it(name: str, arch: int, fresh_cache: Path):
    binary, _ = ASSEMBLE(kernel_of(name, arch).asm["ptx"], arch, ptx.ptxas_arguments(arch))
    assert binary[:4] == b"\x7fELF"


def test_the_map_is_made_in_shared_memory_and_released():
    """Warp 0 fills it in and copies it, the first thread acquires it and starts the copies."""
    text = kernel_of("rank 3, -2 to 3", 90).asm["ptx"]
    fields = ["global_address", "rank", *["box_dim"] * 3, *["global_dim"] * 3,
              *["global_stride"] * 2, *["element_stride"] * 3, "elemtype", "interleave_layout",
              "swizzle_mode", "fill_mode"]  # fmt: skip
    made = [
        r"st\.shared\.b32 \[%r\d+\], 0;", r"bar\.warp\.sync",
        *(rf"tensormap\.replace\.tile\.{field}\.shared::cta\.b1024" for field in fields),
        r"tensormap\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release\.gpu\.sync"
        r"\.aligned \[%rd\d+\], \[%r\d+\], 128;",
        r"fence\.proxy\.tensormap::generic\.acquire\.gpu \[%rd\d+\], 128;",
    ]
    in_order(text, *made, *made, r"cp\.async\.bulk\.tensor\.3d\.shared::cluster",
             r"cp\.async\.bulk\.tensor\.3d\.global\.shared::cta\.bulk_group",
             r"cp\.async\.bulk\.commit_group", r"cp\.async\.bulk\.wait_group\.read 0")  # fmt: skip


def test_matrices_of_heads_stay_in_shared_memory():
    """Blocks of one head are loaded and stored as the matrices that products take and make."""
    text = kernel_of("product of heads", 90).asm["ttgir"]
    assert "ttng.warp_group_dot" in text and "tt.reshape" not in text


def test_what_is_not_aligned_stops_the_kernel():
    """The base and strides, unless they are known to be multiples of 16 bytes."""
    case = CASES["product"]
    types = {n: "*fp16" if n in "abc" else "i32" for n in case.arguments}
    types |= dict.fromkeys(case.constants, "constexpr")
    hints = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    target = GPUTarget("cuda", 90, 32)
    for attributes, traps in (({}, 3), (hints, 0)):
        source = ASTSource(case.kernel, types, case.constants, attributes)
        text = tritium.compile(source, target=target).asm["ptx"]
        assert len(re.findall(r"@%p\d+ trap;", text)) == traps


def test_kernels_that_triton_brought_to_ttgir():
    """Triton's own maps, copies and waits for them."""
    file = KERNELS / "device_descriptors.ttgir"
    kernel = tritium.compile(file, target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.global_scratch_size == 256
    x, o = numbers((80, 128), "fp16"), numbers((80, 128), "fp16")
    case = Case(SimpleNamespace(__name__="k"), {"a": x, "b": o, "M": 80, "N": 128}, {"b": 3 * x}, 2)
    case.want["b"][:, 64:] = o[:, 64:]
    run(kernel, case)


@pytest.mark.parametrize(("name", "elements", "fill"), [
    ("fp8e5", 0, 0), ("u16", 1, 0), ("u32", 2, 0), ("i32", 3, 0), ("u64", 4, 0), ("i64", 5, 0),
    ("fp16", 6, 0), ("fp32, nan", 7, 1), ("fp64, nan", 9, 1), ("bf16", 10, 0),
])  # fmt: skip
def test_types_of_elements(name: str, elements: int, fill: int):
    text = kernel_of(name, 90).asm["ptx"]
    assert re.search(rf"tile\.elemtype\.shared::cta\.b1024\.b32 \[%r\d+\], {elements};", text)
    assert re.search(rf"tile\.fill_mode\.shared::cta\.b1024\.b32 \[%r\d+\], {fill};", text)


@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_sums_are_done_by_the_copy_engine(kind: str):
    text = kernel_of(f"{kind} u32", 90).asm["ptx"]
    in_order(text, rf"cp\.reduce\.async\.bulk\.tensor\.2d\.global\.shared::cta\.{kind}\.bulk_group",
             r"cp\.async\.bulk\.commit_group", r"cp\.async\.bulk\.wait_group\.read 0")  # fmt: skip
    assert "atom" not in text and "red.global" not in text


@pytest.mark.parametrize(("kind", "elements"), [("min", 5), ("max", 5), ("and", 4), ("xor", 4)])
def test_bits_of_64_are_unsigned(kind: str, elements: int):
    """Signed ones have minima and maxima, but their bits are no legal operands."""
    text = kernel_of(f"{kind} i64", 90).asm["ptx"]
    assert re.findall(r"tile\.elemtype\S* \[%r\d+\], (\d);", text) == ["5", str(elements)]


@tritium.jit
def ordered_and_bits(x, o, N):
    s = tl.make_tensor_descriptor(x, [N], [1], [64])
    t = tl.make_tensor_descriptor(o, [N], [1], [64])
    t.atomic_max([0], s.load([0]))
    t.atomic_and([0], s.load([64]))


def test_signed_and_unsigned_at_once_go_through_pointers():
    kernel = compiled(ordered_and_bits, {"x": "*i64", "o": "*i64", "N": "i32"}, {}, 90)
    assert kernel.metadata.global_scratch_size == 128 and "cp.reduce" not in kernel.asm["ptx"]
    kernel = compiled(ordered_and_bits, {"x": "*i32", "o": "*i32", "N": "i32"}, {}, 90)
    assert kernel.metadata.global_scratch_size == 256 and "cp.reduce" in kernel.asm["ptx"]


def test_what_is_loaded_again_is_waited_for():
    """The copy engine's stores to memory that is loaded again are complete before; of others only
    shared memory must have been read."""
    text = kernel_of("loaded_after_a_store", 90).asm["ptx"]
    assert text.count("cp.async.bulk.wait_group 0;") == 3 and "wait_group.read" not in text
    assert "cp.async.bulk.wait_group.read 0;" in kernel_of("product", 90).asm["ptx"]


@tritium.jit
def flagged(x, o, flag, N):
    s = tl.make_tensor_descriptor(x, [N], [1], [64])
    t = tl.make_tensor_descriptor(o, [N], [1], [64])
    t.store([0], s.load([0]))
    tl.atomic_xchg(flag, 1, sem="release")


def test_what_other_programs_are_told_of_is_complete():
    kernel = compiled(flagged, {"x": "*fp32", "o": "*fp32", "flag": "*i32", "N": "i32"}, {}, 90)
    in_order(kernel.asm["ptx"], r"cp\.async\.bulk\.wait_group 0;", r"atom.*exch")


@tritium.jit
def exchange_rows(x, o, index, M, N, ROWS: tl.constexpr, WIDTH: tl.constexpr,
                  START: tl.constexpr):  # fmt: skip
    rows = tl.load(index + tl.arange(0, ROWS))
    s = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, WIDTH])
    t = tl.make_tensor_descriptor(o, [M, N], [N, 1], [1, WIDTH])
    t.scatter(s.gather(rows, START), rows, 16)


@pytest.mark.every(2)
@pytest.mark.parametrize(("dtype", "rows", "width"), [
    ("fp16", 16, 128), ("fp16", 8, 16), ("fp32", 32, 64), ("i8", 8, 256), ("fp64", 8, 16),
])  # fmt: skip
def test_blackwell_copies_four_rows_at_once(dtype: str, rows: int, width: int):
    """A swizzled row wide; before, and on the Blackwell of workstations, through pointers."""
    x, o = numbers((40, 272), dtype), numbers((40, 272), dtype)
    index = np.random.default_rng(rows).permutation(44)[:rows].astype(np.int32)
    want, start = o.copy(), 16 if dtype == "i8" else 8
    for row in index[index < 40]:
        want[row, 16 : 16 + width] = 0
        taken = x[row, start : start + width]
        want[row, 16 : 16 + len(taken)] = taken
    case = Case(exchange_rows, {"x": x, "o": o, "index": index, "M": 40, "N": 272}, {"o": want}, 2)
    types = {"x": f"*{dtype}", "o": f"*{dtype}", "index": "*i32", "M": "i32", "N": "i32"}
    constants = {"ROWS": rows, "WIDTH": width, "START": start}
    types |= dict.fromkeys(constants, "constexpr")
    copies = rows // 4 * -(-width * x.itemsize // 128)
    for arch in (100, 90, 120):
        kernel = compiled(exchange_rows, types, constants, arch)
        served, text = arch == 100, kernel.asm["ptx"]
        assert text.count("tile::gather4.mbarrier") == (copies if served else 0)
        assert text.count("tile::scatter4.bulk_group") == (copies if served else 0)
        assert kernel.metadata.global_scratch_size == (256 if served else 0)
        run(kernel, case)
        if served and ASSEMBLER is not None:
            assert ASSEMBLE(text, arch, ptx.ptxas_arguments(arch))[0][:4] == b"\x7fELF"


def test_products_are_loaded_ahead_through_maps_made_once():
    kernel = kernel_of("product", 90)
    text = kernel.asm["ttgir"]
    assert text.count("ttng.tensormap_create") == 3
    assert text.index("scf.for") > text.rindex("ttng.tensormap_create"), "before the loops"
    assert "3x64x32xf16" in text, "a ring of three buffers"


@tritium.jit
def host_and_device(desc, o, N):
    made = tl.make_tensor_descriptor(o, [N], [1], [64])
    made.store([0], load_both(desc, 0) + load_both(made, 1))
    desc.atomic_add([64], made.load([0]))


@tritium.jit(noinline=True)
def load_both(desc, i):
    return desc.load([i * 64])


def test_descriptors_of_the_host_and_of_the_kernel_are_the_same_to_functions():
    """A function takes the address of a map, wherever that is."""
    signature = {"desc": "tensordesc<fp32[64]>", "o": "*fp32", "N": "i32"}
    kernel = compiled(host_and_device, signature, {}, 90)
    assert kernel.metadata.global_scratch_size == 128
    assert kernel.metadata.tensordesc_meta[0]["elem_type"] == 7
    text = kernel.asm["ptx"]
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.1d\.shared", text)) >= 2
    assert "cp.reduce.async.bulk.tensor.1d" in text
    plain = compiled(host_and_device, signature, {}, 80)
    assert plain.metadata.tensordesc_meta == [None] and "bulk" not in plain.asm["ptx"]


@tritium.jit
def too_large(a, o, N):
    s = tl.make_tensor_descriptor(a, [N, N], [N, 1], [256, 256])
    t = tl.make_tensor_descriptor(o, [N, N], [N, 1], [8, 8])
    t.store([0, 0], tl.sum(s.load([0, 0])).to(tl.float32) + tl.zeros([8, 8], tl.float32))


def test_blocks_larger_than_shared_memory_go_through_pointers():
    kernel = compiled(too_large, {"a": "*fp32", "o": "*fp32", "N": "i32"}, {}, 90)
    assert kernel.metadata.global_scratch_size == 128


@tritium.jit
def two_paddings(a, o, N, n):
    d = tl.make_tensor_descriptor(a, [N, N], [N, 1], [1, 16], "zero")
    if n > 0:
        d = tl.make_tensor_descriptor(a, [N, N], [N, 1], [1, 16], "nan")
    tl.store(o + tl.arange(0, 16), tl.sum(d.gather(tl.arange(0, 8), 0), 0))


def test_pointers_with_two_paddings_are_not_built():
    signature = {"a": "*fp32", "o": "*fp32", "N": "i32", "n": "i32"}
    with pytest.raises(NotImplementedError, match="on another path, one that pads differently"):
        compiled(two_paddings, signature, {}, 90)
