"""The `.ttir` and `.ttgir` files of Triton 3.9, which writes some things differently, are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritium.ir.printing import print_module
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import NotBuiltError, ParseError, parse_module
from tritium.ops.ttir import CacheModifier, EvictionPolicy, LoadOp, StoreOp

FILES = sorted((Path(__file__).parent / "release_3_9").glob("*.tt*ir"))


@pytest.mark.every(2)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_is_read_and_goes_on_as_ours(file: Path) -> None:
    module = parse_module(file.read_text(), file.name)
    module.verify()
    printed = print_module(module)
    again = parse_module(printed)
    again.verify()
    assert module.is_structurally_equivalent(again)
    assert print_module(again) == printed


def test_cache_policies() -> None:
    text = next(f for f in FILES if f.name == "caches.ttir").read_text()
    ops = [op for op in parse_module(text).walk() if isinstance(op, (LoadOp, StoreOp))]
    assert [(op.cache.name, op.evict.name) for op in ops] == [
        ("NONE", "EVICT_LAST"), ("CG", "EVICT_NORMAL"), ("CV", "EVICT_NORMAL"),
        ("NONE", "EVICT_NORMAL"), ("CA", "EVICT_NORMAL"), ("NONE", "EVICT_FIRST"),
        ("CS", "EVICT_NORMAL"),
    ]  # fmt: skip
    assert ops[0].cache is CacheModifier.NONE and ops[0].evict is EvictionPolicy.EVICT_LAST
    assert ops[3].isVolatile


FUNCTION = "tt.func @f(%p: !tt.ptr<{}>) {{\n  {}\n  tt.return\n}}"


@pytest.mark.parametrize(
    ("pointee", "body", "message"),
    [
        ('f32, "texture"', "", "address space 'texture'; global, constant, shared or a number"),
        ("f32", "%x = tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = xx, "
         "eviction_policy = evict_normal>} : !tt.ptr<f32>", "'xx' is no value of cache"),
        ("f32", "%x = tt.load %p {cachePolicy = #tt.cache_policy<eviction = a>} : !tt.ptr<f32>",
         "cache_modifier"),
    ],
)  # fmt: skip
def test_messages(pointee: str, body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_module(FUNCTION.format(pointee, body))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tt.func @f() {\n  ttng.tma_gather_im2col()\n  tt.return\n}", "ttng.tma_gather_im2col"),
    ],
)  # fmt: skip
def test_what_is_not_built_is_named(text: str, name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}.* is not registered") as caught:
        parse_module(text, "there.ttgir")
    assert isinstance(caught.value, NotBuiltError) and caught.value.filename == "there.ttgir"


def evaluate(name: str, arguments: list[Any], size: int) -> None:
    """Run the kernel of a file on arrays and numbers."""
    module = parse_module(next(f for f in FILES if f.name == name).read_text())
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays])
    values = [np.uint64(a.ctypes.data) if isinstance(a, np.ndarray) else np.int32(a)
              for a in arguments]  # fmt: skip
    function: Any = next(op for op in module.ops if op.name == "tt.func")
    Evaluator(module, memory).launch(function.sym_name, values, (size,))


def test_product_of_blackwell() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 96), (96, 64)))
    c = np.zeros((64, 64), np.float16)
    evaluate("blackwell.ttgir", [a, b, c, 64, 64, 96], 1)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, 5e-3, 5e-3)


@pytest.mark.parametrize("name", ["scaled.ttgir", "scaled_blackwell.ttgir"])
def test_products_with_scales(name: str) -> None:
    """The same scales for both operands, as the kernel has them."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, s, np.uint8) for s in ((128, 64), (64, 128)))
    scales = rng.integers(124, 130, (128, 4), np.uint8)
    c = np.zeros((128, 128), np.float32)
    evaluate(name, [a, scales, b, scales, c], 1)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([values, -values])
    factors = np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, 1)
    left = np.stack([values[a & 15], values[a >> 4]], 2).reshape(128, 128) * factors
    right = np.stack([values[b & 15], values[b >> 4]], 1).reshape(128, 128) * factors.T
    np.testing.assert_allclose(c, left @ right, 1e-5, 1e-5)
