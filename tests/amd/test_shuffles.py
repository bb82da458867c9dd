"""Moves between lanes on AMD GPUs: what is written, executed with a model of the instructions that
follows AMD's documents, and the instructions of reductions."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.amd.execution.lanes import perm
from tests.amd.kernels import TARGETS, compiled
from tritium.backends.amd.lower.hardware import WaveShuffles
from tritium.codegen.llvm.writer import Value


class Words:
    """An i32 of all lanes."""

    def __init__(self, numbers: Any, type: str = "i32"):
        self.numbers, self.type, self.ref = numbers, type, "%words"

    def __str__(self) -> str:
        return "i32 %words"


class Model:
    """The part of an emitter that shuffles use."""

    def __init__(self, lanes: int):
        self.f, self.module, self.lanes = self, self, np.arange(lanes)
        self.lane, self.name, self.arguments = Words(self.lanes), "", list[Any]()

    def i32(self, number: int) -> Value:
        return Value("i32", str(number))

    def call_together(self, type: str, name: str, *arguments: Any) -> Words:
        self.name = name.removeprefix("llvm.amdgcn.")
        found = [a.ref for a in arguments]
        return Words(getattr(self, self.name.replace(".", "_"))(found), type)

    def op(self, opcode: str, a: Any, b: Any) -> Words:
        compute = {"xor": np.bitwise_xor, "and": np.bitwise_and, "shl": np.left_shift}[opcode]
        self.computed = compute(a.numbers, int(b.ref))
        return Words(self.computed)

    def icmp(self, predicate: str, a: Any, b: Any) -> Words:
        assert predicate == "ne"
        return Words(a.numbers != int(b.ref), "i1")

    def select(self, condition: Any, then: Any, other: Any) -> Words:
        return Words(np.where(condition.numbers, then.numbers, other.numbers))

    def members(self, struct: Any, types: list[str]) -> list[Words]:
        return [Words(numbers) for numbers in struct.numbers]

    # Instructions, of a register that has each lane's own word: which lane's it is then.

    def update_dpp_i32(self, arguments: list[str]) -> Any:
        control, row, place = int(arguments[2]), self.lanes & ~15, self.lanes & 15
        if control < 0x100:
            return self.lanes & ~3 | control >> 2 * (self.lanes & 3) & 3
        if 0x121 <= control <= 0x12F:
            return row | place - (control & 15) & 15
        if control in (0x140, 0x141):
            return row | place ^ (15 if control == 0x140 else 7)
        assert 0x160 <= control < 0x170
        return self.lanes ^ control & 15

    def ds_swizzle(self, arguments: list[str]) -> Any:
        pattern = int(arguments[1])
        return self.lanes ^ pattern >> 10

    def permlanex16_i32(self, arguments: list[str]) -> Any:
        low, high = (int(n) & 0xFFFFFFFF for n in arguments[2:4])
        places = [(low | high << 32) >> 4 * (lane & 15) & 15 for lane in self.lanes.tolist()]
        return self.lanes & ~15 ^ 16 | np.array(places)

    def ds_bpermute(self, arguments: list[str]) -> Any:
        return self.computed >> 2

    def permlane16_swap(self, arguments: list[str]) -> Any:
        return self.swapped(16)

    def permlane32_swap(self, arguments: list[str]) -> Any:
        return self.swapped(32)

    def swapped(self, size: int) -> Any:
        """Odd parts of the first register with even ones of the second."""
        return self.lanes & ~size, self.lanes | size


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250"])
def test_words_of_other_lanes(arch: str) -> None:
    lanes, shuffles = TARGETS[arch], WaveShuffles(arch)
    for mask in range(1, lanes):
        model: Any = Model(lanes)
        word: Any = Words(model.lanes)
        found: Any = shuffles.xor(model, word, mask, 0)
        np.testing.assert_array_equal(found.numbers, np.arange(lanes) ^ mask, err_msg=str(mask))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_lanes_that_are_alike(arch: str) -> None:
    model: Any = Model(64)
    word: Any = Words(model.lanes)
    found: Any = WaveShuffles(arch).xor(model, word, 4, 8)
    assert model.name == "update.dpp.i32"
    np.testing.assert_array_equal(found.numbers & ~8, np.arange(64) & ~8 ^ 4)


@tritium.jit
def sums(x, out, N: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, N)
    tl.store(out + i, tl.sum(tl.load(x + i[:, None] * N + j[None, :]), 1))


@pytest.mark.parametrize(("arch", "wanted"), [
    ("gfx90a", {"ds_swizzle": 4, "ds_bpermute": 4}),
    ("gfx942", {"ds_swizzle": 4, "ds_bpermute": 4}),
    ("gfx950", {"v_permlane16_swap": 4, "v_permlane32_swap": 4}),
    ("gfx1100", {"v_permlanex16": 8}), ("gfx1150", {"v_permlanex16": 8}),
    ("gfx1200", {"v_permlanex16": 8}), ("gfx1250", {"v_permlanex16": 8}),
])  # fmt: skip
def test_reductions_in_a_wave(arch: str, wanted: dict[str, int]) -> None:
    """One instruction for each row that a wave has, and each bit that DPP does not reach."""
    kernel = compiled(sums, "*fp32 *fp32", arch, constants={"N": 256})
    code = kernel.asm["amdgcn"].partition(".rodata")[0]
    kinds = ("ds_swizzle", "ds_bpermute", "v_permlane16_swap", "v_permlane32_swap",
             "v_permlanex16")  # fmt: skip
    counts = {kind: len(re.findall(rf"\t{kind}", code)) for kind in kinds}
    assert {k: n for k, n in counts.items() if n} == wanted
    assert len(re.findall(r"_dpp .* (?:row_|quad_perm)", code)) >= 12, "in each row of 16 lanes"


@pytest.mark.parametrize(("selector", "wanted"), [
    (0x07040300, 0x01048180), (0x0B0A0908, 0x00FFFFFF), (0xFF0D0C05, 0xFFFF0083),
])  # fmt: skip
def test_selectors_of_perm(selector: int, wanted: int) -> None:
    """The bytes 80, 90, 11, 81 of the second word and 04, 83, 02, 01 of the first are chosen by
    their numbers; further numbers give signs, 00 and FF."""
    first, second, chosen = (np.array([word], np.uint32) for word in (
        0x01028304, 0x81119080, selector))  # fmt: skip
    found = perm(SimpleNamespace(lanes=2), None, first, second, chosen)
    assert found.tolist() == [wanted] * 2
