"""Tensor maps that a kernel makes: warp 0 fills in one in shared memory and copies it to its place
in the memory that the launcher supplies.

Each op that makes a map has one place in the program's share. The first thread, which starts all
copies, acquires what it wrote; that, and the release in `tensormap.cp_fenceproxy`, make the copies
see it (PTX ISA, tensormap proxy).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.nvidia.lower.context import Context
from tritium.backends.nvidia.lower.types import NVIDIA
from tritium.ir.tensor_maps import ALIGNMENT, BYTES
from tritium.lowering.llvm import Value
from tritium.lowering.registry import lowers
from tritium.ops import ttgir

_AXES = "xyz"


@dataclass(frozen=True)
class Share:
    """A program's share of global scratch memory: `places` of allocations, in bytes from its start,
    and its size."""

    places: dict[Any, int]
    size: int

    @property
    def alignment(self) -> int:
        """Of the memory; 1 where there is none."""
        return ALIGNMENT if self.size else 1


def share_of(functions: Iterable[Any]) -> Share:
    """One place for each allocation in some functions."""
    places: dict[Any, int] = {}
    size = 0
    for function in functions:
        for op in function.walk():
            if isinstance(op, ttgir.GlobalScratchAllocOp):
                places[op] = -(-size // op.alignment) * op.alignment
                size = places[op] + op.nbytes
    return Share(places, -(-size // ALIGNMENT) * ALIGNMENT)


def start_of_share(c: Context, scratch: Value, size: int) -> Value:
    """Where this block's share begins."""
    lines = c.f.enter(c.entry)
    index = c.i32(0)
    for axis in reversed(_AXES):
        block = c.f.call("i32", f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}")
        count = c.f.call("i32", f"llvm.nvvm.read.ptx.sreg.nctaid.{axis}")
        index = c.f.op("add", c.f.op("mul", index, count), block)
    offset = c.f.op("mul", c.f.cast("zext", index, "i64"), Value("i64", str(size)))
    start = c.byte_offset(scratch, offset)
    c.f.leave(lines)
    return start


def scratch_bytes(op: Any) -> int:
    """What filling in a map takes of shared memory."""
    return BYTES


@lowers(NVIDIA, ttgir.GlobalScratchAllocOp)
def allocate(c: Context, op: Any) -> None:
    share, places = c.share
    c.set(op.results[0], c.byte_offset(share, c.i32(places[op])))


@lowers(NVIDIA, ttgir.ReinterpretTensorDescOp)
def reinterpret(c: Context, op: Any) -> None:
    c.set(op.results[0], c.f.cast("addrspacecast", c.scalar(op.rawDesc), "ptr"))


@lowers(NVIDIA, ttgir.TensormapCreateOp, scratch=scratch_bytes)
def create(c: Context, op: Any) -> None:
    _check(c, [op.global_address, *op.global_stride])
    memory = c.address(c.shared(c.offsets[op]))
    warp, first = (c.f.icmp("eq", v, c.i32(0)) for v in (c.warp, c.thread))
    word = c.f.op("add", memory, c.f.op("shl", c.lane, c.i32(2)))
    c.asm("void", "@$1 st.shared.b32 [$0], 0;", "r,b,~{memory}", word, warp)
    c.asm("void", "bar.warp.sync 0xffffffff;", "~{memory}")

    def put(field: str, bits: int, value: Value | int, axis: int | None = None) -> None:
        where = "" if axis is None else f" {axis},"
        text = f"@$1 tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [$0],{where} "
        if isinstance(value, int):
            c.asm("void", f"{text}{value};", "r,b,~{memory}", memory, first)
        else:
            kind = "l" if bits == 64 else "r"
            c.asm("void", f"{text}$2;", f"r,b,{kind},~{{memory}}", memory, first, value)

    put("global_address", 64, c.scalar(op.global_address))
    put("rank", 32, len(op.box_dim) - 1)
    for field, bits, values in (
        ("box_dim", 32, op.box_dim), ("global_dim", 32, op.global_dim),
        ("global_stride", 64, op.global_stride), ("element_stride", 32, op.element_stride),
    ):  # fmt: skip
        for axis, value in enumerate(values):
            put(field, bits, c.scalar(value), axis)
    put("elemtype", 32, op.elem_type)
    put("interleave_layout", 32, op.interleave_layout)
    put("swizzle_mode", 32, op.swizzle_mode)
    put("fill_mode", 32, op.fill_mode)
    c.asm("void", "bar.warp.sync 0xffffffff;", "~{memory}")
    text = (
        "@$2 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
        f"aligned [$0], [$1], {BYTES};"
    )
    c.asm("void", text, "l,r,b,~{memory}", c.scalar(op.desc_ptr), memory, warp)
    c.barrier()


def _check(c: Context, values: Sequence[SSAValue]) -> None:
    """Stop the kernel where one that is not known to be a multiple of 16 is none: a map would drop
    its last bits and the copies go to other memory. (A call that says so would cost products their
    overlap.)"""
    bits = None
    for value in values:
        if c.axis_info(value).divisibility[0] % 16:
            number = c.as_type(c.scalar(value), "i64")
            bits = number if bits is None else c.f.op("or", bits, number)
    if bits is not None:
        last = c.f.op("and", bits, Value("i64", "15"))
        c.asm("void", "@$0 trap;", "b", c.f.icmp("ne", last, Value("i64", "0")))


@lowers(NVIDIA, ttgir.TensormapFenceproxyAcquireOp)
def acquire(c: Context, op: Any) -> None:
    text = f"@$1 fence.proxy.tensormap::generic.acquire.gpu [$0], {BYTES};"
    place = c.f.cast("addrspacecast", c.scalar(op.desc_ptr), "ptr")
    c.asm("void", text, "l,b,~{memory}", place, c.f.icmp("eq", c.thread, c.i32(0)))


