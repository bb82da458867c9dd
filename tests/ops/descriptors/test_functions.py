"""Descriptors evaluated: loads, stores, gathers, extremes, messages."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tritium.language.jit.function import device_function as jit


def pointer(dtype=tl.float32, count=None, const=False):
    address = block(0x1000 if count is None else [0x1000] * count, tl.int64)
    return address.to(tl.pointer_type(dtype, const=const))


def test_descriptors():
    @jit
    def copy(desc, out, m):
        tile = desc.load([m, 0])
        tl.store_tensor_descriptor(out, [0, m], tile * 2)

    @jit
    def kernel(x, out, m, n):
        source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [4, 8])
        target = tl.make_tensor_descriptor(out, [m, n], [n, 1], [4, 8])
        copy(source, target, 2)

    x, out = np.arange(50, dtype=np.float32).reshape(5, 10), np.zeros((5, 10), np.float32)
    both(kernel, x=x, out=out, m=5, n=10)
    expected = np.zeros((5, 10), np.float32)
    expected[:3, 2:10] = x[2:, :8] * 2
    np.testing.assert_array_equal(out, expected)


def test_descriptor_gather_scatter_and_atomics():
    @jit
    def kernel(x, rows, out, total, n):
        source = tl.make_tensor_descriptor(x, [8, n], [n, 1], [1, 8])
        target = tl.make_tensor_descriptor(out, [8, n], [n, 1], [1, 8])
        index = tl.load(rows + tl.arange(0, 8))
        target.scatter(source.gather(index, 8), index, 0)
        sums = tl.make_tensor_descriptor(total, [2, 8], [8, 1], [2, 8])
        sums.atomic_add([0, 0], tl.full((2, 8), 2, tl.int32))
        sums.atomic_max([0, 4], tl.full((2, 8), 5, tl.int32))

    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    rows = np.array([3, 1, 4, 0, 5, 7, 2, 6], np.int32)
    out, total = np.zeros((8, 16), np.float32), np.ones((2, 8), np.int32)
    both(kernel, x=x, rows=rows, out=out, total=total, n=16)
    np.testing.assert_array_equal(out[:, :8], x[:, 8:])
    assert total.tolist() == [[3] * 4 + [5] * 4] * 2


@pytest.mark.parametrize("code", ["u4", "i4", "u8"])
def test_descriptor_extremes_follow_the_sign(code):
    @jit
    def kernel(p, values):
        v = tl.load(values + tl.arange(0, 4))
        desc = tl.make_tensor_descriptor(p, [8], [1], [4])
        desc.atomic_max([0], v)
        desc.atomic_min([4], v)

    start = np.array([1, 2**31 + 5, 7, 0] * 2, np.int64).astype(code)
    values = np.array([2**31 + 1, 3, 7, 2**32 - 1], np.int64).astype(code)
    p = start.copy()
    both(kernel, p=p, values=values)
    np.testing.assert_array_equal(p[:4], np.maximum(start[:4], values))
    np.testing.assert_array_equal(p[4:], np.minimum(start[4:], values))


def test_descriptor_messages():
    with eager():
        p = pointer(tl.float16)

        def make(shape=(8, 8), strides=(8, 1), extents=(8, 8), **options):
            return tl.make_tensor_descriptor(
                p, list(shape), list(strides), list(extents), **options
            )

        for call, text in (
            (lambda: make([], [], []), "Expected 1 <= ndim <= 5 but got 0"),
            (lambda: make(strides=(1,)), r"strides \(i64\); 2 of i32 and of i64 are required"),
            (lambda: make(extents=(8,)), "1 of i32 and of i64 are required"),
            (lambda: make(extents=(8, 4)), "at least 16 bytes .* got 4 . 2 = 8 bytes"),
            (lambda: make(strides=(8, 2)), "last dim must be 1 but got 2"),
            (lambda: make().load([0]), "expected 2 offsets, but got 1"),
            (lambda: make().gather(block([0] * 8), 0), r"2D with block \[1, BLOCK_Y\]"),
            (lambda: make().atomic_xor([0, 0], 1), "Unsupported dtype fp16"),
        ):
            with pytest.raises(ValueError, match=text):
                call()
        with pytest.raises(TypeError, match="a tensor descriptor is required"):
            tl.load_tensor_descriptor(p, [0, 0])
