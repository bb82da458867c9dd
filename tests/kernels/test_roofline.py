"""Records of runs, the machine's limits, and comparison of results."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kernels.support import normal, place, torch
from tritium import knobs
from tritium_kernels import proton_opts, target_info
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import matmul
from tritium_kernels.reduce import reduce
from tritium_kernels.roofline import (
    PerfRecord,
    compute_roofline,
    efficiency,
    get_blas_tflops,
    get_memset_tbps,
    load_perf_csv,
    parse_profile,
    plot_roofline,
    validate_perfs,
    write_csv,
)
from tritium_kernels.tensor import make_ragged_tensor_metadata
from tritium_kernels.tensor_details.dtype import BF16, FP4, FP8_E4M3FN
from tritium_kernels.tensor_details.layout import HopperMXValueLayout, StridedLayout
from tritium_kernels.testing import (
    ComputeSanitizerTool,
    assert_close,
    assert_equal,
    compute_actual_scale,
    compute_sanitizer,
    make_random_tensor,
    make_slice_sizes,
    normalize_blocks,
    pad_rows_to_multiples,
)


def bench(scale: float, n: int) -> PerfRecord:
    return PerfRecord(1000.0 * n, scale * n**2, 8.0 * n)


def test_records(tmp_path: Path):
    path = compute_roofline(
        2.0, bench_fn=bench, intensity_proxy_name="n", intensity_proxy_values=[1, 4],
        out_path=tmp_path / "a.csv",
    )  # fmt: skip
    assert load_perf_csv(path) == ([1, 4], [bench(2.0, 1), bench(2.0, 4)])
    assert bench(2.0, 4).intensity == 1.0
    # 1000 operations take 1 ns of the 2.
    assert efficiency(PerfRecord(2.0, 1000.0, 8.0), max_tflops=1.0, max_tbps=1.0) == 0.5
    plot_roofline([path], torch.float32, tmp_path / "a.png", max_tbps=1.0, max_tflops=1.0)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_limits_are_measured():
    assert get_memset_tbps(place(), 1 << 20) > 0
    assert get_blas_tflops(torch.float32, device=place(), size=64) > 0
    assert target_info.num_sms() > 0 and target_info.is_cpu() == (place() == "cpu")


def test_wrong_records(tmp_path: Path):
    with pytest.raises(ArgumentError, match=r"perfs has PerfRecord\(time_ns=0"):
        validate_perfs([bench(1.0, 1), PerfRecord(0, 1, 1)])
    with pytest.raises(ArgumentError, match="perfs has 1 records; accepted: 2, as xs"):
        write_csv([1, 2], [bench(1.0, 1)], tmp_path / "b.csv")


def test_comparison():
    x = torch.linspace(-2, 2, 101)
    assert_close(x, x * 1.001)
    for wrong in (x * 1.03, torch.where(x > 1.9, torch.nan, x), x[:100]):
        with pytest.raises(AssertionError):
            assert_close(x, wrong, verbose=False)
    near = torch.tensor([3.0, -torch.inf, 0.0, 3.0]), torch.tensor([3.0, -torch.inf, 0.03, 3.0])
    error = 0.03 / 4.5**0.5  # of the mean square of four elements, one of which counts as 0
    assert_close(*near, maxtol=1.001 * error, rmstol=1.001 * error / 2)
    for limits in ((0.999 * error, 1.0), (1.0, 0.999 * error / 2)):
        with pytest.raises(AssertionError):
            assert_close(*near, *limits)
    nan = torch.tensor([1.0, torch.nan])
    assert_equal(nan, nan.clone())
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_equal(nan, torch.tensor([2.0, torch.nan]))
    same = torch.tensor([448.0, 0.5]).to(torch.float8_e4m3fn)
    assert_close(torch.tensor([450.0, 0.51]), same)  # rounded as what is compared
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_close(torch.tensor([447.0, 0.25]).to(same.dtype), same)
    sizes = make_slice_sizes(5, 100, "cpu")
    assert sizes.sum() == 100 and sizes.dtype == torch.int32 and sizes[1] == 0 < sizes[0]
    assert torch.equal(sizes, make_slice_sizes(5, 100, "cpu"))
    assert make_slice_sizes(0, 5, "cpu").shape == (0,)
    assert compute_actual_scale(torch.tensor([-896.0, 1.0]), torch.float8_e4m3fn) == 2.0


def test_profiles(tmp_path: Path):
    inner = {"frame": {"name": "matmul_x"}, "metrics": {"time (ns)": 5, "flops16": 10, "bytes": 3},
             "children": []}  # fmt: skip
    other = {"frame": {"name": "sort"}, "metrics": {"time (ns)": 9}, "children": []}
    scope = {"frame": {"name": "layer"}, "metrics": {}, "children": [inner, other]}
    root = {"frame": {"name": "ROOT"}, "metrics": {}, "children": [scope, inner | {
        "frame": {"name": "matmul"}
    }]}  # fmt: skip
    (tmp_path / "p.hatchet").write_text(json.dumps([root]))
    assert parse_profile(tmp_path / "p.hatchet", "matmul.*") == PerfRecord(10, 20, 6)
    assert parse_profile(tmp_path / "p.hatchet", "layer|matmul") == PerfRecord(19, 20, 6)


def described(call) -> dict:
    """A launch's description."""
    found: list = []
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook = lambda data: found.append(data.get())
        call()
    return found[-1]


def test_descriptions_of_launches():
    a, b = normal(20, 32, dtype=torch.bfloat16), normal(3, 32, 16, dtype=torch.bfloat16)
    ragged = make_ragged_tensor_metadata(torch.tensor([5, 0, 9], device=place()), 20)
    whole = described(lambda: matmul(a, b[0], None))
    assert whole["name"] == "matmul [m=20, n=16, k=32]"
    assert whole["flops16"] == 2 * 20 * 16 * 32
    assert whole["bytes"] == 2 * (20 * 32 + 32 * 16 + 20 * 16)
    some = described(lambda: matmul(a, b, None, ragged))
    assert some["flops16"] == 2 * 14 * 16 * 32
    assert some["bytes"] == 2 * (14 * 32 + 2 * 32 * 16 + 14 * 16)
    before = proton_opts.launch_metadata_allow_sync()
    proton_opts.set_launch_metadata_allow_sync(False)
    try:
        assert "bytes" not in described(lambda: matmul(a, b, None, ragged))
    finally:
        proton_opts.set_launch_metadata_allow_sync(before)
    sums = described(lambda: reduce(normal(3, 4, 5), 0))
    assert sums["bytes"] == 4 * (60 + 20) and sums["flops32"] == 60


def test_random_tensors():
    for dtype, mxfp, layout in (
        (BF16, None, None), (FP8_E4M3FN, 1, None), (FP4, -2, HopperMXValueLayout(-2)),
    ):  # fmt: skip
        x, scales, metadata = make_random_tensor(
            (64, 96), 3, None, False, place(), dtype, mxfp, False, False,
            value_hbm_swizzling=layout,
        )  # fmt: skip
        assert (metadata is None and tuple(x.shape) == (3, 64, 96)) or dtype == FP4
        assert (scales is None) == (mxfp is None)
    assert x.storage.layout == layout and tuple(scales.shape) == (3, 2, 96)
    x, _, metadata = make_random_tensor(
        (100, 32), 4, 0, True, place(), BF16, None, True, True
    )  # fmt: skip
    assert (metadata.slice_offs % 64 == 0).all() and metadata.slice_sizes_divisibility == 64
    assert x.shape[0] == metadata.slice_offs[-1] > metadata.slice_sizes.sum() == 100
    assert x.stride(0) == 1
    rows = pad_rows_to_multiples(torch.arange(5.0)[:, None], [0, 3, 5], 4, -1.0)
    assert rows.flatten().tolist() == [0, 1, 2, -1, 3, 4, -1, -1]
    x = normalize_blocks(normal(3, 5), 2).abs()
    assert torch.equal(x[:2, :2].amax(0), x[:2, :2].amax(1)) and x[2, 4] == x[2, 4:].max()


class Fp4:
    """An element type as programs describe it."""

    torch_dtype, has_mx_scale, is_mxfloat4 = torch.uint8, True, True


def test_random_tensors_by_attributes():
    """Values that are packed across blocks have the scales of blocks along them, too."""
    given = ((64, 32), 2, None, False, place(), Fp4(), -2, False, False)
    values, scales, _ = make_random_tensor(*given, is_mx_rowmajor=True,
                                           scale_hbm_swizzling=lambda _: StridedLayout(-2))
    assert values.shape == (2, 64, 32) and values.data.shape == (2, 64, 16)
    assert values.stride(-1) == 1 and scales.shape == (2, 2, 32) and scales.stride(-2) == 1


def test_sanitizer(monkeypatch):
    commands: list = []

    class Request:
        class node:
            nodeid = "test_x.py::test_y"

    def run(command, **options):
        commands.append((command, options["env"]["SKIP_COMPUTE_SANITIZER"]))
        return subprocess.CompletedProcess(command, 0, "ERROR SUMMARY: 0 errors", "")

    calls: list = []
    tools = list(ComputeSanitizerTool)
    test = compute_sanitizer(tools_to_check=tools, n=3)(lambda n, request: calls.append(n))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.delenv("SKIP_COMPUTE_SANITIZER", raising=False)
    test(n=3, request=Request)
    test(n=4, request=Request)
    assert calls == [4] and [c[0][3] for c in commands] == [f"--tool={t.value}" for t in tools]
    assert all(c[0][-1] == "test_x.py::test_y" and c[1] == "1" for c in commands)
    monkeypatch.setenv("SKIP_COMPUTE_SANITIZER", "1")
    test(n=3, request=Request)
    assert calls == [4, 3]
