"""Keyword options of launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.base import instrumentation
from tritium.runtime.interpreted import InterpretedFunction


@pytest.fixture
def kernel() -> Any:
    @tritium.jit
    def fill(out, n):
        tl.device_assert(n < 100, "too many")
        tl.store(out, n)

    return fill


FOREIGN = {
    "num_warps": 8, "num_stages": 4, "num_ctas": 1, "waves_per_eu": 2, "matrix_instr_nonkdim": 16,
    "kpack": 1, "enable_fp_fusion": False, "maxnreg": 128, "launch_pdl": True, "ptx_version": 80,
    "launch_cooperative_grid": False, "schedule_hint": "none",
    "extern_libs": {"a": "/nowhere/a.bc"}, "cluster_dims": [1, 1, 1], "allow_flush_denorm": True,
    "num_consumer_groups": 2, "num_buffers_warp_spec": 2, "reg_dec_producer": 40,
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_options_of_other_backends(kernel: Any, name: str) -> None:
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, 3, **{name: FOREIGN[name]})
    assert out[0] == 3
    InterpretedFunction(kernel.fn)[(1,)](out, 4, **{name: FOREIGN[name]})
    assert out[0] == 4


def test_options_are_in_the_metadata(kernel: Any) -> None:
    compiled = kernel[(1,)](np.zeros(1), 3, num_warps=8, num_stages=2, num_ctas=2, maxnreg=64)
    metadata = compiled.metadata
    assert (metadata.num_warps, metadata.num_stages, metadata.num_ctas) == (8, 2, 2)
    assert metadata.maxnreg == 64


@pytest.mark.parametrize("four", [np.int64(4), np.uint8(4), tl.constexpr(4)], ids=repr)
def test_integers_of_other_types(kernel: Any, four: Any) -> None:
    metadata = kernel[(1,)](np.zeros(1), 3, num_warps=four, num_stages=four).metadata
    assert type(metadata.num_warps) is int and (metadata.num_warps, metadata.num_stages) == (4, 4)


def test_libraries_that_are_none(kernel: Any) -> None:
    with pytest.raises(TypeError, match="extern_libs is 3; a dict of names and paths is required"):
        kernel[(1,)](np.zeros(1), 3, extern_libs=3)


def test_none_is_the_default(kernel: Any) -> None:
    assert kernel[(1,)](np.zeros(1), 3, num_warps=None).metadata.num_warps == 4


def test_each_combination_is_a_kernel(kernel: Any) -> None:
    out = np.zeros(1)
    first = kernel[(1,)](out, 3)
    assert kernel[(1,)](out, 3, num_warps=8) is not first
    assert kernel[(1,)](out, 3, extern_libs={"a": "b"}) is not first
    again = kernel[(1,)](out, 3, extern_libs={"a": "b"})
    assert kernel[(1,)](out, 3, extern_libs={"a": "b"}) is again
    assert kernel[(1,)](out, 3, extern_libs={"a": "c"}) is not again


@pytest.mark.parametrize("name", ["num_warp", "BLOCK", "stream", "_x"])
def test_unknown_keyword(kernel: Any, name: str) -> None:
    with pytest.raises(KeyError, match=rf"Keyword argument {name} was specified but unrecognised"):
        kernel[(1,)](np.zeros(1), 3, **{name: 4})
    assert kernel[(1,)](np.zeros(1), 3) is not None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_warps": 3}, AssertionError, "num_warps must be a power of 2; got 3"),
        ({"num_warps": 0}, ValueError, "num_warps is 0; an int from 1 on is required"),
        ({"num_warps": "4"}, ValueError, "num_warps is '4'"),
        ({"num_stages": -1}, ValueError, "num_stages is -1"),
    ],
)
def test_bad_values(
    kernel: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kernel[(1,)](np.zeros(1), 3, **options)


def test_debug(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, 200)
    assert out[0] == 200
    with pytest.raises(RuntimeError, match=r"too many"):
        kernel[(1,)](out, 300, debug=True)
    monkeypatch.setenv("TRITON_DEBUG", "1")
    with pytest.raises(RuntimeError, match=r"too many"):
        kernel[(1,)](out, 300)
    monkeypatch.delenv("TRITON_DEBUG")
    kernel[(1,)](out, 301)
    debugged = tritium.jit(debug=True)(kernel.fn)
    with pytest.raises(RuntimeError, match=r"too many"):
        debugged[(1,)](out, 300)
    debugged[(1,)](out, 302, debug=False)
    assert out[0] == 302


def test_sanitize_overflow() -> None:
    @tritium.jit
    def add(out, x, y):
        tl.store(out, x + y)

    out = np.zeros(1, np.int32)
    with pytest.raises(RuntimeError, match=r"overflow"):
        add[(1,)](out, 2**31 - 2, 5, debug=True)
    add[(1,)](out, 2**31 - 2, 5, debug=True, sanitize_overflow=False)
    assert out[0] == -(2**31) + 3


def test_an_argument_may_have_an_options_name() -> None:
    @tritium.jit
    def fill(out, num_warps: tl.constexpr):
        tl.store(out, num_warps)

    out = np.zeros(1, np.int32)
    by_keyword = fill[(1,)](out, num_warps=8)
    assert (out[0], by_keyword.metadata.num_warps) == (8, 8)  # both, as in Triton 3.6
    by_position = fill[(1,)](out, 2)
    assert (out[0], by_position.metadata.num_warps) == (2, 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"fill\(\) missing 2 required positional arguments: 'out' and 'n'"),
        ((1,), {}, r"fill\(\) missing 1 required positional argument: 'n'"),
        ((1, 2, 3), {}, r"fill\(\) takes 2 positional arguments but 3 were given"),
        ((1, 2), {"n": 3}, r"fill\(\) got multiple values for argument 'n'"),
    ],
)
def test_arguments_that_do_not_match(
    kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        kernel[(1,)](*args, **kwargs)
    with pytest.raises(TypeError, match=message):
        kernel.warmup(*args, grid=(1,), **kwargs)


def test_keyword_only_and_variadic_parameters() -> None:
    @tritium.jit
    def keyword(out, *, value, other=5):
        tl.store(out, value + other)

    out = np.zeros(1, np.int32)
    keyword[(1,)](out, value=3)
    assert out[0] == 8
    with pytest.raises(TypeError, match=r"keyword\(\) takes 1 positional argument but 2"):
        keyword[(1,)](out, 3)

    @tritium.jit
    def named(out, **others):
        tl.store(out, 1)

    with pytest.raises(TypeError, match=r"named: a kernel cannot have \*\*others"):
        named[(1,)](out)


def test_logical_operators_on_blocks() -> None:
    @tritium.jit
    def logic(x, y, out, N: tl.constexpr):
        i = tl.arange(0, N)
        a, b = tl.load(x + i) > 0, tl.load(y + i) > 0
        both = a and b
        either = a or b
        neither = not either
        tl.store(out + i, both.to(tl.int32) + 2 * either.to(tl.int32) + 4 * neither.to(tl.int32))

    x, y, out = (np.array(v, np.int32) for v in ([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4))
    with pytest.warns(UserWarning, match=r"Logical operators 'and' and 'or' are deprecated"):
        logic[(1,)](x, y, out, 4)
    assert out.tolist() == [4, 2, 2, 3]


def test_instrumentation_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    @tritium.jit
    def kernel(out):
        tl.store(out, 3)

    out = np.zeros(1, np.int32)
    with pytest.raises(NotImplementedError, match="the instrumentation mma "):
        kernel[(1,)](out, instrumentation_mode="mma")
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "consan,fpsna")
    with pytest.raises(ValueError, match="is 'consan,fpsna'; fpsna is none of bounds, "):
        kernel[(1,)](out)
    monkeypatch.delenv("TRITON_INSTRUMENTATION_MODE")
    kernel[(1,)](out)
    assert out[0] == 3


def test_instrumentations_of_the_reference() -> None:
    built = ("bounds", "races", "fp")
    assert instrumentation("fpsan", ("fp", "exact")) == "exact"
    assert instrumentation("gsan, bounds,races", built) == "races,bounds"
    for name, check, lack in (
        ("consan", "races", "shared memory of clusters"), ("iisan", "bounds", "alignment"),
    ):  # fmt: skip
        with pytest.warns(UserWarning, match=f"{name} is {check} here: .*{lack}"):
            assert instrumentation(name, built) == check
    with pytest.raises(NotImplementedError, match="the instrumentation races "):
        instrumentation("gsan", ("bounds",))
    knobs.compilation.enable_asan = True
    assert instrumentation("gsan", built) == "bounds,races"
    assert instrumentation("", ()) == ""
    with pytest.raises(NotImplementedError, match=r"TRITON_ENABLE_ASAN beside .* default"):
        instrumentation("default", ("bounds", "default"))
