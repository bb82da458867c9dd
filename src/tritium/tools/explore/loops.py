"""Loops of a kernel: in machine code, from its branches, and in ttgir, with the buffers that are
filled ahead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tritium.ir import types as ir
from tritium.ir.locations import source_position
from tritium.ops.base import Op
from tritium.ops.parsing import parse_module
from tritium.ops.ttgir.memory import MemDescView
from tritium.tools.explore.lines import Line
from tritium.tools.instruction_mix import instruction_mix, without_schedule

STAGES = ("sass", "ptx", "asm", "amdgcn")
"""The stages whose loops are found, the closest to the machine first."""
_LABEL = re.compile(r"^\s*([.$\w]+):")
_WORD = re.compile(r"[.$]?\w[\w.$]*")
_ENDS = re.compile(r"^(ret\w*|EXIT|exit|s_endpgm|ud2|trap|brk)\b")
_ALWAYS = re.compile(r"^(jmp\w*|BRA|bra|bra\.uni|b|br|s_branch)\b(?!\.\w)")
_REGISTERS = {
    "asm": re.compile(r"\b(?:[xyz]mm|[vz](?=\d+\.\w))(\d+)()\b"),  # ymm3 is a part of zmm3
    "amdgcn": re.compile(r"\bv\[?(\d+)(?::(\d+)\])?(?!\w)"),
}  # fmt: skip
"""The first and the last number of each register, or range of registers, that a text names."""
_SPILLS = re.compile(r"^(@!?\w+ )?(STL|LDL)\b|\b(ld|st)\.local\b|-byte (Folded )?(Spill|Reload)")
_SHOWN = 16


@dataclass
class Loop:
    """A loop of machine code.

    Attributes:
        lines: the first and the last line, from 1.
        depth: how many loops it is in, itself included.
        source: the first and the last line of the source, where they are known.
        instructions: how many it has, those of inner loops included.
        mix: the most frequent ones.
        registers: of SASS how many hold something at most, None where nvdisasm is missing or
            older than ptxas; of assembly how many vector registers are named; None for PTX.
        spills: the instructions that spill or reload.
    """

    lines: tuple[int, int]
    depth: int
    source: tuple[int, int] | None
    instructions: int
    mix: list[tuple[str, int]]
    registers: int | None
    spills: int


@dataclass
class _Block:
    lines: list[int] = field(default_factory=list[int])
    targets: list[str] = field(default_factory=list[str])
    goes_on: bool = True


def machine_loops(stage: str, lines: Sequence[Line]) -> list[Loop]:
    """The loops of a text, outer ones before those inside."""
    codes = [without_schedule(line.text.strip()) for line in lines]
    blocks, starts = _blocks(codes)
    follow = [
        [starts[t] for t in block.targets] + ([i + 1] if block.goes_on and blocks[i + 1 :] else [])
        for i, block in enumerate(blocks)
    ]
    found: list[Loop] = []
    for nodes, depth in _nested(follow, set(range(len(blocks))), 1):
        within = sorted(n for i in nodes for n in blocks[i].lines)
        text = [codes[n] for n in within]
        mix = instruction_mix("\n".join(text))
        if mix.total() > 1:  # else what stands behind a kernel's end
            found.append(_figures(stage, lines, within, text, depth, mix))
    return sorted(found, key=lambda loop: (loop.lines[0], -loop.lines[1]))


def _figures(
    stage: str, lines: Sequence[Line], within: list[int], text: list[str], depth: int,
    mix: Counter[str],
) -> Loop:  # fmt: skip
    registers = max((live for n in within if (live := lines[n].live) is not None), default=None)
    if pattern := _REGISTERS.get(stage):
        ranges = [(int(m[1]), int(m[2] or m[1])) for t in text for m in pattern.finditer(t)]
        registers = len({number for first, last in ranges for number in range(first, last + 1)})
    places = Counter(place for n in within if (place := lines[n].place))
    file = max((f for f, _ in places), key=lambda f: sum(places[p] for p in places if p[0] == f),
               default="")  # fmt: skip
    source = sorted(line for f, line in places if f == file)
    return Loop(
        (within[0] + 1, within[-1] + 1), depth, (source[0], source[-1]) if source else None,
        mix.total(), mix.most_common(_SHOWN), registers,
        sum(bool(_SPILLS.search(t)) for t in text),
    )  # fmt: skip


def _blocks(codes: Sequence[str]) -> tuple[list[_Block], dict[str, int]]:
    """The basic blocks, and by label the number of the one that begins there."""
    labels = {m[1] for code in codes if (m := _LABEL.match(code))}
    blocks, starts = [_Block()], dict[str, int]()
    for number, code in enumerate(codes):
        if match := _LABEL.match(code):
            if blocks[-1].lines or blocks[-1].targets:
                blocks.append(_Block())
            starts[match[1]] = len(blocks) - 1
            continue
        if not code or code.startswith((".", "//", "#", ";")):
            continue
        block = blocks[-1]
        block.lines.append(number)
        opcode = code.split("//")[0]
        aims = [word for word in _WORD.findall(opcode) if word in labels]
        always = bool(_ALWAYS.match(code) or _ENDS.match(code))
        if aims or always:
            block.targets, block.goes_on = aims, not always
            blocks.append(_Block())
    return blocks, starts


def _nested(
    follow: Sequence[Sequence[int]], nodes: set[int], depth: int
) -> list[tuple[set[int], int]]:
    """The loops among some blocks with their depth: strongly connected sets of blocks, and those
    that remain in one without the block that it begins with."""
    found: list[tuple[set[int], int]] = []
    for group in _connected(follow, nodes):
        if len(group) > 1 or follow[min(group)].count(min(group)):
            others = set(range(len(follow))) - group
            entries = {t for n in others for t in follow[n] if t in group}
            found.append((group, depth))
            found += _nested(follow, group - {min(entries or group)}, depth + 1)
    return found


def _connected(follow: Sequence[Sequence[int]], nodes: set[int]) -> list[set[int]]:
    """The strongly connected sets of a graph (Tarjan's algorithm, without recursion)."""
    index, low = dict[int, int](), dict[int, int]()
    stack, found = list[int](), list[set[int]]()
    for root in sorted(nodes):
        if root in index:
            continue
        work = [(root, iter([t for t in follow[root] if t in nodes]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(set(stack[at:]))
                    del stack[at:]
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter([t for t in follow[target] if t in nodes])))
            elif target in stack:
                low[node] = min(low[node], index[target])
    return found


def pipelined_loops(text: str) -> list[dict[str, Any]]:
    """The loops of a ttgir text: the source line, how many buffers the loads of later iterations
    fill (1 where nothing is loaded ahead), the bytes of shared memory of these, and how many
    ops of each kind there are, but for arithmetic."""
    found: list[dict[str, Any]] = []
    for op in parse_module(text, "<ttgir>").walk():
        if not isinstance(op, Op) or not op.is_loop:
            continue
        inside = [other for other in op.walk() if isinstance(other, Op) and other is not op]
        buffers: dict[Any, Any] = {}
        for other in inside:
            if isinstance(other, MemDescView) and _outside(other.src.owner, op):
                before, after = (_rank(v) for v in (other.src, other.results[0]))
                if before > after > 1:  # one of several tiles; with one axis barriers
                    buffers[other.src] = other.src.type
        data = list(buffers.values())
        _, line, _ = source_position(op.location) or ("", 0, 0)  # pyright: ignore
        found.append({
            "line": line, "stages": max((t.get_shape()[0] for t in data), default=1),
            "bytes": sum(prod(t.get_shape()) * ir.bit_width(t.element_type) // 8 for t in data),
            "ops": Counter(
                o.name for o in inside if not o.name.startswith(("arith.", "scf."))
            ).most_common(_SHOWN),
        })  # fmt: skip
    return found


def _rank(value: Any) -> int:
    return len(value.type.get_shape())


def _outside(owner: Any, loop: Op) -> bool:
    while owner is not None and owner is not loop:
        owner = owner.parent
    return owner is None
