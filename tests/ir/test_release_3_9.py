"""The `.ttir` and `.ttgir` files of Triton 3.9, which writes some things differently, are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritium.ir.printing import print_module
from tritium.ops.parsing import NotBuiltError, ParseError, parse_module
from tritium.ops.ttir import CacheModifier, EvictionPolicy, LoadOp, StoreOp

FILES = sorted((Path(__file__).parent / "release_3_9").glob("*.tt*ir"))


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
