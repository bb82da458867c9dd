"""Each kind of op against NumPy and torch on one thread: reductions, scans, sorting, gathers,
histograms, transpositions, casts, atomics.

    python -m benchmarks.ops_cpu [--only sum sort] [--out benchmarks/results/ops_cpu.json]

All libraries work on the same arrays in one process, interleaved, all of which begin at lines of
the caches; results are compared before. The ratio is that of the better of NumPy and torch to ours:
above 1 we are faster; of medians, and of the least times. The time is the processor's, which other
programs lengthen only by the caches and the memory that they use.

Atomic operations compare with `ufunc.at` and `scatter_reduce_` on the same indices. Those are not
atomic: no other thread may take part, which is what `scope="cta"` promises; these rows, called "one
program", compare like with like. The others do without locked instructions (2.4 ns each on a
Zen 4) only because nothing else runs in this process. "consecutive, one program" has ordinary sums
as rivals.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import THREAD_VARIABLES, machine

for _variable in THREAD_VARIABLES:  # before the libraries look
    os.environ[_variable] = "1"

import ml_dtypes
import numpy as np

import tritium.language as tl
from benchmarks import ops_kernels as kernels
from tritium.cli.demo_cases import load_torch
from tritium.cli.timing import compare
from tritium.runtime import driver

Run = Callable[[], Any]
torch: Any = load_torch()

ELEMENTS = 1 << 20
"""Of the inputs: 4 MiB of float32, which stays in the caches."""
FP8 = {
    "fp8e5": ml_dtypes.float8_e5m2, "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz, "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
TORCH_FP8 = {
    "fp8e5": "float8_e5m2", "fp8e4nv": "float8_e4m3fn", "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}  # fmt: skip
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64,
        "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
        "uint8": np.uint8, **FP8,
    }.items()
}  # fmt: skip


@dataclass
class Case:
    """One op on one problem.

    Attributes:
        launch: runs our kernel once.
        outs: our output arrays, and what they must hold after a launch.
        rivals: the same work by other libraries, by name.
        bytes: read and written by one run at least.
        reset: brings the outputs into the state before a launch, where they are also inputs.
    """

    group: str
    name: str
    launch: Run
    outs: list[tuple[np.ndarray[Any, Any], Callable[[], Any]]]
    rivals: dict[str, Run]
    bytes: int
    tolerance: float = 0.0
    reset: Run | None = None


@dataclass
class Row:
    """Measurements of a case, seconds."""

    group: str
    name: str
    tritium: float
    rivals: dict[str, float] = field(default_factory=dict[str, float])
    gb_per_s: float = 0.0
    least: dict[str, float] = field(default_factory=dict[str, float])
    """The least time of each library: on a machine with other work, what was least disturbed."""

    @property
    def least_ratio(self) -> float:
        """As `ratio`, of the least times."""
        return min(v for k, v in self.least.items() if k != "tritium") / self.least["tritium"]

    @property
    def ratio(self) -> float:
        """The better rival's time to ours."""
        return min(self.rivals.values()) / self.tritium


def check(case: Case) -> None:
    """Raises RuntimeError where a result is wrong."""
    if case.reset is not None:
        case.reset()
    case.launch()
    for out, expected in case.outs:
        got, want = (a.astype(np.float64) for a in (out, np.asarray(expected())))
        want = want.reshape(got.shape)
        error = np.abs(got - want) / np.maximum(1, np.abs(want))
        if not (error <= case.tolerance).all():
            at = int(np.argmax(~(error <= case.tolerance)))
            raise RuntimeError(f"{case.name} is wrong: at {at} {got.flat[at]}, not {want.flat[at]}")


def measure(case: Case, rounds: int) -> Row:
    check(case)
    runs = {"tritium": case.launch, **case.rivals}
    timings = compare(runs, rounds=rounds, sample_seconds=0.004, clock=time.process_time)
    least = {name: min(timing.samples) for name, timing in timings.items()}
    medians = {name: timing.median for name, timing in timings.items()}
    ours = medians.pop("tritium")
    return Row(case.group, case.name, ours, medians, case.bytes / ours / 1e9, least)


def as_torch(array: np.ndarray[Any, Any]) -> Any:
    """The array's memory as a tensor."""
    name = array.dtype.name
    if name in ("bfloat16",) or name.startswith("float8"):
        whole = torch.from_numpy(array.view(f"i{array.dtype.itemsize}"))
        return whole.view(getattr(torch, name))
    return torch.from_numpy(array)


def zeros(shape: int | tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Zeros that begin at a line of the caches, as tensors do: NumPy's arrays begin at any multiple
    of 16 bytes, and who writes past the ends of lines takes a fifth longer."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


def zeros_like(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return zeros(array.shape, array.dtype)


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins at a line of the caches."""
    copy = zeros_like(array)
    copy[...] = array
    return copy


def numbers(dtype: str, size: int = ELEMENTS, seed: int = 0) -> np.ndarray[Any, Any]:
    """Normal floats, or integers from all of the type's range (of 31 bits at most)."""
    rng, kind = np.random.default_rng(seed), DTYPES[dtype]
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(kind)
        low, high = max(info.min, -(2**30)), min(info.max, 2**30)
        return aligned(rng.integers(low, high, size).astype(kind))
    return aligned(rng.standard_normal(size).astype(np.float32).astype(kind))


def rivals(numpy: Run | None = None, **of_torch: Run | None) -> dict[str, Run]:
    """Those that are given and installed."""
    found: dict[str, Run] = {} if numpy is None else {"numpy": numpy}
    run = of_torch.get("torch")
    return found if torch is None or run is None else {**found, "torch": run}


def reductions() -> Iterator[Case]:
    plain = {
        "sum": (tl.sum, np.add.reduce, "sum"), "max": (tl.max, np.max, "amax"),
        "min": (tl.min, np.min, "amin"), "argmax": (tl.argmax, np.argmax, "argmax"),
        "argmin": (tl.argmin, np.argmin, "argmin"), "xor": (tl.xor_sum, np.bitwise_xor.reduce, ""),
    }  # fmt: skip
    for name, (op, in_numpy, in_torch) in plain.items():
        kinds = ("int32",) if name == "xor" else ("fp32", "int32", "fp16", "int8")
        for dtype in kinds if name in ("sum", "max") else kinds[:2]:
            x = numbers(dtype)
            for shape, axis in (((1024,), 0), ((16384,), 0), ((64, 64), 0), ((64, 64), 1)):
                whole = x.reshape(-1, *shape)
                wide = None
                if name == "sum":
                    wide = np.dtype("int32" if dtype.startswith("int") else x.dtype)
                elif name in ("max", "min"):
                    wide = x.dtype
                elif name.startswith("arg"):
                    wide = np.dtype("int32")
                extra = {"dtype": wide} if name == "sum" else {}
                by_numpy = partial(in_numpy, whole, axis=axis + 1, **extra)
                expected = by_numpy
                tolerance = 0.0
                if name == "sum" and not dtype.startswith("int"):
                    expected = partial(in_numpy, whole.astype(np.float64), axis=axis + 1)
                    tolerance = 1e-3 if dtype == "fp32" else 0.3
                by_torch = None
                if in_torch and torch is not None:
                    more = {"dtype": torch.int32} if name == "sum" and dtype[0] == "i" else {}
                    by_torch = partial(getattr(torch, in_torch), as_torch(whole), axis + 1, **more)
                count = ELEMENTS // int(np.prod(shape))
                out = zeros(ELEMENTS // shape[axis], wide or x.dtype)
                if len(shape) == 1:
                    launch = partial(kernels.rows[(count,)], x, out, op, shape[0])
                else:
                    launch = partial(kernels.tiles[(count,)], x, out, op, axis, *shape)
                title = f"{name} {dtype} {'×'.join(map(str, shape))}"
                title += f" axis {axis}" if len(shape) > 1 else ""
                yield Case(
                    "reduction", title, launch, [(out, expected)],
                    rivals(by_numpy, torch=by_torch), x.nbytes + out.nbytes, tolerance,
                )  # fmt: skip


def scans() -> Iterator[Case]:
    def lfilter(x: Any, axis: int) -> Any:
        from scipy.signal import lfilter

        return lfilter(np.float32([1]), np.float32([1, -0.5]), x, axis)

    def torch_or_none(name: str, x: Any, axis: int) -> Run | None:
        return None if torch is None else partial(getattr(torch, name), as_torch(x), axis)

    for name, op, dtype, in_numpy, in_torch in (
        ("cumsum", tl.cumsum, "fp32", np.cumsum, "cumsum"),
        ("cumsum", tl.cumsum, "int32", partial(np.cumsum, dtype=np.int32), "cumsum"),
        ("cumprod", tl.cumprod, "fp32", np.cumprod, "cumprod"),
        ("scan by max", kernels.running_max, "fp32", np.maximum.accumulate, ""),
        ("scan of max and index", kernels.running_max_index, "fp32", None, "cummax"),
        ("linear recurrence", kernels.decayed_sum, "fp32", lfilter, ""),
    ):
        x = numbers(dtype)
        if name == "cumprod":
            x = aligned((1 + 0.01 * x).astype(np.float32))
        for shape, axis in (((1024,), 0), ((64, 64), 0), ((64, 64), 1)):
            if name == "scan of max and index" and len(shape) > 1 and axis == 0:
                continue
            whole = x.reshape(-1, *shape)
            out = zeros(ELEMENTS, np.int32 if "index" in name else x.dtype)
            by_numpy = None if in_numpy is None else partial(in_numpy, whole, axis=axis + 1)
            by_torch = torch_or_none(in_torch, whole, axis + 1) if in_torch else None
            if in_torch == "cumsum" and dtype == "int32" and torch is not None:
                by_torch = partial(torch.cumsum, as_torch(whole), axis + 1, dtype=torch.int32)
            if by_numpy is None:
                expected = partial(lambda w, d: torch.cummax(as_torch(w), d)[1], whole, axis + 1)
            elif dtype == "fp32" and name != "linear recurrence":
                expected = partial(in_numpy, whole.astype(np.float64), axis=axis + 1)
            else:
                expected = by_numpy
            count = ELEMENTS // int(np.prod(shape))
            if len(shape) == 1:
                launch = partial(kernels.rows[(count,)], x, out, op, shape[0])
            else:
                launch = partial(kernels.tiles[(count,)], x, out, op, axis, *shape)
            title = f"{name} {dtype} {'×'.join(map(str, shape))}"
            title += f" axis {axis}" if len(shape) > 1 else ""
            yield Case(
                "scan", title, launch, [(out, expected)], rivals(by_numpy, torch=by_torch),
                x.nbytes + out.nbytes, 1e-3 if dtype == "fp32" else 0,
            )  # fmt: skip


def sorting() -> Iterator[Case]:
    for dtype, size in (("fp32", 1024), ("int32", 1024), ("fp16", 1024), ("int64", 256),
                        ("fp32", 64), ("fp32", 16)):  # fmt: skip
        x = numbers(dtype, ELEMENTS // 4)
        whole, out = x.reshape(-1, size), zeros_like(x)
        launch = partial(kernels.rows[(len(whole),)], x, out, kernels.sort_rows, size)
        by_numpy = partial(np.sort, whole, axis=1)
        by_torch = None if torch is None else partial(torch.sort, as_torch(whole), 1)
        yield Case("sort", f"sort {dtype} {size}", launch, [(out, by_numpy)],
                   rivals(by_numpy, torch=by_torch), 2 * x.nbytes)  # fmt: skip
    for dtype, size, k in (("fp32", 1024, 8), ("fp32", 1024, 64), ("int32", 128, 4)):
        x = numbers(dtype, ELEMENTS // 4)
        whole = x.reshape(-1, size)
        out = zeros(len(whole) * k, x.dtype)
        launch = partial(kernels.top[(len(whole),)], x, out, k, size)
        expected = partial(lambda w, k: -np.sort(-w, axis=1)[:, :k], whole, k)
        by_numpy = partial(lambda w, k: np.sort(np.partition(w, -k, 1)[:, -k:], 1), whole, k)
        by_torch = None if torch is None else partial(torch.topk, as_torch(whole), k, 1)
        yield Case("sort", f"topk {dtype} {k} of {size}", launch, [(out, expected)],
                   rivals(by_numpy, torch=by_torch), x.nbytes + out.nbytes)  # fmt: skip
    x = numbers("fp32")
    whole, out = x.reshape(-1, 1024), zeros_like(x)
    launch = partial(kernels.rows[(len(whole),)], x, out, kernels.flip_rows, 1024)
    by_numpy = partial(lambda w: np.ascontiguousarray(w[:, ::-1]), whole)
    by_torch = None if torch is None else partial(torch.flip, as_torch(whole), (1,))
    yield Case("sort", "flip fp32 1024", launch, [(out, by_numpy)],
               rivals(by_numpy, torch=by_torch), 2 * x.nbytes)  # fmt: skip


def gathers() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    for dtype in ("fp32", "int8", "fp16", "int64"):
        x = numbers(dtype)
        for shape, axis in (((1024,), 0), ((64, 64), 0), ((64, 64), 1)):
            whole = x.reshape(-1, *shape)
            index = aligned(rng.integers(0, shape[axis], whole.shape).astype(np.int32))
            wide, out = index.astype(np.int64), zeros_like(x)
            if len(shape) == 1:
                launch = partial(kernels.gather_rows[(len(whole),)], x, index, out, *shape)
            else:
                launch = partial(kernels.gather_tiles[(len(whole),)], x, index, out, axis, *shape)
            by_numpy = partial(np.take_along_axis, whole, wide, axis + 1)
            by_torch = None
            if torch is not None:
                by_torch = partial(torch.gather, as_torch(whole), axis + 1, torch.from_numpy(wide))
            title = f"gather {dtype} {'×'.join(map(str, shape))}"
            title += f" axis {axis}" if len(shape) > 1 else ""
            yield Case("gather", title, launch, [(out, by_numpy)],
                       rivals(by_numpy, torch=by_torch), 2 * x.nbytes + index.nbytes)  # fmt: skip
        index = aligned(rng.permutation(ELEMENTS).astype(np.int32))
        wide, out = index.astype(np.int64), zeros_like(x)
        launch = partial(kernels.gather_memory[(ELEMENTS // 1024,)], x, index, out, 1024)
        by_numpy = partial(np.take, x, wide)
        by_torch = None
        if torch is not None:
            by_torch = partial(torch.take, as_torch(x), torch.from_numpy(wide))
        yield Case("gather", f"loads by index {dtype}", launch, [(out, by_numpy)],
                   rivals(by_numpy, torch=by_torch), 2 * x.nbytes + index.nbytes)  # fmt: skip
        out, other = zeros_like(x), zeros_like(x)
        launch = partial(kernels.scatter_memory[(ELEMENTS // 1024,)], x, index, out, 1024)
        expected = partial(lambda x, i: x[np.argsort(i)], x, index)
        by_numpy = partial(other.__setitem__, wide, x)
        by_torch = None
        if torch is not None:
            by_torch = partial(as_torch(other).index_copy_, 0, torch.from_numpy(wide), as_torch(x))
        yield Case("gather", f"stores by index {dtype}", launch, [(out, expected)],
                   rivals(by_numpy, torch=by_torch), 2 * x.nbytes + index.nbytes)  # fmt: skip


def histograms() -> Iterator[Case]:
    for bins, size in ((16, 65536), (256, 65536), (4096, 65536), (256, 1024)):
        x = aligned(np.random.default_rng(bins).integers(0, bins, size).astype(np.int32))
        out = zeros(bins, np.int32)
        launch = partial(kernels.count[(1,)], x, out, bins, size)
        wide = x.astype(np.int64)
        by_numpy = partial(np.bincount, wide, minlength=bins)
        by_torch = None
        if torch is not None:
            by_torch = partial(torch.bincount, torch.from_numpy(wide), minlength=bins)
        yield Case("histogram", f"histogram of {size} in {bins}", launch, [(out, by_numpy)],
                   rivals(by_numpy, torch=by_torch), x.nbytes + out.nbytes)  # fmt: skip
    one = zeros(65536, np.int32)
    out, wide = zeros(256, np.int32), one.astype(np.int64)
    launch = partial(kernels.count[(1,)], one, out, 256, one.size)
    by_numpy = partial(np.bincount, wide, minlength=256)
    by_torch = None
    if torch is not None:
        by_torch = partial(torch.bincount, torch.from_numpy(wide), minlength=256)
    yield Case("histogram", "histogram of 65536 equal", launch, [(out, by_numpy)],
               rivals(by_numpy, torch=by_torch), one.nbytes + out.nbytes)  # fmt: skip


def columns(both: Any, copy: str) -> Any:
    """The two columns, each in memory of its own."""
    return getattr(both[:, 0], copy)(), getattr(both[:, 1], copy)()


def transpositions() -> Iterator[Case]:
    for dtype in ("fp32", "fp16", "int8", "fp64"):
        x = numbers(dtype).reshape(1024, 1024)
        for name, kernel in (("trans", kernels.transpose),
                             ("trans by addresses", kernels.transpose_by_addresses)):  # fmt: skip
            out = zeros_like(x)
            launch = partial(kernel[(16, 16)], x, out, 1024, 1024, 64, 64)
            by_torch = None
            if torch is not None:
                by_torch = partial(as_torch(out).copy_, as_torch(x).t())
            by_numpy = partial(np.copyto, out, x.T)
            yield Case("transpose", f"{name} {dtype} 64×64", launch, [(out, lambda x=x: x.T)],
                       rivals(by_numpy, torch=by_torch), 2 * x.nbytes)  # fmt: skip
    x = numbers("fp32")
    for shape in ((16, 16, 16), (8, 64, 4)):
        whole, out = x.reshape(-1, *shape), zeros_like(x)
        launch = partial(kernels.permute[(len(whole),)], x, out, *shape)
        moved = whole.transpose(0, 3, 1, 2)
        same = out.reshape(moved.shape)
        by_torch = None
        if torch is not None:
            by_torch = partial(as_torch(same).copy_, as_torch(whole).permute(0, 3, 1, 2))
        by_numpy = partial(np.copyto, same, moved)
        yield Case("transpose", f"permute fp32 {'×'.join(map(str, shape))}", launch,
                   [(out, lambda m=moved: m)], rivals(by_numpy, torch=by_torch),
                   2 * x.nbytes)  # fmt: skip
    for dtype in ("fp32", "int8"):
        a, b = numbers(dtype), numbers(dtype, seed=1)
        out = zeros(2 * ELEMENTS, a.dtype)
        launch = partial(kernels.interleave[(ELEMENTS // 1024,)], a, b, out, 1024)

        by_numpy = partial(np.stack, [a, b], 1)
        by_torch = None
        if torch is not None:
            by_torch = partial(torch.stack, [as_torch(a), as_torch(b)], 1)
        yield Case("transpose", f"interleave {dtype}", launch, [(out, by_numpy)],
                   rivals(by_numpy, torch=by_torch), 2 * out.nbytes)  # fmt: skip
        both = np.stack([a, b], 1)
        left, right = zeros_like(a), zeros_like(b)
        launch = partial(kernels.deinterleave[(ELEMENTS // 1024,)], left, right, both, 1024)
        by_torch = None if torch is None else partial(columns, as_torch(both), "contiguous")
        yield Case("transpose", f"deinterleave {dtype}", launch,
                   [(left, lambda a=a: a), (right, lambda b=b: b)],
                   rivals(partial(columns, both, "copy"), torch=by_torch),
                   2 * both.nbytes)  # fmt: skip


def casts() -> Iterator[Case]:
    floats = ("fp16", "bf16", "fp64", *FP8)
    pairs = [(f"{a}", f"{b}") for n in floats for a, b in (("fp32", n), (n, "fp32"))]
    pairs += [(a, b) for n in ("fp8e5", "fp8e4nv") for h in ("fp16", "bf16")
              for a, b in ((n, h), (h, n))]  # fmt: skip
    pairs += [("fp16", "bf16"), ("bf16", "fp16")]
    for n in ("int8", "uint8", "int16", "int32", "int64"):
        pairs += [("fp32", n), (n, "fp32")]
    pairs += [("int8", "int32"), ("int32", "int8"), ("int32", "int64"), ("int64", "int32"),
              ("int8", "fp16"), ("fp16", "int8"), ("int8", "bf16")]  # fmt: skip
    for source, target in pairs:
        x = numbers(source)
        if source[0] in "fb" and "int" in target:
            low = 0 if target[0] == "u" else -100
            x = aligned(np.clip(x.astype(np.float32) * 20, low, 100).astype(x.dtype))
        out = zeros(ELEMENTS, DTYPES[target])
        launch = partial(kernels.cast[(ELEMENTS // 4096,)], x, out, 4096)
        by_torch = None
        if torch is not None:
            by_torch = partial(as_torch(out).copy_, as_torch(x))
        by_numpy = partial(np.copyto, out, x, casting="unsafe")
        expected = partial(x.astype, out.dtype)
        yield Case("cast", f"{source} to {target}", launch, [(out, expected)],
                   rivals(by_numpy, torch=by_torch), x.nbytes + out.nbytes)  # fmt: skip


ATOMICS = {
    "add": (tl.atomic_add, np.add, "sum"), "max": (tl.atomic_max, np.maximum, "amax"),
    "min": (tl.atomic_min, np.minimum, "amin"), "or": (tl.atomic_or, np.bitwise_or, ""),
    "xor": (tl.atomic_xor, np.bitwise_xor, ""), "and": (tl.atomic_and, np.bitwise_and, ""),
}  # fmt: skip


def atomic_case(name: str, dtype: str, place: str, index: np.ndarray[Any, Any]) -> Case:
    """Element i goes to index[i]."""
    op, ufunc, reduce = ATOMICS[name]
    size = index.size
    x, wide = numbers(dtype, size), index.astype(np.int64)
    out, other = zeros(size, x.dtype), zeros(size, x.dtype)
    grid, scope = (size // 1024,), "cta" if "one program" in place else "gpu"
    if place == "one address":
        launch = partial(kernels.atomic_one[grid], out, x, op, 1024)
    elif "consecutive" in place:
        launch = partial(kernels.atomic_block[grid], out, x, op, scope, 1024)
    else:
        launch = partial(kernels.atomic[grid], out, index, x, op, scope, 1024)
    by_numpy, by_torch = partial(ufunc.at, other, wide, x), None
    if place == "consecutive, one program":
        by_numpy = partial(ufunc, other, x, out=other)
        by_torch = None if torch is None else partial(as_torch(other).add_, as_torch(x))
    elif torch is not None and reduce:
        by_torch = partial(as_torch(other).scatter_reduce_, 0, torch.from_numpy(wide), as_torch(x),
                           reduce)  # fmt: skip

    def expected() -> Any:
        found = zeros(x.size, np.float64 if x.dtype.kind == "f" else x.dtype)
        ufunc.at(found, wide, x)
        return found

    return Case(
        "atomic", f"atomic {name} {dtype}, {place}", launch, [(out, expected)],
        rivals(by_numpy, torch=by_torch), 2 * x.nbytes + index.nbytes, 1e-3,
        reset=partial(out.fill, 0),
    )  # fmt: skip


def atomics() -> Iterator[Case]:
    size, rng = 1 << 16, np.random.default_rng(5)
    spread = aligned(rng.integers(0, size, size).astype(np.int32))
    forward = aligned(np.arange(size, dtype=np.int32))
    places = {"one address": zeros(size, np.int32), "64 addresses": spread % 64,
              "spread": spread}  # fmt: skip
    for name in ATOMICS:
        for dtype in ("int32", "fp32", "int64") if name in ("add", "max") else ("int32",):
            for place, index in places.items():
                yield atomic_case(name, dtype, place, index)
    for dtype in ("int32", "fp32", "fp64"):
        yield atomic_case("add", dtype, "64 addresses, one program", spread % 64)
        yield atomic_case("add", dtype, "spread, one program", spread)
    for dtype in ("int32", "fp16", "fp32", "fp64"):
        yield atomic_case("add", dtype, "consecutive", forward)
    for dtype in ("int32", "fp32"):
        yield atomic_case("max", dtype, "consecutive", forward)
        yield atomic_case("add", dtype, "consecutive, one program", forward)
    index, x = rng.permutation(size).astype(np.int32), numbers("int32", size)
    wide, out, old, other = index.astype(np.int64), *(zeros_like(x) for _ in range(3))
    launch = partial(kernels.atomic_old[(size // 1024,)], out, index, x, old, tl.atomic_xchg, 1024)

    def exchange() -> Any:
        held = other[wide]
        other[wide] = x
        return held

    yield Case("atomic", "atomic xchg int32, spread", launch,
               [(out, lambda: x[np.argsort(index)])], rivals(exchange), 4 * x.nbytes)  # fmt: skip
    expected = rng.integers(0, 2, size).astype(np.int32)
    second, third = zeros_like(x), zeros_like(x)
    launch = partial(kernels.compare_and_swap[(size // 1024,)], second, index, expected, x, old,
                     1024)  # fmt: skip

    def swap() -> Any:
        held = third[wide]
        third[wide] = np.where(held == expected, x, held)
        return held

    yield Case("atomic", "atomic cas int32, spread", launch,
               [(second, lambda: np.where(expected == 0, x, 0)[np.argsort(index)])],
               rivals(swap), 5 * x.nbytes, reset=partial(second.fill, 0))  # fmt: skip


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "reduction": reductions, "scan": scans, "sort": sorting, "gather": gathers,
    "histogram": histograms, "transpose": transpositions, "cast": casts, "atomic": atomics,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="each op against NumPy and torch, one thread")
    parser.add_argument("--only", nargs="+", default=[], help="groups, or patterns of names")
    parser.add_argument("--rounds", type=int, default=25, help="samples of each library")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    driver.set_active_to_cpu()
    if torch is not None:
        torch.set_num_threads(1)
    found: list[Row] = []
    heads = "".join(f" {n:>10}" for n in ("Tritium", "NumPy", "torch"))
    print(f"{'op':44}{heads} {'GB/s':>7} {'ratio':>7} {'least':>7}")
    for group, make in GROUPS.items():
        for case in make():
            named = any(o == group or re.search(o, case.name) for o in given.only)
            if given.only and not named:
                continue
            row = measure(case, given.rounds)
            found.append(row)
            times = [f"{row.rivals[n] * 1e6:10.1f}" if n in row.rivals else " " * 10
                     for n in ("numpy", "torch")]  # fmt: skip
            ratios = f"{row.ratio:7.2f} {row.least_ratio:7.2f}"
            print(f"{row.name:44} {row.tritium * 1e6:10.1f} {' '.join(times)} "
                  f"{row.gb_per_s:7.1f} {ratios}", flush=True)  # fmt: skip
    print(f"\n{len(found)} ops, µs (medians)")
    figures: dict[str, Any] = {}
    for kind in ("ratio", "least_ratio"):
        of = [getattr(row, kind) for row in found]
        figures[kind] = {"median": statistics.median(of), "lowest": min(of),
                         "below_half": sum(r < 0.5 for r in of)}  # fmt: skip
        print(f"{kind}: " + ", ".join(f"{k} {v:.3g}" for k, v in figures[kind].items()))
    if given.out:
        rows = [{**asdict(r), "ratio": r.ratio, "least_ratio": r.least_ratio} for r in found]
        record = {"machine": machine(), "threads": 1, "unit": "s of the processor", **figures,
                  "results": rows}  # fmt: skip
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
