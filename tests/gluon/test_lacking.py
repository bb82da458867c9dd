"""Instructions that not all NVIDIA processors have: rows by number, products of 8-bit floats."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gluon.support import compiled
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import mma_v2
from tritium.experimental.gluon.language.nvidia.blackwell import mbarrier, tma

ROWS_LAYOUT = gl.NVMMASharedLayout(128, 16, 2)
ROWS_TYPE = f"tensordesc<fp16[1, 64],{ROWS_LAYOUT!r}>"


@gluon.jit
def rows_in_kernel(x):
    memory = gl.allocate_shared_memory(x.dtype, [32, 64], x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 4096)
    rows = gl.arange(0, 32, gl.BlockedLayout([1], [32], [4], [0]))
    tma.async_gather(x, rows, 0, bar, memory, multicast=True)
    mbarrier.wait(bar, 0)


@gluon.jit
def rows_out_kernel(x):
    memory = gl.allocate_shared_memory(x.dtype, [32, 64], x.layout)
    rows = gl.arange(0, 32, gl.BlockedLayout([1], [32], [4], [0]))
    tma.async_scatter(x, rows, 0, memory)
    tma.store_wait(0)


@pytest.mark.parametrize("arch", [100, 110, 120, 121])
def test_rows_are_copied_into_the_own_block(arch: int) -> None:
    """To which all processors since sm_100 can, and those since sm_120 only."""
    kernel = compiled(rows_in_kernel, ROWS_TYPE, {}, arch)
    assert "2d.shared::cta.global.tile::gather4.mbarrier" in kernel.asm["ptx"]
    assert kernel.asm["cubin"].startswith(b"\x7fELF")


@pytest.mark.parametrize(("kernel", "arch", "message"), [
    (rows_in_kernel, 90, "tma_gather: an instruction of sm_100 and later; the target is sm_90"),
    (rows_out_kernel, 90, "tma_scatter: an instruction of sm_100 to sm_119; the target is sm_90"),
    (rows_out_kernel, 120, "tma_scatter: an instruction of sm_100 to sm_119; .* sm_120"),
])  # fmt: skip
def test_processors_that_copy_no_rows(kernel: Any, arch: int, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, ROWS_TYPE, {}, arch)


@gluon.jit
def byte_floats_kernel(out):
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    a = gl.full([64, 64], 1.0, gl.float8e5, gl.DotOperandLayout(0, layout, 4))
    b = gl.full([64, 64], 1.0, gl.float8e5, gl.DotOperandLayout(1, layout, 4))
    c = mma_v2(a, b, gl.zeros([64, 64], gl.float32, layout))
    gl.store(out + c.to(gl.int32), c)


def test_products_of_8_bit_floats_that_processors_lack() -> None:
    compiled(byte_floats_kernel, "*fp32", {}, 89)
    for arch in (80, 86):
        with pytest.raises(NotImplementedError, match=r"mma\.sync of f8E5M2, which sm_89 "):
            compiled(byte_floats_kernel, "*fp32", {}, arch)
