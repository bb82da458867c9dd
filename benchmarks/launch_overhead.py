"""What a launch costs on the CPU: nanoseconds of Python-side overhead, and how well the thread
pool uses two CPUs for two programs after a pause.

    python benchmarks/launch_overhead.py [--json FILE]

Every figure is the best of several runs of a loop (overhead) or a median over many launches with
a pause before each (pool). torch is measured where it is installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from tritium import knobs
from tritium.backends.cpu.launcher import Param, make_launcher
from tritium.backends.cpu.loader import compile_ir, load_object

KERNELS = """
define void @empty(ptr %args, ptr %ctx, i64 %begin, i64 %end) {
  ret void
}
define void @spin(ptr %args, ptr %ctx, i64 %begin, i64 %end) {
entry:
  %turns = load i64, ptr %args
  %programs = sub i64 %end, %begin
  %all = mul i64 %programs, %turns
  br label %spinning
spinning:
  %i = phi i64 [ 0, %entry ], [ %i1, %spinning ]
  call void asm sideeffect "", ""()
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, %all
  br i1 %again, label %spinning, label %done
done:
  ret void
}
"""


def nanoseconds(call: Callable[[], object], loops: int = 20_000, runs: int = 9) -> float:
    """The least time of one call, over `runs` loops; the cost of the loop itself is taken off."""

    def loop(function: Callable[[], object]) -> float:
        start = time.perf_counter()
        for _ in range(loops):
            function()
        return (time.perf_counter() - start) / loops * 1e9

    def nothing() -> None:
        return None

    return min(loop(call) for _ in range(runs)) - min(loop(nothing) for _ in range(runs))


def arguments(make: Callable[[], object]) -> dict[str, tuple[list[Param], list[object]]]:
    """The cases: parameters and values, with arrays made by `make`."""
    three = [Param("x", "*fp32"), Param("y", "*fp32"), Param("out", "*fp32", True)]
    many = [Param(f"x{i}", "*fp32") for i in range(7)] + [Param(f"n{i}", "i32") for i in range(12)]
    return {
        "3 arrays, 1 int": ([*three, Param("n", "i32")], [make(), make(), make(), 1000]),
        "7 arrays, 12 ints": (many, [*(make() for _ in range(7)), *range(1000, 1012)]),
    }


def overhead() -> dict[str, float]:
    """Nanoseconds a call by case."""
    image = load_object(compile_ir(KERNELS), ["empty", "spin"])
    address = image["empty"]
    makers: dict[str, Callable[[], object]] = {"numpy": lambda: np.zeros(1000, np.float32)}
    try:
        import torch

        makers["torch"] = lambda: torch.zeros(1000)
    except ImportError:
        pass
    launch = make_launcher(address, [], 0, keep=image)
    found = {"no arguments": nanoseconds(lambda: launch(1, 1, 1))}
    found["no arguments, 64 programs"] = nanoseconds(lambda: launch(64, 1, 1))
    for library, make in makers.items():
        for case, (params, values) in arguments(make).items():
            function = make_launcher(address, params, 0, keep=image)
            function(1, 1, 1, *values)
            # A partial costs as much as a call with the arguments written out.
            names = {f"v{i}": value for i, value in enumerate(values)}
            body = f"lambda: f(1, 1, 1, {', '.join(names)})"
            found[f"{library}: {case}"] = nanoseconds(eval(body, {"f": function, **names}))
    return found


def two_programs(pause: float, microseconds: float, launches: int = 300) -> dict[str, float]:
    """Times (us) of two programs of equal work, together `microseconds`, after a pause (s)."""
    image = load_object(compile_ir(KERNELS), ["empty", "spin"])
    launch = make_launcher(image["spin"], [Param("turns", "i64")], 0, keep=image)

    def timed(programs: int, turns: int) -> float:
        start = time.perf_counter()
        launch(programs, 1, 1, turns)
        return (time.perf_counter() - start) * 1e6

    turns = 100_000
    rate = min(timed(1, turns) for _ in range(50)) / turns
    turns = int(microseconds / 2 / rate)
    single: list[float] = []
    double: list[float] = []
    for _ in range(launches):
        for programs, times in ((1, single), (2, double)):
            until = time.perf_counter() + pause
            while time.perf_counter() < until:
                time.sleep(pause / 4)
            times.append(timed(programs, turns))
    deciles = statistics.quantiles(double, n=10)
    return {
        "one program (ideal for two)": statistics.median(single),
        "two programs, median": statistics.median(double),
        "two programs, 10 % quantile": deciles[0],
        "two programs, 90 % quantile": deciles[8],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    report = {"overhead, ns a call": overhead()}
    for pause in (0.0, 0.0005):
        name = f"two programs, {knobs.runtime.cpu_threads} threads, {pause * 1e3:g} ms pause, us"
        report[name] = two_programs(pause, 366)
    for title, figures in report.items():
        print(title)
        for case, value in figures.items():
            print(f"  {case:32}{value:9.1f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
