"""Products with experts in all the ways of computing them: they agree with float64."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import close, integers, normal, place, torch
from tritium_kernels import matmul as module
from tritium_kernels import swiglu as gates
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import (
    Epilogue,
    FlexCtx,
    FusedActivation,
    FusedComm,
    PrecisionConfig,
    apply_allocation,
    init_allocation,
    matmul,
    matmul_torch,
)
from tritium_kernels.matmul_details import opt_flags
from tritium_kernels.matmul_details.launch import can_overflow_int32, should_upcast_indices
from tritium_kernels.meta import Closure
from tritium_kernels.numerics import InFlexData, OutFlexData
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp_torch
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.tensor import (
    convert_layout,
    make_ragged_tensor_metadata,
    remap_ragged_tensor_metadata,
    wrap_torch_tensor,
)
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import FP4

SLOW = pytest.mark.slow
EXACT = PrecisionConfig(allow_tf32=False)
SWIGLU = FusedActivation(FnSpecs("swiglu", gates.swiglu_fn, ("alpha", "limit"), (), 2), (1.5, 1.0))
WAYS = (
    {"split_k": 2}, {"is_persistent": True},
    pytest.param({"is_persistent": True, "split_k": 3, "block_k": 32}, marks=SLOW),
    pytest.param({"group_m": 3, "xcd_swizzle": 4, "block_m": 16, "block_n": 16}, marks=SLOW),
    pytest.param({"epilogue_subtile": 2}, marks=SLOW), {"epilogue_subtile": 4},
)  # fmt: skip


def prescribed(given: dict):
    return opt_flags.scoped_opt_flags_constraints(given)


@pytest.fixture
def forced(monkeypatch):
    """Properties that the heuristics of the CPU do not choose."""

    def force(given: dict):
        choose = opt_flags.make_opt_flags

        def made(*args, **kwargs):
            known = {"group_m", "xcd_swizzle", "epilogue_subtile"}
            with prescribed({k: v for k, v in given.items() if k not in known}):
                flags = choose(*args, **kwargs)
            return replace(flags, **{k: v for k, v in given.items() if k in known})

        monkeypatch.setattr("tritium_kernels.matmul_details.launch.make_opt_flags", made)

    return force


def slices(*sizes: int):
    return make_ragged_tensor_metadata(torch.tensor(sizes, device=place()), sum(sizes))


@pytest.mark.parametrize("way", WAYS)
def test_slices(forced, way):
    """With bias, an activation, and rows of no slice."""
    forced(way)
    ragged = make_ragged_tensor_metadata(torch.tensor([5, 0, 30, 2], device=place()), 40)
    x, w, bias = normal(40, 160), normal(4, 160, 64), normal(4, 64)
    y = matmul(x, w, bias, ragged, precision_config=EXACT, fused_activation=SWIGLU)
    wide = matmul_torch(x.double(), w, bias, ragged)
    right = gates.swiglu_torch(wide.float(), 1.5, gates.PrecisionConfig(1.0)).double()
    right[37:] = 0
    close(y, right, scale=8)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS[:2])
def test_batches(forced, way):
    forced(way)
    a, b, bias = normal(3, 20, 36), normal(3, 36, 40), normal(3, 40)
    right = a.double() @ b.double() + bias[:, None].double()
    for w in (b, b.mT.contiguous().mT):
        close(matmul(a, w, bias, precision_config=EXACT), right, scale=4)
    close(matmul(a.mT.contiguous().mT, b, bias, precision_config=EXACT), right, scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_slices_of_k(forced, parts: int):
    forced({"split_k": parts})
    ragged = slices(5, 0, 70)
    a, b = normal(24, 75), normal(75, 40)
    y = matmul(a, b, None, b_ragged_metadata=ragged, precision_config=EXACT)
    close(y, matmul_torch(a.double(), b, None, b_ragged_metadata=ragged), scale=8)


def filled_up(x, sizes, axis: int, divisor: int):
    """(slices of x, each filled up with ones, their metadata)."""
    parts, whole = x.split(sizes, axis), slices(*sizes)
    room = [-(-size // divisor) * divisor for size in sizes]
    made = x.new_ones((*x.shape[:axis], sum(room), *x.shape[axis + 1 :]))
    firsts = [sum(room[:i]) for i in range(len(room) + 1)]
    for part, first in zip(parts, firsts, strict=False):
        made.narrow(axis, first, part.shape[axis]).copy_(part)
    offsets = torch.tensor(firsts, dtype=torch.int32, device=place())
    return made, replace(whole, slice_offs=offsets, slice_sizes_divisibility=divisor)


def of_slices(a, b, sizes):
    """The product of each slice of k."""
    pairs = zip(a.double().split(sizes, 1), b.double().split(sizes, 0), strict=True)
    return torch.stack([x @ y for x, y in pairs])


@pytest.mark.parametrize("which", ["a", pytest.param("b", marks=SLOW), "ab"])
def test_slices_of_k_filled_up(which: str):
    """Slices of a and of b begin at different places; what they are filled up with has no part."""
    sizes = [5, 0, 70]
    a, b = normal(24, 75), normal(75, 40)
    right, of_a, of_b = of_slices(a, b, sizes), slices(*sizes), slices(*sizes)
    if "a" in which:
        a, of_a = filled_up(a, sizes, 1, 64)
    if "b" in which:
        b, of_b = filled_up(b, sizes, 0, 32)
    a.requires_grad_()
    y = matmul(a, b.requires_grad_(), None, of_a, of_b, precision_config=EXACT)
    close(y.detach(), right, scale=8)
    dy = normal(*y.shape)
    y.backward(dy)
    a, da, b, db = a.detach().double(), a.grad, b.detach().double(), b.grad
    close(matmul_torch(a, b, None, of_a, of_b), right)
    at = zip(of_a.slice_offs.tolist(), of_b.slice_offs.tolist(), sizes, strict=False)
    left, below = torch.zeros_like(a), torch.zeros_like(b)
    for z, (i, j, n) in enumerate(at):
        left[:, i : i + n] = dy[z].double() @ b[j : j + n].T
        below[j : j + n] = a[:, i : i + n].T @ dy[z].double()
    close(da, left, scale=8)
    close(db, below, scale=8)


@pytest.mark.parametrize(
    "layout", [None, pytest.param(layouts.HopperMXValueLayout(-2), marks=SLOW)]
)
def test_scaled_slices_of_k(layout):
    """b in FP4: a slice ends within a byte and a block."""
    sizes = [27, 0, 70]
    a, b = normal(24, 97, dtype=torch.bfloat16), normal(97, 128)
    padded, of_b = filled_up(b, sizes, 0, 128)
    values, scales = downcast_to_mxfp(padded, torch.uint8, 0)
    numbers = upcast_from_mxfp_torch(values, scales, torch.float32, 0)
    kept = torch.cat([numbers[i : i + n] for i, n in zip(of_b.slice_offs.tolist(), sizes,
                                                         strict=False)])  # fmt: skip
    w = wrap_torch_tensor(values, FP4)
    if layout is not None:
        w = convert_layout(w, layout)
        scales = convert_layout(wrap_torch_tensor(scales), layouts.HopperMXScaleLayout(-2))
    config = PrecisionConfig(b_mx_scale=scales, out_dtype=torch.float32)
    y = matmul(a, w, None, slices(*sizes), of_b, precision_config=config)
    close(y, of_slices(a, kept, sizes), scale=8)
    with pytest.raises(ArgumentError, match="slice_sizes_divisibility None; accepted: slices that"):
        matmul(a, w, None, slices(*sizes), replace(of_b, slice_sizes_divisibility=None),
               precision_config=config)  # fmt: skip


def test_parts_and_a_given_result():
    """Rows of no slice stay as they are, where the sum over k is divided too."""
    whole = slices(5, 9, 30, 2)
    ragged = remap_ragged_tensor_metadata(whole, torch.tensor([-1, 1, -1, 0], device=place()))
    x, w, c = normal(46, 33), normal(2, 33, 40), normal(46, 40)
    right = c.double()
    right[5:14], right[44:] = x[5:14].double() @ w[1].double(), x[44:].double() @ w[0].double()
    with prescribed({"split_k": 2}):
        assert matmul(x, w, None, ragged, precision_config=EXACT, c=c) is c
    close(c, right, scale=8)


def test_weights_packed_across():
    """Bytes of FP4 that hold two columns."""
    x, numbers = normal(17, 64, dtype=torch.bfloat16), normal(2, 64, 40)
    along, scales = downcast_to_mxfp(numbers, torch.uint8, 1)
    codes = torch.stack([along & 15, along >> 4], 2).flatten(1, 2)
    across = wrap_torch_tensor(codes[..., ::2] | codes[..., 1::2] << 4, FP4)
    config = PrecisionConfig(b_mx_scale=scales, out_dtype=torch.float32)
    right = upcast_from_mxfp_torch(along, scales, torch.float32, 1).double()
    y = matmul(x, across, None, slices(9, 8), precision_config=config)
    close(y, torch.cat([x[:9].double() @ right[0], x[9:].double() @ right[1]]), scale=4)
    close(matmul_torch(x, across, None, slices(9, 8), precision_config=config), y.double(), scale=4)


@pytest.mark.slow
def test_gathered_rows_of_persistent_programs(forced):
    forced({"is_persistent": True})
    ragged = slices(5, 0, 30, 2)
    x, w = normal(20, 48), normal(4, 48, 40)
    gather = integers(20, 37, dtype=torch.int32)
    scatter = torch.randperm(37, generator=torch.Generator().manual_seed(0)).int().to(place())
    options = {"gather_indx": gather, "scatter_indx": scatter}
    y = matmul(x, w, None, ragged, precision_config=EXACT, **options)
    close(y, matmul_torch(x.double(), w, None, ragged, **options), scale=4)


def test_slices_left_out():
    """Some of the experts: their rows stay where they are."""
    whole = slices(5, 9, 30, 2)
    ragged = remap_ragged_tensor_metadata(whole, torch.tensor([-1, 1, -1, 0], device=place()))
    x, w = normal(46, 33), normal(2, 33, 40)
    y = matmul(x, w, None, ragged, precision_config=EXACT)
    close(y, matmul_torch(x.double(), w, None, ragged), scale=4)
    assert not y[:5].any() and y[5:14].any() and not y[14:44].any()


def test_scatter_is_not_divided():
    x, w = normal(8, 40), normal(40, 8)
    scatter = torch.arange(8, device=place())
    with (
        prescribed({"split_k": 2}),
        pytest.raises(opt_flags.InapplicableConstraint, match="split_k=2"),
    ):
        matmul(x, w, None, scatter_indx=scatter)


@pytest.mark.slow
def test_rows_do_not_depend_on_others():
    w = normal(64, 48, dtype=torch.bfloat16)
    x = normal(150, 64, dtype=torch.bfloat16)
    config = PrecisionConfig(enforce_bitwise_invariance=True)
    y = matmul(x, w, None, precision_config=config)
    for rows in (1, 17):
        assert torch.equal(matmul(x[:rows], w, None, precision_config=config), y[:rows])


@tritium.jit
def twice_plus(x, offset):
    return 2 * x + offset


def test_epilogue_and_what_is_added(forced):
    x, w, bias, acc = normal(20, 33), normal(33, 40), normal(40), normal(20, 40, seed=1)
    epilogue = Epilogue(FnSpecs("twice", twice_plus, ("offset",)), (3.0,), (3.0,))
    config = replace(EXACT, acc_scale=0.5)
    alpha = torch.full((1,), 4.0, device=place())
    right = 2 * (4 * (0.5 * (x.double() @ w.double()) + bias.double()) + acc.double()) + 3
    for way in ({}, {"split_k": 2}):
        with prescribed(way):
            y = matmul(x, w, bias, precision_config=config, out_alpha=alpha, epilogue=epilogue,
                       c_acc_in=acc)  # fmt: skip
        close(y, right, scale=8)


@tritium.jit
def one_more(x, target_dtype):
    return x + (1.0 if target_dtype == tl.bfloat16 else 2.0)


def test_what_is_added_to_activated():
    """After the activation and gammas, in each column of the result; an epilogue knows its type."""
    x, w, acc, gammas = normal(20, 33), normal(33, 40), normal(20, 20, seed=1), normal(20)
    epilogue = Epilogue(FnSpecs("one_more", one_more, ()))
    config = replace(EXACT, out_dtype=torch.bfloat16)
    with prescribed({"split_k": 2}):  # the sum of the parts has the epilogue
        y = matmul(x, w, None, precision_config=config, epilogue=epilogue)
    close(y, x.double() @ w.double() + 1)
    with prescribed({"block_n": 16}):
        y = matmul(x, w, None, precision_config=config, gammas=gammas, fused_activation=SWIGLU,
                   c_acc_in=acc, epilogue=epilogue)  # fmt: skip
    wide = (x.double() @ w.double()).float()
    right = gates.swiglu_torch(wide, 1.5, gates.PrecisionConfig(1.0)).double()
    close(y, right * gammas[:, None].double() + acc.double() + 1)


def flex(dtype, *shape, seed=0):
    """Float8 numbers with a factor, and what they stand for."""
    x = 50 * normal(*shape, seed=seed)
    factor = torch.full((1,), 0.25, device=place())
    stored = (x / factor).clamp(-448, 448).to(dtype)
    return stored, InFlexData(dtype, factor), stored.double() * 0.25


@pytest.mark.parametrize("way", [{}, pytest.param({"split_k": 2}, marks=SLOW)])
def test_flexpoint(way):
    kind = torch.float8_e4m3fn
    a, a_flex, x = flex(kind, 20, 64)
    b, b_flex, w = flex(kind, 64, 48, seed=1)
    expected, actual = (torch.full((1,), v, device=place()) for v in (512.0, 0.0))
    checksum = torch.zeros(1, dtype=torch.int32, device=place())
    out = OutFlexData(kind, expected, actual, checksum)
    config = PrecisionConfig(
        flex_ctx=FlexCtx(a_flex, b_flex, out), out_dtype=kind, flexpoint_saturate_inf=True
    )
    with prescribed(way):
        y = matmul(a.view(torch.uint8), b, None, precision_config=config)
    right = x @ w
    assert abs(actual.item() - module.compute_actual_scale(right, kind).item()) < 1e-4
    assert checksum.item() != 0 and y.dtype == kind
    stored = (right / 512).clamp(-448, 448).float()
    assert torch.equal(y.float(), stored.to(kind).float())
    before = actual.clone()
    reference = matmul_torch(a.view(torch.uint8), b, None, precision_config=config)
    close(reference, right / 512)
    close(actual, before.double())


@pytest.mark.slow
def test_factors_of_batches():
    a, b = normal(3, 16, 32), normal(3, 32, 16)
    a8, b8 = a.to(torch.float8_e5m2), b.to(torch.float8_e5m2)
    factors = torch.tensor([1.0, 2.0, 3.0], device=place())
    actual = torch.zeros(3, device=place())
    config = PrecisionConfig(flex_ctx=FlexCtx(
        InFlexData(scale=factors), InFlexData(), OutFlexData(None, factors, actual)
    ), out_dtype=torch.float32)  # fmt: skip
    y = matmul(a8, b8, None, precision_config=config)
    close(y, a8.double() @ b8.double(), scale=4)
    right = (factors[:, None, None] * y).abs().amax((1, 2)) / torch.finfo(torch.float32).max
    assert torch.allclose(actual, right, rtol=1e-5)


@pytest.mark.parametrize("kind", [
    torch.uint8, *(pytest.param(k, marks=SLOW) for k in (torch.float8_e4m3fn, torch.float8_e5m2))
])  # fmt: skip
@pytest.mark.parametrize("way", [{}, pytest.param({"split_k": 2}, marks=SLOW),
                                 pytest.param({"is_persistent": True}, marks=SLOW)])  # fmt: skip
def test_quantized_results(kind, way):
    """Bit for bit the quantization of the result in float32."""
    ragged = slices(5, 0, 30)
    x, w = normal(35, 64), normal(3, 64, 160)
    scales = torch.zeros(35, 3, dtype=torch.uint8, device=place())
    pack = 2 if kind == torch.uint8 else 1
    config = replace(EXACT, c_mx_scale=scales, out_dtype=kind, c_value_pack_factor=pack)
    with prescribed(way):
        exact = matmul(x, w, None, ragged, precision_config=EXACT, fused_activation=SWIGLU)
        y = matmul(x, w, None, ragged, precision_config=config, fused_activation=SWIGLU)
    values, right = downcast_to_mxfp(exact, kind, -1)
    assert torch.equal(scales, right) and torch.equal(y.float(), values.float())


def act_scales(shape, ragged=None, dtype=torch.uint8):
    """Room for scales as Blackwell reads those of a."""
    plain = wrap_torch_tensor(torch.full(shape, 9, device=place()).to(dtype))
    return convert_layout(plain, layouts.BlackwellActMXScaleLayout(ragged))


@pytest.mark.parametrize("nvfp4", [False, pytest.param(True, marks=SLOW)])
@pytest.mark.parametrize("way", [{}, pytest.param({"split_k": 2}, marks=SLOW),
                                 pytest.param({"is_persistent": True}, marks=SLOW)])  # fmt: skip
def test_swizzled_scales_of_results(way, nvfp4: bool):
    """A product of slices whose result is the next product's a."""
    ragged = slices(5, 0, 140)
    x, w, v = normal(145, 64), normal(3, 64, 160), normal(3, 80, 32)
    size, dtype = (16, torch.float8_e4m3fn) if nvfp4 else (32, torch.uint8)
    kind = {"scale_dtype": dtype, "microblock_size": size}
    scales = act_scales((145, 80 // size + (80 % size > 0)), ragged, dtype)
    config = replace(EXACT, c_mx_scale=scales, out_dtype=torch.uint8, c_value_pack_factor=2,
                     c_microblock_size=size)  # fmt: skip
    b, b_scale = downcast_to_mxfp(v, torch.uint8, 1, **kind)
    with prescribed(way):
        exact = matmul(x, w, None, ragged, precision_config=EXACT, fused_activation=SWIGLU)
        y = matmul(x, w, None, ragged, precision_config=config, fused_activation=SWIGLU)
    values, right = downcast_to_mxfp(exact, torch.uint8, -1, **kind)
    plain = convert_layout(scales, layouts.StridedLayout(-1)).data
    assert torch.equal(plain.float(), right.float()) and torch.equal(y, values)
    z = matmul(y, b, None, ragged, precision_config=PrecisionConfig(
        a_mx_scale=scales, b_mx_scale=b_scale, a_microblock_size=size, b_microblock_size=size,
        out_dtype=torch.float32,
    ))  # fmt: skip
    wide = upcast_from_mxfp_torch(values, right, torch.float32, -1)
    weights = upcast_from_mxfp_torch(b, b_scale, torch.float32, 1)
    close(z, matmul_torch(wide.double(), weights, None, ragged), scale=8)


@pytest.mark.parametrize("batches", [2, pytest.param(0, marks=SLOW)])
def test_swizzled_scales_of_batches_and_scattered_rows(batches: int):
    leading = (batches,) if batches else ()
    x, w = normal(*leading, 135, 33), normal(*leading, 33, 70)
    scatter = None if batches else torch.arange(134, -1, -1, dtype=torch.int32, device=place())
    scales = act_scales((*leading, 135, 3))
    config = replace(EXACT, c_mx_scale=scales, out_dtype=torch.float8_e5m2)
    y = matmul(x, w, None, scatter_indx=scatter, precision_config=config)
    exact = matmul(x, w, None, scatter_indx=scatter, precision_config=EXACT)
    values, right = downcast_to_mxfp(exact, torch.float8_e5m2, -1)
    assert torch.equal(convert_layout(scales, layouts.StridedLayout(-1)).data, right)
    assert torch.equal(y.float(), values.float())


def test_swizzled_scales_of_other_slices():
    ragged, x, w = slices(2, 2), normal(4, 32), normal(2, 32, 32)
    wrong = {
        "has the layout of other slices; accepted: those of a": act_scales((4, 1), slices(4)),
        r"has shape \(4, 2\); accepted: \(4, 1\)": act_scales((4, 2), ragged),
        "has the layout CDNA4_SCALE; accepted: StridedLayout, Bl": convert_layout(
            wrap_torch_tensor(torch.zeros(4, 1, dtype=torch.uint8, device=place())),
            layouts.CDNA4MXScaleLayout(),
        ),
    }
    for message, scales in wrong.items():
        config = replace(EXACT, c_mx_scale=scales, out_dtype=torch.float8_e5m2)
        with pytest.raises(ArgumentError, match=f"c_mx_scale {message}"):
            matmul(x, w, None, ragged, precision_config=config)


@pytest.mark.slow
def test_report_of_errors():
    seen = []
    config = replace(
        EXACT, out_dtype=torch.bfloat16,
        report_quantization_err_fn=lambda exact, stored: seen.append((exact, stored)),
    )  # fmt: skip
    x, w = normal(5, 33), normal(33, 16)
    y = matmul(x, w, None, precision_config=config)
    ((exact, stored),) = seen
    assert torch.equal(stored, y.float())
    close(exact, x.double() @ w.double(), scale=4)


def fp4_weights(experts: int, k: int, n: int, value, scale):
    """(values, scales) in layouts, and the numbers."""
    plain, factors = downcast_to_mxfp(normal(experts, k, n), torch.uint8, 1)
    numbers = upcast_from_mxfp_torch(plain, factors, torch.float32, 1)
    values = convert_layout(wrap_torch_tensor(plain, FP4, (experts, k, n)), value)
    scales = convert_layout(wrap_torch_tensor(factors), scale)
    return values, scales, numbers


STRIDED = layouts.StridedLayout(-2)


@pytest.mark.parametrize(
    ("value", "scale", "way"),
    [
        (layouts.HopperMXValueLayout(-2), layouts.HopperMXScaleLayout(-2), {}),
        *(
            pytest.param(*both, marks=SLOW)
            for both in (
                (layouts.HopperMXValueLayout(-2, 2), STRIDED, {"split_k": 2}),
                (STRIDED, layouts.HopperMXScaleLayout(-2, 4), {"is_persistent": True}),
                (layouts.BlackwellMXValueLayout(), layouts.BlackwellMXScaleLayout(),
                 {"is_persistent": True}),
                (layouts.BlackwellMX4ValueShuffledLayout(64, 32), STRIDED, {}),
                (STRIDED, layouts.CDNA4MXScaleLayout(), {}),
                (STRIDED, layouts.GFX1250MXScaleLayout(), {}),
            )
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_weights_in_layouts(value, scale, way):
    ragged = slices(3, 0, 14)
    x = normal(17, 160, dtype=torch.bfloat16)
    w, scales, numbers = fp4_weights(3, 160, 144, value, scale)
    config = PrecisionConfig(b_mx_scale=scales, out_dtype=torch.float32)
    with prescribed(way):
        y = matmul(x, w, None, ragged, precision_config=config)
    right = matmul_torch(x.double(), numbers, None, ragged)
    close(y, right, scale=4)
    close(matmul_torch(x, w, None, ragged, precision_config=config), right, scale=4)


@pytest.mark.slow
@pytest.mark.parametrize("swizzled", [True, False])
def test_scaled_rows(swizzled: bool):
    """a of 8 bits; its scales as Blackwell reads them, or by strides. With b for Hopper."""
    ragged = slices(3, 0, 140)
    a, a_scale = downcast_to_mxfp(normal(143, 64), torch.float8_e4m3fn, 1)
    numbers = upcast_from_mxfp_torch(a, a_scale, torch.float32, 1)
    value = STRIDED if swizzled else layouts.HopperMXValueLayout(-2)
    w, scales, weights = fp4_weights(3, 64, 32, value, layouts.StridedLayout(-1))
    if swizzled:
        wrapped = wrap_torch_tensor(a_scale, layout=layouts.StridedLayout())
        a_scale = convert_layout(wrapped, layouts.BlackwellActMXScaleLayout(ragged))
    config = PrecisionConfig(a_mx_scale=a_scale, b_mx_scale=scales, out_dtype=torch.float32)
    y = matmul(a, w, None, ragged, precision_config=config)
    close(y, matmul_torch(numbers.double(), weights, None, ragged), scale=8)


@pytest.mark.slow
@pytest.mark.parametrize("fp4", [False, True])
def test_exchanged_operands(monkeypatch, fp4: bool):
    """(b.T @ a.T).T, as for tensor cores with many rows."""
    monkeypatch.setattr("tritium_kernels.matmul_details.launch.get_swap_xw", lambda *_: True)
    x = normal(20, 64, dtype=torch.bfloat16)
    if fp4:
        w, scales, numbers = fp4_weights(1, 64, 32, STRIDED, STRIDED)
        config = PrecisionConfig(b_mx_scale=scales, out_dtype=torch.float32)
        y = matmul(x[None], w, None, precision_config=config)
    else:
        numbers = normal(1, 64, 32, dtype=torch.bfloat16)
        y = matmul(x[None], numbers, None, precision_config=replace(EXACT, out_dtype=torch.float32))
    close(y, x[None].double() @ numbers.double(), scale=4)


@tritium.jit
def by_parity(base_row, row, base_column, column, base):
    tl.static_assert(base_row is not None)
    return (row % 2)[:, None], row // 2 + base, column


@tritium.jit
def count(counter_ptr):
    tl.atomic_add(counter_ptr, 1)


@tritium.jit
def shifted(base_row, row, base_column, column):
    """To the one group; a row that is scattered has no place in its tile."""
    tl.static_assert(base_row is None)
    return None, row + 1, column


@pytest.mark.parametrize("grouped", [True, False])
def test_results_of_other_processes(grouped: bool):
    """Processes in groups of two get rows, of which this one writes the second part."""
    x, w = normal(20, 33), normal(33, 40)
    y = torch.zeros(20, 80, device=place())
    parts = [torch.zeros(22, 80, device=place()) for _ in range(4)]
    handles = torch.tensor([p.data_ptr() for p in parts], device=place())
    done = torch.zeros(1, dtype=torch.int32, device=place())
    way = Closure(by_parity, (1,)) if grouped else Closure(shifted)
    comm = FusedComm(handles, way, Closure(count, (done,)), 1, 2)
    scatter = None if grouped else torch.arange(19, -1, -1, device=place())
    matmul(x, w, None, precision_config=EXACT, c=y, fused_comm=comm, scatter_indx=scatter)
    right = x.double() @ w.double()
    assert not y.any() and done.item() == 1
    for rank, part in enumerate(parts):
        rows = right[rank // 2 :: 2] if grouped else right.flip(0) if rank < 2 else right[:0]
        close(part[1 : 1 + len(rows), 40:], rows, scale=4)
        assert not part[:1].any() and not part[:, :40].any() and not part[1 + len(rows) :].any()


def test_allocations():
    x, w = normal(20, 33), normal(33, 40)
    with prescribed({"split_k": 3}):
        flags = opt_flags.make_opt_flags(
            *(wrap_torch_tensor(x).dtype,) * 3, EXACT, 1, 20, 40, 33, None, False, True, None,
            False, False, None,
        )  # fmt: skip
    made = init_allocation(x, w, EXACT, SWIGLU, None, None, 1, 1, flags)
    assert made.output == ((20, 20), torch.float32)
    assert made.scratchpads == {"parts": ((3, 20, 40), torch.float32)}
    memory = apply_allocation(made, None)
    assert memory["output"].shape == (20, 20)
    assert memory["scratchpad"]["parts"].shape == (3, 20, 40)
    with pytest.raises(ArgumentError, match=r"c has shape \(20, 33\); accepted: \(20, 20\)"):
        apply_allocation(made, x)
    far = torch.empty(1, device="meta").as_strided((3, 1 << 30), (1 << 30, 1))
    assert can_overflow_int32(far) and should_upcast_indices(None, x, far)
    assert not should_upcast_indices(x, None)


def config(**given) -> PrecisionConfig:
    return PrecisionConfig(**given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: matmul(x, x.T, None, c_acc_in=x), r"c_acc_in has shape \(4, 32\); accepted:"),
        (lambda x: matmul(x, x.T, None, out_alpha=x[0]), r"out_alpha has shape \(32,\); accepted"),
        (lambda x: matmul(x, x.T, None, precision_config=config(out_dtype=torch.int32)),
         "out_dtype is int32; accepted: float16, bfloat16"),
        (lambda x: matmul(x, x.T, None, precision_config=config(c_mx_scale=x)),
         "out_dtype is float32; accepted: float8_e4m3fn"),
        (lambda x: matmul(x, x.T, None, precision_config=config(
            c_mx_scale=x, out_dtype=torch.float8_e5m2)), "c_mx_scale has dtype float32; accepted"),
        (lambda x: matmul(x, x.T, None, precision_config=config(c_value_pack_factor=2)),
         "c_value_pack_factor is 2; accepted: 1, without c_mx_scale"),
        (lambda x: matmul(x, x.T, None, precision_config=config(
            flex_ctx=FlexCtx(InFlexData(scale=x[0])))), "lhs_data.scale has 32 elements; accepted"),
        (lambda x: matmul(wrap_torch_tensor(x), wrap_torch_tensor(
            x.T.byte(), FP4, (64, 4), layout=layouts.HopperMXValueLayout(-1)), None),
         "b has mx_axis -1; accepted: -2"),
        (lambda x: matmul(x, x.T, None, precision_config=config(b_mx_scale=x)),
         "b_mx_scale is given; accepted: None for b of float32"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(4, 32))


@pytest.mark.parametrize("way", [
    {}, *(pytest.param(w, marks=SLOW) for w in ({"split_k": 2}, {"is_persistent": True}))
])
def test_nothing_to_multiply(forced, way):
    """No rows, no experts, no columns, nothing to sum, and a result in memory of the caller."""
    forced(way)
    empty = slices(0, 0)
    assert matmul(normal(0, 32), normal(2, 32, 16), None, empty).shape == (0, 16)
    none = make_ragged_tensor_metadata(torch.zeros(0, dtype=torch.int32, device=place()), 4)
    if "is_persistent" not in way:
        assert not matmul(normal(4, 32), normal(0, 32, 16), None, none).any()
        bias = normal(16)
        y = matmul(normal(4, 0), normal(0, 16), bias, precision_config=EXACT)
        close(y, bias.double().expand(4, 16))
    assert matmul(normal(4, 32), normal(32, 0), None).shape == (4, 0)
    memory = torch.zeros(6, 40, device=place())
    x, w = normal(6, 64)[:, ::2], normal(16, 32).mT
    c = memory[:, ::2][:, :16]
    assert matmul(x, w, None, precision_config=EXACT, c=c) is c
    close(c, x.double() @ w.double(), scale=4)
    assert not memory[:, 1::2].any()
