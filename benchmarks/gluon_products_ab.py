"""Gluon products on one thread block and on clusters of them, beside cuBLAS.

    python benchmarks/gluon_products_ab.py [--out FILE] [--rounds 5] [--limit 340] [--only fp16 ...]
        [--single [REST]]

check        whether results of small products are right, and nothing else; with --early --pick 0,
             1, ... in processes at once this compiles the kernels for what follows
fp16, bf16   square products `a @ b` of 2048, 4096 and 8192
fp8          the same of `a @ b.T`, to bfloat16 (cuBLAS: `torch._scaled_mm`)
turned       `a @ b.T` in fp16
lengths      2048 x 2048 with more and more of K: the time of a step, and of all the rest
moments      when programs of products that begin early do what: ns since the first one began, and
             cycles since they began themselves; cuBLAS's kernels, and how many clusters fit
power        8192 in fp16 for a second without a pause, of random numbers and of zeros: rate, clock
             and power, by `nvidia-smi`

Variants are those of `benchmarks/gluon_clusters.py`: thread blocks of a cluster, stages, order of
tiles (rows together; 0 along Hilbert's curve), parts in which a tile is stored, whether the last
tiles are split among all; "early": those of `benchmarks/gluon_early.py`. Calls wait in the
GPU's queue (`hopper_products_ab.queued`), cuBLAS's and those of all variants in turn; with
`--single` each is alone, after a rest of so many seconds (`hopper_products_ab.single`, the median
of four times as many rounds and one). Results are compared first. Exits with 1 if one is wrong,
with 3 when the time limit is reached.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks import gluon_clusters, gluon_early, gluon_kernels
from benchmarks.common import show_row, write_rows
from benchmarks.hopper_products_ab import CACHE_BYTES, Calls, queued, right, single, singles
from tritium.backends.nvidia.libcuda import library


class Variant(NamedTuple):
    """A form of the product; see above."""

    blocks: int = 2
    stages: int = 4
    group: int = 4
    parts: int = 2
    split: bool = False
    early: bool = False
    buffers: int = 2
    ahead: bool = False
    step: int = 128
    """Bytes of K in a step."""

    def __str__(self) -> str:
        order = f"order of {self.group}" if self.group else "curve"
        more = ", split" if self.split else ", early" if self.early else ""
        more += f", {self.buffers} buffers" if self.early and self.buffers != 2 else ""
        more += " and ahead" if self.ahead else ""
        more += f", steps of {self.step} bytes" if self.step != 128 else ""
        return f"{self.blocks} blocks, {self.stages} stages, {order}, {self.parts} parts{more}"


VARIANTS = [
    Variant(1, group=8), Variant(1, group=8, parts=4), Variant(1, group=8, parts=4, split=True),
    Variant(1, group=16, parts=4, split=True), Variant(group=8), Variant(group=8, parts=4),
    Variant(group=8, parts=4, split=True), Variant(group=4, parts=4, split=True),
    Variant(stages=3, group=8),
]  # fmt: skip
FEW = [
    Variant(1, group=8), Variant(1, group=8, parts=4, split=True), Variant(group=8),
    Variant(group=8, parts=4, split=True),
]  # fmt: skip
EARLY = [
    Variant(1, group=8, parts=4), Variant(2, group=8, parts=4),
    Variant(1, group=8, parts=4, early=True), Variant(1, group=8, early=True, buffers=1),
    Variant(1, stages=3, group=8, parts=1, early=True, buffers=1),
    Variant(1, group=8, parts=1, early=True, buffers=0),
    Variant(2, group=8, early=True, buffers=1),
    Variant(2, stages=3, group=8, parts=1, early=True, buffers=1),
    Variant(1, group=8, early=True, buffers=1, ahead=True),
    Variant(2, group=8, early=True, buffers=1, ahead=True),
    Variant(1, stages=3, group=8, parts=1, early=True, buffers=1, ahead=True),
    Variant(2, stages=3, group=8, parts=1, early=True, buffers=1, ahead=True),
]  # fmt: skip


CLUSTERS: dict[int, int] = {}
"""The clusters of so many blocks that run at once; fewer than processors where these are in groups
that no cluster crosses."""


def most_clusters(kernel: Any) -> int:
    """The clusters of a kernel that run at once."""
    driver, metadata = library(), kernel.metadata
    attribute, config = driver.CUlaunchAttribute(), driver.CUlaunchConfig()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dims = attribute.value.clusterDim
    dims.x, dims.y, dims.z = metadata.num_ctas, 1, 1
    config.gridDimX, config.gridDimY, config.gridDimZ = metadata.num_ctas, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32 * metadata.num_warps, 1, 1
    config.sharedMemBytes = metadata.shared
    config.attrs, config.numAttrs = [attribute], 1
    status, count = driver.cuOccupancyMaxActiveClusters(
        driver.CUfunction(int(kernel.function)), config
    )
    if int(status):
        raise RuntimeError(f"cuOccupancyMaxActiveClusters: {status}")
    return count


def programs(blocks: int, tiles: int) -> int:
    """The clusters that run at once, at most; no more than there are tiles."""
    return min(fitting(blocks), tiles)


def fitting(blocks: int) -> int:
    """The clusters of so many blocks that run at once."""
    if not CLUSTERS:
        CLUSTERS[1] = torch.cuda.get_device_properties(0).multi_processor_count
    if blocks not in CLUSTERS:
        spare = torch.zeros(512, 256, device="cuda", dtype=torch.float16)
        made, constants = gluon_clusters.arguments(spare, spare[:256], spare, blocks, 4)
        kernel = gluon_clusters.matmul[(1,)](
            *made, STAGES=4, GROUP=4, num_warps=4, maxnreg=168, **constants
        )
        CLUSTERS[blocks] = most_clusters(kernel)
    return CLUSTERS[blocks]


def fits(m: int, n: int, v: Variant) -> bool:
    """True if a variant can compute a product of this size."""
    tiles = -(-m // (128 * v.blocks)) * -(-n // 256)
    alone = tiles <= programs(v.blocks, tiles)
    return not alone if v.split else alone or v.buffers > 0


def variant(
    a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, v: Variant, turned: bool = False,
    times: Any = None,
) -> Callable[[], Any]:  # fmt: skip
    """A call of a variant: y = a @ b, or `turned` a @ b.T."""
    tiles = -(-y.shape[0] // (128 * v.blocks)) * -(-y.shape[1] // 256)
    grid = (programs(v.blocks, tiles),)
    if v.early:
        tile = (256, v.step // a.dtype.itemsize)
        made, constants = gluon_early.arguments(
            a, b, y, v.blocks, v.parts, tile, turned, v.buffers, times, v.ahead
        )
        return launched(gluon_early, grid, v, made, constants)
    sums = told = None
    if v.split:
        count = torch.cuda.get_device_properties(0).multi_processor_count
        sums = torch.empty(count * 128 * 256, device="cuda")
        told = torch.zeros(2 * count, dtype=torch.int32, device="cuda")
    made, constants = gluon_clusters.arguments(
        a, b, y, v.blocks, v.parts, turned=turned, sums=sums, told=told
    )
    return launched(gluon_clusters, grid, v, made, constants)


def launched(
    module: Any, grid: tuple[int], v: Variant, made: list[Any], constants: dict[str, Any]
) -> Callable[[], Any]:
    """A call of a module's kernel."""
    return partial(
        module.matmul[grid], *made, STAGES=v.stages, GROUP=v.group, num_warps=4, maxnreg=168,
        **constants,
    )  # fmt: skip


def before(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> Callable[[], Any]:
    """A call of the kernel of `gluon_gpu.py`."""
    made = [gluon_kernels.described(x, s)
            for x, s in ((a, [128, 64]), (b, [64, 256]), (y, [64, 128]))]  # fmt: skip
    kernel = gluon_kernels.matmul[(programs(1, 1 << 30),)]
    return partial(kernel, *made, STAGES=4, GROUP=8, num_warps=4, maxnreg=168)


def product(
    m: int, n: int, k: int, dtype: torch.dtype, variants: list[Variant]
) -> tuple[Calls, torch.Tensor, torch.Tensor, float]:
    """(the calls, their output, what is right, floating point operations)."""
    a, b = (torch.randn(s, device="cuda").to(dtype) for s in ((m, k), (k, n)))
    y = torch.empty(m, n, device="cuda", dtype=dtype)
    calls: Calls = {"cublas": partial(torch.matmul, a, b, out=y)}
    if dtype is torch.float16:
        calls["before"] = before(a, b, y)
    calls |= {str(v): variant(a, b, y, v) for v in variants if fits(m, n, v)}
    return calls, y, a.double() @ b.double(), 2.0 * m * n * k


def turned(
    size: int, dtype: torch.dtype, variants: list[Variant]
) -> tuple[Calls, torch.Tensor, torch.Tensor, float]:
    """The same of `a @ b.T`, both square."""
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    kind = dtype if dtype.itemsize == 2 else torch.bfloat16
    y = torch.empty(size, size, device="cuda", dtype=kind)
    one = torch.ones((), device="cuda")
    theirs: Callable[[], Any] = partial(torch.matmul, a, b.T, out=y)
    if dtype.itemsize == 1:
        theirs = partial(torch._scaled_mm, a, b.T, scale_a=one, scale_b=one, out_dtype=kind,
                         use_fast_accum=True, out=y)  # fmt: skip
    calls: Calls = {"cublas": theirs}
    calls |= {str(v): variant(a, b, y, v, True) for v in variants if fits(size, size, v)}
    return calls, y, a.double() @ b.double().T, 2.0 * size**3


def cases(only: list[str], early: list[Variant]) -> Iterator[tuple[str, Any]]:
    """The products, which are made one after the other; `early`: by these variants alone."""
    most, few = early or VARIANTS, early or FEW
    if "check" in only:
        for m, n, k in ((1024, 1024, 512), (1000, 1112, 1336), (4000, 4104, 328)):
            square = [v for v in most if v.group or m == n]
            yield f"check {m}x{n}x{k}", partial(product, m, n, k, torch.float16, square)
        yield "check fp8", partial(turned, 2048, torch.float8_e4m3fn, few)
        yield "check bf16", partial(product, 1024, 1024, 512, torch.bfloat16, few)
    if "fp16" in only:
        for size in (8192, 4096, 2048):
            yield f"fp16 {size}", partial(product, size, size, size, torch.float16, most)
    if "power" in only:
        yield "power", partial(product, 8192, 8192, 8192, torch.float16, few)
    if "fp8" in only:
        for size in (8192, 4096, 2048):
            yield f"fp8 {size}", partial(turned, size, torch.float8_e4m3fn, few)
    if "turned" in only:
        for size in (8192, 4096, 2048):
            yield f"fp16 {size} turned", partial(turned, size, torch.float16, few)
    if "lengths" in only:
        for k in (64, 512, 1024, 2048, 4096):
            yield f"fp16 2048x2048x{k}", partial(product, 2048, 2048, k, torch.float16, few)
    if "bf16" in only:
        for size in (8192, 4096, 2048):
            yield f"bf16 {size}", partial(product, size, size, size, torch.bfloat16, few)
    if "moments" in only:
        for size in (2048, 4096):
            yield f"moments {size}", partial(moments, size, early or EARLY)


def powers(calls: dict[str, Any], flops: float) -> Iterator[dict[str, Any]]:
    """The rows of `power`."""
    for numbers in ("random", "zeros"):
        for name, call in calls.items():
            if numbers == "zeros":
                for argument in call.args[:2]:
                    getattr(argument, "base", argument).zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(700):
                call()
            end.record()
            query = ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm,power.draw.instant",
                     "--format=csv,noheader"]  # fmt: skip
            time.sleep(0.4)
            told = subprocess.run(query, capture_output=True, text=True, check=False).stdout
            still = not end.query()
            torch.cuda.synchronize()
            rate = flops * 700 / begin.elapsed_time(end) / 1e9
            yield {"case": f"power, {numbers}", "by": name, "rate": round(rate, 1),
                   "clock, power": told.strip(), "meanwhile": still}  # fmt: skip


MOMENTS = "begins", "copies", "first step", "last sum", "stored", "ends"


def moments(size: int, variants: list[Variant]) -> list[dict[str, Any]]:
    """When the programs of early products in fp16 do what: medians over programs and calls; what
    calls take as a whole; cuBLAS's kernels."""
    a, b, y = (torch.randn(size, size, device="cuda").half() for _ in range(3))
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    rows: list[dict[str, Any]] = []
    for v in (v for v in variants if v.early and fits(size, size, v)):
        tiles = -(-size // (128 * v.blocks)) * -(-size // 256)
        times = torch.zeros(programs(v.blocks, tiles), 8, 2, dtype=torch.int64, device="cuda")
        call, took, found = variant(a, b, y, v, times=times), list[float](), list[torch.Tensor]()
        call()
        for _ in range(11):
            if (ms := single(call, cache)) is not None:
                took.append(ms)
                found.append(times[:, : len(MOMENTS)].clone())
        every = torch.stack(found)
        since = (every[..., 0] - every[:, :, :1, 0].amin(1, keepdim=True)).double()
        cycles = (every[..., 1] - every[:, :, :1, 1]).double()
        for name, values in {"ns": since, "last ns": since.amax(1), "cycles": cycles}.items():
            medians = values.reshape(-1, len(MOMENTS)).median(0).values.tolist()
            rows.append({
                "case": f"moments {size}", "by": str(v), "what": name,
                **dict(zip(MOMENTS, map(round, medians), strict=True)),
                "whole us": round(median(took) * 1e3, 1),
            })  # fmt: skip
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.matmul(a, b, out=y)
    names = [event.key for event in profile.key_averages()]
    return [*rows, {"case": f"moments {size}", "by": "cublas", "what": names, "fit": CLUSTERS}]


def measure(case: str, make: Any, rounds: int, rest: float | None) -> list[dict[str, Any]]:
    """The rows of a product."""
    if case.startswith("moments"):
        return make()
    calls, y, want, flops = make()
    kept, failed = right(calls, y, want)
    rows: list[dict[str, Any]] = [{"case": case, "by": n, "failed": w} for n, w in failed.items()]
    if case == "power":
        return [*rows, *powers(kept, flops)]
    if case.startswith("check"):
        return [*rows, *({"case": case, "by": name, "right": True} for name in kept)]
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    took: dict[str, list[float]] = {name: [] for name in kept}
    if rest is not None:
        took = singles(kept, cache, rest, 4 * rounds + 1)
    for _ in range(rounds if rest is None else 0):
        for name, call in kept.items():
            took[name].append(queued(call, cache))
    theirs = took["cublas"]
    for name, times in took.items():
        ms, ratios = median(times), [t / own for t, own in zip(theirs, times, strict=False)]
        rows.append({
            "case": case, "by": name, "us": round(ms * 1e3, 1), "rate": round(flops / ms / 1e9, 1),
            "to cublas": round(median(ratios), 3), "least": round(min(ratios), 3),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=340.0, help="seconds")
    parser.add_argument("--single", type=float, nargs="?", const=0.0, metavar="REST")
    parser.add_argument("--early", action="store_true", help="by the variants of EARLY alone")
    parser.add_argument("--pick", type=int, nargs="+", default=[*range(len(EARLY))],
                        help="numbers of the variants of EARLY")  # fmt: skip
    kinds = ["fp16", "power", "fp8", "lengths", "turned", "bf16"]
    parser.add_argument("--only", nargs="+", choices=["check", "moments", *kinds], default=kinds)
    options = parser.parse_args()
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    rows: list[dict[str, Any]] = []
    early = [EARLY[i] for i in options.pick] if options.early else []
    for case, make in cases(options.only, early):
        torch.manual_seed(0)
        for row in measure(case, make, options.rounds, options.single):
            rows.append(row)
            show_row(row)
        torch.cuda.empty_cache()
        write_rows(options.out, "gluon_products_ab.py", rows)
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
