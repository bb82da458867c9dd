"""`ttg.warp_specialize` on NVIDIA GPUs: warps, barriers, registers, shared memory; loops that are
split assemble without spills."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from benchmarks import gpu_kernels
from tests.nvidia.support import KERNELS, in_order, kernel_text, lowered, to_ptx
from tritium.analysis.shared_memory import allocate
from tritium.backends.nvidia import ptx
from tritium.compiler import ASTSource
from tritium.errors import CompilationError
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#narrow = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"""  # noqa: E501
MEMORY = "!ttg.memdesc<128xf32, #shared, #smem, mutable>"


def partitions(
    *warps: int, registers: tuple[int, ...] = (), body: str = "", default: str = "",
    captures: dict[str, str] | None = None, main_warps: int = 4, before: str = "",
) -> str:  # fmt: skip
    """A kernel with partitions of so many warps, each of which runs `body`, behind `before`."""
    captures = captures or {}
    asked = f"attributes {{requestedRegisters = array<i32: {', '.join(map(str, registers))}>}}"
    arguments = ", ".join(f"%c{i}: {kind}" for i, kind in enumerate(captures.values()))
    regions = "".join(
        f"partition{i}({arguments}) num_warps({n}) {{\n{body}\nttg.warp_return\n}}\n"
        for i, n in enumerate(warps)
    )
    return kernel_text(
        f"""
    %v = arith.addi %n, %n : i32
    %m = ttg.local_alloc : () -> {MEMORY}
    {before}
    ttg.warp_specialize({', '.join(captures)}) {asked if registers else ''}
    default {{
      {default}
      ttg.warp_yield
    }}
    {regions} : ({', '.join(captures.values())}) -> ()""",
        "%n: i32, %p: !tt.ptr<i32>, %o: tensor<64x!tt.ptr<f32>, #narrow>", head=HEAD,
        warps=main_warps,
    )  # fmt: skip


def test_each_region_has_its_barrier_and_threads() -> None:
    """Captures go through shared memory, but for arguments and places of allocations."""
    body = f"""
      %x = ttg.local_load %c1 : {MEMORY} -> tensor<128xf32, #narrow>
      ttg.local_store %x, %c1 : tensor<128xf32, #narrow> -> {MEMORY}
      %y = ttg.local_load %c1 : {MEMORY} -> tensor<128xf32, #narrow>
      tt.store %c2, %c0 : !tt.ptr<i32>"""
    captures = {"%v": "i32", "%m": MEMORY, "%p": "!tt.ptr<i32>"}
    text = to_ptx(partitions(2, 1, captures=captures, body=body))
    assert ".reqntid 224, 1, 1" in text and "setmaxnreg" not in text and ".maxnreg" not in text
    in_order(
        text, r"setp.lt.u32\s+%p\d+, %r\d+, 4;", r"st\.shared\.b32",
        r"bar\.sync\s+1, 224;", r"bar\.sync\s+1, 224;",  # the default region between
        r"%workers", r"bar\.sync\s+1, 224;",
        r"%partition", r"ld\.shared\.b32", r"bar\.sync\s+2, 64;", r"bar\.sync\s+2, 64;",
        r"%partition", r"bar\.warp\.sync 0x", r"bar\.sync\s+1, 224;", "ret;",
    )  # fmt: skip
    assert len(re.findall(r"@%p\d+ st\.shared", text)) == 1


def test_registers_move_from_partitions_to_the_default_region() -> None:
    """The unused warps of a group give their registers back as well, and return."""
    text, facts = lowered(partitions(1, registers=(40,), main_warps=8), num_warps=8)
    assert facts["num_warps"] == 12 and '"nvvm.reqntid"="384,1,1"' in text
    assert '"nvvm.maxnreg"="168"' in text
    in_order(text, r"main\d+:", r"setmaxnreg\.inc\S+\(i32 232\)", r"workers\d+:",
             r"setmaxnreg\.dec\S+\(i32 40\)", r"idle\d+:\n  ret void", r"partition")  # fmt: skip
    assert "i32 288" in text  # 9 warps meet


@pytest.mark.parametrize("warps,registers,before,wanted", [
    ((4,), (24,), "", "late"),
    ((4,), (24,), "%w = arith.constant dense<0.0> : tensor<128xf32, #blocked>", "late"),
    ((4,), (24,), f"%w = ttg.local_load %m : {MEMORY} -> tensor<128xf32, #blocked>", "at once"),
    ((4, 4), (232, 232), "", "at once"),  # for the others, who wait for them
])  # fmt: skip
def test_the_default_region_takes_registers_when_it_needs_them(
    warps: tuple[int, ...], registers: tuple[int, ...], before: str, wanted: str
) -> None:
    """Ops before it do not wait for warps that give theirs back."""
    text, _ = lowered(partitions(*warps, registers=registers, before=before))
    main = text[text.index("\nmain") : text.index("\nworkers")]
    change, meeting = main.index("setmaxnreg"), main.index("barrier.cta.sync.aligned.count")
    assert ("setmaxnreg.inc" in main) == (len(warps) == 1)
    assert (change > meeting) == (wanted == "late")


def test_groups_of_warps_with_different_registers() -> None:
    text, facts = lowered(partitions(1, 4, 1, registers=(24, 152, 40), main_warps=4))
    assert facts["num_warps"] == 12
    in_order(text, r"workers", r"dec\S+\(i32 40\)", r"partition", r"partition",
             r"dec\S+\(i32 152\)", r"partition", r"unreachable")  # fmt: skip


@pytest.mark.parametrize(
    "warps,registers,main,message",
    [
        ((16, 8), (24, 24), 16, r"40 warps \(16 \+ 16 \+ 8, .*at most 32"),
        ((4, 4), (248, 248), 4, r"63488 registers of the 64512 of a block; 8 a thread are left"),
        ((1,) * 15, (), 4, "15 partitions; .* at most 14"),
    ],
)
def test_too_many(warps: Any, registers: Any, main: int, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        lowered(partitions(*warps, registers=registers, main_warps=main), num_warps=main)


def test_workers_ask_what_is_to_come_where_a_branch_decides() -> None:
    """Its number is in shared memory at each barrier; the end of the kernel is -1."""
    text = partitions(1).replace("ttg.warp_specialize", "scf.if %b {\nttg.warp_specialize")
    text = text.replace(" : () -> ()", " : () -> ()\n}").replace("%n: i32,", "%n: i32, %b: i1,")
    llvm, facts = lowered(text)
    assert facts["shared"] == 528  # behind the allocation
    in_order(
        llvm, r"main\d+:", r"then\d+:", r"st\.shared\S+ \[ \$0 \+ 512 \].*i32 0,",
        r"i32 1, i32 160", r"i32 1, i32 160", r"endif\d+:",
        r"st\.shared\S+ \[ \$0 \+ 512 \].*i32 -1,", r"i32 1, i32 160",
        "ret void", r"again\d+:", r"i32 1, i32 160", "load i32", r"icmp eq i32 %v\d+, -1",
        r"done\d+:\n  ret void", r"icmp eq i32 %v\d+, 0", "partition", r"i32 1, i32 160",
        r"br label %again",
    )  # fmt: skip


def test_what_partitions_do_not_do_is_named() -> None:
    call = "tt.call @f() : () -> ()"
    text = partitions(1, body=call).rstrip().removesuffix("}")
    text += "  tt.func private @f() attributes {noinline = true} {\n    tt.return\n  }\n}\n"
    with pytest.raises(CompilationError, match=r"tt\.call: in a partition"):
        lowered(text)


@pytest.mark.parametrize("arrive,phase,refused", [("", 0, True), ("", 1, False),
                         ("ttng.arrive_barrier %c0, 1 : {}", 0, False)])  # fmt: skip
def test_waits_that_never_end_are_refused(arrive: str, phase: int, refused: bool) -> None:
    kind = "!ttg.memdesc<1xi64, #shared, #smem, mutable>"
    text = partitions(1, captures={"%b": kind}, body=arrive.format(kind), default=f"""
      %f = arith.constant {phase} : i32
      ttng.wait_barrier %b, %f : {kind}""")  # fmt: skip
    made = f"%b = ttg.local_alloc : () -> {kind}\nttng.init_barrier %b, 1 : {kind}\n"
    text = text.replace("ttg.warp_specialize", made + "ttg.warp_specialize", 1)
    if refused:
        with pytest.raises(CompilationError, match="nothing arrives at this barrier"):
            lowered(text)
    else:
        lowered(text)


def test_regions_share_no_memory() -> None:
    """Memory that only lives in one region is not given to another that runs at the same time."""
    alloc = f"%z = ttg.local_alloc : () -> {MEMORY}"
    module = parse_module(partitions(1, 1, body=alloc, default=alloc))
    kernel: Any = next(iter(module.ops))
    places = allocate(kernel.regions[0].blocks, lambda op: 0).places
    found = sorted(p.start for op, p in places.items() if op.parent is not kernel.body)
    assert found == [0, 512, 1024]


def compiled(kernel: Any, signature: str, constants: dict[str, Any], **options: int) -> Any:
    names = [n for n in kernel.arg_names if n not in constants]
    types = dict(zip(names, signature.split(), strict=True))
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def product(name: str, bm: int, bn: int, stages: int, warps: int, split: bool = True) -> Any:
    halves, name = name == "halves", "persistent" if name == "halves" else name
    constants = {"BM": bm, "BN": bn, "BK": 64, "GROUP": 8, "SPLIT": split}
    if name != "matmul_blocks":
        constants["SUBTILE"] = halves
    blocks = ((bm, 64), (bn, 64), (bm, bn // 2 if halves else bn))
    signature = " ".join(f"tensordesc<fp16[{rows},{columns}]>" for rows, columns in blocks)
    if name == "persistent_made":
        signature = "*fp16 *fp16 *fp16"
    return compiled(getattr(gpu_kernels, name), f"{signature} i32 i32 i32", constants,
                    num_warps=warps, num_stages=stages)  # fmt: skip


def attention(
    depth: int, keys: int, warps: int, causal: bool, stages: int = 2, split: bool = True
) -> Any:
    q, k = f"tensordesc<fp16[128,{depth}]>", f"tensordesc<fp16[{keys},{depth}]>"
    constants = {"D": depth, "BM": 128, "BN": keys, "CAUSAL": causal, "SPLIT": split}
    return compiled(gpu_kernels.attention, f"{q} {k} {k} {q} *fp32 i32 fp32", constants,
                    num_warps=warps, num_stages=stages)  # fmt: skip


def check(kernel: Any, warps: int, products: int, loads_before: bool = False) -> None:
    assert kernel.metadata.num_warps == warps and kernel.metadata.n_spills == 0
    assert kernel.metadata.shared <= 227 << 10
    text = kernel.asm["ptx"]
    assert text.count("wgmma.commit_group") == products
    first = text[text.index("mbarrier.init") : text.rindex("mbarrier.init")]
    assert not re.search(r"bar\.sync\s+0", first) or loads_before, "one thread makes all barriers"
    assert not re.search(r"mbarrier\.inval\S+ \[%r\d+\];", text), "kept through the loop"
    _, log = ptx.assemble(text, 90, ptx.ptxas_arguments(90))
    assert ptx.performance_messages(log, None) == []
    if products > 1:  # consumers wait for no other warps between the products of a loop
        assert "bar.sync" not in text.split("wgmma.commit_group")[1]


@tritium.jit
def of_blackwell(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@pytest.mark.ptxas
def test_products_in_tensor_memory_assemble(fresh_cache: Path) -> None:
    """Loads of tensor memory have fewer registers than a thread may have at the launch."""
    types = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[128,64]>",
             "c": "tensordesc<fp16[128,128]>", "K": "i32"}  # fmt: skip
    source = ASTSource(of_blackwell, types, {"BM": 128, "BN": 128, "BK": 64})
    kernel = tritium.compile(source, target=GPUTarget("cuda", 100, 32))
    assert "ttg.warp_specialize" in kernel.asm["ttgir"] and "cubin" in kernel.asm
    in_order(kernel.asm["ptx"], ".maxnreg 128", "tcgen05.mma", "tcgen05.ld")


@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("name", ["matmul_blocks", "persistent", "persistent_made", "halves"])
@pytest.mark.parametrize("bm,bn,stages,warps", [(128, 256, 4, 8), (128, 128, 4, 4)])
def test_products_assemble(
    name: str, bm: int, bn: int, stages: int, warps: int, fresh_cache: Path
) -> None:
    check(product(name, bm, bn, stages, warps), warps + 4, 1)


@pytest.mark.ptxas
@pytest.mark.parametrize(("stages", "memory", "under_way"), [(3, 2, 1), (4, 1, 0)])
def test_stores_of_a_tile_overlap_the_next_one(
    stages: int, memory: int, under_way: int, fresh_cache: Path
) -> None:
    """They have memory of their own beside the buffers of the operands, one for both halves where
    there is no room for two; the halves go there without a change of layout."""
    kernel = product("halves", 128, 256, stages, 8)
    assert (stages * 48 + memory * 32) << 10 < kernel.metadata.shared
    assert kernel.metadata.shared < (stages * 48 + memory * 32 + 1) << 10
    text, wait = kernel.asm["ptx"], f"wait_group.read {under_way}"
    assert text.count(f"cp.async.bulk.{wait}") == (2 if under_way else 3)
    assert text.count("stmatrix") == 16 and text.count("bulk_group") == 4
    in_order(text, wait, "bulk_group", wait, "bulk_group", "wait_group.read 0")


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("depth,keys,warps", [(64, 128, 8), (128, 64, 8), (128, 128, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_assembles(
    depth: int, keys: int, warps: int, causal: bool, fresh_cache: Path
) -> None:
    loops, rotated = 1 + causal, depth == 128
    kernel = attention(depth, keys, warps, causal)
    # The blocks on the diagonal are one iteration where they are as wide as the queries' are high.
    turning = (loops if keys < 128 else 1) if rotated else 0
    check(kernel, warps + 4, 2 * (loops + turning), True)
    assert len(re.findall(r"wgmma.wait_group.sync.aligned 1", kernel.asm["ptx"])) == turning


@pytest.mark.every(2)
@pytest.mark.ptxas
@pytest.mark.parametrize(
    "depth,keys,causal,knob,splits",
    [(128, 128, False, "1", 1), (128, 128, True, "1", 2), (128, 128, False, "0", 0),
     (128, 64, False, "1", 0), (64, 128, False, "1", 0)],
)  # fmt: skip
def test_loops_that_do_not_ask_are_split_where_it_pays(
    depth: int, keys: int, causal: bool, knob: str, splits: int, fresh_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TRITIUM_AUTO_WARP_SPECIALIZE", knob)
    kernel = attention(depth, keys, 8, causal, 3, split=False)
    assert kernel.asm["ttgir"].count("ttg.warp_specialize(") == splits
    assert kernel.metadata.num_warps == (12 if splits else 8) and kernel.metadata.n_spills == 0


@pytest.mark.ptxas
def test_tiles_begin_without_their_places(fresh_cache: Path) -> None:
    """Consumers compute where a tile is stored beside its last product; loads need it before."""
    text = product("halves", 128, 256, 4, 8).asm["ttgir"]
    first, loads = text.index("default {"), text.index("partition0")
    before, _, after = text[first:loads].partition("scf.for %k")
    assert "scf.for %tile" in before and "divsi" not in before
    in_order(after, "scf.yield", "divsi", "divsi", "pendings = 0", "truncf")
    in_order(text[loads:], "scf.for %tile", "divsi", "scf.for %k", "tma_copy_global_to_local")


@pytest.mark.ptxas
def test_partitions_as_the_reference_writes_them(fresh_cache: Path) -> None:
    """The default region starts the copies and gives its registers to two consumers, whose warps
    synchronize before one thread arrives for them."""
    file = KERNELS / "matmul_warp_specialize.ttgir"
    kernel = tritium.compile(file, target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.num_warps == 12 and kernel.metadata.n_spills == 0
    text = kernel.asm["ptx"]
    in_order(text, r"setmaxnreg.dec\S+\s+40;", r"setmaxnreg.inc\S+\s+232;", "wgmma.wait_group",
             r"bar.sync\s+2, 128;", r"mbarrier.arrive.shared::cta.b64 _, \[%r\d+\], 128;",
             "wgmma.wait_group", r"bar.sync\s+3, 128;", r"mbarrier.arrive")  # fmt: skip


@pytest.mark.ptxas
def test_unsplit_kernels_have_no_partitions(fresh_cache: Path) -> None:
    kernel = product("matmul_blocks", 128, 128, 3, 8, split=False)
    assert kernel.metadata.num_warps == 8 and "warp_specialize" not in kernel.asm["ttgir"]
    assert "setmaxnreg" not in kernel.asm["ptx"] and "bar.sync \t1" not in kernel.asm["ptx"]


@pytest.mark.ptxas
def test_a_loop_that_is_not_split_says_why(
    fresh_cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DIAGNOSTICS", "remarks")
    kernel = product("matmul_blocks", 128, 128, 1, 8)
    assert kernel.metadata.num_warps == 8
    assert "warp_specialize has no effect on this loop: num_stages is 1" in capfd.readouterr().err


def test_one_of_several_pieces_of_tensor_memory(fresh_cache: Path) -> None:
    """A piece that a number known at compile time names, in a kernel with partitions."""
    memory = (
        "128x64xf32, #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>, "
        "#ttng.tensor_memory, mutable>"
    )
    head = (
        "#rows = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], "
        "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
        "\n"
    )
    body = f"""
    %one = arith.constant 1 : i32
    %true = arith.constant true
    %zero = arith.constant dense<0.000000e+00> : tensor<128x64xf32, #rows>
    %all = ttng.tmem_alloc : () -> !ttg.memdesc<2x{memory}
    %some = ttg.memdesc_index %all[%one] : !ttg.memdesc<2x{memory} -> !ttg.memdesc<{memory}
    ttng.tmem_store %zero, %some, %true : tensor<128x64xf32, #rows> -> !ttg.memdesc<{memory}
    ttg.warp_specialize()
    default {{
      ttg.warp_yield
    }}
    partition0() num_warps(4) {{
      ttg.warp_return
    }} : () -> ()"""
    text = kernel_text(body, "%p: !tt.ptr<f32>", head=head).replace("cuda:90", "cuda:100")
    in_order(to_ptx(text, 100), "tcgen05.alloc", "tcgen05.st")
