"""Code for AMD GPUs, and how long compiling it takes, beside Triton; no GPU is needed.

    python benchmarks/amd_compile.py [--rounds 3] [--triton PYTHON] [--out FILE] [--arch gfx942 ...]
    python benchmarks/amd_compile.py --table FILE    # the tutorials' kernels of such a file

The kernels are those of `gpu_sources` and those of `tests/ir/reference`, of which both compilers
read the same IR. For each processor two fresh processes with empty caches import one of the two
each, and compile each kernel in turn, several times, from source (or IR) to the code object. The
least processor time counts; registers, spills, scratch memory, LDS and instructions are read from
the assembly.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
REFERENCE = ROOT / "tests" / "ir" / "reference"
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1150", "gfx1200", "gfx1201", "gfx1250")
TUTORIALS = ("add", "softmax", "dropout", "layer norm", "matmul", "attention")
MARK = "facts: "
FORMS = {
    "vgprs": r"\.vgpr_count:\s*(\d+)", "agprs": r"\.agpr_count:\s*(\d+)",
    "spilled": r"\.vgpr_spill_count:\s*(\d+)", "scratch": r"^; ScratchSize: (\d+)",
    "occupancy": r"^; Occupancy: (\d+)",
}  # fmt: skip


def child(package: str, arch: str) -> None:
    """Compile the kernels that the lines of the standard input name, and write a line of JSON with
    the facts of each; the first line has all names and the package's version."""
    if package == "triton":  # the kernels' file imports tritium
        import triton

        sys.modules["tritium"], sys.modules["tritium.language"] = triton, triton.language
    from benchmarks.gpu_sources import CASES, compiled

    module = importlib.import_module(package)
    kind = importlib.import_module(f"{package}.backends.compiler").GPUTarget
    target = kind("hip", arch, 64 if arch.startswith("gfx9") else 32)
    work: dict[str, Any] = {name: lambda n=name: compiled(n, package, arch) for name in CASES}
    for path in sorted(REFERENCE.glob("*.ttir")):
        if ".source." not in path.name and path.name != "inline_asm.ttir":  # which is PTX
            work[path.name] = lambda p=path: module.compile(str(p), target=target)
    compiled("add", package, arch)
    answer({"names": list(work), "version": module.__version__})
    for line in sys.stdin:
        try:
            ms, kernel = timed(work[line.strip()])
            answer({"cpu_ms": ms, **of_assembly(kernel)})
        except Exception as error:
            answer({"error": str(error).strip().splitlines()[0][:200]})


def answer(facts: dict[str, Any]) -> None:
    print(f"{MARK}{json.dumps(facts)}", flush=True)


def timed(make: Any) -> tuple[float, Any]:
    """Milliseconds of processor time, and what is made."""
    from benchmarks.nvidia_compile import processor_seconds  # found by the path set above

    start = processor_seconds()
    kernel = make()
    return round(1e3 * (processor_seconds() - start), 1), kernel


def of_assembly(kernel: Any) -> dict[str, Any]:
    """Resources of a kernel, and its number of instructions of each kind."""
    text = kernel.asm["amdgcn"]
    found = {name: re.findall(form, text, re.M) for name, form in FORMS.items()}
    code = text.partition(".rodata")[0]
    names = re.findall(r"^\t([a-z]\w+)", code, re.M)
    matrix = Counter(n for n in names if re.match(r"v_(mfma|wmma|swmmac)", n))
    groups = ("global_load", "global_store", "buffer_load", "buffer_store", "ds_", "s_barrier")
    counted = {g: sum(n.startswith(g) for n in names) for g in groups}
    return {
        **{name: int(numbers[-1]) if numbers else 0 for name, numbers in found.items()},
        "lds": kernel.metadata.shared, "instructions": len(names), "matrix": dict(matrix),
        **{g: n for g, n in counted.items() if n},
    }  # fmt: skip


class Compiler:
    """A process that compiles with one of the two packages, with a cache of its own."""

    def __init__(self, python: str, package: str, arch: str):
        self._folder = tempfile.TemporaryDirectory(prefix="amd-compile-")
        environment = {**os.environ, "TRITON_CACHE_DIR": self._folder.name,
                       "TRITON_ALWAYS_COMPILE": "1"}  # fmt: skip
        self._command = [python, __file__, "--child", package, "--arch", arch]
        self._process = subprocess.Popen(
            self._command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        first = self._answer("the start")
        self.names, self.version = first["names"], first["version"]

    def ask(self, name: str) -> dict[str, Any]:
        """The facts of one compilation."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return self._answer(name)

    def _answer(self, of: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
        raise RuntimeError(f"{' '.join(self._command)} ended at {of}")

    def close(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def samples(pythons: dict[str, str], arch: str, rounds: int) -> tuple[dict[str, Any], ...]:
    """The facts by package and kernel, and the versions. Both packages compile each kernel in turn,
    so that what else the machine does slows both down."""
    both = {package: Compiler(python, package, arch) for package, python in pythons.items()}
    found: dict[str, Any] = {package: {} for package in both}
    for name in both["tritium"].names:
        for package, compiler in [*both.items()] * rounds:
            facts = compiler.ask(name)
            least = min(facts.get("cpu_ms", 0), found[package].get(name, facts).get("cpu_ms", 0))
            found[package][name] = {**facts, "cpu_ms": least} if "cpu_ms" in facts else facts
    for compiler in both.values():
        compiler.close()
    return found, {package: compiler.version for package, compiler in both.items()}


def summary(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The ratios over the kernels that both compile: medians, and of the sums of their times."""
    both = [n for n in mine if "matrix" in mine[n] and "matrix" in theirs.get(n, ())]

    def ratio(key: str) -> float:
        pairs = [(mine[n][key], theirs[n][key]) for n in both if theirs[n][key]]
        return round(median(a / b for a, b in pairs), 3)

    tutorials = list(filter(_is_tutorial, mine))
    return {
        "kernels": len(both), "registers": ratio("vgprs"), "instructions": ratio("instructions"),
        "cpu_time": ratio("cpu_ms"),
        "total_cpu_time": round(
            sum(mine[n]["cpu_ms"] for n in both) / sum(theirs[n]["cpu_ms"] for n in both), 3
        ),
        "scratch": [n for n in tutorials if mine[n].get("scratch")],
        "scratch_of_triton": [n for n in tutorials if theirs.get(n, {}).get("scratch")],
        "other_instructions": [n for n in both if mine[n]["matrix"].keys() ^ theirs[n]["matrix"]],
        "errors": {n: r["error"] for n, r in mine.items() if "error" in r},
        "errors_of_triton": {n: r["error"] for n, r in theirs.items() if "error" in r},
    }  # fmt: skip


COLUMNS = ("vgprs", "scratch", "occupancy", "lds", "ds_", "s_barrier", "instructions")


def table(targets: dict[str, Any]) -> str:
    """The kernels of the tutorials for each processor as Markdown, with Triton's figures behind a
    stroke where they differ."""
    lines = [f"| kernel | processor | {' | '.join(COLUMNS)} | matrix instructions |",
             "|---" * (len(COLUMNS) + 3) + "|"]  # fmt: skip
    for name in [n for n in targets[ARCHS[0]]["tritium"] if _is_tutorial(n)]:
        for arch, rows in targets.items():
            pair = [{"matrix": {}, **rows[who][name]} for who in ("tritium", "triton")]
            found = [[str(row.get(c, "-" if "error" in row else 0)) for c in COLUMNS]
                     + [", ".join(f"{n} {i}" for i, n in row["matrix"].items()) or "-"]
                     for row in pair]  # fmt: skip
            cells = [a if a == b else f"{a} / {b}" for a, b in zip(*found, strict=True)]
            lines.append(f"| {name} | {arch} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _is_tutorial(name: str) -> bool:
    return name.startswith(TUTORIALS) and not name.endswith(".ttir")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="*", default=list(ARCHS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--triton", default=sys.executable, help="a Python that has Triton")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of an --out file's figures")
    parser.add_argument("--child", choices=("tritium", "triton"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.arch[0])
        return
    if options.table:
        print(table(json.loads(options.table.read_text())["targets"]))
        return
    targets, versions = dict[str, Any](), dict[str, str]()
    print("processor  kernels  registers  instructions  CPU time (ratios to Triton's, medians)")
    for arch in options.arch:
        pythons = {"tritium": sys.executable, "triton": options.triton}
        rows, versions = samples(pythons, arch, options.rounds)
        made = summary(rows["tritium"], rows["triton"])
        print(f"{arch:9} {made['kernels']:8} {made['registers']:10} {made['instructions']:13} "
              f"{made['cpu_time']:9}", made["scratch"], made["other_instructions"], made["errors"],
              flush=True)  # fmt: skip
        targets[arch] = {"summary": made, **rows}
    if options.out:
        facts = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                 "python": platform.python_version(), **versions}  # fmt: skip
        command = f"python benchmarks/amd_compile.py --rounds {options.rounds}"
        record = {"machine": facts, "command": command, "targets": targets}
        options.out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
