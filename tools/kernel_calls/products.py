"""Calls of matrix products, of attention and of the losses of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tools.kernel_calls.bounded import Array, Bounded
from tools.kernel_calls.checking import Trial, Values
from tools.kernel_calls.operands import (
    FLOATS,
    HALVES,
    Operand,
    Source,
    bounded,
    computed,
    exact,
    floats,
    format_of,
    layouts,
)
from tritium_kernels import dense
from tritium_kernels.dense.score import alibi, softcap

MILD = ("normal", "normal", "ties", "equal", "tiny", "special")
"""Kinds of numbers whose products are of use."""


def transposed(b: Bounded) -> Bounded:
    return b.moved(lambda a: np.swapaxes(a, -1, -2))


def matmul(source: Source) -> Trial:
    """Products with bias, activation and residual."""
    dtype = source.choice(FLOATS)
    m, n, k = source.size(140), source.size(140), source.size(300)
    batch, other = source.choice(
        [((), ()), ((), ()), ((3,), ()), ((2,), (2,)), ((2, 3), (3,)), ((1,), (4,)), ((), (2,)),
         ((0,), ()), ((2, 1), (1, 3))]
    )  # fmt: skip
    shapes = [(*batch, m, k), (*other, k, n)]
    operands = dict(zip("ab", floats(source, shapes, dtype, source.choice(MILD)), strict=True))
    whole = (*np.broadcast_shapes(batch, other), m, n)
    if source.maybe(0.4):
        operands["bias"] = floats(source, [(n,)], dtype, "normal")[0]
    if source.maybe(0.3):
        shape = source.choice([whole, (m, n), (n,), (m, 1)])
        operands["residual"] = floats(source, [shape], dtype, "normal")[0]
    kind = source.choice([None, None, None, "relu", "silu", "tanh"])
    inner, stored = computed(dtype), format_of(dtype)

    def linear(values: Values) -> Bounded:
        y = bounded(values["a"], inner).matmul(values["b"])
        return y + values["bias"] if "bias" in values else y

    def activated(z: Bounded) -> tuple[Bounded, Bounded]:
        """(the activation, its derivative)."""
        if kind == "relu":
            edge = np.abs(z.value) <= z.error
            slope = Bounded((z.value > 0) * 1.0, edge * 1.0, inner)
            return z.where(~(z.value < 0), 0.0), slope.where(~np.isnan(z.value), 0.0)
        if kind == "silu":
            s = z.sigmoid()
            return z * s, s * (z * (1.0 - s) + 1.0)
        t = z.apply(np.tanh, 1.0, inner.u)
        return t, 1.0 - t * t

    def forward(values: Values) -> list[Bounded]:
        y = linear(values)
        y = y if kind is None else activated(y)[0]
        return [y + np.broadcast_to(values["residual"], whole) if "residual" in values else y]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy = bounded(dys[0], inner)
        found = {"residual": summed(dy, operands["residual"].shape)} if "residual" in values else {}
        if kind is not None:
            # What the activation was applied to is kept in the result's type.
            kept = linear(values).rounded(stored, inner)
            dy = (dy * activated(kept)[1]).rounded(stored, inner)
        found["bias"] = summed(dy, (n,))
        if not m or not n or not k or 0 in whole:
            zeros = {name: bounded(np.zeros(o.shape), inner) for name, o in operands.items()}
            return {**zeros, **found}
        a, b = (bounded(values[name], inner) for name in "ab")
        da = dy.matmul(transposed(b)).rounded(stored, inner)
        db = transposed(a).matmul(dy).rounded(stored, inner)
        return {**found, "a": summed(da, shapes[0]), "b": summed(db, shapes[1])}

    return Trial(
        "matmul", lambda **given: dense.matmul(**given, activation=kind), operands, forward,
        backward, {"activation": kind}, casts=("a", "b", "bias"),
    )  # fmt: skip


def summed(x: Bounded, shape: tuple[int, ...]) -> Bounded:
    """The sum over the dimensions along which `shape` was broadcast."""
    lead = len(x.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + i for i, size in enumerate(shape) if size == 1 and x.shape[lead + i] != 1
    )
    return (x.sum(axes) if axes else x).moved(lambda a: a.reshape(shape))


def matmul_of_bytes(source: Source) -> Trial:
    """Products of int8, with scales."""
    m, n, k = source.size(100), source.size(100), source.size(300)
    scaled = source.maybe()
    a, b = (
        Operand(s, torch.int8, layout, (-128, 128))
        for s, layout in zip([(m, k), (k, n)], layouts(source, 2), strict=True)
    )
    operands = {"a": a, "b": b}
    if scaled:
        for name, size in (("a_scale", m), ("b_scale", n)):
            shape = source.choice([(size,), (1,), ()])
            operands[name] = Operand(shape, torch.float32, "plain", "normal", gradient=False)

    def judge(values: Values, found: list[Array]) -> str:
        right = values["a"].astype(np.int64) @ values["b"].astype(np.int64)
        if not scaled:
            return "" if np.array_equal(found[0], right) else "is not the product"
        exact_ = right * values["a_scale"].reshape(-1, 1) * values["b_scale"].reshape(1, -1)
        wrong = np.abs(found[0] - exact_) > 4 * 2.0**-24 * np.abs(exact_) + 2.0**-126
        return f"differs at {np.argwhere(wrong)[0]}" if wrong.any() else ""

    return Trial("matmul_of_bytes", dense.matmul, operands, judge=judge)


def _visible(source: Source, queries: int, keys: int) -> tuple[dict[str, Any], Array]:
    """(options, which keys each query sees)."""
    causal = source.maybe()
    window = None
    if source.maybe(0.3):
        window = source.choice([-1, 0, 1, 5, 40, 300]), source.choice([-1, 0, 3, 64])
    place = np.arange(queries)[:, None] + keys - queries
    key = np.arange(keys)[None]
    seen = np.ones((queries, keys), dtype=bool)
    if window is not None and window[0] >= 0:
        seen &= key >= place - window[0]
    if causal:
        seen &= key <= place
    elif window is not None and window[1] >= 0:
        seen &= key <= place + window[1]
    return {"causal": causal, "window": window}, seen


def _philox(seed: int, counters: Sequence[Array]) -> Array:
    """The first word of Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
    3", 2011) for four counters."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counters)
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        high = (b >> np.uint64(32), a >> np.uint64(32))
        c0, c2 = high[0] ^ c1 ^ np.uint64(keys[0]), high[1] ^ c3 ^ np.uint64(keys[1])
        c1, c3 = b & low, a & low
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c0


def _kept(seed: int, dropout: float, first: int, shape: tuple[int, ...]) -> Array:
    """1 / (1 - dropout) where dropout leaves a weight of (batches from `first` on, heads, queries,
    keys), else 0."""
    b, head, query, key = np.ogrid[tuple(slice(n) for n in shape)]
    # Queries are told by the place at which they stand: the last one's is that of the last key.
    place = (query + shape[3] - shape[2]) & 0xFFFFFFFF
    words = _philox(seed, np.broadcast_arrays(key, place, head, b + first)).astype(np.uint32)
    signed = words.view(np.int32).astype(np.int64)
    uniform = np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10
    return (uniform >= dropout) / (1 - dropout)


class Attention:
    """The reference of attention: (batch, heads, rows, columns) in, numbers of `keys` shared by
    groups of heads, `seen` of (queries, keys); `dropout`: (seed, share, the first batch)."""

    def __init__(
        self, dtype: torch.dtype, seen: Array, scale: float, score: Any,
        dropout: tuple[int, float, int] | None = None,
    ):  # fmt: skip
        self.inner, self.stored = computed(dtype), format_of(dtype)
        self.seen, self.scale, self.score, self.dropout = seen, scale, score, dropout

    def kept(self, p: Bounded) -> Bounded:
        """Weights that dropout leaves."""
        return p if self.dropout is None else p * _kept(*self.dropout, p.shape)

    def weights(self, values: Values) -> tuple[Bounded, Any]:
        """(softmax of the scores, the derivative of the score function)."""
        q, k = (bounded(values[n], self.inner) for n in "qk")
        group = q.shape[1] // k.shape[1]
        scores = q.matmul(transposed(k.moved(lambda a: a.repeat(group, 1)))) * self.scale
        slope: Any = 1.0
        if self.score is alibi:
            rows, keys = self.seen.shape
            apart = np.abs(np.arange(rows)[:, None] + keys - rows - np.arange(keys))
            scores = scores - apart * values["aux"].reshape(-1, 1, 1)
        elif self.score is softcap:
            cap = float(values["aux"].reshape(()))
            t = (scores / cap).apply(np.tanh, 1.0, self.inner.u)
            scores, slope = t * cap, 1.0 - t * t
        hidden = scores.where(self.seen, -np.inf)
        top = hidden.max(-1, keepdims=True)
        top = top.where(np.isfinite(top.value) | np.isnan(top.value), 0.0)
        terms = (hidden - top).exp().where(self.seen, 0.0)
        total = terms.sum(-1, keepdims=True)
        return terms / total.where(total.value != 0, 1.0), slope

    def forward(self, values: Values) -> Bounded:
        p, _ = self.weights(values)
        v = bounded(values["v"], self.inner)
        v = v.moved(lambda a: a.repeat(p.shape[1] // v.shape[1], 1))
        return self.narrow(self.kept(p)).matmul(v)

    def narrow(self, x: Bounded) -> Bounded:
        """Rounded as an operand of a product. Weights relative to a largest number so far are up
        to 1, and their sum is not rounded."""
        return x if self.stored.u <= self.inner.u else x.rounded(self.stored, self.inner)

    def backward(self, values: Values, do: Array) -> dict[str, Bounded]:
        p, slope = self.weights(values)
        q, k, v, dy = (bounded(x, self.inner) for x in (*(values[n] for n in "qkv"), do))
        group = q.shape[1] // k.shape[1]
        wide_k, wide_v = (t.moved(lambda a: a.repeat(group, 1)) for t in (k, v))
        o = self.forward(values).rounded(self.stored, self.inner)
        delta = (o * dy).sum(-1, keepdims=True)
        ds = (self.kept(p) * dy.matmul(transposed(wide_v)) - p * delta) * slope
        ds = self.narrow(ds)
        dq = ds.matmul(wide_k) * self.scale
        dk = transposed(ds).matmul(q) * self.scale
        dv = transposed(self.narrow(self.kept(p))).matmul(dy)
        shape = (q.shape[0], k.shape[1], group)
        dk, dv = (
            t.moved(lambda a: a.reshape(*shape, *a.shape[2:])).sum(2) for t in (dk, dv)
        )
        return {"q": dq, "k": dk, "v": dv}


def _heads(source: Source, dtype: torch.dtype) -> tuple[int, int, int, int]:
    """(kv_heads, heads, elements of a head of q, of v)."""
    kv = source.choice([1, 1, 2, 3])
    d = source.choice([1, 7, 16, 24, 32, 40, 64, 64, 80, 128])
    return kv, kv * source.choice([1, 1, 2, 3]), d, d if source.maybe(0.7) else source.size(70, 1)


def _dropout(source: Source) -> dict[str, Any]:
    """Options of dropout."""
    if source.maybe(0.7):
        return {}
    seed = source.choice([0, 1, 12345, (1 << 40) + 7, -3, (1 << 63) - 1])
    return {"dropout": source.choice([0.1, 0.5, 0.9]), "seed": seed}


def attention(source: Source) -> Trial:
    """Attention."""
    dtype = source.choice(HALVES if source.device != "cpu" else FLOATS)
    batch, queries, keys = source.choice([0, 1, 1, 2]), source.size(140), source.size(140)
    kv, heads, d, dv = _heads(source, dtype)
    options, seen = _visible(source, queries, keys)
    score = source.choice([None, None, None, alibi, softcap])
    scale = source.choice([None, None, 1.0, 0.1, -0.5])
    values = source.choice(["normal", "normal", "ties", "equal"])
    shapes = [(batch, heads, queries, d), (batch, kv, keys, d), (batch, kv, keys, dv)]
    operands = dict(zip("qkv", floats(source, shapes, dtype, values), strict=True))
    if score is not None:
        shape = (heads,) if score is alibi else (1,)
        operands["aux"] = Operand(shape, torch.float32, "plain", "positive", gradient=False)
    drops = _dropout(source)
    options |= drops
    right = Attention(
        dtype, seen, d**-0.5 if scale is None else scale, score,
        (drops["seed"], drops["dropout"], 0) if drops else None,
    )  # fmt: skip

    def forward(values: Values) -> list[Bounded]:
        if not keys:
            return [bounded(np.zeros((batch, heads, queries, dv)), right.inner)]
        return [right.forward(values)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        if not keys or not queries:
            return {n: bounded(np.zeros(operands[n].shape), right.inner) for n in "qkv"}
        return right.backward(values, dys[0])

    return Trial(
        "attention", lambda **given: dense.attention(**given, **options, scale=scale, score=score),
        operands, forward, backward, {**options, "score": score and score.name, "scale": scale},
        casts=("q", "k", "v"),
    )  # fmt: skip


def paged_attention(source: Source) -> Trial:
    """Attention of a last token to keys in pages."""
    dtype = source.choice(HALVES)
    kv, heads, d, dv = _heads(source, dtype)
    batch, page = source.choice([0, 1, 2, 5]), source.choice([1, 2, 7, 16, 64])
    across = source.size(9, 1) if page > 2 else source.size(70, 1)
    pages, window = batch * across + 1, source.choice([None, None, 0, 3, 100])
    lengths = [source.randint(0, across * page) for _ in range(batch)]
    order = source.sample(range(pages), batch * across)
    shapes = [(batch, heads, d), (pages, page, kv, d), (pages, page, kv, dv)]
    names = ("q", "k_pages", "v_pages")
    operands = dict(zip(names, floats(source, shapes, dtype, "normal"), strict=True))
    table = torch.tensor(order, dtype=source.choice([torch.int32, torch.int64]))
    table = table.reshape(batch, across).to(source.device)
    count = torch.tensor(lengths, dtype=torch.int32).to(source.device)

    def forward(values: Values) -> list[Bounded]:
        found = Bounded(np.zeros((batch, heads, dv)), 0.0, computed(dtype))
        for b in range(batch):
            rows = {n: values[f"{n}_pages"][exact(table)[b]] for n in "kv"}
            seen = np.zeros((1, across * page), dtype=bool)
            seen[0, max(0, lengths[b] - 1 - (10**9 if window is None else window)) : lengths[b]] = 1
            parts = {n: x.reshape(1, -1, *x.shape[2:]).swapaxes(1, 2) for n, x in rows.items()}
            parts["q"] = values["q"][b][None, :, None]
            o = Attention(dtype, seen, d**-0.5, None).forward(parts)[0, :, 0]
            found.value[b] = o.value
            found.error = np.array(found.error)
            found.error[b] = o.error
        return [found]

    return Trial(
        "paged_attention",
        lambda q, k_pages, v_pages: dense.paged_attention(
            q, k_pages, v_pages, table, count, window=window
        ),
        operands, forward, None, {"lengths": lengths, "window": window}, casts=names,
    )  # fmt: skip


def attention_packed(source: Source) -> Trial:
    """Attention of sequences one after the other."""
    dtype = source.choice(HALVES)
    kv, heads, d, dv = _heads(source, dtype)
    count = source.randint(0, 4)
    lengths = [(source.size(70), source.size(70)) for _ in range(count)]
    ends = np.cumsum([(0, 0), *lengths], 0)
    rows, keys = (int(n) for n in ends[-1])
    rest, causal = source.choice([0, 0, 3]), source.maybe()
    shapes = [(rows + rest, heads, d), (keys + rest, kv, d), (keys + rest, kv, dv)]
    operands = dict(zip("qkv", floats(source, shapes, dtype, "normal"), strict=True))
    offsets = [torch.tensor(e, dtype=torch.int32).to(source.device) for e in ends.T]
    most = [max((n[i] for n in lengths), default=0) + source.choice([0, 0, 5]) for i in (0, 1)]
    drops = _dropout(source)

    def parts(values: Values, i: int) -> tuple[Values, Attention] | None:
        (q, k), (queries, seen_keys) = ends[i], lengths[i]
        if not queries or not seen_keys:
            return None
        given = {"q": values["q"][q : q + queries]}
        given |= {n: values[n][k : k + seen_keys] for n in "kv"}
        place = np.arange(queries)[:, None] + seen_keys - queries
        seen = (np.arange(seen_keys) <= place) | np.bool_(not causal)
        dropout = (drops["seed"], drops["dropout"], i) if drops else None
        right = Attention(dtype, seen, d**-0.5, None, dropout)
        return {n: x.swapaxes(0, 1)[None] for n, x in given.items()}, right

    def gather(name: str, width: int, found: list[Bounded | None], first: Array) -> Bounded:
        shape = (*operands[name].shape[:2], width)
        value, error = np.zeros(shape), np.zeros(shape)
        for b, at in zip(found, first, strict=False):
            if b is not None:
                value[at : at + b.shape[2]] = b.value[0].swapaxes(0, 1)
                error[at : at + b.shape[2]] = b.error[0].swapaxes(0, 1)
        return Bounded(value, error, computed(dtype))

    def forward(values: Values) -> list[Bounded]:
        each = [parts(values, i) for i in range(count)]
        return [gather("q", dv, [e and e[1].forward(e[0]) for e in each], ends[:, 0])]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        each = [parts(values, i) for i in range(count)]
        found: dict[str, list[Bounded | None]] = {n: [] for n in "qkv"}
        for i, e in enumerate(each):
            do = dys[0][ends[i][0] : ends[i][0] + lengths[i][0]].swapaxes(0, 1)[None]
            for n in "qkv":
                found[n].append(None if e is None else e[1].backward(e[0], do)[n])
        return {
            "q": gather("q", d, found["q"], ends[:, 0]),
            "k": gather("k", d, found["k"], ends[:, 1]),
            "v": gather("v", dv, found["v"], ends[:, 1]),
        }

    return Trial(
        "attention_packed",
        lambda q, k, v: dense.attention_packed(q, k, v, *offsets, *most, causal=causal, **drops),
        operands, forward, backward, {"lengths": lengths, "causal": causal, **drops},
        casts=("q", "k", "v"),
    )  # fmt: skip


def linear_attention(source: Source) -> Trial:
    """Causal linear attention."""
    dtype = source.choice(HALVES)
    batch, heads, length = source.size(2), source.size(3), source.size(140)
    d, width = source.size(70, 1), source.size(70)
    shapes = [(batch, heads, length, d)] * 2 + [(batch, heads, length, width)]
    operands = dict(zip("qkv", floats(source, shapes, dtype, "normal"), strict=True))
    decays = source.maybe()
    decay = torch.tensor([source.choice([1.0, 0.99, 0.5, 0.01]) for _ in range(heads)])
    scale = source.choice([None, 1.0, 0.3, -2.0])
    factor = d**-0.5 if scale is None else scale
    inner, stored = computed(dtype), format_of(dtype)
    # Products of 16-bit numbers and of what a chunk leaves are of the type of q.
    loss = stored.u if dtype != torch.float32 else 2.0**-11 * (source.device != "cpu")
    apart = np.arange(length)[:, None] - np.arange(length)
    share = np.where(apart >= 0, 1.0, 0.0) * np.ones((heads, 1, 1))
    if decays:
        share = share * exact(decay).reshape(-1, 1, 1) ** np.maximum(apart, 0)

    def lossy(b: Bounded, magnitude: Array) -> Bounded:
        return Bounded(b.value, b.error + 4 * loss * magnitude, b.to)

    def walk(q: Array, k: Array, v: Array, share: Array) -> Bounded:
        # By decay to the power of up to the length, by way of log2 and exp2.
        weights = Bounded(share, share * inner.u * (16 + length * 8), inner)
        scores = bounded(q, inner).matmul(transposed(bounded(k, inner))) * weights
        y = scores.matmul(v) * factor
        size = np.abs(q) @ np.abs(k).swapaxes(-1, -2) * share @ np.abs(v) * abs(factor)
        return lossy(y, size)

    def forward(values: Values) -> list[Bounded]:
        return [walk(*(values[n] for n in "qkv"), share)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        q, k, v = (values[n] for n in "qkv")
        later = share.swapaxes(-1, -2)
        return {
            "q": walk(dys[0], v, k, share), "k": walk(v, dys[0], q, later),
            "v": walk(k, q, dys[0], later),
        }  # fmt: skip

    given = decay.to(source.device) if decays else None
    return Trial(
        "linear_attention", lambda q, k, v: dense.linear_attention(q, k, v, given, scale), operands,
        forward, backward, {"decay": decays and decay.tolist(), "scale": scale},
        casts=("q", "k", "v"),
    )  # fmt: skip


def linear_cross_entropy(source: Source) -> Trial:
    """Cross entropy of a product."""
    dtype = source.choice(FLOATS)
    rows, features, columns = source.size(130), source.size(70), source.size(300, 1)
    reduction, ignored = source.choice(["mean", "sum", "none"]), source.choice([-100, 0])
    shapes = [(rows, features), (columns, features)]
    operands = dict(zip(["x", "weight"], floats(source, shapes, dtype, "normal"), strict=True))
    if source.maybe():
        operands["bias"] = floats(source, [(columns,)], dtype, "normal")[0]
    kinds = source.choice([torch.int32, torch.int64]), source.choice(["plain", "sliced"])
    operands["target"] = Operand((rows,), *kinds, (0, columns), gradient=False)
    inner, stored = computed(dtype), format_of(dtype)

    def parts(values: Values) -> tuple[Bounded, Bounded, Bounded, Array]:
        x = bounded(values["x"], inner).matmul(values["weight"].T)
        x = (x + values["bias"] if "bias" in values else x).rounded(stored, inner)
        top = x.max(1)
        return x, top, (x - top.reshape(rows, 1)).exp().sum(1).log(), values["target"] == ignored

    def scale(values: Values) -> Bounded:
        count = float((values["target"] != ignored).sum())
        return 1.0 / bounded(count if reduction == "mean" else 1.0, inner)

    def forward(values: Values) -> list[Bounded]:
        x, top, rest, skip = parts(values)
        loss = (top - x[np.arange(rows), values["target"]] + rest).where(~skip, 0.0)
        return [loss if reduction == "none" else loss.sum(0) * scale(values)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        x, top, rest, skip = parts(values)
        share = ((x - top.reshape(rows, 1)) - rest.reshape(rows, 1)).exp()
        dx = share - (np.arange(columns) == values["target"][:, None])
        late = reduction != "none"  # the gradient of the loss is multiplied in last, and rounded
        dy = bounded(np.ones(rows) if late else dys[0], inner)
        dy = dy * (scale(values) if late else 1.0)
        dx = (dx * dy.reshape(rows, 1)).where(~skip[:, None], 0.0).rounded(stored, inner)
        found = {
            "x": dx.matmul(values["weight"]), "bias": dx.sum(0),
            "weight": transposed(dx).matmul(values["x"]),
        }  # fmt: skip
        if not late:
            return found
        last = bounded(dys[0], inner).rounded(stored, inner)
        return {n: b.rounded(stored, inner) * last for n, b in found.items()}

    return Trial(
        "linear_cross_entropy",
        lambda x, weight, target, bias=None: dense.linear_cross_entropy(
            x, weight, target, bias, ignored, reduction=reduction
        ),
        operands, forward, backward, {"reduction": reduction, "ignored": ignored},
        casts=("x", "weight", "bias"),
    )  # fmt: skip


CASES = (
    matmul, matmul_of_bytes, attention, paged_attention, attention_packed, linear_attention,
    linear_cross_entropy,
)  # fmt: skip
