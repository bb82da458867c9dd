"""Products in flight: kernels for sm_90 are run by the reference semantics, which refuses to read a
product that has not ended and to write memory that one reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ir.test_reference_runs import Kernel, floats
from tritium.compiler import ASTSource
from tritium.ops.memory import EvaluationError
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

LENGTH, D, BLOCK = 192, 32, 64


@tritium.jit
def forward(q_ptr, k_ptr, v_ptr, out_ptr, length, D: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, D)
    places = rows[:, None] * D + columns[None, :]
    q = tl.load(q_ptr + places)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, length, BLOCK):
        k = tl.load(k_ptr + start * D + places)
        scores = tl.dot(q, k.T)
        now = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(top - now)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + start * D + places)
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
        top = now
    tl.store(out_ptr + places, acc / total[:, None])


@tritium.jit
def backward(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length, D: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, D)
    places = rows[:, None] * D + columns[None, :]
    k, v = tl.load(k_ptr + places), tl.load(v_ptr + places)
    dk, dv = tl.zeros((BLOCK, D), tl.float32), tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, length, BLOCK):
        q = tl.load(q_ptr + start * D + places)
        p = tl.exp2(tl.dot(k, q.T) - tl.load(lse_ptr + start + rows)[None, :])
        do = tl.load(do_ptr + start * D + places)
        dv = tl.dot(p.to(tl.float16), do, dv)
        dp = tl.dot(v, do.T)
        ds = p * (dp - tl.load(delta_ptr + start + rows)[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    tl.store(dk_ptr + places, dk)
    tl.store(dv_ptr + places, dv)


@tritium.jit
def shrinking(q_ptr, k_ptr, out_ptr, length, D: tl.constexpr, BLOCK: tl.constexpr):
    """The sum is read before there are views of what the product reads."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, D)
    places = rows[:, None] * D + columns[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, length, BLOCK):
        acc *= 0.5
        k = tl.load(k_ptr + start * D + places)
        acc = tl.dot(tl.load(q_ptr + start * D + places), k.T, acc)
    tl.store(out_ptr + rows[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], acc)


@tritium.jit
def widened(a_ptr, b_ptr, out_ptr, length, D: tl.constexpr, BLOCK: tl.constexpr):
    """The left operand is computed from words of two numbers each."""
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, D)
    words = rows[:, None] * (length // 2) + tl.arange(0, D // 2)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, length, D):
        word = tl.load(a_ptr + start // 2 + words)
        low = word.to(tl.int16).to(tl.float16, bitcast=True)
        high = (word >> 16).to(tl.int16).to(tl.float16, bitcast=True)
        a = tl.reshape(tl.join(low, high), (BLOCK, D)) * 2
        b = tl.load(b_ptr + (start + columns)[:, None] * BLOCK + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@tritium.jit
def in_halves(a_ptr, b_ptr, out_ptr, length, D: tl.constexpr, BLOCK: tl.constexpr):
    """The same, of which the second half of a step along K is computed after the product of the
    first has begun."""
    rows, half = tl.arange(0, BLOCK), tl.arange(0, D // 2)
    words = rows[:, None] * (length // 2) + tl.arange(0, D // 4)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, length, D):
        first = tl.load(a_ptr + start // 2 + words)
        word = first, tl.load(a_ptr + start // 2 + D // 4 + words)
        for h in tl.static_range(2):
            low = word[h].to(tl.int16).to(tl.float16, bitcast=True)
            high = (word[h] >> 16).to(tl.int16).to(tl.float16, bitcast=True)
            a = tl.reshape(tl.join(low, high), (BLOCK, D // 2)) * 2
            k = start + h * (D // 2) + half
            b = tl.load(b_ptr + k[:, None] * BLOCK + rows[None, :])
            acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


def constants_of(function: Any) -> list[str]:
    """The names of a function's constants."""
    return [p.name for p in function.params if p.is_constexpr]


def kernel(
    function: Any, stages: int, edit: Any = None, arch: int = 90, **arguments: Any
) -> Kernel:
    """The kernel compiled for a capability, as ttgir that runs on arrays. `arguments`: types of
    parameters, and constants, by name."""
    names = [n for n in function.arg_names if n.endswith("_ptr")]
    wide = {"out_ptr", "dk_ptr", "dv_ptr", "lse_ptr", "delta_ptr"}
    types = {n: "*fp32" if n in wide else "*fp16" for n in names} | {"length": "i32"}
    types |= {n: v for n, v in arguments.items() if n not in constants_of(function)}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names) + 1)}
    known = {"D": D, "BLOCK": BLOCK, **arguments}
    constants = {n: known[n] for n in constants_of(function)}
    source = ASTSource(function, types, constants, aligned)
    options = {"num_warps": 4, "num_stages": stages}
    text = tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm["ttgir"]
    made = Kernel.__new__(Kernel)
    made.module, made.printed = parse_module(edit(text) if edit else text), []
    return made


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(probabilities, their products with v) in float64, of scores to the base 2."""
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p, p @ v.astype(np.float64)


def run_forward(made: Kernel) -> None:
    q = floats(BLOCK, D, dtype=np.float16)
    k, v = (floats(LENGTH, D, seed=i, dtype=np.float16) for i in (1, 2))
    out = np.zeros((BLOCK, D), np.float32)
    made(q, k, v, out, LENGTH)
    np.testing.assert_allclose(out, attended(q, k, v)[1], 1e-2, 1e-2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_attention(stages: int, arch: int, fresh_cache: Path) -> None:
    run_forward(kernel(forward, stages, arch=arch))


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_gradients(stages: int, arch: int, fresh_cache: Path) -> None:
    k, v = (floats(BLOCK, D, seed=i, dtype=np.float16) / 4 for i in (0, 1))
    q, do = (floats(LENGTH, D, seed=i, dtype=np.float16) / 4 for i in (2, 3))
    lse, delta = floats(LENGTH, seed=4), floats(LENGTH, seed=5)
    dk, dv = np.zeros((BLOCK, D), np.float32), np.zeros((BLOCK, D), np.float32)
    kernel(backward, stages, arch=arch)(q, k, v, do, lse, delta, dk, dv, LENGTH)
    wide = [x.astype(np.float64) for x in (q, k, v, do)]
    p = np.exp2(wide[1] @ wide[0].T - lse)
    ds = p * (wide[2] @ wide[3].T - delta)
    np.testing.assert_allclose(dv, p @ wide[3], 1e-2, 1e-2)
    np.testing.assert_allclose(dk, ds @ wide[0], 1e-2, 1e-2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", [90, 100])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_sum_that_shrinks(stages: int, arch: int, fresh_cache: Path) -> None:
    q, k = (floats(LENGTH, D, seed=i, dtype=np.float16) for i in (0, 1))
    out, want = np.zeros((BLOCK, BLOCK), np.float32), 0.0
    kernel(shrinking, stages, arch=arch)(q, k, out, LENGTH)
    for start in range(0, LENGTH, BLOCK):
        a, b = (x[start : start + BLOCK].astype(np.float64) for x in (q, k))
        want = want * 0.5 + a @ b.T
    np.testing.assert_allclose(out, want, 1e-2, 1e-2)


@pytest.mark.parametrize("stages", [1, 3])
def test_an_operand_that_is_computed_from_loads(stages: int, fresh_cache: Path) -> None:
    texts: list[str] = []
    made = kernel(widened, stages, lambda text: texts.append(text) or text, a_ptr="*i32")
    loop = texts[0].split("scf.for", 1)[1].split("scf.yield", 1)[0]
    assert re.search(r"warp_group_dot .* : tensor<64x32xf16, #ttg.dot_op", loop)
    assert stages == 1 or "convert_layout" not in loop
    a, b = floats(BLOCK, LENGTH, dtype=np.float16), floats(LENGTH, BLOCK, seed=1, dtype=np.float16)
    out = np.zeros((BLOCK, BLOCK), np.float32)
    made(a.view(np.int32), b, out, LENGTH)
    want = 2 * a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, want, 1e-2, 1e-2)


def test_an_operand_that_is_computed_in_halves(fresh_cache: Path) -> None:
    """The second half's product goes on while the next iteration computes the first half."""
    texts: list[str] = []
    made = kernel(in_halves, 3, lambda text: texts.append(text) or text, a_ptr="*i32")
    loop = texts[0].split("scf.for", 1)[1].split("scf.yield", 1)[0]
    assert re.findall(r"warp_group_dot_wait .*pendings = (\d)", loop) == ["1", "1"]
    a, b = floats(BLOCK, LENGTH, dtype=np.float16), floats(LENGTH, BLOCK, seed=1, dtype=np.float16)
    out = np.zeros((BLOCK, BLOCK), np.float32)
    made(a.view(np.int32), b, out, LENGTH)
    want = 2 * a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, want, 1e-2, 1e-2)


@pytest.mark.parametrize("pendings", [1, 2])
def test_a_wait_that_leaves_more_in_flight_is_refused(pendings: int, fresh_cache: Path) -> None:
    def loosen(text: str) -> str:
        head, loop = text.split("scf.for", 1)
        return head + "scf.for" + loop.replace("{pendings = 0 ", f"{{pendings = {pendings} ", 1)

    with pytest.raises(EvaluationError):
        run_forward(kernel(forward, 3, loosen))
