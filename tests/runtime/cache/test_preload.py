"""Compiling what an earlier process was seen to compile."""

from __future__ import annotations

import enum
import json
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.runtime.serialize import from_json, to_json

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch

Pair = namedtuple("Pair", ["first", "second"])


class Mode(enum.Enum):
    FAST = 1


class Level(enum.IntEnum):
    HIGH = 1


@dataclass(frozen=True)
class Settings:
    size: int
    mode: Mode


@tritium.constexpr_function
def increment(x):
    return x + 1


@tritium.jit
def twice(x):
    return x + x


@tritium.jit
def thrice(x):
    return x + x + x


@tritium.jit
def apply(out, x, pair, DTYPE: tl.constexpr, F: tl.constexpr, SHAPE: tl.constexpr):
    tl.store(out, F(x).to(DTYPE) + pair.first + SHAPE[0])


@tritium.jit
def chosen(out, x, HOW: tl.constexpr):
    tl.store(out, x)


@tritium.jit
def other(out, x):
    pass


def _observed(run: Any) -> str:
    seen: list[str] = []

    def hook(**info: Any) -> bool:
        seen.append(info["compile"]["specialization_data"])
        return True

    knobs.runtime.jit_cache_hook = hook
    run()
    knobs.runtime.jit_cache_hook = None
    return seen[0]


def _forbid(**_: Any) -> None:
    raise AssertionError("compiled again")


@pytest.mark.parametrize("dtype", [tl.float32, tl.int64, tl.bfloat16])
def test_preload(dtype: Any) -> None:
    out = np.zeros(1, np.float32)

    def run() -> Any:
        return kernel[(1,)](out, 16, Pair(4, None), dtype, twice, (2, 3), num_warps=2)

    kernel = tritium.jit(apply.fn)
    data = _observed(run)
    kernel = tritium.jit(apply.fn)
    loaded = kernel.preload(data)
    knobs.runtime.jit_cache_hook = _forbid
    assert run() is loaded
    assert out[0] == 38
    knobs.runtime.jit_cache_hook = None
    assert len(kernel.device_caches[0][0]) == 1
    kernel = tritium.jit(apply.fn)
    assert run().hash == loaded.hash


def test_of_another_kernel() -> None:
    data = _observed(lambda: other.warmup(np.float32, 2, grid=(1,)))
    message = "Specialization data is for .*other but trying to preload for .*apply"
    with pytest.raises(RuntimeError, match=message):
        apply.preload(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [("", "is not JSON"), ("{}", "has no name, signature"), ("[1]", "has no name"),
     ('{"name": "x", "key": "y"}', "has no signature, constant_keys")],
)  # fmt: skip
def test_what_no_hook_was_told(data: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"preload: the specialization data {message}"):
        apply.preload(data)


def test_what_cannot_be_restored() -> None:
    data = json.loads(_observed(lambda: other.warmup(np.float32, None, grid=(1,))))
    for value, message in (
        ({"constexpr": "odd"}, "other, argument x: cannot restore the compile-time value 'odd'"),
        ({"object": f"{__name__}:gone"}, "cannot restore .*:gone: there is no such name"),
        ({"dataclass": f"{__name__}:gone", "fields": {}}, "cannot restore an object of the class"),
        ({"dataclass": "builtins:int", "fields": {}}, "cannot restore an object of the class"),
        ({"numpy": "int9"}, r"cannot restore the type numpy\.int9"),
        ({"jit_function": f"{__name__}:gone"}, "cannot restore the kernel function .*:gone"),
        ({"jit_function": "nowhere:gone"}, "cannot restore the kernel function nowhere:gone"),
    ):
        data["constant_vals"] = [value]
        with pytest.raises(RuntimeError, match=message):
            other.preload(json.dumps(data))


@pytest.mark.parametrize(
    "value",
    [1, 2.5, -0.0, None, True, "text", (1, (2, "a")), Pair(1, (2,)), tl.float16, tl.uint8, tl.int1,
     tl.pointer_type(tl.float32), thrice, (), [1, [2]], {"a": (1, {2: thrice})}, frozenset({1}),
     Mode.FAST, Level.HIGH, np.float32(0.1), np.float64(0.1), np.int8(-3), np.bool_(True),
     np.dtype("int16"), np.float16, Settings(4, Mode.FAST), Settings, increment],
    ids=str,
)  # fmt: skip
def test_values_survive(value: Any) -> None:
    again = from_json(json.loads(json.dumps(to_json(value))))
    assert again == value and repr(again) == repr(value)
    assert getattr(again, "_fields", None) == getattr(value, "_fields", None)
    assert to_json(tl.constexpr(value)) == to_json(value)
    assert type(again) is type(value) or isinstance(value, Pair)


@pytest.mark.parametrize(
    "value",
    [{"a": (1, [2])}, [1, 2], Mode.FAST, Level.HIGH, np.float64(0.5), np.dtype("int16"), np.int8,
     Settings(4, Mode.FAST), increment, (thrice, tl.int8)],
    ids=str,
)  # fmt: skip
def test_constants_of_other_kinds(value: Any) -> None:
    out = np.zeros(1, np.float32)
    data = _observed(lambda: tritium.jit(chosen.fn)[(1,)](out, 5, value))
    kernel = tritium.jit(chosen.fn)
    loaded = kernel.preload(data)
    knobs.runtime.jit_cache_hook = _forbid
    assert kernel[(1,)](out, 5, value) is loaded
    knobs.runtime.jit_cache_hook = None
    assert tritium.jit(chosen.fn)[(1,)](out, 5, value).hash == loaded.hash


def test_a_constant_that_cannot_be_restored() -> None:
    data = _observed(lambda: tritium.jit(chosen.fn)[(1,)](np.zeros(1, np.int32), 5, 1 + 2j))
    message = r"preload of chosen, argument HOW: cannot restore the compile-time value '\(1\+2j\)'"
    with pytest.raises(RuntimeError, match=message):
        chosen.preload(data)


def test_of_a_kernel_with_other_parameters() -> None:
    data = json.loads(_observed(lambda: other.warmup(np.float32, 2, grid=(1,))))
    data["signature"] = {"out": "*fp32"}
    with pytest.raises(RuntimeError, match=r"the parameters \(out\) but .*other has \(out, x\)"):
        other.preload(json.dumps(data))


@pytest.mark.skipif(torch is None, reason="needs torch")
def test_dtypes_of_torch_survive() -> None:
    assert from_json(to_json(torch.bfloat16)) is torch.bfloat16
