"""Descriptors that kernels make, on a real GPU: maps in memory that the program supplies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ops.descriptors.cases import DTYPES, KINDS, cases
from tests.support.device import from_gpu, to_gpu
from tritium.launch.allocation import set_allocator
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu
CASES = cases()


@pytest.fixture
def allocations() -> Any:
    """Requests of kernels: (bytes, alignment, stream)."""
    torch = pytest.importorskip("torch")
    asked: list[tuple[int, int, Any]] = []

    def allocate(size: int, alignment: int, stream: Any) -> Any:
        asked.append((size, alignment, stream))
        return torch.empty(size, dtype=torch.int8, device="cuda")

    set_allocator(allocate)
    yield asked
    set_allocator(None)


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, allocations: list[Any]):
    """The first launch, which Python does, and the later ones, which it does not; the maps' memory
    differs."""
    torch = pytest.importorskip("torch")
    case = CASES[name]
    hopper = torch.cuda.get_device_capability()[0] >= 9
    for turn in range(3):
        tensors = {n: to_gpu(v) for n, v in case.arguments.items() if isinstance(v, np.ndarray)}
        values = [tensors.get(n, v) for n, v in case.arguments.items()]
        case.kernel[case.grid](*values, **case.constants, **case.options)
        torch.cuda.synchronize()
        for other, want in case.want.items():
            found = np.empty_like(want)
            from_gpu(tensors[other], found)
            f, w = (v.astype(np.float64) if v.dtype.kind not in "iu" else v for v in (found, want))
            np.testing.assert_allclose(f, w, rtol=case.tolerance, atol=case.tolerance,
                                       err_msg=f"launch {turn}")  # fmt: skip
    programs = int(np.prod(case.grid))
    size = 128 * case.maps * programs if hopper else 0
    assert [a[:2] for a in allocations] == ([(size, 128)] * 3 if size else [])


@tritium.jit
def double(x, o, N):
    s = tl.make_tensor_descriptor(x, [N], [1], [64])
    t = tl.make_tensor_descriptor(o, [N], [1], [64])
    i = tl.program_id(0) * 64
    t.store([i], s.load([i]) * 2)


def test_the_allocator_is_told_size_alignment_and_stream(allocations: list[Any]):
    torch = pytest.importorskip("torch")
    x = torch.randn(640, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for current in (torch.cuda.default_stream(), stream, stream, stream):
        with torch.cuda.stream(current):
            o = torch.zeros_like(x)
            double[(2, 5)](x, o, 640)
            double[(10,)](x, o, 640)
        current.synchronize()
        assert torch.equal(o, 2 * x)
    seen = [(2560, 128, 0)] * 2 + [(2560, 128, stream.cuda_stream)] * 6
    assert allocations == (seen if torch.cuda.get_device_capability()[0] >= 9 else [])
    double[(0,)](x, o, 640)
    assert len(allocations) in (0, 8), "an empty grid needs no memory"


def test_no_allocator():
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] < 9:
        return
    set_allocator(None)
    x = torch.randn(640, device="cuda")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="no allocator was set"):
            double[(10,)](x, torch.zeros_like(x), 640)


@tritium.jit
def contended(x, o, M, N, KIND: tl.constexpr):
    t = tl.make_tensor_descriptor(o, [M, N], [N, 1], [16, 32])
    value = tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])
    if KIND == "add":
        t.atomic_add([0, 0], value)
    elif KIND == "max":
        t.atomic_max([0, 0], value + tl.program_id(0))
    else:
        t.atomic_xor([0, 0], value)


@pytest.mark.parametrize("kind", ["add", "max", "xor"])
def test_sums_of_many_programs(kind: str, allocations: list[Any]):
    torch = pytest.importorskip("torch")
    x = torch.randint(0, 100, (16, 32), dtype=torch.int32, device="cuda")
    o = torch.zeros(20, 36, dtype=torch.int32, device="cuda")
    programs = 2001
    contended[(programs,)](x, o, 20, 36, KIND=kind)
    want = torch.zeros_like(o)
    want[:16, :32] = {"add": x * programs, "max": x + programs - 1, "xor": x}[kind]
    assert torch.equal(o, want)


@tritium.jit
def combine_host(x, o, KIND: tl.constexpr):
    if KIND == "add":
        o.atomic_add([3, 16], x.load([0, 0]))
    elif KIND == "min":
        o.atomic_min([3, 16], x.load([0, 0]))
    elif KIND == "max":
        o.atomic_max([3, 16], x.load([0, 0]))
    elif KIND == "and":
        o.atomic_and([3, 16], x.load([0, 0]))
    elif KIND == "or":
        o.atomic_or([3, 16], x.load([0, 0]))
    else:
        o.atomic_xor([3, 16], x.load([0, 0]))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_through_descriptors_of_the_host(kind: str):
    """All types that torch has; the maps are made at the launch."""
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] < 9:
        return
    for dtype in KINDS[kind][0]:
        case = CASES[f"{kind} {dtype}"]
        if dtype[0] == "u":
            continue  # torch's unsigned types do not go through DLPack everywhere
        x, o = (to_gpu(case.arguments[n]) for n in "xo")
        descriptors = [TensorDescriptor.from_tensor(t, [8, 32]) for t in (x, o)]
        for _ in range(4):
            combine_host[(1,)](*descriptors, KIND=kind)
        found = np.empty_like(case.want["o"])
        from_gpu(o, found)
        f, w = (v.astype(np.float64) for v in (found, case.want["o"]))
        np.testing.assert_array_equal(f, w, err_msg=dtype)


@tritium.jit
def copy_host(x, o):
    o.store([1, 32], x.load([-3, -16]))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d[0] != "u"])
def test_host_descriptors_of_every_type(dtype: str):
    pytest.importorskip("torch")
    case = CASES[dtype]
    x, o = (to_gpu(case.arguments[n]) for n in "xo")
    want = case.arguments["o"].copy()
    block = np.zeros((16, 32), want.dtype)
    block[3:, 16:] = case.arguments["x"][:13, :16]
    want[1:17, 32:] = block
    for _ in range(3):
        copy_host[(1,)](*[TensorDescriptor.from_tensor(t, [16, 32]) for t in (x, o)])
    found = np.empty_like(want)
    from_gpu(o, found)
    np.testing.assert_array_equal(found.astype(np.float64), want.astype(np.float64))


@tritium.jit
def host_to_function(desc, o, N):
    made = tl.make_tensor_descriptor(o, [N], [1], [64])
    made.store([0], load_both(desc, 0) + load_both(made, 1))


@tritium.jit(noinline=True)
def load_both(desc, i):
    return desc.load([i * 64])


def test_functions_take_descriptors_of_both_kinds(allocations: list[Any]):
    torch = pytest.importorskip("torch")
    x, o = torch.randn(128, device="cuda"), torch.randn(128, device="cuda")
    want = torch.cat([x[:64] + o[64:], o[64:]])
    host_to_function[(1,)](TensorDescriptor.from_tensor(x, [64]), o, 128)
    assert torch.equal(o, want)
