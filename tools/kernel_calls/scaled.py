"""Calls with numbers of 8 bits and fewer: MX and NVFP4 conversions, products of any operands with
scales of blocks and of tensors, in divided sums, persistent programs and other layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tools.kernel_calls.bounded import FORMATS, Array, Bounded, Format, difference
from tools.kernel_calls.checking import Trial, Values
from tools.kernel_calls.operands import HALVES, Operand, Source, bounded, floats, format_of
from tritium_kernels import matmul as products
from tritium_kernels.matmul_details import opt_flags
from tritium_kernels.numerics import InFlexData, OutFlexData
from tritium_kernels.numerics_details import mxfp
from tritium_kernels.specialize import FnSpecs
from tritium_kernels.swiglu import swiglu_fn
from tritium_kernels.tensor import convert_layout, make_ragged_tensor_metadata, wrap_torch_tensor
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import FP4

E4M3, E5M2, CODES = torch.float8_e4m3fn, torch.float8_e5m2, torch.uint8
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
_NARROW = {
    CODES: Format(2.0**-2, 6.0, 0.0, 0.5), E4M3: Format(2.0**-4, 448.0, 0.0, 2.0**-9),
    E5M2: Format(2.0**-3, 57344.0, 0.0, 2.0**-16),
}  # fmt: skip
"""Formats whose numbers below the least normal are kept, but for what their spacing takes."""


def numbers(x: Array, dtype: torch.dtype, axis: int) -> Array:
    """The numbers of elements; codes of e2m1 are two in a byte along `axis`."""
    if dtype != CODES:
        return x.astype(np.float64)
    moved = np.moveaxis(x.astype(np.int64), axis, -1)
    pairs = np.stack([moved & 15, moved >> 4], -1)
    both = pairs.reshape(*moved.shape[:-1], 2 * moved.shape[-1])
    return np.moveaxis(_E2M1[both], -1, axis)


def factors(scales: Array, dtype: torch.dtype, axis: int, count: int) -> Array:
    """The factor of each of `count` elements along `axis`, of scales of their blocks."""
    scale = np.exp2(scales - 127.0) if dtype == CODES else scales
    return np.repeat(scale, 32 if dtype == CODES else 16, axis).take(range(count), axis)


def conversion(source: Source) -> Trial:
    """To numbers with scales of blocks, and back."""
    shape, dtype = list(source.shape(1, 3)), source.choice(HALVES)
    axis = source.randrange(-len(shape), len(shape))
    to, scale_dtype = source.choice([(CODES, CODES), (E4M3, CODES), (E5M2, CODES), (CODES, E4M3)])
    if to == CODES:
        shape[axis] += shape[axis] % 2
    mode = mxfp.DequantScaleRoundingMode.ROUND_UP
    if scale_dtype == CODES:  # those of e4m3 are rounded to nearest
        mode = source.choice(list(mxfp.DequantScaleRoundingMode))
    size = 32 if scale_dtype == CODES else 16
    narrow, inner = _NARROW[to], FORMATS["float32"]

    def judge(values: Values, found: list[Array]) -> str:
        x = np.moveaxis(values["x"], axis, -1)
        q = np.moveaxis(numbers(found[0], to, axis), axis, -1)
        scales = np.moveaxis(found[1], axis, -1)
        scale = factors(scales, scale_dtype, -1, x.shape[-1])
        padded = np.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, -x.shape[-1] % size)])
        blocks = np.abs(padded.reshape(*x.shape[:-1], -1, size) if padded.size else padded)
        if not x.size:
            return ""
        wild = ~np.isfinite(blocks).all(-1)
        most = np.where(wild, 0, np.nan_to_num(blocks).max(-1)) / narrow.most
        each = np.exp2(scales - 127.0) if scale_dtype == CODES else scales
        if text := _wrong_scales(each, most, wild, scale_dtype, mode):
            return text
        tame = ~np.repeat(wild, size, -1)[..., : x.shape[-1]] & (scale > 0)
        y = np.clip(np.where(tame, x, 0) / np.where(tame, scale, 1), -narrow.most, narrow.most)
        # Below the scale 2**-126 quotients of float32 lose digits.
        apart = np.where(tame, np.abs(q - y), 0.0)
        half = np.maximum(narrow.u * np.abs(y), narrow.least / 2) * (1 + 2.0**-20)
        wrong = (apart > half) & (scale >= 2.0**-120)
        if wrong.any():
            return f"is {q[wrong][0]} for {y[wrong][0]} at {np.argwhere(wrong)[0]}"
        right = np.where(tame, q * scale, 0.0)
        back = np.where(tame, np.moveaxis(found[2], axis, -1), 0.0)
        return difference(back, Bounded(right, inner.u * np.abs(right)), format_of(dtype))

    def function(x: Tensor) -> tuple[Tensor, ...]:
        q, scale = mxfp.downcast_to_mxfp(
            x, to, axis, scale_dtype, size, DEQUANT_SCALE_ROUNDING_MODE=mode
        )
        return q, scale, mxfp.upcast_from_mxfp(q, scale, dtype, axis)

    return Trial(
        "conversion", function, {"x": replace(floats(source, [tuple(shape)], dtype)[0],
                                              gradient=False)},
        judge=judge, options={"axis": axis, "to": to, "scales": scale_dtype, "mode": mode.name},
        compiles=False,
    )  # fmt: skip


def _wrong_scales(
    scale: Array, most: Array, wild: Array, dtype: torch.dtype, mode: Any
) -> str:
    """The fault of scales of blocks whose largest number is `most` times the type's, or ""."""
    if dtype != CODES:  # to nearest, of e4m3
        clipped = np.minimum(most, 448.0)
        near = np.abs(scale - clipped) <= np.maximum(2.0**-4 * clipped, 2.0**-10) * (1 + 2.0**-20)
        return "" if (near | wild).all() else f"has the scales {scale[~(near | wild)][:3]}"
    wide = most > 2.0**-120
    up = mode is mxfp.DequantScaleRoundingMode.ROUND_UP
    slack = 1 + 2.0**-21
    low, high = (most, 2 * most) if up else (most / 2, most)
    fits = ~wide | ((scale >= low / slack) & (scale <= high * slack)) | wild
    fits &= ~wild | (scale == 2.0**127)
    return "" if fits.all() else f"has the scale {scale[~fits][0]} for {most[~fits][0]}"


@dataclass(frozen=True)
class Kind:
    """A kind of operands: the type of elements, and of scales of blocks or None."""

    dtype: torch.dtype
    scales: torch.dtype | None = None


KINDS = (
    Kind(torch.float16), Kind(torch.bfloat16), Kind(E4M3), Kind(E5M2), Kind(E4M3, CODES),
    Kind(E5M2, CODES), Kind(CODES, CODES), Kind(CODES, E4M3),
)  # fmt: skip


def _kinds(source: Source) -> tuple[Kind, Kind]:
    """Kinds of a and b that go together."""
    while True:
        a, b = source.choice(KINDS), source.choice(KINDS)
        eight = a.dtype in (E4M3, E5M2) and b.dtype in (E4M3, E5M2)
        if a.scales or b.scales or eight or a.dtype == b.dtype:
            return (Kind(torch.float32),) * 2 if source.maybe(0.15) else (a, b)


def _operand(
    source: Source, kind: Kind, name: str, shape: tuple[int, ...], axis: int
) -> dict[str, Operand]:
    """An operand whose dimension `axis` is k, and its scales."""
    layout = source.choice(("plain", "plain", "transposed", "sliced", "padded", "offset"))
    if kind.dtype != CODES:
        kinds = ("normal", "ties") if kind.dtype in (E4M3, E5M2) else ("normal", "ties", "equal")
        made = {name: Operand(shape, kind.dtype, layout, source.choice(kinds), False)}
    else:
        half = list(shape)
        half[axis] //= 2
        made = {name: Operand(tuple(half), CODES, layout, (0, 256), False)}
    if kind.scales:
        blocks = list(shape)
        size = 32 if kind.scales == CODES else 16
        blocks[axis] = -(-shape[axis] // size)
        values: Any = (122, 132) if kind.scales == CODES else "positive"
        made[f"{name}_scale"] = Operand(tuple(blocks), kind.scales, layout, values, False)
    return made


def _value(values: Values, kind: Kind, name: str, axis: int) -> Array:
    x = numbers(values[name], kind.dtype, axis)
    if kind.scales is None:
        return x
    return x * factors(values[f"{name}_scale"], kind.scales, axis, x.shape[axis])


def _stored(source: Source, kind: Kind, other: Kind) -> tuple[Any, Any]:
    """Layouts of b's values and scales; None: by strides."""
    value = scale = None
    if kind.dtype == CODES and source.maybe(0.5):
        value = source.choice([layouts.BlackwellMXValueLayout(), layouts.StridedLayout(-2),
                               layouts.BlackwellMX4ValueShuffledLayout(64, 64)])  # fmt: skip
        if other.dtype in (torch.bfloat16, E4M3, E5M2) and source.maybe():
            value = layouts.HopperMXValueLayout(-2, source.choice([2, 3]))
    if kind.scales and source.maybe(0.5):
        found: list[Any] = [layouts.BlackwellMXScaleLayout()]
        if kind.scales == CODES:
            found += [layouts.HopperMXScaleLayout(-2, source.choice([4, 8])),
                      layouts.CDNA4MXScaleLayout(), layouts.GFX1250MXScaleLayout()]  # fmt: skip
        scale = source.choice(found)
    return value, scale


def _constraints(source: Source, splits: bool) -> dict[str, Any]:
    """How the product is cut and launched."""
    made: dict[str, Any] = {}
    if source.maybe(0.4):
        made |= {"block_m": source.choice([16, 32, 64]), "block_n": source.choice([32, 64, 128])}
    if source.maybe(0.3):
        made["block_k"] = source.choice([64, 128])
    if splits and source.maybe(0.5):
        made["split_k"] = source.choice([2, 3, 7])
    elif source.maybe(0.3):
        made["is_persistent"] = True
    return made


def clamped(b: Bounded, low: float, high: float) -> Bounded:
    return Bounded(np.clip(b.value, low, high), b.error, b.to)


def _activated(z: Bounded, alpha: float, limit: float) -> Bounded:
    gate, linear = clamped(z[..., ::2], -np.inf, limit), clamped(z[..., 1::2], -limit, limit)
    return gate * (gate * alpha).sigmoid() * (linear + 1.0)


@dataclass(frozen=True)
class Sizes:
    """Rows, columns and k of a product, and how many matrices b has: in `slices` of a's rows, or
    batches, or one."""

    m: int
    n: int
    k: int
    slices: list[int] | None
    batch: int


def _sizes(source: Source, n_step: int) -> Sizes:
    form = source.choice(["plain", "batched", "ragged", "ragged"])
    sizes = [source.choice([0, 1, 3, 16, 17, 65]) for _ in range(source.randint(1, 4))]
    k = source.choice([32, 64, 96, 160, 224, 512])
    n = n_step * source.choice([16, 32, 48, 72])
    m = sum(sizes) if form == "ragged" else source.size(97)
    batch = source.choice([1, 2, 3]) if form == "batched" else 0
    return Sizes(m, n, k, sizes if form == "ragged" else None, batch)


def _shapes(s: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if s.slices is not None:
        return (s.m, s.k), (len(s.slices), s.k, s.n)
    lead = (s.batch,) if s.batch else ()
    return (*lead, s.m, s.k), (*lead, s.k, s.n)


def scaled_product(source: Source) -> Trial:
    """Products of operands of all kinds, with all that goes beside them."""
    kind_a, kind_b = _kinds(source)
    active = source.maybe(0.3)
    size = _sizes(source, 1 + active)
    shapes = _shapes(size)
    operands = {**_operand(source, kind_a, "a", shapes[0], -1),
                **_operand(source, kind_b, "b", shapes[1], -2)}  # fmt: skip
    bias_shape = (*shapes[1][:-2], size.n)
    if source.maybe(0.4):
        operands["bias"] = Operand(bias_shape, torch.float32, "plain", "normal", False)
    if source.maybe(0.3):
        operands["gammas"] = Operand((size.m,), torch.float32, "plain", "normal", False)
    stored = _stored(source, kind_b, kind_a)
    flex = [source.choice([None, None, 0.5, 3.0]) for _ in range(2)]
    expected = source.choice([None, None, 4.0])
    out = source.choice([torch.float32, torch.bfloat16, torch.float16, E4M3, E5M2])
    constraints = _constraints(source, not (active and "gammas" in operands))
    alpha, limit = source.choice([1.0, 1.702]), source.choice([1.0, 7.0])
    inner = FORMATS["float32"]
    of = np.repeat(np.arange(len(size.slices)), size.slices) if size.slices is not None else None

    def result(values: Values) -> Bounded:
        a, b = _value(values, kind_a, "a", -1), _value(values, kind_b, "b", -2)
        if of is None:
            y = _product(bounded(a, inner), b, kind_a, kind_b, source)
        else:
            y = _product(bounded(a[:, None], inner), b[of], kind_a, kind_b, source)[:, 0]
        for factor in flex:
            y = y if factor is None else y * factor
        if "bias" in values:
            y = y + (values["bias"][of] if of is not None else values["bias"][..., None, :])
        y = _activated(y, alpha, limit) if active else y
        return y * values["gammas"][:, None] if "gammas" in values else y

    def judge(values: Values, found: list[Array]) -> str:
        right = result(values)
        most = Bounded(np.abs(right.value).max(initial=0), np.max(right.error, initial=0))
        if out in _NARROW and right.value.size:
            scaled = most * (1 / _NARROW[out].most)
            if text := difference(found[1].reshape(()), scaled, inner):
                return f"actual_scale {text}"
        y = right if expected is None else right * (1 / expected)
        if out in _NARROW:
            y = clamped(y, -_NARROW[out].most, _NARROW[out].most)
        return difference(found[0], y, _NARROW[out] if out in _NARROW else format_of(out))

    def function(**given: Any) -> tuple[Tensor, ...]:
        device = given["a"].device
        activation = None
        if active:
            specs = FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), (), 2)
            activation = products.FusedActivation(specs, (alpha, limit))
        actual = torch.zeros(1, device=device) if out in _NARROW else None
        context = products.FlexCtx(
            *(InFlexData(None, None if f is None else torch.full((1,), f, device=device))
              for f in flex),
            OutFlexData(
                None, None if expected is None else torch.full((1,), expected, device=device),
                actual,
            ),
        )  # fmt: skip
        b, b_scale = _placed(given, stored)
        config = products.PrecisionConfig(
            allow_tf32=False, flex_ctx=context, flexpoint_saturate_inf=out in _NARROW,
            a_mx_scale=given.get("a_scale"), a_microblock_size=_block(kind_a),
            b_mx_scale=b_scale, b_microblock_size=_block(kind_b), out_dtype=out,
        )  # fmt: skip
        metadata = None
        if size.slices is not None:
            counts = torch.tensor(size.slices, dtype=torch.int32, device=device)
            metadata = make_ragged_tensor_metadata(counts, size.m)
        y = _constrained(constraints, lambda: products.matmul(
            given["a"], b, given.get("bias"), metadata, precision_config=config,
            gammas=given.get("gammas"), fused_activation=activation,
        ))  # fmt: skip
        return (y,) if actual is None else (y, actual)

    return Trial(
        "scaled_product", function, operands, judge=judge, compiles=False,
        options={"a": kind_a, "b": kind_b, "sizes": size, "stored": stored, "flex": flex,
                 "expected": expected, "out": out, "constraints": constraints,
                 "active": active and (alpha, limit)},
    )  # fmt: skip


def _block(kind: Kind) -> int:
    return 16 if kind.scales == E4M3 else 32


def _product(a: Bounded, b: Array, kind_a: Kind, kind_b: Kind, source: Source) -> Bounded:
    """The product; sums of numbers of 8 bits keep 13 bits on the way on NVIDIA's tensor cores."""
    y = a.matmul(b)
    if source.device == "cpu" or kind_a.dtype.itemsize > 1 or kind_b.dtype.itemsize > 1:
        return y
    return Bounded(y.value, y.error + 2.0**-12 * (np.abs(a.value) @ np.abs(b)), y.to)


def _placed(given: dict[str, Any], stored: tuple[Any, Any]) -> tuple[Any, Any]:
    """b and its scales in their layouts."""
    b, scale = given["b"], given.get("b_scale")
    if stored[0] is not None:
        b = convert_layout(wrap_torch_tensor(b.mT.contiguous().mT, FP4), stored[0])
    if stored[1] is not None:
        scale = convert_layout(wrap_torch_tensor(scale), stored[1])
    return b, scale


def _constrained(constraints: dict[str, Any], call: Callable[[], Tensor]) -> Tensor:
    """A product under constraints; without those that it cannot have."""
    try:
        with opt_flags.scoped_opt_flags_constraints(constraints):
            return call()
    except opt_flags.InapplicableConstraint:
        return call()


def ragged_sums(source: Source) -> Trial:
    """Products of slices of k: columns of a and rows of b."""
    dtype = source.choice(HALVES)
    sizes = [source.choice([0, 1, 3, 16, 17, 65, 130]) for _ in range(source.randint(1, 5))]
    m, n, rest = source.size(97), source.size(97), source.choice([0, 0, 5])
    k = sum(sizes) + rest
    operands = dict(zip("ab", floats(source, [(m, k), (k, n)], dtype, "normal"), strict=True))
    ends = np.cumsum([0, *sizes])
    inner = FORMATS["float32"]
    constraints = _constraints(source, True)
    constraints.pop("is_persistent", None)
    parts = [slice(i, j) for i, j in itertools.pairwise(ends)]

    def forward(values: Values) -> list[Bounded]:
        each = [bounded(values["a"][:, p], inner).matmul(values["b"][p]) for p in parts]
        return [Bounded(np.stack([e.value for e in each]), np.stack([e.error for e in each]))]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        da, db = (np.zeros((2, *o.shape)) for o in operands.values())  # numbers, errors
        for p, dy in zip(parts, dys[0], strict=True):
            left = bounded(dy, inner).matmul(values["b"][p].T)
            right = bounded(values["a"][:, p].T, inner).matmul(dy)
            da[:, :, p] = left.value, left.error
            db[:, p] = right.value, right.error
        return {"a": Bounded(*da, inner), "b": Bounded(*db, inner)}

    def function(a: Tensor, b: Tensor) -> Tensor:
        counts = torch.tensor(sizes, dtype=torch.int32, device=a.device)
        metadata = make_ragged_tensor_metadata(counts, k)
        config = products.PrecisionConfig(allow_tf32=False)
        return _constrained(constraints, lambda: products.matmul(
            a, b, None, None, metadata, precision_config=config
        ))  # fmt: skip

    return Trial(
        "ragged_sums", function, operands, forward, backward,
        {"sizes": sizes, "rest": rest, "constraints": constraints}, compiles=False,
        casts=("a", "b"),
    )  # fmt: skip


CASES = (conversion, scaled_product, ragged_sums)
