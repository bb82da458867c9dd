"""Descriptors made on the host: what they refuse, and that kernels take them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.conformance.support import WAYS, build
from tritium.errors import TritonError
from tritium.tools.tensor_descriptor import TensorDescriptor


def aligned(shape: tuple[int, ...], dtype: type = np.float32, offset: int = 0) -> np.ndarray:
    """Zeros whose memory starts `offset` bytes past a multiple of 16."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 32, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def test_of_an_array():
    x = aligned((6, 8))
    made = TensorDescriptor.from_tensor(x, [2, 4])
    assert made == TensorDescriptor(x, (6, 8), [8, 1], [2, 4], "zero")


@pytest.mark.parametrize(
    ("shape", "strides", "block", "padding", "message"),
    [
        ((), (), (), "zero", "rank is 0; 1 to 5 is allowed"),
        ((1,) * 6, (1,) * 6, (1,) * 6, "zero", "rank is 6"),
        ((8, 8), (8, 1), (8,), "zero", "rank mismatch: .* strides 2, block_shape 1"),
        ((8, 8), (6, 1), (8, 8), "zero", r"strides must be 16-byte aligned; strides\[0\] is 6"),
        ((8, 8), (8, 2), (8, 8), "zero", "Last dimension must be contiguous; its stride is 2"),
        ((8, 0), (8, 1), (8, 8), "zero", r"shape must be positive; shape\[1\] is 0"),
        ((8.5, 8), (8, 1), (8, 8), "zero", r"shape\[0\] is 8.5, no integer"),
        ((8, 8), (8, 1), (8, 3), "zero", "Shape element 1 must be a power of 2"),
        ((8, 8), (8, 1), (8, 8), "edge", "Illegal value for padding: 'edge'"),
    ],
)
def test_what_is_refused(shape, strides, block, padding, message):
    with pytest.raises(ValueError, match=message):
        TensorDescriptor(aligned((8, 8)), shape, strides, block, padding)


def test_bases_that_are_refused():
    with pytest.raises(ValueError, match=r"base is \[1\.0\]; a tensor or an array is required"):
        TensorDescriptor([1.0], [1], [1], [4])
    with pytest.raises(AssertionError, match=r"base must be 16-byte aligned; .* 4 bytes past"):
        TensorDescriptor.from_tensor(aligned((4, 4), offset=4), [4, 4])
    with pytest.raises(AssertionError, match="`nan` is only supported for floating point"):
        TensorDescriptor.from_tensor(aligned((4, 4), np.int32), [4, 4], "nan")
    assert TensorDescriptor.from_tensor(aligned((4, 4)), [4, 4], "nan").padding == "nan"


PROGRAM = """
def kernel({args}):
    {body}
"""


def launched(body: str, **args: object) -> None:
    """Run a kernel of one line on the arguments, natively and interpreted, with one outcome."""
    fn = build(PROGRAM.format(args=", ".join(args), body=body))
    outcomes = []
    for way in WAYS.values():
        given = {k: copy.deepcopy(v) for k, v in args.items()}
        way(fn)[(1,)](**given)
        outcomes.append(given)
    for name, value in args.items():
        if isinstance(value, (np.ndarray, TensorDescriptor)):
            arrays = [o[name] if isinstance(value, np.ndarray) else o[name].base for o in outcomes]
            np.testing.assert_array_equal(*arrays)
            (value if isinstance(value, np.ndarray) else value.base)[...] = arrays[0]


def out_of_bounds(x: np.ndarray, at: tuple[int, ...], block: tuple[int, ...], other: float):
    """The block of `x` at a place, `other` where there is none of it."""
    grids = np.meshgrid(*[np.arange(b) + a for a, b in zip(at, block, strict=True)], indexing="ij")
    inside = np.all([(g >= 0) & (g < n) for g, n in zip(grids, x.shape, strict=True)], axis=0)
    clipped = tuple(np.clip(g, 0, n - 1) for g, n in zip(grids, x.shape, strict=True))
    return np.where(inside, x[clipped], other).astype(x.dtype)


SHAPES = {1: (12,), 2: (5, 12), 3: (3, 5, 12), 4: (2, 3, 5, 12), 5: (3, 2, 3, 5, 12)}


@pytest.mark.covering(1)
@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("rank", SHAPES)
def test_loads_and_stores(rank: int, padding: str):
    x = aligned(SHAPES[rank])
    x[...] = np.arange(x.size).reshape(x.shape)
    block, at = (2,) * (rank - 1) + (8,), (-1,) * (rank - 1) + (8,)
    y, z = aligned(block), aligned(x.shape)
    descriptors = {
        "d": TensorDescriptor.from_tensor(x, list(block), padding),
        "e": TensorDescriptor.from_tensor(y, list(block)),
        "w": TensorDescriptor.from_tensor(z, list(block)),
    }
    zeros = [0] * rank
    launched(f"v = d.load({list(at)}); e.store({zeros}, v); w.store({list(at)}, v)", **descriptors)
    expected = out_of_bounds(x, at, block, np.nan if padding == "nan" else 0)
    np.testing.assert_array_equal(y, expected)
    inside = tuple(slice(max(a, 0), a + b) for a, b in zip(at, block, strict=True))
    np.testing.assert_array_equal(z[inside], x[inside])
    assert np.count_nonzero(z) == np.count_nonzero(x[inside])


def test_blocks_that_are_narrower_than_the_copy_engine_takes():
    x, y = aligned((8, 8)), aligned((8, 8))
    x[...] = np.arange(64).reshape(8, 8)
    a, b = (TensorDescriptor.from_tensor(t, [4, 2]) for t in (x, y))
    launched("b.store([2, 4], a.load([2, 4]))", a=a, b=b)
    assert (b.base[2:6, 4:6] == x[2:6, 4:6]).all() and b.base.sum() == x[2:6, 4:6].sum()


def test_padding_is_part_of_what_is_compiled():
    """The same kernel with one padding after the other."""
    fn = WAYS["native"](build(PROGRAM.format(args="d, e", body="e.store([0], d.load([8]))")))
    x, y = aligned((12,)), aligned((8,))
    for padding in ("zero", "nan", "zero"):
        e = TensorDescriptor.from_tensor(y, [8])
        fn[(1,)](TensorDescriptor.from_tensor(x, [8], padding), e)
        assert np.isnan(y[4:]).all() == (padding == "nan")


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.uint64, np.float16, np.float32])
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_atomics(kind: str, dtype: type):
    x = aligned((5, 24), dtype)
    x[...] = np.arange(x.size).reshape(x.shape) % 7
    floating, before = np.dtype(dtype).kind == "f", x.copy()
    d = TensorDescriptor.from_tensor(x, [4, 16])
    body = f"d.atomic_{kind}([3, 16], tl.full([4, 16], 3, d.dtype))"
    bitwise = kind in ("and", "or", "xor")
    if (floating and bitwise) or (dtype == np.float32 and kind != "add"):
        with pytest.raises(TritonError, match=f"Unsupported dtype .* for descriptor atomic_{kind}"):
            launched(body, d=d)
        return
    launched(body, d=d)
    does = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]  # fmt: skip
    before[3:, 16:] = does(before[3:, 16:], np.dtype(dtype).type(3))
    np.testing.assert_array_equal(x, before)


def test_gather_and_scatter():
    x = aligned((10, 24))
    x[...] = np.arange(240).reshape(x.shape)
    y, z = aligned((8, 16)), aligned((10, 24))
    launched(
        "v = d.gather(tl.arange(0, 8) * 2 - 2, 12); e.store([0, 0], v); "
        "w.scatter(v, tl.arange(0, 8) * 2 - 2, 12)",
        d=TensorDescriptor.from_tensor(x, [1, 16]), e=TensorDescriptor.from_tensor(y, [8, 16]),
        w=TensorDescriptor.from_tensor(z, [1, 16]),
    )  # fmt: skip
    rows = np.arange(8) * 2 - 2
    expected = np.zeros((8, 16), np.float32)
    inside = (rows >= 0) & (rows < 10)
    expected[inside, :12] = x[rows[inside], 12:]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z[rows[inside], 12:], expected[inside, :12])


def test_what_kernels_see_of_a_descriptor():
    out = aligned((4,), np.int64)
    x = aligned((10, 24), np.float16)
    launched(
        "tl.store(out, d.shape[0] * 100 + d.shape[1]); tl.store(out + 1, d.strides[0]); "
        "tl.store(out + 2, d.block_shape[1]); tl.store(out + 3, 1 if d.dtype == tl.float16 else 0)",
        out=out, d=TensorDescriptor.from_tensor(x, [4, 16]),
    )  # fmt: skip
    assert out.tolist() == [1024, 24, 16, 1]
