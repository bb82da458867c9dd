"""Calls of optimizers, of functions that order or number elements, and of mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tools.kernel_calls.bounded import Array, Bounded, difference, stack
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
from tritium_kernels import compaction as compactions
from tritium_kernels import dense, reduce, swiglu
from tritium_kernels import matmul as products
from tritium_kernels import topk as largest
from tritium_kernels.tensor import make_ragged_tensor_metadata

EXACT = products.PrecisionConfig(allow_tf32=False)
SORTED = (torch.float32, torch.bfloat16, torch.float16, torch.int32)


def _step(values: Values, step: int, options: dict[str, Any], dtype: torch.dtype) -> list[Bounded]:
    """AdamW of Loshchilov and Hutter (2019), algorithm 2."""
    p, g, m, v = (bounded(values[n], computed(dtype)) for n in ("p", "g", "m", "v"))
    rate, (b1, b2) = options["lr"], options["betas"]
    g = -g if options["maximize"] else g
    m = m + (g - m) * (1 - b1)
    v = v + (g * g - v) * (1 - b2)
    p = p - p * (rate * options["weight_decay"])
    root = v.sqrt() / (1 - b2**step) ** 0.5 + options["eps"]
    return [p - m * (rate / (1 - b1**step)) / root, m, v]


def _rates(source: Source) -> dict[str, Any]:
    return {
        "lr": source.choice([1e-3, 0.1, 0.0]), "betas": source.choice([(0.9, 0.999), (0.0, 0.5)]),
        "eps": source.choice([1e-8, 1e-3]), "weight_decay": source.choice([0.0, 0.01]),
        "maximize": source.maybe(),
    }  # fmt: skip


def _moments(source: Source, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Operand]:
    layout = source.choice(("plain", "plain", "transposed", "permuted", "offset", "padded"))
    other = source.choice((layout, layout, "plain", "negative", "transposed"))
    wide = dtype if source.maybe(0.7) or dtype == torch.float64 else torch.float32
    return {
        "p": Operand(shape, dtype, layout, "normal", gradient=False),
        "g": Operand(shape, dtype, other, source.choice(["normal", "ties", "tiny"]), False),
        "m": Operand(shape, wide, layout, "normal", gradient=False),
        "v": Operand(shape, wide, layout, "positive", gradient=False),
    }


def adamw(source: Source) -> Trial:
    """A step of AdamW."""
    dtype, step, options = source.choice(FLOATS), source.choice([1, 2, 1000]), _rates(source)

    def function(p: Any, g: Any, m: Any, v: Any) -> None:
        version = p._version
        dense.adamw_(p, g, m, v, step, **options)
        assert p.numel() == 0 or p._version > version, "autograd is not told of the write"

    return Trial(
        "adamw", function, _moments(source, source.shape(0, 3), dtype),
        lambda values: _step(values, step, options, dtype), options={"step": step, **options},
        written=("p", "m", "v"),
    )  # fmt: skip


def adamw_foreach(source: Source) -> Trial:
    """A step of AdamW of several tensors."""
    count, step, options = source.randint(0, 6), source.choice([1, 1000]), _rates(source)
    dtype = source.choice(FLOATS)
    dtypes = [dtype if source.maybe(0.8) else source.choice(FLOATS) for _ in range(count)]
    each = [_moments(source, source.shape(0, 2), d) for d in dtypes]
    operands = {f"{n}{i}": o for i, parts in enumerate(each) for n, o in parts.items()}

    def function(**given: Any) -> None:
        lists = ([given[f"{n}{i}"] for i in range(count)] for n in "pgmv")
        dense.adamw_foreach_(*lists, step, **options)

    def forward(values: Values) -> list[Bounded]:
        return [
            b for i, d in enumerate(dtypes)
            for b in _step({n: values[f"{n}{i}"] for n in "pgmv"}, step, options, d)
        ]  # fmt: skip

    return Trial(
        "adamw_foreach", function, operands, forward, options={"step": step, **options},
        written=tuple(f"{n}{i}" for i in range(count) for n in "pmv"), compiles=False,
    )  # fmt: skip


def embedding(source: Source) -> Trial:
    """Rows of a table."""
    dtype, rows, columns = source.choice(FLOATS), source.size(least=1), source.long()
    padding, out = source.choice([None, None, 0, rows - 1]), source.choice([0, 0, 1])
    index = Operand(
        source.choice([(), (source.size(70),), (2, 3), (0, 2)]),
        source.choice([torch.int32, torch.int64]), source.choice(["plain", "sliced"]),
        (-out, rows + out), gradient=False,
    )  # fmt: skip
    inner = computed(dtype)

    def forward(values: Values) -> list[Bounded]:
        index, table = values["index"], values["table"]
        inside = (index >= 0) & (index < rows)
        found = np.where(inside[..., None], table[np.where(inside, index, 0)], np.nan)
        return [bounded(found, inner)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        index = values["index"].reshape(-1)
        dy = dys[0].reshape(index.size, columns)
        value, sizes, counts = (np.zeros((rows, columns)) for _ in range(3))
        keep = (index >= 0) & (index < rows) & (index != (-1 if padding is None else padding))
        for i, row in zip(index[keep], dy[keep], strict=True):
            value[i] += row
            sizes[i] += np.abs(row)
            counts[i] += 1
        return {"table": Bounded(value, 4 * np.sqrt(counts) * inner.u * sizes, inner)}

    return Trial(
        "embedding", lambda index, table: dense.embedding(index, table, padding),
        {"index": index, "table": floats(source, [(rows, columns)], dtype)[0]}, forward, backward,
        {"padding": padding},
    )  # fmt: skip


def cumsum(source: Source) -> Trial:
    """Running sums."""
    dtype = source.choice((*FLOATS, torch.int32, torch.int64))
    shape, reverse = source.shape(), source.maybe()
    dim = source.randrange(-len(shape), len(shape))
    if not dtype.is_floating_point:
        x = Operand(shape, dtype, source.choice(["plain", "transposed", "sliced"]),
                    (-(1 << 30), 1 << 30))  # fmt: skip
    else:
        x = floats(source, [shape], dtype)[0]

    def total(x: Array, back: bool) -> Bounded:
        x = np.flip(x, dim) if back else x
        inner = computed(dtype)
        sums, sizes = np.cumsum(x, dim), np.cumsum(np.abs(x), dim)
        count = np.cumsum(np.ones_like(sizes, dtype=np.float64), dim)
        error = np.where(np.isfinite(sizes), 4 * np.sqrt(count) * inner.u * sizes, 0.0)
        error = np.where(np.isfinite(sizes) & (sizes > inner.most), np.inf, error)
        b = Bounded(sums, error, inner)
        return b.moved(lambda a: np.flip(a, dim)) if back else b

    def judge(values: Values, found: list[Array]) -> str:
        if dtype.is_floating_point:
            return difference(found[0], total(values["x"], reverse), format_of(dtype))
        x = np.flip(values["x"], dim) if reverse else values["x"]
        right = np.cumsum(x, dim).astype(np.int32 if dtype == torch.int32 else np.int64)
        right = np.flip(right, dim) if reverse else right
        return "" if np.array_equal(right, found[0]) else "is not the running sum"

    return Trial(
        "cumsum", lambda x: dense.cumsum(x, dim, reverse), {"x": x}, judge=judge,
        backward=(lambda _, dys: {"x": total(dys[0], not reverse)})
        if dtype.is_floating_point else None,
        options={"dim": dim, "reverse": reverse},
    )  # fmt: skip


def sort(source: Source) -> Trial:
    """Sorted rows."""
    dtype, shape, descending = source.choice(SORTED), source.shape(), source.maybe()
    if source.maybe(0.03):
        shape = (2, source.choice([16384, 16385, 40000]))
    dim = source.randrange(-len(shape), len(shape))
    if dtype == torch.int32:
        x = Operand(shape, dtype, source.choice(["plain", "transposed", "sliced"]), (-5, 5))
    else:
        x = floats(source, [shape], dtype)[0]

    def order(x: Array) -> Array:
        keys = np.where(np.isnan(x), np.inf, x).astype(np.float64)
        nan = np.isnan(x)
        keys, nan = (-keys, ~nan) if descending else (keys, nan)
        keys, nan = (np.moveaxis(a, dim, -1) for a in (keys, nan))
        return np.moveaxis(np.lexsort((keys, nan), axis=-1), -1, dim)

    def judge(values: Values, found: list[Array]) -> str:
        x = values["x"]
        index = order(x)
        if not np.array_equal(found[1], index):
            return f"has other columns at {np.argwhere(found[1] != index)[0]}"
        right = np.take_along_axis(x, index, dim)
        return "" if np.array_equal(found[0], right, equal_nan=True) else "has other elements"

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dx = np.zeros_like(dys[0])
        np.put_along_axis(dx, order(values["x"]), dys[0], dim)
        return {"x": bounded(dx, computed(dtype))}

    return Trial(
        "sort", lambda x: dense.sort(x, dim, descending), {"x": x}, judge=judge,
        backward=backward if dtype.is_floating_point else None,
        options={"dim": dim, "descending": descending},
    )  # fmt: skip


def histogram(source: Source) -> Trial:
    """Counts of equal intervals."""
    dtype, bins = source.choice(FLOATS), source.size(300, 1)
    low, high = source.choice([(-1.0, 1.0), (0.0, 3.0), (-1e4, 1e4)])

    def judge(values: Values, found: list[Array]) -> str:
        x = values["x"].reshape(-1)
        x = x[(x >= low) & (x <= high)]
        place = (x - low) * (bins / (high - low))
        # An element next to an end of an interval may be counted on either side.
        slack = 4 * computed(dtype).u * (np.abs(x) + abs(low) + abs(high)) * bins / (high - low)
        ends = (np.clip(np.floor(place + s), 0, bins - 1) for s in (-slack, slack))
        least, most = (end.astype(int) for end in ends)
        certain = np.bincount(least[least == most], minlength=bins)
        possible = certain.copy()
        for a, b in zip(least[least != most], most[least != most], strict=True):
            possible[a : b + 1] += 1
        if found[0].sum() != x.size:
            return f"counts {found[0].sum()} elements, not {x.size}"
        wrong = (found[0] < certain) | (found[0] > possible)
        return f"counts wrongly in {np.argwhere(wrong)[0]}" if wrong.any() else ""

    return Trial(
        "histogram", lambda x: dense.histogram(x, bins, low, high),
        {"x": floats(source, [source.shape()], dtype)[0]}, judge=judge,
        options={"bins": bins, "low": low, "high": high},
    )  # fmt: skip


def quantize(source: Source) -> Trial:
    """Rows in 8 bits."""
    dtype, shape = source.choice(HALVES), source.shape()
    to, group = source.choice([torch.int8, torch.float8_e4m3fn, torch.float8_e5m2]), None
    if source.maybe(0.3) and shape[-1]:
        group = source.choice([g for g in range(1, shape[-1] + 1) if shape[-1] % g == 0])
    most = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}[to]
    u, least = {torch.int8: (0.0, 0.5), torch.float8_e4m3fn: (2.0**-4, 2.0**-10),
                torch.float8_e5m2: (2.0**-3, 2.0**-17)}[to]  # fmt: skip

    def judge(values: Values, found: list[Array]) -> str:
        x = values["x"]
        x = x if group is None else x.reshape(*shape[:-1], shape[-1] // group, group)
        q, scale = found[0].reshape(x.shape), found[1]
        right = (np.abs(x).max(-1) if x.shape[-1] else np.zeros(x.shape[:-1])) / most
        text = difference(scale, Bounded(right, 2.0**-24 * np.abs(right)), format_of(torch.float32))
        if text:
            return f"scale {text}"
        usable = (scale > 0) & np.isfinite(scale)
        if np.any(q[~usable]):
            return "has other numbers than 0 for a scale of no use"
        y = x / np.where(usable, scale, 1.0)[..., None]
        wrong = np.abs(q - y) > np.maximum(u * np.abs(y), least) * (1 + 2.0**-20) + 1e-5
        wrong &= usable[..., None] & (scale > 2.0**-120)[..., None]
        return f"is wrong at {np.argwhere(wrong)[0]}" if wrong.any() else ""

    return Trial(
        "quantize", lambda x: dense.quantize(x, to, group),
        {"x": floats(source, [shape], dtype)[0]}, judge=judge,
        options={"dtype": to, "group": group},
    )  # fmt: skip


def sample(source: Source) -> Trial:
    """Columns that are drawn: among those that are left."""
    dtype, rows, columns = source.choice(HALVES), source.size(20), source.long(least=1)
    temperature = source.choice([0.0, 1.0, 1e-3, 50.0])
    top_k, top_p = source.choice([None, 1, 3, 50, 10**6]), source.choice([None, 0.1, 0.9, 1.0])
    seed = source.choice([0, 1, -1, (1 << 63) - 1])

    def judge(values: Values, found: list[Array]) -> str:
        for row, chosen in zip(values["x"], found[0], strict=True):
            x = np.where(np.isnan(row), -np.inf, row)
            if np.all(x == -np.inf):
                if chosen != -1:
                    return f"chooses {chosen} where nothing has a probability"
                continue
            if np.any(x == np.inf):
                continue
            if temperature == 0:
                if chosen != int(np.argmax(x)):
                    return f"chooses {chosen}, not the largest {int(np.argmax(x))}"
                continue
            floor = np.sort(x)[::-1][min(top_k or columns, columns) - 1]
            kept = x >= floor
            if top_p is not None and top_p < 1:
                p = np.where(kept, np.exp((x - x.max()) / temperature), 0)
                order = np.argsort(-p, kind="stable")
                share = np.cumsum(p[order]) / p.sum()
                # A share that is reached but for rounding may need one element more.
                last = int(np.searchsorted(share, top_p * (1 + 1e-4) + 1e-6))
                kept &= p >= p[order[min(last, columns - 1)]] * (1 - 1e-5)
            if not 0 <= chosen < columns or not kept[chosen]:
                return f"chooses {chosen}, which is not left"
        return ""

    return Trial(
        "sample", lambda x: dense.sample(x, temperature, top_k, top_p, seed),
        {"x": floats(source, [(rows, columns)], dtype)[0]}, judge=judge,
        options={"temperature": temperature, "top_k": top_k, "top_p": top_p},
    )  # fmt: skip


def topk(source: Source) -> Trial:
    """The largest elements of rows, with their softmax."""
    dtype, rows = source.choice(HALVES), source.size(70)
    columns = source.choice([1, 2, 31, 32, 33, 128, 257, 1024, 1025, 3000])
    k, soft = source.randint(1, min(columns, source.choice([1, 4, 8, 33]))), source.maybe()
    x = floats(source, [(rows, columns)], dtype, source.choice(["normal", "ties", "equal"]))[0]
    inner = computed(dtype)

    def chosen(x: Array) -> Array:
        return np.argsort(-x, axis=1, kind="stable")[:, :k]

    def weights(x: Array) -> Bounded:
        b = bounded(np.take_along_axis(x, chosen(x), 1), inner)
        if not soft:
            return b
        terms = (b - b.max(1, keepdims=True)).exp()
        return terms / terms.sum(1, keepdims=True)

    def judge(values: Values, found: list[Array]) -> str:
        index = chosen(values["x"])
        if not np.array_equal(index, found[1]):
            return "has other columns"
        flags = np.zeros((rows, -(-columns // 32) * 32), dtype=np.int64)
        np.put_along_axis(flags, index, 1, 1)
        words = (flags.reshape(rows, flags.shape[1] // 32, 32) << np.arange(32)).sum(-1)
        if not np.array_equal(words.astype(np.int32), found[2]):
            return "has other bits"
        return difference(found[0], weights(values["x"]), format_of(dtype))

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy, p = bounded(dys[0], inner), weights(values["x"])
        part = p * (dy - (p * dy).sum(1, keepdims=True)) if soft else dy
        value, error = np.zeros((rows, columns)), np.zeros((rows, columns))
        np.put_along_axis(value, chosen(values["x"]), part.value, 1)
        np.put_along_axis(error, chosen(values["x"]), np.array(part.error), 1)
        return {"x": Bounded(value, error, inner)}

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = largest.topk(x, k, soft)
        return found.vals, found.indx, found.mask.storage.data

    return Trial("topk", function, {"x": x}, judge=judge, backward=backward,
                 options={"k": k, "softmax": soft}, compiles=False)  # fmt: skip


def sums(source: Source) -> Trial:
    """`reduce`: sums along one of three dimensions."""
    dtype, dim = source.choice(HALVES), source.choice([0, 1, 2, -1])
    shape = (source.size(9), source.size(33), source.long())
    operands = {"x": floats(source, [shape], dtype)[0]}
    inner = computed(dtype)

    def beside() -> tuple[int, ...]:
        return tuple(source.choice([n, n, 1]) for n in shape)

    if source.maybe():
        kind = source.choice([torch.bool, torch.int32])
        operands["mask"] = Operand(beside(), kind, "plain", (0, 2))
    if source.maybe():
        operands["scale"] = Operand(beside(), source.choice(HALVES), "plain", "normal", False)

    def forward(values: Values) -> list[Bounded]:
        x = bounded(values["x"], inner)
        x = x * values["scale"] if "scale" in values else x
        if "mask" in values:
            x = x.where(np.broadcast_to(values["mask"] != 0, shape), 0.0)
        return [x.sum(dim)]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dx = bounded(np.broadcast_to(np.expand_dims(dys[0], dim), shape), inner)
        dx = dx * values["scale"] if "scale" in values else dx
        return {"x": dx.where(np.broadcast_to(values.get("mask", np.ones(1)) != 0, shape), 0.0)}

    return Trial("sums", lambda x, **given: reduce.reduce(x, dim, **given)[0], operands, forward,
                 backward, {"dim": dim}, compiles=False)  # fmt: skip


def interleaved_swiglu(source: Source) -> Trial:
    """SwiGLU of interleaved columns."""
    dtype, alpha = source.choice(HALVES), source.choice([1.0, 1.702])
    limit, shape = source.choice([None, 1.0, 7.0]), (*source.shape(0, 2), 2 * source.size(300))
    inner = computed(dtype)

    def parts(x: Array) -> tuple[Bounded, Bounded, Bounded, Array, Array]:
        gate, linear = x[..., ::2], x[..., 1::2]
        free_gate = free_linear = np.ones(gate.shape)
        if limit is not None:
            free_gate, free_linear = gate <= limit, np.abs(linear) <= limit
            gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        g = bounded(gate, inner)
        s = (g * alpha).sigmoid()
        return g, s, bounded(linear, inner) + 1.0, free_gate, free_linear

    def forward(values: Values) -> list[Bounded]:
        g, s, y, _, _ = parts(values["a"])
        return [g * s * y]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        g, s, y, free_gate, free_linear = parts(values["a"])
        d_gate = (s + g * s * (1.0 - s) * alpha) * y * dys[0]
        d_linear = g * s * dys[0]
        both = d_gate.where(free_gate, 0.0), d_linear.where(free_linear, 0.0)
        return {"a": stack(both, -1).reshape(*shape)}

    config, kind = swiglu.PrecisionConfig(limit), source.choice(["normal", "large", "tiny", "ties"])
    return Trial(
        "interleaved_swiglu", lambda a: swiglu.swiglu(a, alpha, config),
        {"a": floats(source, [shape], dtype, kind)[0]}, forward, backward,
        {"alpha": alpha, "limit": limit}, compiles=False,
    )  # fmt: skip


def compaction(source: Source) -> Trial:
    """Elements whose bits are set, on the left."""
    rows, k, columns = source.size(40), source.size(70), source.choice([1, 31, 32, 33, 200])
    layout = layouts(source, 2)
    operands = {
        "yv": Operand((rows, k), source.choice(HALVES), layout[0], "normal", False),
        "yi": Operand((rows, k), source.choice([torch.int16, torch.int32, torch.int64]), "plain",
                      (-1, columns)),
        "bits": Operand((rows, -(-columns // 32)), torch.int32, layout[1], (-(1 << 31), 1 << 31)),
    }  # fmt: skip

    def judge(values: Values, found: list[Array]) -> str:
        right = np.full((2, rows, k), -1.0)
        for row in range(rows):
            i = values["yi"][row]
            word = values["bits"][row][np.maximum(i, 0) // 32]
            keep = (i >= 0) & ((word >> (np.maximum(i, 0) % 32)) & 1 != 0)
            right[0, row, : keep.sum()] = values["yv"][row][keep]
            right[1, row, : keep.sum()] = i[keep]
        same = np.array_equal(found[0], right[0]) and np.array_equal(found[1], right[1])
        return "" if same else "has other elements"

    return Trial("compaction", lambda yv, yi, bits: compactions.compaction(yv, yi, bits), operands,
                 judge=judge, compiles=False)  # fmt: skip


def ragged(source: Source) -> Trial:
    """Products of slices of rows, gathered and scattered."""
    dtype = source.choice(HALVES)
    sizes = [source.choice([0, 1, 3, 16, 17, 65, 130]) for _ in range(source.randint(1, 5))]
    rows, k, n = sum(sizes), source.size(130), source.size(130)
    m = rows if source.maybe() else source.size(70, 1)
    gathers, scatters = m != rows, source.maybe(0.3) and rows > 0
    gather = torch.tensor([source.randrange(-1, m) for _ in range(rows)], dtype=torch.int32)
    scatter = torch.tensor(source.sample(range(rows), rows), dtype=torch.int32)
    shapes = [(m, k), (len(sizes), k, n)]
    operands = dict(zip("ab", floats(source, shapes, dtype, "normal"), strict=True))
    if source.maybe():
        operands["bias"] = floats(source, [(len(sizes), n)], torch.float32, "normal")[0]
    if source.maybe(0.3):
        operands["gammas"] = floats(source, [(rows,)], torch.float32, "normal")[0]
    counts = torch.tensor(sizes, dtype=torch.int32).to(source.device)
    metadata = make_ragged_tensor_metadata(counts, rows)
    inner, stored = computed(dtype), format_of(dtype)
    of = np.repeat(np.arange(len(sizes)), sizes)
    source_row, target = (exact(gather) if gathers else np.arange(rows)), exact(scatter)

    def gathered(a: Array) -> Array:
        return np.where(source_row[:, None] >= 0, a[np.maximum(source_row, 0)], 0.0)

    def linear(values: Values) -> Bounded:
        a, b = gathered(values["a"]), values["b"][of]
        y = bounded(a[:, None], inner).matmul(b)[:, 0]
        return y + values["bias"][of] if "bias" in values else y

    def forward(values: Values) -> list[Bounded]:
        y = linear(values)
        y = y * values["gammas"][:, None] if "gammas" in values else y
        return [y[np.argsort(target)] if scatters else y]

    def backward(values: Values, dys: list[Array]) -> dict[str, Bounded]:
        dy = bounded(dys[0][target] if scatters else dys[0], inner)
        found = {"gammas": (linear(values) * dy).sum(1)}
        dy = dy * values["gammas"][:, None] if "gammas" in values else dy
        hits = (of == np.arange(len(sizes))[:, None]) * 1.0
        found["bias"] = bounded(hits, inner).matmul(dy)
        dz = dy.rounded(stored, inner)
        part = dz.reshape(rows, 1, n).matmul(values["b"][of].swapaxes(1, 2))[:, 0]
        places = (source_row == np.arange(m)[:, None]) * 1.0
        found["a"] = bounded(places, inner).matmul(part.rounded(stored, inner))
        columns = hits[:, :, None] * gathered(values["a"])
        found["b"] = bounded(columns.swapaxes(1, 2), inner).matmul(dz)
        return found

    def function(a: Any, b: Any, bias: Any = None, gammas: Any = None) -> torch.Tensor:
        places = {"gather_indx": gather.to(a.device)} if gathers else {}
        places |= {"scatter_indx": scatter.to(a.device)} if scatters else {}
        return products.matmul(
            a, b, bias, metadata, precision_config=EXACT, gammas=gammas, **places
        )  # fmt: skip

    return Trial(
        "ragged", function, operands, forward, backward,
        {"sizes": sizes, "gather": gathers, "scatter": scatters}, compiles=False, casts=("a", "b"),
    )  # fmt: skip


CASES: tuple[Callable[[Source], Trial], ...] = (
    adamw, adamw_foreach, embedding, cumsum, sort, histogram, quantize, sample, topk, sums,
    interleaved_swiglu, compaction, ragged,
)  # fmt: skip
