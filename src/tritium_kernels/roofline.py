"""Measured rates against what the machine can do: bytes a second, operations a second."""

from __future__ import annotations

import csv
import math
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import torch

import tritium
from tritium.profiler import viewer
from tritium_kernels.errors import refuse


@dataclass(frozen=True)
class PerfRecord:
    """Work of a run: nanoseconds, operations, and bytes that had to be moved."""

    time_ns: float
    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.flops / self.bytes

    @property
    def tflops(self) -> float:
        return self.flops / self.time_ns / 1e3

    @property
    def tbps(self) -> float:
        """Terabytes a second."""
        return self.bytes / self.time_ns / 1e3


def _seconds(call: Callable[[], Any], device: str | torch.device) -> float:
    if torch.device(device).type == "cuda":
        milliseconds: Any = tritium.testing.do_bench(call, return_mode="median")
        return milliseconds / 1e3
    samples: list[float] = []
    for _ in range(7):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 2]


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def get_memset_tbps(device: str | None = None, size: int = 1 << 30) -> float:
    """Terabytes a second that are written when `size` bytes are set."""
    device = device or _device()
    memory = torch.empty(size, dtype=torch.uint8, device=device)
    return size / _seconds(memory.zero_, device) / 1e12


def get_blas_tflops(
    dtype: torch.dtype, workspace_size: int = 32 * 1024 * 1024, device: str | None = None,
    size: int = 8192,
) -> float:  # fmt: skip
    """10**12 operations a second of torch's product of two `size` x `size` matrices.

    Types of 8 bits are multiplied by `torch._scaled_mm`. `workspace_size`: bytes of memory that
    cuBLAS may use besides.
    """
    device = device or _device()
    with _workspace(workspace_size if torch.device(device).type == "cuda" else None):
        return _blas_tflops(dtype, device, size)


@contextmanager
def _workspace(size: int | None) -> Generator[None]:
    """Give cuBLAS so much memory, in kibibytes of one block, where it has none yet."""
    name = "CUBLAS_WORKSPACE_CONFIG"
    before = os.environ.get(name)
    if size is not None and before is None:
        os.environ[name] = f":{size // 1024}:1"
    try:
        yield
    finally:
        if size is not None and before is None:
            del os.environ[name]


def _blas_tflops(dtype: torch.dtype, device: str, size: int) -> float:
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    if dtype.itemsize == 1:
        one = torch.ones((), device=device)

        def product() -> Any:
            return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)  # pyright: ignore
    else:

        def product() -> Any:
            return a @ b

    return 2 * size**3 / _seconds(product, device) / 1e12


def parse_profile(profile_path: str | Path, useful_op_regex: str) -> PerfRecord:
    """Work of the scopes and kernels of a profile (`tritium.profiler`, *.hatchet) whose whole name
    matches; operations and bytes are those that launches described."""
    tree, *_ = viewer.read(str(profile_path))
    useful = re.compile(useful_op_regex)
    time_ns = flops = moved = 0.0
    pending = [tree]
    while pending:
        node = pending.pop()
        if useful.fullmatch(node.name):
            time_ns += _total(node, "time (ns)")
            flops += sum(_total(node, f"flops{bits}") for bits in ("", 8, 16, 32, 64))
            moved += _total(node, "bytes")
        else:
            pending += node.children.values()
    return PerfRecord(time_ns, flops, moved)


def _total(node: Any, metric: str) -> float:
    value: float = node.total(metric)
    return 0.0 if math.isnan(value) else value


def write_csv(xs: Sequence[float], perfs: Sequence[PerfRecord], fpath: str | Path) -> None:
    """A line for each x: x, nanoseconds, operations, bytes."""
    if len(xs) != len(perfs):
        raise refuse("write_csv", "perfs", f"has {len(perfs)} records", f"{len(xs)}, as xs")
    with Path(fpath).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["x", *(field.name for field in fields(PerfRecord))])
        lines.writerows([x, *astuple(perf)] for x, perf in zip(xs, perfs, strict=True))


def load_perf_csv(path: str | Path) -> tuple[list[float], list[PerfRecord]]:
    """Read the file of `write_csv`."""
    with Path(path).open(newline="") as file:
        header, *lines = csv.reader(file)
    if header != ["x", *(field.name for field in fields(PerfRecord))]:
        raise refuse("load_perf_csv", "path", f"begins {header}", "a file of write_csv")
    numbers = [[float(word) for word in line] for line in lines]
    return [line[0] for line in numbers], [PerfRecord(*line[1:]) for line in numbers]


def validate_perfs(perfs: Sequence[PerfRecord]) -> None:
    """Every record has a time, and did something."""
    for number, perf in enumerate(perfs):
        if not (perf.time_ns > 0 and perf.flops >= 0 and perf.bytes > 0):
            found = f"has {perf} at {number}"
            raise refuse("validate_perfs", "perfs", found, "positive times and bytes")


def compute_roofline(
    *args: Any, bench_fn: Callable[..., PerfRecord], intensity_proxy_name: str,
    intensity_proxy_values: Sequence[Any], out_path: str | Path, verbose: bool = False,
    **kwargs: Any,
) -> Path:  # fmt: skip
    """Run `bench_fn` for each value of the argument that intensity follows; write the records."""
    perfs: list[PerfRecord] = []
    for value in intensity_proxy_values:
        perf = bench_fn(*args, **{intensity_proxy_name: value}, **kwargs)
        perfs.append(perf)
        if verbose:
            rates = f"{perf.tflops:.3g} TFLOP/s, {perf.tbps:.3g} TB/s"
            print(f"{intensity_proxy_name} = {value}: {rates}")
    validate_perfs(perfs)
    write_csv(list(intensity_proxy_values), perfs, out_path)
    return Path(out_path)


def efficiency(perf: PerfRecord, max_tflops: float, max_tbps: float) -> float:
    """The share of the least time that the machine could take."""
    least = max(perf.flops / max_tflops, perf.bytes / max_tbps) / 1e3
    return least / perf.time_ns


def plot_roofline(
    series: Sequence[str | Path], flops_dtype: torch.dtype, out_path: str | Path,
    max_tbps: float | str = "memset", max_tflops: float | str = "cublas", title: str = "",
    xlabel: str = "", labels: Sequence[str] | None = None,
    points_of_interest: Sequence[float] | None = None,
) -> None:  # fmt: skip
    """Draw files of `compute_roofline`, and what the machine can do at the first one's intensities.

    `points_of_interest`: x of points of which the rates are written down. `max_tbps`, `max_tflops`:
    numbers, or "memset" and "cublas": measured.
    """
    from matplotlib import pyplot

    tbps = get_memset_tbps() if isinstance(max_tbps, str) else max_tbps
    tflops = get_blas_tflops(flops_dtype) if isinstance(max_tflops, str) else max_tflops
    names = [Path(path).stem for path in series] if labels is None else labels
    figure, axes = pyplot.subplots()
    for number, (path, name) in enumerate(zip(series, names, strict=True)):
        xs, perfs = load_perf_csv(path)
        if number == 0:
            roof = [min(tflops, tbps * perf.intensity) for perf in perfs]
            axes.plot(xs, roof, "k--", label=f"{tflops:.0f} TFLOP/s, {tbps:.2f} TB/s")
        axes.plot(xs, [perf.tflops for perf in perfs], marker="o", label=name)
        for x, perf in zip(xs, perfs, strict=True):
            if x in (points_of_interest or ()):
                axes.annotate(f"{perf.tflops:.3g} TFLOP/s", (x, perf.tflops))
    axes.set(xscale="log", yscale="log", title=title, xlabel=xlabel, ylabel="TFLOP/s")
    axes.legend()
    figure.savefig(out_path)
    pyplot.close(figure)
