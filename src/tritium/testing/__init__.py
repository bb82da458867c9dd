"""Measuring and checking kernels: `do_bench`, `perf_report`, `assert_close`, device figures."""

from __future__ import annotations

from tritium.testing.bench import do_bench as do_bench
from tritium.testing.bench import do_bench_cudagraph as do_bench_cudagraph
from tritium.testing.bench import summarize
from tritium.testing.clock import cuda_memcheck as cuda_memcheck
from tritium.testing.clock import set_gpu_clock as set_gpu_clock
from tritium.testing.compare import assert_close as assert_close
from tritium.testing.device import get_dram_gbps as get_dram_gbps
from tritium.testing.device import get_max_simd_tflops as get_max_simd_tflops
from tritium.testing.device import get_max_tensorcore_tflops as get_max_tensorcore_tflops
from tritium.testing.device import nvsmi as nvsmi
from tritium.testing.gpu import cublas as cublas
from tritium.testing.gpu import cuda_graph_without_gc as cuda_graph_without_gc
from tritium.testing.gpu import do_bench_cudagraph_proton as do_bench_cudagraph_proton
from tritium.testing.gpu import do_bench_proton as do_bench_proton
from tritium.testing.report import Benchmark as Benchmark
from tritium.testing.report import Mark as Mark
from tritium.testing.report import perf_report as perf_report

_summarize_statistics = summarize  # as the reference names it; libraries import that
