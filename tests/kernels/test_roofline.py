"""Records of runs, the machine's limits, and comparison of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.support import place, torch
from tritium_kernels import target_info
from tritium_kernels.errors import ArgumentError
from tritium_kernels.roofline import (
    PerfRecord,
    compute_roofline,
    efficiency,
    get_blas_tflops,
    get_memset_tbps,
    load_perf_csv,
    plot_roofline,
    validate_perfs,
    write_csv,
)
from tritium_kernels.testing import (
    assert_close,
    assert_equal,
    compute_actual_scale,
    make_slice_sizes,
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
    assert get_blas_tflops(torch.float32, place(), 64) > 0
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
    nan = torch.tensor([1.0, torch.nan])
    assert_equal(nan, nan.clone())
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_equal(nan, torch.tensor([2.0, torch.nan]))
    sizes = make_slice_sizes(5, 100, "cpu")
    assert sizes.shape == (5,) and sizes.sum() == 100 and sizes.dtype == torch.int32
    assert compute_actual_scale(torch.tensor([-896.0, 1.0]), torch.float8_e4m3fn) == 2.0
