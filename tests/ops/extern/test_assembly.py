"""Inline assembly of the host, in native kernels."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tritium
from tests.conformance.support import build
from tritium.errors import CompilationError

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "AMD64"), reason="the assembly below is of x86-64"
    ),
]
X = np.arange(-15, 17, dtype=np.int32)


def run(body: str, out: Any = None) -> np.ndarray:
    """The output of a kernel of `v`, a block of X at the offsets `o`."""
    out = np.zeros(32, np.int32) if out is None else out
    lines = "o = tl.arange(0, 32)\nv = tl.load(x + o)\n" + body
    source = "def kernel(x, out):\n" + "\n".join("    " + line for line in lines.splitlines())
    tritium.jit(build(source + "\n"))[(1,)](X, out)
    return out


def asm(
    text: str, constraints: str, args: str, dtype: str, pack: int = 1, pure: bool = True
) -> str:
    return f'tl.inline_asm_elementwise("{text}", "{constraints}", {args}, {dtype}, {pure}, {pack})'


def store(value: str) -> str:
    return f"tl.store(out + o, {value})"


def test_integers():
    got = run(store(asm("leal 7($1,$1), $0", "=r,r", "[v]", "tl.int32")))
    np.testing.assert_array_equal(got, 2 * X + 7)


def test_spaces_between_constraints():
    got = run(store(asm("leal 7($1,$1), $0", " =r , r", "[v]", "tl.int32")))
    np.testing.assert_array_equal(got, 2 * X + 7)


def test_numbers_are_broadcast_and_flags_may_change():
    text = "movl $1, $0; addl $2, $0"
    got = run(store(asm(text, "=&r,r,r", "[v, 5]", "tl.int32") + " * tl.where(v > 0, 1, 2)"))
    np.testing.assert_array_equal(got, (X + 5) * np.where(X > 0, 1, 2))


def test_several_results():
    text = "movl $2, $0; negl $0; vcvtsi2ssl $2, $1, $1"
    call = asm(text, "=&r,=&x,r", "[v]", "(tl.int32, tl.float32)")
    got = run(f"a, b = {call}\n" + store("a + b * 3"), np.zeros(32, np.float32))
    np.testing.assert_array_equal(got, 2.0 * X)


@pytest.mark.parametrize("pack", [1, 2, 4, 8])
def test_packed_bytes(pack: int):
    words = max(pack // 4, 1)
    results = ",".join(["=&r"] * words + ["r"] * words)
    text = "; ".join(f"movl ${words + i}, ${i}; notl ${i}" for i in range(words))
    if pack < 4:  # words of 8 or 16 bits
        size = {1: "b", 2: "w"}[pack]
        text = f"mov{size} $1, $0; not{size} $0"
    got = run(store(asm(text, results, "[v.to(tl.int8)]", "tl.int8", pack)))
    np.testing.assert_array_equal(got, ~X)


def test_packed_halves():
    text = "movl $1, $0; xorl $$0x80008000, $0"
    got = run(
        store(asm(text, "=r,r", "[v.to(tl.float16)]", "tl.float16", 2)), np.zeros(32, np.float16)
    )
    np.testing.assert_array_equal(got, -X.astype(np.float16))


def test_pointers_effects_and_masks():
    text = "movl ($1), $0; addl $$1, ($1)"
    body = f"r = {asm(text, '=&r,r,~{memory}', '[out + o]', 'tl.int32', pure=False)}\n"
    out = X.copy()
    run(body + "tl.store(x + o, r, mask=o < 0)", out)
    np.testing.assert_array_equal(out, X + 1)


def test_two_dimensions_and_scalars():
    body = "w = tl.reshape(v, [4, 8])\n"
    twice = asm("leal ($1,$1), $0", "=r,r", "[w]", "tl.int32")
    five = asm("leal 5($1), $0", "=r,r", "[tl.program_id(0)]", "tl.int32")
    got = run(body + f"s = {five}\n" + store(f"tl.reshape({twice} + w, [32]) + s"))
    np.testing.assert_array_equal(got, 3 * X + 5)


@pytest.mark.parametrize(
    ("text", "constraints", "message"),
    [
        ("bogus $1, $0", "=r,r", "not valid on this processor: .*invalid instruction mnemonic"),
        ("movl $1, $0", "=r", "not valid on this processor"),
        ("add.s32 $0, $1, 1;", "=r,r", "this is PTX"),
        ("mov.u32 $0, %tid.x;", "=r,r", "this is PTX"),
        ("griddepcontrol.wait; // $0", "=r,r", "this is PTX"),
        ("fence.proxy.alias; // $0", "=r,r", "this is PTX"),
        ("membar.gl; mov $0, $1;", "=r,r", "this is PTX"),
    ],
)
def test_what_is_refused(text: str, constraints: str, message: str):
    """A mistake in the assembly must not end the process, as LLVM would."""
    with pytest.raises(CompilationError, match=message) as caught:
        run(store(asm(text, constraints, "[v]", "tl.int32")))
    assert ":4:" in str(caught.value)


def test_groups_must_divide_the_block():
    with pytest.raises(CompilationError, match="packed_element is 3; a divisor of 32"):
        run(store(asm("movl $1, $0", "=r,r", "[v]", "tl.int32", 3)))
