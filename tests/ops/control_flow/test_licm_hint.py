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
