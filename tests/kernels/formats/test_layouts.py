"""Layouts of MX values and scales: there and back, by torch and inside of kernels."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import integers, normal, place, torch
from tritium_kernels import target_info
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import PrecisionConfig, matmul
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp
from tritium_kernels.tensor import (
    convert_layout,
    empty,
    is_tma_compliant,
    make_ragged_tensor_metadata,
    make_tma,
    wrap_torch_tensor,
)
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import BIT, FP4, FP16, UINT8
from tritium_kernels.tensor_details.layout_details import blackwell_scale as blackwell
from tritium_kernels.tensor_details.layout_details import hopper_value
from tritium_kernels.tensor_details.layout_details.cdna4_scale import unswizzle_mx_scale_cdna4
from tritium_kernels.tensor_details.layout_details.gfx1250_scale import unswizzle_mx_scale_gfx1250
from tritium_kernels.tensor_details.layout_details.hopper_scale import unswizzle_mxfp4_scale_hopper
from tritium_kernels.tensor_details.layout_details.torch_utils import repack

VALUES = (
    layouts.StridedLayout(-1), layouts.StridedLayout(-2), layouts.BlackwellMXValueLayout(),
    layouts.BlackwellMX4ValueShuffledLayout(64, 16), layouts.HopperMXValueLayout(-2),
    layouts.HopperMXValueLayout(-1, 2),
)  # fmt: skip
SCALES = (
    layouts.StridedLayout(-2), layouts.BlackwellMXScaleLayout(), layouts.CDNA4MXScaleLayout(),
    layouts.GFX1250MXScaleLayout(), layouts.HopperMXScaleLayout(-2),
    layouts.HopperMXScaleLayout(-1, 4), layouts.BlackwellActMXScaleLayout(None),
)  # fmt: skip


def words(*shape: int):
    return integers(256, *shape, dtype=torch.int32).to(torch.uint8)


@pytest.mark.parametrize("shape", [(36, 20), (2, 100, 34)])
@pytest.mark.parametrize("layout", VALUES, ids=lambda layout: layout.name)
def test_values(layout, shape):
    plain = wrap_torch_tensor(words(*shape[:-1], shape[-1] // 2), FP4, shape)
    stored = convert_layout(plain, layout)
    assert stored.shape == shape and stored.storage.layout == layout
    back = convert_layout(stored, layouts.StridedLayout())
    assert torch.equal(back.data, plain.data)
    assert empty(shape, FP4, place(), layout, True).data.shape == stored.data.shape


@pytest.mark.parametrize("shape", [(5, 20), (3, 9, 200)])
@pytest.mark.parametrize("layout", SCALES, ids=lambda layout: layout.name)
def test_scales(layout, shape):
    plain = wrap_torch_tensor(words(*shape), layout=layouts.StridedLayout())
    back = convert_layout(convert_layout(plain, layout), layouts.StridedLayout())
    assert torch.equal(back.data, plain.data)


@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 32, 64)])
def test_layouts_without_elements(shape):
    x = torch.empty(shape, dtype=torch.uint8, device=place())
    for axis in (-2, -1):
        for tensor, layout in (
            (wrap_torch_tensor(x, FP4), layouts.HopperMXValueLayout(axis)),
            (wrap_torch_tensor(x), layouts.HopperMXScaleLayout(axis, 4)),
            (wrap_torch_tensor(x), layouts.BlackwellMXScaleLayout()),
            (wrap_torch_tensor(x), layouts.BlackwellActMXScaleLayout(None)),
            (wrap_torch_tensor(x), layouts.CDNA4MXScaleLayout()),
        ):
            back = convert_layout(convert_layout(tensor, layout), tensor.storage.layout)
            assert back.data.shape == shape


def test_slices_of_scales():
    metadata = make_ragged_tensor_metadata(
        torch.tensor([3, 0, 140, 7], dtype=torch.int32, device=place()), 160
    )
    plain = wrap_torch_tensor(words(160, 9))
    plain.data[150:] = 0  # rows of no slice are not kept
    layout = layouts.BlackwellActMXScaleLayout(metadata)
    stored = convert_layout(plain, layout)
    back = convert_layout(stored, layouts.StridedLayout())
    assert torch.equal(back.data, plain.data)
    # The last slice has the block after the two of the one before.
    blocks = blackwell.unswizzle_blocks(stored.data, 1)[0]
    assert torch.equal(blocks[3 * 128 : 3 * 128 + 7, :9], plain.data[143:150])


def test_places_of_bytes():
    """One byte in each layout, counted by hand."""
    plain = torch.zeros(8, 256, dtype=torch.uint8, device=place())
    plain[5, 128 + 37] = 1
    expected = {
        "BLACKWELL_SCALE": (2 + 1) * 512 + 5 * 16 + 1 * 4 + 1,
        "CDNA4_SCALE": 5 * 256 + (1 * 16 + 5) * 4 + 2,
        "GFX1250_SCALE": (2 + 1) * 512 + 5 * 16 + 1 * 4 + 1,
        "HOPPER_SCALE": 1024 + 4 * 165 + 1,
    }
    for layout in (*SCALES[1:4], layouts.HopperMXScaleLayout(-2)):
        stored = convert_layout(wrap_torch_tensor(plain), layout).data
        assert stored.flatten().nonzero().tolist() == [[expected[layout.name]]], layout.name


@tritium.jit
def unswizzle(x_ptr, y_ptr, FN: tl.constexpr, args, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
              M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    y = FN(tl.load(x_ptr + at), *args)
    tl.store(y_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], y)


@tritium.jit
def _cdna4(x):
    return unswizzle_mx_scale_cdna4(x, 256, 8)


@tritium.jit
def _gfx1250(x):
    return unswizzle_mx_scale_gfx1250(x, 256, 8)


@tritium.jit
def _hopper(x):
    return unswizzle_mxfp4_scale_hopper(x, 1, 8)


@pytest.mark.parametrize(
    ("layout", "fn", "rows"),
    [
        (layouts.BlackwellMXScaleLayout(), blackwell.unswizzle_mx_scale_bw, 2),
        (layouts.CDNA4MXScaleLayout(), _cdna4, 8), (layouts.GFX1250MXScaleLayout(), _gfx1250, 2),
        (layouts.HopperMXScaleLayout(-2), _hopper, 2),
    ],
)
def test_scales_inside_of_kernels(layout, fn, rows: int):
    plain = words(8, 256)
    x = convert_layout(wrap_torch_tensor(plain), layout).data
    y = torch.zeros(256, 8, dtype=torch.uint8, device=place())
    unswizzle[(1,)](x, y, fn, (), ROWS=rows, COLUMNS=2048 // rows, M=256, N=8)
    assert torch.equal(y, plain.T)


@tritium.jit
def upcast(w_ptr, s_ptr, y_ptr, AXIS: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
           COLUMNS: tl.constexpr):  # fmt: skip
    row, j = tl.arange(0, K // 128)[:, None], tl.arange(0, 64 * N)[None, :]
    k32 = tl.arange(0, K // 32)
    x = tl.load(w_ptr + row * COLUMNS * 64 + j)
    n, k = tl.arange(0, N), tl.arange(0, K)
    if AXIS == 0:
        scale = tl.load(s_ptr + k32[:, None] * N + n[None, :])
        at = k[:, None] * N + n[None, :]
    else:
        scale = tl.load(s_ptr + k32[None, :] * N + n[:, None])
        at = k[None, :] * N + n[:, None]
    tl.store(y_ptr + at, hopper_value.mxfp4_to_bf16_triton(x, scale, AXIS))


@pytest.mark.parametrize("axis", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_fp4_in_registers(axis: int):
    """All codes and scales, bit for bit those of the conversion by itself."""
    k, n = 256, 32
    values, scales = words(k // 2, n), words(k // 32, n)
    scales[0, :4] = torch.tensor([0, 1, 254, 255], dtype=torch.uint8)
    plain = wrap_torch_tensor(repack(values, 0, 1, True), FP4, (k, n))
    stored = convert_layout(plain, layouts.HopperMXValueLayout(-2)).data
    y = torch.zeros(k, n, dtype=torch.bfloat16, device=place())
    upcast[(1,)](stored, scales, y, AXIS=axis, K=k, N=n, COLUMNS=stored.shape[1] // 64)
    right = upcast_from_mxfp(values, scales, torch.bfloat16, 0)
    # The conversion by itself cuts off what is too large; registers do not.
    most = torch.finfo(torch.bfloat16).max
    right = torch.where(right.abs() == most, right * 2, right)
    torch.testing.assert_close(y, right, rtol=0, atol=0, equal_nan=True)


@tritium.jit
def scatter_scales(x_ptr, y_ptr, outer, inner, half, lane, ACT: tl.constexpr, M: tl.constexpr,
                   K: tl.constexpr):  # fmt: skip
    i, j = tl.arange(0, M)[:, None], tl.arange(0, K)[None, :]
    x = tl.load(x_ptr + i * K + j)
    if ACT:
        places = blackwell.swizzle_act_mx_scale_bw_store_ptr(
            y_ptr, i, j, 1, outer, inner, half, lane
        )
    else:
        places = blackwell.swizzle_mx_scale_bw_store_ptr(
            y_ptr, j, i, 1, 100, outer, inner, half, lane
        )
    tl.store(places, x)


@pytest.mark.parametrize("act", [True, False])
def test_scales_are_stored_in_their_places(act: bool):
    x = words(256, 8)
    y = torch.zeros(1, 3, 2, 2, 256, dtype=torch.uint8, device=place())
    scatter_scales[(1,)](x, y, *y.stride()[1:], ACT=act, M=256, K=8)
    assert torch.equal(y[:, 1:], blackwell.swizzle_blocks(x[None])) and not y[:, 0].any()


def test_defaults(monkeypatch):
    metadata = object()
    for capability, cdna, names in (
        ((10, 0), -1, ("BLACKWELL_VALUE", "BLACKWELL_SCALE", "BLACKWELL_ACT_SCALE")),
        ((9, 0), -1, ("HOPPER_VALUE", "HOPPER_SCALE", "STRIDED_1")),
        ((7, 5), -1, ("STRIDED_2", "STRIDED_1", "STRIDED_1")),
        ((0, 0), 4, ("STRIDED_2", "CDNA4_SCALE", "STRIDED_1")),
    ):
        found = capability
        monkeypatch.setattr(
            target_info, "cuda_capability_geq", lambda a, b=0, c=found: c >= (a, b)
        )
        monkeypatch.setattr(target_info, "get_cdna_version", lambda v=cdna: v)
        made = (
            layouts.make_default_matmul_mxfp4_w_layout(-2),
            layouts.make_default_matmul_mxfp4_w_scale_layout(-2),
            layouts.make_default_matmul_mxfp8_act_scale_layout(metadata),
        )
        assert tuple(layout.name for layout in made) == names
        if capability == (10, 0):
            shuffled = layouts.make_default_matmul_mxfp4_w_layout(-2, True, 64, 32)
            assert shuffled == layouts.BlackwellMX4ValueShuffledLayout(64, 32)


def test_descriptors():
    tensor = wrap_torch_tensor(normal(16, 24, dtype=torch.float16).mT)
    assert is_tma_compliant(tensor) and tensor.dtype == FP16
    dense = make_tma(tensor, [8, 16], "dense")
    assert dense.shape == [16, 24] and dense.block_shape == [16, 8]
    assert make_tma(wrap_torch_tensor(normal(16, 24)), [8, 16], "gather").block_shape == [1, 16]
    assert len(make_tma(wrap_torch_tensor(normal(16, 24)), [8, 16], "ragged").shape) == 4
    odd = wrap_torch_tensor(normal(16, 23))
    assert not is_tma_compliant(odd)
    with pytest.raises(ArgumentError, match=r"tensor has strides \(23, 1\) of 4 bytes; accepted"):
        make_tma(odd, [8, 16], "dense")


def test_axes_of_three_dimensions():
    """Programs that name the axis of (experts, k, n) from the first."""
    w, x = normal(2, 64, 32, dtype=torch.bfloat16), normal(3, 64, dtype=torch.bfloat16)
    values, scales = downcast_to_mxfp(w, torch.uint8, 1)
    for make in (layouts.HopperMXValueLayout, layouts.StridedLayout):
        found = [
            matmul(x[None].expand(2, -1, -1), convert_layout(wrap_torch_tensor(values, FP4), make(
                axis)), None, precision_config=PrecisionConfig(b_mx_scale=scales))
            for axis in (1, -2)
        ]  # fmt: skip
        assert torch.equal(*found)
    assert layouts.HopperMXScaleLayout(2) == layouts.HopperMXScaleLayout(-1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layouts.HopperMXValueLayout(0), "mx_axis is 0; accepted: -1, -2"),
        (lambda: layouts.HopperMXValueLayout(-1, 4), "mma_version is 4; accepted: 2, 3"),
        (lambda: layouts.HopperMXScaleLayout(-1, 5), "num_warps is 5; accepted: 4, 8"),
        (lambda: layouts.StridedLayout(-3).order(2), "major_dim is -3; accepted: -2 to 1"),
        (lambda: convert_layout(wrap_torch_tensor(words(4, 4), BIT), VALUES[0]), "4 bits or more"),
        (lambda: empty((4, 4), UINT8, "cpu", SCALES[1]), "layout is BLACKWELL_SCALE; accepted"),
        (lambda: empty((4, 3), FP4, "cpu"), r"shape is \(4, 3\); accepted: an even number"),
        (lambda: wrap_torch_tensor(words(4, 4), layout=SCALES[1]), "shape is None; accepted: one"),
        (lambda: make_tma(wrap_torch_tensor(normal(4, 4)), [4, 4], "x"), "mode is 'x'; accepted"),
        (lambda: downcast_to_mxfp(normal(4), torch.uint8, 1), "axis is 1; accepted: -1 to 0"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call()
