"""Functions for torch.compile, whose generated Triton kernels run on Tritium, on the CPU.

    python tests/compat/inductor_programs.py [NAME ...]

Run in a process of its own, with the alias set up by `tritium run` or here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tritium.compat

tritium.compat.install()

import torch  # noqa: E402
import torch._inductor.config as inductor  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import randn  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402


def train(x: Any, w: Any, b: Any) -> Any:
    w, b = w.clone().requires_grad_(), b.clone().requires_grad_()
    loss = F.layer_norm(F.gelu(x @ w), (64,), b).pow(2).mean()
    return torch.autograd.grad(loss, (w, b))


def i(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], float]] = {
    "pointwise": (lambda x, y: torch.where(x > 0, x, y) + torch.tanh(x) * y.exp(),
                  lambda: (randn(1000, 33), randn(1000, 33)), 1e-4),
    "softmax": (lambda x: torch.softmax(x, -1), lambda: (randn(64, 1000),), 1e-6),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (256,), w, b),
                   lambda: (randn(32, 256), randn(256), randn(256)), 1e-5),
    "training": (train, lambda: (randn(32, 48), randn(48, 64), randn(64)), 1e-5),
    "sums": (lambda x: (x.sum(0), x.sum(), x.prod(1), x.amin(1), x.any(1)),
             lambda: (randn(500, 77),), 1e-3),
    "argmax": (lambda x: x.argmax(1), lambda: (randn(50, 300),), 0),
    "scan": (lambda x: x.cumsum(1), lambda: (randn(20, 300),), 1e-4),
    "variance": (lambda x: torch.var_mean(x, 1), lambda: (randn(40, 500),), 1e-5),
    "bfloat16": (lambda x: F.gelu(x.bfloat16()), lambda: (randn(100, 64),), 4e-2),
    "half": (lambda x: (x.half() * 2 + 1).float(), lambda: (randn(100, 64),), 1e-2),
    "double": (lambda x: torch.sigmoid(x) * x, lambda: (randn(1000).double(),), 1e-14),
    "integers": (lambda x: (x // 3) * (x % 5) + (x << 2), lambda: (i(200, 1000) - 100,), 0),
    "truth": (lambda x, y: (x > 0) & (y > 0) | ~(x < y), lambda: (randn(100), randn(100)), 0),
    "embedding": (lambda w, n: F.embedding(n, w) * 2, lambda: (randn(100, 32), i(100, 40)), 0),
    "index_add": (lambda x, n, v: x.index_add(0, n, v),
                  lambda: (randn(10, 8), i(10, 50), randn(50, 8)), 1e-5),
    "scatter_add": (lambda x, n: x.scatter_add(1, n, x),
                    lambda: (randn(20, 30), i(30, 20, 30)), 1e-5),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
                    lambda: (randn(2, 3, 16, 16), randn(8, 3, 3, 3)), 1e-4),
    "pooling": (lambda x: F.max_pool2d(x, 2), lambda: (randn(2, 3, 16, 16),), 0),
    "transposition": (lambda x: x.t().contiguous() + 1, lambda: (randn(130, 70),), 0),
    "concatenation": (lambda x, y: torch.cat([x, y * 2], 1).sin(),
                      lambda: (randn(30, 20), randn(30, 50)), 1e-6),
    "sorting": (lambda x: x.sort(1), lambda: (randn(10, 100),), 0),
    "functions": (lambda x: torch.erf(x) + torch.log1p(x.abs()) + torch.rsqrt(x.abs() + 1)
                  + x.abs() ** 1.7 + torch.round(x) + torch.fmod(x, 0.7),
                  lambda: (randn(1000),), 1e-5),
    "cross entropy": (F.cross_entropy, lambda: (randn(40, 100), i(100, 40)), 1e-5),
    "strides": (lambda x: x[:, ::2][:, 1:].flip(0) * 2, lambda: (randn(20, 30),), 0),
    "group norm": (lambda x: F.group_norm(x, 4), lambda: (randn(4, 16, 8, 8),), 1e-5),
}  # fmt: skip


def check(name: str) -> None:
    """Compile a function, compare what it computes, and print how many kernels it has."""
    function, make, tolerance = CASES[name]
    torch._dynamo.reset()
    arguments = make()
    want = function(*arguments)
    got, code = run_and_get_code(torch.compile(function), *arguments)
    leaves = torch.utils._pytree.tree_leaves
    for have, right in zip(leaves(got), leaves(want), strict=True):
        assert have.dtype == right.dtype
        torch.testing.assert_close(have, right, atol=tolerance, rtol=tolerance)
    kernels = sum(text.count("@triton.jit") for text in code)
    assert kernels, f"{name}: torch generated no Triton kernel"
    print(f"{name}: {kernels} kernels", flush=True)


def main(names: list[str]) -> None:
    torch.manual_seed(0)
    inductor.cpu_backend = "triton"
    inductor.compile_threads = 1
    inductor.fallback_random = True
    for name in names or CASES:
        check(name)


if __name__ == "__main__":
    main(sys.argv[1:])
