"""Loads and stores in the PTX: how wide, under which predicates, with which operators."""

from __future__ import annotations

import re

import pytest

from tests.nvidia.support import KERNELS, in_order, kernel_text, to_ptx

T = "tensor<1024xi32, #blocked>"
P = "tensor<1024x!tt.ptr<f32>, #blocked>"


def copy_kernel(divisible: bool, attributes: str = "") -> str:
    """Copy 1024 floats, with pointers that are or are not aligned to 16 bytes."""
    hint = " {tt.divisibility = 16 : i32}" if divisible else ""
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %v = tt.load %p{attributes} : {P}
    %d = tt.splat %o : !tt.ptr<f32> -> {P}
    %q = tt.addptr %d, %r : {P}, {T}
    tt.store %q, %v : {P}"""
    return kernel_text(body, f"%x: !tt.ptr<f32>{hint}, %o: !tt.ptr<f32>{hint}")


def test_aligned_neighbours_are_accessed_together():
    text = to_ptx(copy_kernel(divisible=True))
    assert len(re.findall(r"ld\.global\.v4\.b32", text)) == 2
    assert len(re.findall(r"st\.global\.v4\.b32", text)) == 2


def test_unaligned_elements_are_accessed_one_by_one():
    text = to_ptx(copy_kernel(divisible=False))
    assert ".v4" not in text and ".v2" not in text
    assert len(re.findall(r"ld\.global\.b32", text)) == 8


@pytest.mark.parametrize(
    ("attributes", "instruction"),
    [
        (" cacheModifier = cg", "ld.global.cg.v4.b32"),
        (" evictionPolicy = evict_first", "ld.global.L1::evict_first.v4.b32"),
        (" {isVolatile = true}", "ld.volatile.global.v4.b32"),
    ],
)
def test_cache_operators(attributes: str, instruction: str):
    assert instruction in to_ptx(copy_kernel(True, attributes))


def test_masked_store_is_predicated():
    in_order(to_ptx((KERNELS / "add.ttgir").read_text()), r"setp\.lt", r"@%p\d+ ld\.global\.v4",
             r"add\.f32", r"@%p\d+ st\.global\.v4")  # fmt: skip
