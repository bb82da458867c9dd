"""The stored coefficients are as good as `tools/fit_polynomials.py` says they are."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest

from tritium.codegen.llvm.vmath import coefficients
from tritium.codegen.llvm.vmath.special import coefficients as special_coefficients


def _load_tool(name: str) -> Any:
    path = Path(__file__).parents[3] / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    digits = mp.mp.dps
    spec.loader.exec_module(module)
    mp.mp.dps = digits
    return module


tool = _load_tool("fit_polynomials")
special = _load_tool("fit_special")


@pytest.mark.parametrize("name", tool.FITS)
def test_error_is_within_its_limit(name: str) -> None:
    fit = tool.FITS[name]
    with mp.workdps(tool.DIGITS):
        stored = getattr(coefficients, name)
        assert len(stored) == fit.degree + 1
        assert tool.error_of(fit, stored, 150) <= fit.limit


@pytest.mark.every(6)
@pytest.mark.parametrize("name", special.FITS)
def test_error_of_special_functions(name: str) -> None:
    fit = special.FITS[name]
    with mp.workdps(tool.DIGITS):
        stored = getattr(special_coefficients, name)
        assert len(stored) == fit.degree + 1
        assert tool.error_of(fit, stored, 25) <= fit.limit


def test_zeros_of_bessel_functions() -> None:
    for name, zero in special.ZEROS.items():
        high, low = getattr(special_coefficients, name)
        assert high == float(zero) and abs(zero - high - mp.mpf(low)) < 1e-30


def test_the_generator_reproduces_a_fit() -> None:
    fit = tool.FITS["SIN_F64"]
    with mp.workdps(tool.DIGITS):
        assert tool.rounded(tool.remez(fit), fit.bits) == coefficients.SIN_F64


def test_limits_are_sharp_enough_to_notice_a_change() -> None:
    fit = tool.FITS["EXP_F32"]
    wrong = [c * (1 + 1e-5) for c in coefficients.EXP_F32]
    with mp.workdps(tool.DIGITS):
        assert tool.error_of(fit, wrong, 150) > fit.limit


def test_two_over_pi() -> None:
    with mp.workprec(1400):
        stored = 0
        for word in coefficients.TWO_OVER_PI_BITS:
            stored = stored << 64 | word
        assert stored == int(mp.floor(mp.ldexp(2 / mp.pi, 1280)))
