"""Linear attention, whose loop stores while it copies the next chunk, executed on the CPU as for a
Hopper GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
from tests.simt.test_warp_specialize import run
from tests.support.warp_specialize import random
from tritium.compiler import ASTSource
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget
from tritium_kernels.dense.kernels.linear_attention import linear_attention

HEADS, LENGTH, D = 1, 200, 64


@pytest.mark.covering(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("num_stages", [2, 3])
def test_linear_attention(num_stages: int, reverse: bool, no_ptxas: None) -> None:
    arrays = "q_ptr", "k_ptr", "v_ptr", "o_ptr"
    constants = {
        "decay_ptr": None, "D": D, "DV": D, "DP": D, "BV": 64, "CHUNK": 64, "REVERSE": reverse,
        "PRECISION": "tf32",
    }  # fmt: skip
    names = linear_attention.arg_names
    types = dict.fromkeys(names, "i32") | dict.fromkeys(arrays, "*fp16") | {"scale": "fp32"}
    types |= dict.fromkeys(constants, "constexpr")
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(names)
        if types[name] != "constexpr" and name not in ("scale", "heads", "length")
    }  # fmt: skip
    source = ASTSource(linear_attention, types, constants, aligned)
    options = {"num_warps": 4, "num_stages": num_stages}
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ttgir"]
    loop = text.split("scf.for", 1)[1].split("scf.yield", 1)[0]
    assert loop.count("ttg.async_copy_global_to_local") == 3 and "tt.store" in loop
    q, k, v = (random(LENGTH, D, seed=i) / 4 for i in range(3))
    o = np.zeros_like(q)
    strides = [np.int32(n) for n in (LENGTH * D, LENGTH * D, D)] * 4
    run(parse_module(text), 4, (1, 1), [], q, k, v, o, *strides, np.int32(HEADS),
        np.int32(LENGTH), np.float32(0.5))  # fmt: skip
    before = np.tri(LENGTH).T if reverse else np.tri(LENGTH)
    scores = q.astype(np.float64) @ k.astype(np.float64).T * before
    np.testing.assert_allclose(o, scores @ v * 0.5, 1e-2, 2e-2)
