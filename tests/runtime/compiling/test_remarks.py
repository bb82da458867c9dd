"""Remarks on what makes a kernel slow: each where it belongs, and none elsewhere."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.remarks import said
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

CUDA = GPUTarget("cuda", 90, 32)
ALIGNED = {(i,): [["tt.divisibility", 16]] for i in range(4)}


@tritium.jit
def strided(x, out, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i * s, i < n)
    tl.store(out + i, value, i < n)


@tritium.jit
def product(a, b, c, n, CONVERT: tl.constexpr, MASK: tl.constexpr):
    i, k = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for t in range(0, n, 64):
        x = tl.load(a + i[:, None] * n + (t + k)[None, :])
        y = tl.load(b + (t + k)[:, None] * 64 + i[None, :], MASK or ((t + k) != 3)[:, None])
        if CONVERT:
            y = (y + 1).to(tl.float16)
        acc += tl.dot(x, y)
    tl.store(c + i[:, None] * 64 + i[None, :], acc)


@pytest.fixture
def remarks(capfd: Any, no_ptxas: None) -> Any:
    """Compiles a kernel; the remarks as (source text from the caret on, text)."""
    knobs.compilation.diagnostics = "remarks"
    said.clear()

    def found(
        kernel: Any, signature: str, target: Any, attrs: Any, warps: int = 4, **constants: Any
    ) -> Any:
        types = dict(zip(kernel.arg_names, signature.split(), strict=False))
        types.update(dict.fromkeys(constants, "constexpr"))
        source, options = ASTSource(kernel, types, constants, attrs), {"num_warps": warps}
        tritium.compile(source, target=target, options=options)
        lines = [x for x in capfd.readouterr().err.splitlines() if "registers a thread" not in x]
        assert len(lines) <= 1, "a line a kernel"
        result: list[tuple[str, str]] = []
        for part in re.split(r"; (?=\S+:\d+:\d+: )", lines[0]) if lines else ():
            place = re.match(r"\S*test_remarks\.py:(\d+):(\d+): remark: (.*)", part)
            assert place is not None
            more = re.search(r" \(also at (.*)\)$", place[3])
            others = [] if more is None else [at.split(":") for at in more[1].split(", ")]
            for line, column in [(place[1], place[2]), *others]:
                source = linecache.getline(__file__, int(line)).rstrip()
                text = place[3][: more.start()] if more else place[3]
                result.append((source[int(column) - 1 :], text))
        return result

    return found


def test_one_element_after_the_other(remarks: Any) -> None:
    found = remarks(strided, "*fp32 *fp32 i32 i32", CUDA, ALIGNED, BLOCK=1024)
    ((where, text),) = found
    assert where == "tl.load(x + i * s, i < n)"
    assert text == "Warning: vectorization fails vec = 1 origin vec = 1 numElems = 8 mask is 16"
    # Nothing is known of n: the mask may change from one element to the next.
    known = {key: value for key, value in ALIGNED.items() if key != (3,)}
    *_, (where, text) = remarks(strided, "*fp32 *fp32 i32 i32", CUDA, known, BLOCK=1024)
    assert where.startswith("tl.store") and text.endswith("numElems = 8 mask is 1")


def test_operands_that_are_not_copied_ahead(remarks: Any) -> None:
    signature = "*fp16 *fp16 *fp32 i32"
    assert remarks(product, signature, CUDA, ALIGNED, CONVERT=False, MASK=True) == []
    found = remarks(product, signature, CUDA, {}, CONVERT=False, MASK=True)
    ahead = [(where[:9], text) for where, text in found if "pipelined load" in text]
    assert [where for where, _ in ahead] == ["tl.load(a", "tl.load(b"]
    reason = "operand 1 of a dot is loaded in the iteration that uses it, as its elements"
    assert reason in ahead[1][1]


def test_gathers_on_the_cpu(remarks: Any) -> None:
    target = tritium.runtime.driver.active.get_current_target()
    ((where, text),) = remarks(strided, "*fp32 *fp32 i32 i32", target, ALIGNED, BLOCK=256)
    assert where == "tl.load(x + i * s, i < n)" and "vectorization fails vec = 1" in text
    assert not remarks(product, "*fp16 *fp16 *fp32 i32", target, {}, CONVERT=True, MASK=True)


def test_none_are_asked_for(remarks: Any, capfd: Any) -> None:
    knobs.compilation.diagnostics = ""
    assert not remarks(strided, "*fp32 *fp32 i32 i32", CUDA, ALIGNED, BLOCK=1024)
    knobs.compilation.remark = True  # the former name
    assert remarks(strided, "*fp32 *fp32 i32 i32", CUDA, ALIGNED, BLOCK=512)


def test_candidates_are_not_remarked_on_each(remarks: Any) -> None:
    """Of kernels that differ in numbers alone, the first one says it."""
    assert remarks(strided, "*fp32 *fp32 i32 i32", CUDA, ALIGNED, BLOCK=1024)
    assert not remarks(strided, "*fp32 *fp32 i32 i32", CUDA, ALIGNED, BLOCK=512)


@tritium.jit
def writing(
    a, b, c, n, STAGES: tl.constexpr, PRECISION: tl.constexpr,
    WHERE: tl.constexpr = False,
):  # fmt: skip
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for t in tl.range(0, n, 64, num_stages=STAGES):
        x = tl.load(a + i[:, None] * n + (t + i)[None, :])
        y = tl.load(b + (t + i)[:, None] * 64 + i[None, :])
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
        tl.store((a if WHERE else c) + t, 1.0)
    tl.store(c + i[:, None] * 64 + i[None, :], acc)


def test_what_a_loop_writes_is_not_copied_ahead_unless_it_is_told(remarks: Any) -> None:
    signature, types = "*fp16 *fp16 *fp32 i32", {"PRECISION": "tf32"}
    found = remarks(writing, signature, CUDA, ALIGNED, STAGES=None, WHERE=True, **types)
    ((where, text),) = found
    assert where.startswith("tl.load(a") and "the loop writes memory" in text
    assert remarks(writing, signature, CUDA, ALIGNED, STAGES=None, **types) == []
    assert remarks(writing, signature, CUDA, ALIGNED, STAGES=3, WHERE=True, **types) == []


@pytest.mark.every(2)
@pytest.mark.parametrize("arch, precision, warps, wanted", [
    (80, "ieee", 8, ["f32 (input_precision='ieee') of 64x64 and 64x64 is computed without tensor"]),
    (80, "tf32", 4, []), (120, "tf32", 4, []), (100, "tf32", 4, []),
    (100, "tf32", 2, ["MMA version 5 acceleration not applied"]),
    (90, "ieee", 8, ["MMA version 3 acceleration not applied", "without tensor cores"]),
])  # fmt: skip
def test_products_without_the_newest_tensor_cores(
    remarks: Any, arch: int, precision: str, warps: int, wanted: list[str]
) -> None:
    target = GPUTarget("cuda", arch, 32)
    found = remarks(
        writing, "*fp32 *fp32 *fp32 i32", target, ALIGNED, warps, STAGES=2, PRECISION=precision
    )
    texts = [text for where, text in found if where.startswith("tl.dot")]
    assert len(texts) == len(wanted)
    assert all(part in text for part, text in zip(wanted, texts, strict=True))
