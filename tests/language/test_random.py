"""Philox against an independent implementation, and the distributions."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tritium.errors import CompileTimeAssertionFailure
from tritium.language.function import device_function as jit


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
