"""Shape manipulation in up to four dimensions, of several dtypes."""

import itertools

import numpy as np
import pytest

from tests.conformance.support import Batch, build, run, samples

NAMES = ("int1", "int8", "int64", "float16", "float8e4nv", "float32")


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NAMES)
def test_reshapes_and_broadcasts(name):
    x, v, s = samples(name, 32, 1).reshape(4, 8), samples(name, 8, 2), samples(name, 8, 3)[0]
    batch = Batch({"x": x, "v": v, "s": np.array(s)})
    batch.add("tl.reshape(x, [8, 4])", name, x.reshape(8, 4))
    batch.add("x.reshape(2, 2, 8)", name, x.reshape(2, 2, 8))
    batch.add("tl.view(x, [32])", name, x.ravel())
    batch.add("tl.ravel(x)", name, x.ravel())
    batch.add("x.T", name, x.T)
    batch.add("tl.trans(x)", name, x.T)
    batch.add("tl.trans(x, 0, 1)", name, x)
    batch.add("tl.permute(x, (1, 0))", name, x.T)
    batch.add("x.permute(1, 0)", name, x.T)
    batch.add("v[None, :]", name, v[None, :])
    batch.add("v[:, None]", name, v[:, None])
    batch.add("x[:, None, :]", name, x[:, None, :])
    batch.add("tl.expand_dims(v, 0)", name, v[None])
    batch.add("v.expand_dims([0, -1])", name, v[None, :, None])
    batch.add("tl.broadcast_to(v[None, :], [4, 8])", name, np.broadcast_to(v, (4, 8)))
    batch.add("v[:, None].broadcast_to(8, 4)", name, np.broadcast_to(v[:, None], (8, 4)))
    batch.add("tl.broadcast_to(s, [2, 4])", name, np.full((2, 4), s))
    batch.add("tl.broadcast(v[None, :], x)[0]", name, np.broadcast_to(v, (4, 8)))
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NAMES)
def test_joins_and_splits(name):
    x, y = samples(name, 16, 1), samples(name, 16, 2)
    a, b = x.reshape(4, 4), y.reshape(4, 4)
    batch = Batch({"x": x, "y": y, "a": a, "b": b, "s": np.array(x[0]), "t": np.array(y[0])})
    batch.add("tl.join(x, y)", name, np.stack([x, y], -1))
    batch.add("tl.join(a, b)", name, np.stack([a, b], -1))
    batch.add("tl.join(s, t)", name, np.stack([x[0], y[0]]))
    batch.add("tl.split(tl.join(a, b))[1]", name, b)
    batch.add("tl.split(tl.reshape(x, [4, 2, 2]))[0]", name, x.reshape(4, 2, 2)[..., 0])
    batch.add("tl.split(tl.join(s, t))[1]", name, y[0])
    batch.add("tl.interleave(x, y)", name, np.stack([x, y], -1).ravel())
    batch.add("tl.interleave(a, b)", name, np.stack([a, b], -1).reshape(4, 8))
    batch.add("tl.interleave(tl.interleave(x, y), tl.interleave(y, x))", name,
              np.stack([x, y, y, x], -1).ravel())  # fmt: skip
    batch.run()


@pytest.mark.parametrize("name", ["int32", "float32"])
def test_cat_has_both(name):
    """The order is not specified, so the sorted elements are compared."""
    x, y = np.arange(8).astype(name), np.arange(8, 16).astype(name)
    batch = Batch({"x": x, "y": y})
    batch.add("tl.sort(tl.cat(x, y, can_reorder=True))", name, np.arange(16))
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("shape", "count"),
    [((2, 4, 8), 6), ((2, 4, 2, 8), 24), ((1, 2, 1, 16), 8), ((4, 1, 8, 2, 2), 10)],
)
def test_every_permutation(shape, count):
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.int16)
    batch = Batch({"x": x})
    orders = list(itertools.permutations(range(len(shape))))
    for i, order in enumerate(orders[:: len(orders) // count]):
        if i % 2:
            batch.add(f"tl.permute(x, {order})", "int16", x.transpose(order))
        else:
            batch.add(f"tl.permute(x + 1, {order}) * 2", "int16", (x.transpose(order) + 1) * 2)
    batch.run()


def test_one_element_blocks_are_scalars_on_request():
    x = np.int32([7])
    batch = Batch({"x": x})
    batch.add("x.item()", "int32", np.int32(7))
    batch.add("tl.reshape(x, [1, 1]).item() + 1", "int32", np.int32(8))
    batch.add("tl.sum(x, 0) + x", "int32", np.int32([14]))
    batch.run()


METHODS = (
    "abs", "sum", "max", "min", "argmax(0)", "xor_sum", "cumsum", "cumprod", "sort", "flip",
    "ravel", "softmax", "sigmoid", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "exp2", "log2",
    "erf", "floor", "ceil", "cdiv(4)", "cast(tl.int8)", "reshape(2, 8)",
    "expand_dims(1)", "gather(tl.arange(0, 8), 0)", "histogram(8)", "argmin(0)", "reduce_or(0)",
    "logical_and(True)", "logical_or(False)",
)  # fmt: skip
"""Methods that are functions of `tl` under the same name."""


@pytest.mark.filterwarnings("ignore:Logical operators")
@pytest.mark.parametrize("name", ["int32", "float32"])
def test_methods_are_the_functions(name):
    """`x.f(...)` is `tl.f(x, ...)`, wherever the dtype takes it."""
    integers = ("xor_sum", "histogram", "cdiv", "reduce_or")
    reals = (
        "softmax",
        "sigmoid",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "erf",
        "floor",
        "ceil",
    )
    lines, x = [], np.arange(1, 17).astype(name) / 2 if name == "float32" else np.arange(16) % 8
    for method in METHODS:
        plain, _, rest = method.partition("(")
        if plain.startswith(reals if name == "int32" else integers):
            continue
        free = f"tl.{plain}(x, {rest}" if rest else f"tl.{plain}(x)"
        bound = f"x.{method}" if rest else f"x.{plain}()"
        lines.append(f"    total += tl.sum(({free} != {bound}).to(tl.int32))")
        lines.append("    count += 1")
    source = (
        "def kernel(p, o):\n    x = tl.load(p + tl.arange(0, 16))\n    total = 0\n    count = 0\n"
        + "\n".join(lines) + "\n    tl.store(o, total)\n    tl.store(o + 1, count)\n"
    )  # fmt: skip
    for way in ("native", "interpreted"):
        given = {"p": x.astype(name), "o": np.int32([9, 9])}
        assert run(build(source), given, way=way)["o"].tolist() == [0, len(lines) // 2], way
