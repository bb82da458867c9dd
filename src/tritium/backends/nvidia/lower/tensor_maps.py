"""Tensor maps that a kernel makes: warp 0 fills in one in shared memory and copies it to its place
in the memory that the launcher supplies.

Each op that makes a map has one place in the program's share. The first thread, which starts all
copies, acquires what it wrote; that, and the release in `tensormap.cp_fenceproxy`, make the copies
see it (PTX ISA, tensormap proxy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir.tensor_maps import BYTES
from tritium.ops import ttgir


def scratch_bytes(op: Any) -> int:
    """Shared memory that filling in a map needs."""
    return BYTES


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
