"""Rough costs of computing an element again, in cheap vector instructions."""

from __future__ import annotations

from tritium.ops.base import Op

HEAVY = 12
"""From this cost on, a value that several nests need is kept instead of computed again."""

# Integer division is cheap here because it is mostly index arithmetic, done once for a chunk.
_COSTS = {
    "tt.load": 12, "arith.divf": 4, "arith.divsi": 3, "arith.divui": 3, "arith.remsi": 3,
    "arith.remui": 3, "arith.remf": 40, "math.sqrt": 6, "math.rsqrt": 8, "math.fma": 1,
    "math.absf": 1, "math.absi": 1, "math.floor": 1, "math.ceil": 1, "math.trunc": 1,
    "math.roundeven": 1, "tt.precise_divf": 4, "tt.precise_sqrt": 6, "tt.fp_to_fp": 6,
    "arith.truncf": 3, "arith.extf": 2, "tt.gather": 12, "tt.extern_elementwise": 20,
    "tt.mulhiui": 3, "tt.map_elementwise": 40,
}  # fmt: skip

_FREE = frozenset({
    "arith.constant", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.make_range", "tt.trans",
    "tt.reshape", "arith.bitcast", "tt.bitcast", "tt.split", "tt.unsplat",
})  # fmt: skip


def cost(op: Op) -> int:
    """The cost of one element of an op's result, its operands given."""
    if op.name in _FREE:
        return 0
    known = _COSTS.get(op.name)
    if known is not None:
        return known
    return 20 if op.name.startswith("math.") else 1
