"""How long the first launch of one kernel takes in this process; prints JSON.

    python -m benchmarks.compile_time matmul

Run in a fresh process. With an empty TRITON_CACHE_DIR it is the time to load the compiler, to
build the native launcher (once for a cache) and to compile; with `--loaded`, which compiles
another kernel before, the time to compile alone; with a filled cache the time until a cached kernel
runs. `attention` and `attention-backward` are tutorial 06's, the largest of the tutorials; `cpu_ms`
counts the processor's time of the first launch, which a busy machine does not stretch as much.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

started = time.perf_counter()

import numpy as np

from tritium.cli import demo_kernels

imported = time.perf_counter()


KERNELS = ("add", "softmax", "layernorm", "matmul", "attention", "attention-backward")


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
    elif kernel.startswith("attention"):
        attend(backward=kernel.endswith("backward"))
    else:
        demo_kernels.matmul_kernel[(1, 1)](
            *(x, x, out, 256, 256, 256, 256, 256, 256),
            **{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 256},
        )


def attend(backward: bool) -> None:
    """Causal attention of one head, or its backward kernel alone."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tutorials"))
    tutorial = importlib.import_module("06_fused_attention")
    q = np.ones((1, 1, 64, 64), np.float32)
    lse = np.zeros((1, 1, 64), np.float32)
    if backward:
        arguments = (q, q, q, q, lse, lse, *(np.empty_like(q) for _ in range(3)), 1.0, 64)
        tutorial.backward_kernel[1, 1](
            *arguments, D=64, BLOCK=64, STEP=64, CAUSAL=True, DESCRIPTORS=True, EVEN=True
        )
    else:
        tutorial.forward(q, q, q, causal=True)


def seconds(kernel: str) -> tuple[float, float]:
    """Of a launch: by the clock, and of this process' processor time."""
    start, processor = time.perf_counter(), time.process_time()
    launch(kernel)
    return time.perf_counter() - start, time.process_time() - processor


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("--loaded", action="store_true", help="compile another kernel before")
    arguments = parser.parse_args()
    kernel: str = arguments.kernel
    if arguments.loaded:
        launch("softmax" if kernel != "softmax" else "add")
    # The second launch makes the native launcher of the kernel, from the cache; then all is ready.
    (first, processor), (second, _), (third, _) = (seconds(kernel) for _ in range(3))
    ready = {
        "ready_ms": (first - third) * 1e3,
        "second_ms": (second - third) * 1e3,
        "cpu_ms": processor * 1e3,
        "import_ms": (imported - started) * 1e3,
    }
    print(json.dumps(ready))
