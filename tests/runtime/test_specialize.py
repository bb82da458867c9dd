"""Specialization of a launch's arguments: types, divisibility, constants."""

from __future__ import annotations

import math
from collections import namedtuple
from enum import Enum, IntEnum
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium import knobs
from tritium.runtime.jit import MockTensor, TensorWrapper, reinterpret
from tritium.runtime.specialize import canonical_dtype, int_type

Pair = namedtuple("Pair", ["first", "second"])


class Ones(IntEnum):
    """An int of its own class."""

    ONE = 1


@tritium.jit
def any_kernel(x):
    pass


@tritium.constexpr_function
def tripled(x):
    return 3 * x


@tritium.jit
def calling(out, function, x):
    tl.store(out, function(x))


@tritium.jit
def doubled(x):
    return 2 * x


@tritium.jit
def constant_kernel(X: tl.constexpr):
    pass


def compiled(kernel: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Description of a launch that the compilation hook gets; nothing is compiled."""
    seen: list[dict[str, Any]] = []

    def hook(**info: Any) -> bool:
        seen.append(info["compile"])
        return True

    knobs.runtime.jit_cache_hook = hook
    assert kernel.warmup(*args, grid=(1,), **kwargs) is None
    knobs.runtime.jit_cache_hook = None
    return seen[0]


ALIGNED = [["tt.divisibility", 16]]
ARGUMENTS = [
    (2, "i32", False), (32, "i32", True), (0, "i32", True), (-16, "i32", True),
    (2**31 - 1, "i32", False), (2**31, "i64", True), (-(2**31), "i32", True),
    (-(2**31) - 1, "i64", False), (2**63 - 1, "i64", False), (2**63, "u64", True),
    (2**64 - 1, "u64", False), (-(2**63), "i64", True),
    (1, "constexpr", False), (None, "constexpr", False), ("text", "constexpr", False),
    (True, "u1", False), (False, "u1", False), (np.bool_(True), "u1", False),
    (0.0, "fp32", False), (1.0, "fp32", False), (np.float64(2), "fp32", False),
    (np.int64(48), "i32", True), (np.int32(1), "constexpr", False),
    (np.zeros(4, np.float16), "*fp16", True), (np.zeros(4, np.int8), "*i8", True),
    (np.zeros(4, np.bool_), "*i1", True), (np.zeros(4, np.uint64), "*u64", True),
    (np.zeros(8, np.float64)[1:], "*fp64", False), (np.zeros(8, np.float64)[2:], "*fp64", True),
    (np.zeros(4, ml_dtypes.bfloat16), "*bf16", True),
    (np.zeros(4, ml_dtypes.float8_e4m3fn), "*fp8e4nv", True),
    (np.zeros(4, ml_dtypes.float8_e5m2), "*fp8e5", True),
    (tl.float16, "constexpr", False),
    (tl.constexpr(7), "constexpr", False),
]  # fmt: skip


def _aligned(value: Any) -> Any:
    """An array of the same contents at an address divisible by 16 (NumPy promises only 8)."""
    if not isinstance(value, np.ndarray) or value.base is not None:
        return value
    room = np.zeros(value.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    return room[start : start + value.nbytes].view(value.dtype)


@pytest.mark.parametrize(("value", "type_", "aligned"), ARGUMENTS, ids=str)
def test_argument(value: Any, type_: str, aligned: bool) -> None:
    if isinstance(value, np.ndarray) and value.base is not None:  # a view: place its base
        offset = value.ctypes.data - value.base.ctypes.data
        value = _aligned(np.zeros(8, value.dtype))[offset // value.itemsize :]
    info = compiled(any_kernel, _aligned(value))
    assert info["signature"] == {"x": type_}
    assert info["configs"][0] == ({(0,): ALIGNED} if aligned else {})
    if type_ == "constexpr":
        expected = value.value if isinstance(value, tl.constexpr) else value
        assert info["constants"] == {(0,): expected}
    else:
        assert info["constants"] == {}


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**30])
def test_integers_beyond_64_bits(value: int) -> None:
    with pytest.raises(OverflowError, match=rf"argument 'x'.*{value}.*64 bits"):
        any_kernel[(1,)](value)
    with pytest.raises(OverflowError):
        int_type(value)


@pytest.mark.parametrize(
    "value", [object(), {}, {1: 2}, 1j, b"bytes", [1, 2]], ids=lambda v: type(v).__name__
)
def test_what_no_kernel_takes(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"argument 'x' has type {type(value).__name__}; a kernel"):
        any_kernel[(1,)](value)


@pytest.mark.parametrize(
    "dtype", [np.complex64, "U4", object, "datetime64[s]", "V8", np.longdouble]
)
def test_arrays_of_no_kernel_type(dtype: Any) -> None:
    with pytest.raises(
        TypeError, match=r"argument 'x'.*no kernel type matches.*supported are bf16"
    ):
        any_kernel[(1,)](np.zeros(4, dtype))


def test_tuples() -> None:
    x = _aligned(np.zeros(4, np.float32))
    info = compiled(any_kernel, (x, 1, (2.5, 16, None), ()))
    assert info["signature"] == {"x": ("*fp32", "constexpr", ("fp32", "i32", "constexpr"), ())}
    assert info["constants"] == {(0, 1): 1, (0, 2, 2): None}
    assert info["configs"][0] == {(0, 0): ALIGNED, (0, 2, 1): ALIGNED}
    info = compiled(any_kernel, Pair(3, x))
    assert info["signature"] == {"x": Pair("i32", "*fp32")}


def test_descriptors() -> None:
    class Descriptor:
        base = np.zeros((128, 128), np.float16)
        shape, strides, block_shape = [128, 128], [128, 1], [64, 32]

    info = compiled(any_kernel, Descriptor())
    assert info["signature"] == {"x": "tensordesc<fp16[64, 32]>"}


def variants(values: list[Any], **options: Any) -> int:
    """How many kernels launches with these values make."""

    @tritium.jit(**options)
    def kernel(i):
        pass

    for value in values:
        kernel.warmup(value, grid=(1,))
    (cache,) = kernel.device_caches.values()
    return len(cache[0])


POWERS = [1, 2, 4, 8, 16, 32]


def test_do_not_specialize(stub: StubDriver) -> None:
    assert variants(POWERS) == 3
    assert variants(POWERS, do_not_specialize=["i"]) == 1
    assert variants(POWERS, do_not_specialize=[0]) == 1
    assert variants(POWERS, do_not_specialize_on_alignment=["i"]) == 2
    assert variants(POWERS, do_not_specialize_on_alignment=[0]) == 2
    pointers = [_aligned(np.zeros(64, np.float32))[k:] for k in range(6)]
    assert variants(pointers) == 2
    assert variants(pointers, do_not_specialize_on_alignment=["i"]) == 1
    assert variants([1, 2, None], do_not_specialize=["i"]) == 2


def test_one_without_specialization_is_a_value(stub: StubDriver) -> None:
    @tritium.jit(do_not_specialize=["i"])
    def kernel(out, i):
        tl.store(out, i)

    assert compiled(kernel, np.zeros(1), 1)["signature"]["i"] == "i32"


def test_integers_of_annotated_parameters() -> None:
    """1 and multiples of 16 have their own kernels, by launches in Python and by native ones."""

    @tritium.jit
    def kernel(out, i: tl.int32):
        tl.store(out, i)

    out = np.zeros(1, np.int32)
    for value, kernels in [(8, 1), (17, 1), (8, 1), (1, 2), (1, 2), (16, 3), (1, 3)]:
        kernel[(1,)](out, value)
        assert out[0] == value
        assert len(kernel.device_caches[0][0]) == kernels


@pytest.mark.parametrize("annotation", ["i8", "i16", "u16", "u8", "i32", "i64", "u64"])
def test_integers_of_each_annotated_type(annotation: str) -> None:
    """A name that begins as another type's does ("i16" and "i1") is told from it."""
    kernel = _annotated(annotation)
    for value, kernels in [(3, 1), (48, 2), (48, 2), (5, 2), (1, 3), (1, 3), (96, 3), (48, 3)]:
        found = kernel[(1,)](value)
        assert found.src.attrs == ({(0,): ALIGNED} if value % 16 == 0 else {})
        assert len(kernel.device_caches[0][0]) == kernels


@pytest.mark.parametrize("one", [np.int32(1), np.uint8(1), Ones.ONE])
def test_one_of_any_class_is_the_same_constant(one: Any) -> None:
    @tritium.jit
    def kernel(out, x):
        tl.store(out, x.to(tl.float32) / 2)

    out = np.zeros(1, np.float32)
    first = kernel[(1,)](out, one)
    assert out[0] == 0.5
    assert kernel[(1,)](out, 1) is first
    assert type(first.src.constants[1,]) is int


def _annotated(annotation: Any) -> Any:
    def kernel(x):
        pass

    kernel.__annotations__["x"] = annotation
    return tritium.jit(kernel)


@pytest.mark.parametrize(
    ("annotation", "value", "type_"),
    [
        (tl.int64, 32, "i64"), ("tl.int64", 5, "i64"), (tl.uint8, 7, "u8"), ("u32", 16, "u32"),
        (tl.float64, 1.5, "fp64"), (tl.float16, 1.5, "fp16"), ("fp64", 2, "fp64"),
        (tl.float32, 1, "fp32"), (tl.int1, True, "u1"), (int, 5, "i32"), (float, 2.0, "fp32"),
        (tl.bfloat16, 0.5, "bf16"), (tl.int64, 1, "i64"), (tl.int32, True, "i32"), (int, 1, "i32"),
        (bool, True, "u1"),
    ],
)  # fmt: skip
def test_annotations_fix_types(annotation: Any, value: Any, type_: str) -> None:
    assert compiled(_annotated(annotation), value)["signature"]["x"] == type_


def test_const_pointers() -> None:
    @tritium.jit
    def kernel(x: tl.const, y: const):  # noqa: F821  # pyright: ignore
        pass

    a = np.zeros(4, np.float32)
    assert compiled(kernel, a, a)["signature"] == {"x": "*kfp32", "y": "*kfp32"}
    for annotation in ("const *fp32", "const float*", "*kfp32"):
        assert compiled(_annotated(annotation), a)["signature"] == {"x": "*kfp32"}
    assert compiled(_annotated("*fp32"), a)["signature"] == {"x": "*fp32"}


@pytest.mark.parametrize(("function", "wanted"), [(doubled, 2), (tripled, 3)])
def test_functions_are_constants_without_an_annotation(function: Any, wanted: int) -> None:
    out = np.zeros(1, np.int32)
    calling[(1,)](out, function, 1)
    assert out == wanted


def test_constants_that_may_be_none() -> None:
    @tritium.jit
    def kernel(out, n: Any | tl.constexpr = None, m: tl.constexpr | None = 3):
        tl.store(out, 7 if n is None else n + m)

    assert [p.is_constexpr for p in kernel.params] == [False, True, True]
    assert not any(p.is_const for p in kernel.params)
    out = np.zeros(1, np.int32)
    for args, expected in (((), 7), ((5,), 8), ((5, 1), 6)):
        kernel[(1,)](out, *args)
        assert out[0] == expected


class Color(Enum):
    RED = 1
    BLUE = 2


@tritium.jit
def callee(x):
    return x


@tritium.jit
def other_callee(x):
    return x + 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True), (1, 1.0), (0, False), (0.0, -0.0), ((1, 2), (1, 2.0)), ((1,), (True,)),
        ("1", 1), (None, 0), (tl.float32, "fp32"), (callee, other_callee), (Color.RED, Color.BLUE),
        ([1, 2], [1, 3]), ((0.0,), (-0.0,)), (Color.RED, 1), ({"a": 1}, {"a": 2}), (10**30, 1),
    ],
    ids=str,
)  # fmt: skip
def test_constants_told_apart(stub: StubDriver, left: Any, right: Any) -> None:
    kernels = [constant_kernel.warmup(value, grid=(1,)) for value in (left, right, left)]
    assert kernels[0] is not kernels[1]
    assert kernels[0] is kernels[2]


@pytest.mark.parametrize("value", [float("nan"), math.nan, float("inf"), 10**30, tl.constexpr(3)])
def test_constants_found_again(stub: StubDriver, value: Any) -> None:
    again = type(value)(value.value if isinstance(value, tl.constexpr) else value)
    first = constant_kernel.warmup(value, grid=(1,))
    assert constant_kernel.warmup(again, grid=(1,)) is first


def test_unhashable_constant() -> None:
    with pytest.raises(TypeError, match=r"argument 'X'.*constexpr.*array"):
        constant_kernel[(1,)](np.zeros(3))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "fp32"), (np.dtype("int16"), "i16"), (tl.bfloat16, "bf16"), ("bool", "i1"),
        ("float8e4nv", "fp8e4nv"), (tl.float8e5, "fp8e5"), (tl.int1, "i1"), (tl.uint32, "u32"),
    ],
)  # fmt: skip
def test_canonical_dtype(dtype: Any, name: str) -> None:
    assert canonical_dtype(dtype) == name


def test_reinterpret() -> None:
    x = np.zeros(4, np.int8)
    view = reinterpret(x, tl.float8e5)
    assert isinstance(view, TensorWrapper) and view.data_ptr() == x.ctypes.data
    assert "TensorWrapper[fp8e5]" in str(view)
    assert reinterpret(view, np.int8) is x and reinterpret(view, x.dtype) is x
    assert reinterpret(view, tl.int8) is x
    assert compiled(any_kernel, view)["signature"]["x"] == "*fp8e5"
    copy = view.clone()
    copy.base[:] = 60  # 1.0 as e5m2
    view.copy_(copy)
    assert x.tolist() == [60] * 4
    with pytest.raises(TypeError, match=r"Cannot reinterpret a <class 'int'>"):
        reinterpret(5, tl.float8e5)
    with pytest.raises(TypeError, match=r"no kernel type matches dtype nothing"):
        reinterpret(x, "nothing")


def test_reinterpret_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.full((4,), 60, dtype=torch.int8)
    view = tritium.reinterpret(x, tl.float8e5)
    assert view.stride() == (1,) and view.stride(0) == 1 and view.element_size() == 1
    assert view.shape == (4,) and view.device == x.device and not view.is_cuda
    assert isinstance(view.cpu(), TensorWrapper) and isinstance(view.to("cpu"), TensorWrapper)
    assert view.new_empty((2,)).shape == (2,)
    assert view.data.data_ptr() == x.data_ptr()
    view.data = view.data[:2]
    assert view.data.shape == (2,) and view.base is x
    assert tritium.reinterpret(view, torch.int8) is x
    assert tritium.reinterpret(view, tl.float8e4nv).base is x
    out = np.zeros(4, np.float32)

    @tritium.jit
    def widen(src, dst, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(dst + i, tl.load(src + i).to(tl.float32))

    widen[(1,)](view, out, 4)
    assert out.tolist() == [1.0] * 4


def test_mock_tensors() -> None:
    mock = MockTensor.wrap_dtype(np.dtype(np.float16))
    assert mock.data_ptr() == 0 and mock.dtype == np.float16
    assert MockTensor(np.dtype("f4"), (3, 4, 5)).stride() == (20, 5, 1)
    assert MockTensor.wrap_dtype(5) == 5
