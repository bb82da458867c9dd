"""Kernels of the library as they are compiled for Hopper: with descriptors, products by warp groups
and warps that copy for others, run by `simt` and compared with float64."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.kernels.support import torch
from tests.ops.descriptors.cases import aligned
from tests.simt.backend.compiler import run_ttgir
from tests.simt.engine import descriptor
from tests.simt.hardware import Simt
from tritium.compiler import ASTSource
from tritium.launch.signature import canonical_dtype
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget
from tritium_kernels.dense.kernels import (
    attention,
    attention_backward,
    group_norm,
    matmul,
    norm,
    paged,
)

assert torch  # the kernels' package needs it

pytestmark = pytest.mark.slow

Described = tuple[np.ndarray, list[int]]
"""An array and the blocks in which it is read."""


def launch(
    kernel: Any, constants: Mapping[str, Any], values: Mapping[str, Any], warps: int, grid: int
) -> str:
    """Compile for sm_90, run, return the ttgir. `values`: descriptors, arrays, numbers."""
    types: dict[str, str] = {}
    slots: list[int] = []
    kept: list[np.ndarray] = []
    for name in kernel.arg_names:
        value = values.get(name)
        if name in constants:
            types[name] = "constexpr"
        elif isinstance(value, tuple):
            array, block = value
            types[name] = f"tensordesc<{canonical_dtype(array.dtype)}{block}>"
            kept.append(descriptor(array))
            steps = [s // array.itemsize for s in array.strides]
            slots += [kept[-1].ctypes.data, *array.shape, *steps]
        elif isinstance(value, np.ndarray):
            types[name] = f"*{canonical_dtype(value.dtype)}"
            slots.append(value.ctypes.data)
        else:
            types[name] = "fp32" if isinstance(value, float) else "i32"
            number = np.float32(value).view(np.uint32) if isinstance(value, float) else value
            slots.append(int(number) & 0xFFFFFFFF)
    options = {"num_warps": warps, "num_stages": 2}
    source = ASTSource(kernel, types, dict(constants))
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ttgir"]
    run_ttgir(parse_module(text), warps, slots, (grid, 1, 1), Simt(32))
    return text


HEADS, KV_HEADS, QUERIES, KEYS = 2, 1, 160, 190
NONE = dict.fromkeys(("q_offsets", "k_offsets", "aux", "SCORE"))


class Problem:
    """Tensors of attention, what is right, and the arguments that all kernels take."""

    def __init__(self, d: int, causal: bool):
        rng = np.random.default_rng(d)
        queries, keys = (1, HEADS, QUERIES, d), (1, KV_HEADS, KEYS, d)
        shapes = {"q": queries, "k": keys, "v": keys, "do": queries}
        self.given = {
            name: aligned(rng.standard_normal(shape).astype(np.float16))
            for name, shape in shapes.items()
        }
        self.found = {
            name: aligned(np.full(shape, 7, np.float16))
            for name, shape in {"o": queries, "dq": queries, "dk": keys, "dv": keys}.items()
        }
        q, k, v, do = (x[0].astype(np.float64) for x in self.given.values())
        scores = q @ k.swapaxes(1, 2) * d**-0.5
        if causal:
            seen = np.arange(KEYS) <= np.arange(QUERIES)[:, None] + KEYS - QUERIES
            scores = np.where(seen, scores, -np.inf)
        self.lse = np.logaddexp.reduce(scores, -1, keepdims=True)
        p = np.exp(scores - self.lse)
        delta = (do * (p @ v)).sum(-1, keepdims=True)
        ds = p * (do @ v.swapaxes(1, 2) - delta) * d**-0.5
        self.right = {
            "o": p @ v, "dq": ds @ k, "dk": (ds.swapaxes(1, 2) @ q).sum(0, keepdims=True),
            "dv": (p.swapaxes(1, 2) @ do).sum(0, keepdims=True),
        }  # fmt: skip
        self.constants = {
            **NONE, "GROUP": HEADS // KV_HEADS, "LEFT": False, "RIGHT": causal, "TAIL": True,
            "DROPOUT": False, "TOGETHER": HEADS, **dict.fromkeys(("D", "DV", "DP", "DVP"), d),
        }  # fmt: skip
        self.of_queries = {
            "top_ptr": aligned((self.lse / np.log(2))[None, ..., 0].astype(np.float32)),
            "delta_ptr": aligned(delta[None, ..., 0].astype(np.float32)),
        }
        self.numbers: dict[str, Any] = {
            **self.of_queries,
            "scale": d**-0.5, "q_length": QUERIES, "k_length": KEYS, "heads": HEADS, "left": -1,
            "right": 0, "seed": 0, "dropout": 0.0, "lb": HEADS * QUERIES, "lh": QUERIES,
            "tb": HEADS * QUERIES, "th": QUERIES,
        }  # fmt: skip
        tensors = {**self.given, **self.found}
        for name, array in tensors.items():
            short = "d" if name == "do" else name
            for axis, stride in zip("bhl", array.strides, strict=False):
                self.numbers[short + axis] = stride // 2

    def check(self, *names: str) -> None:
        for name in names:
            found = self.found[name][0].astype(np.float64)
            np.testing.assert_allclose(found, self.right[name], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "n", "split"), [(64, 64, False), (128, 128, True)])
def test_attention(d: int, n: int, split: bool, causal: bool) -> None:
    """Forward, with 128 columns by warps of several kinds; both kernels of the gradients."""
    problem, tiles = Problem(d, causal), -(-QUERIES // 128)
    arrays = {**problem.given, **problem.found}
    rows = {"q": 128, "o": 128, "k": n, "v": n}
    values = {
        **problem.numbers, "tiles": tiles, "lse_ptr": np.zeros((HEADS, QUERIES), np.float32),
        **{name: (arrays[name], [1, 1, count, d]) for name, count in rows.items()},
    }  # fmt: skip
    blocks = {"BLOCK_M": 128, "BLOCK_N": n, "STAGES": 2}
    text = launch(
        attention.attention_forward, {**problem.constants, **blocks, "POSITIVE": True}, values, 8,
        HEADS * tiles,
    )  # fmt: skip
    assert ("ttg.warp_specialize" in text) == split and "warp_group_dot" in text
    problem.check("o")
    np.testing.assert_allclose(values["lse_ptr"], problem.lse[..., 0], rtol=1e-5, atol=1e-5)
    gradients(problem, d, attention_backward.attention_dk_dv, 64, 128, None)
    problem.check("dk", "dv")
    gradients(problem, d, attention_backward.attention_dq, 128, 64, None)
    problem.check("dq")


def gradients(problem: Problem, d: int, kernel: Any, m: int, n: int, sums: Any) -> str:
    """Launch a kernel of the gradients, with `n` keys or `m` queries a program."""
    arrays, by_keys = {**problem.given, **problem.found}, "dk_out" in kernel.arg_names
    tiles = -(-KEYS // n) if by_keys else -(-QUERIES // m)
    values = {**problem.numbers, "tiles": tiles}
    counts = {"q": m, "do": m, "k": n, "v": n, **({"dk": n, "dv": n} if by_keys else {"dq": m})}
    for name, count in counts.items():
        values[name if name in problem.given else f"{name}_out"] = (arrays[name], [1, 1, count, d])
    constants = {
        **problem.constants, "SCORE_GRADIENT": None, "STAGES": 2, "BLOCK_M": m, "BLOCK_N": n
    }  # fmt: skip
    if by_keys:  # a program for each block of keys
        constants["dq_out"] = None
        values |= dict.fromkeys(("sqb", "sqh", "sql"), 0)
    if sums is not None:
        values["dq_sum"] = (sums, [1, 1, m, d])
        values |= {name: (array, [1, 1, m]) for name, array in problem.of_queries.items()}
    elif by_keys:
        constants["dq_sum"] = None
    return launch(kernel, constants, values, 8, tiles * (KV_HEADS if by_keys else HEADS))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_all_gradients_by_one_kernel(d: int, causal: bool) -> None:
    problem = Problem(d, causal)
    sums = aligned(np.zeros((1, HEADS, QUERIES, d), np.float32))
    text = gradients(problem, d, attention_backward.attention_dk_dv, 64, 128, sums)
    # The loops over the queries of each head share buffers; with 128 columns they are one loop.
    assert "ttg.warp_specialize" in text
    assert len(re.findall(r"= scf\.for %start", text.split("partition0")[0])) == (
        2 + causal if d == 64 else 1
    )
    problem.check("dk", "dv")
    np.testing.assert_allclose(sums[0] * d**-0.5, problem.right["dq"], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    ("a_columns", "b_columns", "apart"),
    [(False, False, False), (True, True, False), (False, True, False), (False, True, True)],
)
def test_matmul(a_columns: bool, b_columns: bool, apart: bool) -> None:
    """Operands row by row or column by column, edges, several tiles for each program."""
    batch, m, n, k = 2, 200, 296, 136
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((batch, m, k), (batch, k, n)))
    right = a.astype(np.float64) @ b.astype(np.float64)
    x, w = (
        aligned(np.ascontiguousarray(t.swapaxes(1, 2) if columns else t))
        for t, columns in ((a, a_columns), (b, b_columns))
    )
    y = aligned(np.full((batch, m, n), 7, np.float16))
    pointers = ("bias_ptr", "a_scale_ptr", "b_scale_ptr", "residual_ptr", "inner_ptr", "KIND")
    constants = {
        **dict.fromkeys(pointers), "PRECISION": "ieee", "ACC": tl.float32, "GROUP": 8,
        "A_TRANSPOSED": a_columns, "B_TRANSPOSED": b_columns, "BLOCK_M": 128, "BLOCK_N": 256,
        "BLOCK_K": 64, "STAGES": 4 if apart else 3, "APART": apart, "HALVES": apart,
    }  # fmt: skip
    values = {
        **dict.fromkeys(matmul.matmul_blocks.arg_names, 0), "m": m, "n": n, "k": k,
        "count": batch * 2 * 2,
        "x": (x, [1, 64, 128] if a_columns else [1, 128, 64]),
        "w": (w, [1, 256, 64] if b_columns else [1, 64, 256]),
        "y": (y, [1, 128, 128 if apart else 256]), "yb": m * n, "ym": n, "yn": 1,
    }  # fmt: skip
    text = launch(matmul.matmul_blocks, constants, values, 8, 3)
    assert "warp_group_dot" in text and "ttng.async_tma_copy" in text
    assert ("ttg.warp_specialize" in text) == apart
    np.testing.assert_allclose(y.astype(np.float64), right, rtol=4e-3, atol=4e-2)


@pytest.mark.parametrize("programs", [5, 8])
def test_shared_sums(programs: int) -> None:
    """Three tiles, one of them of the first matrix, whose sums programs share; then their sums."""
    batch, m, n, k = 2, 120, 296, 328
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((batch, m, k), (batch, k, n)))
    right = a.astype(np.float64) @ b.astype(np.float64)
    x, w = aligned(a), aligned(b)
    pieces = np.full((2 * programs, 128, 256), np.nan, np.float32)
    blocks = {"ACC": tl.float32, "GROUP": 8, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    constants = {
        **blocks, "PRECISION": "ieee", "A_TRANSPOSED": False, "B_TRANSPOSED": False, "STAGES": 3
    }
    values = {
        **dict.fromkeys(matmul.matmul_shared.arg_names, 0), "x": (x, [1, 128, 64]),
        "w": (w, [1, 64, 256]), "pieces_ptr": pieces, "first_tile": 1, "count": 3, "m": m, "n": n,
        "k": k,
    }  # fmt: skip
    text = launch(matmul.matmul_shared, constants, values, 8, programs)
    assert "warp_group_dot" in text and "ttng.async_tma_copy" in text
    y = np.full((batch, m, n), 7, np.float32)
    pointers = ("bias_ptr", "a_scale_ptr", "b_scale_ptr", "residual_ptr", "inner_ptr", "KIND")
    values = {
        **dict.fromkeys(matmul.finish_shared.arg_names, 0), "pieces_ptr": pieces, "y_ptr": y,
        "first_tile": 1, "count": 3, "programs": programs, "m": m, "n": n, "k": k, "yb": m * n,
        "ym": n, "yn": 1,
    }  # fmt: skip
    launch(matmul.finish_shared, {**dict.fromkeys(pointers), **blocks, "ROWS": 16}, values, 4, 24)
    assert (y[0, :, :256] == 7).all()
    np.testing.assert_allclose(y[0, :, 256:], right[0, :, 256:], rtol=4e-3, atol=4e-2)
    np.testing.assert_allclose(y[1], right[1], rtol=4e-3, atol=4e-2)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("rows", "columns", "many"), [(22, 256, 4), (9, 200, 1)])
def test_gradients_of_norms(rows: int, columns: int, many: int, center: bool) -> None:
    """Rows are copied ahead of the loop that computes on them."""
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    w = rng.standard_normal(columns).astype(np.float32)
    exact = x.astype(np.float64)
    mean = exact.mean(1) if center else np.zeros(rows)
    rstd = 1 / np.sqrt(((exact - mean[:, None]) ** 2).mean(1))
    h, g = (exact - mean[:, None]) * rstd[:, None], dy.astype(np.float64) * w
    right = g - h * (g * h).mean(1, keepdims=True)
    right = (right - g.mean(1, keepdims=True) if center else right) * rstd[:, None]
    programs = 2
    dx, dw, db = (np.full(s, 7, np.float32) for s in ((rows, columns), *[(programs, columns)] * 2))
    statistics = np.stack([mean, np.zeros(rows)]).astype(np.float32)
    values = {
        "x_ptr": x, "w_ptr": w, "dy_ptr": dy, "mean_ptr": statistics,
        "rstd_ptr": rstd.astype(np.float32), "dx_ptr": dx, "dw_ptr": dw, "db_ptr": db, "rows": rows,
        "columns": columns, **dict.fromkeys(("x_stride", "dy_stride", "dx_stride"), columns),
    }  # fmt: skip
    block = 256
    constants = {"MEAN": center, "ROWS": many, "BLOCK": block, "STAGES": 3,
                 "EVEN": rows % many == 0 and columns == block}  # fmt: skip
    text = launch(norm.norm_backward_whole, constants, values, 4, programs)
    assert "ttg.async_copy_global_to_local" in text
    np.testing.assert_allclose(dx, right, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dw.sum(0), (dy * h).sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(db.sum(0), dy.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-4)


def test_paged_attention() -> None:
    """Copies of keys and values start ahead, at pages whose numbers were loaded before. A tile has
    keys of two heads."""
    rng, lengths, page, d = np.random.default_rng(5), np.array([150, 0, 61], np.int32), 16, 64
    table = rng.permutation(64)[:48].reshape(3, 16).astype(np.int32)
    pages = [rng.standard_normal((64, page, 4, d)).astype(np.float32) for _ in range(2)]
    q = rng.standard_normal((3, 8, d)).astype(np.float32)
    splits, dims = 2, dict.fromkeys(("D", "DV", "DP", "DVP"), d)
    acc = aligned(np.zeros((3 * 8 * splits, d), np.float32))
    lse = np.zeros(3 * 8 * splits, np.float32)
    strides = {
        f"{name}{axis}": stride // array.itemsize
        for name, array, axes in (("q", q, "bh"), ("k", pages[0], "plh"), ("v", pages[1], "plh"))
        for axis, stride in zip(axes, array.strides, strict=False)
    }
    text = launch(
        paged.paged_part,
        {**dims, "PAGE": page, "GROUP": 2, "ROWS": 16, "HEADS": 2, "SPLITS": splits,
         "LEFT": False, "BLOCK_N": 32, "STAGES": 3},
        {"q_ptr": q, "k_ptr": pages[0], "v_ptr": pages[1], "table_ptr": table,
         "lengths_ptr": lengths, "acc_ptr": acc, "lse_ptr": lse, "scale": d**-0.5,
         "kv_heads": 4, "left": 0, **strides, "tb": table.shape[1]},
        4, 3 * 2 * splits,
    )  # fmt: skip
    assert text.count("async_copy_global_to_local") == 6  # of two steps before the loop, and in it
    parts, weights = acc.reshape(3, 8, splits, d), np.exp2(lse.reshape(3, 8, splits, 1))
    total = weights.sum(2)
    found = (parts * weights).sum(2) / np.where(total == 0, 1, total)
    for i, length in enumerate(lengths):
        k, v = (
            np.repeat(x[table[i]].reshape(-1, 4, d)[:length], 2, 1).swapaxes(0, 1).astype(float)
            for x in pages
        )
        p = np.exp((q[i][:, None] @ k.swapaxes(1, 2)) * d**-0.5)
        right = (p @ v)[:, 0] / (p.sum(-1) if length else 1)
        np.testing.assert_allclose(found[i], right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_group_norm_gradients(whole: bool) -> None:
    """One loop over channels and steps, of which loads are ahead; or all of a group in registers.
    """
    rng, (batch, groups, group, positions) = np.random.default_rng(6), (2, 2, 3, 160)
    shape = batch, groups, group * positions
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    w = rng.standard_normal(groups * group).astype(np.float32)
    exact = x.astype(np.float64)
    mean, rstd = exact.mean(-1), 1 / np.sqrt(exact.var(-1) + 1e-5)
    means = np.stack([mean, np.zeros_like(mean)]).astype(np.float32)
    dx = aligned(np.zeros(shape, np.float32))
    sums, products = (np.zeros(batch * groups * group, np.float32) for _ in range(2))
    kernel: Any = group_norm.group_gradients_whole if whole else group_norm.group_gradients
    steps = {"BLOCK": 64, "EVEN": False, "STAGES": 3}
    text = launch(
        kernel, {"CHANNELS": 4, "POSITIONS": 256, "EVEN": False} if whole else steps,
        {"x_ptr": aligned(x), "dy_ptr": aligned(dy), "w_ptr": w, "mean_ptr": means,
         "rstd_ptr": rstd.astype(np.float32), "sum_ptr": sums, "product_ptr": products,
         "dx_ptr": dx, "groups": groups, "group": group, "positions": positions},
        4, batch * groups,
    )  # fmt: skip
    assert ("async_copy_global_to_local" in text) != whole
    h = (exact - mean[..., None]) * rstd[..., None]
    g = dy * np.repeat(w.reshape(groups, group), positions, 1)
    right = g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True)
    np.testing.assert_allclose(dx, right * rstd[..., None], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        sums, dy.reshape(-1, positions).sum(1, dtype=np.float64), rtol=1e-4, atol=1e-4
    )
