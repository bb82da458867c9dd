"""Chains of thousands of dependent ops: no recursive call for each, whatever Python's limit."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.analysis.recursion import resolve
from tritium.compiler import ASTSource
from tritium.errors import CompilationError
from tritium.language.jit import dependencies
from tritium.target import GPUTarget


@tritium.jit
def numbers(x, out, n, LENGTH: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x + i)
    for t in tl.static_range(LENGTH):
        a = a * 0.5 + t % 7
    tl.store(out + i, a)


@tritium.jit
def moves(x, out, n, LENGTH: tl.constexpr):
    i = tl.arange(0, 4)
    at = i[:, None] * 4 + i[None, :]
    a = tl.load(x + at)
    for t in tl.static_range(LENGTH):
        a = tl.trans(a) * 0.5 + t % 7
    tl.store(out + at, a)


@tritium.jit
def indices(x, out, n, LENGTH: tl.constexpr):
    i = tl.arange(0, 16)
    k = i
    for t in tl.static_range(LENGTH):
        k = (k + n) * 3 - t
    tl.store(out + i, (k % 1024).to(tl.float32) + tl.load(x + k % 2 * 0 + i))


@tritium.jit
def in_a_loop(x, out, n, LENGTH: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x + i)
    for _ in range(2):
        for t in tl.static_range(LENGTH):
            a = a * 0.5 + t % 7
    tl.store(out + i, a)


def _expected(name: str, x: Any, n: int, length: int) -> Any:
    if name == "indices":
        k = np.arange(16, dtype=np.int32)
        with np.errstate(over="ignore"):
            for t in range(length):
                k = (k + np.int32(n)) * np.int32(3) - np.int32(t)
        return np.fmod(k, 1024) + x
    a = x.reshape(4, 4) if name == "moves" else x
    for _ in range(2 if name == "in_a_loop" else 1):
        for t in range(length):
            a = (a.T if name == "moves" else a) * np.float32(0.5) + np.float32(t % 7)
    return a.reshape(16)


@pytest.mark.parametrize(
    ("kernel", "length"), [(numbers, 600), (moves, 400), (indices, 300), (in_a_loop, 500)],
    ids=lambda v: getattr(v, "__name__", v),
)  # fmt: skip
@pytest.mark.every(3)
def test_chains(kernel: Any, length: int) -> None:
    assert sys.getrecursionlimit() <= 3000
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    kernel[(1,)](x, out, 3, LENGTH=length)
    np.testing.assert_allclose(out, _expected(kernel.__name__, x, 3, length), rtol=1e-5)


def _kernel(body: str) -> Any:
    source = f"@tritium.jit\ndef kernel(x, out):\n    s = tl.load(x)\n{body}"
    file = f"<chain {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tl": tl, "tritium": tritium, "__name__": "chains"}
    exec(compile(source, file, "exec"), scope)
    return scope["kernel"]


def test_a_long_sum_in_one_expression() -> None:
    x, out = np.full(1, 2, np.float32), np.zeros(1, np.float32)
    _kernel(f"    tl.store(out, {'+'.join(['s'] * 800)})\n")[(1,)](x, out)
    assert out[0] == 1600


def test_the_library_is_not_walked_for_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _kernel("    tl.store(out, tl.sum(tl.zeros((8,), tl.float32) + tl.cdiv(3, 2)))\n")
    monkeypatch.setattr(dependencies.syntax, "parse", None)
    assert dependencies.digest(kernel)[1] == {}


def test_a_chain_of_conditions() -> None:
    chain = "".join(f"    {'el' * (i > 0)}if s == {i}:\n        r = {i}.5\n" for i in range(200))
    x, out = np.full(1, 150, np.float32), np.zeros(1, np.float32)
    _kernel(f"    r = 0.0\n{chain}    tl.store(out, r)\n")[(1,)](x, out)
    assert out[0] == 150.5


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.every(2)
def test_a_chain_of_conditional_expressions(
    interpret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", str(int(interpret)))
    chain = "".join(f"{i}.5 if s == {i} else " for i in range(260))
    x, out = np.full(1, 259, np.float32), np.zeros(1, np.float32)
    kernel = _kernel(f"    tl.store(out, {chain}-1.0)\n")
    kernel[(1,)](x, out)
    assert out[0] == 259.5
    x[0] = 400
    kernel[(1,)](x, out)
    assert out[0] == -1
    if not interpret:
        source = ASTSource(kernel, {"x": "*fp32", "out": "*fp32"}, {})
        assert tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


def test_a_chain_of_calls_that_is_too_long_is_explained() -> None:
    lines = ["@tritium.jit\ndef f0(x):\n    return x + 1\n"]
    lines += [f"@tritium.jit\ndef f{i}(x):\n    return f{i - 1}(x) + 1\n" for i in range(1, 150)]
    scope: dict[str, Any] = {"tl": tl, "tritium": tritium, "__name__": "chains"}
    for i, source in enumerate(lines):
        file = f"<call {i}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), scope)
    x = np.zeros(1, np.float32)
    scope["f40"].cache_key  # noqa: B018
    kernel = _kernel("    tl.store(out, deep(s))\n")
    kernel.__globals__["deep"] = kernel.fn.__globals__["deep"] = scope["f149"]
    with pytest.raises(CompilationError, match="this is nested too deeply"):
        kernel[(1,)](x, x)
    kernel = _kernel("    tl.store(out, deep(s))\n")
    kernel.__globals__["deep"] = kernel.fn.__globals__["deep"] = scope["f40"]
    kernel[(1,)](x, x)
    assert x[0] == 41


def test_a_chain_of_conditions_that_is_too_long_is_explained() -> None:
    chain = "".join(f"    {'el' * (i > 0)}if s == {i}:\n        r = {i}.5\n" for i in range(900))
    x = np.zeros(1, np.float32)
    with pytest.raises(CompilationError, match="this is nested too deeply"):
        _kernel(f"    r = 0.0\n{chain}    tl.store(out, r)\n")[(1,)](x, x)


def test_resolve_asks_a_rule_once_for_each_key() -> None:
    asked: list[int] = []

    def rule(key: int) -> Generator[int, int, int]:
        asked.append(key)
        if key < 2:
            return key
        first = yield key - 1
        second = yield key - 2
        return (first + second) % 1000

    assert resolve(10_000, rule, {}) == 875
    assert sorted(asked) == list(range(10_001))
