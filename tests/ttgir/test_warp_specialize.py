"""Loops split among warps: what they compute, in the reference semantics; what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from tests.nvidia.support import KERNELS
from tests.support.warp_specialize import attended, attention, launch, product, random
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import ParseError, parse_module


@pytest.mark.covering(1)
@pytest.mark.parametrize("depth", [0, 16, 96, 200])
@pytest.mark.parametrize("num_warps,num_stages", [(4, 2), (4, 3), (8, 4)])
@pytest.mark.parametrize("name,grid", [("matmul_blocks", 4), ("persistent", 3), ("halves", 3)])
def test_products(name: str, grid: int, num_warps: int, num_stages: int, depth: int) -> None:
    m, n = 200, 100
    module = product(name, num_warps, num_stages)
    a, b, c = random(m, max(depth, 8)), random(n, max(depth, 8), seed=1), random(m, n)
    launch(module, (grid,), [a, b, c], *map(np.int32, (m, n, depth)))
    want = a[:, :depth].astype(np.float64) @ b[:, :depth].T.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 2e-2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("keys,depth", [(64, 32), (64, 128), (128, 128)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, keys: int, depth: int) -> None:
    length = 384
    module = attention(causal, 8, keys, depth)
    running = [op for op in module.walk() if getattr(op, "pendings", 0)]
    assert len(running) == (1 + causal if depth == 128 else 0), "rotated loops"
    q, k, v = (random(length, depth, seed=i) for i in range(3))
    out, top = np.zeros_like(q), np.zeros(length, np.float32)
    scale = np.float32(0.25)
    launch(module, (length // 128, 1), [q, k, v, out], top, np.int32(length), scale)
    want = attended(q, k, v, scale, causal)
    np.testing.assert_allclose(out.astype(np.float64), want, 1e-2, 1e-2)


@pytest.mark.parametrize("name", ["persistent", "halves"])
def test_products_in_tensor_memory(name: str) -> None:
    module = product(name, 4, 3, arch=100)
    assert any(op.name == "ttng.tc_gen5_mma" for op in module.walk())
    a, b, c = random(200, 96), random(100, 96, seed=1), random(200, 100)
    launch(module, (3,), [a, b, c], *map(np.int32, (200, 100, 96)))
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 2e-2)


@pytest.mark.parametrize("keys,depth", [(64, 32), (128, 128)])
def test_attention_in_tensor_memory(keys: int, depth: int) -> None:
    module = attention(True, 8, keys, depth, arch=100)
    q, k, v = (random(384, depth, seed=i) for i in range(3))
    out, top = np.zeros_like(q), np.zeros(384, np.float32)
    scale = np.float32(0.25)
    launch(module, (3, 1), [q, k, v, out], top, np.int32(384), scale)
    want = attended(q, k, v, scale, True)
    np.testing.assert_allclose(out.astype(np.float64), want, 1e-2, 1e-2)


BARRIER = "!ttg.memdesc<1xi64, #shared, #smem, mutable>"
HEAD = """
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4],
    order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
    "ttg.threads-per-warp" = 32 : i32} {
"""


def meeting(default: str, worker: str, count: int = 1) -> Any:
    """A default region and a partition that share two barriers, `%a` and `%b`."""
    return parse_module(f"""{HEAD}
  tt.func public @k(%t: tensor<128xf32, #blocked>, %i: i32) {{
    %c0 = arith.constant 0 : i32
    %a = ttg.local_alloc : () -> {BARRIER}
    %b = ttg.local_alloc : () -> {BARRIER}
    ttng.init_barrier %a, {count} : {BARRIER}
    ttng.init_barrier %b, 1 : {BARRIER}
    ttg.warp_specialize(%a, %b)
    default {{
      {default}
      ttg.warp_yield
    }}
    partition0(%c: {BARRIER}, %d: {BARRIER}) num_warps(1) {{
      {worker}
      ttg.warp_return
    }} : ({BARRIER}, {BARRIER}) -> ()
    tt.return
  }}
}}
""")


def evaluate(module: Any) -> None:
    module.verify()
    Evaluator(module, Memory([])).launch("k", [np.zeros(128, np.float32), np.int32(0)], (1,))


ARRIVE = f"ttng.arrive_barrier %{{}}, 1 : {BARRIER}"
WAIT = f"ttng.wait_barrier %{{}}, %c0 : {BARRIER}"


def test_partitions_wait_for_each_other() -> None:
    evaluate(meeting("\n".join([WAIT.format("a"), ARRIVE.format("b")]),
                     "\n".join([ARRIVE.format("c"), WAIT.format("d")])))  # fmt: skip


@pytest.mark.parametrize(
    "default,worker,count",
    [
        ((WAIT, "a"), (WAIT, "d"), 1),  # each waits for the other one
        ((WAIT, "a"), (ARRIVE, "c"), 2),  # too few arrivals
        ((WAIT, "b"), (ARRIVE, "c"), 1),  # at another barrier
    ],
)
def test_a_deadlock_is_found(default: Any, worker: Any, count: int) -> None:
    texts = [text.format(name) for text, name in (default, worker)]
    with pytest.raises(EvaluationError, match="that nothing ends"):
        evaluate(meeting(*texts, count=count))


def test_values_from_outside_are_captured() -> None:
    text = "%x = arith.addi %i, %i : i32"
    with pytest.raises(VerifyException, match=re.escape("arith.addi in partition0 uses a value")):
        meeting("", text).verify()
    meeting(text, "%x = arith.addi %c0, %c0 : i32").verify()


@pytest.mark.parametrize(
    "attributes,captures,warps,message",
    [
        ("", "%t", 1, "scalars and shared memory can be captured"),
        ("", "%i", 3, "a partition of 3 warps"),
        ("attributes {requestedRegisters = array<i32: 25>}", "%i", 1, "25 registers"),
        ("attributes {requestedRegisters = array<i32: 24, 24>}", "%i", 1, "of 2 partitions"),
    ],
)
def test_refused(attributes: str, captures: str, warps: int, message: str) -> None:
    kind = {"%t": "tensor<128xf32, #blocked>", "%i": "i32"}[captures]
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_module(f"""{HEAD}
  tt.func public @k(%t: tensor<128xf32, #blocked>, %i: i32) {{
    ttg.warp_specialize({captures}) {attributes}
    default {{
      ttg.warp_yield
    }}
    partition0(%x: {kind}) num_warps({warps}) {{
      ttg.warp_return
    }} : ({kind}) -> ()
    tt.return
  }}
}}
""")


def test_partitions_as_the_reference_writes_them() -> None:
    """Two consumers, which compute the same, and a producer in the default region; one thread
    arrives for all of a consumer."""
    module = parse_module((KERNELS / "matmul_warp_specialize.ttgir").read_text())
    module.verify()
    m, n, k = 128, 128, 200
    a, b, c = random(m, k), random(n, k, seed=1), np.zeros((m, n), np.float16)
    launch(module, (2,), [a, b], c, *map(np.int32, (m, n, k)))
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, 2e-2, 2e-2)
