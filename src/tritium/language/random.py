"""Random numbers: Philox 4x32-10, a counter-based generator.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Each result
depends on the seed (64 bits) and the offset only, so a program can recompute any of them.
"""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

from tritium.language import core
from tritium.language import math as tl_math
from tritium.language.core import constexpr
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr_function

N_ROUNDS_DEFAULT = constexpr(10)

# The multipliers and key increments of the two word sizes.
_KEY_A = {32: 0x9E3779B9, 64: 0x9E3779B97F4A7C15}
_KEY_B = {32: 0xBB67AE85, 64: 0xBB67AE8584CAA73B}
_ROUND_A = {32: 0xD2511F53, 64: 0xD2E7470EE14C6C93}
_ROUND_B = {32: 0xCD9E8D57, 64: 0xCA5A826395121157}


@constexpr_function
def _word(name: str, bits: int) -> int:
    """A constant of the generator."""
    return {"key_a": _KEY_A, "key_b": _KEY_B, "a": _ROUND_A, "b": _ROUND_B}[name][bits]


@constexpr_function
def _is_seed(type: core.dtype) -> bool:
    return type.is_int() and not type.is_block()


@device_function
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """`n_rounds` of Philox on four counter words and two key words, all uint32 or all uint64."""
    bits: constexpr = c0.dtype.primitive_bitwidth
    a: constexpr = _word("a", bits)
    b: constexpr = _word("b", bits)
    for _ in core.static_range(n_rounds):
        left, right = c0, c2
        c0 = tl_math.umulhi(right, b) ^ c1 ^ k0
        c2 = tl_math.umulhi(left, a) ^ c3 ^ k1
        c1 = core.mul(right, b, sanitize_overflow=False)
        c3 = core.mul(left, a, sanitize_overflow=False)
        k0 = core.add(k0, _word("key_a", bits), sanitize_overflow=False)
        k1 = core.add(k1, _word("key_b", bits), sanitize_overflow=False)
    return c0, c1, c2, c3


@device_function
def philox(seed, c0, c1, c2, c3, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Four random words for an integer seed (a scalar) and four counter words of 32 or 64 bits,
    taken as unsigned."""
    seed = core.to_tensor(seed)
    core.static_assert(_is_seed(seed.type), "philox: the seed must be a scalar integer")
    c0 = core.to_tensor(c0)
    c1 = core.to_tensor(c1)
    c2 = core.to_tensor(c2)
    c3 = core.to_tensor(c3)
    core.static_assert(c0.dtype.is_int(), "philox: the counters must be integers")
    wide = seed.to(core.uint64)
    if c0.dtype.primitive_bitwidth == 32:
        low = (wide & 0xFFFFFFFF).to(core.uint32)
        high = (wide >> 32).to(core.uint32)
        return philox_impl(
            c0.to(core.uint32), c1.to(core.uint32), c2.to(core.uint32), c3.to(core.uint32),
            low, high, n_rounds,
        )  # fmt: skip
    else:
        core.static_assert(
            c0.dtype.primitive_bitwidth == 64, "philox: counters must have 32 or 64 bits"
        )
        return philox_impl(
            c0.to(core.uint64), c1.to(core.uint64), c2.to(core.uint64), c3.to(core.uint64),
            wide, wide * 0, n_rounds,
        )  # fmt: skip


@device_function
def randint4x(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Four blocks of random uint32 for a scalar seed and a block of offsets of up to 64 bits."""
    offset = core.to_tensor(offset)
    low = offset.to(core.uint32)
    zero = low * 0
    if offset.dtype.primitive_bitwidth > 32:
        return philox(seed, low, (offset >> 32).to(core.uint32), zero, zero, n_rounds)
    else:
        return philox(seed, low, zero, zero, zero, n_rounds)


@device_function
def randint(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """A block of random uint32. Where many are needed `randint4x` is the faster way."""
    result, _, _, _ = randint4x(seed, offset, n_rounds)
    return result


@device_function
def uint_to_uniform_float(x):
    """Random 32- or 64-bit integers as float32 uniform in [0, 1)."""
    core.static_assert(
        x.dtype.is_int() and x.dtype.primitive_bitwidth >= 32,
        "uint_to_uniform_float: x must be integers of 32 or 64 bits",
    )
    if x.dtype.primitive_bitwidth == 32:
        signed = x.to(core.int32, bitcast=True)
        # The largest float32 below 2**-31, so that the result stays below 1.
        scale: constexpr = 4.6566127342e-10
    else:
        signed = x.to(core.int64, bitcast=True)
        scale: constexpr = 1.0842020432385337e-19
    positive = core.where(signed < 0, ~signed, signed)
    return positive * scale


@device_function
def rand(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """A block of float32 uniform in [0, 1) for a scalar integer seed and a block of offsets."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@device_function
def rand4x(seed, offsets, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Four blocks of float32 uniform in [0, 1)."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return (
        uint_to_uniform_float(a), uint_to_uniform_float(b),
        uint_to_uniform_float(c), uint_to_uniform_float(d),
    )  # fmt: skip


@device_function
def pair_uniform_to_normal(u1, u2):
    """Two blocks uniform in [0, 1) as two of the standard normal distribution (Box and Muller)."""
    u1 = core.maximum(1.0e-7, u1)
    angle = 6.283185307179586 * u2
    radius = tl_math.sqrt(-2.0 * tl_math.log(u1))
    return radius * tl_math.cos(angle), radius * tl_math.sin(angle)


@device_function
def randn(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """A block of float32 of the standard normal distribution."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    result, _ = pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))
    return result


@device_function
def randn4x(seed, offset, n_rounds: constexpr = N_ROUNDS_DEFAULT):
    """Four blocks of float32 of the standard normal distribution."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4
