"""Kernels for AMD GPUs that would need more LDS than there is, which no test runs."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tests.amd.kernels import compiled
from tritium.errors import OutOfResources


@tritium.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + place, tl.trans(tl.load(x + place)).reshape(M, N))


@tritium.jit
def product(a, b, out, k, B: tl.constexpr, S: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for start in tl.range(0, k, B, num_stages=S):
        total = tl.dot(tl.load(a + i * k + start + j), tl.load(b + (start + i) * B + j), total)
    tl.store(out + i * B + j, total)


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "limit"), [
    ("gfx90a", 1 << 16), ("gfx942", 1 << 16), ("gfx950", 160 << 10), ("gfx1100", 1 << 16),
])  # fmt: skip
def test_changes_of_layout_in_rounds(arch: str, limit: int) -> None:
    sizes = {"M": 256, "N": 256}
    kernel = compiled(transposed, "*fp32 *fp32", arch, constants=sizes, num_warps=8)
    assert limit // 2 < kernel.metadata.shared <= limit
    assert kernel.asm["llir"].count("call void @llvm.amdgcn.s.barrier") == \
        2 * ((1 << 18) // kernel.metadata.shared) - 1  # fmt: skip


def test_loops_have_fewer_stages() -> None:
    constants = {"B": 128, "S": None}
    sizes = [
        compiled(product, "*fp16 *fp16 *fp32 i32", constants=constants, num_warps=8,
                 num_stages=stages).metadata.shared for stages in (2, 3, 5)
    ]  # fmt: skip
    assert sizes == [1 << 16] * 3
    more = compiled(product, "*fp16 *fp16 *fp32 i32", "gfx950", constants=constants, num_warps=8,
                    num_stages=3)  # fmt: skip
    assert more.metadata.shared == 1 << 17


def test_stages_that_the_program_insists_on() -> None:
    with pytest.raises(OutOfResources, match=r"shared memory, Required: 196608, .*limit: 65536"):
        compiled(product, "*fp16 *fp16 *fp32 i32", constants={"B": 128, "S": 4}, num_warps=8)
