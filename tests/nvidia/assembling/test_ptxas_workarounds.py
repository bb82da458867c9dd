"""Shifted products, which ptxas may mistake for each other; spills for more occupancy."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.backends.nvidia import ptx as ptx_stage
from tritium.backends.nvidia.ptxas_workarounds import shift_factors, with_all_registers
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

TEXT = """.visible .entry first(
)
{
\tmul.lo.s32 \t%r3, %r1, %r2;
\tshl.b32 \t%r4, %r3, 2;
\tmul.lo.s32 \t%r5, %r2, %r6;
\t.loc 1 2 3
\tshl.b32 \t%r7, %r5, 4;
\tst.global.b32 \t[%rd1], %r4;
\tst.global.b32 \t[%rd1], %r7;
}
"""


def test_the_shared_factor_is_shifted():
    lines = shift_factors(TEXT).split("\n")
    assert [line.split("\t", 1)[-1] for line in lines if "shl" in line or "mul" in line] == [
        "shl.b32 \t%r3, %r2, 2;", "mul.lo.s32 \t%r4, %r1, %r3;",
        "shl.b32 \t%r5, %r2, 4;", "mul.lo.s32 \t%r7, %r6, %r5;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "before,after",
    [
        ("%r5, 4", "%r5, 2"),  # the same shift
        ("%r5, %r2, %r6", "%r5, %r8, %r6"),  # no shared factor
        ("[%rd1], %r4", "[%rd1], %r3"),  # another use of the product
        ("\t.loc 1 2 3\n", "\tmov.b32 \t%r7, %r1;\n"),  # another value in the result
        ("\t.loc 1 2 3\n", "\t@%p1 ld.global.v2.b32 \t{%r9, %r7}, [%rd1];\n"),
        ("\t.loc 1 2 3\n", "}\n.visible .entry second(\n)\n{\n"),  # another function's registers
    ],
)
def test_what_is_left_alone(before: str, after: str):
    text = TEXT.replace(before, after)
    assert text != TEXT and shift_factors(text) == text


@tritium.jit
def partial_sums(x, out, dx, n, groups, H: tl.constexpr, CH: tl.constexpr, B: tl.constexpr):
    """As in the backward pass of a group norm: rows of `groups`, and sums of blocks of rows."""
    group, block = tl.program_id(0), tl.program_id(1)
    rows = block * B + tl.arange(0, B)
    mask = (rows < n)[:, None] & (tl.arange(0, 16) < 4)[None, :]
    tasks = rows * groups + group
    for channel in range(CH):
        at = tasks[:, None] * H + channel * 4 + tl.arange(0, 16)[None, :]
        v = tl.load(x + at, mask=mask, other=0.0)
        tl.store(out + block * (groups * CH) + group * CH + channel, tl.sum(tl.sum(v, 1), 0))
    for channel in range(CH):
        at = tasks[:, None] * H + channel * 4 + tl.arange(0, 16)[None, :]
        tl.store(dx + at, tl.load(x + at, mask=mask, other=0.0) * 2, mask=mask)


def test_of_a_kernel_that_was_wrong():
    constants = {"H": 16, "CH": 4, "B": 64}
    signature = {"x": "*fp32", "out": "*fp32", "dx": "*fp32", "n": "i32", "groups": "i32"}
    source = ASTSource(
        partial_sums, signature | dict.fromkeys(constants, "constexpr"), constants,
        {(i,): [["tt.divisibility", 16]] for i in range(3)},
    )  # fmt: skip
    ptx = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    shifted = re.findall(r"shl\.b32 \t%r\d+, (%r\d+), (\d+);\n\tmul\.lo\.s32", ptx)
    assert {amount for _, amount in shifted} == {"2", "4"} and len({of for of, _ in shifted}) == 1
    assert shift_factors(ptx) == ptx  # it has been done


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(64, 2), (100, 3), (130, 5)])
def test_sums_of_blocks(shape: tuple[int, int]):
    torch: Any = pytest.importorskip("torch")
    n, groups = shape
    blocks = tritium.cdiv(n, 64)
    x = torch.randn(n, groups, 4, 4, device="cuda")
    out, dx = torch.zeros(blocks, groups, 4, device="cuda"), torch.zeros_like(x)
    partial_sums[groups, blocks](x, out, dx, n, groups, 16, 4, 64)
    padded = torch.zeros(blocks * 64, groups, 4, 4, device="cuda")
    padded[:n] = x
    expected = padded.reshape(blocks, 64, groups, 4, 4).sum((1, 4))
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(dx, 2 * x)


ENTRY = ".visible .entry kernel(\n)\n.reqntid 64, 1, 1\n{\n\tret;\n}\n"


@pytest.mark.parametrize(
    "text,used,spilled,again",
    [
        (ENTRY, 32, 8020, True),
        (ENTRY, 32, 1024, False),  # as much as occupancy may cost
        (ENTRY, 255, 8020, False),
        (ENTRY.replace("64", "512"), 128, 8020, False),  # all that 512 threads can have
        (ENTRY.replace("64", "512"), 64, 8020, True),
        (ENTRY.replace("{", ".maxnreg 32\n{"), 32, 8020, False),  # the user's bound
    ],
)
def test_registers_left_unused(text: str, used: int, spilled: int, again: bool):
    found = with_all_registers(text, used, spilled)
    expected = re.sub(r"(\.reqntid .*)", r"\1\n.minnctapersm 1", text)
    assert found == (expected if again else None)


@pytest.mark.parametrize("arguments,runs", [([], 2), (["--maxrregcount=32"], 1)])
def test_a_kernel_that_spills_with_registers_unused_is_assembled_again(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], runs: int
):
    given: list[str] = []

    class Run:
        def __init__(self, path: str, arguments: list[str]):
            pass

        def assemble(self, ptx: str) -> tuple[bytes, str]:
            given.append(ptx)
            return b"cubin %d" % len(given), "8020 bytes spill stores\nUsed 32 registers"

    monkeypatch.setattr(ptx_stage, "AssemblerRun", Run)
    cubin, _ = ptx_stage.assemble(ENTRY, 90, arguments)
    assert len(given) == runs and cubin == b"cubin %d" % runs
    assert [".minnctapersm 1" in text for text in given] == [False, True][:runs]
