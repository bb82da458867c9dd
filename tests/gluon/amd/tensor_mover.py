"""A model of gfx1250's tensor data mover: the instructions of a kernel for given arguments, found
by constant folding of its LLVM IR, and what they do to memory.

The format of descriptors is the hardware's (words 0 to 19; see `backends.amd.lower.tensors`); the
model knows nothing of how the compiler makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

LDS = 0x10000
"""Where the kernel's LDS begins."""


class Instruction(NamedTuple):
    """A load or store of one warp, and its 20 words."""

    name: str
    words: list[int]


def instructions(kernel: Any, arguments: Sequence[int], warp: int) -> list[Instruction]:
    """The instructions of a warp, in order; pointers are numbers."""
    text = kernel.asm["llir"]
    text = re.sub(r"= call i32 @llvm.amdgcn.workitem.id.x\(\)", f"= add i32 {32 * warp}, 0", text)
    text = re.sub(r"call i32 @llvm.amdgcn.readfirstlane.i32\(i32 (%?\w+)\)( #\d+)?",
                  r"add i32 \1, 0", text)  # fmt: skip
    text = text.replace("ptr addrspace(3) @smem$",
                        f"ptr addrspace(3) inttoptr (i32 {LDS} to ptr addrspace(3))")  # fmt: skip
    head = re.search(r"define amdgpu_kernel void @(\w+)\((.*)\) #", text)
    assert head is not None
    types = [re.match(r"(ptr addrspace\(1\)|ptr|i32|i64)", part.strip())[0]  # type: ignore
             for part in head[2].split(", ")]  # fmt: skip
    given = [f"{t} inttoptr (i64 {a} to {t})" if t.startswith("ptr") else f"{t} {a}"
             for t, a in zip(types, arguments, strict=True)]  # fmt: skip
    text = text.replace("define amdgpu_kernel void", "define internal void", 1)
    text = re.sub(r'"amdgpu-[^"]*"="[^"]*"', "", text)
    call = f"call void @{head[1]}({', '.join(given)})"
    text += f"\ndefine void @entry() {{\n  {call}\n  ret void\n}}\n"
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu="gfx1250")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    body = str(module).split("define void @entry", 1)[1]
    found = re.findall(r"call void @llvm.amdgcn.tensor.(load|store)[.\w]*\((.*), i32 0\)", body)
    return [Instruction(name, list(_words(text))) for name, text in found]


def _words(text: str) -> Iterator[int]:
    count = 0
    for size, vector in re.findall(r"<(\d) x i32> (zeroinitializer|splat \(i32 -?\d+\)|<[^>]*>)",
                                   text):  # fmt: skip
        numbers = [int(n) for n in re.findall(r"i32 (-?\d+)", vector)]
        if vector.startswith(("zero", "splat")):
            numbers = (numbers or [0]) * int(size)
        assert len(numbers) == int(size), f"not constant: {text}"
        count += len(numbers)
        yield from (n & 0xFFFFFFFF for n in numbers)
    yield from [0] * (20 - count)


class Mover:
    """Memory, and the instructions' effects on it. `arrivals`: at barriers, by their place."""

    def __init__(self, arrays: dict[int, np.ndarray]):
        self.arrays = {at: array.reshape(-1).view(np.uint8) for at, array in arrays.items()}
        self.lds = np.full(320 << 10, 0xEE, np.uint8)
        self.arrivals: dict[int, int] = {}

    def _global(self, address: int, size: int) -> np.ndarray:
        for start, data in self.arrays.items():
            if start <= address and address + size <= start + data.size:
                return data[address - start : address - start + size]
        raise AssertionError(f"{address:#x} is outside of all arrays")

    def run(self, instruction: Instruction) -> None:
        w = instruction.words
        if not w[0] & 1:
            return
        assert w[3] >> 30 == 2, "no descriptor of a tensor"
        address = w[2] | (w[3] & 0x1FFFFFF) << 32
        size = 1 << (w[4] >> 16 & 3)
        extents = [w[5] >> 16 | (w[6] & 0xFFFF) << 16, w[6] >> 16 | (w[7] & 0xFFFF) << 16,
                   w[12], w[13], w[17] >> 16 | (w[18] & 0xFFFF) << 16]  # fmt: skip
        block = [w[7] >> 16, w[8] & 0xFFFF, w[8] >> 16, w[15] >> 16, w[18] >> 16]
        strides = [1, w[9] | (w[10] & 0xFFFF) << 32, w[10] >> 16 | w[11] << 16,
                   w[14] | (w[15] & 0xFFFF) << 32, w[16] | (w[17] & 0xFFFF) << 32]  # fmt: skip
        rows: list[int] | None = None
        if w[0] >> 31:
            packed = np.array(w[12:20], np.uint32)
            rows = packed.view(np.int32 if w[0] >> 30 & 1 else np.int16).tolist()
            extents[2:], block[2:], strides[2:] = [1] * 3, [0] * 3, [0] * 3
        pad = (0, 0)
        if w[4] >> 20 & 1:
            pad = 2 << (w[4] >> 22 & 7), (w[4] >> 25) + 1
        shape = [max(n, 1) for n in reversed(block)]
        for number, index in enumerate(np.ndindex(*shape)):
            place = list(reversed(index))
            if rows is not None:
                place[1] = rows[place[1]]
            used = [0 <= p < e for p, e, n in zip(place, extents, block, strict=True) if n]
            offset = number * size
            if pad[0]:
                offset += offset // (4 * pad[0]) * 4 * pad[1]
            at = address + size * sum(p * s for p, s in zip(place, strides, strict=True))
            self._element(instruction.name, w[1] + offset, at if all(used) else None, size)
        if w[4] >> 18 & 1:
            barrier = (w[5] & 0xFFFF) << 3
            self.arrivals[barrier] = self.arrivals.get(barrier, 0) + 1

    def _element(self, name: str, place: int, address: int | None, size: int) -> None:
        here = self.lds[place - LDS : place - LDS + size]
        if name == "load":
            here[...] = 0 if address is None else self._global(address, size)
        elif address is not None:
            self._global(address, size)[...] = here


def run(kernel: Any, arguments: Sequence[Any], warps: int = 4) -> Mover:
    """Run a kernel's instructions, those of all warps in turn. Arguments are arrays and numbers."""
    numbers, arrays = list[int](), dict[int, np.ndarray]()
    for position, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            argument = 0x7F0000000000 + 0x10000000 * position
            arrays[argument] = arguments[position]
        numbers.append(argument)
    mover = Mover(arrays)
    of_warps = [instructions(kernel, numbers, warp) for warp in range(warps)]
    for together in zip(*of_warps, strict=True):
        for instruction in together:
            mover.run(instruction)
    return mover
