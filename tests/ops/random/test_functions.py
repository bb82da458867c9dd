"""Philox against an independent implementation, and the distributions."""

import numpy as np
import pytest

import tritium.language as tl
from tests.conformance.support import build
from tests.language.support import block, both, eager
from tests.support.agreement import run_all
from tritium.errors import CompilationError, CompileTimeAssertionFailure
from tritium.language.jit.function import device_function as jit
from tritium.runtime.jit import JITFunction


def philox4x32(counter, key, rounds=10):
    """The generator of Salmon et al., on Python integers."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(rounds):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & mask, first >> 32 ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_reference_is_the_published_generator():
    # Known answers of the Random123 distribution.
    assert philox4x32([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox4x32([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 10, 0xFCAFEB0BA, 2**63 + 5])
@pytest.mark.parametrize("offset", [0, 1 << 33])
def test_bits(seed, offset):
    with eager():
        at = block(np.arange(8) + offset, tl.int64 if offset else tl.int32)
        found = np.stack([v.value for v in tl.randint4x(seed, at)])
        assert (found[0] == tl.randint(seed, at).value).all()
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for i in range(8):
        counter = [(offset + i) & 0xFFFFFFFF, (offset + i) >> 32, 0, 0]
        assert found[:, i].tolist() == philox4x32(counter, key)


SEEDS = [0, 1, 2**31, 0xFCAFEB0BA, 2**63 - 1]
GPU_PARTS = 3


def words(out, SEED: tl.constexpr, seed, seeds, first, BLOCK: tl.constexpr):
    """By a constant seed, one that is an argument and one that is in memory; for offsets of 32 and
    of 64 bits."""
    i = tl.arange(0, BLOCK)
    far = first.to(tl.int64) + i
    a, b, c, d = tl.randint4x(seed, far)
    tl.store(out + i, tl.randint(SEED, far))
    tl.store(out + BLOCK + i, a)
    tl.store(out + 2 * BLOCK + i, tl.randint(tl.load(seeds), far))
    tl.store(out + 3 * BLOCK + i, b)
    tl.store(out + 4 * BLOCK + i, c)
    tl.store(out + 5 * BLOCK + i, d)
    tl.store(out + 6 * BLOCK + i, tl.randint(SEED, i))
    tl.store(out + 7 * BLOCK + i, tl.randint(seed, i, n_rounds=4))


@pytest.mark.parametrize(
    "seed", [SEEDS[-1], *(pytest.param(s, marks=pytest.mark.slow) for s in SEEDS[:-1])]
)
def test_bits_of_compiled_streams(seed):
    for first in (2**32 - 5, -3):
        found = run_all(words, out=np.zeros((8, 16), np.uint32), SEED=seed, seed=seed,
                        seeds=np.array([seed]), first=first, BLOCK=16)["out"]  # fmt: skip
        key = [seed & 0xFFFFFFFF, seed >> 32]
        wide = [(first + i) % 2**64 for i in range(16)]
        expected = np.array([philox4x32([n & 0xFFFFFFFF, n >> 32, 0, 0], key) for n in wide]).T
        for row, number in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)):
            np.testing.assert_array_equal(found[row], expected[number])
        near = [philox4x32([i, 0, 0, 0], key)[0] for i in range(16)]
        np.testing.assert_array_equal(found[6], near)
        few = [philox4x32([i, 0, 0, 0], key, 4)[0] for i in range(16)]
        np.testing.assert_array_equal(found[7], few)


def test_negative_seeds_are_extended():
    """A seed of 32 bits and the same number in 64 make one stream."""
    def kernel(out, narrow, wide):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.randint(tl.load(narrow), i))
        tl.store(out + 8 + i, tl.randint(tl.load(wide), i))

    found = run_all(kernel, out=np.zeros(16, np.uint32), narrow=np.int32([-2]), wide=np.int64([-2]))
    key = [0xFFFFFFFE, 0xFFFFFFFF]
    expected = [philox4x32([i, 0, 0, 0], key)[0] for i in range(8)]
    np.testing.assert_array_equal(found["out"], expected + expected)


@pytest.mark.parametrize("seed", [0, 42, 0xFCAFEB0BA])
def test_compiled_numbers_are_uniform(seed):
    """Kolmogorov and Smirnov; and what the extreme words become."""
    def kernel(out, ends, seed, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.rand(seed, i))
        four = tl.arange(0, 4)
        extremes = tl.where(four < 2, 0x7FFFFFFF + four, (four - 3).to(tl.uint32)).to(tl.uint32)
        tl.store(ends + four, tl.uint_to_uniform_float(extremes))

    out, ends = np.zeros(1 << 16, np.float32), np.zeros(4, np.float32)
    found = run_all(kernel, out=out, ends=ends, seed=seed, N=1 << 16)
    u = np.sort(found["out"])
    assert u[0] >= 0 and u[-1] < 1
    assert np.abs(u - np.arange(len(u)) / len(u)).max() < 0.01
    assert (found["ends"] < 1).all() and found["ends"][:2].min() > 0.9999999


@pytest.mark.parametrize("bits", [32, 64])
def test_uniform_numbers_of_extreme_words_overflow_nothing(bits):
    words = [-(1 << (bits - 1)), (1 << (bits - 1)) - 1, -1, 0]
    with eager(debug=True):
        found = tl.uint_to_uniform_float(block(words, getattr(tl, f"int{bits}"))).value
    assert found[0] == found[1] and 0.999999 < found[0] < 1
    assert (found[2:] == 0).all()


def test_rounds():
    with eager():
        found = tl.randint(7, block([3]), n_rounds=4).value
    assert found.tolist() == philox4x32([3, 0, 0, 0], [7, 0], 4)[:1]


def test_wide_philox_compiles_and_agrees():
    @jit
    def kernel(out, seed):
        i = tl.arange(0, 8)
        a, b, c, d = tl.philox(seed, i.to(tl.int64), i.to(tl.int64), i.to(tl.int64), i.to(tl.int64))
        tl.store(out + i, a ^ b ^ c ^ d)

    both(kernel, out=np.zeros(8, np.uint64), seed=5)


def test_uniform_numbers():
    with eager():
        at = block(np.arange(1 << 16))
        for stream in (tl.rand(3, at), *tl.rand4x(3, at)):
            u = np.sort(stream.value)
            assert u.dtype == np.float32 and u[0] >= 0 and u[-1] < 1
            gap = np.abs(u - np.arange(len(u)) / len(u)).max()  # Kolmogorov and Smirnov
            assert gap < 0.01
        # The extreme integers stay in [0, 1).
        for dtype, bits in ((tl.uint32, 32), (tl.uint64, 64)):
            codes = [0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1)]
            u = tl.uint_to_uniform_float(block(codes, dtype)).value
            assert (u >= 0).all() and (u < 1).all() and u.max() > 0.9999


def test_normal_numbers():
    with eager():
        at = block(np.arange(1 << 14))
        streams = [tl.randn(5, at), *tl.randn4x(5, at)]
        for stream in streams:
            assert abs(stream.value.mean()) < 0.03 and abs(stream.value.std() - 1) < 0.03
        assert np.array_equal(streams[0].value, streams[1].value)


def test_compiled_stream_is_the_interpreted_one():
    @jit
    def kernel(out, seed, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.rand(seed, i))
        tl.store(out + 64 + i, tl.randn(1234, i))

    both(kernel, grid=(2,), out=np.zeros(128, np.float32), seed=42, BLOCK=32)


def test_wrong_seeds():
    with eager():
        at = block([0, 1])
        pointer = block([16, 16], tl.int64).to(tl.pointer_type(tl.int32))
        for seed in (1.5, block([1.0, 2.0], tl.float32), block([1, 2]), pointer):
            with pytest.raises(CompileTimeAssertionFailure, match="seed must be a scalar integer"):
                tl.rand(seed, at)


@pytest.mark.parametrize("seed", ["seed", "1.5", "tl.load(seed).to(tl.float32)"])
def test_wrong_seeds_of_kernels(seed):
    lines = "def kernel(o, seed):", "i = tl.arange(0, 8)", f"tl.store(o + i, tl.rand({seed}, i))"
    kernel = JITFunction(build("\n    ".join(lines)))
    with pytest.raises(CompilationError) as raised:
        kernel[(1,)](np.zeros(8, np.float32), np.zeros(1, np.int32))
    assert "at 3:20" in str(raised.value)
    error = raised.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert "seed must be a scalar integer" in str(error)
