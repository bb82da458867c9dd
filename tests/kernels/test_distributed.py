"""A layer of experts on two processes, which share memory on the CPU."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.support import close, normal, place, torch
from tritium_kernels.distributed import (
    Mesh,
    SymmetricMemoryPool,
    convert_dp_to_ep,
    convert_ep_to_dp,
    make_expt_assignment,
    make_expt_dict_random,
    make_expt_dict_uniform,
)
from tritium_kernels.distributed_details.mesh import MockSymmetricMemoryHandle
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import PrecisionConfig, matmul
from tritium_kernels.matmul_details.reference import post_matmul_comm_torch
from tritium_kernels.reduce import reduce
from tritium_kernels.tensor import make_ragged_tensor_metadata, remap_ragged_tensor_metadata
from tritium_kernels.topk import topk

ROOT = Path(__file__).parents[2]
TOKENS, EXPERTS, ACT, WIDTH, OUT = 12, 6, 2, 32, 16


def layer(x, logits, w, pool, assignment):
    """The layer's rows of this process's tokens; w has the experts of this process alone."""
    rank = pool.mesh.local_rank
    chosen = topk(logits, ACT, all_gather=True, symm_mem_pool=pool)
    order = chosen.mask_metadata
    there = convert_dp_to_ep(x, assignment, chosen.indx, order.row_sorted_indx, pool)
    metadata = make_ragged_tensor_metadata(order.col_sum, there.shape[0])
    own = remap_ragged_tensor_metadata(metadata, assignment.expt_map[rank])
    y = matmul(there, w, None, own, precision_config=PrecisionConfig(allow_tf32=False))
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


def in_process(rank: int, file: str) -> None:
    """The program of each of two processes."""
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=2)
    mesh = Mesh(dist.group.WORLD)
    check(mesh, {0: [0, 2, 3, 5], 1: [1, 4]})
    check_gradient(mesh)
    y = torch.full((3, 2), float(rank))
    whole = post_matmul_comm_torch(y, rank, 2, 2)
    assert whole.tolist() == [[0.0, 0.0], [1.0, 1.0]] * 3
    some = post_matmul_comm_torch(y, rank, 1, 2, torch.tensor([0, 1, 0]))
    assert some.tolist() == [[float((row == 1) == (rank == 1))] * 2 for row in range(3)]
    dist.destroy_process_group()


def fork_two(file: str) -> None:
    """Run `in_process` in two children of this process, which has loaded torch for both."""
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=in_process, args=(rank, file)) for rank in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0]


@pytest.mark.cpu
def test_two_processes(tmp_path):
    code = "import sys; from tests.kernels import test_distributed as t; t.fork_two(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "meet")]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_one_process():
    mesh = Mesh()
    check(mesh, make_expt_dict_uniform(1, EXPERTS))
    check_gradient(mesh)
    assert isinstance(make_pool(mesh, 4).hdl, MockSymmetricMemoryHandle)


def test_assignments():
    assert make_expt_dict_uniform(3, 7) == {0: [0, 1, 2], 1: [3, 4, 5], 2: [6]}
    made = make_expt_dict_random(3, 40)
    assignment = make_expt_assignment(3, 40, made, place())
    assert assignment.n_expts_per_shard == [len(made[i]) for i in range(3)]
    bits = (assignment.expt_bitmask[:, :, None] >> torch.arange(32, device=place())) & 1
    assert torch.equal(bits.flatten(1)[:, :40] != 0, assignment.expt_boolmask)
    for shard, experts in made.items():
        numbers = assignment.expt_map[shard]
        assert numbers[sorted(experts)].tolist() == list(range(len(experts)))
        assert int((numbers >= 0).sum()) == len(experts)


def small():
    pool = make_pool(Mesh(), 4)
    return pool, make_expt_assignment(1, EXPERTS, make_expt_dict_uniform(1, EXPERTS), place())


def zeros(*shape: int):
    return torch.zeros(shape, dtype=torch.int32, device=place())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, a: make_expt_assignment(2, 3, {0: [0]}, "cpu"), "expt_dict has the keys"),
        (lambda p, a: make_expt_assignment(1, 3, {0: [0, 2]}, "cpu"), "has the experts"),
        (lambda p, a: p.make_empty((4,), torch.int32, "no"), "region is 'no'; accepted: topk"),
        (lambda p, a: p.make_empty((9999,), torch.int32, "topk"), "bytes, from multiples of 128"),
        (lambda p, a: convert_dp_to_ep(normal(3, WIDTH), a, zeros(4, 2), zeros(8), p),
         "src has 3 rows; accepted: 4"),
        (lambda p, a: convert_ep_to_dp(normal(3, OUT), a, zeros(4, 2), zeros(8), p),
         "src has 3 rows; accepted: 8"),
        (lambda p, a: topk(normal(3, 4), 1, all_gather=True), "symm_mem_pool is None; accepted"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(*small())
