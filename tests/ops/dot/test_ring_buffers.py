"""Buffers of pipelined loads for products that read registers: as few as the turns need."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import in_order
from tritium.compiler import ASTSource
from tritium.target import GPUTarget


@tritium.jit
def by_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@tritium.jit
def by_pointers(a, b, c, K, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * N + start + k)
        y = tl.load(b + n[:, None] * N + start + k)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + m[:, None] * BN + n, acc)


def compiled(arch: int, stages: int, warps: int = 8) -> Any:
    types = {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[128,64]>",
             "c": "tensordesc<fp16[128,128]>", "K": "i32"}  # fmt: skip
    source = ASTSource(by_descriptors, types, {"BM": 128, "BN": 128, "BK": 64})
    options = {"num_warps": warps, "num_stages": stages}
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@pytest.mark.parametrize("warps", [4, 8])
def test_warps_without_part_in_copies(warps: int, no_ptxas: None) -> None:
    """Eight warps: those that start no copy branch around it. Four warps: they are masked."""
    loop = compiled(90, 3, warps).asm["ptx"].partition("wgmma.mma_async")[2]
    before = loop[: loop.index("cp.async.bulk.tensor")].rpartition("bar.sync")[2]
    assert bool(re.search(r"@%p\d+ bra", before)) == (warps == 8)


@pytest.mark.parametrize(("arch", "buffers"), [(90, 4), (100, 4), (120, 3)])
def test_bulk_copies(arch: int, buffers: int, no_ptxas: None) -> None:
    """wgmma and tcgen05 read a buffer while the next turn begins; mma.sync has it in registers by
    then."""
    kernel = compiled(arch, 4)
    assert f"!ttg.memdesc<{buffers}x128x64xf16" in kernel.asm["ttgir"]
    assert f"!ttg.memdesc<{buffers}x1xi64" in kernel.asm["ttgir"]
    assert kernel.metadata.shared <= {90: 232448, 100: 232448, 120: 101376}[arch]
    if arch == 120:
        loop = kernel.asm["ptx"].partition("try_wait")[2]
        in_order(loop, "ldmatrix|ld.shared", "mma.sync", "bar.sync", "cp.async.bulk.tensor")


@pytest.mark.parametrize("stages", [2, 3])
def test_the_fewest_buffers(stages: int, no_ptxas: None) -> None:
    assert f"!ttg.memdesc<{stages - 1}x128x64xf16" in compiled(120, stages).asm["ttgir"]


@pytest.mark.parametrize("arch", [80, 120])
def test_a_transposed_operand_is_read_from_its_buffer(arch: int, no_ptxas: None) -> None:
    """Without a change of layout in registers."""
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"}
    constants = {"N": 1024, "BM": 64, "BN": 64, "BK": 32}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(by_pointers, types, constants, aligned)
    text = tritium.compile(source, target=GPUTarget("cuda", arch, 32)).asm["ttgir"]
    body = re.search(r"scf\.for.*?scf\.yield", text, re.DOTALL)
    assert body is not None and "ttg.convert_layout" not in body[0]
    in_order(body[0], "memdesc_trans", "local_load", r"tt\.dot")
