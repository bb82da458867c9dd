"""Kernels whose loops are split among warps, in ttgir for Hopper."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import gpu_kernels
from tritium.backends.base import make_backend
from tritium.backends.nvidia.processor import processor
from tritium.compiler import ASTSource
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.ttgir import WarpSpecializeOp
from tritium.ops.ttir.memory import Tile
from tritium.passes import PassManager, pipelines
from tritium.target import GPUTarget


def split(
    kernel: Any, signature: str, constants: dict[str, Any], num_warps: int, num_stages: int,
    loops: int | None = 1, arch: int = 90,
) -> Any:  # fmt: skip
    """The ttgir of a kernel, some loops of which are split."""
    names = [n for n in kernel.arg_names if n not in constants]
    types = dict(zip(names, signature.split(), strict=True))
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    backend = make_backend(GPUTarget("cuda", arch, 32))
    module = source.generate(backend, backend.parse_options({"num_warps": num_warps}))
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(arch), num_warps, num_stages)]
    PassManager(passes, verify_each=True).run(module)
    found = sum(isinstance(op, WarpSpecializeOp) for op in module.walk())
    assert loops is None or found == loops
    return module


def product(
    name: str, num_warps: int, num_stages: int, bm: int = 128, bn: int = 64, bk: int = 32,
    arch: int = 90,
) -> Any:  # fmt: skip
    """`matmul_blocks` or `persistent` of the benchmarks; `halves`: the latter, which stores halves
    of its tiles."""
    halves, name = name == "halves", "persistent" if name == "halves" else name
    constants = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 2, "SPLIT": True}
    if name == "persistent":
        constants["SUBTILE"] = halves
    blocks = ((bm, bk), (bn, bk), (bm, bn // 2 if halves else bn))
    signature = " ".join(f"tensordesc<fp16[{rows},{columns}]>" for rows, columns in blocks)
    kernel = getattr(gpu_kernels, name)
    return split(kernel, f"{signature} i32 i32 i32", constants, num_warps, num_stages, arch=arch)


def attention(
    causal: bool, num_warps: int, keys: int = 64, depth: int = 32, arch: int = 90
) -> Any:
    """`attention` of the benchmarks, for blocks of 128 queries."""
    constants = {"D": depth, "BM": 128, "BN": keys, "CAUSAL": causal, "SPLIT": True}
    q, k = f"tensordesc<fp16[128,{depth}]>", f"tensordesc<fp16[{keys},{depth}]>"
    signature = f"{q} {k} {k} {q} *fp32 i32 fp32"
    return split(gpu_kernels.attention, signature, constants, num_warps, 3, 1 + causal, arch)


def launch(module: Any, grid: tuple[int, ...], arrays: list[np.ndarray], *rest: Any) -> None:
    """Run a kernel that takes descriptors of arrays by the reference semantics."""
    arguments: list[Any] = []
    for array in arrays:
        strides = (array.shape[1], 1)
        arguments += [Tile(array.ctypes.data, array.shape, strides), *map(np.int32, array.shape)]
        arguments += map(np.int64, strides)
    reachable = [*arrays, *(value for value in rest if isinstance(value, np.ndarray))]
    rest = tuple(np.uint64(v.ctypes.data) if isinstance(v, np.ndarray) else v for v in rest)
    memory = Memory([(x.ctypes.data, x.nbytes) for x in reachable])
    kernel: Any = next(f for f in module.ops if f.sym_visibility == "public")
    Evaluator(module, memory).launch(kernel.sym_name, [*arguments, *rest], grid)


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool
) -> np.ndarray:
    """The result of attention."""
    score = q.astype(np.float64) @ k.T.astype(np.float64) * scale
    if causal:
        score[np.triu_indices(len(q), 1)] = -np.inf
    p = np.exp(score - score.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v.astype(np.float64)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)
