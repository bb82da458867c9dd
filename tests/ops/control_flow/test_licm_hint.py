"""`disable_licm` keeps what does not change inside the loop, in LLVM as well."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@tritium.jit
def counted(p, a, n, STAYS: tl.constexpr):
    for t in tl.range(n, disable_licm=STAYS):
        tl.store(p + t, tl.sqrt(a + 1.0))


@tritium.jit
def conditional(p, a, n, STAYS: tl.constexpr):
    t = 0
    while tl.condition(t < n, disable_licm=STAYS):
        tl.store(p + t, tl.sqrt(a + 1.0))
        t += 1


TARGETS = {"cpu": None, "cuda": GPUTarget("cuda", 90, 32)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [counted, conditional], ids=["for", "while"])
def test_invariant_code_stays_in_the_loop(kernel: Any, target: str):
    def compiled(stays: bool) -> Any:
        signature = {"p": "*fp32", "a": "fp32", "n": "i32", "STAYS": "constexpr"}
        source = ASTSource(kernel, signature, {"STAYS": stays})
        return tritium.compile(source, target=TARGETS[target])

    for stays in (False, True):
        asm = compiled(stays).asm
        hint = re.search(r"br .*!llvm\.loop !(\d+)", asm["llir"])
        assert (hint is not None) == stays
        if hint is not None:
            assert re.search(rf"^!{hint[1]} = distinct !{{!{hint[1]}, ", asm["llir"], re.MULTILINE)
            assert "llvm.licm.disable" in asm["llir"]
        if target == "cuda":
            # A label with a branch back to it.
            loop = re.search(r"^(\$L\w+):(?s:.*)bra(\.uni)?\s+\1;", asm["ptx"], re.MULTILINE)
            assert loop is not None
            assert (loop.start() < asm["ptx"].index("sqrt") < loop.end()) == stays


@tritium.jit
def sums(p, a, n, STAYS: tl.constexpr):
    i = tl.arange(0, 512)
    for t in tl.range(n, disable_licm=STAYS):
        tl.store(p + t, tl.sum(tl.sqrt(a + i), axis=0))


CODE = {
    "cpu": (None, "asm", r"vsqrt|fsqrt|sqrtps", r"v?movss\s.*\(|str\s+s"),
    "cuda": (GPUTarget("cuda", 90, 32), "ptx", r"sqrt", r"st\.global"),
    "hip": (GPUTarget("hip", "gfx942", 64), "amdgcn", r"v_sqrt", r"_store_"),
}
"""For each target the stage that is text, what computes a square root there, and what stores."""
LABEL = re.compile(r"([.$\w]+):")
JUMP = re.compile(r"\s+(?:@\S+\s+)?(?:j\w+|b\.\w+|b|bra(?:\.uni)?|s_c?branch\w*)\s+([.$\w]+)")


def loops_of(lines: list[str]) -> list[range]:
    """The lines from each label that a later line jumps back to, up to that line."""
    labels, found = dict[str, int](), list[range]()
    for number, line in enumerate(lines):
        if label := LABEL.match(line):
            labels[label[1]] = number
        elif (jump := JUMP.match(line)) and jump[1] in labels:
            found.append(range(labels[jump[1]], number))
    return found


@pytest.mark.parametrize("target", CODE)
def test_reductions_of_invariant_tiles_stay_in_the_loop(target: str):
    """Single instructions LLVM's code generator may move all the same."""
    machine, stage, root, store = CODE[target]

    def roots_beside_the_store(stays: bool) -> int:
        signature = {"p": "*fp32", "a": "fp32", "n": "i32", "STAYS": "constexpr"}
        source = ASTSource(sums, signature, {"STAYS": stays})
        lines = tritium.compile(source, target=machine).asm[stage].splitlines()
        within = {
            number
            for loop in loops_of(lines) if any(re.search(store, lines[n]) for n in loop)
            for number in loop
        }  # fmt: skip
        assert within
        return sum(re.search(root, lines[number]) is not None for number in within)

    assert roots_beside_the_store(False) == 0
    assert roots_beside_the_store(True) > 0
