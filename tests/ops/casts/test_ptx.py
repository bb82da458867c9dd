"""Conversions in the PTX of each architecture."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled

pytestmark = pytest.mark.usefixtures("no_ptxas")


@tritium.jit
def to_small(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.load(x + i).to(tl.float8e5))


@pytest.mark.parametrize(("arch", "hardware"), [(80, False), (89, True), (90, True), (120, True)])
def test_fp8_is_converted_by_hardware_that_can(arch: int, hardware: bool):
    text = compiled(to_small, "*fp32 *fp8e5", arch).asm["ptx"]
    assert ("cvt.rn.satfinite.e5m2x2.f32" in text) == hardware


@tritium.jit
def to_bfloat(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.load(x + i).to(tl.bfloat16))


@pytest.mark.parametrize(("kind", "name"), [("fp64", "f64"), ("i32", "s32"), ("i64", "s64")])
@pytest.mark.parametrize("arch", [80, 90])
def test_bfloats_are_rounded_once(kind: str, name: str, arch: int):
    """Through a float toward zero whose last bit is odd where it is inexact, or directly."""
    text = compiled(to_bfloat, f"*{kind} *bf16", arch).asm["ptx"]
    assert f"cvt.rn.f32.{name}" not in text
    assert f"cvt.rz.f32.{name}" in text or f"cvt.rn.bf16.{name}" in text
