"""The `ttg` and `ttng` ops: their text, what they refuse, and what they mean."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from tritium.ir.printing import print_module
from tritium.ops.base import REGISTRY
from tritium.ops.dialects import load_all
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import ParseError, parse_module

load_all()

EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^// ---- (\S+)\n(.*?)\n(?=\n//|\Z)",
    (Path(__file__).parent / "examples.ttgir").read_text(),
    re.MULTILINE | re.DOTALL,
)
ALIASES = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
  order = [1, 0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1],
  order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1],
  instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#shared2 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
#linear = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0],
  [4, 0], [8, 0], [0, 32]], warp = [[16, 0], [32, 0]], block = []}>
""".replace("\n  ", " ")
MEMORY = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
TILE = "tensor<64x64xf16, #blocked>"
ARGUMENTS = (
    f"%t: {TILE}, %p: tensor<64x64x!tt.ptr<f16>, #blocked>, %c: tensor<64x64xi1, #blocked>, "
    f"%m: {MEMORY}, %ring: !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, "
    "%acc: tensor<64x64xf32, #mma>, %bar: !ttg.memdesc<1xi64, #shared2, #smem, mutable>, "
    "%k: !ttg.async.token, %i: i32, %b: i1, %d: !tt.tensordesc<tensor<64x64xf16, #shared>>, "
    "%a: !tt.ptr<i8>, %h: !tt.ptr<f16>, %l: i64, %r: tensor<16xi32>, "
    "%e: !tt.tensordesc<tensor<1x64xf16, #shared>>, "
    "%n: !ttg.memdesc<16x64xf16, #shared, #smem, mutable>, "
    "%w: tensor<64x64xi32, #blocked>, "
    "%f: !tt.tensordesc<tensor<64x64xf16, #plain>>, %j: tensor<64xi32>, "
    "%g: !ttg.memdesc<64x64xf16, #plain, #smem, mutable>, "
    "%bytes: tensor<64x64xi8, #blocked>, %small: tensor<64x64xf8E5M2, #blocked>, "
    "%o: tensor<64x64xf16, #gluon.auto_encoding>, %q: tensor<8xi32, #gluon.coalesced_encoding>"
)


def wrap(body: str, arguments: str = ARGUMENTS) -> str:
    """A module of one function that runs `body`."""
    lines = "".join(f"    {line}\n" for line in dedent(body).strip().split("\n"))
    return f"{ALIASES}module {{\n  tt.func @k({arguments}) {{\n{lines}    tt.return\n  }}\n}}\n"


def without_aliases(text: str) -> str:
    """The text with each alias of an encoding replaced by what it stands for."""
    for name, value in re.findall(r"^(#\w+) = (.*)$", text, re.MULTILINE)[::-1]:
        text = re.sub(rf"(?<!^){name}\b", value, text, flags=re.MULTILINE)
    return re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)


def test_every_op_has_an_example() -> None:
    places = ("tritium.ops.ttgir.", "tritium.ops.gluon")
    ours = {n for n, c in REGISTRY.items() if c.__module__.startswith(places) or n[:4] == "ttg."}
    assert ours == {name for name, _ in EXAMPLES}


@pytest.mark.parametrize(("name", "body"), EXAMPLES)
def test_round_trip(name: str, body: str) -> None:
    text = wrap(body)
    module = parse_module(text)
    module.verify()
    assert without_aliases(print_module(module, locations=False)) == without_aliases(text)
    generic = print_module(module, locations=False, generic=True)
    assert f'"{name}"(' in generic
    again = parse_module(generic)
    again.verify()
    assert again.is_structurally_equivalent(module)


def test_buffer_accesses_without_the_pointers_type() -> None:
    """Triton 3.6 writes the type of the tile alone."""
    tile = "tensor<64x64xf16, #blocked>"
    body = (
        f"%0 = amdg.buffer_load %h[%w], %c, %t : POINTER{tile}\n"
        f"%1 = amdg.buffer_atomic_rmw fadd, acq_rel, gpu, %0, %h[%w], %c : POINTER{tile}\n"
        f"amdg.buffer_store %1, %h[%w] : POINTER{tile}"
    )
    short, long = (
        parse_module(wrap(body.replace("POINTER", text))) for text in ("", "!tt.ptr<f16> -> ")
    )
    assert short.is_structurally_equivalent(long)
    with pytest.raises(ParseError, match="f16>"):
        parse_module(wrap(body.replace("POINTER", "!tt.ptr<f16>, ")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"%0 = ttg.convert_layout %t : {TILE} -> tensor<64x64xf32, #blocked>",
         "only the encoding may differ"),
        ("%0 = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #shared, #smem>", "never written"),
        (f"ttg.local_load %m : {MEMORY} -> tensor<64x32xf16, #blocked>", "do not match"),
        ("%0 = ttg.local_alloc %t : (" + TILE + ") -> !ttg.memdesc<64x64xf16, #shared, #smem>\n"
         f"ttg.local_store %t, %0 : {TILE} -> !ttg.memdesc<64x64xf16, #shared, #smem>",
         "a mutable memdesc is required"),
        (f"%0 = ttg.memdesc_subslice %m[0, 48] : {MEMORY} -> "
         "!ttg.memdesc<64x32xf16, #shared, #smem, mutable>", "is not within"),
        (f"%0 = ttg.memdesc_trans %m {{order = array<i32: 1, 1>}} : {MEMORY} -> {MEMORY}",
         "does not permute"),
        (f"%0 = ttg.memdesc_trans %m {{order = array<i32: 1, 0>}} : {MEMORY} -> {MEMORY}",
         "is required"),
        (f"%0 = ttg.local_gather %m[%w] {{axis = 2 : i32}} : {MEMORY}, "
         "tensor<64x64xi32, #blocked> -> tensor<64x64xf16, #blocked>", "0 to 1 is allowed"),
        ("%0 = ttng.tmem_alloc : () -> !ttg.memdesc<1024x128xf32, #ttng.tensor_memory_encoding<"
         "blockM = 128, blockN = 128, colStride = 1>, #ttng.tensor_memory, mutable>",
         "takes 1024 columns of tensor memory; there are 512"),
        (f"%0 = ttng.tensor_dot %m, %m, %acc : {MEMORY} * {MEMORY} -> tensor<64x64xf32, #mma>",
         "32-bit sums in #ttg.linear are required"),
        ("ttng.tmem_copy %m, %m : " + f"{MEMORY}, {MEMORY}", "tensor memory is required"),
        ("%0 = arith.constant dense<1> : tensor<64x32xi8, #blocked>\n%1 = ttg.fp4_to_fp %0 {axis = "
         f"0 : i32}} : tensor<64x32xi8, #blocked> -> {TILE}", "i8 to 128x32 elements of"),
        ("%0 = ttng.packed_arith fma %t, %t : (" + f"{TILE}, {TILE}) -> {TILE}", "of 2 operands"),
        (f"ttng.init_barrier %m, 1 : {MEMORY}", "a memdesc of 1xi64 is required"),
        ("%0 = ttg.global_scratch_alloc {alignment = 3 : i32, nbytes = 128 : i32} : !tt.ptr<i8>",
         "a power of two"),
        ("%0 = ttng.reinterpret_tensor_descriptor %i : i32 to "
         "!tt.tensordesc<tensor<64x64xf16, #shared>>", "from a pointer"),
        ("ttng.tensormap_fenceproxy_acquire %i : i32", "a pointer is required"),
        (f"ttng.async_tma_scatter %e[%r, %i] %m : !tt.tensordesc<tensor<1x64xf16, #shared>>, "
         f"tensor<16xi32>, i32, {MEMORY}", "a multiple of 4 rows"),
        ("ttng.tensormap_create %a, %h, [%i], [%i, %i], [], [%i] {elem_type = 6 : i32, "
         "fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32} : "
         "(!tt.ptr<i8>, !tt.ptr<f16>, i32, i32, i32, i32) -> ()", "one i32 is required"),
        ("%0 = ttg.async_wait {num = -1 : i32}", "0 or more"),
        (f"%0 = ttng.warp_group_dot %m, %m, %t : {MEMORY} * {MEMORY} -> {TILE}",
         "#ttg.nvidia_mma version 3 needed"),
        (f"%0 = ttng.warp_group_dot %t, %m, %acc : {TILE} * {MEMORY} -> tensor<64x64xf32, #mma>",
         "#ttg.dot_op is required"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_module(wrap(body))


def run(body: str, **values: Any) -> None:
    """Evaluate ops on `%ring`, `%p` (pointers to 64x64 zeros), `%i` and so on."""
    data = np.zeros((65, 64), np.float16).reshape(-1)
    data = data[-data.ctypes.data % 16 // 2 :][: 64 * 64].reshape(64, 64)
    pointers = data.ctypes.data + 2 * np.arange(64 * 64, dtype=np.uint64).reshape(64, 64)
    pointer = "!tt.ptr<f16>"
    arguments = f"%p: tensor<64x64x{pointer}, #blocked>, %t: {TILE}, %b: i1, %i: i32, %h: {pointer}"
    module = parse_module(wrap(body, arguments))
    module.verify()
    memory = Memory([(data.ctypes.data, data.nbytes)])
    tile = np.ones((64, 64), np.float16)
    values = pointers, tile, np.bool_(True), np.int32(0), pointers[0, 0]
    Evaluator(module, memory).call("k", *values)


ALLOC = f"%m = ttg.local_alloc : () -> {MEMORY}\n"
COPY = ("%c = ttg.async_copy_global_to_local %p, %m : tensor<64x64x!tt.ptr<f16>, #blocked> -> "
        "<64x64xf16, #shared, #smem, mutable>\n")  # fmt: skip
LOAD = f"%x = ttg.local_load %m : {MEMORY} -> {TILE}\n"
STORE = f"ttg.local_store %t, %m : {TILE} -> {MEMORY}\n"
COMMIT = "%g = ttg.async_commit_group tokens %c\n"
DOT = (
    "%zero = arith.constant dense<0.0> : tensor<64x64xf32, #mma>\n"
    f"%d = ttng.warp_group_dot %m, %m, %zero {{isAsync = true}} : {MEMORY} * {MEMORY} -> "
    "tensor<64x64xf32, #mma>\n"
)
WAIT_DOT = "%e = ttng.warp_group_dot_wait %d {pendings = 0 : i32} : tensor<64x64xf32, #mma>\n"
BARRIER = (
    "%bar = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #shared2, #smem, mutable>\n"
    "ttng.init_barrier %bar, 1 : !ttg.memdesc<1xi64, #shared2, #smem, mutable>\n"
)
WAIT = "ttng.wait_barrier %bar, %i : !ttg.memdesc<1xi64, #shared2, #smem, mutable>\n"
EXPECT = "ttng.barrier_expect %bar, 8, %b : !ttg.memdesc<1xi64, #shared2, #smem, mutable>\n"
ARRIVE = "ttng.arrive_barrier %bar, 1 : !ttg.memdesc<1xi64, #shared2, #smem, mutable>\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ALLOC + COPY + LOAD, "while a copy into it is in flight"),
        (ALLOC + COPY + COMMIT + "%w = ttg.async_wait {num = 1 : i32}\n" + LOAD, "in flight"),
        (ALLOC + COPY + "%w = ttg.async_wait {num = 0 : i32}\n" + LOAD, "in flight"),
        (ALLOC + STORE + DOT + STORE, "while a dot or a store reads it"),
        (ALLOC + STORE + DOT + "%n = arith.negf %d : tensor<64x64xf32, #mma>", "before the wait"),
        (ALLOC + f"ttg.local_dealloc %m : {MEMORY}\n" + LOAD, "after its deallocation"),
        (BARRIER + WAIT, "nothing ends: 0 of 1 arrivals"),
        (BARRIER + EXPECT + WAIT, "nothing ends: 1 of 1 arrivals"),
        (BARRIER.split("\n")[0] + "\n" + WAIT, "not initialized"),
    ],
)
def test_what_is_not_waited_for_is_an_error(body: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        run(body)


MAP = (
    "%n = arith.constant 64 : i32\n%l = arith.constant 128 : i64\n"
    "%a = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 128 : i32} : !tt.ptr<i8>\n"
    "ttng.tensormap_create %a, %h, [%n, %n], [%n, %n], [%l], [%n, %n] {elem_type = 6 : i32, "
    "fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32} : "
    "(!tt.ptr<i8>, !tt.ptr<f16>, i32, i32, i32, i32, i64, i32, i32) -> ()\n"
)
FENCE = "ttng.tensormap_fenceproxy_acquire %a : !tt.ptr<i8>\n"
DESCRIPTOR = (
    "%d = ttng.reinterpret_tensor_descriptor %a : !tt.ptr<i8> to "
    "!tt.tensordesc<tensor<64x64xf16, #shared>>\n"
)
BULK_STORE = (
    "%m = ttg.local_alloc %t : (" + TILE + ") -> !ttg.memdesc<64x64xf16, #shared, #smem>\n"
    "ttng.async_tma_copy_local_to_global %d[%i, %i] %m : "
    "!tt.tensordesc<tensor<64x64xf16, #shared>>, !ttg.memdesc<64x64xf16, #shared, #smem>\n"
)


def test_maps_are_seen_after_a_fence() -> None:
    """A descriptor is the place of its map: written again, it needs another fence."""
    run(MAP + DESCRIPTOR + FENCE + BULK_STORE)
    with pytest.raises(EvaluationError, match="without a fence"):
        run(MAP + DESCRIPTOR + BULK_STORE)
    again = MAP[MAP.index("ttng.") :]
    with pytest.raises(EvaluationError, match="without a fence"):
        run(MAP + DESCRIPTOR + FENCE + again + BULK_STORE)


def test_maps_need_strides_of_16_bytes() -> None:
    with pytest.raises(EvaluationError, match="multiples of 16 are required"):
        run(MAP.replace("128 : i64", "120 : i64"))


@pytest.mark.parametrize(
    "body",
    [
        ALLOC + COPY + COMMIT + "%w = ttg.async_wait {num = 0 : i32}\n" + LOAD,
        ALLOC + STORE + DOT + WAIT_DOT + STORE + "%n = arith.negf %e : tensor<64x64xf32, #mma>",
        BARRIER + ARRIVE + WAIT,
    ],
)
def test_what_is_waited_for_may_be_used(body: str) -> None:
    run(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%s = tt.splat %i : i32 -> tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>\n"
         "%e = tt.expand_dims %s {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = "
         "#blocked}>> -> tensor<64x1xi32, #blocked>", "dim = 1, ...}> needed"),
        ("%s = tt.splat %i : i32 -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>\n"
         "%e = tt.expand_dims %s {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = "
         "#blocked}>> -> tensor<64x1xi32, #blocked1>", "is required"),
        ("%s = tt.splat %i : i32 -> tensor<64x1xi32, #blocked>\n"
         "%e = tt.broadcast %s : tensor<64x1xi32, #blocked> -> tensor<64x64xi32>",
         "both must have an encoding, or none"),
        ("%x = tt.splat %i : i32 -> "
         "tensor<64x64xi32, #ttg.dot_op<{opIdx = 0, parent = #blocked}>>\n"
         "%y = tt.splat %i : i32 -> "
         "tensor<64x64xi32, #ttg.dot_op<{opIdx = 1, parent = #blocked}>>\n"
         "%z = tt.splat %i : i32 -> tensor<64x64xi32, #blocked1>\n"
         "%d = tt.dot %x, %y, %z : "
         "tensor<64x64xi32, #ttg.dot_op<{opIdx = 0, parent = #blocked}>> * "
         "tensor<64x64xi32, #ttg.dot_op<{opIdx = 1, parent = #blocked}>> -> "
         "tensor<64x64xi32, #blocked1>", "another encoding's product"),
    ],
)  # fmt: skip
def test_encodings_that_do_not_belong_together(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_module(wrap(body))
