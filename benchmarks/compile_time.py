"""How long the first launch of one kernel takes in this process; prints JSON.

    python -m benchmarks.compile_time matmul

Run in a fresh process. With an empty TRITON_CACHE_DIR it is the time to load the compiler, to
build the native launcher (once for a cache) and to compile; with `--loaded`, which compiles
another kernel before, the time to compile alone; with a filled cache the time until a cached kernel
runs.
"""

from __future__ import annotations

import argparse
import json
import time

started = time.perf_counter()

import numpy as np  # noqa: E402

from tritium.cli import demo_kernels  # noqa: E402

imported = time.perf_counter()


def launch(kernel: str) -> None:
    """A launch of one program on the smallest input."""
    x = np.ones((256, 256), np.float32)
    out = np.empty_like(x)
    if kernel == "add":
        demo_kernels.add_kernel[(1,)](x, x, out, x.size, BLOCK=8192)
    elif kernel == "softmax":
        demo_kernels.softmax_kernel[(1,)](x, out, 256, 256, BLOCK=1024)
    elif kernel == "layernorm":
        demo_kernels.layer_norm_kernel[(1,)](x, x, x, out, 256, 256, 1e-5, BLOCK=1024)
    else:
        demo_kernels.matmul_kernel[(1, 1)](
            *(x, x, out, 256, 256, 256, 256, 256, 256),
            **{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 256},
        )


def seconds(kernel: str) -> float:
    start = time.perf_counter()
    launch(kernel)
    return time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", choices=("add", "softmax", "layernorm", "matmul"))
    parser.add_argument("--loaded", action="store_true", help="compile another kernel before")
    arguments = parser.parse_args()
    kernel: str = arguments.kernel
    if arguments.loaded:
        launch("softmax" if kernel != "softmax" else "add")
    first, second = seconds(kernel), seconds(kernel)
    ready = {"ready_ms": (first - second) * 1e3, "import_ms": (imported - started) * 1e3}
    print(json.dumps(ready))
