"""The problems of `tritium demo` and of the benchmarks: inputs, launch, rivals, exact result."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tritium.cli import demo_kernels

Array = npt.NDArray[Any]
Run = Callable[[], object]

# Launched with arguments of many types; as `Any` because the kernels' parameters have no types.
ADD = cast(Any, demo_kernels.add_kernel)
SOFTMAX = cast(Any, demo_kernels.softmax_kernel)
LAYER_NORM = cast(Any, demo_kernels.layer_norm_kernel)
MATMUL = cast(Any, demo_kernels.matmul_kernel)

#: Rows of a result that are compared with float64 at a time, to bound the memory that takes.
_CHUNK_ELEMENTS = 1 << 20


@dataclass
class Case:
    """One problem, ready to run.

    Attributes:
        name, size: for the table.
        launch: runs our kernel once; `out` then holds the result.
        out: our output array.
        exact: the right values in float64 for a slice of `out`'s first axis.
        tolerance: how far `out` may be from it anywhere (absolute).
        work: bytes moved or operations done by one run; `unit` says which (GB/s, GFLOP/s).
        rivals: the same work on the same inputs by other libraries, by name.
    """

    name: str
    size: str
    launch: Run
    out: Array
    exact: Callable[[slice], Array]
    tolerance: float
    work: float
    unit: str
    rivals: dict[str, Run] = field(default_factory=dict[str, Run])

    def error(self) -> float:
        """The largest absolute difference from float64; NaN if there is one anywhere."""
        rows = max(1, _CHUNK_ELEMENTS // (self.out[:1].size or 1))
        worst = 0.0
        for start in range(0, len(self.out), rows):
            part = slice(start, start + rows)
            worst = np.maximum(worst, np.max(np.abs(self.exact(part) - self.out[part])))
        return float(worst)

    def rate(self, seconds: float) -> float:
        """GB/s or GFLOP/s at that time for one run."""
        return self.work / seconds / 1e9


def load_torch() -> Any:
    """The module torch, or None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch  # takes a second to import: only for those who compare with it

    return torch


def _random(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def vector_add(n: int = 1 << 24, *, torch: Any = None, block: int = 8192) -> Case:
    """out = x + y on `n` float32 numbers."""
    x, y, out = _random(n, seed=0), _random(n, seed=1), np.empty(n, np.float32)
    grid = (-(-n // block),)
    other = np.empty_like(out)
    rivals: dict[str, Run] = {"numpy": lambda: np.add(x, y, out=other)}
    if torch is not None:
        tx, ty, to = (torch.from_numpy(a) for a in (x, y, np.empty_like(out)))
        rivals["torch"] = lambda: torch.add(tx, ty, out=to)
    return Case(
        name="vector add",
        size=_count(n),
        launch=lambda: ADD[grid](x, y, out, n, BLOCK=block),
        out=out,
        exact=lambda part: x[part].astype(np.float64) + y[part],
        tolerance=1e-6,
        work=3.0 * out.nbytes,
        unit="GB/s",
        rivals=rivals,
    )


def softmax(rows: int = 4096, columns: int = 1024, *, torch: Any = None) -> Case:
    """Softmax along the rows of a float32 matrix."""
    x = _random(rows, columns, seed=2)
    out = np.empty_like(x)
    block = 1 << (columns - 1).bit_length()
    rivals: dict[str, Run] = {"numpy": lambda: _softmax(x)}
    if torch is not None:
        tx = torch.from_numpy(x)
        to = torch.empty_like(tx)
        rivals["torch"] = lambda: torch.softmax(tx, dim=1, out=to)
    return Case(
        name="fused softmax",
        size=f"{rows}×{columns}",
        launch=lambda: SOFTMAX[(rows,)](x, out, columns, columns, BLOCK=block),
        out=out,
        exact=lambda part: _softmax(x[part].astype(np.float64)),
        tolerance=1e-6,
        work=2.0 * out.nbytes,
        unit="GB/s",
        rivals=rivals,
    )


def _softmax(x: Array) -> Array:
    numerator = np.exp(x - x.max(axis=1, keepdims=True))
    numerator /= numerator.sum(axis=1, keepdims=True)
    return numerator


def layer_norm(rows: int = 4096, columns: int = 1024, *, torch: Any = None) -> Case:
    """Layer normalization along the rows of a float32 matrix, with weight and bias."""
    x, eps = _random(rows, columns, seed=3), 1e-5
    weight, bias = _random(columns, seed=4), _random(columns, seed=5)
    out = np.empty_like(x)
    block = 1 << (columns - 1).bit_length()
    rivals: dict[str, Run] = {"numpy": lambda: _layer_norm(x, weight, bias, eps)}
    if torch is not None:
        tx, tw, tb = (torch.from_numpy(a) for a in (x, weight, bias))
        norm = torch.nn.functional.layer_norm
        rivals["torch"] = lambda: norm(tx, (columns,), tw, tb, eps)
    return Case(
        name="layer norm",
        size=f"{rows}×{columns}",
        launch=lambda: LAYER_NORM[(rows,)](
            x, weight, bias, out, columns, columns, eps, BLOCK=block
        ),
        out=out,
        exact=lambda part: _layer_norm(x[part].astype(np.float64), weight, bias, eps),
        tolerance=2e-5,
        work=2.0 * out.nbytes,
        unit="GB/s",
        rivals=rivals,
    )


def _layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = np.mean(centred * centred, axis=1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def matmul(
    size: int = 512, *, torch: Any = None, blocks: tuple[int, int, int] = (64, 64, 256)
) -> Case:
    """The product of two square float32 matrices whose size the blocks divide."""
    a, b = _random(size, size, seed=6), _random(size, size, seed=7)
    out, other = np.empty_like(a), np.empty_like(a)
    m, n, k = blocks
    if any(size % block for block in blocks):
        raise ValueError(f"matmul of {size}: expected a multiple of each of the blocks {blocks}")
    grid = (size // m, size // n)
    rivals: dict[str, Run] = {"numpy": lambda: np.matmul(a, b, out=other)}
    if torch is not None:
        ta, tb, tc = (torch.from_numpy(x) for x in (a, b, np.empty_like(a)))
        rivals["torch"] = lambda: torch.mm(ta, tb, out=tc)
    return Case(
        name="matmul",
        size=f"{size}³",
        launch=lambda: MATMUL[grid](
            *(a, b, out, size, size, size, size, size, size),
            **{"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k},
        ),
        out=out,
        exact=lambda part: a[part].astype(np.float64) @ b.astype(np.float64),
        tolerance=2e-6 * size,
        work=2.0 * size**3,
        unit="GFLOP/s",
        rivals=rivals,
    )


def _count(n: int) -> str:
    return f"{n >> 20}M" if n % (1 << 20) == 0 else str(n)


#: Makers of the demo's cases: (as shown, quick). Each takes `torch=`.
DEMO: dict[str, tuple[tuple[Callable[..., Case], tuple[int, ...], tuple[int, ...]], ...]] = {
    "add": ((vector_add, (1 << 24,), (1 << 20,)),),
    "softmax": ((softmax, (4096, 1024), (256, 1024)),),
    "layernorm": ((layer_norm, (4096, 1024), (256, 1024)),),
    "matmul": ((matmul, (512,), (256,)), (matmul, (1024,), (512,))),
}
