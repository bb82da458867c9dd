"""Cost of a launch: time from Python to the kernel, `kernel[grid](...)` in a tight loop.

    python benchmarks/launch_overhead.py [--json FILE]                  # on the CPU
    python benchmarks/launch_overhead.py --device cuda [--json FILE]    # beside Triton

On the CPU also: how fast a vector add of 64 K floats in cache is, its launch included, beside
torch; how well the thread pool uses two CPUs for two programs after a pause; and how much memory
10 000 launches take. Libraries are measured in one process, in rounds that alternate; a figure is
the least or the median (as it says) of short loops.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks import launch_kernels as ours
from tritium import knobs
from tritium.backends.cpu.launcher import Param, make_launcher
from tritium.native.loader import compile_ir, load_object

SPIN = """
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

Calls = Mapping[str, Callable[[], object]]


def microseconds(
    calls: Calls, loops: int, rounds: int, settle: Callable[[], object], warm: int = 0
) -> Any:
    """(least, median) microseconds of one call of each, in alternating loops; the cost of the loop
    is taken off. `settle` runs after each loop, `warm` calls go before it."""
    found: dict[str, list[float]] = {who: [] for who in calls}
    idle = min(_loop(lambda: None, loops) for _ in range(5))
    for call in calls.values():
        for _ in range(10):
            call()
    for _ in range(rounds):
        for who, call in calls.items():
            settle()
            _loop(call, warm)
            found[who].append((_loop(call, loops) - idle) * 1e6)
    settle()
    return {who: (min(times), statistics.median(times)) for who, times in found.items()}


def _loop(call: Callable[[], object], loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - start) / max(loops, 1)


def launches(kernels: Any, make: Callable[[], Any]) -> dict[str, Callable[[], object]]:
    """The cases, for one package's kernels, with arrays made by `make`."""
    x, y, out = make(), make(), make()
    seven, ints = [make() for _ in range(7)], list(range(1000, 1012))
    scope = {f"v{i}": value for i, value in enumerate([*seven, *ints])}
    text = f"lambda: kernel[(1,)]({', '.join(scope)}, BLOCK=1024)"
    many = eval(text, {"kernel": kernels.nineteen, **scope})
    three, mixed = kernels.three, kernels.mixed
    a, b, c, d, e = seven[:5]
    return {
        "3 arrays, 1 int": lambda: three[(1,)](x, y, out, 1000, BLOCK=1024),
        "with num_warps": lambda: three[(1,)](x, y, out, 1000, BLOCK=1024, num_warps=8),
        "grid by a function": lambda: three[lambda meta: (1,)](x, y, out, 1000, BLOCK=1024),
        "7 arrays, 12 ints": many,
        "19 of all kinds": lambda: mixed[(1,)](
            a, b, c, d, e, 1, 2, 3.0, 16, 5, (1, x), True, None, 2**64 - 1, 1, 2, 3, "a", 4
        ),
    }


def descriptors(kernels: Any, descriptor: Any, make: Callable[[], Any]) -> Callable[[], object]:
    """A launch with three tensor descriptors."""
    x, y, out = (descriptor.from_tensor(make(), [64, 64]) for _ in range(3))
    kernel = kernels.described
    return lambda: kernel[(1,)](x, y, out, 1000, BLOCK=1024)


# CPU


def overhead_on_cpu() -> dict[str, Any]:
    """(least, median) microseconds a launch by case."""
    made: dict[str, Callable[[], object]] = {}
    makers: dict[str, Callable[[], Any]] = {"numpy": lambda: np.zeros(1024, np.float32)}
    torch = _torch()
    if torch is not None:
        makers["torch"] = lambda: torch.zeros(1024)
    for library, make in makers.items():
        for case, call in launches(ours, make).items():
            made[f"{library}: {case}"] = call
    return microseconds(made, 500, 60, lambda: None)


def _torch() -> Any:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def small_add() -> dict[str, Any]:
    """(least, median) microseconds of adding 64 K floats, the launch included."""
    torch, n, block = _torch(), 1 << 16, 1 << 14
    if torch is None:
        return {}
    x, y, out = torch.rand(n), torch.rand(n), torch.empty(n)
    add, grid = ours.add, (n // block,)
    calls: Calls = {
        "tritium": lambda: add[grid](x, y, out, n, BLOCK=block),
        "torch.add": lambda: torch.add(x, y, out=out),
    }
    # Threads of torch that have no work keep a processor busy for 0.1 s.
    return microseconds(calls, 400, 40, lambda: time.sleep(0.2), warm=100)


def two_programs(pause: float, work: float, count: int = 300) -> dict[str, float]:
    """Times (us) of two programs of equal work, together `work`, after a pause (s)."""
    image = load_object(compile_ir(SPIN), ["spin"])
    launch = make_launcher(image["spin"], [Param("turns", "i64")], 0, keep=image)

    def timed(programs: int, turns: int) -> float:
        start = time.perf_counter()
        launch(programs, 1, 1, turns)
        return (time.perf_counter() - start) * 1e6

    turns = 100_000
    rate = min(timed(1, turns) for _ in range(50)) / turns
    turns = int(work / 2 / rate)
    single: list[float] = []
    double: list[float] = []
    for _ in range(count):
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


def memory() -> float:
    """KiB that the process grows by in 10 000 launches."""
    x = np.zeros(1024, np.float32)

    def run(count: int) -> None:
        for _ in range(count):
            ours.three[(1,)](x, x, x, 1000, BLOCK=1024)

    run(2000)
    before = resident()
    run(10_000)
    return resident() - before


def resident() -> float:
    """KiB of memory that this process uses (Linux)."""
    line = next(t for t in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in t)
    return float(line.split()[1])


def on_cpu() -> dict[str, Any]:
    """All figures of the CPU."""
    report: dict[str, Any] = {
        "launch, us (least, median)": overhead_on_cpu(),
        "add of 64 K floats, us (least, median)": small_add(),
    }
    if Path("/proc/self/status").exists():
        report["growth in 10 000 launches, KiB"] = {"resident memory": memory()}
    for pause in (0.0, 0.0005):
        name = f"two programs, {knobs.runtime.cpu_threads} threads, {pause * 1e3:g} ms pause, us"
        report[name] = two_programs(pause, 366)
    return report


# CUDA


def on_cuda() -> dict[str, Any]:
    """Launches of Tritium's, Triton's (where installed) and torch.add on the GPU."""
    torch = _torch()
    packages: dict[str, tuple[Any, Any]] = {}
    tools = importlib.import_module("tritium.tools.tensor_descriptor")
    packages["tritium"] = (ours, tools.TensorDescriptor)
    if importlib.util.find_spec("triton"):
        tools = importlib.import_module("triton.tools.tensor_descriptor")
        packages["triton"] = (_as_triton(), tools.TensorDescriptor)
    x = torch.zeros(1024, device="cuda")
    out = torch.empty_like(x)
    made: dict[str, Callable[[], object]] = {"torch.add": lambda: torch.add(x, x, out=out)}
    for who, (kernels, descriptor) in packages.items():
        cases = launches(kernels, lambda: torch.zeros(1024, device="cuda"))
        cases["3 descriptors"] = descriptors(
            kernels, descriptor, lambda: torch.zeros(256, 256, dtype=torch.float16, device="cuda")
        )
        add = kernels.add
        cases["add"] = lambda add=add: add[(1,)](x, x, out, 1024, BLOCK=1024)
        made |= {f"{who}: {case}": call for case, call in cases.items()}
    # Loops shorter than the driver's queue, and an idle GPU before each: the time is Python's.
    times = microseconds(made, 200, 25, torch.cuda.synchronize)
    report: dict[str, Any] = {"launch, us (least, median)": times}
    if "triton" in packages:
        report["Triton's time over Tritium's (medians)"] = {
            case: times[f"triton: {case}"][1] / times[f"tritium: {case}"][1]
            for case in (name.partition(": ")[2] for name in times if name.startswith("tritium"))
        }
    versions = {name: importlib.import_module(name).__version__ for name in ("torch",)}
    if "triton" in packages:
        versions["triton"] = importlib.import_module("triton").__version__
    device = torch.cuda.get_device_name()
    report["machine"] = {"gpu": device, "python": sys.version.split()[0], **versions}
    return report


def _as_triton() -> Any:
    """`launch_kernels` with Triton in place of Tritium."""
    source = Path(ours.__file__)
    text = source.read_text().replace("tritium", "triton")
    path = Path(tempfile.mkdtemp()) / "launch_kernels_triton.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    report = on_cuda() if options.device == "cuda" else on_cpu()
    for title, figures in report.items():
        print(title)
        for case, value in figures.items():
            print(f"  {case:32}{_shown(value)}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "".join(f"{number:9.2f}" for number in value)
    return value if isinstance(value, str) else f"{value:9.2f}"


if __name__ == "__main__":
    main()
