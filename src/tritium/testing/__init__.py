"""Measuring and checking kernels: `do_bench`, `perf_report`, `assert_close`, device figures."""

from __future__ import annotations

from .bench import do_bench as do_bench
from .bench import do_bench_cudagraph as do_bench_cudagraph
from .compare import assert_close as assert_close
from .device import get_dram_gbps as get_dram_gbps
from .device import get_max_simd_tflops as get_max_simd_tflops
from .device import get_max_tensorcore_tflops as get_max_tensorcore_tflops
from .device import nvsmi as nvsmi
from .report import Benchmark as Benchmark
from .report import Mark as Mark
from .report import perf_report as perf_report

__all__ = [
    "Benchmark",
    "Mark",
    "assert_close",
    "do_bench",
    "do_bench_cudagraph",
    "get_dram_gbps",
    "get_max_simd_tflops",
    "get_max_tensorcore_tflops",
    "nvsmi",
    "perf_report",
]
