"""Launches of kernels with checks of bounds are native, too: they take extents from the arguments
and raise the errors that launches in Python raise."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.codegen.llvm.writer import Module
from tritium.launch.memory_extents import ExtentWriter
from tritium.launch.records import API
from tritium.native.loader import compile_ir, load_object
from tritium.native.pyobjects import api_addresses, known_types
from tritium.native.writer import Code
from tritium.sanitize.extents import extent_of, memory_of
from tritium.sanitize.launch import SanitizerError
from tritium.tools.tensor_descriptor import TensorDescriptor

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch

pytestmark = pytest.mark.cpu


@tritium.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0), mask=i < n)


@tritium.jit
def copy_of_pair(pair, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i, mask=i < n) + pair[1], mask=i < n)


@tritium.jit
def copy_of_descriptor(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, x.load([0]))


class Counted:
    """Counts the launches of a kernel in Python."""

    def __init__(self, kernel: Any, monkeypatch: pytest.MonkeyPatch):
        self.calls, usual = 0, type(kernel).launch_in_python

        def counting(function: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return usual(function, *args, **kwargs)

        monkeypatch.setattr(type(kernel), "launch_in_python", counting)


def failing(launch: Callable[[], Any]) -> SanitizerError:
    with pytest.raises(SanitizerError) as caught:
        launch()
    return caught.value


def of_arrays() -> tuple[Any, Any]:
    return np.arange(1000, dtype=np.float32), np.zeros(1024, np.float32)


def of_tensors() -> tuple[Any, Any]:
    return torch.arange(1000, dtype=torch.float32), torch.zeros(1024)


@pytest.mark.covering(1)
@pytest.mark.parametrize("made", [of_arrays, *([of_tensors] if torch is not None else [])])
@pytest.mark.parametrize("mode", ["bounds", "bounds,fp"])
def test_launches_after_the_first_ones_are_native_and_fail_alike(
    made: Any, mode: str, monkeypatch: pytest.MonkeyPatch
):
    x, out = made()
    launch = lambda n: copy[(4,)](x, out, n, BLOCK=256, instrumentation_mode=mode)  # noqa: E731
    launch(998)
    launch(998)
    counted = Counted(copy, monkeypatch)
    for n in (997, 1000, 998):
        launch(n)
    native = failing(lambda: launch(1001))
    assert counted.calls == 0
    monkeypatch.setattr(copy, "_launch", copy._launch_latest)  # pyright: ignore
    python = failing(lambda: launch(1001))
    assert counted.calls == 1
    assert str(native) == str(python)
    assert native.__reduce__() == python.__reduce__()
    assert np.array_equal(np.asarray(x), np.asarray(out)[:1000])


def test_members_of_tuples_and_descriptors(monkeypatch: pytest.MonkeyPatch):
    x, out, more = np.ones(64, np.float32), np.zeros(64, np.float32), {"BLOCK": 64}
    more["instrumentation_mode"] = "bounds"  # pyright: ignore
    described = TensorDescriptor(x, [64], [1], [64])
    for _ in range(2):
        copy_of_pair[(1,)]((x, 1.5), out, 64, **more)
        copy_of_descriptor[(1,)](described, out, **more)
    counted = Counted(copy_of_pair, monkeypatch)
    error = failing(lambda: copy_of_pair[(1,)]((x[:32].copy(), 1.5), out, 64, **more))
    assert "index 63 of argument 'pair[0]', which has 32 elements" in str(error)
    described.shape = [65]
    described.base = x[:16].copy()
    error = failing(lambda: copy_of_descriptor[(1,)](described, out, **more))
    assert "index 63 of argument 'x.base', which has 16 elements" in str(error)
    assert counted.calls == 0


def test_each_launch_looks_at_its_own_arguments(monkeypatch: pytest.MonkeyPatch):
    out = np.zeros(1024, np.float32)
    launch = lambda x: copy[(4,)](  # noqa: E731
        x, out, 1000, BLOCK=256, instrumentation_mode="bounds"
    )
    long = np.arange(1024, dtype=np.float32)
    launch(long)
    launch(long)
    counted = Counted(copy, monkeypatch)
    launch(long[:1000])
    assert "argument 'x'" in str(failing(lambda: launch(long[:992].copy())))
    launch(long)
    assert counted.calls == 0


def native_extents() -> Callable[[Any], tuple[int, int] | None]:
    """`memory_extent` of the native launcher."""
    module = Module()
    ExtentWriter(module).write()
    arguments = [("ptr", "types"), ("ptr", "function"), ("ptr", "obj"), ("ptr", "out")]
    f = Code(module, "probe", arguments, "i1", exported=True)
    f.ret(f.call("i1", "memory_extent", *f.arguments))
    image = load_object(compile_ir(module.text(), opt="light"), ["probe"], api_addresses(API))
    types = known_types()
    types.learn(np.zeros(1))
    function = ctypes.PYFUNCTYPE(
        ctypes.c_bool, ctypes.c_void_p, ctypes.py_object, ctypes.py_object,
        ctypes.POINTER(ctypes.c_uint64),
    )(image["probe"])  # fmt: skip

    def found(argument: Any) -> tuple[int, int] | None:
        assert image
        out = (ctypes.c_uint64 * 2)()
        known = function(types.address, extent_of, argument, out)
        return (out[0], out[1]) if known else None

    return found


def test_native_code_finds_the_extents_of_arrays_and_tensors(tmp_path: Path):
    extent, room = native_extents(), np.zeros((6, 8), np.float32)
    arrays: list[Any] = [
        room, room[2:], room[::-1], room.T[1:], room[1:1], room.reshape(-1)[::-2][3:],
        np.asfortranarray(room), np.zeros((0, 3), np.int8), np.zeros((), np.float64),
        np.zeros(7, ml_dtypes.bfloat16)[1:], np.frombuffer(b"bytes of others", np.int8),
        np.lib.stride_tricks.as_strided(np.zeros(4, np.int32), (3, 2), (-4, 4)),
        np.zeros(5, "V12"), np.zeros((1, 1, 3), np.complex128), room.view(np.int16),
    ]  # fmt: skip
    if torch is not None:
        tensor = torch.zeros(6, 8)
        arrays += [tensor, tensor[1:, 2], tensor.numpy(), tensor.numpy()[2:], torch.zeros(0),
                   torch.nn.Parameter(tensor)]  # fmt: skip
    for array in arrays:
        memory = memory_of(array)
        assert extent(array) == extent_of(array) == (memory.begin, memory.end), array
    mapped = np.memmap(tmp_path / "memory", np.float32, "w+", shape=(16,))
    assert extent(np.asarray(mapped)[2:]) is None  # a subclass: left to Python
