"""Launches with arguments that a kernel cannot take: each error names the argument."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.amd.options import HIPOptions
from tritium.backends.base import LAUNCH_OPTIONS
from tritium.backends.cpu.compiler import CPUOptions
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.backends.nvidia.options import CUDAOptions


@tritium.jit
def copy(source, target, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i, i < n), i < n)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(8, dtype=np.float32), np.zeros(8, np.float32)


class OnDevice:
    """A tensor in a GPU's memory."""

    dtype = np.dtype(np.float32)
    is_cuda = True
    device = "cuda:0"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (1 << 40, False), "shape": (8,), "typestr": "<f4"}


class DeviceTensor(OnDevice):
    def data_ptr(self) -> int:
        return 1 << 40


class DLPackOnDevice:
    dtype = np.dtype(np.float32)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("must not be exported")


@pytest.mark.parametrize("kind", [OnDevice, DeviceTensor, DLPackOnDevice])
def test_device_memory(kind: Any) -> None:
    x, out = arrays()
    for args in ((kind(), out), (x, kind())):
        name = "source" if args[1] is out else "target"
        with pytest.raises(
            ValueError, match=rf"argument '{name}'.* memory of device .*host memory"
        ):
            copy[(1,)](*args, 8, BLOCK=8)


def test_read_only() -> None:
    x, out = arrays()
    out.flags.writeable = False
    with pytest.raises(
        ValueError, match=r"argument 'target'.*read-only and the kernel writes to it"
    ):
        copy[(1,)](x, out, 8, BLOCK=8)
    x.flags.writeable = False
    out = np.zeros_like(x)
    copy[(1,)](x, out, 8, BLOCK=8)
    assert (out == x).all(), "reading is allowed"
    with pytest.raises(ValueError, match=r"argument 'target'"):
        copy[(1,)](out, x, 8, BLOCK=8)
    assert (x == np.arange(8)).all()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            np.zeros(8, np.complex64),
            TypeError,
            "argument 'source': no kernel type matches .*complex64",
        ),
        (np.zeros(8, ">f4"), TypeError, "argument 'source'.*byte order"),
        (np.zeros(8, "U3"), TypeError, "argument 'source': no kernel type matches"),
        ("text", Exception, "source"),
        ([1, 2], TypeError, "argument 'source' has type list; a kernel takes tensors"),
        (object(), TypeError, "argument 'source' has type object"),
        (np.zeros(8, np.float32).astype(object), TypeError, "argument 'source'.*object"),
    ],
    ids=["complex", "byte order", "text array", "text", "list", "object", "object array"],
)
def test_no_tensor(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        copy[(1,)](value, np.zeros(8, np.float32), 8, BLOCK=8)


def test_an_int_where_a_pointer_is_needed() -> None:
    with pytest.raises(tritium.CompilationError) as caught:
        copy[(1,)](5, np.zeros(8, np.float32), 8, BLOCK=8)
    assert "tl.load(source + i" in str(caught.value) and "^" in str(caught.value)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"BLOCK": 8}, r"copy\(\) missing 3 required positional arguments: 'source', 'target'"),
        ((1, 2, 3, 4, 5), {}, r"copy\(\) takes 4 positional arguments but 5 were given"),
        ((1, 2, 3), {}, r"copy\(\) missing 1 required positional argument: 'BLOCK'"),
        ((1, 2, 3, 4), {"BLOCK": 8}, r"copy\(\) got multiple values for argument 'BLOCK'"),
    ],
)
def test_counts(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        copy[(1,)](*args, **kwargs)


def test_unknown_keyword() -> None:
    x, out = arrays()
    with pytest.raises(KeyError, match=r"Keyword argument BLOK was specified but unrecognised"):
        copy[(1,)](x, out, 8, BLOCK=8, BLOK=8)


def test_too_large_an_integer() -> None:
    x, out = arrays()
    with pytest.raises(OverflowError, match=r"argument 'n': integer argument .* does not fit"):
        copy[(1,)](x, out, 2**70, BLOCK=8)


def test_a_constant_that_cannot_be_one() -> None:
    x, out = arrays()
    with pytest.raises(
        TypeError, match=r"argument 'BLOCK': the value of a constexpr must be hashable"
    ):
        copy[(1,)](x, out, 8, BLOCK=np.arange(3))
    with pytest.raises(tritium.CompilationError, match=r"power of 2|power of two"):
        copy[(1,)](x, out, 8, BLOCK=7)


def test_the_compiled_kernel_checks_too() -> None:
    x, out = arrays()
    kernel = copy[(1,)](x, out, 8, BLOCK=8)
    with pytest.raises(
        TypeError, match=r"argument 'source' .*fp64; .*compiled for a pointer to fp32"
    ):
        kernel[(1, 1, 1)](x.astype(np.float64), out, 8, 8)
    with pytest.raises(TypeError, match=r"takes the grid .* and 4 arguments"):
        kernel[(1, 1, 1)](x, out, 8)
    with pytest.raises(OverflowError, match=r"argument 'n'"):
        kernel[(1, 1, 1)](x, out, 2**40, 8)
    with pytest.raises(TypeError, match=r"argument 'n'"):
        kernel[(1, 1, 1)](x, out, "8", 8)


def test_torch_tensors_on_a_device() -> None:
    torch = pytest.importorskip("torch")
    _x, out = arrays()
    with pytest.raises(ValueError, match=r"argument 'source'.* memory of device meta"):
        copy[(1,)](torch.empty(8, device="meta"), out, 8, BLOCK=8)
    with pytest.raises(TypeError, match=r"argument 'source'.*complex64"):
        copy[(1,)](torch.zeros(8, dtype=torch.complex64), out, 8, BLOCK=8)


def test_errors_leave_the_kernel_usable() -> None:
    x, out = arrays()
    copy[(1,)](x, out, 8, BLOCK=8)
    assert (out == x).all()


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((), TypeError, r"1 to 3 ints or a function; got \(\)"),
        ((1, 2, 3, 4), TypeError, "1 to 3 ints"),
        ("ab", TypeError, "got 'ab'"),
        ((1.5,), TypeError, r"grid\[0\] is 1.5; an int is required"),
        ((1, -1), ValueError, r"grid\[1\] is -1; it must be in 0 .. 2\*\*31-1"),
        (lambda meta: None, TypeError, "got None"),
    ],
)
def test_bad_grids_interpreted_and_compiled(grid: Any, error: Any, message: str) -> None:
    for kernel in (copy, InterpretedKernel(copy)):
        with pytest.raises(error, match=message):
            kernel[grid](*arrays(), 8, BLOCK=8)


def test_a_grid_that_is_missing():
    source, target = arrays()
    with pytest.raises(TypeError, match="the grid is None; 1 to 3 ints or a function"):
        copy[None](source, target, 8, BLOCK=8)


def test_options_of_every_backend_are_accepted() -> None:
    """A launch for one backend may give options of another (`CUDAOptions` on the CPU)."""
    for options in (CUDAOptions, HIPOptions, CPUOptions):
        assert {field.name for field in fields(options)} <= LAUNCH_OPTIONS, options
