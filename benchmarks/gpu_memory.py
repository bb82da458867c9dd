"""Kernels that memory limits: vector add, softmax, dropout, layer norm, and the launch."""

from __future__ import annotations

import time
from functools import partial

import torch
import torch.nn.functional as F

import tritium
from benchmarks.gpu_measure import KERNELS, PACKAGES, both, compare, rows


def vector_add() -> None:
    n = 1 << 28
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out, want = torch.empty_like(x), x + y
    grid = (n // 1024,)
    from_ir = tritium.compile(KERNELS / "add.ttgir")
    calls = both("add", grid, x, y, out, n, BLOCK=1024)
    calls |= {
        "tritium, ttgir": lambda: from_ir[grid](x, y, out, n),
        "torch": lambda: torch.add(x, y, out=out),
    }
    compare("add 2^28", "GB/s", 12 * n, calls, out, want, 0.0)


def softmax() -> None:
    for columns, block, warps in ((1024, 1024, 4), (4096, 4096, 8), (12544, 16384, 16)):
        x = torch.randn(16384, columns, device="cuda")
        out, want = torch.empty_like(x), torch.softmax(x, 1)
        for programs in (132 * 8, 132 * 16, 16384):
            calls = both(
                "softmax", (programs,), out, x, columns, columns, 16384, columns,
                BLOCK=block, num_warps=warps,
            )  # fmt: skip
            calls["torch"] = partial(torch.softmax, x, 1, out=out)
            name = f"softmax 16384x{columns}, {programs} programs"
            compare(name, "GB/s", 8 * x.numel(), calls, out, want, 1e-5)


def dropout() -> None:
    n = 1 << 27
    x = torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    grid = (n // 1024,)
    # Both draw the same numbers (Philox 4x32): the reference's result is the one to match.
    arguments = (x, out, n, 0.5, 123)
    PACKAGES["triton"].dropout[grid](*arguments, BLOCK=1024)
    want = out.clone()
    kept = float((want != 0).double().mean())
    assert abs(kept - 0.5) < 1e-3 and torch.equal(want[want != 0], (x * 2)[want != 0]), kept
    calls = both("dropout", grid, *arguments, BLOCK=1024)
    compare("dropout 2^27", "GB/s", 8 * n, calls, out, want, 0.0)


def layer_norm() -> None:
    m = 4096
    for n in (4096, 8192):
        x = -2.3 + 0.5 * torch.randn(m, n, device="cuda", dtype=torch.float16)
        dy = 0.1 * torch.randn_like(x)
        w, b = (torch.rand(n, device="cuda", dtype=torch.float16) for _ in range(2))
        mean, rstd = (torch.empty(m, device="cuda") for _ in range(2))
        out, warps = torch.empty_like(x), min(max(n // 256, 1), 8)
        wide = [t.float().requires_grad_() for t in (x, w, b)]
        want = F.layer_norm(wide[0], (n,), wide[1], wide[2], 1e-5)
        calls = both(
            "layer_norm", (m,), x, out, w, b, mean, rstd, n, n, 1e-5,
            BLOCK=min(n, 65536 // 2), num_warps=warps,
        )  # fmt: skip
        compare(f"layer norm forward {m}x{n}", "GB/s", 4 * x.numel(), calls, out, want, 1e-3)
        want.backward(dy.float())
        _backward(x, dy, w, mean, rstd, [t.grad for t in wide], warps)


def _backward(x, dy, w, mean, rstd, wanted, warps) -> None:
    (m, n), groups = x.shape, 96 if x.shape[1] > 4096 else 128
    # One tensor, so that all three gradients are checked.
    out = torch.empty(m + 2, n, device="cuda", dtype=torch.float16)
    dx, dw, db = out[:m], out[m], out[m + 1]
    parts = torch.empty(2, groups, n, device="cuda", dtype=torch.float16)
    locks = torch.zeros(2 * groups, device="cuda", dtype=torch.int32)
    want = torch.cat([wanted[0], wanted[1][None], wanted[2][None]])

    def run(kernels) -> None:
        locks.zero_()
        kernels.layer_norm_rows[(m,)](
            dx, dy, parts[0], parts[1], x, w, mean, rstd, locks, n, n,
            GROUPS=groups, BLOCK=n, num_warps=warps,
        )  # fmt: skip
        kernels.layer_norm_sums[(tritium.cdiv(n, 128),)](
            parts[0], parts[1], dw, db, min(groups, m), n, BM=32, BN=128
        )

    calls = {who: partial(run, kernels) for who, kernels in PACKAGES.items()}
    compare(f"layer norm backward {m}x{n}", "GB/s", 6 * x.numel(), calls, out, want, 5e-3)


def launch_cost() -> None:
    """Microseconds of one launch from Python."""
    x = torch.randn(1024, device="cuda")
    out = torch.empty_like(x)
    for who, kernels in PACKAGES.items():
        call = partial(kernels.add[(1,)], x, x, out, 1024, BLOCK=1024)
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5000):
            call()
        took = (time.perf_counter() - start) / 5000 * 1e6
        rows.append({"kernel": "launch of add", "by": who, "unit": "us", "rate": round(took, 2)})
        print(rows[-1], flush=True)
        torch.cuda.synchronize()
