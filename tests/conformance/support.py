"""Build kernels from text, run them natively and in the interpreter, and compare with NumPy.

A *batch* is one kernel of many checks, because compiling costs far more than running: each check
is an expression over blocks named beforehand, the type that it must have, and the expected array.
Expectations are written with NumPy alone, never with the reference semantics of the ops.
"""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import tritium
import tritium.language as tl
from tests.support.device import device, native
from tritium.runtime.interpreted import InterpretedFunction

DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32,
        "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
        "uint64": np.uint64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
        "float32": np.float32, "float64": np.float64, "float8e5": ml_dtypes.float8_e5m2,
        "float8e4nv": ml_dtypes.float8_e4m3fn, "float8e4b8": ml_dtypes.float8_e4m3fnuz,
        "float8e5b16": ml_dtypes.float8_e5m2fnuz,
    }.items()
}  # fmt: skip
"""Names in `tl` -> NumPy dtypes."""

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "bfloat16", "float32", "float64")
NVIDIA = device in ("cuda", "ptx")
FP8 = ("float8e5", "float8e4nv", "float8e4b8", "float8e5b16")[: 2 if NVIDIA else 4]
"""Functions of the device; NVIDIA's has not AMD's."""
NUMBERS = (*INTEGERS, *FLOATS)

_files = itertools.count()


def build(source: str, name: str = "kernel", **names: Any) -> Callable[..., Any]:
    """The function `name` of a module with this text; its lines show in tracebacks.

    `names` are globals of the module besides `tl` and `jit`.
    """
    file = f"<conformance {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {
        "tl": tl, "tritium": tritium, "jit": tritium.jit, "math": math, "__name__": "conformance",
        **names,
    }  # fmt: skip
    exec(compile(source, file, "exec"), scope)
    return scope[name]


WAYS: Mapping[str, Callable[[Callable[..., Any]], Any]] = {
    "native": native,
    "interpreted": InterpretedFunction,
}


def copies(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with arrays of their own."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in args.items()}


def run(
    fn: Callable[..., Any],
    args: Mapping[str, Any],
    grid: tuple[int, ...] = (1,),
    way: str = "native",
) -> dict[str, np.ndarray]:
    """The arrays among the arguments after a launch on copies of them."""
    given = copies(args)
    WAYS[way](fn)[grid](**given)
    return {k: v for k, v in given.items() if isinstance(v, np.ndarray)}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy or ml_dtypes floats."""
    return dtype.kind == "f" or dtype.kind == "V" or dtype.name.startswith(("bfloat", "float8"))


def assert_equal(got: np.ndarray, expected: np.ndarray, message: str, rtol: float = 0) -> None:
    """Equal as bits (all NaNs alike, but -0.0 is not 0.0), or within `rtol`."""
    assert got.shape == expected.shape and got.dtype == expected.dtype, (
        f"{message}: {got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    )
    if not is_float(got.dtype):
        np.testing.assert_array_equal(got, expected, err_msg=message)
        return
    a, b = got.astype(np.float64), expected.astype(np.float64)
    if rtol:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True, err_msg=message)
        return
    same = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if not same.all():
        at = tuple(int(i[0]) for i in np.nonzero(~same))
        raise AssertionError(f"{message}: at {at} {got[at]!r} instead of {expected[at]!r}")


@dataclass
class Check:
    """One expression, its dtype's name in `tl`, the expected array, and the error allowed."""

    text: str
    dtype: str
    expected: np.ndarray
    rtol: float = 0.0


@dataclass
class Batch:
    """Checks that share one kernel.

    `inputs` are loaded whole under their names (blocks of the arrays' shapes; a 0-D array gives a
    scalar). `prelude`: statements before the checks.
    """

    inputs: Mapping[str, np.ndarray]
    prelude: str = ""
    checks: list[Check] = field(default_factory=list)
    names: Mapping[str, Any] = field(default_factory=dict)

    def add(self, text: str, dtype: str, expected: Any, rtol: float = 0.0) -> None:
        """`expected` is converted to the dtype (which must hold it: no rounding is hidden)."""
        array = np.asarray(expected)
        self.checks.append(Check(text, dtype, array.astype(DTYPES[dtype]), rtol))

    def source(self) -> str:
        """The kernel's text."""
        outs = [f"out{i}" for i in range(len(self.checks))]
        lines = [f"def kernel({', '.join([f'p_{n}' for n in self.inputs] + outs)}):"]
        for name, array in self.inputs.items():
            lines.append(f"    {name} = tl.load(p_{name} + {_offsets(array.shape)})")
            if array.dtype == np.bool_:
                lines.append(f"    {name} = {name}.to(tl.int1)")
        lines += ["    " + line for line in self.prelude.splitlines()]
        for i, check in enumerate(self.checks):
            shape = check.expected.shape
            lines.append(f"    r{i} = {check.text}")
            lines.append(f"    tl.static_assert(r{i}.dtype == tl.{check.dtype}, "
                         f"'{i} is not {check.dtype}')")  # fmt: skip
            lines.append(f"    tl.store(out{i} + {_offsets(shape)}, r{i})")
        return "\n".join(lines) + "\n"

    def run(self, ways: Sequence[str] = tuple(WAYS)) -> None:
        """Run in each way and compare every check; failures are collected into one error."""
        fn = build(self.source(), **self.names)
        args: dict[str, Any] = {f"p_{n}": a for n, a in self.inputs.items()}
        for i, check in enumerate(self.checks):
            # Not zeros: a store that is missing must show.
            fill = np.full(check.expected.shape, 0x55, np.uint8) if check.expected.shape else 0x55
            args[f"out{i}"] = np.atleast_1d(np.asarray(fill)).astype(DTYPES[check.dtype])
        wrong: list[str] = []
        for way in ways:
            results = run(fn, args, way=way)
            for i, check in enumerate(self.checks):
                got = results[f"out{i}"].reshape(check.expected.shape)
                try:
                    assert_equal(got, check.expected, f"{way}: {check.text}", check.rtol)
                except AssertionError as error:
                    wrong.append(str(error).strip())
        assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])


def _offsets(shape: tuple[int, ...]) -> str:
    if not shape:
        return "0"
    terms: list[str] = []
    for axis, extent in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        term = f"tl.arange(0, {extent})"
        if len(shape) > 1:
            term += f"[{index}]"
        terms.append(term if stride == 1 else f"{term} * {stride}")
    return "(" + " + ".join(terms) + ")"


WIDTH = {name: 1 if name == "int1" else 8 * DTYPES[name].itemsize for name in DTYPES}


def promoted(a: str, b: str, divides: bool = False) -> str:
    """The type of `a op b` for two blocks, as the language's rules say in prose: the widest
    float, but a division of 16-bit floats in 32; bf16 with anything else in fp32; the wider
    integer; of equally wide ones the unsigned one."""
    pair = {a, b}
    for wide in ("float64", "float32"):
        if wide in pair:
            return wide
    if "float16" in pair:
        return "float32" if divides else "float16"
    if "bfloat16" in pair:
        return "bfloat16" if pair == {"bfloat16"} and not divides else "float32"
    if WIDTH[a] != WIDTH[b]:
        return a if WIDTH[a] > WIDTH[b] else b
    return a if a == b or a not in SIGNED else b


def samples(name: str, size: int, seed: int = 0) -> np.ndarray:
    """Values of a dtype with its extremes, zeros of both signs, NaN and infinities among them."""
    rng = np.random.default_rng([seed, *name.encode()])
    dtype = DTYPES[name]
    if name == "int1":
        return rng.integers(0, 2, size).astype(bool)
    if not is_float(dtype):
        info = np.iinfo(dtype)
        edges = [0, 1, info.max, info.min, info.max - 1, info.min + 1, 2, 7]
        wide = rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
        small = rng.integers(max(-9, info.min), 9, size).astype(dtype)
        values = np.where(rng.random(size) < 0.5, wide, small)
        values[: len(edges)] = np.array(edges[:size], dtype)
        return rng.permutation(values)
    values = (rng.standard_normal(size) * 2.0 ** rng.integers(-6, 7, size)).astype(dtype)
    edges = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.5, 0.75], np.float32)
    values[: len(edges)] = edges[:size].astype(dtype)
    return rng.permutation(values)
