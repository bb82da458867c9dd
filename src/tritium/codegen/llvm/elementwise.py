"""Elementwise ops that every target lowers to the same LLVM instruction or intrinsic.

The tables hold only ops whose LLVM instruction means the same on all targets; what a target must
treat with care (16-bit floats, division by zero, functions) is in its own rules.
"""

from __future__ import annotations

from tritium.ops import arith
from tritium.ops.base import Op

BINARY: dict[type[Op], str] = {
    arith.AddIOp: "add", arith.SubIOp: "sub", arith.MulIOp: "mul",
    arith.AndIOp: "and", arith.OrIOp: "or", arith.XOrIOp: "xor",
}  # fmt: skip
"""Integer ops that are one instruction."""

SHIFTS: dict[type[Op], str] = {
    arith.ShLIOp: "shl", arith.ShRUIOp: "lshr", arith.ShRSIOp: "ashr",
}  # fmt: skip
"""Shifts; by the width or more LLVM's are poison."""

DIVISIONS: dict[type[Op], str] = {
    arith.DivSIOp: "sdiv", arith.DivUIOp: "udiv", arith.RemSIOp: "srem", arith.RemUIOp: "urem",
}  # fmt: skip
"""Integer divisions; by zero LLVM's are undefined."""

FLOAT_BINARY: dict[type[Op], str] = {
    arith.AddFOp: "fadd", arith.SubFOp: "fsub", arith.MulFOp: "fmul", arith.DivFOp: "fdiv",
}  # fmt: skip

MIN_MAX: dict[type[Op], str] = {
    arith.MinSIOp: "smin", arith.MinUIOp: "umin", arith.MaxSIOp: "smax", arith.MaxUIOp: "umax",
    arith.MinimumFOp: "minimum", arith.MaximumFOp: "maximum",
    arith.MinNumFOp: "minnum", arith.MaxNumFOp: "maxnum",
}  # fmt: skip
"""Intrinsics `llvm.<name>`."""

CASTS: dict[type[Op], str] = {
    arith.ExtSIOp: "sext", arith.ExtUIOp: "zext", arith.TruncIOp: "trunc",
}  # fmt: skip
