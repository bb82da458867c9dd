"""Products and attention with loops split among warps (`tl.range(warp_specialize=True)`) and
unsplit, beside Triton and torch, on an NVIDIA GPU.

    python benchmarks/warp_specialize.py [--out results.json] [--only matmul ...] [--limit 500]
        [--triton-split]

`--triton-split`: Triton splits the loops as well (its compiler fails on some of these kernels).
Each kernel is checked against torch (the output poisoned before), then timed (median of cold-cache
runs by device events, in rounds that alternate). Exits with 1 if a result is wrong, with 3 when
the time limit is reached (a hung kernel).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import torch.nn.functional as F
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import tritium
from benchmarks import gpu_measure
from benchmarks.gpu_measure import PACKAGES, compare

SMALL = ((300, 200, 72), (128, 256, 64), (1000, 1112, 1336))
"""Sizes of products that are checked alone: tiles with edges, a single iteration, several."""


VARIANTS = [("tritium", False), ("tritium", True), ("triton", False)]
"""Who compiles, and whether loops are split."""


def _calls(
    kernel: str, grid: tuple[int, ...], *arguments: Any, peers: bool = True, **meta: Any
) -> dict[str, Any]:
    """A launch of each variant; with `peers` of those of Triton too."""
    return {
        f"{who}{', split' if split else ''}": partial(
            _launch, getattr(PACKAGES[who], kernel), grid, *arguments, SPLIT=split, **meta
        )
        for who, split in VARIANTS if peers or who == "tritium"
    }


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **meta: Any) -> None:
    kernel[grid](*arguments, **meta)


def _descriptors(tensors: Sequence[torch.Tensor], blocks: Sequence[list[int]]) -> list[Any]:
    return [TensorDescriptor.from_tensor(*p) for p in zip(tensors, blocks, strict=True)]


def _tiles(m: int, n: int, bm: int, bn: int) -> int:
    return tritium.cdiv(m, bm) * tritium.cdiv(n, bn)


def _product(
    kernel: str, a: torch.Tensor, b: torch.Tensor, tile: tuple[int, int, int, int, int],
    programs: int | None, rounds: int = 3, half: bool | None = None,
) -> None:  # fmt: skip
    """`programs`: of a persistent kernel; `half`: it stores halves of its tiles. In one round only
    Tritium's results are checked."""
    (m, k), n = a.shape, b.shape[0]
    bm, bn, bk, warps, stages = tile
    out = torch.empty(m, n, device="cuda", dtype=torch.float16)
    want, flops = a @ b.T, 2.0 * m * n * k
    meta = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
    if half is not None:
        meta["SUBTILE"] = half
    columns = bn // 2 if half else bn
    made = _descriptors((a, b, out), ([bm, bk], [bn, bk], [bm, columns]))
    arguments = (a, b, out) if kernel == "persistent_made" else tuple(made)
    tiles = _tiles(m, n, bm, bn)
    grid = (tiles if programs is None else min(programs, tiles),)
    calls = _calls(kernel, grid, *arguments, m, n, k, peers=rounds > 1, **meta)
    if rounds > 1:
        calls["torch"] = lambda: torch.matmul(a, b.T, out=out)
    name = f"{kernel} {m}x{n}x{k}, {bm}x{bn}x{bk} w{warps} s{stages}"
    compare(name, "TFLOP/s", flops, calls, out, want, 2e-3, rounds)


def _operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(  # pyright: ignore
        torch.randn(rows, k, device="cuda", dtype=torch.float16) for rows in (m, n)
    )


def small() -> None:
    """Results alone matter."""
    for m, n, k in SMALL:
        a, b = _operands(m, n, k)
        for tile in ((64, 64, 64, 4, 3), (128, 128, 64, 8, 2), (128, 256, 64, 8, 4)):
            _product("matmul_blocks", a, b, tile, None, 1)
            _product("persistent", a, b, tile, 3, 1, False)
            _product("persistent_made", a, b, tile, 5, 1, True)


def matmul() -> None:
    for size in (2048, 4096, 8192):
        a, b = _operands(size, size, size)
        for tile in ((128, 256, 64, 8, 4), (128, 256, 64, 8, 3), (128, 128, 64, 8, 4),
                     (128, 128, 64, 4, 4)):  # fmt: skip
            _product("matmul_blocks", a, b, tile, None)


def persistent() -> None:
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    for size in (4096, 8192):
        a, b = _operands(size, size, size)
        for tile, half in (((128, 256, 64, 8, 3), False), ((128, 256, 64, 8, 3), True),
                           ((128, 128, 64, 8, 5), False)):  # fmt: skip
            _product("persistent", a, b, tile, programs, 3, half)
        _product("persistent_made", a, b, (128, 256, 64, 8, 3), programs, 3, False)


def attention() -> None:
    """Forward, for 4 batches of 32 heads."""
    heads, length = 4 * 32, 4096
    for depth, tiles in (
        (64, ((128, 64, 4, 3), (128, 128, 8, 3), (128, 128, 8, 2))),
        (128, ((128, 64, 8, 3), (128, 128, 8, 2))),
    ):
        q, k, v = (
            torch.randn(heads * length, depth, device="cuda", dtype=torch.float16)
            for _ in range(3)
        )
        out, top = torch.empty_like(q), torch.empty(heads * length, device="cuda")
        for causal in (False, True):
            parts = [t.view(1, heads, length, depth) for t in (q, k, v)]
            torch_call = partial(
                F.scaled_dot_product_attention, *parts, is_causal=causal, scale=depth**-0.5
            )
            want = torch_call().reshape(heads * length, depth)
            flops = 4.0 * heads * length * length * depth * (0.5 if causal else 1)
            for bm, bn, warps, stages in tiles:
                made = _descriptors((q, k, v, out), ([bm, depth], [bn, depth], [bn, depth],
                                                     [bm, depth]))  # fmt: skip
                calls = _calls(
                    "attention", (length // bm, heads), *made, top, length, depth**-0.5,
                    D=depth, BM=bm, BN=bn, CAUSAL=causal, num_warps=warps, num_stages=stages,
                )  # fmt: skip
                kind = "causal" if causal else "full"
                name = f"attention {kind} D={depth}, {bm}x{bn} w{warps} s{stages}"
                compare(name, "TFLOP/s", flops, calls, out, want, 3e-3)


PARTS: dict[str, Callable[[], None]] = {
    "small": small, "matmul": matmul, "persistent": persistent, "attention": attention,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS))
    parser.add_argument("--limit", type=float, default=500.0, help="seconds")
    parser.add_argument("--triton-split", action="store_true")
    options = parser.parse_args()
    VARIANTS.extend([("triton", True)] * options.triton_split)
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    for package in (tritium, triton):
        package.set_allocator(lambda size, alignment, stream: torch.empty(
            size, dtype=torch.int8, device="cuda"
        ))  # fmt: skip
    for name, part in PARTS.items():
        if options.only is None or name in options.only:
            torch.manual_seed(0)
            part()
            torch.cuda.empty_cache()
    print("\n" + gpu_measure.table())
    if options.out:
        gpu_measure.write(options.out)
    sys.exit(1 if any(r["by"].startswith("tritium") for r in gpu_measure.wrong()) else 0)


if __name__ == "__main__":
    main()
