"""Conversions of 8-bit floats on AMD GPUs: what is written, executed with a model of the
instructions that follows AMD's documents, against the meaning of the op; and the instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.amd.execution.run import execute
from tests.amd.kernels import compiled
from tritium.backends.amd.lower.conversions import AMDConversions, formats_of
from tritium.codegen.llvm.writer import Value
from tritium.ir import types as ir
from tritium.ops.arith.casts import RoundingMode, round_float

DTYPES: dict[str, Any] = {
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz, "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
    "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2,
}  # fmt: skip
LANGUAGE = {"fp8e4b8": tl.float8e4b8, "fp8e5b16": tl.float8e5b16, "fp8e4nv": tl.float8e4nv,
            "fp8e5": tl.float8e5}  # fmt: skip
CASES = [(arch, name) for arch in ("gfx942", "gfx950", "gfx1200", "gfx1250")
         for name in formats_of(arch)]  # fmt: skip
_SOURCES = {"float": np.float32, "half": np.float16, "bfloat": ml_dtypes.bfloat16}


class Numbers:
    """An LLVM value: its type, and its numbers in many threads."""

    def __init__(self, type: str, numbers: Any):
        self.type, self.numbers = type, numbers


class Model:
    """The part of an emitter that conversions use, on the numbers of all threads."""

    def __init__(self, formats: dict[str, Any]):
        self.f, self._formats = self, formats

    def i32(self, number: int) -> Any:
        return Value("i32", str(number))

    def cast(self, opcode: str, value: Any, type: str) -> Numbers:
        if opcode == "fpext":
            return Numbers(type, value.numbers.astype(np.float32))
        assert (opcode, type) in (("zext", "i32"), ("trunc", "i8"))
        return Numbers(type, value.numbers.astype(np.uint32 if type == "i32" else np.uint8))

    def fcmp(self, predicate: str, left: Any, right: Any) -> Numbers:
        assert predicate == "uno" and left is right
        return Numbers("i1", np.isnan(left.numbers))

    def select(self, condition: Any, then: Any, other: Any) -> Numbers:
        return Numbers(then.type, np.where(condition.numbers, then.numbers, other.numbers))

    def intrinsic(self, name: str, *values: Any) -> Numbers:
        """`minimum` and `maximum`: NaN if one is NaN, as NumPy's."""
        return Numbers("float", getattr(np, name)(values[0].numbers, number(values[1])))

    def call(self, type: str, name: str, *values: Any) -> Numbers:
        x = values[0].numbers
        if name.endswith(".fmed3.f32"):
            low, high = map(number, values[1:])
            return Numbers(type, np.fmin(np.fmax(x, low), high))  # loses NaN, as v_med3 does
        form = name.split(".")[-2 if ".cvt.pk." in name else -1]
        if ".cvt.pk." in name:  # to nearest even; beyond the largest: infinity, or NaN
            assert values[1] is values[0]
            code = x.astype(self._formats[form]).view(np.uint8).astype(np.uint32)
            return Numbers(type, code | code << 8 | 0xABCD0000)
        assert name == f"llvm.amdgcn.cvt.f32.{form}" and values[1].ref == "0"
        return Numbers(type, (x & 255).astype(np.uint8).view(self._formats[form])
                       .astype(np.float32))  # fmt: skip


def number(constant: Any) -> np.float32:
    """The number of a constant."""
    bits = int(constant.ref, 16)
    return np.uint64(bits).view(np.float64).astype(np.float32)


def model_of(arch: str) -> Any:
    names = dict(zip(("fp8", "bf8"), formats_of(arch), strict=True))
    return Model({form: DTYPES[name] for form, name in names.items()})


def numbers_near(dtype: Any) -> Any:
    """All numbers of a format, what lies half way between neighbours and just beside that, too
    large ones, infinities, NaN, and tiny ones."""
    all_: Any = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    some = np.unique(all_[np.isfinite(all_)])
    middles = (some[1:] + some[:-1]) / 2
    top = some.max() * np.array([1, 1.03, 1.0625, 1.07, 1.125, 1.5, 2, 1e30, np.inf])
    found = np.concatenate([some, middles, top, -top, [1e-30, -1e-30, 0.0, -0.0, np.nan]])
    single = found.astype(np.float32)
    return np.concatenate([single, np.nextafter(single, np.float32(np.inf)),
                           np.nextafter(single, -np.float32(np.inf))])  # fmt: skip


@pytest.mark.parametrize("source", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(("arch", "name"), CASES)
def test_narrowing_is_what_the_op_means(arch: str, name: str, source: str) -> None:
    held = {"fp32": "float", "fp16": "half", "bf16": "bfloat"}[source]
    with np.errstate(over="ignore"):
        x = numbers_near(DTYPES[name]).astype(_SOURCES[held])
    found: Any = AMDConversions(arch).fp8(model_of(arch), Numbers(held, x), source, name)
    top = float(ml_dtypes.finfo(DTYPES[name]).max)
    wanted = round_float(np.clip(x.astype(np.float64), -top, top), np.dtype(DTYPES[name]),
                         RoundingMode.TO_NEAREST_EVEN)  # fmt: skip
    nan = np.isnan(x.astype(np.float32))
    assert np.isnan(found.numbers.view(DTYPES[name])[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(found.numbers[~nan], wanted.view(np.uint8)[~nan])


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_widening_is_exact(arch: str, name: str) -> None:
    codes: Any = np.arange(256, dtype=np.uint8)
    found: Any = AMDConversions(arch).fp8(model_of(arch), Numbers("i8", codes), name, "fp16")
    assert found.type == "float"
    np.testing.assert_array_equal(found.numbers, codes.view(DTYPES[name]).astype(np.float32))


def test_other_formats_take_integer_arithmetic() -> None:
    def asked(arch: str, *pair: str) -> Any:
        convert: Callable[..., Any] = AMDConversions(arch).fp8
        return convert(None, Value("i8", "%x"), *pair)

    assert asked("gfx942", "fp32", "fp8e4nv") is asked("gfx942", "fp8e5", "fp32") is None
    assert asked("gfx950", "fp64", "fp8e4nv") is asked("gfx950", "fp32", "fp8e4b8") is None
    assert asked("gfx90a", "fp32", "fp8e4b8") is asked("gfx1100", "fp8e5", "fp16") is None


@tritium.jit
def cast(x, out, T: tl.constexpr):
    i = tl.arange(0, 1024)
    tl.store(out + i, tl.load(x + i).to(T))


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "name"), CASES)
def test_instructions(arch: str, name: str) -> None:
    form = "bf8" if name in ("fp8e5", "fp8e5b16") else "fp8"
    for kind, wide in (("fp32", tl.float32), ("fp16", tl.float16), ("bf16", tl.bfloat16)):
        down = compiled(cast, f"*{kind} *{name}", arch, constants={"T": LANGUAGE[name]})
        up = compiled(cast, f"*{name} *{kind}", arch, constants={"T": wide})
        for kernel, wanted in ((down, f"v_cvt_pk_{form}_f32"), (up, f"v_cvt_f32_{form}")):
            code = kernel.asm["amdgcn"].partition(".rodata")[0]
            assert len(re.findall(rf"\t{wanted}", code)) >= 4, (kind, wanted)
            assert len(re.findall(r"^\t[vs]_", code, re.M)) < 90


@tritium.jit
def widen(x, out):
    i = tl.arange(0, 1024)
    tl.store(out + i, tl.load(x + i).to(tl.float16))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_pairs_are_widened_by_moving_bytes(arch: str) -> None:
    kernel = compiled(widen, "*fp8e5 *fp16", arch)
    assert "llvm.amdgcn.perm" in kernel.asm["llir"]
    codes, out = (np.arange(1024) % 256).astype(np.uint8), np.zeros(1024, np.uint16)
    execute(kernel, (1,), (codes, out))
    np.testing.assert_array_equal(out, codes.astype(np.uint16) << 8)


def test_formats_are_known() -> None:
    assert {t for _, t in CASES} == set(DTYPES)
    assert ir.numpy_dtype(ir.f8e4m3fnuz) == np.dtype(DTYPES["fp8e4b8"])
