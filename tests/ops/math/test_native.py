"""Elementwise ops natively against the reference semantics: every type, odd sizes, NaN, inf."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.support import compare

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FP8 = {
    "f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
SIZE, BLOCK = 300, 128


def kernel(inputs: list[str], body: str, output: str) -> str:
    """`out[i] = body(x[i], y[i])` over blocks with a mask; `T` in the body is `BLOCKx`."""
    arguments = "".join(f"%p{i}: !tt.ptr<{t}>, " for i, t in enumerate(inputs))
    loads = "".join(
        f"""
      %b{i} = tt.splat %p{i} : !tt.ptr<{t}> -> tensor<{BLOCK}x!tt.ptr<{t}>>
      %a{i} = tt.addptr %b{i}, %offs : tensor<{BLOCK}x!tt.ptr<{t}>>, tensor<{BLOCK}xi32>
      %x{i} = tt.load %a{i}, %m : tensor<{BLOCK}x!tt.ptr<{t}>>"""
        for i, t in enumerate(inputs)
    )
    return f"""
    tt.func public @kernel({arguments}%out: !tt.ptr<{output}>, %n: i32) {{
      %c = arith.constant {BLOCK} : i32
      %pid = tt.get_program_id x : i32
      %start = arith.muli %pid, %c : i32
      %range = tt.make_range {{end = {BLOCK} : i32, start = 0 : i32}} : tensor<{BLOCK}xi32>
      %starts = tt.splat %start : i32 -> tensor<{BLOCK}xi32>
      %offs = arith.addi %starts, %range : tensor<{BLOCK}xi32>
      %ns = tt.splat %n : i32 -> tensor<{BLOCK}xi32>
      %m = arith.cmpi slt, %offs, %ns : tensor<{BLOCK}xi32>{loads}
      {body}
      %bo = tt.splat %out : !tt.ptr<{output}> -> tensor<{BLOCK}x!tt.ptr<{output}>>
      %ao = tt.addptr %bo, %offs : tensor<{BLOCK}x!tt.ptr<{output}>>, tensor<{BLOCK}xi32>
      tt.store %ao, %z, %m : tensor<{BLOCK}x!tt.ptr<{output}>>
      tt.return
    }}
    """


def floats(dtype: Any, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    x = random.standard_normal(SIZE) * 10.0 ** random.integers(-3, 4, SIZE)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]
    x[random.integers(0, SIZE, 60)] = random.choice(special, 60)
    return x.astype(dtype)


def ints(dtype: Any, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    x = random.integers(info.min, info.max, SIZE, dtype=dtype, endpoint=True)
    small = random.integers(-3, 4, SIZE).astype(dtype)
    extreme = random.choice(np.array([info.min, info.max, -1, 0], dtype), SIZE)
    return np.choose(random.integers(0, 3, SIZE), [x, small, extreme]).astype(dtype)


def run(inputs: list[str], arrays: list[np.ndarray], body: str, output: str, dtype: Any,
        **tolerance: float) -> None:  # fmt: skip
    out = np.full(SIZE, 7).astype(dtype)
    compare(kernel(inputs, body, output), [*arrays, out, SIZE - 5], [3], **tolerance)


@pytest.mark.covering(1)
@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize(
    "op", ["addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf"]
)
def test_float_arithmetic(op: str, type: str) -> None:
    arrays = [floats(FLOATS[type], 1), floats(FLOATS[type], 2)]
    run([type, type], arrays, f"%z = arith.{op} %x0, %x1 : tensor<{BLOCK}x{type}>", type,
        FLOATS[type])  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("type", INTS)
@pytest.mark.parametrize(
    "op",
    ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli",
     "shrsi", "shrui", "minsi", "maxsi", "minui", "maxui", "floordivsi", "ceildivsi", "ceildivui"],
)  # fmt: skip
def test_integer_arithmetic(op: str, type: str) -> None:
    arrays = [ints(INTS[type], 1), ints(INTS[type], 2)]
    run([type, type], arrays, f"%z = arith.{op} %x0, %x1 : tensor<{BLOCK}x{type}>", type,
        INTS[type])  # fmt: skip


@pytest.mark.parametrize("type", INTS)
def test_high_product(type: str) -> None:
    arrays = [ints(INTS[type], 1), ints(INTS[type], 2)]
    run([type, type], arrays, f"%z = tt.mulhiui %x0, %x1 : tensor<{BLOCK}x{type}>", type,
        INTS[type])  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("predicate", ["oeq", "ogt", "ole", "one", "ord", "ueq", "ult", "uno"])
def test_float_comparisons(predicate: str, type: str) -> None:
    arrays = [floats(FLOATS[type], 1), floats(FLOATS[type], 2)]
    run([type, type], arrays, f"%z = arith.cmpf {predicate}, %x0, %x1 : tensor<{BLOCK}x{type}>",
        "i1", np.bool_)  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("op", ["absf", "floor", "ceil", "sqrt", "trunc", "roundeven"])
def test_unary(op: str, type: str) -> None:
    run([type], [floats(FLOATS[type], 3)], f"%z = math.{op} %x0 : tensor<{BLOCK}x{type}>", type,
        FLOATS[type])  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("op", ["exp", "exp2", "log", "log2", "sin", "cos", "erf", "rsqrt", "tanh"])
def test_elementary_functions(op: str, type: str) -> None:
    tolerance = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-6, "f64": 1e-14}[type]
    x = np.abs(np.nan_to_num(floats(np.float64, 4), nan=2.0, posinf=3.0, neginf=4.0)) % 8 + 0.1
    run([type], [x.astype(FLOATS[type])], f"%z = math.{op} %x0 : tensor<{BLOCK}x{type}>", type,
        FLOATS[type], rtol=tolerance, atol=tolerance)  # fmt: skip


ALL_FLOATS = {**FLOATS, **FP8}


@pytest.mark.covering(1)  # the conformance suite has all pairs
@pytest.mark.parametrize("target", ALL_FLOATS)
@pytest.mark.parametrize("source", ALL_FLOATS)
def test_float_conversions(source: str, target: str) -> None:
    if source == target:
        return
    narrows = np.dtype(ALL_FLOATS[target]).itemsize <= np.dtype(ALL_FLOATS[source]).itemsize
    rounding = ", rounding = rtne" if narrows else ""
    x = np.nan_to_num(floats(np.float64, 5), nan=0.5) if target in FP8 else floats(np.float64, 5)
    run([source], [x.astype(ALL_FLOATS[source])],
        f"%z = tt.fp_to_fp %x0{rounding} : tensor<{BLOCK}x{source}> -> tensor<{BLOCK}x{target}>",
        target, ALL_FLOATS[target])  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("op", ["sitofp", "uitofp"])
def test_integers_to_floats(op: str, source: str, target: str) -> None:
    if source in ("i32", "i64") and target in ("f16", "bf16"):
        tolerance = {"rtol": 1e-2, "atol": 1e-2}
    else:
        tolerance = {}
    run([source], [ints(INTS[source], 6)],
        f"%z = arith.{op} %x0 : tensor<{BLOCK}x{source}> to tensor<{BLOCK}x{target}>", target,
        FLOATS[target], **tolerance)  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTS)
def test_floats_to_integers(source: str, target: str) -> None:
    x = np.linspace(-100, 100, SIZE).astype(FLOATS[source])
    run([source], [x],
        f"%z = arith.fptosi %x0 : tensor<{BLOCK}x{source}> to tensor<{BLOCK}x{target}>", target,
        INTS[target])  # fmt: skip


@pytest.mark.parametrize(
    ("op", "source", "target"),
    [("extsi", "i8", "i64"), ("extui", "i16", "i32"), ("trunci", "i64", "i8"),
     ("trunci", "i32", "i1"), ("bitcast", "i32", "f32"), ("bitcast", "bf16", "i16")],
)  # fmt: skip
def test_other_casts(op: str, source: str, target: str) -> None:
    kinds: Any = {**FLOATS, **INTS, "i1": np.bool_}
    make = ints if source in INTS else floats
    run([source], [make(kinds[source], 7)],
        f"%z = arith.{op} %x0 : tensor<{BLOCK}x{source}> to tensor<{BLOCK}x{target}>", target,
        kinds[target])  # fmt: skip


def test_booleans_in_memory() -> None:
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 2, SIZE).astype(np.bool_) for _ in range(2))
    run(["i1", "i1"], [x, y], f"%z = arith.xori %x0, %x1 : tensor<{BLOCK}xi1>", "i1", np.bool_)


@pytest.mark.parametrize("nan", ["all", "none"])
def test_clamp(nan: str) -> None:
    arrays = [floats(np.float32, 1), np.full(SIZE, -1, np.float32), np.full(SIZE, 2, np.float32)]
    body = f"%z = tt.clampf %x0, %x1, %x2, propagateNan = {nan} : tensor<{BLOCK}xf32>"
    run(["f32"] * 3, arrays, body, "f32", np.float32)
