"""Functions of floats on AMD GPUs: the instructions that their accuracy needs."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.amd.kernels import compiled


@tritium.jit
def quotients(x, y, out, KIND: tl.constexpr):
    i = tl.arange(0, 64)
    a, b = tl.load(x + i), tl.load(y + i)
    if KIND == "/":
        c = a / b
    elif KIND == "fdiv":
        c = tl.fdiv(a, b)
    elif KIND == "approx":
        c = tl.fdiv(a, b, approx=True)
    elif KIND == "div_rn":
        c = tl.div_rn(a, b)
    elif KIND == "softmax":
        c = tl.softmax(a)
    else:
        c = tl.sigmoid(a)
    tl.store(out + i, c)


def words(kernel: Any) -> set[str]:
    """The instructions of a kernel, without their encodings."""
    code = kernel.asm["amdgcn"].partition(".section\t.rodata")[0]
    return {w.removesuffix("_e32") for w in re.findall(r"^\t(v_\w+)", code, re.M)}


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1250"])
@pytest.mark.parametrize("kind", ["/", "fdiv", "div_rn", "softmax", "sigmoid"])
def test_quotients_of_floats_are_rounded_to_nearest(kind: str, arch: str) -> None:
    kernel = compiled(quotients, "*fp32 *fp32 *fp32", arch, constants={"KIND": kind})
    assert {"v_div_scale_f32", "v_div_fmas_f32", "v_div_fixup_f32"} <= words(kernel)
    assert "!fpmath" not in kernel.asm["llir"]


def test_an_approximate_quotient_is_a_product_with_a_reciprocal() -> None:
    kernel = compiled(quotients, "*fp32 *fp32 *fp32", constants={"KIND": "approx"})
    assert "v_rcp_f32" in words(kernel) and "v_div_fixup_f32" not in words(kernel)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1200"])
def test_quotients_of_halves_are_rounded_to_nearest(arch: str) -> None:
    """LLVM's sequence for halves, as a quotient rounded to float has digits for them to spare."""
    kernel = compiled(quotients, "*fp16 *fp16 *fp16", arch, constants={"KIND": "/"})
    assert "v_div_fixup_f16" in words(kernel) and "v_div_scale_f32" not in words(kernel)
