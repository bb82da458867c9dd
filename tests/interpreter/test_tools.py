"""Tools that run the programs of a grid themselves, by the names of the reference's interpreter."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tritium.compat.reference.runtime import interpreter as reference
from tritium.compat.reference.runtime.interpreter import (
    ASTTransformer,
    GridExecutor,
    InterpretedFunction,
    interpreter_builder,
)


def scaled(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for t in range(0, 3):
        total += tl.load(x + i, mask=i < n, other=0.0) * t
    total += tl.sum(total, axis=0)
    tl.store(out + i, total, mask=i < n)


def launch(order: list[Any]) -> np.ndarray:
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    InterpretedFunction(scaled).run(x, out, 6, 4, grid=(2,), warmup=False, order=order)
    return out


def run_backwards(self: GridExecutor, *args: Any, order: list[Any], **kwargs: Any) -> None:
    """Run the programs as tools do, the last one first."""
    args_hst, kwargs_hst = self._init_args_hst(args, kwargs)
    given = inspect.getcallargs(self.fn, *args_hst, **kwargs_hst)
    scope = reference._patch_lang(self.fn)
    scope.set_attr(tl, "sum", lambda value, axis: order.append(axis) or added(value, axis))
    try:
        for name, value in given.items():
            constant = name in self.constexprs
            given[name] = value if constant else reference._implicit_cvt(value)
        interpreter_builder.set_grid_dim(*self.grid, 1, 1)
        for number in reversed(range(self.grid[0])):
            interpreter_builder.set_grid_idx(number, 0, 0)
            order.append(interpreter_builder.grid_idx)
            self.fn(**given)
    finally:
        scope.restore()
    self._restore_args_dev(args, args_hst, kwargs, kwargs_hst)


added = tl.sum
WANTED = np.array([0, 3, 6, 9, 12, 15]) + np.array([18] * 4 + [27] * 2)


def test_programs_in_another_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(GridExecutor, "__call__", run_backwards)
    order: list[Any] = []
    np.testing.assert_array_equal(launch(order), WANTED)
    assert order == [(1, 0, 0), 0, (0, 0, 0), 0]
    assert tl.sum is added
    with pytest.raises(ValueError, match="inside a kernel"):
        _ = interpreter_builder.grid_idx


def test_loops_are_told(monkeypatch: pytest.MonkeyPatch):
    told: list[Any] = []

    def visit_for(self: ASTTransformer, node: ast.For) -> ast.For:
        call: Any = node.iter
        told.append((node.lineno, ast.unparse(call.func)))
        watched = ast.parse("watched(range)", mode="eval").body
        assert isinstance(watched, ast.Call)
        watched.args = [call.func]
        node.iter = watched
        return ast.fix_missing_locations(node)

    def watched(iterations: Any) -> Any:
        for value in iterations():
            told.append(int(value))
            yield value

    monkeypatch.setattr(ASTTransformer, "visit_For", visit_for, raising=False)
    monkeypatch.setitem(scaled.__globals__, "watched", watched)
    monkeypatch.setattr(GridExecutor, "__call__", run_backwards)
    np.testing.assert_array_equal(launch([]), WANTED)
    line = scaled.__code__.co_firstlineno + 3
    assert told == [(line, "range"), 0, 1, 2, 0, 1, 2]
    monkeypatch.undo()
    told.clear()
    InterpretedFunction(scaled)[(2,)](np.zeros(6, np.float32), np.zeros(6, np.float32), 6, 4)
    assert told == []


def test_tensors_with_a_dtype_of_their_own():
    class Inner:
        def data_ptr(self) -> int:
            return 0

    class Outer(Inner):
        def __init__(self, base: Any, dtype: Any):
            self.base, self.dtype = base, dtype

    inner = Inner()
    outer = Outer(inner, tl.float8e5)
    assert reference._unwrap_tensor(outer) is inner and reference._unwrap_tensor(inner) is inner
    again = reference._rewrap_tensor(Inner(), outer)
    assert type(again) is Outer and again.dtype is tl.float8e5 and again.base is not inner
    assert reference._rewrap_tensor(inner, Inner()) is inner
    assert reference._get_np_dtype(tl.bfloat16) == np.uint16
    assert reference._get_np_dtype(tl.float32) == np.float32
    assert reference._tuple_create((1, 2), [3, 4]) == (3, 4)
