"""Changes of layout for which shared memory is too small at once, and scans, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + place, tl.trans(tl.load(x + place)).reshape(M, N))


@pytest.mark.parametrize(("dtype", "m", "n"), [
    ("float32", 256, 256), ("int32", 128, 512), ("float64", 256, 128), ("float16", 512, 256),
])  # fmt: skip
def test_transposes_beyond_shared_memory(torch: Any, dtype: str, m: int, n: int) -> None:
    x = (torch.arange(m * n, device="cuda") % 2048).to(getattr(torch, dtype)).reshape(m, n)
    out = torch.empty_like(x)
    kernel = transposed[(1,)](x, out, m, n, num_warps=16)
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    assert kernel.metadata.shared <= limit
    assert torch.equal(out, x.T.contiguous().reshape(m, n))


@tritium.jit
def running_sums(x, out, B: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):
    place = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out + place, tl.cumsum(tl.load(x + place) * 2, 1, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(32, 128), (8, 1024), (64, 32), (1, 4096)])
def test_scans_of_what_is_loaded(torch: Any, rows: int, columns: int, reverse: bool) -> None:
    x = torch.randint(-9, 9, (rows, columns), device="cuda", dtype=torch.int32)
    out = torch.empty_like(x)
    running_sums[(1,)](x, out, rows, columns, reverse)
    whole = x.flip(1) if reverse else x
    wanted = (whole * 2).cumsum(1).to(torch.int32)
    assert torch.equal(out, wanted.flip(1) if reverse else wanted)
