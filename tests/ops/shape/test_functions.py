"""Creation and changes of shape."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, eager
from tritium.errors import OpError


@pytest.fixture(autouse=True)
def _evaluate_at_once():
    with eager():
        yield


def cube():
    return block(np.arange(64).reshape(2, 4, 8))


def same(found, expected, dtype=None):
    assert found.type.shape == np.shape(expected)
    np.testing.assert_array_equal(found.value, expected)
    assert dtype is None or found.dtype == dtype


def test_creation():
    same(tl.arange(0, 8), np.arange(8), tl.int32)
    same(tl.arange(-4, 4), np.arange(-4, 4))
    same(tl.full((2, 4), 7, tl.int8), np.full((2, 4), 7), tl.int8)
    same(tl.full([4], block(2.5, tl.float32), tl.float16), [2.5] * 4, tl.float16)
    same(tl.zeros((4,), tl.bfloat16), np.zeros(4), tl.bfloat16)
    same(tl.zeros_like(cube()), np.zeros((2, 4, 8)), tl.int32)
    same(tl.full([2], -1, tl.uint8), [255, 255], tl.uint8)
    same(tl.full((), 3, tl.int64), 3, tl.int64)
    same(tl.full([2], True, tl.int1), [True, True], tl.int1)


def test_creation_messages():
    with pytest.raises(ValueError, match="arange's range must be a power of 2"):
        tl.arange(2, 7)
    with pytest.raises(ValueError, match="end argument must be greater than the start"):
        tl.arange(4, 4)
    with pytest.raises(ValueError, match=r"must be of type tl.constexpr"):
        tl.arange(0, block(4))
    with pytest.raises(ValueError, match="must fit in int32"):
        tl.arange(0, 1 << 40)
    with pytest.raises(ValueError, match="Shape element 0 must be a power of 2"):
        tl.full((33,), 0, tl.int32)
    with pytest.raises(ValueError, match="maximum tensor numel"):
        tl.zeros((2048, 1024), tl.int32)
    with pytest.raises(TypeError, match="dtype is 3"):
        tl.zeros((2,), 3)
    with pytest.raises(ValueError, match="only a scalar can fill"):
        tl.full([2], block([1, 2]), tl.int32)
    with pytest.raises(ValueError, match="program_id axis must be 0, 1, or 2 but got 3"):
        tl.program_id(3)
    with pytest.raises(ValueError, match="num_programs axis must be 0, 1, or 2 but got -1"):
        tl.num_programs(-1)


def test_reshape():
    x = cube()
    same(tl.reshape(x, (8, 8)), x.value.reshape(8, 8))
    same(x.reshape(64), x.value.reshape(64))
    same(x.reshape([4, 16]), x.value.reshape(4, 16))
    same(tl.view(x, 16, 4), x.value.reshape(16, 4))
    same(tl.ravel(x), x.value.reshape(-1))
    same(block(5).reshape(1, 1), [[5]])
    with pytest.raises(ValueError, match=r"reshape.. cannot change total number of elements"):
        x.reshape(32)
    with pytest.raises(ValueError, match="Shape element 0 must be a power of 2"):
        x.reshape(3)


def test_axes():
    x = cube()
    same(tl.expand_dims(x, 0), x.value[None])
    same(x.expand_dims(-1), x.value[..., None])
    same(tl.expand_dims(block([1, 2]), (0, -1)), [[[1], [2]]])
    same(tl.trans(x), x.value.swapaxes(1, 2))
    same(x.T, x.value.swapaxes(1, 2))
    same(tl.trans(x, 2, 0, 1), x.value.transpose(2, 0, 1))
    same(tl.permute(x, (1, 2, 0)), x.value.transpose(1, 2, 0))
    with pytest.raises(ValueError, match=r"permutation of 0, 1, ..., n-1"):
        x.permute(0, 0, 1)
    with pytest.raises(ValueError, match="same length as input shape"):
        x.permute(0, 1)
    with pytest.raises(ValueError, match="duplicate axes"):
        x.expand_dims((0, 0))
    with pytest.raises(ValueError, match=r"invalid axis 5. Expected -4 <= axis < 4"):
        x.expand_dims(5)
    with pytest.raises(ValueError, match="2 axes are needed"):
        tl.trans(block([1, 2]))


def test_join_split_interleave_cat():
    a, b = block([1, 2, 3, 4]), block([5, 6, 7, 8])
    joined = tl.join(a, b)
    same(joined, np.stack([a.value, b.value], -1))
    left, right = joined.split()
    same(left, a.value), same(right, b.value)
    same(tl.interleave(a, b), [1, 5, 2, 6, 3, 7, 4, 8])
    same(tl.join(block(1), block(2)), [1, 2])
    same(tl.interleave(block(1), block(2)), [1, 2])
    x, y = tl.split(block([3, 4]))
    assert (int(x), int(y)) == (3, 4) and not x.type.is_block()
    assert sorted(tl.cat(a, b, can_reorder=True).value) == list(range(1, 9))
    same(tl.cat(a, b), np.arange(1, 9))
    same(tl.join(a, 9), np.stack([a.value, np.full(4, 9)], -1))
    with pytest.raises(ValueError, match="the last of size 2, are required"):
        tl.split(a)
    with pytest.raises(TypeError, match="dtypes must be the same"):
        tl.join(a, block([1.0], tl.float32))
    with pytest.raises(ValueError, match="two blocks of one type"):
        tl.cat(a, cube())


def test_item():
    assert int(block([[7]]).item()) == 7 and not block([[7]]).item().type.is_block()
    assert int(block(3).item()) == 3
    with pytest.raises(ValueError, match="one element"):
        block([1, 2]).item()


def test_gather_and_histogram():
    x = block(np.arange(16).reshape(4, 4) * 10)
    index = block([[3, 0, 1, 2], [0, 0, 0, 0]])
    same(tl.gather(x, index, 0), np.take_along_axis(x.value, index.value, 0))
    index = block(np.array([[3, 0]] * 4))
    same(x.gather(index, -1), np.take_along_axis(x.value, index.value, 1))
    with pytest.raises(ValueError, match="ranks must match"):
        tl.gather(x, block([0]), 0)
    with pytest.raises(OpError, match="integers are required"):
        tl.gather(x, x.to(tl.float32), 0)
    with pytest.raises(ValueError, match="may only differ in axis 1"):
        tl.gather(x, block([[0]]), 1)
    counts = tl.histogram(block([0, 1, 1, 3, 3, 3, 7, 0]), 4)
    same(counts, [2, 2, 0, 3], tl.int32)
    masked = block([1, 1, 0, 1], tl.int1)
    same(block([2, 0, 2, 2]).histogram(4, mask=masked), [1, 0, 2, 0])
    with pytest.raises(ValueError, match="only supports 1D"):
        tl.histogram(x, 4)


def test_repr_shows_the_value():
    assert repr(block([1, 2])) == "tensor([1 2], <[2], int32>)"
    assert block([255], tl.uint8).value.dtype == np.uint8
    assert block(3).value == 3 and repr(block(3)) == "tensor(3, int32)"


def test_scalars_are_numbers():
    x = block(3)
    assert list(range(x)) == [0, 1, 2] and [1, 2, 3, 4][x] == 4 and int(x) + 1 == 4
    assert float(block(2.5, tl.float32)) == 2.5 and len(block([1, 2])) == 2
    assert max(block(3), block(5)).value == 5 and min(block(3), 2) == 2
    with pytest.raises(TypeError, match="cannot be used as an index"):
        range(block(2.5, tl.float32))
    with pytest.raises(TypeError, match="one element is needed"):
        int(block([1, 2]))
    with pytest.raises(TypeError, match="cannot be iterated over"):
        list(block([1, 2]))
