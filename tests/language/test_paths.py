"""Modules of the language that programs import by the reference's paths."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.conformance.support import WAYS
from tritium.backends.base import make_backend
from tritium.compiler import ASTSource
from tritium.compiler.code_generator import CodeGenerator, ast_to_ttir
from tritium.errors import TritonError
from tritium.language import target_info
from tritium.language.extra import hip
from tritium.language.extra.hip import libdevice as hip_libdevice
from tritium.language.semantic import METHODS, TritonSemantic
from tritium.target import GPUTarget

CUDA = GPUTarget("cuda", 90, 32)

# target_info


@tritium.jit
def ask(out):
    tl.store(out + 0, target_info.is_cuda())
    tl.store(out + 1, target_info.cuda_capability_geq(9))
    tl.store(out + 2, target_info.cuda_capability_geq(9, 1))
    tl.store(out + 3, target_info.is_hip())
    if target_info.cuda_capability_geq(8, 0):
        tl.store(out + 4, 77)


@pytest.mark.cpu
def test_the_target_is_the_one_compiled_for():
    source = ASTSource(ask, {"out": "*i32"})
    text = tritium.compile(source, target=CUDA).asm["ttir"]
    assert "dense<77>" in text or "77 : i32" in text
    stored = [line.split(",")[1].split()[0] for line in text.splitlines() if "tt.store" in line]
    assert len(stored) == 5
    text = tritium.compile(source, target=tritium.runtime.driver.active.get_current_target())
    assert "77 : i32" not in text.asm["ttir"]


@pytest.mark.cpu
@pytest.mark.parametrize("way", WAYS)
def test_on_the_cpu(way: str):
    out = np.full(5, -1, np.int32)
    WAYS[way](ask.fn)[(1,)](out)
    assert out.tolist() == [0, 0, 0, 0, -1]


@pytest.mark.cpu
def test_outside_of_kernels():
    assert not target_info.is_cuda() and not target_info.is_hip_cdna3()
    assert target_info.current_target() == tritium.runtime.driver.active.get_current_target()


def test_capabilities(monkeypatch: pytest.MonkeyPatch):
    for target, found in ((GPUTarget("cuda", 89, 32), (True, False, False)),
                          (GPUTarget("cuda", 100, 32), (True, True, False)),
                          (GPUTarget("hip", "gfx942", 64), (False, False, True))):  # fmt: skip
        monkeypatch.setattr(target_info, "default_target", lambda target=target: target)
        geq = target_info.cuda_capability_geq
        assert (geq(8, 9), geq(9, 0), target_info.is_hip_cdna3()) == found
        assert not target_info.is_hip_cdna4()


# semantic


@tl.core.builtin
def twice_and_more(x, y, _semantic=None):
    doubled = _semantic.mul(x, 2, True)
    picked = _semantic.where(_semantic.greater_than(doubled, y), doubled, y)
    return _semantic.cast(picked, tl.float32)


@tl.core.extern
def shifted(x, _semantic=None):
    logical = _semantic.cast(_semantic.lshr(x, 28), tl.float32)
    return _semantic.add(logical, _semantic.ashr(input=x, other=28), sanitize_overflow=False)


def use_semantic(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, twice_and_more(value, 3))
    tl.store(out + N + i, shifted(value))


@pytest.mark.parametrize("way", WAYS)
def test_functions_that_take_a_semantic(way: str):
    x = np.array([-5, 0, 1, 2, 1 << 28, -(1 << 28), 7, 8], np.int32)
    out = np.zeros(16, np.float32)
    WAYS[way](use_semantic)[(1,)](x, out, 8)
    np.testing.assert_array_equal(out[:8], np.maximum(2 * x, 3).astype(np.float32))
    np.testing.assert_array_equal(out[8:], (x.view(np.uint32) >> 28).astype(np.float32) + (x >> 28))


@tl.core.builtin
def unknown_like(x, _semantic=None):
    made = _semantic.builder.create_poison(x.type.to_ir(_semantic.builder))
    return tl.core.tensor(made, x.type)


@tl.core.builtin
def absolute(x, _semantic=None):
    type = x.type.to_ir(_semantic.builder)
    made = _semantic.builder.create_extern_elementwise(
        "libdevice", "", "__nv_fabsf", [x.handle], type, True
    )
    return tl.core.tensor(made, x.type)


def use_builder(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    chosen = unknown_like(value)
    if n > 3:
        chosen = absolute(value)
    tl.store(out + i, chosen)


@pytest.mark.parametrize("way", WAYS)
def test_functions_that_build_single_operations(way: str):
    x, out = np.linspace(-3, 3, 16, dtype=np.float32), np.zeros(16, np.float32)
    WAYS[way](use_builder)[(1,)](x, out, 5, 16)
    np.testing.assert_array_equal(out, np.abs(x))


def test_other_operations_are_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"OperationBuilder\.create_fad:"):
        TritonSemantic().builder.create_fad()


def marked(function: Any) -> Any:
    """A program's own decorator for what kernels call with language values."""

    def wrapper(*args: Any, _semantic: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, builder=_semantic)

    setattr(wrapper, "__triton_builtin__", True)  # noqa: B010
    return wrapper


@marked
def power_above(n: Any, builder: Any) -> Any:
    assert isinstance(n, tl.constexpr) and hasattr(builder, "scalar_constant")
    return tl.constexpr(tritium.next_power_of_2(n.value))


@marked
def unless_none(mask: Any, value: Any, builder: Any) -> Any:
    return tl.constexpr(None) if isinstance(mask, tl.constexpr) and mask.value is None else value


def use_marked(x, out, N: tl.constexpr):
    SIZE: tl.constexpr = power_above(N)
    i = tl.arange(0, SIZE)
    mask = i < N
    value = tl.load(x + i, mask, other=unless_none(mask, 7.0))
    tl.store(out + i, value + (unless_none(None, 1.0) is None))


@pytest.mark.parametrize("way", WAYS)
def test_functions_with_the_mark_of_builtins(way: str):
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    WAYS[way](use_marked)[(1,)](x, out, 5)
    assert out.tolist() == [1, 2, 3, 4, 5, 8, 8, 8]


def every_kind(x, out, N: tl.constexpr):
    check_all(x, out, N)


@tl.core.builtin
def check_all(x, out, n, _semantic=None):
    s = _semantic
    i = s.arange(0, n)
    value = s.load(s.add(x, i, True), None, None, (), "", "", "", False)
    rows = s.reshape(value, [2, n // 2], False)
    assert s.permute(rows, (1, 0)).shape == [n // 2, 2]
    a, b = s.split(s.join(value, s.full([n], 1.0, tl.float32)))
    a, b, c = s.broadcast_tensors([a, b, s.splat(s.scalar_constant(2.0, tl.float32), [n])])
    a = s.minimum(s.maximum(a, b, tl.PropagateNan.NONE), s.add(c, c, True), tl.PropagateNan.NONE)
    a = s.fdiv(s.sub(a, s.minus(b), True), c, True)
    mask = s.logical_and(s.less_than(i, n - 1), s.not_equal(i, 2))
    s.store(s.add(out, i, True), a, mask, (), "", "")
    s.atomic_add(out, 1.0, None, None, None)


@pytest.mark.parametrize("way", WAYS)
def test_its_methods(way: str):
    x = np.array([-5, 0.5, 1, 2, 3, 4, 9, 1], np.float32)
    out = np.full(8, -1, np.float32)
    WAYS[way](every_kind)[(1,)](x, out, 8)
    want = (np.clip(x, 1, 4) + 1) / 2
    want[[2, 7]] = -1
    want[0] += 1
    np.testing.assert_array_equal(out, want)


def test_what_it_has_not():
    with pytest.raises(NotImplementedError, match=r"TritonSemantic.reduction: not built"):
        TritonSemantic().reduction([], 0, None)
    with pytest.raises(TypeError, match=r"missing a required argument: 'other'"):
        TritonSemantic().floordiv(1)
    assert len(METHODS) > 80 and not hasattr(TritonSemantic, "__wrapped__")


# hip


def time_it(out):
    tl.store(out, hip.memrealtime())


def angle(out):
    tl.store(out, hip_libdevice.acos(-1.0).to(tl.int64))


@pytest.mark.parametrize("way", WAYS)
def test_what_needs_an_amd_gpu(way: str):
    out = np.zeros(1, np.int64)
    with pytest.raises((TritonError, NotImplementedError), match=r"memrealtime needs an AMD GPU"):
        WAYS[way](time_it)[(1,)](out)
    if way == "interpreted":
        WAYS[way](angle)[(1,)](out)
        assert out[0] == 3
        return
    with pytest.raises((TritonError, NotImplementedError), match=r"acos needs .*\.acos is"):
        WAYS[way](angle)[(1,)](out)


# code_generator


@pytest.mark.cpu
def test_from_a_function_to_its_module():
    source = ASTSource(ask, {"out": "*i32"})
    options = make_backend(CUDA).parse_options({"arch": "sm90"})
    text = str(ast_to_ttir(ask, source, None, options, {}, {}))
    assert "tt.func public @ask" in text
    names = list(inspect.signature(ast_to_ttir).parameters)
    assert names[:6] == ["fn", "src", "context", "options", "codegen_fns", "module_map"]
    with pytest.raises(NotImplementedError, match=r"kernels are generated by tritium.frontend"):
        CodeGenerator()
    with pytest.raises(ValueError, match=r"the options are those of 'cuda', without an arch"):
        ast_to_ttir(ask, source, None, replace(options, arch=None))
