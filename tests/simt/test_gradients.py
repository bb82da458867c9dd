"""Attention's gradients in steps of few queries, executed on the CPU as for two generations of
GPUs: products that are transposed for warp groups, and operands that a loop reads again."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.simt.test_warp_specialize import run
from tests.support.warp_specialize import random
from tritium.compiler import ASTSource
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget


@tritium.jit
def gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length,
    D: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    columns, keys = tl.arange(0, D), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = keys[:, None] * D + columns[None, :]
    k, v = tl.load(k_ptr + places), tl.load(v_ptr + places)
    dk, dv = tl.zeros((BLOCK, D), tl.float32), tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, length, STEP):
        queries = start + tl.arange(0, STEP)
        steps = queries[:, None] * D + columns[None, :]
        q, do = tl.load(q_ptr + steps), tl.load(do_ptr + steps)
        p = tl.exp2(tl.dot(q, k.T) - tl.load(lse_ptr + queries)[:, None])
        p = tl.where(queries[:, None] >= keys[None, :], p, 0.0)
        dv = tl.dot(p.to(tl.float16).T, do, dv)
        ds = p * (tl.dot(do, v.T) - tl.load(delta_ptr + queries)[:, None])
        dk = tl.dot(ds.to(tl.float16).T, q, dk)
    tl.store(dk_ptr + places, dk)
    tl.store(dv_ptr + places, dv)


def compiled(arch: int, num_warps: int, depth: int, step: int, num_stages: int) -> str:
    names = [n for n in gradients.arg_names if n.endswith("_ptr")]
    wide = {"lse_ptr", "delta_ptr", "dk_ptr", "dv_ptr"}
    types = {n: "*fp32" if n in wide else "*fp16" for n in names} | {"length": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names) + 1)}
    source = ASTSource(gradients, types, {"D": depth, "BLOCK": 128, "STEP": step}, aligned)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    target = GPUTarget("cuda", arch, 32)
    return tritium.compile(source, target=target, options=options).asm["ttgir"]


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("last_warp_first", [False, True])
@pytest.mark.parametrize(
    "arch,num_warps,depth,step,num_stages",
    [(90, 4, 64, 32, 2), (90, 8, 64, 16, 3), (80, 8, 128, 32, 2), (80, 4, 64, 32, 3)],
)
def test_steps_of_few_queries(
    arch: int, num_warps: int, depth: int, step: int, num_stages: int, last_warp_first: bool,
    no_ptxas: None,
) -> None:  # fmt: skip
    text = compiled(arch, num_warps, depth, step, num_stages)
    loop = text.split("scf.for", 1)[1]
    if arch == 90:
        assert loop.count("ttng.warp_group_dot ") == 4 and "tt.dot" not in loop
        assert "ttg.local_alloc %" not in loop.split("scf.yield")[0]
    else:
        assert loop.split("scf.yield")[0].count(f"tensor<{depth}x128xf16, #ttg.dot_op") >= 2
    length = 256
    q, k, v, do = (random(length, depth, seed=i) / 4 for i in range(4))
    lse, delta = (random(1, length, seed=i)[0].astype(np.float32) for i in (4, 5))
    dk, dv = np.zeros((length, depth), np.float32), np.zeros((length, depth), np.float32)
    run(parse_module(text), num_warps, (length // 128,), [], q, k, v, do, lse, delta, dk, dv,
        np.int32(length), last_warp_first=last_warp_first)  # fmt: skip
    a, b, c, d = (x.astype(np.float64) for x in (q, k, v, do))
    p = np.exp2(a @ b.T - lse[:, None]) * np.tri(length)
    ds = p * (d @ c.T - delta[:, None])
    np.testing.assert_allclose(dv, p.T @ d, 1e-2, 1e-2)
    np.testing.assert_allclose(dk, ds.T @ a, 1e-2, 1e-2)
