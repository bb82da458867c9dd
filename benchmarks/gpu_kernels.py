"""The kernels of the GPU benchmarks. `load("triton")` gives the same ones compiled by Triton."""

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import tritium
import tritium.language as tl


@tritium.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y for n elements, BLOCK to a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@tritium.jit
def softmax(out_ptr, x_ptr, x_stride, out_stride, n_rows, n_columns, BLOCK: tl.constexpr):
    """Softmax of each row; a program does every `num_programs`-th one."""
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, 0), mask=mask)


@tritium.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, a_stride, b_stride, c_stride,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """c = a @ b, all row-major; tiles in groups of GROUP rows, for the second-level cache."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + pid % (GROUP * tiles_n) % rows
    tile_n = pid % (GROUP * tiles_n) // rows
    m = (tile_m * BM + tl.arange(0, BM)) % M
    n = (tile_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * a_stride + k[None, :]
    b_ptrs = b_ptr + k[:, None] * b_stride + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * b_stride
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + c_stride * m[:, None] + n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


def load(name: str) -> ModuleType:
    """This module with its kernels decorated by another package: "triton"."""
    if name == "tritium":
        return sys.modules[__name__]
    text = Path(__file__).read_text().replace("tritium", name)
    path = Path(tempfile.mkdtemp(prefix="gpu-kernels-")) / f"kernels_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
