"""Blocks of 16 with scales of float8 e4m3 and a float32 scale of the whole: conversions, sums and
products agree with NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.support import close, normal, place, torch
from tritium_kernels import swiglu as gates
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import FlexCtx, FusedActivation, PrecisionConfig, matmul, matmul_torch
from tritium_kernels.matmul_details.opt_flags import scoped_opt_flags_constraints
from tritium_kernels.numerics import InFlexData, OutFlexData
from tritium_kernels.numerics_details.mxfp import (
    DequantScaleRoundingMode,
    downcast_to_mxfp,
    downcast_to_mxfp_torch,
    upcast_from_mxfp,
    upcast_from_mxfp_torch,
)
from tritium_kernels.reduce import reduce
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.tensor import convert_layout, make_ragged_tensor_metadata, wrap_torch_tensor
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import FP4

SLOW = pytest.mark.slow
E4M3 = torch.float8_e4m3fn
EXACT = PrecisionConfig(allow_tf32=False)
SWIGLU = FusedActivation(FnSpecs("swiglu", gates.swiglu_fn, ("alpha", "limit"), (), 2), (1.5, 1.0))
STRIDED = layouts.StridedLayout(-2)
CODES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
SCALES = np.array([
    (2.0 ** -6 * (code & 7) / 8 if code < 8 else 2.0 ** ((code >> 3) - 7) * (1 + (code & 7) / 8))
    for code in range(0x7F)
])  # fmt: skip


def nvfp4(x, axis: int = -1):
    return downcast_to_mxfp(x, torch.uint8, axis, E4M3, 16)


def nearest(x, table):
    """The index of the number that is nearest, the even one of two."""
    distance = np.abs(x[..., None] - table)
    best = distance.argmin(-1)
    after = np.minimum(best + 1, len(table) - 1)
    tie = (best % 2 == 1) & (np.take_along_axis(distance, after[..., None], -1)[..., 0]
                             == distance.min(-1))  # fmt: skip
    return np.where(tie, after, best)


def rounded(x):
    """Rows of blocks of 16 columns as NVFP4 stands for them, in float64."""
    x = x.cpu().double().numpy()
    blocks = np.pad(x, ((0, 0), (0, -x.shape[1] % 16))).reshape(x.shape[0], -1, 16)
    scale = SCALES[nearest(np.abs(blocks).max(-1) / 6, SCALES)][..., None]
    with np.errstate(all="ignore"):
        y = np.where(scale > 0, blocks / scale, 0)
    y = np.sign(y) * CODES[nearest(np.abs(y), CODES)] * scale
    return torch.from_numpy(y.reshape(x.shape[0], -1)[:, : x.shape[1]]).to(place())


def slices(*sizes: int):
    return make_ragged_tensor_metadata(torch.tensor(sizes, device=place()), sum(sizes))


def test_conversions():
    x = normal(9, 100) * torch.exp(2 * normal(9, 100, seed=1))
    values, scales = nvfp4(x)
    assert values.shape == (9, 50) and scales.shape == (9, 7) and scales.dtype == E4M3
    assert torch.equal(upcast_from_mxfp(values, scales, torch.float32, 1).double(), rounded(x))


@pytest.mark.parametrize("kind", [torch.uint8, *(
    pytest.param(k, marks=SLOW) for k in (torch.float8_e4m3fn, torch.float8_e5m2))
])  # fmt: skip
def test_as_torch_converts(kind):
    """Bit for bit, with numbers that are too small and too large, and along another axis."""
    x = normal(3, 40, 5) * torch.exp(6 * normal(3, 40, 5, seed=1))
    x[0, 3, 0], x[0, 3, 1], x[1, :, 2], x[2, :16, 3] = torch.nan, torch.inf, 0, 1e-9
    found = downcast_to_mxfp(x, kind, 1, E4M3, 16)
    right = downcast_to_mxfp_torch(x.cpu(), kind, 1, E4M3, 16)
    same = {"rtol": 0, "atol": 0, "equal_nan": True}
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours.cpu().float(), theirs.float(), **same)
    up = upcast_from_mxfp(*found, torch.float32, 1)
    torch.testing.assert_close(
        up.cpu(), upcast_from_mxfp_torch(*right, torch.float32, 1), **same
    )
    assert up[0, :16, :2].isnan().all() and up[0, 16:].isfinite().all()
    assert not up[1, :, 2].any() and not up[2, :16, 3].any()


def operands(value=STRIDED, scale=STRIDED):
    """a of 17 rows, b of 3 experts, quantized, with their numbers and scales of the whole."""
    x, w = normal(17, 160), normal(3, 160, 144)
    a, a_scale = nvfp4(x / 0.25)
    b, b_scale = nvfp4(w / 2.0, 1)
    numbers = rounded(x / 0.25) * 0.25
    weights = torch.stack([rounded(m.mT / 2.0).mT for m in w]) * 2.0
    b = convert_layout(wrap_torch_tensor(b, FP4, (3, 160, 144)), value)
    b_scale = convert_layout(wrap_torch_tensor(b_scale), scale)
    return a, a_scale, b, b_scale, numbers, weights


@pytest.mark.parametrize(
    ("value", "scale", "way"),
    [
        (STRIDED, layouts.BlackwellMXScaleLayout(), {"is_persistent": True}),
        *(
            pytest.param(*both, marks=SLOW)
            for both in (
                (STRIDED, STRIDED, {}), (STRIDED, STRIDED, {"split_k": 2}),
                (layouts.BlackwellMXValueLayout(), layouts.BlackwellMXScaleLayout(), {}),
                (layouts.BlackwellMX4ValueShuffledLayout(64, 32), STRIDED, {}),
            )
        ),
    ],
)
def test_products(value, scale, way):
    """Both operands have scales of blocks and of the whole."""
    ragged = slices(3, 0, 14)
    a, a_scale, b, b_scale, numbers, weights = operands(value, scale)
    whole = [torch.full((1,), f, device=place()) for f in (0.25, 2.0)]
    config = PrecisionConfig(
        flex_ctx=FlexCtx(InFlexData(scale=whole[0]), InFlexData(scale=whole[1])),
        a_mx_scale=a_scale, b_mx_scale=b_scale, a_microblock_size=16, b_microblock_size=16,
        out_dtype=torch.float32,
    )  # fmt: skip
    right = matmul_torch(numbers, weights, None, ragged)
    with scoped_opt_flags_constraints(way):
        close(matmul(a, b, None, ragged, precision_config=config), right, scale=4)
    close(matmul_torch(a, b, None, ragged, precision_config=config), right, scale=4)


@pytest.mark.parametrize("value", [
    layouts.HopperMXValueLayout(-2), pytest.param(STRIDED, marks=SLOW)
])  # fmt: skip
def test_weights_alone(value):
    """a is of bfloat16."""
    x, ragged = normal(17, 160, dtype=torch.bfloat16), slices(3, 0, 14)
    _, _, b, b_scale, _, weights = operands(value)
    config = PrecisionConfig(b_mx_scale=b_scale, b_microblock_size=16, out_dtype=torch.float32)
    y = matmul(x, b, None, ragged, precision_config=config)
    close(y, matmul_torch(x.double(), weights / 2.0, None, ragged), scale=4)


@pytest.mark.slow
def test_scales_of_rows_in_blocks_of_slices():
    ragged = slices(3, 0, 14)
    a, a_scale, b, b_scale, numbers, weights = operands()
    wrapped = wrap_torch_tensor(a_scale, layout=layouts.StridedLayout())
    a_scale = convert_layout(wrapped, layouts.BlackwellActMXScaleLayout(ragged))
    back = convert_layout(a_scale, layouts.StridedLayout(-1)).data
    assert torch.equal(back.float(), wrapped.data.float())
    config = PrecisionConfig(
        a_mx_scale=a_scale, b_mx_scale=b_scale, a_microblock_size=16, b_microblock_size=16,
        out_dtype=torch.float32,
    )  # fmt: skip
    y = matmul(a, b, None, ragged, precision_config=config)
    close(y, matmul_torch(numbers / 0.25, weights / 2.0, None, ragged), scale=4)


@pytest.mark.parametrize("way", [{}, pytest.param({"split_k": 2}, marks=SLOW)])
def test_results(way):
    """Bit for bit the quantization of the result in float32 over its scale of the whole."""
    ragged = slices(5, 0, 30)
    x, w = normal(35, 64), normal(3, 64, 160)
    scales = torch.zeros(35, 5, device=place()).to(E4M3)
    whole = torch.full((1,), 0.5, device=place())
    config = replace(
        EXACT, c_mx_scale=scales, c_microblock_size=16, c_value_pack_factor=2,
        out_dtype=torch.uint8, flex_ctx=FlexCtx(out_data=OutFlexData(expected_scale=whole)),
    )  # fmt: skip
    with scoped_opt_flags_constraints(way):
        exact = matmul(x, w, None, ragged, precision_config=EXACT, fused_activation=SWIGLU)
        y = matmul(x, w, None, ragged, precision_config=config, fused_activation=SWIGLU)
    values, right = nvfp4(exact / 0.5)
    assert torch.equal(scales.float(), right.float()) and torch.equal(y, values)


def test_sums():
    x = normal(3, 5, 96)
    values, scales = nvfp4(x)
    exact = torch.stack([rounded(term) for term in x]).sum(0)
    y, y_scale = reduce(
        values, 0, x_mxscale=scales, y_has_mx=True, y_dtype=torch.uint8, y_value_pack_factor=2,
        y_mx_scale_dtype=E4M3, y_microblock_size=16,
    )  # fmt: skip
    plain, none = reduce(values, 0, x_mxscale=scales, y_has_mx=False, y_dtype=torch.float32)
    close(plain, exact)
    right, right_scale = nvfp4(plain)
    assert none is None and torch.equal(y, right)
    assert y_scale.shape == (5, 6) and torch.equal(y_scale.float(), right_scale.float())


def scaled(**given):
    values, scales = nvfp4(normal(4, 32))
    b, b_scale = nvfp4(normal(32, 16), 0)
    options = {"a_mx_scale": scales, "b_mx_scale": b_scale, "a_microblock_size": 16,
               "b_microblock_size": 16, **given}  # fmt: skip
    return matmul(values, b, None, precision_config=PrecisionConfig(**options))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: downcast_to_mxfp(x, torch.uint8, 1, E4M3),
         "microblock_size is 32; accepted: 16, for scales of float8_e4m3fn"),
        (lambda x: downcast_to_mxfp(x, torch.uint8, 1, microblock_size=16),
         "microblock_size is 16; accepted: 32, for scales of uint8"),
        (lambda x: downcast_to_mxfp(x, torch.uint8, 1, torch.float32, 16),
         "scale_dtype is torch.float32; accepted: torch.uint8, torch.float8_e4m3fn"),
        (lambda x: downcast_to_mxfp(
            x, torch.uint8, 1, E4M3, 16, DequantScaleRoundingMode.ROUND_DOWN),
         "DEQUANT_SCALE_ROUNDING_MODE is ROUND_DOWN; accepted: ROUND_UP"),
        (lambda _: scaled(a_microblock_size=32), "a_microblock_size is 32; accepted: 16, for"),
        (lambda _: scaled(b_microblock_size=8), "b_microblock_size is 8; accepted: 32, 16"),
        (lambda _: scaled(b_mx_scale=convert_layout(
            wrap_torch_tensor(torch.zeros(2, 16, dtype=torch.uint8)),
            layouts.HopperMXScaleLayout(-2))), "b_microblock_size is 16; accepted: 32, for scales"),
        (lambda x: convert_layout(wrap_torch_tensor(x.to(E4M3)), layouts.HopperMXScaleLayout(-2)),
         "data has dtype torch.float8_e4m3fn and 2 dimensions; accepted: uint8, two"),
        (lambda x: matmul(x, x.T, None, precision_config=PrecisionConfig(
            c_mx_scale=x[:, :1].to(E4M3), out_dtype=E4M3, c_microblock_size=16)),
         "c_mx_scale has dtype float8_e4m3fn; accepted: uint8"),
        (lambda x: reduce(x[None], 0, y_has_mx=True, y_dtype=E4M3, y_mx_scale_dtype=E4M3,
                          y_microblock_size=16), "y_mx_scale_dtype is torch.float8_e4m3fn"),
        (lambda x: reduce(x[None], 0, y_has_mx=True, y_dtype=E4M3,
                          y_flex=OutFlexData(actual_scale=x)), "y_flex has actual_scale or"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(4, 32))
