"""Source lines in PTX and in cubins, with call sites of what was inlined."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.target import GPUTarget


@tritium.jit
def twice(x):
    return x + x


@tritium.jit
def outer(x):
    return twice(x) * 3


@tritium.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < tl.cdiv(n, 2))
    tl.store(x_ptr + offsets, outer(x))


def line_of(function: Any, text: str) -> int:
    """The line of this file that `text` is on."""
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def compiled() -> Any:
    source = tritium.compiler.ASTSource(
        kernel, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024}
    )
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32))


NAME = Path(__file__).name


@pytest.mark.ptxas
def test_lines_of_the_kernel(fresh_cache: Path):
    ptx = compiled().asm["ptx"]
    files = re.findall(r'^\s*\.file\s+\d+ "([^"]+)"', ptx, re.M)
    assert str(Path(__file__)) in files
    for text in ("tl.load(", "tl.store("):
        assert re.search(rf"\.loc\s+\d+ {line_of(kernel, text)} \d+", ptx), text


@pytest.mark.ptxas
def test_call_sites_of_what_was_inlined(fresh_cache: Path):
    ptx = compiled().asm["ptx"]
    inner, middle = line_of(twice, "x + x"), line_of(outer, "twice(x)")
    last = line_of(kernel, "outer(x)")
    chain = rf"{NAME}:{inner}:\d+ @\[ {NAME}:{middle}:\d+ @\[ {NAME}:{last}:\d+ \] \]"
    assert re.search(chain, ptx)
    # A function of another file.
    cdiv = line_of(kernel, "tl.cdiv")
    assert re.search(rf"standard\.py:\d+:\d+ @\[ {NAME}:{cdiv}:\d+ \]", ptx)


@pytest.mark.ptxas
def test_functions_in_the_metadata(fresh_cache: Path):
    llir = compiled().asm["llir"]
    for name in ("kernel", "outer", "twice", "cdiv"):
        assert f'distinct !DISubprogram(name: "{name}"' in llir


@pytest.mark.ptxas
def test_the_cubin_has_a_line_table(fresh_cache: Path):
    assert b".debug_line" in compiled().asm["cubin"]


@pytest.mark.ptxas
def test_no_lines_if_told(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    asm = compiled().asm
    assert ".loc" not in asm["ptx"] and "!dbg" not in asm["llir"]
    assert b".debug_line" not in asm["cubin"]
