"""Programs of several blocks (`num_ctas`) without a GPU: what is written for them, that it is
assembled, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.layouts.test_clusters import elements, simulate
from tests.nvidia.gpu import test_gpu_clusters as kernels
from tests.nvidia.support import KERNELS as FILES
from tests.nvidia.support import in_order, kernel_text, lowered
from tritium.backends.base import make_backend
from tritium.backends.nvidia.lower.tma import pieces
from tritium.codegen.gpu.context import Memory, layout_of
from tritium.codegen.gpu.memory.convert_layout import conversion_of
from tritium.codegen.gpu.shape import moved_registers
from tritium.codegen.llvm.writer import Value
from tritium.compiler import ASTSource
from tritium.ir import types as ir
from tritium.ops.parsing import ParseError, parse_module
from tritium.ops.ttgir import ConvertLayoutOp, memdesc_of
from tritium.passes.ttgir.layout_propagation import nvmma_encoding
from tritium.target import GPUTarget

pytestmark = pytest.mark.usefixtures("fresh_cache")

KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "add": ("*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}),
    "where_am_i": ("*i32", {}),
    "rows": ("*fp32 *fp32 i32", {"BLOCK": 1024}),
    "sums": ("*i32 *i32", {"M": 64, "N": 32}),
    "moved": ("*fp32 *i32 *fp32 *fp32 *fp32 *i32 *fp32", {"N": 64}),
    "atomics": ("*i32 *i32 *i32 *i32 *i32", {"N": 256}),
    "matmul": ("*fp16 *fp16 *fp32 i32 i32 i32 i32",
               {"stride_n": 1, "BM": 128, "BN": 128, "BK": 64}),
    "described": ("tensordesc<fp16[128,64]> tensordesc<fp16[64,64]> tensordesc<fp16[128,64]> i32",
                  {"BM": 128, "BN": 64, "BK": 64}),
    "descriptor_sums": ("tensordesc<fp32[32,64]> *fp32", {"M": 32, "N": 64}),
    "moving": ("*fp32 *fp32 *fp32 i32 i32", {"BM": 64, "BN": 32}),
    "attention": ("*fp16 *fp16 *fp16 *fp32 i32", {"M": 128, "N": 64, "D": 64}),
    "calls": ("*i32 *i32", {"N": 256}),
}  # fmt: skip


def compiled(name: str, num_ctas: int, arch: int = 90, **options: Any) -> Any:
    kinds, constants = KERNELS[name]
    fn = getattr(kernels, name)
    runtime = [a for a in fn.arg_names if a not in constants]
    types = dict(zip(runtime, kinds.split(), strict=True))
    signature = {name: types.get(name, "constexpr") for name in fn.arg_names}
    values = {(fn.arg_names.index(key),): value for key, value in constants.items()}
    attributes = {(fn.arg_names.index(a),): [["tt.divisibility", 16]] for a in runtime}
    source = ASTSource(fn, signature, values, attributes)
    options = {"num_ctas": num_ctas, **options}
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("num_ctas", [2, 4, 8])
@pytest.mark.parametrize("name", KERNELS)
def test_assembles(name: str, num_ctas: int, arch: int) -> None:
    kernel = compiled(name, num_ctas, arch)
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert kernel.metadata.num_ctas == num_ctas
    assert tuple(kernel.metadata.cluster_dims) == (num_ctas, 1, 1)
    assert kernel.metadata.shared <= 227 * 1024
    assert f'"ttg.num-ctas" = {num_ctas} : i32' in kernel.asm["ttgir"]
    assert re.search(rf"\.explicitcluster\s+\.reqnctapercluster {num_ctas}\b", kernel.asm["ptx"])


def meetings(text: str) -> int:
    arrivals = text.count("barrier.cluster.arrive.release.aligned;")
    assert arrivals == text.count("barrier.cluster.wait.acquire.aligned;")
    return arrivals


@pytest.mark.ptxas
def test_elements_are_shared_out_and_nothing_is_exchanged() -> None:
    kernel = compiled("add", 2)
    in_order(kernel.asm["ttgir"], r"#blocked = #ttg\.blocked<\{.*CGALayout = \[\[1\]\]\}>")
    text = kernel.asm["ptx"]
    assert "%clusterid.x" in text and "%nclusterid.x" in text and "%cluster_ctarank" in text
    assert "%ctaid" not in text and "%nctaid" not in text
    assert meetings(text) == 0
    assert text.count("ld.global") == 2, "half of the tile: 4 elements a thread of 128, 16 bytes"
    assert compiled("add", 1).asm["ptx"].count("ld.global") == 4


@pytest.mark.ptxas
def test_a_sum_across_blocks_reads_what_the_others_have() -> None:
    """Each block writes its sums, all meet, each reads those of all; and meets again, because the
    memory is used anew."""
    text = compiled("rows", 4).asm["ptx"]
    assert meetings(text) == 4
    assert len(re.findall(r"mapa\.shared::cluster", text)) == 8
    assert len(re.findall(r"ld\.shared::cluster\.v4\.b32", text)) == 8


@pytest.mark.ptxas
def test_the_rows_of_a_product_are_split() -> None:
    """No block needs anything of the other: each has half of the left operand, and all of the
    right one, in its shared memory."""
    kernel = compiled("matmul", 2)
    text = kernel.asm["ptx"]
    assert meetings(text) == 0 and text.count("wgmma.mma_async") == 4
    assert "m64n128k16" in text
    assert kernel.metadata.shared == 3 * (64 * 64 + 64 * 128) * 2


@pytest.mark.ptxas
@pytest.mark.parametrize("name", ["matmul", "described"])
def test_results_are_stored_where_they_were_computed(name: str) -> None:
    """128 rows are 64 for two blocks; then columns are split, and the store follows."""
    kernel = compiled(name, 8)
    assert meetings(kernel.asm["ptx"]) == 0
    assert "CGALayout = [[1, 0], [0, 1], [0, 2]], instrShape" in kernel.asm["ttgir"]


@pytest.mark.ptxas
def test_each_block_copies_its_rows() -> None:
    """The engine brings half of the left operand to each block, and all of the right one; the map
    of the left one is of what one block copies, that of the right one of half, so that each block
    could copy one for both."""
    kernel = compiled("described", 2)
    text = kernel.asm["ptx"]
    assert meetings(text) == 0 and text.count("wgmma.mma_async") == 4
    assert kernel.metadata.shared == 3 * ((64 * 64 + 64 * 64) * 2 + 8)
    sizes = [meta["block_size"] for meta in kernel.metadata.tensordesc_meta]
    assert sizes == [[64, 64], [32, 64], [64, 64]]
    assert "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r" in text and ", 16384;" in text
    shifted = re.findall(r"shl\.b32\s+(%r\d+), (%r\d+), 6;", text)
    assert any("%cluster_ctarank" in line and source in line
               for _, source in shifted for line in text.splitlines())  # fmt: skip


@pytest.mark.ptxas
def test_scalar_operations_happen_once() -> None:
    """In the first thread of the first block; tiles that every block has are written by one."""
    text = compiled("where_am_i", 2).asm["llir"]
    in_order(text, r"(%v\d+) = call i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank",
             r"barrier\.cluster\.arrive", r"icmp eq i32 %v\d+, 0", r"icmp eq i32 %v\d+, 0",
             r"(%v\d+) = and i1 ", r"@\$3 atom\.global\.gpu\.acq_rel.*i1 %v\d+")  # fmt: skip
    assert text.count("atom.") == 1


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("num_ctas", [2, 4])
@pytest.mark.parametrize("name", ["sums", "moved", "matmul", "attention"])
def test_every_change_of_layout_brings_every_element(name: str, num_ctas: int) -> None:
    """On a model of registers and each block's shared memory."""
    kinds: set[str] = set()
    for op in parse_module(compiled(name, num_ctas).asm["ttgir"]).walk():
        if isinstance(op, ConvertLayoutOp) and moved_registers(op) is None:
            source, result = layout_of(op.src.type), layout_of(op.results[0].type)
            found = conversion_of(op)
            kinds.add(found.kind)
            np.testing.assert_array_equal(simulate(source, result, found), elements(result))
    if name in ("sums", "moved"):
        assert "blocks" in kinds


@pytest.mark.ptxas
@pytest.mark.parametrize("stage", ["ttgir", "llir", "ptx"])
def test_a_file_says_how_many_blocks_a_program_has(stage: str, tmp_path: Path) -> None:
    for num_ctas in (1, 4):
        file = tmp_path / f"add{num_ctas}.{stage}"
        file.write_text(compiled("add", num_ctas, num_warps=2).asm[stage])
        metadata = tritium.compile(file, target=GPUTarget("cuda", 90, 32)).metadata
        assert (metadata.num_warps, metadata.num_ctas) == (2, num_ctas)
        assert tuple(metadata.cluster_dims) == (num_ctas, 1, 1)


def test_a_sort_reuses_shared_memory(no_ptxas: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes layouts some 90 times, by a kilobyte each."""
    monkeypatch.setitem(KERNELS, "moved", (KERNELS["moved"][0], {"N": 512}))
    assert compiled("moved", 2).metadata.shared < 48 * 1024


@pytest.mark.ptxas
def test_ttgir_of_the_reference() -> None:
    """Triton 3.6 splits this product's columns; each block has all of the left operand."""
    file = FILES / "matmul_cluster.ttgir"
    kernel = tritium.compile(file, target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.num_ctas == 2 and tuple(kernel.metadata.cluster_dims) == (2, 1, 1)
    assert "m64n64k16" in kernel.asm["ptx"] and meetings(kernel.asm["ptx"]) == 0


def test_one_block_has_no_cluster() -> None:
    text, facts = lowered(kernel_text("", "%x: !tt.ptr<f32>"))
    assert "cluster" not in text and facts["cluster_dims"] == (1, 1, 1)


@pytest.mark.parametrize("number", [3, 6, 32])
def test_numbers_of_blocks_that_there_cannot_be(number: int) -> None:
    with pytest.raises(ValueError, match=rf"num_ctas is {number}; 1, 2, 4, 8 or 16 is required"):
        compiled("add", number)


def test_clusters_need_hopper() -> None:
    for arch in (80, 89):
        with pytest.raises(ValueError, match=f"num_ctas is 2, for sm_{arch}: clusters need sm_90"):
            compiled("add", 2, arch)
    text = kernel_text("", "%x: !tt.ptr<f32>").replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2')
    with pytest.raises(ValueError, match="clusters need sm_90"):
        lowered(text, 80)
    assert lowered(text, 90)[1]["cluster_dims"] == (2, 1, 1)


def test_the_dimensions_of_the_cluster_are_its_blocks() -> None:
    backend = make_backend(GPUTarget("cuda", 90, 32))
    for given in ((1, 1, 1), (2, 1, 1), [2, 1, 1]):
        options = backend.parse_options({"num_ctas": 2, "cluster_dims": given})
        assert options.cluster_dims == (2, 1, 1)
    with pytest.raises(ValueError, match=r"cluster_dims is .*; with num_ctas=2 \(2, 1, 1\)"):
        backend.parse_options({"num_ctas": 2, "cluster_dims": (1, 2, 1)})


@pytest.mark.parametrize(("shape", "cluster", "starts"), [
    ((64, 64), (), {(0, 0): 0, (0, 32): 64 * 128}),
    ((2, 128), (), {(0, 0): 0, (0, 32): 256, (0, 64): 512, (0, 96): 768}),
    ((2, 64), ((1, 0),), {(0, 0): 0, (0, 32): 128}),
    ((64, 64), ((1, 0),), {(0, 0): 0, (0, 32): 32 * 128}),
    ((64, 64), ((0, 1),), {(0, 0): 0}),
    ((4, 1, 64), (), {(i, 0, j): 256 * i + 4 * j for i in range(4) for j in (0, 32)}),
])  # fmt: skip
def test_where_the_pieces_of_a_copy_begin(
    shape: tuple[int, ...], cluster: Any, starts: dict[tuple[int, ...], int]
) -> None:
    """At whole rows of 128 bytes, as the engine needs them, whatever is moved within a row."""
    encoding = nvmma_encoding(shape, 32, len(shape) - 1, cluster, rows=64)
    memory = Memory(Value("ptr", "%m"), memdesc_of(shape, ir.f32, encoding))
    assert dict(pieces(memory)) == starts


@pytest.mark.parametrize(("size", "per_thread"), [(256, 1), (2, 2)])
def test_what_is_in_another_blocks_memory_is_written_there(
    fresh_cache: Path, size: int, per_thread: int
) -> None:
    """Both blocks have the tile, each one's memory a half of it: each writes only to where it is,
    also in the other block. Elements of two blocks are no neighbours."""
    head = (
        f"#blocked = #ttg.blocked<{{sizePerThread = [{per_thread}], threadsPerWarp = [32], "
        "warpsPerCTA = [4], order = [0], CGALayout = [[0]]}>\n"
        "#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], "
        "CGALayout = [[1]]}>\n#smem = #ttg.shared_memory\n"
    )
    body = (
        f"    %r = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32, "
        f"#blocked>\n    %m = ttg.local_alloc %r : (tensor<{size}xi32, #blocked>) -> "
        f"!ttg.memdesc<{size}xi32, #shared, #smem>"
    )
    text = kernel_text(body, "%x: !tt.ptr<f32>", head=head)
    found, _ = lowered(text.replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2'))
    begun, *stores = found.split("st.shared::cluster")
    assert "barrier.cluster" in begun and len(stores) == 2
    assert not any(store.startswith(".v2") for store in stores)


@pytest.mark.parametrize("lane", [1, 129])
def test_lanes_that_have_elements_of_the_other_block(fresh_cache: Path, lane: int) -> None:
    """Blocks' parts begin at the same places in the tile and in memory, but every second lane's
    elements are in the other block's memory (128 to it)."""
    head = (
        f"#tile = #ttg.linear<{{register = [], lane = [[{lane}], [2], [4], [8], [16]], "
        "warp = [[32], [64]], block = [[128]]}>\n"
        "#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], "
        "CGALayout = [[1]]}>\n#smem = #ttg.shared_memory\n"
    )
    body = (
        "    %r = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32, #tile>\n"
        "    %m = ttg.local_alloc %r : (tensor<256xi32, #tile>) -> "
        "!ttg.memdesc<256xi32, #shared, #smem, mutable>\n"
        "    ttg.local_store %r, %m : tensor<256xi32, #tile> -> "
        "!ttg.memdesc<256xi32, #shared, #smem, mutable>\n"
        "    %x = ttg.local_load %m : !ttg.memdesc<256xi32, #shared, #smem, mutable> -> "
        "tensor<256xi32, #tile>\n    tt.print \"x\" {hex = false, isSigned = array<i32: 1>} : %x "
        ": tensor<256xi32, #tile>"
    )
    text = kernel_text(body, "%p: !tt.ptr<f32>", head=head)
    found, _ = lowered(text.replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2'))
    assert found.count("st.shared::cluster") == (2 if lane == 129 else 0)
    assert found.count("ld.shared::cluster") == (1 if lane == 129 else 0)


@pytest.mark.parametrize(("lane", "block"), [(129, 128), (1, 0)])
def test_copies_by_threads_to_other_blocks_are_refused(lane: int, block: int) -> None:
    text = kernel_text(
        "    %m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #shared, #smem, mutable>\n"
        "    %k = ttg.async_copy_global_to_local %p, %m : tensor<256x!tt.ptr<f32>, #tile> -> "
        "<256xf32, #shared, #smem, mutable>", "%p: tensor<256x!tt.ptr<f32>, #tile>",
        head=(
            f"#tile = #ttg.linear<{{register = [{'[128]' if not block else ''}], "
            f"lane = [[{lane}], [2], [4], [8], [16]], warp = [[32], [64]], block = [[{block}]]}}>\n"
            "#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], "
            "CGALayout = [[1]]}>\n#smem = #ttg.shared_memory\n"
        ),
    )  # fmt: skip
    with pytest.raises(ParseError, match="threads copy to and from their own block's memory"):
        parse_module(text)
