"""Code for AMD GPUs, and how long compiling it takes, beside Triton; no GPU is needed.

    python benchmarks/amd_compile.py [--rounds 3] [--triton PYTHON] [--out FILE] [--arch gfx942 ...]
    python benchmarks/amd_compile.py --table FILE    # the tutorials' kernels of such a file

The kernels are those of `gpu_sources` and those of `tests/ir/reference`, of which both compilers
read the same IR. For each processor a fresh process with an empty cache imports one of the two, and
compiles each kernel several times, from source (or IR) to the code object. The least processor time
counts; registers, spills, scratch memory, LDS and instructions are read from the assembly.
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
FORMS = {
    "vgprs": r"\.vgpr_count:\s*(\d+)", "agprs": r"\.agpr_count:\s*(\d+)",
    "spilled": r"\.vgpr_spill_count:\s*(\d+)", "scratch": r"^; ScratchSize: (\d+)",
    "occupancy": r"^; Occupancy: (\d+)",
}  # fmt: skip


def child(package: str, arch: str, rounds: int) -> None:
    """The facts of each kernel, one line of JSON each."""
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
    for name, make in work.items():
        try:
            times = [timed(make) for _ in range(rounds)]
            facts = {"cpu_ms": min(ms for ms, _ in times), **of_assembly(times[0][1])}
        except Exception as error:
            facts = {"error": str(error).strip().splitlines()[0][:200]}
        print(json.dumps({"case": name, "version": module.__version__, **facts}), flush=True)


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


def sample(python: str, package: str, arch: str, rounds: int) -> dict[str, dict[str, Any]]:
    """The facts by kernel. Raises `RuntimeError` where the process ends early."""
    with tempfile.TemporaryDirectory(prefix="amd-compile-") as folder:
        environment = {**os.environ, "TRITON_CACHE_DIR": folder, "TRITON_ALWAYS_COMPILE": "1"}
        command = [python, __file__, "--child", package, "--arch", arch, "--rounds", str(rounds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed behind {rows[-1:]}:\n{done.stderr}")
    return {row.pop("case"): row for row in rows}


def summary(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The ratios over the kernels that both compile."""
    both = [n for n in mine if "matrix" in mine[n] and "matrix" in theirs.get(n, ())]

    def ratio(key: str) -> float:
        pairs = [(mine[n][key], theirs[n][key]) for n in both if theirs[n][key]]
        return round(median(a / b for a, b in pairs), 3)

    tutorials = list(filter(_is_tutorial, mine))
    return {
        "kernels": len(both), "registers": ratio("vgprs"), "instructions": ratio("instructions"),
        "cpu_time": ratio("cpu_ms"), "scratch": [n for n in tutorials if mine[n].get("scratch")],
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
        child(options.child, options.arch[0], options.rounds)
        return
    if options.table:
        print(table(json.loads(options.table.read_text())["targets"]))
        return
    targets, versions = dict[str, Any](), dict[str, str]()
    print("processor  kernels  registers  instructions  CPU time (ratios to Triton's, medians)")
    for arch in options.arch:
        rows = {
            who: sample(python, who, arch, options.rounds)
            for who, python in (("tritium", sys.executable), ("triton", options.triton))
        }
        for who, found in rows.items():
            versions[who] = next(row.pop("version") for row in found.values() if "version" in row)
            for row in found.values():
                row.pop("version", None)
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
