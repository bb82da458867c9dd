"""Layers of experts on several processes, which live as long as the program and compute one random
layer after the other."""

from __future__ import annotations

import io
import multiprocessing
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from tools.kernel_calls.bounded import Array, Bounded
from tools.kernel_calls.checking import Trial, Values
from tools.kernel_calls.operands import (
    HALVES,
    Operand,
    Source,
    bounded,
    computed,
    floats,
    format_of,
)
from tritium_kernels.distributed import (
    Mesh,
    SymmetricMemoryPool,
    convert_dp_to_ep,
    convert_ep_to_dp,
    make_expt_assignment,
)
from tritium_kernels.matmul import PrecisionConfig, matmul
from tritium_kernels.reduce import reduce
from tritium_kernels.tensor import make_ragged_tensor_metadata, remap_ragged_tensor_metadata
from tritium_kernels.topk import topk

MOST = 4
"""Processes at most."""


@dataclass(frozen=True)
class Layer:
    """A layer of experts: on how many processes, which experts each has, experts of a token."""

    size: int
    experts: dict[int, list[int]]
    act: int


def part_of(layer: Layer, mesh: Mesh, x: Tensor, logits: Tensor, w: Tensor) -> Tensor:
    """The rows of this process's tokens."""
    rank, (experts, width, out) = mesh.local_rank, w.shape
    share, act = x.shape[0] // layer.size, layer.act
    own = slice(rank * share, (rank + 1) * share)
    assignment = make_expt_assignment(layer.size, experts, layer.experts, "cpu")
    pool = SymmetricMemoryPool(mesh)
    pool.initialize_matmul(x.shape[0], width, out, act, experts, x.dtype, "cpu")
    chosen = topk(logits[own], act, all_gather=True, symm_mem_pool=pool)
    order = chosen.mask_metadata
    there = convert_dp_to_ep(x[own], assignment, chosen.indx, order.row_sorted_indx, pool)
    metadata = make_ragged_tensor_metadata(order.col_sum, there.shape[0])
    mine = remap_ragged_tensor_metadata(metadata, assignment.expt_map[rank])
    weights = w[sorted(layer.experts[rank])]
    y = matmul(there, weights, None, mine, precision_config=PrecisionConfig(allow_tf32=False))
    back = convert_ep_to_dp(y, assignment, chosen.indx, order.col_sorted_indx, pool)
    gates = chosen.vals[own]
    return reduce(back.view(share, act, out), 1, scale=gates[:, :, None])[0]


def packed(message: Any) -> bytes:
    """A message with tensors as bytes: sent as they are, tensors would be files that stay open."""
    stream = io.BytesIO()
    torch.save(message, stream)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=False)


def _serve(rank: int, file: str, pipe: Any) -> None:
    """Compute this process's part of layers until the program ends."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=MOST)
    groups = {n: dist.new_group(list(range(n))) for n in range(2, MOST + 1)}
    while True:
        try:
            layer, *given = unpacked(pipe.recv_bytes())
        except EOFError:
            return
        try:
            mesh = Mesh(groups.get(layer.size))
            answer: Any = part_of(layer, mesh, *given)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pipe.send_bytes(packed(answer))


class Processes:
    """The processes, and a pipe to each."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        file = Path(tempfile.mkdtemp(prefix="tritium_fuzz_")) / "meet"
        self.lock, self.pipes = threading.Lock(), []
        for rank in range(MOST):
            ours, theirs = context.Pipe()
            context.Process(target=_serve, args=(rank, str(file), theirs), daemon=True).start()
            theirs.close()  # it ends with this process then
            self.pipes.append(ours)

    def compute(self, layer: Layer, *given: Tensor) -> Tensor:
        """All rows of the layer."""
        with self.lock:
            for pipe in self.pipes[: layer.size]:
                pipe.send_bytes(packed((layer, *given)))
            found = [unpacked(pipe.recv_bytes()) for pipe in self.pipes[: layer.size]]
        errors = [part for part in found if isinstance(part, str)]
        if errors:
            raise RuntimeError(f"a process of {layer.size}: {errors[0]}")
        with torch.autocast("cpu", enabled=False):  # it refuses to put float16 together
            return torch.cat(found)


@cache
def processes() -> Processes:
    return Processes()


def experts_of_processes(source: Source) -> Trial:
    """A layer of experts whose tokens go to the processes that have their experts, and back."""
    dtype, size, experts = source.choice(HALVES), source.randint(1, MOST), source.size(70, 1)
    act = source.randint(1, min(experts, 5))
    given: dict[int, list[int]] = {shard: [] for shard in range(size)}
    for expert in range(experts):
        given[source.randrange(size)].append(expert)
    layer = Layer(size, given, act)
    tokens, width, out = size * source.size(17), source.size(70, 1), source.size(70, 1)
    shapes = [(tokens, width), (experts, width, out)]
    x, w = floats(source, shapes, dtype, "normal")
    logits = Operand((tokens, experts), dtype, "plain", source.choice(["normal", "ties"]))
    operands = {"x": x, "logits": logits, "w": w}
    inner, stored = computed(dtype), format_of(dtype)

    def forward(values: Values) -> list[Bounded]:
        chosen: Array = np.argsort(-values["logits"], axis=1, kind="stable")[:, :act]
        best = bounded(np.take_along_axis(values["logits"], chosen, 1), inner)
        terms = (best - best.max(1, keepdims=True)).exp()
        gates = (terms / terms.sum(1, keepdims=True)).rounded(stored, inner)
        rows = bounded(values["x"][:, None, None], inner).matmul(values["w"][chosen])
        parts = rows.rounded(stored, inner)[:, :, 0] * gates.reshape(tokens, act, 1)
        return [parts.sum(1)]

    def function(x: Tensor, logits: Tensor, w: Tensor) -> Tensor:
        rows = processes().compute(layer, *(t.detach().cpu() for t in (x, logits, w)))
        return rows.to(x.device)

    return Trial(
        "experts_of_processes", function, operands, forward, compiles=False,
        options={"size": size, "experts": given, "act": act},
    )  # fmt: skip


CASES = (experts_of_processes,)
