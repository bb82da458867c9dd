"""Matrix products and attention as kernels, beside torch (oneDNN, MKL) and NumPy (OpenBLAS).

    python -m benchmarks.cpu_products [--only bf16 attention] [--sizes 512 1024] [--threads 1 2]
        [--tiles 64x64x64 64x64x64x16] [--limit avx2] [--out benchmarks/results/cpu_products.json]

The product is that of tutorial 03: grouped order (8 programs along M in a group, or a tile's fourth
number), rows and columns modulo the sizes, a mask along K; "masked" has masks along rows and
columns instead. All libraries run in one process, interleaved, one process for each number of
threads; the table shows medians, and after the stroke the ratio of the least times.
With `--limit avx2` Tritium and all others are held to what a processor with AVX2 and FMA has, and
the record says so. On one thread the time is the processor's, which other programs disturb little,
else the clock's.
"""

# Parameters of kernels are untyped: they are whatever the kernel is launched with.
# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.common import Result, run_child, write_json
from tritium import language as tl
from tritium.cli.timing import interleave
from tritium.runtime import driver
from tritium.runtime.jit import jit

Run = Callable[[], object]
TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8}
TILES = ("64x64x64", "128x128x64", "64x128x256")
GROUP = 8
HEADS, LENGTH, DEPTH = 8, 1024, 64
KINDS = (*TYPES, "thin", "attention")
LIMITS = {
    "avx2": {
        "TRITON_OVERRIDE_ARCH": "haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}
"""Environments that limit each library to some instructions."""


@jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP * across
    first = program // in_group * GROUP
    height = min(down - first, GROUP)
    pid_m = first + (program % in_group) % height
    pid_n = (program % in_group) // height
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if MASKED:
        of_a, of_b = rows[:, None] < M, columns[None, :] < N
    else:
        rows, columns = rows % M, columns % N
        of_a = of_b = tl.full((1, 1), 1, tl.int1)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :]
    kind: tl.constexpr = tl.int32 if a_ptr.dtype.element_ty == tl.int8 else tl.float32
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=kind)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=of_a & (depth[None, :] < K - k * BLOCK_K), other=0)
        b = tl.load(b_ptrs, mask=of_b & (depth[:, None] < K - k * BLOCK_K), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=kind)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    places = c_ptr + stride_cm * rows[:, None] + columns[None, :]
    tl.store(places, acc.to(c_ptr.dtype.element_ty), mask=mask)


@jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, length, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    start_of_head = tl.program_id(1) * length * D
    queries, within = first + tl.arange(0, BLOCK_M), tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + start_of_head + queries[:, None] * D + within)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    end = first + BLOCK_M if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        places = start_of_head + keys[:, None] * D + within
        scores = tl.dot(q, tl.load(k_ptr + places).T, input_precision="ieee") * scale
        if CAUSAL:
            scores = tl.where(queries[:, None] >= keys[None, :], scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + places)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        largest = new_largest
    out = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + start_of_head + queries[:, None] * D + within, out)


def _random(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, generator=generator)
    return torch.randn(shape, generator=generator).to(dtype)


def product(
    kind: str, shape: tuple[int, int, int], tile: str, masked: bool = False
) -> tuple[Result, dict[str, Run]]:
    """C (M, N) = A (M, K) @ B (K, N), `shape` being (M, N, K)."""
    m, n, k = shape
    dtype = TYPES[kind]
    a, b = _random((m, k), dtype, 0), _random((k, n), dtype, 1)
    result = torch.int32 if kind == "int8" else dtype
    ours, theirs = (torch.empty(m, n, dtype=result) for _ in range(2))
    bm, bn, bk, *given = map(int, tile.split("x"))
    group = given[0] if given else GROUP
    grid = (-(-m // bm) * -(-n // bn),)
    meta = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP": group, "MASKED": masked}

    def tritium() -> None:
        matmul_kernel[grid](a, b, ours, m, n, k, k, n, n, **meta)

    runs: dict[str, Run] = {"tritium": tritium}
    if kind == "int8":
        runs["torch"] = lambda: torch._int_mm(a, b, out=theirs)
    else:
        runs["torch"] = lambda: torch.mm(a, b, out=theirs)
    if kind == "fp32":
        x, y, z = a.numpy(), b.numpy(), theirs.numpy()
        runs["numpy"] = lambda: x.__matmul__(y) if m == 1 else x.dot(y, out=z)
    tritium()
    error = (ours.double() - a.double() @ b.double()).abs().max().item()
    size = f"{m}" if m == n == k else f"{m}x{n}x{k}"
    name = f"{kind} {tile}{' masked' if masked else ''}"
    return Result(name, size, 0, 2.0 * m * n * k, "GFLOP/s", error), runs


def attention(kind: str, causal: bool) -> tuple[Result, dict[str, Run]]:
    """Forward, one batch."""
    shape, dtype = (1, HEADS, LENGTH, DEPTH), TYPES[kind]
    q, k, v = (_random(shape, dtype, seed) for seed in range(3))
    ours = torch.empty_like(q)
    block_m, block_n = 128, 64
    scale = DEPTH**-0.5
    grid = (LENGTH // block_m, HEADS)
    meta = {"D": DEPTH, "BLOCK_M": block_m, "BLOCK_N": block_n, "CAUSAL": causal}

    def tritium() -> None:
        attention_kernel[grid](q, k, v, ours, scale * 1.4426950408889634, LENGTH, **meta)

    def sdpa(*parts: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal)

    tritium()
    error = (ours.double() - sdpa(q.double(), k.double(), v.double())).abs().max().item()
    work = 4.0 * HEADS * LENGTH * LENGTH * DEPTH * (0.5 if causal else 1)
    name = f"attention {kind}{' causal' if causal else ''}"
    size = f"{HEADS}x{LENGTH}x{DEPTH}"
    return Result(name, size, 0, work, "GFLOP/s", error), {
        "tritium": tritium, "torch": lambda: sdpa(q, k, v)
    }  # fmt: skip


def cases(
    names: list[str], sizes: list[int], tiles: list[str]
) -> Iterator[tuple[Result, dict[str, Run]]]:
    """Each problem with who solves it."""
    for kind in (name for name in names if name in TYPES):
        for size in sizes:
            for tile in tiles:
                yield product(kind, (size, size, size), tile)
    if "thin" in names:
        for kind in ("fp32", "bf16"):
            yield product(kind, (1, 4096, 4096), "1x128x128")
            yield product(kind, (1, 4096, 4096), "1x4096x8")
            yield product(kind, (16, 4096, 4096), "16x128x128")
            yield product(kind, (1, 4096, 4096), "16x128x128", masked=True)
    if "attention" in names:
        for kind in ("fp32", "bf16"):
            yield attention(kind, False)
            yield attention(kind, True)


def measure(arguments: argparse.Namespace, threads: int) -> list[Result]:
    """In this process, whose libraries were told the number of threads when it started."""
    torch.set_num_threads(threads)
    driver.set_active_to_cpu()
    results: list[Result] = []
    for result, runs in cases(arguments.only, arguments.sizes, arguments.tiles):
        result.threads = threads
        result.samples = {name: [] for name in runs}
        for sample in _samples(runs, threads, arguments.rounds):
            for name, seconds in sample.items():
                result.samples[name].append(seconds)
        results.append(result)
        print(line(result), file=sys.stderr, flush=True)
    return results


def _samples(
    runs: dict[str, Run], threads: int, rounds: int
) -> Iterator[dict[str, float]]:
    """For each round, seconds for a run of each."""
    if threads > 1:
        yield from interleave(runs, rounds=rounds, sample_seconds=0.02, rest=0.2)
        return
    for run in runs.values():
        run()
    for _ in range(rounds):
        sample: dict[str, float] = {}
        for name, run in runs.items():
            start = time.process_time()
            run()
            sample[name] = time.process_time() - start
        yield sample


def line(result: Result) -> str:
    """A line of the table: rates, and how many times as fast as the others."""
    least = min(result.samples["tritium"])
    text = f"{result.name:24}{result.size:14}{result.threads:2}{result.rate('tritium'):9.1f}"
    for rival in ("torch", "numpy"):
        ratio = result.ratio(rival)
        if ratio is not None:
            text += f"  {rival} {ratio:.2f} | {min(result.samples[rival]) / least:.2f}"
    return f"{text}  error {result.error:.1e}"


def _tile(text: str) -> str:
    numbers = text.split("x")
    if len(numbers) not in (3, 4) or not all(n.isdecimal() and int(n) > 0 for n in numbers):
        raise argparse.ArgumentTypeError(f"tile {text!r}; MxNxK or MxNxKxGROUP, as 64x64x64x16")
    return text


def main() -> None:
    """Print the table; write the samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--tiles", nargs="+", type=_tile, default=list(TILES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9, help="samples of each library")
    parser.add_argument("--limit", choices=LIMITS, help="instructions that all are limited to")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps([asdict(r) for r in measure(arguments, arguments.child)]))
        return
    results: list[Result] = []
    limits = LIMITS.get(arguments.limit, {})
    for threads in arguments.threads:
        options = [
            "--child", str(threads), "--rounds", str(arguments.rounds), "--only", *arguments.only,
            "--sizes", *map(str, arguments.sizes), "--tiles", *arguments.tiles,
        ]  # fmt: skip
        child = run_child("benchmarks.cpu_products", options, threads=threads, **limits)
        results += [Result(**entry) for entry in child]
        print("\n".join(line(r) for r in results if r.threads == threads), flush=True)
    if arguments.out:
        write_json(arguments.out, results, limit=arguments.limit, environment=limits)


if __name__ == "__main__":
    main()
