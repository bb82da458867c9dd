"""Arguments of a launch: every kind that is taken, and the message for every kind that is not."""

from __future__ import annotations

import array
import gc
import struct
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.runtime.launch.kernels import image
from tritium.backends.cpu.launcher import make_launcher
from tritium.launch.arguments import Param, extract_pointer
from tritium.launch.scalars import extract_scalar, float_bits

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def slots(types: list[str], values: list[object]) -> list[int]:
    """Contents of a kernel's slots after the two of the copying kernel's own."""
    stored = sum(t != "constexpr" for t in types)
    out = np.zeros(2 + stored, np.uint64)
    params = [Param("out", "*u64", True), Param("n", "i64")]
    params += [Param(f"a{i}", t) for i, t in enumerate(types)]
    launch = make_launcher(image()["slots"], params, 0, name="k")
    launch(1, 1, 1, out, len(out), *values)
    first = out.tolist()
    launch(1, 1, 1, out, len(out), *values)  # the second time on the fast path
    assert out.tolist() == first
    return first[2:]


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def f64(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


MASK = (1 << 64) - 1


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("i1", True, 1), ("i1", False, 0), ("i1", 1, 1), ("i1", np.bool_(True), 1),
        ("i8", -128, -128 & MASK), ("u8", 255, 255),
        ("i16", np.int16(-3), -3 & MASK), ("i32", -(2**31), -(2**31) & MASK),
        ("i32", 2**31 - 1, 2**31 - 1), ("u32", 2**32 - 1, 2**32 - 1), ("i32", True, 1),
        ("i64", -(2**63), 2**63), ("i64", 2**63 - 1, 2**63 - 1),
        ("u64", 2**64 - 1, 2**64 - 1), ("u64", 2**63, 2**63), ("u64", 5, 5),
        ("fp32", 0.1, f32(0.1)), ("fp32", 3, f32(3.0)), ("fp32", np.float64(0.1), f32(0.1)),
        ("fp32", 1e300, f32(float("inf"))), ("fp32", -1e300, f32(float("-inf"))),
        ("fp64", 0.1, f64(0.1)), ("fp64", 2**70, f64(2.0**70)),
        ("fp64", 10**400, f64(float("inf"))), ("fp64", -(10**400), f64(float("-inf"))),
        ("fp16", 0.1, int(np.float16(0.1).view(np.uint16))), ("fp16", 1e9, 0x7C00),
        ("bf16", 0.1, int(np.asarray(0.1, ml_dtypes.bfloat16).view(np.uint16))),
        ("bf16", float("-inf"), 0xFF80),
    ],
)  # fmt: skip
def test_numbers(type, value, expected):
    assert slots([type], [value]) == [expected]


def test_rounding_to_bf16_is_done_once():
    for _ in range(2000):
        value = float(np.random.standard_normal()) * 2.0 ** np.random.randint(-30, 30)
        near = int(np.asarray(np.float32(value), ml_dtypes.bfloat16).view(np.uint16))
        assert abs(float_bits(value, "bf16") - near) <= 1
    # Just above the middle between two bf16: rounding through fp32 would go to the even one.
    middle = 1 + 2.0**-8
    assert float_bits(middle, "bf16") == 0x3F80
    assert float_bits(middle + 2.0**-40, "bf16") == 0x3F81
    assert float_bits(-(middle + 2.0**-40), "bf16") == 0xBF81
    assert float_bits(float("nan"), "bf16") & 0x7FFF > 0x7F80


@pytest.mark.parametrize(
    ("type", "value", "error", "message"),
    [
        ("i32", 2**31, OverflowError,
         r"argument 'a0' \(number 2\) is 2147483648, out of range for i32 \(-2147483648 to"),
        ("u8", -1, OverflowError, r"is -1, out of range for u8 \(0 to 255\)"),
        ("i1", 2, OverflowError, r"is 2, out of range for i1 \(0 to 1\)"),
        ("i64", 2**63, OverflowError, "out of range for i64"),
        ("u64", 2**64, OverflowError, "out of range for u64"),
        ("u64", -1, OverflowError, "out of range for u64"),
        ("i32", 1.5, TypeError, r"is 1.5 of type float; this kernel was compiled for an integer"),
        ("i32", None, TypeError, "is None of type NoneType"),
        ("fp32", "1.5", TypeError, "is '1.5' of type str; .* for a number of type fp32"),
        ("fp64", [1], TypeError, "number of type fp64"),
        ("*fp32", None, TypeError, "is None of type NoneType; expected an array in host memory"),
        ("*fp32", 3, TypeError, "is 3 of type int; expected an array"),
        ("*fp32", np.zeros(3), TypeError,
         "has elements of type fp64; this kernel was compiled for a pointer to fp32"),
        ("*fp32", np.zeros(3, ">f4"), TypeError, "byte order"),
    ],
)  # fmt: skip
def test_bad_values(type, value, error, message):
    with pytest.raises(error, match=message):
        slots([type], [value])


def test_constexpr_arguments_take_no_slot():
    assert slots(["i32", "constexpr", "i32"], [1, "anything", 2]) == [1, 2]


def test_unsupported_parameter_types():
    with pytest.raises(NotImplementedError, match="parameter 'd' of type 'tensordesc<fp32>'"):
        Param("d", "tensordesc<fp32>")


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(np.float32, "fp32"), (np.bool_, "i1"), (np.uint8, "i1"), (np.int8, "u8"), (np.uint16, "u16"),
     (ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e4m3fn, "fp8e4nv"), (np.float16, "kfp16")],
)  # fmt: skip
def test_numpy_arrays(dtype, element):
    x = np.zeros((4, 6), dtype)
    assert slots(["*" + element] * 2, [x, x[1:, ::-2]]) == [x.ctypes.data, x[1:, ::-2].ctypes.data]


def test_the_fast_path_checks_dtype_and_flags_each_time():
    out, x = np.zeros(8, np.float32), np.ones(8, np.float32)
    params = [Param("x", "*fp32"), Param("y", "*fp32"), Param("out", "*fp32", True),
              Param("n", "i64")]  # fmt: skip
    launch = make_launcher(image()["add"], params, 0, name="add", keep=image())
    for _ in range(3):
        launch(8, 1, 1, x, x, out, 8)
    assert (out == 2).all()
    frozen = out.copy()
    frozen.flags.writeable = False
    launch(8, 1, 1, frozen, x, out, 8)
    assert (out == 3).all()
    with pytest.raises(ValueError, match=r"argument 'out' \(number 2\) is read-only"):
        launch(8, 1, 1, x, x, frozen, 8)
    with pytest.raises(TypeError, match=r"argument 'y' \(number 1\) has elements of type i32"):
        launch(8, 1, 1, x, np.ones(8, np.int32), out, 8)
    # Another dtype object that means the same
    other = np.dtype("float32", metadata={"unit": "m"})
    launch(8, 1, 1, np.ones(8, other), x, out, 8)
    assert (out == 2).all()

    class Sub(np.ndarray):
        pass

    launch(8, 1, 1, x.view(Sub), x, out, 7)
    assert (out == 2).all()


@needs_torch
def test_torch_tensors():
    for dtype, element in ((torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.bool, "i1"),
                           (torch.float8_e5m2, "fp8e5"), (torch.int64, "i64")):  # fmt: skip
        x = torch.zeros(4, 6).to(dtype)
        assert slots(["*" + element] * 2, [x, x[2:]]) == [x.data_ptr(), x[2:].data_ptr()]
    x = torch.zeros(4, requires_grad=True)
    parameter = torch.nn.Parameter(torch.zeros(4))
    assert slots(["*fp32"] * 2, [x, parameter]) == [x.data_ptr(), parameter.data_ptr()]

    class Sub(torch.Tensor):
        pass

    sub = torch.zeros(3).as_subclass(Sub)
    assert slots(["*fp32"], [sub]) == [sub.data_ptr()]


@needs_torch
@pytest.mark.parametrize("warm", [False, True])
def test_bad_torch_tensors(warm):
    good = torch.zeros(4)
    launch = make_launcher(image()["empty"], [Param("x", "*fp32", True)], 0)
    for _ in range(3 * warm):
        launch(1, 1, 1, good)
    with pytest.raises(ValueError, match=r"'x' \(number 0\) is in the memory of device meta"):
        launch(1, 1, 1, torch.zeros(4, device="meta"))
    with pytest.raises(TypeError, match=r"has elements of type i32; .* pointer to fp32"):
        launch(1, 1, 1, torch.zeros(4, dtype=torch.int32))
    gone = torch.zeros(4)
    gone.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"of shape \[4\] whose memory is not there"):
        launch(1, 1, 1, gone)
    launch(1, 1, 1, torch.zeros(0))
    launch(1, 1, 1, good)


@tritium.jit
def nothing(x, n, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0, mask=tl.arange(0, N) < n)


@needs_torch
def test_tensors_whose_memory_is_gone():
    good, gone = torch.zeros(4), torch.zeros(4)
    gone.untyped_storage().resize_(0)
    for _ in range(4):  # the later ones natively
        nothing[(1,)](good, 4, N=4)
        nothing[(1,)](torch.zeros(0), 0, N=4)
        with pytest.raises(ValueError, match=r"of shape \[4\] whose memory is not there"):
            nothing[(1,)](gone, 4, N=4)
    assert good.tolist() == [1.0] * 4


@needs_torch
def test_empty_tensors_need_no_python(monkeypatch: pytest.MonkeyPatch):
    """As other tensors; only the first launches are looked at in Python."""
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a launch in Python")

    for empty in (torch.zeros(0), torch.zeros((3, 0, 2))):
        kernel = tritium.jit(nothing.fn)
        for _ in range(4):
            kernel[(1,)](empty, 0, N=4)
        monkeypatch.setattr(type(kernel), "launch_in_python", refuse)
        kernel[(1,)](empty, 0, N=4)
        monkeypatch.undo()


class WithPointer:
    def __init__(self, dtype: object = "fp32", device: object = None):
        self.dtype = dtype
        if device is not None:
            self.device = device

    def data_ptr(self) -> int:
        return 4096


class Interface:
    def __init__(self, array: np.ndarray, **changes: object):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class DLPack:
    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0), versioned: bool = True):
        self.array, self.device, self.versioned = array, device, versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: object) -> object:
        if options and not self.versioned:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**options)


def test_other_objects():
    x = np.zeros(6, np.float32)
    address = x.ctypes.data
    assert slots(["*fp32"] * 2, [WithPointer(), WithPointer("?", "cpu")]) == [4096, 4096]
    assert slots(["*fp32"], [Interface(x)]) == [address]
    assert slots(["*fp32"] * 2, [DLPack(x), DLPack(x, versioned=False)]) == [address] * 2
    assert slots(["*fp32"], [memoryview(x)]) == [address]
    numbers = array.array("f", [1, 2])
    assert slots(["*fp32"], [numbers]) == [numbers.buffer_info()[0]]
    raw = bytearray(16)
    assert slots(["*fp32"], [raw]) == [np.frombuffer(raw, np.uint8).ctypes.data]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (WithPointer("i32"), TypeError, "elements of type i32"),
        (WithPointer(device="cuda:1"), ValueError, "in the memory of device cuda:1"),
        (DLPack(np.zeros(2), (2, 3)), ValueError, "in the memory of device 2:3"),
        (DLPack(np.zeros(2)), TypeError, "elements of type fp64"),
        (Interface(np.zeros(2, np.int8)), TypeError, "elements of type i8"),
        (Interface(np.zeros(2, np.float32), data=(8, True)), ValueError, "is read-only"),
        (Interface(np.zeros(2, np.float32), data=None), TypeError, "without a data pointer"),
        (b"1234", ValueError, "is read-only"),
        (array.array("d", [1]), TypeError, "elements of type fp64"),
        (type("Cupy", (), {"__cuda_array_interface__": {}})(), ValueError, "device cuda"),
        (type("Odd", (), {"__dlpack__": lambda self, **_: 3})(), TypeError, "no DLPack capsule"),
    ],
)  # fmt: skip
def test_bad_objects(value, error, message):
    launch = make_launcher(image()["empty"], [Param("x", "*fp32", True)], 0)
    with pytest.raises(error, match=rf"argument 'x' \(number 0\).*{message}"):
        launch(1, 1, 1, value)


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((-1, 1, 1), ValueError, r"kernel 'k': grid\[0\] is -1; expected 0 to 2147483647"),
        ((1, 2**31, 1), ValueError, r"grid\[1\] is 2147483648"),
        ((1, 1, 2**80), ValueError, r"grid\[2\] is"),
        ((1.5, 1, 1), TypeError, r"grid\[0\] is 1.5; expected an int"),
        ((1, "2", 1), TypeError, r"grid\[1\] is '2'"),
        ((2**31 - 1,) * 3, ValueError, "more than 2"),
    ],
)
def test_bad_grids(grid, error, message):
    launch = make_launcher(image()["empty"], [], 0, name="k")
    with pytest.raises(error, match=message):
        launch(*grid)


def test_grids_of_other_integers():
    out = np.zeros((6, 4), np.int32)
    params = [Param("out", "*i32", True), Param("bytes", "i64")]
    launch = make_launcher(image()["context"], params, 0)
    launch(np.int64(3), np.uint8(2), True, out, 0)
    assert (out[:, :3] == [3, 2, 1]).all()


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_wrong_number_of_arguments(values):
    params = [Param("n", "i32"), Param("m", "i32")]
    launch = make_launcher(image()["empty"], params, 0, name="k")
    message = rf"kernel 'k' takes the grid \(3 ints\) and 2 arguments \(n, m\); got {len(values)}"
    with pytest.raises(TypeError, match=message):
        launch(1, 1, 1, *values)
    with pytest.raises(TypeError, match="got 0 arguments"):
        launch()
    with pytest.raises(TypeError, match="keyword"):
        launch(gx=1)


def test_the_function_keeps_what_it_needs_and_no_more():
    class Kept:
        pass

    kept = Kept()
    watch = weakref.ref(kept)
    launch = make_launcher(image()["empty"], [Param("x", "*fp32")], 0, name="k", keep=kept)
    del kept
    gc.collect()
    launch(1, 1, 1, np.zeros(1, np.float32))
    assert watch() is not None
    assert launch.__name__ == "k" and launch.__doc__ == "Launch the kernel."
    gc.disable()
    try:
        del launch
        assert watch() is None
    finally:
        gc.enable()


def test_launches_leak_nothing():
    x, n = np.zeros(4, np.float32), 10**6
    launch = make_launcher(image()["empty"], [Param("x", "*fp32"), Param("n", "i32")], 0)
    objects = (x, n, None, x.dtype)
    launch(1, 1, 1, x, n)
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(1000):
        launch(1, 1, 1, x, n)
        launch(1, 1, 1, memoryview(x), np.int32(3))
        with pytest.raises(OverflowError):
            launch(1, 1, 1, x, 2**40)
    after = [sys.getrefcount(o) for o in objects]
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True)), (before, after)


def test_errors_leak_nothing():
    launch = make_launcher(image()["fault"], [Param("ran", "*i32"), Param("n", "i64")], 0)
    ran = np.zeros(1, np.int32)

    def fail(times: int) -> int:
        for _ in range(times):
            with pytest.raises(RuntimeError):
                launch(1, 1, 1, ran, 0)
        gc.collect()
        return sys.getallocatedblocks()

    before = fail(10)
    assert fail(1000) - before < 500


def test_negative_scratch_and_memory_that_does_not_exist():
    with pytest.raises(ValueError, match="scratch_bytes is -1"):
        make_launcher(image()["empty"], [], -1)
    launch = make_launcher(image()["empty"], [], 1 << 60)
    for _ in range(3):
        with pytest.raises(MemoryError):
            launch(1, 1, 1)
    make_launcher(image()["empty"], [], 0)(1, 1, 1)


def test_careful_path_functions():
    x = np.zeros(2, np.float32)
    assert extract_pointer(x, 0, "x", None, True) == x.ctypes.data
    assert extract_pointer(x, 0, "x", "fp32", True) == x.ctypes.data
    assert extract_scalar(-1, 0, "n", "i32") == MASK
