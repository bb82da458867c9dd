"""The work of compiling grows with the kernel's length, not faster: Python calls are counted."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from cProfile import Profile
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.backends.cpu.tiles.version import Version
from tritium.compiler import ASTSource
from tritium.native.host import host
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

TILE = "    i = tl.arange(0, 64)\n    x = tl.load(p + i)\n"
END = "    tl.store(o + tl.arange(0, 64), x)\n"


def _repeated(*lines: str) -> Any:
    text = "".join(f"    {line}\n" for line in lines)
    return lambda count: TILE + "".join(text.replace("K", str(k)) for k in range(count)) + END


def _nested(head: str) -> Any:
    def body(count: int) -> str:
        lines = [f"{'    ' * (k + 1)}{head}\n".replace("K", str(k)) for k in range(count)]
        inner = [f"{'    ' * (k + 2)}x = x + {k}\n" for k in range(count)]
        return TILE + "".join(a + b for a, b in zip(lines, inner, strict=True)) + END

    return body


BODIES = {
    "loads at loaded places": _repeated("i = (i + tl.load(p + i)) & 63", "x += i"),
    "loads and stores": _repeated("tl.store(o + 64 * K + i, tl.load(p + 64 * K + i) + 1)"),
    "in place": _repeated("tl.store(p + 64 * K + i, tl.load(p + 64 * K + i) + 1)"),
    "masked loads": _repeated("x += tl.load(p + i + K, mask=i < n - K, other=0)"),
    "selections": _repeated("x = tl.where(x > K, x + 1, x)"),
    "gathers": _repeated("x = x + tl.gather(x, i ^ (1 << K % 6), 0)"),
    "sums": _repeated("x = x - tl.sum(x, 0)"),
    "scans": _repeated("x = x + tl.cumsum(x, 0)"),
    "transpositions": _repeated(
        "x = x + tl.reshape(tl.trans(tl.reshape(x, (4, 16))), (64,))"
    ),
    "splits": _repeated(
        "a, b = tl.split(tl.reshape(x, (32, 2)))", "x = tl.reshape(tl.join(a + b, a - b), (64,))"
    ),
    "branches": _repeated("if n > K:\n        x = x + K"),
    "loops": _repeated("for t in range(n):\n        x = x + K"),
    "nested branches": _nested("if n > K:"),
    "a chain of conditions": lambda count: (
        TILE
        + "".join(f"    {'el' * (k > 0)}if n == {k}:\n        x += {k}\n" for k in range(count))
        + END
    ),
}  # fmt: skip


def _kernel(body: str, parameters: str = "p, o, n") -> Any:
    source = f"@tritium.jit\ndef kernel({parameters}):\n{body}"
    file = f"<work {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tl": tl, "tritium": tritium, "__name__": "work"}
    exec(compile(source, file, "exec"), scope)
    return scope["kernel"]


def _counted(work: Callable[[], object], builtins: bool = False) -> int:
    """The calls of Python's functions, with those of `builtins` or without."""
    profile = Profile(builtins=builtins)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def _compiled(body: str) -> Any:
    x = np.zeros(64 * 64, np.int32)
    return _kernel(body).warmup(x, x, 3, grid=(1,))


def _calls(body: str) -> int:
    return _counted(lambda: _compiled(body))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if i % 2 else n for i, n in enumerate(BODIES)],
)
def test_work_is_linear(name: str) -> None:
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        _calls(BODIES[name](2))
        few, many = (_calls(BODIES[name](count)) for count in (8, 32))
    # A little more than four times: a value is kept after each 24 moves, in a nest of its own.
    assert many < 4.4 * few, f"{few} calls for 8, {many} for 32"


def test_nested_loops_take_work_for_each() -> None:
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        body = _nested("for tK in range(n):")
        _calls(body(2))
        few, many = (_calls(body(count)) for count in (4, 16))
    assert many < 5.5 * few, f"{few} calls for 4, {many} for 16"


def test_versions_look_for_the_masks_of_loads_once() -> None:
    def calls(count: int) -> int:
        ttir = _compiled(BODIES["sums"](count)).asm["ttir"]
        module = lower_to_tiles(parse_module(ttir), host())
        return _counted(lambda: Version().run(module), builtins=True)

    few, many = calls(8), calls(32)
    assert many < 4.4 * few, f"{few} calls for 8, {many} for 32"


MASKED: dict[str, str] = {
    "loads": "x += tl.load(p + 64 * K + i, mask=x > K, other=0)",
    "loads of rows": "x += tl.load(p + 64 * K + i, mask=i * 0 + n > K, other=0)",
    "stores": "tl.store(o + 64 * K + i, x + K, mask=x > K)",
    "scatters": "tl.store(o + 2 * K * x, x + K, mask=x > K)",
}


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [("haswell", "i16"), ("haswell", "i8"), ("x86-64", "i32"), ("cortex-a76", "i64")],
)
@pytest.mark.parametrize("name", MASKED)
def test_masks_that_no_instruction_takes_are_not_left_to_llvm(
    name: str, arch: str, dtype: str
) -> None:
    """LLVM writes branches for each lane, in a time that is the square of their number."""

    def lines(count: int) -> int:
        kernel = _kernel(_repeated(MASKED[name])(count))
        types = {"p": f"*{dtype}", "o": f"*{dtype}", "n": "i32"}
        made = tritium.compile(ASTSource(kernel, types, {}), target=GPUTarget("cpu", arch, 1))
        assert "@llvm.masked." not in made.asm["llir"]
        return made.asm["llir"].count("\n")

    few, many = lines(4), lines(16)
    assert many < 4.4 * few, f"{few} lines for 4, {many} for 16"


def test_code_grows_with_the_number_of_outputs() -> None:
    """Stores through different pointers are not tested pair by pair for overlap."""

    def lines(count: int) -> int:
        outputs = [f"o{k}" for k in range(count)]
        body = TILE + "".join(f"    tl.store({o} + i, x + {k})\n" for k, o in enumerate(outputs))
        x = np.zeros(64, np.int32)
        kernel = _kernel(body, ", ".join(["p", *outputs]))
        return kernel.warmup(x, *[x] * count, grid=(1,)).asm["llir"].count("\n")

    few, many = lines(16), lines(64)
    assert many < 4.4 * few, f"{few} lines for 16, {many} for 64"
