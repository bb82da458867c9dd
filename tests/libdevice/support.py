"""Running a symbol of libdevice natively and by its definition, and inputs to try it on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.ops.math.vector_code import Kernel
from tritium.codegen.llvm.vmath.arrays import external
from tritium.codegen.llvm.vmath.libdevice import call_symbol
from tritium.language.extra.signatures import Overload, signatures
from tritium.ops.ttir.libdevice import definition

Array = np.ndarray[Any, Any]
LLVM = {
    "float32": "float",
    "float64": "double",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
}
STORED: dict[str, Any] = {
    "float32": np.float32, "float64": np.float64, "int32": np.int32, "uint32": np.int32,
    "int64": np.int64, "uint64": np.int64,
}  # fmt: skip

OVERLOADS = [(name, o) for name, s in signatures().items() for o in s.overloads]


def each_function_once(cases: Sequence[tuple[str, Overload]]) -> list[Any]:
    """The cases; all but one of a function, of floats and of doubles in turn, are slow."""
    overloads = {name: [o for n, o in cases if n == name] for name, _ in cases}
    kept = {(name, all_[i % len(all_)]) for i, (name, all_) in enumerate(overloads.items())}
    return [c if c in kept else pytest.param(*c, marks=pytest.mark.slow) for c in cases]


def label(value: Any) -> str:
    return ",".join(value.arguments) if isinstance(value, Overload) else str(value)


@cache
def kernel(symbol: str, arguments: tuple[str, ...], result: str, width: int, level: str) -> Kernel:
    def body(f: Any, values: Any, features: Any) -> Any:
        return call_symbol(f, symbol, *values, features=features)

    return Kernel(body, [LLVM[a] for a in arguments], LLVM[result], width, level)


def native(overload: Overload, *arrays: Array, width: int = 8, level: str = "host") -> Array:
    """The compiled function over arrays."""
    compiled = kernel(overload.symbol, overload.arguments, overload.result, width, level)
    out = np.empty(arrays[0].size, STORED[overload.result])
    return compiled(*(np.ascontiguousarray(a) for a in arrays), out=out)


def defined(overload: Overload, *arrays: Array) -> Array:
    """The interpreter's result."""
    function = definition(overload.symbol) or external(overload.symbol)
    with np.errstate(all="ignore"):
        return np.asarray(function(*arrays)).astype(STORED[overload.result])


def specials(dtype: Any) -> Array:
    """Numbers at which something changes, of both signs."""
    info = np.finfo(dtype)
    turning = [0, info.smallest_subnormal, info.smallest_normal, info.eps, 0.5, 1, 1.5, 2, 2.5, 3,
        4, 5.5, 8,
               9.5, 26.6, 38.5, 88.7, 170.6, 709.7, info.max, 1e5, 2**23 + 1,
                   2**30 + 0.5]  # fmt: skip
    x = np.array(turning, dtype)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(-np.inf))])
    return np.concatenate([x, -x, np.array([np.inf, -np.inf, np.nan], dtype)])


def reals(dtype: Any, count: int, seed: int = 0) -> Array:
    """Special numbers, some over the whole range, and more where most functions change."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    exponents = rng.uniform(np.log2(float(info.smallest_subnormal)), info.maxexp, count // 3)
    spread = np.exp2(exponents) * rng.choice([-1, 1], exponents.size)
    uniform = [
        rng.uniform(-r, r, count // 6) for r in (1, 3, 12, 50 if dtype is np.float32 else 300)
    ]
    return np.concatenate([specials(dtype), *(np.asarray(v, dtype) for v in (spread, *uniform))])


def arguments(name: str, overload: Overload, count: int, seed: int = 0) -> list[Array]:
    """Arrays for the arguments of a function."""
    rng = np.random.default_rng(seed + 1)
    found: list[Array] = []
    for position, kind in enumerate(overload.arguments):
        dtype = STORED[kind]
        if dtype in (np.float32, np.float64):
            values = reals(dtype, count, seed)
            found.append(values if position == 0 else rng.permutation(values))
            continue
        info = np.iinfo(dtype)
        if name in ("jn", "yn"):
            found.append(np.resize(np.array([0, 1, 2, 3, 5, 8, 20, 128, -1], dtype), 10 * count))
        elif name in ("pow", "ldexp", "scalbn"):
            small = (
                rng.integers(-12, 13, count),
                rng.integers(-1200, 1200, count),
                [0, info.min, info.max],
            )
            found.append(rng.permutation(np.concatenate(small)).astype(dtype))
        else:
            wide = rng.integers(info.min, info.max, count, dtype, endpoint=True)
            wide >>= rng.integers(0, info.bits, count, dtype)
            edges = np.array(
                [0, 1, 2, 3, -1, -2, info.min, info.max, info.min + 1, info.max - 1, 2**24 + 1],
                dtype,
            )
            found.append(rng.permutation(np.concatenate([edges, wide])))
    if len(found) > 1:  # every pair of special values, and then a random pairing
        size = max(a.size for a in found)
        found = [np.resize(a, size) for a in found]
    return found
