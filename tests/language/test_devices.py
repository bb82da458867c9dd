"""Functions of some devices alone: conversions by NVIDIA's names, AMD's functions, targets."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tritium.compiler import ASTSource
from tritium.language import target_info
from tritium.language.extra import cuda, hip
from tritium.language.extra.cuda.utils import (
    convert_custom_float8,
    convert_float16_to_fp8e4b15,
    convert_fp8e4b15_to_float16,
)
from tritium.target import GPUTarget


def there_and_back(x, codes, out):
    at = tl.arange(0, 256)
    small = cuda.convert_custom_float8_sm80(tl.load(x + at), tl.float8e4b15)
    tl.store(codes + at, small.to(tl.uint8, bitcast=True))
    tl.store(out + at, cuda.convert_custom_float8_sm70(small, tl.float32))


def e4b15(codes: np.ndarray) -> np.ndarray:
    exponent, fraction = (codes >> 3) & 15, codes & 7
    normal = (1 + fraction / 8) * 2.0 ** (exponent - 15.0)
    number = np.where(exponent == 0, fraction / 8 * 2.0**-14, normal)
    return np.where(codes & 128, -number, number)


def test_float8_conversions():
    every = np.arange(256)
    exact = e4b15(every).astype(np.float32)
    found = run_all(there_and_back, x=exact, codes=np.zeros(256, np.uint8),
                    out=np.zeros(256, np.float32))  # fmt: skip
    largest = 1.75  # that of the code 0x7e; 0x7f and 0xff are not made
    np.testing.assert_array_equal(found["out"], np.clip(exact, -largest, largest))
    kept = np.abs(exact) <= largest
    assert (found["codes"][kept] == every[kept]).all()


def test_float8_conversions_round_halves_away_from_zero():
    x = [1 + 1 / 16, -1 - 1 / 16, 1 + 3 / 16, 1 + 1 / 32, 9, np.nan, -np.inf, 0]
    with eager():
        found = convert_float16_to_fp8e4b15(block(x, tl.float16), True)
        codes = found.to(tl.uint8, bitcast=True).value.view(np.uint8)
    assert e4b15(codes).tolist() == [1.125, -1.125, 1.25, 1.0, 1.75, 1.75, -1.75, 0]


def test_float8_on_a_gpu():
    kinds = {"x": "*fp32", "codes": "*u8", "out": "*fp32"}
    source = ASTSource(tritium.jit(there_and_back), kinds, {})
    assert tritium.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ptx"]


def test_float8_messages():
    with eager():
        half = block([1.0], tl.float16)
        back = convert_fp8e4b15_to_float16(convert_float16_to_fp8e4b15(half, has_minx2=False))
        assert back.value.tolist() == [1.0]
        with pytest.raises(TypeError, match="the argument is int32; a tensor of fp16 is required"):
            convert_float16_to_fp8e4b15(block([1]), True)
        with pytest.raises(TypeError, match="convert_custom_float8: int32 to fp8e4b15"):
            convert_custom_float8(block([1]), tl.float8e4b15, None, True)
        with pytest.raises(TypeError, match="convert_custom_float8: fp16 to fp32"):
            convert_custom_float8(half, tl.float32, None, True)


@pytest.mark.parametrize(
    ("function", "arity"),
    [(hip.smid, 0), (hip.num_warps, 0), (hip.num_threads, 0), (hip.libdevice.acos, 1),
     (hip.libdevice.popc, 1), (hip.libdevice.fast_dividef, 2), (hip.libdevice.fma, 3)],
    ids=lambda v: getattr(v, "__name__", str(v)),
)  # fmt: skip
def test_functions_of_amd(function, arity):
    """Those of the processor need one; functions of numbers are interpreted, too."""
    names = [n for n in inspect.signature(function).parameters if n != "_semantic"]
    assert names == [f"arg{i}" for i in range(arity)]
    arguments = [7] if function is hip.libdevice.popc else [0.5] * arity
    target = None if arity == 0 else GPUTarget("cuda", 90, 32)
    with eager(target=target), pytest.raises(NotImplementedError, match="needs an AMD GPU"):
        function(*arguments)
    if arity:
        wanted = {"acos": np.arccos(0.5), "popc": 3, "fast_dividef": 1.0, "fma": 0.75}
        with eager():
            found = function(*arguments)
        assert float(found.handle.array) == pytest.approx(wanted[function.__name__])


def test_targets_of_amd(monkeypatch):
    for arch, wanted in (("gfx1250", True), ("gfx1250:xnack-", True), ("gfx942", False)):
        with eager(target=GPUTarget("hip", arch, 32)):
            assert bool(target_info.is_hip_gfx1250()) is wanted
    with eager(target=GPUTarget("cuda", 90, 32)):
        assert not target_info.is_hip_gfx1250()
