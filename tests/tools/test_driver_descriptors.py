"""Descriptors among the arguments of launchers, as drivers of others take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritium.backends.driver import (
    DriverBase,
    decompose_descriptor,
    expand_signature,
    wrap_handle_tensordesc_impl,
)
from tritium.backends.nvidia import tensormap
from tritium.backends.nvidia.driver import make_tensordesc_arg
from tritium.tools.tensor_descriptor import TensorDescriptor

MATRIX, DEEP = "tensordesc<fp16[8,4]>", "tensordesc_im2col<fp32[16],input_rank=3>"


def aligned(*shape: int) -> np.ndarray:
    raw = np.zeros(int(np.prod(shape)) + 8, np.float16)
    first = (-raw.ctypes.data // 2) % 8
    return raw[first : first + int(np.prod(shape))].reshape(shape)


def test_parts() -> None:
    base = aligned(32, 16)
    found = decompose_descriptor(TensorDescriptor.from_tensor(base, [8, 8], "nan"))
    assert found[0] is base and found[1:] == [32, 16, 16, 1, True, False, 32, 16, 16, 1]


def test_signatures() -> None:
    given = ["*fp32", MATRIX, ("i32", DEEP), "constexpr"]
    assert expand_signature(given, None, "map") == [
        "*fp32", "*fp16", *["i64"] * 4, "i1", "i1", "i32", "i32", "i64", "i64",
        ("i32", "*fp32", *["i64"] * 6, "i1", "i1", *["i32"] * 3, *["i64"] * 3), "constexpr",
    ]  # fmt: skip
    assert expand_signature(given, [{}, {}], "map") == [
        "*fp32", "map", "i32", "i32", "i64", "i64",
        ("i32", "map", *["i32"] * 3, *["i64"] * 3), "constexpr",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="malformed type of a tensor descriptor: 'tensordesc<f'"):
        expand_signature(["tensordesc<f"], None, "map")


def launched(metadata: Any) -> tuple[list[Any], list[Any]]:
    asked: list[Any] = []
    seen: list[Any] = []

    def make(*given: Any) -> list[Any]:
        asked.append(given)
        return ["first", "second"]

    kinds = {"a": "*fp32", "d": MATRIX, "t": ("i32", MATRIX), "n": "i32"}
    launch = wrap_handle_tensordesc_impl(lambda *args: seen.append(args), kinds, metadata, make)
    launch(1, 2, ("x", "desc", (5, "other"), 7))
    return asked, seen


def test_launches() -> None:
    want = [(1, 2, ["x", "first", "second", (5, "first", "second"), 7])]
    asked, seen = launched(["m0", "m1"])
    assert seen == want and asked == [("desc", "m0", (1, 2)), ("other", "m1", (1, 2))]
    asked, seen = launched(None)
    assert seen == want and asked == [("desc", None, (1, 2)), ("other", None, (1, 2))]
    with pytest.raises(TypeError, match="1 metadata for more descriptors"):
        launched(["m0"])


def test_launchers_without_descriptors_stay() -> None:
    assert wrap_handle_tensordesc_impl(print, {"a": "i32", "t": ("fp32",)}, None, max) is print


def test_memory_for_profiles_is_the_drivers() -> None:
    class Plain(DriverBase):
        is_active = map_python_to_cpp_type = get_current_target = None
        get_active_torch_device = get_benchmarker = None

    with pytest.raises(NotImplementedError, match="Plain: memory for profiled launches"):
        Plain().allocate_default_profile_scratch(64, 16, None)


def test_rounding_to_tf32_is_not_built() -> None:
    with pytest.raises(ValueError, match="only supported for float32 tensors; base holds float16"):
        TensorDescriptor.from_tensor(aligned(8, 8), [8, 8], round_f32_to_tf32=True)
    wide = aligned(8, 16).view(np.float32)
    with pytest.raises(NotImplementedError, match="round_f32_to_tf32 is not built"):
        TensorDescriptor(wide, [8, 8], [8, 1], [8, 8], round_f32_to_tf32=True)


def test_values_that_cuda_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        shape, dtype = (32, 16), np.dtype(np.float16)

        def data_ptr(self) -> int:
            return 4096

    base: Any = Tensor()
    descriptor = TensorDescriptor(base, [32, 16], [16, 1], [8, 8])
    assert make_tensordesc_arg(descriptor, None) == [base, 32, 16, 16, 1]
    monkeypatch.setattr(tensormap, "make", lambda *given: given)
    (address, described, meta), *rest = make_tensordesc_arg(descriptor, {"swizzle": 0}, ("x",))
    assert (address, described, meta) == (4096, descriptor, {"swizzle": 0})
    assert rest == [32, 16, 16, 1]
