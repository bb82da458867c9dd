"""Atomic functions evaluated, against NumPy; their messages."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tritium.language.jit.function import device_function as jit


def pointer(dtype=tl.float32, count=None, const=False):
    address = block(0x1000 if count is None else [0x1000] * count, tl.int64)
    return address.to(tl.pointer_type(dtype, const=const))


OPERATIONS = {
    "add": (np.add, "i4 i8 u4 f4 f8 f2"), "max": (np.maximum, "i4 i8 u4 u8 f4 f8"),
    "min": (np.minimum, "i4 i8 u4 u8 f4 f8"), "and": (np.bitwise_and, "i4 u8"),
    "or": (np.bitwise_or, "i4 u8"), "xor": (np.bitwise_xor, "i4 u8"),
    "xchg": (lambda a, b: b, "i4 f4 u8"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "code"), [(n, c) for n, (_, codes) in OPERATIONS.items() for c in codes.split()]
)
def test_atomics(name, code):
    operation = getattr(tl, f"atomic_{name}")

    @jit
    def kernel(p, values, old, OP: tl.constexpr):
        i = tl.arange(0, 4)
        v = tl.load(values + i)
        tl.store(old + i, OP(p + i, v, mask=i < 3, sem="relaxed", scope="cta"), mask=i < 3)

    start = np.array([5, -3, 0, 100]).astype(code)
    values = np.array([-7, -3, 9, 1]).astype(code)
    memory, old = start.copy(), np.zeros(4, code)
    both(kernel, p=memory, values=values, old=old, OP=operation)
    np.testing.assert_array_equal(memory[:3], OPERATIONS[name][0](start, values)[:3])
    assert memory[3] == start[3]
    np.testing.assert_array_equal(old[:3], start[:3])


def test_atomics_on_repeated_addresses():
    @jit
    def kernel(p, count, lock):
        tl.atomic_add(p + tl.arange(0, 8) % 2, 1.0)
        before = tl.atomic_cas(lock, 0, 1)
        tl.atomic_add(count, before)
        tl.atomic_xchg(lock, 0)

    p, count = np.zeros(2, np.float32), np.zeros(1, np.int32)
    both(kernel, grid=(3,), p=p, count=count, lock=np.zeros(1, np.int32))
    assert p.tolist() == [12, 12] and count.tolist() == [0]


def test_float_extremes_order_zeros():
    @jit
    def kernel(p, q):
        tl.atomic_max(p, 0.0)
        tl.atomic_min(q, -0.0)

    p, q = np.full(1, -0.0, np.float32), np.full(1, 0.0, np.float32)
    both(kernel, p=p, q=q)
    assert not np.signbit(p[0]) and np.signbit(q[0])


def test_atomic_messages():
    with eager():
        for call, text in (
            (lambda: tl.atomic_add(pointer(tl.int8), 1), "atomic_add does not support int8"),
            (lambda: tl.atomic_max(pointer(tl.float16), 1), "atomic_max does not support fp16"),
            (lambda: tl.atomic_and(pointer(tl.float32), 1), "atomic_and does not support fp32"),
            (lambda: tl.atomic_add(pointer(), 1.0, sem="weak"), "Memory semantic weak not"),
            (lambda: tl.atomic_add(pointer(), 1.0, scope="node"), "Memory scope node not"),
            (lambda: tl.atomic_add(pointer(const=True), 1.0), "Cannot store to a constant"),
            (lambda: tl.atomic_cas(pointer(tl.int8), 0, 1), "width .16, 32, 64.; got int8"),
            (lambda: tl.atomic_add(block(3), 1), "Unsupported ptr type"),
        ):
            with pytest.raises(ValueError, match=text):
                call()
