"""Loads, stores and block pointers."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, both, eager
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import InterpreterError
from tritium.language.jit.function import device_function as jit


def pointer(dtype=tl.float32, count=None, const=False):
    address = block(0x1000 if count is None else [0x1000] * count, tl.int64)
    return address.to(tl.pointer_type(dtype, const=const))


def test_masks_keep_memory_untouched():
    @jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=-7)
        tl.store(out + i, v, mask=i < n + 1)

    x, out = np.arange(8, dtype=np.float32), np.full(9, 99, np.float32)
    both(kernel, x=x, out=out, n=8, BLOCK=16)
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, -7]


def test_shapes_of_values_and_masks():
    @jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        p = x + i[:, None] * 4 + i[None, :]
        v = tl.load(p, mask=i[None, :] < 3, other=1)
        tl.store(out + i[:, None] * 4 + i[None, :], v, mask=(i < 2)[:, None])
        tl.store(out + 12 + i, 5)
        tl.store(out + 11, tl.load(x))
        tl.store(out + 10, 2, mask=tl.load(x) > 100)

    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    both(kernel, x=x, out=out)
    assert out.tolist() == [0, 1, 2, 1, 4, 5, 6, 1, 0, 0, 0, 0, 5, 5, 5, 5]


def test_stored_values_are_cast():
    @jit
    def kernel(a, b, c):
        i = tl.arange(0, 4)
        tl.store(a + i, i)
        tl.store(b + i, i * 1.75)
        tl.store(c + i, i > 1)

    a, b, c = np.zeros(4, np.float16), np.zeros(4, np.int8), np.zeros(4, np.bool_)
    both(kernel, a=a, b=b, c=c)
    assert (a.tolist(), b.tolist(), c.tolist()) == (
        [0, 1, 2, 3], [0, 1, 3, 5], [False, False, True, True],
    )  # fmt: skip


@pytest.mark.parametrize("number", [float("-inf"), float("nan"), 1e30, -1.5e300, -2.0, 300.0])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.every(5)
def test_numbers_that_an_integer_cannot_hold_are_converted_as_others_are(dtype, number):
    @jit
    def kernel(x, f, out, NUMBER: tl.constexpr):
        i = tl.arange(0, 4)
        element = out.dtype.element_ty
        tl.store(out + i, tl.load(x + i, mask=i < 2, other=NUMBER))
        tl.store(out + 4 + i, NUMBER, mask=i < 2)
        tl.store(out + 6 + i, tl.load(f + i).to(element), mask=i < 2)

    out = np.zeros(8, dtype)
    both(kernel, x=np.full(4, 3, dtype), f=np.full(4, number), out=out, NUMBER=number)
    assert out[:2].tolist() == [3, 3]
    assert out[2:].tolist() == [out[7]] * 6


def test_booleans_in_memory():
    @jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        flag = tl.load(x + i)
        tl.store(out + i, ~flag)

    out = np.zeros(4, np.bool_)
    both(kernel, x=np.array([True, False, True, False]), out=out)
    assert out.tolist() == [False, True, False, True]


def test_messages_of_loads_and_stores():
    with eager():
        p, mask = pointer(count=2), block([True, False], tl.int1)
        for call, text in (
            (lambda: tl.load(p, other=0.0), "`other` cannot be provided without `mask`"),
            (lambda: tl.load(block([1, 2])), "Unsupported ptr type .* in `tl.load`; a pointer, or"),
            (lambda: tl.store(block([1, 2]), 0), "Unsupported ptr type .* in `tl.store`"),
            (lambda: tl.load(pointer(), mask), "Mask argument cannot be block type if pointer"),
            (lambda: tl.load(p, block([1, 0])), "Mask must have boolean scalar type; got int32"),
            (lambda: tl.store(pointer(), block([1.0, 2.0], tl.float32)), "Value argument cannot"),
            (lambda: tl.store(pointer(const=True), 1), "Cannot store to a constant pointer"),
            (lambda: tl.load(p, cache_modifier=".wb"), "Cache modifier .wb not supported"),
            (lambda: tl.store(p, 1.0, cache_modifier=".ca"), "Cache modifier .ca not supported"),
            (lambda: tl.load(p, eviction_policy="never"), "Eviction policy never not supported"),
            (lambda: tl.load(p, padding_option="inf"), "Padding option inf not supported"),
            (lambda: tl.load(p, boundary_check=(0,)), "make_block_ptr"),
            (lambda: tl.store(p, 1.0, boundary_check=(0,)), "make_block_ptr"),
        ):
            with pytest.raises(ValueError, match=text):
                call()


BLOCKS = [(8,), (1,), (8, 1), (1, 8), (8, 8), (1, 1), (4, 8, 8)]


@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("pointers", BLOCKS, ids=str)
@pytest.mark.every(3)
def test_a_write_has_an_address_for_each_element(pointers, shape):
    """A value or mask is repeated for the pointers, never the pointers for it."""
    with eager():
        p = tl.zeros(pointers, tl.int64).to(tl.pointer_type(tl.float32), bitcast=True)
        value, keep = tl.zeros(shape, tl.float32), tl.zeros(shape, tl.int1)
        writes = [
            lambda: tl.store(p, value, mask=tl.zeros(pointers, tl.int1)),
            lambda: tl.store(p, 1.0, mask=keep),
            lambda: tl.atomic_add(p, 1.0, mask=keep),
            lambda: tl.atomic_xchg(p, value, mask=tl.zeros(pointers, tl.int1)),
        ]
        try:
            fits = np.broadcast_shapes(pointers, shape) == pointers
        except ValueError:
            fits = False
        for write in writes:
            if fits:
                write()
                continue
            with pytest.raises(ValueError, match=r"Expected pointer argument|Cannot"):
                write()
        if not fits:
            with pytest.raises(ValueError, match=r"Expected pointer argument|Cannot"):
                tl.atomic_cas(p, value, value)


@pytest.mark.parametrize("padding", ["", "zero", "nan"])
@pytest.mark.parametrize("check", [(0, 1), (1, 0)])
def test_block_pointers(padding, check):
    @jit
    def kernel(x, out, m, n, PAD: tl.constexpr, CHECK: tl.constexpr):
        source = tl.make_block_ptr(x, (m, n), (n, 1), (0, 0), (4, 8), (1, 0))
        source = tl.advance(source, (2, 4))
        target = tl.make_block_ptr(out, (4, 8), (8, 1), (0, 0), (4, 8), (1, 0))
        v = tl.load(source, boundary_check=CHECK, padding_option=PAD)
        tl.store(target, v + 1, boundary_check=(0,))

    x, out = np.arange(50, dtype=np.float32).reshape(5, 10), np.zeros((4, 8), np.float32)
    both(kernel, x=x, out=out, m=5, n=10, PAD=padding, CHECK=check)
    expected = np.full((4, 8), np.nan if padding == "nan" else 1, np.float32)
    expected[:3, :6] = x[2:, 4:] + 1
    np.testing.assert_array_equal(out, expected)


def test_block_pointer_messages():
    with eager():
        p = tl.make_block_ptr(pointer(tl.int32), (4,), (1,), (0,), (4,), (0,))
        for call, text in (
            (lambda: tl.load(p, mask=True), "`mask` and `other` arguments cannot be specified"),
            (lambda: tl.store(p, 1, mask=True), "`mask` argument cannot be specified"),
            (lambda: tl.load(p, padding_option="nan"), "not supported for integer block pointers"),
            (lambda: tl.load(p, boundary_check=(1,)), "axes from 0 to 0 are allowed"),
            (lambda: tl.load(p, boundary_check=(0, 0)), "each axis may be given once"),
            (lambda: tl.advance(p, (1, 2)), "one i32 for each axis is required"),
            (lambda: tl.advance(pointer(), (1,)), "a block pointer is required"),
            (lambda: tl.make_block_ptr(3, (4,), (1,), (0,), (4,), (0,)), "to be a pointer type"),
            (
                lambda: tl.make_block_ptr(pointer(), (4,), (1,), (0,), (4,), (1,)),
                "Expected a permutation",
            ),
            (
                lambda: tl.make_block_ptr(pointer(), (4, 4), (1,), (0,), (4,), (0,)),
                "to have the same length",
            ),
        ):
            with pytest.raises(ValueError, match=text):
                call()


def test_pointers_in_memory():
    @jit
    def kernel(addresses, out):
        p = tl.load(addresses + tl.arange(0, 2)).to(tl.pointer_type(tl.float32))
        tl.store(out + tl.arange(0, 2), tl.load(p))

    a, b, out = np.full(1, 3, np.float32), np.full(1, 4, np.float32), np.zeros(2, np.float32)
    addresses = np.array([v.__array_interface__["data"][0] for v in (a, b)], np.int64)
    InterpretedKernel(kernel.fn)[(1,)](addresses, out)
    assert out.tolist() == [3, 4]


def test_fp8_in_memory():
    @jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + i).to(tl.float32) * 2)

    x = np.array([1, 1.5, -2, 3], NUMPY[tl.float8e4nv])
    out = np.zeros(4, NUMPY[tl.float8e5])
    both(kernel, x=x, out=out)
    assert out.astype(float).tolist() == [2, 3, -4, 6]


def test_out_of_bounds_is_an_error():
    def kernel(x, out):
        tl.store(out + tl.arange(0, 4), tl.load(x + tl.arange(0, 4) + 10))

    with pytest.raises(InterpreterError, match=r"out-of-bounds access .* argument 'x' \(float32"):
        InterpretedKernel(kernel)[(1,)](np.zeros(12, np.float32), np.zeros(4, np.float32))
