"""The explorer's loops and occupancy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tritium import knobs
from tritium.backends.nvidia.occupancy import Occupancy, occupancy
from tritium.cli.explore import explore
from tritium.tools.explore.lines import assembly_lines, sass_lines
from tritium.tools.explore.loops import machine_loops

ASSEMBLY = """
	.file	1 "/home" "kernel.py"
f:
	.loc	1 3 0
	testq	%rax, %rax
	je	.LBB0_9
.LBB0_1:
	.loc	1 4 0
	vmovups	(%rsi), %zmm3
.LBB0_2:
	.loc	1 5 0
	vaddps	%ymm3, %zmm4, %zmm4
	vmovups	%zmm9, 64(%rsp)                 # 64-byte Spill
	decq	%rcx
	jne	.LBB0_2
	.loc	1 6 0
	vaddps	%zmm7, %zmm4, %zmm4
	cmpq	%rdx, %rax
	jl	.LBB0_1
	jmp	.LBB0_8
.LBB0_9:
	xorl	%eax, %eax
.LBB0_7:
	incq	%rbx
	retq
.LBB0_8:
	incq	%rax
	jmp	.LBB0_7
"""
SASS = """Function:k
--:-:-:-:1	MOV R1, R2;
LBB1:
--:-:-:Y:2	@P1 FADD R3, R3, R4;
--:-:-:-:1	STL [R1], UR4;
--:-:-:-:5	@P0 BRA LBB1;
--:-:-:-:5	@P2 EXIT;
--:-:-:-:5	EXIT;
LBB2:
--:-:-:Y:0	BRA LBB2;
"""
MATMUL = """
import tritium, tritium.language as tl

@tritium.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        acc += tl.dot(tl.load(a + m[:, None] * K + k), tl.load(b + k[:, None] * BN + n))
    tl.store(c + m[:, None] * BN + n, acc)
"""


def test_nested_loops_of_assembly():
    outer, inner = machine_loops("asm", assembly_lines(ASSEMBLY))
    assert (outer.depth, outer.instructions, outer.registers, outer.spills) == (1, 8, 4, 1)
    assert (inner.depth, inner.instructions, inner.registers, inner.spills) == (2, 4, 3, 1)
    assert (outer.source, inner.source) == ((4, 6), (5, 5))
    assert outer.lines[0] < inner.lines[0] < inner.lines[1] < outer.lines[1]
    assert dict(inner.mix) == {"vaddps": 1, "vmovups": 1, "decq": 1, "jne": 1}


def test_a_loop_of_sass():
    (loop,) = machine_loops("sass", sass_lines(SASS, {}, {"k": [200, 7, 9, 8, 100, 0, 0]}))
    assert (loop.instructions, loop.registers, loop.spills) == (3, 9, 1)
    assert dict(loop.mix) == {"FADD": 1, "STL": 1, "BRA": 1} and loop.source is None
    (loop,) = machine_loops("sass", assembly_lines(SASS))
    assert loop.registers is None  # names say nothing of operands of several registers


def test_ranges_of_registers():
    text = ".L:\n\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[4:5], v[2:5]\n\tv_add_u32 v9, v9, s2\n"
    (loop,) = machine_loops("amdgcn", assembly_lines(text + "\ts_cbranch_scc1 .L\n"))
    assert loop.registers == 7


def test_code_without_loops():
    assert machine_loops("asm", assembly_lines("f:\n\tjmp\t.L1\n.L1:\n\tretq\n")) == []
    assert machine_loops("ptx", assembly_lines("")) == []


@pytest.mark.parametrize(("arguments", "found"), [
    ((90, 8, 64, 98304), Occupancy(2, 16, 64, "shared memory")),
    ((80, 4, 255, 0), Occupancy(2, 8, 64, "registers")),
    ((86, 4, 32, 0), Occupancy(12, 48, 48, "threads")),
    ((90, 1, 16, 0), Occupancy(32, 32, 64, "blocks")),
    ((90, 32, 255, 0), Occupancy(0, 0, 64, "registers")),
    ((30, 4, 16, 0), None),
])  # fmt: skip
def test_occupancy(arguments: tuple[int, int, int, int], found: Occupancy | None):
    assert occupancy(*arguments) == found


def matmul_page(folder: Path) -> tuple[str, list[str], list[str]]:
    """The page of `MATMUL` for sm_80, its loop's cells in ttgir and in machine code."""
    file, out = folder / "matmul.py", folder / "matmul.html"
    file.write_text(MATMUL)
    explore([str(file)], out, "matmul", "cuda:80:32",
            "*fp16:16, *fp16:16, *fp32:16, i32:16, 64, 64, 32")  # fmt: skip
    page = out.read_text()
    panel = page.split('data-name="loops"')[1].split('data-name="facts"')[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in panel.split("<tr>")[1:]]
    return page, rows[1], rows[3]


@pytest.mark.ptxas
@pytest.mark.cuobjdump
def test_a_page_shows_loops_of_machine_code(tmp_path: Path):
    page, _, machine = matmul_page(tmp_path)
    assert "loops (1)" in page and len(machine) == 7 and "HMMA 16" in machine[6]
    assert int(machine[2]) > 30 and machine[4] == "0"
    assert not machine[3] or 30 < int(machine[3]) < 255  # an nvdisasm older than ptxas counts none
    of_loop = occupancy(80, 4, int(machine[3]), 16384)
    assert of_loop and machine[5] == f"{of_loop.warps} of 64 warps"


@pytest.mark.ptxas
def test_a_page_shows_loops_and_occupancy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knobs.nvidia, "cuobjdump", None)
    page, tiles, machine = matmul_page(tmp_path)
    assert tiles[:3] == ["8", "2", "16384"] and "ttg.async_wait 1" in tiles[4]
    share = re.search(r"<th>occupancy</th><td>(\d+) of 64 warps a multiprocessor: ", page)
    of_buffers = re.fullmatch(r"(\d+) of 64 warps", tiles[3])
    assert share and of_buffers and int(share[1]) <= int(of_buffers[1])
    assert len(machine) == 7 and "mma 16" in machine[6], "PTX, where nothing disassembles"
    assert not machine[5]
