"""Calls of the functions of rows and elements: norms, softmax, losses, gates, rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tools.kernel_calls.bounded import Array, Bounded
from tools.kernel_calls.checking import Trial, Values
from tools.kernel_calls.operands import (
    FLOATS,
    Operand,
    Source,
    bounded,
    computed,
    floats,
    format_of,
)
from tritium_kernels import dense


def softmax(source: Source) -> Trial:
    """Softmax or its logarithm along a dimension."""
    dtype, shape, log = source.choice(FLOATS), source.shape(), source.maybe()
    dim = source.randrange(-len(shape), len(shape))
    inner, stored = computed(dtype), format_of(dtype)
    function = dense.log_softmax if log else dense.softmax

    def result(x: Array) -> Bounded:
        if 0 in x.shape:
            return bounded(x, inner)
        b = bounded(x, inner)
        rest = b - b.max(dim, keepdims=True)
        terms = rest.exp()
        total = terms.sum(dim, keepdims=True)
        return rest - total.log() if log else terms / total

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy = bounded(dys[0], inner)
        if 0 in dy.shape:
            return {"x": dy}
        y = result(values["x"]).rounded(stored, inner)
        if log:
            return {"x": dy - y.exp() * dy.sum(dim, keepdims=True)}
        return {"x": y * (dy - (y * dy).sum(dim, keepdims=True))}

    return Trial(
        "log_softmax" if log else "softmax", lambda x: function(x, dim),
        dict(zip("x", floats(source, [shape], dtype), strict=True)),
        lambda values: [result(values["x"])], backward, {"dim": dim},
    )  # fmt: skip


def _normalized(x: Bounded, eps: float, center: bool) -> tuple[Bounded, Bounded]:
    """(numbers less their mean over the last dimension over the deviation, its inverse)."""
    if center:
        x = x - x.mean(-1, keepdims=True)
    rstd = 1.0 / ((x * x).mean(-1, keepdims=True) + eps).sqrt()
    return x * rstd, rstd


def norm(source: Source) -> Trial:
    """Layer norm and RMS norm."""
    dtype, shape, center = source.choice(FLOATS), source.shape(), source.maybe()
    weighted, eps = source.maybe(0.8), source.choice([1e-5, 1e-5, 1e-12, 0, 1.0])
    biased = center and weighted and source.maybe(0.7)
    inner = computed(dtype)
    wide = dtype if dtype == torch.float64 or source.maybe(0.7) else torch.float32
    operands = dict(zip("x", floats(source, [shape], dtype), strict=True))
    for name in ["weight"] * weighted + ["bias"] * biased:
        operands[name] = floats(source, [shape[-1:]], wide, "normal")[0]

    def forward(values: Values) -> list[Bounded]:
        x = bounded(values["x"], inner)
        if 0 in x.shape:
            return [x]
        h, _ = _normalized(x, eps, center)
        y = h * values["weight"] if weighted else h
        return [y + values["bias"] if biased else y]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy, x = bounded(dys[0], inner), bounded(values["x"], inner)
        if 0 in x.shape:
            zeros = bounded(np.zeros(shape[-1:]), inner)
            return {"x": x, "weight": zeros, "bias": zeros}
        h, rstd = _normalized(x, eps, center)
        g = dy * values["weight"] if weighted else dy
        rest = g - h * (g * h).mean(-1, keepdims=True)
        if center:
            rest = rest - g.mean(-1, keepdims=True)
        rows = tuple(range(len(shape) - 1))
        return {"x": rest * rstd, "weight": (dy * h).sum(rows), "bias": dy.sum(rows)}

    function: Any = dense.layer_norm if center else dense.rms_norm
    return Trial(
        "layer_norm" if center else "rms_norm", lambda **given: function(**given, eps=eps),
        operands, forward, backward, {"eps": eps},
    )  # fmt: skip


def group_norm(source: Source) -> Trial:
    """Group norm."""
    dtype, groups = source.choice(FLOATS), source.choice([1, 2, 3, 8])
    shape = (source.size(5), groups * source.choice([1, 2, 3, 16]), *source.shape(1, 2))
    if source.maybe(0.1):
        shape = shape[:2]
    while np.prod(shape) > source.most:
        shape = (shape[0], shape[1], *(s // 2 for s in shape[2:]))
    weighted, biased, eps = source.maybe(0.8), source.maybe(0.6), source.choice([1e-5, 1e-12, 1.0])
    inner = computed(dtype)
    operands = dict(zip("x", floats(source, [shape], dtype), strict=True))
    for name in ["weight"] * weighted + ["bias"] * biased:
        operands[name] = floats(source, [shape[1:2]], dtype, "normal")[0]
    channel = (1, shape[1], *(1 for _ in shape[2:]))

    def normalized(x: Array) -> tuple[Bounded, Bounded]:
        h, rstd = _normalized(bounded(x, inner).reshape(shape[0], groups, -1), eps, True)
        return h.reshape(*shape), rstd

    def forward(values: Values) -> list[Bounded]:
        if 0 in shape:
            return [bounded(values["x"], inner)]
        y = normalized(values["x"])[0]
        y = y * values["weight"].reshape(channel) if weighted else y
        return [y + values["bias"].reshape(channel) if biased else y]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy = bounded(dys[0], inner)
        if 0 in shape:
            zeros = bounded(np.zeros(shape[1]), inner)
            return {"x": dy, "weight": zeros, "bias": zeros}
        h, rstd = normalized(values["x"])
        g = dy * values["weight"].reshape(channel) if weighted else dy
        parts = (shape[0], groups, -1)
        g, hh = g.reshape(*parts), h.reshape(*parts)
        rest = g - g.mean(-1, keepdims=True) - hh * (g * hh).mean(-1, keepdims=True)
        others = tuple(a for a in range(len(shape)) if a != 1)
        return {
            "x": (rest * rstd).reshape(*shape), "weight": (dy * h).sum(others),
            "bias": dy.sum(others),
        }  # fmt: skip

    return Trial(
        "group_norm", lambda x, **given: dense.group_norm(x, groups, **given, eps=eps), operands,
        forward, backward, {"groups": groups, "eps": eps},
    )  # fmt: skip


def cross_entropy(source: Source) -> Trial:
    """Cross entropy of rows of logits."""
    dtype, rows, columns = source.choice(FLOATS), source.size(70), source.long()
    smoothing, z = source.choice([0.0, 0.0, 0.1, 1.0]), source.choice([0.0, 0.0, 1e-3, 1.0])
    reduction, ignored = source.choice(["mean", "sum", "none"]), source.choice([-100, 0, 1])
    inner, low = computed(dtype), source.choice([0, 0, -1])
    targets = Operand(
        (rows,), source.choice([torch.int32, torch.int64]), source.choice(["plain", "sliced"]),
        (low, columns + source.choice([0, 0, 1])), gradient=False,
    )  # fmt: skip

    def parts(values: Values) -> tuple[Bounded, Bounded, Bounded, Array, Array]:
        """(logits, the largest, the rest of log-sum-exp, whether ignored, whether no column)."""
        x, target = bounded(values["logits"], inner), values["target"]
        wrong = (target < 0) | (target >= columns)
        top = x.max(1) if columns else bounded(np.full(rows, -np.inf), inner)
        rest = (x - top.reshape(rows, 1)).exp().sum(1).log()
        return x, top, rest, target == ignored, wrong

    def losses(values: Values) -> Bounded:
        x, top, rest, skip, wrong = parts(values)
        if not columns:  # no column is right
            right = bounded(np.full(rows, np.nan), inner)
        else:
            right = x[np.arange(rows), np.where(wrong, 0, values["target"])].where(~wrong, np.nan)
        loss = (top - right) + rest
        if smoothing and columns:
            first = np.where(np.isfinite(values["logits"][:, :1]), values["logits"][:, :1], 0)
            mean = (x - first).mean(1)
            loss = loss * (1 - smoothing) + ((top - first[:, 0]) - mean + rest) * smoothing
        lse = top + rest
        return (loss + lse * lse * z).where(~skip, 0.0)

    def scale(values: Values) -> Bounded:
        count = float((values["target"] != ignored).sum())
        return 1.0 / bounded(count if reduction == "mean" else 1.0, inner)

    def forward(values: Values) -> list[Bounded]:
        loss = losses(values)
        return [loss if reduction == "none" else loss.sum(0) * scale(values)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        x, top, rest, skip, wrong = parts(values)
        if not x.value.size:
            return {"logits": x}
        dy = bounded(dys[0], inner) if reduction == "none" else scale(values) * dys[0]
        dy = dy + np.zeros(rows)
        lse = (top + rest).reshape(rows, 1)
        share = ((x - top.reshape(rows, 1)) - rest.reshape(rows, 1)).exp()
        hit = np.arange(columns) == values["target"][:, None]
        dx = share * (lse * (2 * z) + 1.0) - smoothing / columns - hit * (1 - smoothing)
        dx = (dx * dy.reshape(rows, 1)).where(~wrong[:, None], np.nan)
        return {"logits": dx.where(~skip[:, None], 0.0)}

    return Trial(
        "cross_entropy",
        lambda logits, target: dense.cross_entropy(
            logits, target, ignored, smoothing, z, reduction
        ),
        {"logits": floats(source, [(rows, columns)], dtype)[0], "target": targets}, forward,
        backward, {"ignored": ignored, "smoothing": smoothing, "z": z, "reduction": reduction},
    )  # fmt: skip


def _erf(x: Array) -> Array:
    return torch.erf(torch.from_numpy(np.asarray(x))).numpy()


def gated(source: Source) -> Trial:
    """activation(gate) * up."""
    dtype, shape = source.choice(FLOATS), source.shape()
    kind = source.choice(["silu", "gelu", "tanh"])
    inner = computed(dtype)
    gate, up = floats(source, [shape, shape], dtype)

    def parts(x: Array) -> tuple[Bounded, Bounded]:
        """(the activation, its derivative)."""
        b = bounded(x, inner)
        if kind == "silu":
            s = b.sigmoid()
            return b * s, s * (b * (1.0 - s) + 1.0)
        if kind == "gelu":
            inside = b * 0.5**0.5
            half = inside.apply(_erf, 1.2, inner.u) * 0.5 + 0.5
            bell = (inside * inside * -1.0).exp() * (2 * np.pi) ** -0.5
            return b * half, half + b * bell
        c = (2 / np.pi) ** 0.5
        t = ((b * b * 0.044715 + 1.0) * b * c).apply(np.tanh, 1.0, inner.u)
        slope = (b * b * (3 * 0.044715) + 1.0) * c
        return b * (t + 1.0) * 0.5, (t + 1.0) * 0.5 + b * (1.0 - t * t) * slope * 0.5

    def forward(values: Values) -> list[Bounded]:
        return [parts(values["gate"])[0] * values["up"]]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        y, slope = parts(values["gate"])
        return {"gate": slope * values["up"] * dys[0], "up": y * dys[0]}

    function = dense.swiglu if kind == "silu" else dense.geglu
    options = {} if kind == "silu" else {"approximate": "tanh" if kind == "tanh" else "none"}
    return Trial(
        "gated", lambda gate, up: function(gate, up, **options), {"gate": gate, "up": up}, forward,
        backward, {"kind": kind},
    )  # fmt: skip


def rope(source: Source) -> Trial:
    """Rotations of pairs."""
    dtype = source.choice(FLOATS)
    batch, heads, length = source.size(3), source.size(5), source.size(70)
    half, rest = source.size(40, least=1), source.choice([0, 0, 1, 6])
    shape = (batch, heads, length, 2 * half + rest)
    turns = (length, half) if source.maybe() else (batch, length, half)
    other = dtype if source.maybe() else source.choice([d for d in FLOATS if d != torch.float64])
    interleaved, inner = source.maybe(), computed(dtype)
    x, cos, sin = floats(source, [shape], dtype) + floats(source, [turns, turns], other, "normal")
    cos.gradient = sin.gradient = False

    def turn(x: Array, values: Values, back: bool) -> Bounded:
        b = bounded(x, inner)
        cos, sin = (values[n] if len(turns) == 2 else values[n][:, None] for n in ("cos", "sin"))
        pairs = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        first, second = pairs if interleaved else (slice(0, half), slice(half, 2 * half))
        a, c = b[..., first], b[..., second]
        sign = -1.0 if back else 1.0
        left, right = a * cos - c * sin * sign, c * cos + a * sin * sign
        value, error = np.array(b.value), np.array(b.error)
        value[..., first], value[..., second] = left.value, right.value
        error[..., first], error[..., second] = left.error, right.error
        return Bounded(value, error, inner)

    return Trial(
        "rope", lambda x, cos, sin: dense.rope(x, cos, sin, interleaved),
        {"x": x, "cos": cos, "sin": sin}, lambda v: [turn(v["x"], v, False)],
        lambda v, dys: {"x": turn(dys[0], v, True)}, {"interleaved": interleaved},
    )  # fmt: skip


CASES = (softmax, norm, group_norm, cross_entropy, gated, rope)
