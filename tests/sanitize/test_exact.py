"""Exact comparisons: kernels that differ in the order of sums and products are the same, planted
mistakes are not, and what has no meaning is refused at its line."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.cli.app import app
from tritium.errors import InterpreterError
from tritium.ir import types as ir
from tritium.sanitize.exact.comparison import (
    ExactDifference,
    bits_of,
    compare_exactly,
    exact_numbers,
)
from tritium.sanitize.exact.ring import payload_of, ring_of

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch

pytestmark = pytest.mark.cpu

FLOATS = [ir.f16, ir.bf16, ir.f32, ir.f64, ir.f8e5m2, ir.f8e4m3fn, ir.f8e4m3fnuz, ir.f8e5m2fnuz]
random = np.random.default_rng(0)


# Rings


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_zero_one_and_infinity_keep_their_places(type: Any):
    ring, modulus = ring_of(type), 1 << ir.bit_width(type)
    assert (payload_of(0.0, type), payload_of(1.0, type)) == (0, 1)
    assert payload_of(-1.0, type) == modulus - 1
    for number in (0.5, 1.5, 2.0, 3.0):
        assert payload_of(-number, type) == modulus - payload_of(number, type)
        assert payload_of(number, type) not in (0, 1)
    if ring.image is not None:
        assert payload_of(float("inf"), type) == modulus // 2 - 1


@pytest.mark.every(2)
@pytest.mark.parametrize("type", [t for t in FLOATS if ir.bit_width(t) <= 16], ids=str)
def test_payloads_are_a_permutation_of_the_bits(type: Any):
    ring, count = ring_of(type), 1 << ir.bit_width(type)
    assert len({ring.embed(bits) for bits in range(count)}) == count


@tritium.jit
def moved(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * 1.0 + 0.0 - (v - v), mask=i < n)


@tritium.jit
def negated(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, 0.0 - (-v), mask=i < n)


DTYPES = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("kernel", [moved, negated])
def test_code_undoes_what_it_does(kernel: Any, dtype: Any):
    kind: Any = f"u{np.dtype(dtype).itemsize}"
    bits = random.integers(0, np.iinfo(kind).max, 1000, kind, endpoint=True)
    bits[:4] = np.array([0, 1, -1, np.inf], dtype).view(kind)
    x, out = bits.view(dtype), np.zeros(1000, dtype)
    with exact_numbers():
        kernel[(4,)](x, out, 1000, BLOCK=256)
    same = out.view(kind) == bits
    assert same[4:].all() and same[:3].all()


# The same


@tritium.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i, row = tl.arange(0, BLOCK), tl.program_id(0)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, v / tl.sum(v, 0), mask=i < n)


@tritium.jit
def softmax_of_blocks(x, out, n, BLOCK: tl.constexpr, WRONG: tl.constexpr = False):
    row = tl.program_id(0)
    most, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        new = tl.maximum(most, tl.max(v, 0))
        scale = 1.0 if WRONG else tl.exp2((most - new) * 1.4426950408889634)
        total = total * scale + tl.sum(tl.exp2((v - new) * 1.4426950408889634), 0)
        most = new
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        tl.store(out + row * n + i, tl.exp(v - most) * (1.0 / total), mask=i < n)


def rows(kernel: Any, BLOCK: int, **constants: Any) -> Any:
    return lambda x, out: kernel[(4,)](x, out, x.shape[1], BLOCK=BLOCK, **constants)


def test_a_softmax_in_blocks_is_one_of_whole_rows():
    x = random.standard_normal((4, 100), np.float32)
    compare_exactly(rows(softmax, 128), rows(softmax_of_blocks, 32), x, np.zeros_like(x))
    compare_exactly(rows(softmax, 128), rows(softmax, 256), x, np.zeros_like(x))


def test_a_forgotten_correction_is_found():
    x = random.standard_normal((4, 100), np.float32)
    with pytest.raises(ExactDifference) as caught:
        compare_exactly(
            rows(softmax, 128), rows(softmax_of_blocks, 32, WRONG=True), x, np.zeros_like(x)
        )
    (line,) = caught.value.differences
    assert line.startswith("argument 1: ") and "elements differ, the first at index (" in line


@tritium.jit
def product(a, b, c, N, K, BLOCK: tl.constexpr, DEPTH: tl.constexpr, SKIPS: tl.constexpr = 0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K - SKIPS, DEPTH):
        k = start + tl.arange(0, DEPTH)
        left = tl.load(a + i * K + k[None, :], mask=k[None, :] < K - SKIPS, other=0)
        right = tl.load(b + k[:, None] * N + j, mask=k[:, None] < K - SKIPS, other=0)
        total = tl.dot(left, right, total)
    tl.store(c + i * N + j, total)


@tritium.jit
def product_by_sums(a, b, c, N, K, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(K):
        left = tl.load(a + i * K + k).to(tl.float32)
        total = tl.fma(left, tl.load(b + k * N + j).to(tl.float32), total)
    tl.store(c + i * N + j, total)


def tiles(kernel: Any, BLOCK: int, DEPTH: int, columns: int, **constants: Any) -> Any:
    return lambda a, b, c: kernel[(64 // BLOCK, columns)](
        a, b, c, 64, 64, BLOCK=BLOCK, DEPTH=DEPTH, **constants
    )


def test_products_of_any_blocks_are_the_same():
    a, b = (random.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    first = tiles(product, 32, 32, 2)
    compare_exactly(first, tiles(product, 16, 64, 4), a, b, out)
    compare_exactly(first, tiles(product_by_sums, 32, 1, 64), a, b, out)
    with pytest.raises(ExactDifference, match="argument 2: 4096 of 4096 elements differ"):
        compare_exactly(first, tiles(product, 32, 32, 2, SKIPS=1), a, b, out)


@tritium.jit
def scaled_product(a, b, scales, out, DEPTH: tl.constexpr):
    i = tl.arange(0, 32)
    total = tl.zeros([32, 32], tl.float32)
    for start in tl.static_range(0, 128, DEPTH):
        k, group = start + tl.arange(0, DEPTH), start // 32 + tl.arange(0, DEPTH // 32)
        left = tl.load(a + i[:, None] * 128 + k[None, :])
        right = tl.load(b + k[:, None] * 32 + i[None, :])
        factors = tl.load(scales + i[:, None] * 4 + group[None, :])
        total = tl.dot_scaled(left, factors, "e4m3", right, factors, "e4m3", total)
    tl.store(out + i[:, None] * 32 + i[None, :], total)


def test_scaled_products_of_any_blocks_are_the_same():
    a, b = (random.standard_normal(4096).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    scales, out = random.integers(120, 134, (32, 4), np.uint8), np.zeros((32, 32), np.float32)

    def of(depth: int) -> Any:
        return lambda a, b, s, out: scaled_product[(1,)](a, b, s, out, DEPTH=depth)

    compare_exactly(of(128), of(32), a, b, scales, out)
    other = scales.copy()
    other[3, 2] += 1
    with pytest.raises(ExactDifference, match="argument 3: 63 of 1024 elements differ"):
        compare_exactly(of(128), lambda a, b, s, out: of(32)(a, b, other, out), a, b, scales, out)


IDENTITIES = {
    "exp of sums": ("tl.exp(x + y)", "tl.exp(x) * tl.exp(y)"),
    "exp2 of sums": ("tl.exp2(x - y) * tl.exp2(y)", "tl.exp2(x)"),
    "sine of sums": ("tl.sin(x + y)", "tl.sin(x) * tl.cos(y) + tl.cos(x) * tl.sin(y)"),
    "norm": ("tl.sin(x) * tl.sin(x) + tl.cos(x) * tl.cos(x)", "x * 0 + 1"),
    "distribution": ("x * (y + 3.0)", "x * 3.0 + y * x"),
    "fma": ("tl.fma(x, y, x)", "x * y + x"),
    "division": ("x / y", "x * (1 / y)"),
    "twice inverted": ("1 / (1 / x)", "x"),
    "root": ("tl.rsqrt(x)", "1 / tl.sqrt(x)"),
    "roots": ("tl.sqrt(x)", "tl.sqrt_rn(x)"),
    "divisions": ("x / y", "tl.div_rn(x, y)"),
    "largest": ("tl.maximum(x, y)", "tl.where(x > y, x, y)"),
    "clamp": ("tl.clamp(x, y, y + 1)", "tl.minimum(tl.maximum(x, y), y + 1)"),
    "absolute": ("tl.abs(x)", "tl.where(x < 0, -x, x)"),
    "casts": ("x.to(tl.float64).to(tl.float32)", "x"),
    "functions": ("tl.erf(y)", "tl.erf(y + x - x)"),
    "to integers": ("x.to(tl.int32)", "(y + x - y).to(tl.int32)"),
    "integers": ("i.to(tl.float32).to(tl.int32)", "i"),
    "bits": ("x.to(tl.int32, bitcast=True)", "(y + x - y).to(tl.int32, bitcast=True)"),
}
DIFFERENT = {
    "operands": ("x - y", "y - x"), "functions": ("tl.erf(x)", "tl.floor(x)"),
    "logarithms": ("tl.log(x)", "tl.log2(x)"), "constants": ("x * 0.5", "x * 0.25"),
    "roots": ("tl.sqrt(x)", "x"),
    "bits": ("x.to(tl.int32, bitcast=True)", "(-x).to(tl.int32, bitcast=True)"),
}  # fmt: skip


def written(tmp_path: Path, number: int, text: str) -> Any:
    """A kernel of one expression."""
    file = tmp_path / f"expression_{number}.py"
    file.write_text(
        "import tritium\nimport tritium.language as tl\n\n\n@tritium.jit\n"
        "def kernel(xs, ys, out, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n    x, y = tl.load(xs + i), tl.load(ys + i)\n"
        f"    tl.store(out + i, {text})\n"
    )
    names: dict[str, Any] = {"__name__": file.stem}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return lambda *arguments: names["kernel"][(1,)](*arguments, BLOCK=64)


def numbers() -> tuple[Any, ...]:
    x, y = (random.standard_normal(64).astype(np.float32) for _ in range(2))
    return x, y, np.zeros(64, np.float32)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if i % 2 else n for i, n in enumerate(IDENTITIES)],
)
def test_identities(name: str, tmp_path: Path):
    first, second = (written(tmp_path, i, text) for i, text in enumerate(IDENTITIES[name]))
    compare_exactly(first, second, *numbers())


@pytest.mark.every(2)
@pytest.mark.parametrize("name", DIFFERENT)
def test_differences(name: str, tmp_path: Path):
    first, second = (written(tmp_path, i, text) for i, text in enumerate(DIFFERENT[name]))
    with pytest.raises(ExactDifference):
        compare_exactly(first, second, *numbers())


# Interpreted


def interpreted(kernel: Any) -> Any:
    return lambda grid, *arguments, **constants: InterpretedKernel(kernel)[grid](
        *arguments, instrumentation_mode="exact", **constants
    )


def test_interpreted_kernels_give_the_same_numbers():
    # Of these the largest, as such numbers are ordered, is in the last block of the first row.
    x = np.random.default_rng(4).standard_normal((4, 100), np.float32)
    outs = [np.zeros_like(x) for _ in range(4)]
    with exact_numbers():
        rows(softmax, 128)(x, outs[0])
    run, blocks = interpreted(softmax), interpreted(softmax_of_blocks)
    run((1,), x, outs[1], 100, BLOCK=128)
    blocks((1,), x, outs[2], 100, BLOCK=64)
    blocks((1,), x, outs[3], 100, BLOCK=64, WRONG=True)
    first, *others = (bits_of(out[0]) for out in outs)
    assert [np.array_equal(first, other) for other in others] == [True, True, False]
    a, c = random.standard_normal((32, 32)).astype(np.float16), np.zeros((32, 32), np.float32)
    own = np.zeros_like(c)
    with exact_numbers():
        product[(1, 1)](a, a, c, 32, 32, BLOCK=32, DEPTH=32)
    interpreted(product)((2, 2), a, a, own, 32, 32, BLOCK=16, DEPTH=16)
    assert np.array_equal(bits_of(c), bits_of(own))


@tritium.jit
def summed_at_once(x, out, n, LANES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i, mask=i < n, other=0.0).reshape(BLOCK // LANES, LANES)
    tl.store(out + tl.arange(0, LANES), tl.sum(tile, 0) + tl.load(out + tl.arange(0, LANES)))


@tritium.jit
def summed_in_memory(x, out, n, LANES: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % LANES, tl.load(x + i, mask=i < n), mask=i < n - STEP)


@tritium.jit
def summed_by_programs(x, out, n, LANES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    tl.atomic_add(out + i % LANES, tl.load(x + i))


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_atomic_sums(dtype: Any):
    x, out = random.standard_normal(1000).astype(dtype), np.ones(8, dtype)

    def in_memory(x: Any, out: Any, step: int = 0, run: Any = summed_in_memory) -> None:
        run[(8,)](x, out, 1000, LANES=8, BLOCK=128, STEP=step)

    def at_once(x: Any, out: Any) -> None:
        summed_at_once[(1,)](x, out, 1000, LANES=8, BLOCK=1024)

    def by_programs(x: Any, out: Any) -> None:
        summed_by_programs[(1000,)](x, out, 1000, LANES=8, BLOCK=1)

    compare_exactly(at_once, in_memory, x, out)
    compare_exactly(at_once, by_programs, x, out)
    with pytest.raises(ExactDifference):
        compare_exactly(at_once, lambda x, out: in_memory(x, out, 1), x, out)
    own, compiled = out.copy(), out.copy()
    interpreted(summed_in_memory)((8,), x, own, 1000, LANES=8, BLOCK=128, STEP=0)
    with exact_numbers():
        in_memory(x, compiled)
    assert np.array_equal(bits_of(own), bits_of(compiled))


@tritium.jit
def found_in_memory(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr):
    i = tl.arange(0, LANES)
    for step in range(STEPS):
        old = tl.atomic_add(out + i, tl.load(x + step * LANES + i))
        tl.store(seen + step * LANES + i, old * 2.0)


@tritium.jit
def carried(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr):
    i = tl.arange(0, LANES)
    total = tl.load(out + i)
    for step in range(STEPS):
        tl.store(seen + step * LANES + i, total * 2.0)
        total += tl.load(x + step * LANES + i)
    tl.store(out + i, total)


@tritium.jit
def found_by_scalars(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr):
    for step in range(STEPS):
        for lane in range(LANES + 1):
            old = tl.atomic_add(out + lane, tl.load(x + step * LANES + lane % LANES), lane < LANES)
            tl.store(seen + step * LANES + lane, old * 2.0, lane < LANES)


@tritium.jit
def found_behind_masks(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr, SHAPE: tl.constexpr):
    i = tl.arange(0, 2 * LANES).reshape(SHAPE)
    for step in range(STEPS):
        for half in range(3):  # of the last one no element
            inside = (i // (LANES // 2) == half) & (i < LANES)
            place = tl.where(inside, i.to(tl.int64), 1 << 45)  # no memory is there
            old = tl.atomic_add(out + place, tl.load(x + step * LANES + i % LANES), inside)
            tl.store(seen + step * LANES + i, old * 2.0, inside)


@tritium.jit
def found_by_many(x, out, seen, STEPS: tl.constexpr, LANES: tl.constexpr):
    i = tl.arange(0, STEPS * LANES)
    tl.store(seen + i, tl.atomic_add(out + i % LANES, tl.load(x + i)) * 0.0)


@pytest.mark.every(3)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_atomic_sums_find(dtype: Any):
    """Atomic sums equal those of a program that keeps the sums in registers; the order of the
    elements of one tile is not known."""
    given = random.standard_normal(8 * 16).astype(dtype), np.ones(16, dtype), np.ones(128, dtype)

    def by(kernel: Any) -> Any:
        return lambda *memory: kernel[(1,)](*memory, STEPS=8, LANES=16)

    compare_exactly(by(found_in_memory), by(carried), *given)
    compare_exactly(by(found_by_scalars), by(carried), *given)
    for shape in ((32,), (4, 8)):
        masked = functools.partial(found_behind_masks[(1,)], STEPS=8, LANES=16, SHAPE=shape)
        compare_exactly(masked, by(carried), *given)

    def alone(kernel: Any) -> Any:
        return lambda x, out, seen: kernel[(1,)](x, out, seen.copy(), STEPS=8, LANES=16)

    compare_exactly(alone(found_by_many), alone(carried), *given)
    own = [a.copy() for a in given]
    behind = [a.copy() for a in given]
    interpreted(found_in_memory)((1,), *own, STEPS=8, LANES=16)
    interpreted(found_behind_masks)((1,), *behind, STEPS=8, LANES=16, SHAPE=(32,))
    with exact_numbers():
        found_in_memory[(1,)](*given, STEPS=8, LANES=16)
    for a, b, c in zip(own, behind, given, strict=True):
        assert np.array_equal(bits_of(a), bits_of(c)) and np.array_equal(bits_of(b), bits_of(c))


def test_the_interpreter_refuses_what_has_no_meaning(tmp_path: Path):
    scaled = "tl.zeros((64, 64), tl.float8e5), None, 'e5m2'"
    launch = written(tmp_path, 0, f"tl.sum(tl.dot_scaled({scaled}, {scaled}))")
    kernel = interpreted(launch.__closure__[0].cell_contents["kernel"])
    with pytest.raises(InterpreterError, match=r"at 4:(.|\n)*tt.dot_scaled has no meaning"):
        kernel((1,), *numbers(), BLOCK=64)


# What is refused


def test_there_must_be_something_to_compare():
    with pytest.raises(TypeError, match="nothing is compared"):
        compare_exactly(lambda n: None, lambda n: None, 3)


def test_shapes_and_types_of_results():
    zeros = np.zeros
    with pytest.raises(ExactDifference, match=r"result 0: 32 bits \(3,\), and 64 bits \(3,\)"):
        compare_exactly(lambda: zeros(3, np.float32), lambda: zeros(3, np.float64))
    with pytest.raises(ExactDifference, match="result 1: only the second has it"):
        compare_exactly(lambda: zeros(3), lambda: (zeros(3), zeros(1)))


def test_numbers_are_floats_again_afterwards():
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    before = knobs.compilation.instrumentation_mode
    with exact_numbers():
        moved[(1,)](x, out, 4, BLOCK=4)
    assert knobs.compilation.instrumentation_mode == before
    moved[(1,)](x, out, 4, BLOCK=4)
    assert out.tolist() == [1.0] * 4


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_tensors():
    x = torch.randn(4, 1000)
    compare_exactly(rows(softmax, 1024), rows(softmax_of_blocks, 512), x, torch.zeros_like(x))
    assert bits_of(torch.ones(2, 3, dtype=torch.bfloat16)).tolist() == [[0x3F80] * 3] * 2
    assert bits_of(torch.tensor(1.0)).tolist() == 0x3F800000


def test_the_mode_has_no_floats_for_fp():
    with pytest.raises(Exception, match="'exact' leaves no floats for 'fp'"):
        moved[(1,)](*numbers()[:2], 4, BLOCK=4, instrumentation_mode="exact,fp")


# Programs


PROGRAM = """import numpy as np, triton, triton.language as tl

@triton.jit
def scaled(x, {out}, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store({out} + i, {text}, mask=i < n)

x = np.arange(100, dtype=np.float32)
out = np.zeros_like(x)
for _ in range(3):
    scaled[({grid},)](x, out, 100, BLOCK=128 // {grid})
"""


def compared(tmp_path: Path, *sides: dict[str, Any]) -> Any:
    names: list[str] = []
    for i, side in enumerate(sides):
        names.append(f"side{i}.py")
        usual = {"out": "out", "text": "v * 3.0 + v * v", "grid": 1}
        (tmp_path / names[-1]).write_text(PROGRAM.format(**{**usual, **side}))
    return command(tmp_path, *names)


def command(folder: Path, *words: str) -> Any:
    """Of the command, which starts a process for each program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(tritium.__file__).parents[1]))
        patch.chdir(folder)
        return CliRunner().invoke(app, ["exact", *words])


@pytest.mark.slow
def test_programs_are_compared(tmp_path: Path):
    same = compared(tmp_path, {}, {"text": "(3.0 + v) * v", "grid": 4})
    assert (same.exit_code, same.stdout) == (
        0, "side0.py and side1.py: the same in exact numbers (x, out)\n"
    )  # fmt: skip
    other = compared(tmp_path, {}, {"text": "v * 3.0 + v"})
    assert other.exit_code == 1
    assert other.stdout.splitlines() == [
        "side0.py and side1.py: not the same in exact numbers",
        "  out: 98 of 100 elements differ, the first at index (2,)",
    ]


@pytest.mark.slow
def test_programs_that_cannot_be_compared(tmp_path: Path):
    other = compared(tmp_path, {"out": "result"}, {"text": "v + tl.arange(0, 3)"})
    assert other.exit_code == 2 and "arange's range must be a power of 2" in other.stderr
    (tmp_path / "nothing.py").write_text("print(1)")
    for sources, message in (
        (["nothing.py"], "nothing.py: no kernel was launched with arrays"),
        (["no.py", "no.py"], "no.py: no such file"),
        (["a.py", "b.py", "c.py"], "tritium exact: 3 programs; one or two are compared"),
        (["--set-a", "NAME", "nothing.py"], "the setting 'NAME' is not NAME=VALUE"),
    ):
        done = command(tmp_path, *sources)
        assert done.exit_code == 2 and message in done.stderr, done.stderr
