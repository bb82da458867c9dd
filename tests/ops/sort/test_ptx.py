"""Sorts, gathers and histograms on GPUs: shuffles, barriers and shared memory in the PTX."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled, in_order

pytestmark = pytest.mark.usefixtures("no_ptxas")


def barriers(kernel: Any) -> int:
    return len(re.findall(r"bar(?:rier)?(?:\.cta)?\.sync", kernel.asm["ptx"]))


@tritium.jit
def sort_rows(x, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(o + i, tl.sort(tl.load(x + i)))


@tritium.jit
def sort_one_row(x, o):
    i = tl.arange(0, 1024)
    tl.store(o + i, tl.sort(tl.load(x + i)))


@tritium.jit
def best_of_rows(x, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    best = tl.topk(tl.load(x + i), 8)
    tl.store(o + tl.arange(0, 16)[:, None] * 8 + tl.arange(0, 8)[None, :], best)


@tritium.jit
def gather_rows(x, j, o):
    i = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(j + i), 1))


def test_rows_of_a_warp_are_sorted_by_shuffles():
    """No element leaves its warp; where a row has several warps, few exchanges are between them."""
    kernel = compiled(sort_rows, "*fp32 *fp32", aligned=True)
    text = kernel.asm["ptx"]
    assert barriers(kernel) == 0 and ".shared" not in text
    assert "shfl.sync.bfly" in text
    assert barriers(compiled(sort_one_row, "*fp32 *fp32", aligned=True)) < 12
    best = compiled(best_of_rows, "*fp32 *fp32", aligned=True)
    assert barriers(best) <= 1, "for the store of the result"


def test_gathers_take_tiles_as_they_are():
    """The source is written as it was loaded and the result is where the indices were loaded."""
    assert barriers(compiled(gather_rows, "*fp32 *i32 *fp32", aligned=True)) == 1


@tritium.jit
def looked_up(x, i, o, h):
    at = tl.arange(0, 128)
    index = tl.load(i + at)
    tl.store(o + at, tl.gather(tl.load(x + at), index, 0))
    tl.store(h + tl.arange(0, 32), tl.histogram(index, 32))


def test_gather_and_histogram_use_shared_memory():
    text = compiled(looked_up, "*fp32 *i32 *fp32 *i32").asm["ptx"]
    in_order(text, r"st\.shared", r"bar", r"ld\.shared", r"red\.shared\.add\.u32")
