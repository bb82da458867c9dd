"""A layer of experts on two processes: of one machine's CPU with gloo, or of two GPUs with NCCL.

    python -m tests.kernels.experts.distributed_program [--device cuda]

Starts both processes, each of which compares its share with float64, and says what holds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

import tritium
from tests.kernels.support import close, normal, place, torch
from tests.support import device
from tritium.runtime import driver
from tritium_kernels.distributed import (
    Mesh,
    SymmetricMemoryPool,
    convert_dp_to_ep,
    convert_ep_to_dp,
    make_expt_assignment,
)
from tritium_kernels.matmul import FusedComm, PrecisionConfig, matmul
from tritium_kernels.matmul_details.reference import post_matmul_comm_torch
from tritium_kernels.meta import Closure
from tritium_kernels.reduce import reduce
from tritium_kernels.tensor import make_ragged_tensor_metadata, remap_ragged_tensor_metadata
from tritium_kernels.topk import topk

TOKENS, EXPERTS, ACT, WIDTH, OUT = 12, 6, 2, 32, 16
EXACT = PrecisionConfig(allow_tf32=False)


def layer(x, logits, w, pool, assignment):
    """The layer's rows of this process's tokens; w has the experts of this process alone."""
    rank = pool.mesh.local_rank
    chosen = topk(logits, ACT, all_gather=True, symm_mem_pool=pool)
    order = chosen.mask_metadata
    there = convert_dp_to_ep(x, assignment, chosen.indx, order.row_sorted_indx, pool)
    metadata = make_ragged_tensor_metadata(order.col_sum, there.shape[0])
    own = remap_ragged_tensor_metadata(metadata, assignment.expt_map[rank])
    y = matmul(there, w, None, own, precision_config=EXACT)
    back = convert_ep_to_dp(y, assignment, chosen.indx, order.col_sorted_indx, pool)
    share = x.shape[0]
    gates = chosen.vals[rank * share : (rank + 1) * share]
    return reduce(back.view(share, ACT, OUT), 1, scale=gates[:, :, None])[0]


def make_pool(mesh: Mesh, tokens: int) -> SymmetricMemoryPool:
    pool = SymmetricMemoryPool(mesh)
    pool.initialize_matmul(tokens, WIDTH, OUT, ACT, EXPERTS, torch.float32, place())
    return pool


def check(mesh: Mesh, experts: dict[int, list[int]]) -> None:
    """The layer against the same in float64, computed whole."""
    rank, share = mesh.local_rank, TOKENS // mesh.world_size
    x, logits = normal(TOKENS, WIDTH), normal(TOKENS, EXPERTS)
    w = normal(EXPERTS, WIDTH, OUT)
    own = slice(rank * share, (rank + 1) * share)
    assignment = make_expt_assignment(mesh.world_size, EXPERTS, experts, place())
    pool = make_pool(mesh, TOKENS)
    for _ in range(2):  # memory is used again
        y = layer(x[own], logits[own], w[sorted(experts[rank])], pool, assignment)
        best, chosen = torch.topk(logits.double(), ACT)
        parts = torch.einsum("td,takd->tak", x.double(), w.double().mT[chosen])
        close(y, (parts * torch.softmax(best, 1)[..., None]).sum(1)[own], scale=4)


def check_gradient(mesh: Mesh) -> None:
    """Each process has a loss of all rows; the gradient is that of their sum."""
    rank, size = mesh.local_rank, mesh.world_size
    share, logits = TOKENS // size, normal(TOKENS, EXPERTS)
    factors = normal(size, TOKENS, ACT)
    pool = make_pool(mesh, TOKENS)
    own = logits[rank * share : (rank + 1) * share].clone().requires_grad_()
    chosen = topk(own, ACT, all_gather=True, symm_mem_pool=pool)
    topk(normal(share, EXPERTS, seed=9), ACT, all_gather=True, symm_mem_pool=pool)  # used again
    (chosen.vals * factors[rank]).square().sum().backward()
    exact = logits.double().requires_grad_()
    values = torch.softmax(torch.topk(exact, ACT).values, 1)
    (values * factors.double()).square().sum().backward()
    close(own.grad, exact.grad[rank * share : (rank + 1) * share], scale=4)


@tritium.jit
def to_all(base_row, row, base_column, column):
    """Each row to its own place in every process's memory."""
    return None, row, column


def check_fused_comm(mesh: Mesh) -> None:
    """A product writes its columns to both processes: each gets the whole of them."""
    rank, size = mesh.local_rank, mesh.world_size
    x, w = normal(TOKENS, WIDTH), normal(WIDTH, size * OUT)
    pool = SymmetricMemoryPool(mesh)
    pool.initialize({"product": TOKENS * size * OUT * 4}, place())
    parts = pool.make_empty((TOKENS, size * OUT), torch.float32, "product", clear=True)
    pool.hdl.barrier(0)  # all are cleared
    handles = torch.tensor([part.data_ptr() for part in parts], device=place())
    comm = FusedComm(handles, Closure(to_all), None, rank, size)
    own = w[:, rank * OUT : (rank + 1) * OUT]
    c = torch.empty(TOKENS, size * OUT, device=place())
    matmul(x, own, None, precision_config=EXACT, c=c, fused_comm=comm)
    pool.hdl.barrier(1)  # all rows are there
    close(parts[rank], x.double() @ w.double(), scale=4)
    y = torch.full((3, 2), float(rank), device=place())
    whole = post_matmul_comm_torch(y, rank, size, size)
    assert whole.tolist() == [[0.0, 0.0], [1.0, 1.0]] * 3
    some = post_matmul_comm_torch(y, rank, 1, size, torch.tensor([0, 1, 0], device=place()))
    assert some.tolist() == [[float((row == 1) == (rank == 1))] * 2 for row in range(3)]


def in_process(rank: int, file: str, kind: str) -> None:
    """The program of each of two processes; `kind`: the type of device."""
    import torch.distributed as dist

    device.device = kind
    if kind == "cuda":
        torch.cuda.set_device(rank)
    else:
        driver.set_active_to_cpu()
    backend = "nccl" if kind == "cuda" else "gloo"
    dist.init_process_group(backend, f"file://{file}", rank=rank, world_size=2)
    mesh = Mesh(dist.group.WORLD)
    for experts in ({0: [0, 2, 3, 5], 1: [1, 4]}, {0: [], 1: [*range(EXPERTS)]}):
        check(mesh, experts)
    check_gradient(mesh)
    check_fused_comm(mesh)
    dist.destroy_process_group()


def run(kind: str) -> int:
    """Run both processes; the number of those that failed."""
    # A fork has loaded torch already; CUDA does not work in one.
    context: Any = multiprocessing.get_context("spawn" if kind == "cuda" else "fork")
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "meeting")
        running = [context.Process(target=in_process, args=(r, file, kind)) for r in range(2)]
        for process in running:
            process.start()
        for process in running:
            process.join()
    return sum(process.exitcode != 0 for process in running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    kind = parser.parse_args().device
    if kind == "cuda" and torch.cuda.device_count() < 2:
        sys.exit(f"two GPUs are needed, torch finds {torch.cuda.device_count()}")
    failed = run(kind)
    print(f"{kind}: {failed} of 2 processes failed" if failed else f"{kind}: all holds")
    sys.exit(failed)


if __name__ == "__main__":
    main()
