"""Products evaluated: types, precision, scales, messages."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, both, eager
from tritium.language.jit.function import device_function as jit
from tritium.ops.ttir import DotOp

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        (tl.float16, tl.float32), (tl.bfloat16, tl.float32), (tl.float32, tl.float32),
        (tl.float64, tl.float64), (tl.int8, tl.int32), (tl.float8e5, tl.float32),
    ],
    ids=str,
)  # fmt: skip
def test_dot(dtype, out):
    a = RNG.integers(-4, 4, (16, 32)).astype(NUMPY[dtype])
    b = RNG.integers(-4, 4, (32, 8)).astype(NUMPY[dtype])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    with eager():
        x, y = block(a, dtype), block(b, dtype)
        found = tl.dot(x, y)
        assert found.dtype == out
        np.testing.assert_array_equal(found.value, exact)
        acc = tl.full((16, 8), 3, out)
        np.testing.assert_array_equal(tl.dot(x, y, acc).value, exact + 3)
        batch = tl.dot(tl.broadcast_to(x[None], 2, 16, 32), tl.broadcast_to(y[None], 2, 32, 8))
        np.testing.assert_array_equal(batch.value, np.stack([exact, exact]))
        if dtype == tl.float16:
            assert tl.dot(x, y, out_dtype=tl.float16).dtype == tl.float16
            summed = tl.dot(x, y, acc.to(tl.float16))
            assert summed.dtype == tl.float16
            np.testing.assert_array_equal(summed.value, exact + 3)


def test_dot_rounds_a_chain_of_float16_sums_once():
    """4096 + 1 - 4096 is 1 where sums are kept, 0 where each is rounded to float16."""
    one = np.zeros((16, 16), np.float16)
    np.fill_diagonal(one, 1)
    with eager():
        a = block(one, tl.float16)
        total = tl.dot(a, tl.full((16, 16), 4096, tl.float16), out_dtype=tl.float16)
        total = tl.dot(a, tl.full((16, 16), 1, tl.float16), total)
        np.testing.assert_array_equal(total.value, 4096)  # what a program sees is rounded
        difference = tl.full((16, 16), -4096, tl.float16)
        np.testing.assert_array_equal(tl.dot(a, difference, total).value, 1)
        np.testing.assert_array_equal(tl.dot(a, difference, total + 0).value, 0)


def test_dot_messages():
    with eager(min_dot_size=lambda a, b: (16, 16, 16)):
        half = tl.zeros((16, 16), tl.float16)
        single = half.to(tl.float32)
        small = tl.zeros((16, 8), tl.float16)
        fp8 = half.to(tl.float8e5)
        for error, text, call in (
            (TypeError, "must be same dtype. Got fp16 and fp32", lambda: tl.dot(half, single)),
            (ValueError, "must have equal ranks >= 2", lambda: tl.dot(half, half[None])),
            (ValueError, "must be equal to first index of second",
             lambda: tl.dot(small, half)),
            (ValueError, "should have M >= 16, N >= 16 and K >= 16", lambda: tl.dot(half, small)),
            (ValueError, "out_dtype=bfloat16 is unsupported",
             lambda: tl.dot(half, half, out_dtype=tl.bfloat16)),
            (ValueError, "Only one of input_precision and allow_tf32",
             lambda: tl.dot(single, single, input_precision="ieee", allow_tf32=True)),
            (ValueError, "input_precision must be one of .* Got bf32",
             lambda: tl.dot(single, single, input_precision="bf32")),
            (TypeError, "Unsupported lhs dtype int32", lambda: tl.dot(half.to(tl.int32), half)),
            (TypeError, "only int8 supported",
             lambda: tl.dot(half.to(tl.uint8), half.to(tl.uint8))),
            (ValueError, "acc has type .* is required",
             lambda: tl.dot(single, single, acc=half)),
            (ValueError, "acc has dtype fp16, out_dtype is fp32; leave out_dtype out",
             lambda: tl.dot(half, half, acc=half, out_dtype=tl.float32)),
            (ValueError, "acc has dtype fp32, out_dtype is fp16",
             lambda: tl.dot(single, single, acc=single, out_dtype=tl.float16)),
            (ValueError, "acc has type .*bf16.* is required",
             lambda: tl.dot(half, half, acc=half.to(tl.bfloat16))),
            (ValueError, r"max_num_imprecise_acc .128. must be <= K .16.",
             lambda: tl.dot(fp8, fp8, max_num_imprecise_acc=128)),
            (ValueError, "lhs is a scalar", lambda: tl.dot(1.0, half)),
        ):  # fmt: skip
            with pytest.raises(error, match=text):
                call()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, ["TF32", "IEEE", "TF32", "TF32X3", "IEEE"]),
        # The setting goes before the deprecated argument, but not before `input_precision`.
        ("ieee", ["IEEE", "IEEE", "IEEE", "TF32X3", "IEEE"]),
        ("tf32x3", ["TF32X3", "TF32X3", "TF32X3", "TF32X3", "IEEE"]),
    ],
)
def test_dot_precision(monkeypatch, setting, expected):
    if setting is not None:
        monkeypatch.setenv("TRITON_F32_DEFAULT", setting)
    seen = []

    class Recorder:
        def __init__(self, emitter):
            self.emitter, self.features = emitter, emitter.features

        def emit(self, cls, *operands, **attrs):
            if cls is DotOp:
                seen.append(attrs["inputPrecision"].name)
            return self.emitter.emit(cls, *operands, **attrs)

    from tritium.language.emitter import activate

    with eager() as emitter, activate(Recorder(emitter)):
        x = tl.zeros((16, 16), tl.float32)
        for options in (
            {}, {"allow_tf32": False}, {"allow_tf32": True}, {"input_precision": "tf32x3"},
            {"input_precision": "ieee"},
        ):  # fmt: skip
            tl.dot(x, x, **options)
    assert seen == expected


def test_allow_tf32_without_tf32():
    """Where the target has no such instruction, the deprecated argument asks for nothing."""
    with eager(allowed_dot_input_precisions=("ieee",)):
        x = tl.full((16, 16), 1.0, tl.float32)
        for allow in (None, True, False):
            assert tl.dot(x, x, allow_tf32=allow).value[0, 0] == 16
        with pytest.raises(ValueError, match=r"must be one of .*Got tf32"):
            tl.dot(x, x, input_precision="tf32")


def test_dot_scaled():
    codes = RNG.integers(0, 256, (16, 32)).astype(np.uint8)
    scale = RNG.integers(120, 134, (16, 2)).astype(np.uint8)
    b = RNG.integers(-4, 4, (64, 8)).astype(np.float16)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    pairs = np.stack([codes & 15, codes >> 4], -1).reshape(16, 64)
    values = np.where(pairs & 8, -1, 1) * table[pairs & 7]
    factor = np.repeat(2.0 ** (scale.astype(float) - 127), 32, axis=1)
    with eager():
        found = tl.dot_scaled(
            block(codes, tl.uint8), block(scale, tl.uint8), "e2m1", block(b, tl.float16), None,
            "fp16", tl.full((16, 8), 1.0, tl.float32),
        )  # fmt: skip
        np.testing.assert_allclose(found.value, (values * factor) @ b.astype(float) + 1, rtol=1e-6)
        x = block(codes, tl.uint8)
        with pytest.raises(ValueError, match="format 'e9' not supported"):
            tl.dot_scaled(x, None, "e9", x, None, "e2m1")
        with pytest.raises(TypeError, match="format bf16 has dtype uint8"):
            tl.dot_scaled(x, None, "bf16", x, None, "e2m1")
        with pytest.raises(ValueError, match="only float32 is supported"):
            tl.dot_scaled(x, None, "e2m1", x, None, "e2m1", out_dtype=tl.float16)
        half, many = block(b, tl.float16), tl.full((8, 4), 127, tl.uint8)
        found = tl.dot_scaled(x, None, "e2m1", half, many, "fp16")  # runs of 16
        np.testing.assert_allclose(found.value, values @ b.astype(float), rtol=1e-6)
        for text, call in (
            ("scale factor must be 16 or 32. Got 8: lhs_scale has shape .16, 8., and K is 64",
             lambda: tl.dot_scaled(x, tl.zeros((16, 8), tl.uint8), "e2m1", half, None, "fp16")),
            ("rhs_scale must be a tensor of shape .8, 2.. Got .2, 8.",
             lambda: tl.dot_scaled(x, None, "e2m1", half, tl.zeros((2, 8), tl.uint8), "fp16")),
            ("operands must have the same scale factor; .lhs: 32 vs rhs: 16",
             lambda: tl.dot_scaled(x, block(scale, tl.uint8), "e2m1", half, many, "fp16")),
            ("lhs_scale must be a tensor of shape .16, 2.. Got a scalar",
             lambda: tl.dot_scaled(x, tl.full((), 127, tl.uint8), "e2m1", half, None, "fp16")),
            ("rhs_k_pack is False for format fp16; only e2m1",
             lambda: tl.dot_scaled(x, None, "e2m1", half, None, "fp16", rhs_k_pack=False)),
            ("must be equal to first index of second shape",
             lambda: tl.dot_scaled(x, None, "e2m1", half, None, "fp16", lhs_k_pack=False)),
            ("equal ranks >= 2", lambda: tl.dot_scaled(x, None, "e2m1", half[None], None, "fp16")),
            ("either 2D or 3D",
             lambda: tl.dot_scaled(x[None, None], None, "e2m1", half[None, None], None, "fp16")),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=text):
                call()


def test_matmul_compiles_to_the_same():
    @jit
    def kernel(a, b, c, K: tl.constexpr, BLOCK: tl.constexpr):
        i, j = tl.arange(0, 16), tl.arange(0, 16)
        acc = tl.zeros((16, 16), tl.float32)
        for k in range(0, K, BLOCK):
            r = k + tl.arange(0, BLOCK)
            x = tl.load(a + i[:, None] * K + r[None, :])
            y = tl.load(b + r[:, None] * 16 + j[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + i[:, None] * 16 + j[None, :], acc)

    a, b = RNG.normal(size=(2, 16, 64)).astype(np.float32)
    b, c = b.reshape(64, 16), np.zeros((16, 16), np.float32)
    both(kernel, a=a, b=b, c=c, K=64, BLOCK=16)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
