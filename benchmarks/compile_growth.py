"""Compile times of kernels of growing length, for any CPU, and the exponent of their growth.

    python benchmarks/compile_growth.py [--only masked] [--arch haswell ...] [--sizes 16 32 64]

A kernel repeats a statement, a number of times that is known at compile time. In a row are seconds
of processor time by that number, from the source to the object code, and the growth: the exponent
of the number that the last two follow (1: linear). Rows that grow with an exponent above 1.3, or
take more than two seconds for 64 statements, are marked. `--lines` adds lines of LLVM IR.
"""

from __future__ import annotations

import argparse
import gc
import linecache
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

ARCHS = ("x86-64", "haswell", "skylake-avx512", "znver4", "cortex-a76")
WIDE = "m[:, None] * s + n[None, :]"
"""Places of a tile of 16 x 16."""
ON = "mask=(m[:, None] < k) & (n[None, :] < k)"
STATEMENTS = {
    "masked tile loads": f"z += tl.load(p + I * k + {WIDE}, {ON}, other=0)",
    "masked strided loads": f"z += tl.load(p + I * k + {WIDE} * s, {ON}, other=0)",
    "masked loads": "x += tl.load(p + I * k + i, mask=i < k + I, other=0)",
    "loads, any mask": "x += tl.load(p + I * k + i, mask=x > I, other=0)",
    "gathers": "x += tl.load(p + j * (I + 1))",
    "masked gathers": "x += tl.load(p + j * (I + 1), mask=x > I, other=0)",
    "masked stores": "tl.store(o + I * k + i, x + I, mask=i < k + I)",
    "masked tile stores": f"tl.store(o + I * k + {WIDE}, z + I, {ON})",
    "stores, any mask": "tl.store(o + I * k + i, x + I, mask=x > I)",
    "scatters": "tl.store(o + j * (I + 1), x)",
    "masked scatters": "tl.store(o + j * (I + 1), x, mask=x > I)",
    "atomics": "tl.atomic_add(c + j, j + I, mask=x > I)",
    "sums": "x = x - tl.sum(x, 0)",
    "sums of rows": "z = z - tl.sum(z, 1)[:, None]",
    "scans": "x = x + tl.cumsum(x, 0)",
    "sorts": "x = tl.sort(x) + I",
    "dots": "f = tl.dot(f, f, acc=f)",
    "selections": "f = tl.where(f > I, f * 2, f)",
    "exponentials": "f = tl.exp(f - I)",
    "transpositions": "z = tl.trans(z) + I",
    "reshapes": "z = tl.reshape(tl.trans(tl.reshape(z, (64, 4))), (16, 16)) + I",
    "splits": "a, b = tl.split(tl.reshape(x, (32, 2)))\n"
    "x = tl.reshape(tl.join(a + b, a - b), (64,))",
    "tile.gather": "x += tl.gather(x, (i * (I + 3)) % 64, 0)",
    "branches": "if k > I:\n    x = x + I",
    "loops": "for u in range(k):\n    x = x + u",
}  # fmt: skip
HEAD = """
@tritium.jit
def kernel(p, o, c, k, s, N: tl.constexpr):
    i = tl.arange(0, 64)
    m, n = tl.program_id(0) * 16 + tl.arange(0, 16), tl.program_id(1) * 16 + tl.arange(0, 16)
    x = tl.load(p + i)
    j = tl.load(c + i)
    z = tl.load(p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
    f = z.to(tl.float32)
    for I in tl.static_range(N):
"""
END = """
    tl.store(o + i, x)
    t = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(o + 64 + t, z + f.to(z.dtype))
"""
"""Results, so that all statements count."""
TYPES = {"i8": "*i8", "i16": "*i16", "i32": "*i32", "i64": "*i64"}
BY_SIZE = tuple(name for name in STATEMENTS if "load" in name or "store" in name
                or name.endswith(("gathers", "scatters")))  # fmt: skip


def kernel(statement: str) -> Any:
    """The kernel of a statement, under a file name of its own."""
    body = "".join(f"        {line}\n" for line in statement.splitlines())
    source, file = f"{HEAD.strip()}\n{body}{END.rstrip()}\n", f"<growth {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tl": tl, "tritium": tritium, "__name__": "growth"}
    exec(compile(source, file, "exec"), scope)
    return scope["kernel"]


def compiled(name: str, dtype: str, arch: str, count: int) -> Any:
    """The compiled kernel of `count` statements."""
    types = {"p": TYPES[dtype], "o": TYPES[dtype], "c": "*i32", "k": "i32", "s": "i32",
             "N": "constexpr"}  # fmt: skip
    source = ASTSource(kernel(STATEMENTS[name]), types, {"N": count})
    return tritium.compile(source, target=GPUTarget("cpu", arch, 1))


def measured(name: str, dtype: str, arch: str, count: int) -> tuple[float, int]:
    """Seconds of processor time of one compilation, and its lines of LLVM IR."""
    gc.collect()
    start = time.process_time()
    made = compiled(name, dtype, arch, count)
    return time.process_time() - start, made.asm["llir"].count("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="words in the names of statements")
    parser.add_argument("--arch", nargs="+", default=ARCHS)
    parser.add_argument("--types", nargs="+", default=list(TYPES), choices=TYPES)
    parser.add_argument("--sizes", nargs="+", type=int, default=[16, 32, 64])
    parser.add_argument("--lines", action="store_true")
    given = parser.parse_args()
    names = [n for n in STATEMENTS if not given.only or any(w in n for w in given.only)]
    with tempfile.TemporaryDirectory() as folder, knobs.compilation.scope(), knobs.cache.scope():
        knobs.compilation.always_compile, knobs.cache.dir = True, folder
        for arch in given.arch:
            compiled("sums", "i32", arch, 1)
            for name in names:
                for dtype in given.types if name in BY_SIZE else ["i32"]:
                    row = [measured(name, dtype, arch, size) for size in given.sizes]
                    print(line(arch, f"{name} {dtype}", given.sizes, row, given.lines), flush=True)


def line(arch: str, title: str, sizes: list[int], row: list[tuple[float, int]], lines: bool) -> str:
    """One row of the table."""
    times = [seconds for seconds, _ in row]
    growth = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
    slow = max(t * 64 / size for t, size in zip(times, sizes, strict=True) if size >= 64) > 2
    text = " ".join(f"{t:7.2f}" for t in times)
    if lines:
        text += " " + " ".join(f"{count:7}" for _, count in row)
    return f"{arch:16} {title:28} {text}  {growth:4.2f} {'*' * (growth > 1.3 or slow)}"


if __name__ == "__main__":
    main()
