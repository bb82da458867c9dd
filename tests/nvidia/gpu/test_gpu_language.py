"""Features that conformance tests, which run on any device, leave out, on a real GPU."""

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
def double(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, i < n) * 2, i < n)


def test_arrays_of_other_libraries(torch: Any):
    """`__cuda_array_interface__` and DLPack arguments, with no torch tensor among them."""
    cupy = pytest.importorskip("cupy")
    x, o = cupy.arange(100, dtype=cupy.float32), cupy.zeros(100, cupy.float32)
    double[(2,)](x, o, 100, BLOCK=64)
    cupy.cuda.runtime.deviceSynchronize()
    assert cupy.array_equal(o, 2 * x)
    part = cupy.zeros(100, cupy.float32)
    double[(1,)](x[50:], part[50:], 50, BLOCK=64)
    cupy.cuda.runtime.deviceSynchronize()
    assert cupy.array_equal(part[50:], 2 * x[50:]) and not part[:50].any()


class Capsule:
    """A tensor that offers DLPack alone."""

    def __init__(self, tensor: Any):
        self._tensor, self.dtype = tensor, tensor.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def test_dlpack(torch: Any):
    x = torch.arange(64, device="cuda", dtype=torch.float32)
    o = torch.zeros(70, device="cuda")
    double[(1,)](Capsule(x), Capsule(o[3:67]), 64, BLOCK=64)
    torch.cuda.synchronize()
    assert torch.equal(o[3:67], 2 * x) and not o[:3].any() and not o[67:].any()
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\) cannot be accessed"):
        double[(1,)](Capsule(x.cpu()), o, 64, BLOCK=64)
