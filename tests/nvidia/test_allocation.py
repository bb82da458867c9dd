"""Where allocations are in shared memory."""

from __future__ import annotations

from functools import partial

import pytest

from tests.nvidia.support import kernel_text
from tritium.analysis.shared_memory import allocate
from tritium.codegen.registry import scratch_bytes
from tritium.ops.parsing import parse_module


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_swizzled_memory_starts_where_the_pattern_does(swizzle: int):
    """The hardware takes the pattern from the address, so that each piece starts a new one."""
    type = "!ttg.memdesc<2x8xf32, #shared, #smem, mutable>"
    head = (
        f"#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = false, "
        "elementBitWidth = 32}>\n#smem = #ttg.shared_memory\n"
    )
    names = [f"%m{i}" for i in range(3)]
    body = "\n".join(
        [f"    {n} = ttg.local_alloc : () -> {type}" for n in names]
        + [f"    ttg.local_dealloc {n} : {type}" for n in names]
    )
    function = next(iter(parse_module(kernel_text(body, "", head=head)).ops))
    scratch = partial(scratch_bytes, "nvidia")
    places = allocate(function.regions[0].blocks, scratch).places.values()
    starts = sorted(p.start for p in places)
    step = max(8 * swizzle, 128)
    assert starts == [0, step, 2 * step]
