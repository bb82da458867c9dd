"""Find the configurations of `tritium_kernels` for a GPU: the entries of its tables.

    python -m benchmarks.tune_kernels [--only forward dk_dv dq together matmul thin norms losses
        paged groups]
        [--out FILE]

Each candidate is put into the table in place of the entry, and the kernel is measured on the
problems that the entry is for (`do_bench`, the median; of attention's gradients all kernels
together). Candidates that do not compile or fit are left out. Prints the candidates from the
fastest on; what ships is copied from here by hand. Exits with 3 when the time limit (`--limit`) is
reached, with 1 when a candidate has cost the process the device, after writing what there is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import torch

from tritium.errors import TritonError
from tritium.testing import do_bench
from tritium_kernels.dense import attention_launch, matmul_launch, norm, paged
from tritium_kernels.dense.attention_launch import Call, Tiles
from tritium_kernels.dense.matmul_launch import Blocks
from tritium_kernels.launching.launch import device_class, processors
from tritium_kernels.launching.plans import forget_records
from tritium_kernels.launching.tables import RowPlan

cross_entropy = import_module("tritium_kernels.dense.cross_entropy")  # a function has its name
groups = import_module("tritium_kernels.dense.group_norm")
HEADS, LENGTH, BATCH = 32, 4096, 4
Trial = tuple[str, str, Callable[[], float]]
"""The entry, the candidate, and what measures it, in TFLOP/s or TB/s."""


def rate(work: float, run: Callable[[], Any]) -> float:
    return work / do_bench(run, warmup=5, rep=40, return_mode="median") / 1e9


def attention_trials(which: str) -> Iterator[Trial]:
    """Tiles of one kernel of attention, causal and not."""
    kind = device_class(torch.device("cuda"))
    by_keys = which in ("dk_dv", "together")
    rows, columns = ((32, 64, 128), (64, 128)) if by_keys else ((64, 128), (64, 128))
    shapes = list(product(rows, columns, (4, 8), (2, 3, 4)))
    products = 2 if which == "forward" else 5
    for d in (64, 128):
        shape = (BATCH, HEADS, LENGTH, d)
        q, k, v, do, o, dq, dk, dv = (torch.randn(shape, device="cuda").half() for _ in range(8))
        lse = torch.randn(shape[:3], device="cuda") + math.log(LENGTH)

        def run(call: Call) -> None:
            if which == "forward":
                attention_launch.forward(q, k, v, o, lse, call)
            else:
                attention_launch.backward(q, k, v, o, lse, do, dq, dk, dv, call)

        for (m, n, warps, stages), causal in product(shapes, (False, True)):
            right = 0 if causal else attention_launch.UNLIMITED
            call = Call(
                d**-0.5, attention_launch.UNLIMITED, right, None, 0.0, 0, LENGTH, LENGTH,
                None, None, None,
            )  # fmt: skip
            work = products * 2 * BATCH * HEADS * LENGTH**2 * d * (0.5 if causal else 1)

            def measure(tiles: Tiles, call: Call, work: float, d: int) -> float:
                table = attention_launch._HALF[kind]
                entry = {**getattr(table, which), d: tiles}
                attention_launch._HALF[kind] = replace(table, **{which: entry})
                try:
                    return rate(work, lambda: run(call))
                finally:
                    attention_launch._HALF[kind] = table

            tiles = Tiles(m, n, warps, stages)
            name = f"{which} d={d} {'causal' if causal else 'full'}"
            yield name, str(tiles), lambda t=tiles, c=call, w=work, d=d: measure(t, c, w, d)


def matmul_trials(thin: bool) -> Iterator[Trial]:
    """Blocks of products of two square matrices, or of a few rows with a matrix."""
    sizes = (
        [(m, 8192, 8192) for m in (1, 16, 64)] if thin else [(n, n, n) for n in (2048, 4096, 8192)]
    )
    if thin:
        found = [
            Blocks(16, n, k, warps, stages, split)
            for n, k, warps, stages, split in product(
                (32, 64, 128), (128, 256), (4,), (3, 5), (1, 2, 4, 8)
            )
        ]
    else:
        found = [
            Blocks(m, n, k, warps, stages)
            for (m, n, warps), k, stages in product(
                ((128, 256, 8), (256, 128, 8), (128, 128, 8), (128, 128, 4), (64, 256, 4)),
                (64, 128), (3, 4),
            )
            if (m + n) * k * 2 * stages <= 200 << 10
        ]
    choose = matmul_launch.choose
    for m, n, k in sizes:
        a, b = (torch.randn(s, device="cuda").bfloat16() for s in ((1, m, k), (1, k, n)))
        y = torch.empty(1, m, n, device="cuda", dtype=a.dtype)
        for blocks in found:
            if thin:
                blocks = replace(blocks, m=max(16, m))

            def measure(blocks: Blocks, a: Any, b: Any, y: Any, work: float) -> float:
                matmul_launch.choose = lambda *_: blocks
                try:
                    return rate(work, lambda: matmul_launch.launch(a, b, y))
                finally:
                    matmul_launch.choose = choose

            work = 2.0 * m * n * k
            yield (f"{'thin ' if thin else ''}matmul {m}x{n}x{k}", str(blocks),
                   lambda p=blocks, a=a, b=b, y=y, w=work: measure(p, a, b, y, w))  # fmt: skip


def planned(module: Any, plan: RowPlan, moved: int, run: Callable[[], Any]) -> float:
    """The rate of a kernel of rows that is launched as `plan` says."""
    choose = module.plan_rows
    module.plan_rows = lambda *_, **__: plan
    forget_records()
    try:
        return rate(moved, run)
    finally:
        module.plan_rows = choose
        forget_records()


def norm_trials() -> Iterator[Trial]:
    """Layer norm's gradients, and its forward pass, of rows that a program holds."""
    device, count = torch.device("cuda"), 16384
    for columns in (8192, 4096, 1024):
        x, dy = (torch.randn(count, columns, device=device).bfloat16() for _ in range(2))
        w, b = (torch.randn(columns, device=device).bfloat16() for _ in range(2))
        _, mean, rstd = norm.norm_op(x, w, b, 1e-5, True)
        for rows, warps in product((1, 2, 4), (4, 8, 16)):
            if not 8 <= rows * columns // (32 * warps) <= 64:
                continue
            plan = RowPlan(rows, columns, True, columns, warps, count // rows, 1, True)
            yield (f"norm {columns}", f"rows={rows}, warps={warps}",
                   lambda p=plan, a=(x, w, b): planned(
                       norm, p, 2 * a[0].nbytes, lambda: norm.norm_op(*a, 1e-5, True)))
        for rows, warps, waves, stages in product((1, 2, 4, 8), (4, 8, 16), (1, 2), (1, 2, 4)):
            each, held = rows * columns // (32 * warps), waves * (stages - 1) * 4 * rows * columns
            if not 16 <= each <= 32 or held > 208 << 10 or warps * waves < 8:
                continue
            programs = processors(device) * waves
            plan = RowPlan(rows, columns, True, columns, warps, programs, stages, True)
            given = (x, w, dy, mean, rstd, True, True)
            yield (f"norm gradients {columns}",
                   f"rows={rows}, warps={warps}, waves={waves}, stages={stages}",
                   lambda p=plan, a=given: planned(
                       norm, p, 3 * a[0].nbytes, lambda: norm.norm_backward_op(*a)))


def loss_trials() -> Iterator[Trial]:
    """Cross entropy and its gradient, of rows of logits that a program walks over."""
    x = torch.randn(8192, 32768, device="cuda").bfloat16()
    target = torch.randint(0, 32768, (8192,), device="cuda")
    loss, lse = cross_entropy.launch_forward(x, target, -100, 0.0, 0.0)
    dx, given = torch.empty_like(x), (x, target, -100, 0.0, 0.0)
    for step, warps in product((2048, 4096, 8192, 16384), (4, 8, 16)):
        if 8 <= step // (32 * warps) <= 64:
            plan = RowPlan(1, step, False, step, warps, 0, 1, True)
            name = f"step={step}, warps={warps}"
            yield ("losses", name,
                   lambda p=plan: planned(
                       cross_entropy, p, x.nbytes, lambda: cross_entropy.launch_forward(*given)))
            yield ("gradients of losses", name,
                   lambda p=plan: planned(
                       cross_entropy, p, 2 * x.nbytes,
                       lambda: cross_entropy.launch_backward(x, target, lse, loss, dx, *given[2:])))


def paged_trials() -> Iterator[Trial]:
    """Decoding with keys in pages of 16."""
    batch, length = 64, 8192
    table = torch.randperm(batch * length // 16, device="cuda").view(batch, -1).int()
    k, v = (torch.randn(table.numel(), 16, 8, 128, device="cuda").bfloat16() for _ in range(2))
    q = torch.randn(batch, 32, 128, device="cuda").bfloat16()
    lengths = torch.full((batch,), length, dtype=torch.int32, device="cuda")
    count = itertools.count()

    def measure(blocks: tuple[int, int, int, int]) -> float:
        kept = paged.BLOCKS.copy()
        paged.BLOCKS.update(dict.fromkeys(kept, blocks))
        # Calls with one signature repeat what the first of them did, so that scales differ.
        scale = 0.088 + 1e-6 * next(count)
        try:
            moved = k.nbytes + v.nbytes
            return rate(moved, lambda: paged.paged_attention(q, k, v, table, lengths, scale))
        finally:
            paged.BLOCKS.update(kept)

    for blocks in ((64, 4, 4, 32), (64, 2, 4, 32), (64, 4, 3, 32), (128, 4, 3, 32),
                   (128, 8, 3, 32), (64, 4, 4, 16), (64, 4, 4, 8), (64, 4, 4, 4)):  # fmt: skip
        yield ("paged", f"keys, warps, stages, rows = {blocks}", lambda b=blocks: measure(b))


def group_trials() -> Iterator[Trial]:
    """Gradients of group norm: of groups read twice, and held in registers."""

    def tiled(tile: dict[str, Any] | None, measure: Callable[[], float]) -> float:
        """The rate of programs that hold a tile; None: that read a group twice."""
        kept, groups._tile = groups._tile, lambda *_: tile
        forget_records()
        try:
            return measure()
        finally:
            groups._tile = kept
            forget_records()

    for batch in (8, 64):
        x, dy = (torch.randn(batch, 256, 4096, device="cuda").bfloat16() for _ in range(2))
        w, b = (torch.randn(256, device="cuda").bfloat16() for _ in range(2))
        _, mean, rstd = groups.group_norm_op(x, 32, w, b, 1e-5)
        name, moved = f"group norm gradients {batch}", 3 * x.nbytes

        def run(given: tuple[Any, ...] = (x, w, b, dy, mean, rstd)) -> Any:
            return groups.group_norm_backward_op(*given)

        # With more stages fewer programs are under way: their groups stay in the cache.
        for step, warps, stages in ((4096, 4, 4), (4096, 4, 7), (4096, 8, 7), (4096, 8, 13),
                                    (4096, 8, 4), (2048, 4, 13)):  # fmt: skip
            plan = RowPlan(1, step, False, step, warps, 0, stages, True)
            yield (name, f"step={step}, warps={2 * warps}, stages={stages}",
                   lambda p=plan, m=moved, r=run: tiled(None, lambda: planned(groups, p, m, r)))
        for warps in (8, 16, 32):
            whole = {"CHANNELS": 8, "POSITIONS": 4096, "EVEN": True, "num_warps": warps}
            yield (name, f"a group in registers, warps={warps}",
                   lambda t=whole, m=moved, r=run: tiled(t, lambda: rate(m, r)))


PARTS: dict[str, Callable[[], Iterator[Trial]]] = {
    "forward": lambda: attention_trials("forward"), "dk_dv": lambda: attention_trials("dk_dv"),
    "dq": lambda: attention_trials("dq"), "together": lambda: attention_trials("together"),
    "matmul": lambda: matmul_trials(False),
    "thin": lambda: matmul_trials(True), "norms": norm_trials, "losses": loss_trials,
    "paged": paged_trials, "groups": group_trials,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    options = parser.parse_args()
    end = time.monotonic() + options.limit
    found: dict[str, list[tuple[float, str]]] = {}
    lost = ""
    trials = (trial for part in options.only for trial in PARTS[part]())
    for name, candidate, measure in trials:
        if time.monotonic() > end:
            break
        try:
            found.setdefault(name, []).append((measure(), candidate))
        except TritonError as error:
            print(f"{name}: {candidate}: {type(error).__name__}")
        except RuntimeError as error:  # CUDA's errors stay with the process
            lost = f"{name}: {candidate}: {error}"
            break
    for name, entries in found.items():
        entries.sort(reverse=True)
        print(name, *(f"  {speed:7.4g}  {candidate}" for speed, candidate in entries[:5]), sep="\n")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    if lost:
        raise SystemExit(lost)
    if time.monotonic() > end:
        raise SystemExit(3)


if __name__ == "__main__":
    main()
