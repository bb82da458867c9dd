"""Matrix products by cuBLAS, to compare kernels with; torch brings the library."""

from __future__ import annotations

import importlib
from typing import Any


class CublasLt:
    """cuBLAS, as programs that compare themselves with it call it.

    Args:
        workspace: memory for cuBLAS. It is accepted for the reference's sake: torch has its own.
    """

    def __init__(self, workspace: Any):
        self.workspace = workspace
        self._torch: Any = importlib.import_module("torch")

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """c = a @ b.T, for a (M, K), b (N, K) and c (M, N) of one 16- or 32-bit type, or a and b of
        an 8-bit one. Raises `ValueError` for other shapes."""
        self._check(a, b, c)
        if a.element_size() > 1:
            self._torch.mm(a, b.T, out=c)
        else:
            one = self._torch.ones((), device=a.device, dtype=self._torch.float32)
            self._torch._scaled_mm(a, b.T, one, one, out_dtype=c.dtype, out=c)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """d = alpha * a @ b.T + beta * c."""
        self._check(a, b, d)
        self._torch.addmm(c, a, b.T, alpha=alpha, beta=beta, out=d)

    def _check(self, a: Any, b: Any, c: Any) -> None:
        m, n, k = a.shape[0], b.shape[0], a.shape[1]
        if tuple(b.shape) != (n, k) or tuple(c.shape) != (m, n):
            raise ValueError(
                f"CublasLt: a {tuple(a.shape)}, b {tuple(b.shape)} and the result "
                f"{tuple(c.shape)} do not fit; expected (M, K), (N, K) and (M, N)"
            )
