"""Experts on several processes: tokens go to the experts that they chose, and come back.

Each process has some of the tokens (data parallel: dp) and some of the experts (expert parallel:
ep). Rows are written straight into the memory of the process that needs them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.distributed_details.mesh import Mesh as Mesh
from tritium_kernels.distributed_details.mesh import SymmetricMemoryPool as SymmetricMemoryPool
from tritium_kernels.errors import (
    FLOATS,
    LONGEST,
    check_given,
    check_integer,
    check_like,
    check_operand,
    check_rank,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, on, power_of_two
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import distributed as kernels
from tritium_kernels.tensor_details.layout_details.base import up_to

_INDICES = (torch.int16, torch.int32, torch.int64)
_MOST_COLUMNS = 1024
"""Columns of one program."""


@dataclass(frozen=True)
class ExptAssignment:
    """The assignment of experts to processes.

    Attributes:
        expt_bitmask: int32 (processes, words): bits of the experts of each.
        expt_boolmask: (processes, experts).
        expt_map: int32 (processes, experts): the number of an expert on a process; -1: not there.
        n_expts_per_shard: experts of each process.
    """

    expt_bitmask: Tensor
    expt_boolmask: Tensor
    expt_map: Tensor
    n_expts_per_shard: list[int]


def _check_counts(op: str, n_expt_shard: int, n_expt_tot: int) -> None:
    check_integer(op, "n_expt_shard", n_expt_shard, 1, LONGEST)
    check_integer(op, "n_expt_tot", n_expt_tot, 0, LONGEST)


def make_expt_dict_uniform(n_expt_shard: int, n_expt_tot: int) -> dict[int, list[int]]:
    """Experts of each process: the same number of neighbours; the last ones may have fewer."""
    _check_counts("make_expt_dict_uniform", n_expt_shard, n_expt_tot)
    each = cdiv(n_expt_tot, n_expt_shard)
    experts = list(range(n_expt_tot))
    return {shard: experts[shard * each : (shard + 1) * each] for shard in range(n_expt_shard)}


def make_expt_dict_random(n_expt_shard: int, n_expt_tot: int) -> dict[int, list[int]]:
    """Experts of each process, chosen by `random`; a process may have none."""
    _check_counts("make_expt_dict_random", n_expt_shard, n_expt_tot)
    made: dict[int, list[int]] = {shard: [] for shard in range(n_expt_shard)}
    for expert in range(n_expt_tot):
        made[random.randrange(n_expt_shard)].append(expert)
    return made


def make_expt_assignment(
    n_expt_shard: int, n_expt_tot: int, expt_dict: Mapping[int, Sequence[int]],
    device: torch.device | str,
) -> ExptAssignment:  # fmt: skip
    """The masks of an assignment; `expt_dict`: the experts of each process."""
    op = "make_expt_assignment"
    _check_counts(op, n_expt_shard, n_expt_tot)
    check_given(op, Mapping, expt_dict=expt_dict)
    if sorted(expt_dict) != list(range(n_expt_shard)):
        accepted = f"0 to {n_expt_shard - 1}"
        raise refuse(op, "expt_dict", f"has the keys {sorted(expt_dict)}", accepted)
    given = sorted(expert for experts in expt_dict.values() for expert in experts)
    if given != list(range(n_expt_tot)):
        accepted = f"0 to {n_expt_tot - 1}, each of them once"
        raise refuse(op, "expt_dict", f"has the experts {given}", accepted)
    numbers = torch.full((n_expt_shard, n_expt_tot), -1, dtype=torch.int32)
    for shard, experts in expt_dict.items():
        for number, expert in enumerate(sorted(experts)):
            numbers[shard, expert] = number
    mask = numbers >= 0
    bits = torch.zeros((n_expt_shard, up_to(n_expt_tot, 32)), dtype=torch.int64)
    bits[:, :n_expt_tot] = mask
    words = (bits.view(n_expt_shard, -1, 32) << torch.arange(32)).sum(2).to(torch.int32)
    counts = [len(expt_dict[shard]) for shard in range(n_expt_shard)]
    return ExptAssignment(words.to(device), mask.to(device), numbers.to(device), counts)


def _check(
    op: str, src: Tensor, expt_assignment: ExptAssignment, expt_indx: Tensor, name: str,
    order: Tensor, mesh: Mesh,
) -> tuple[int, int]:  # fmt: skip
    """(tokens of a process, experts of a token)."""
    check_given(op, ExptAssignment, expt_assignment=expt_assignment)
    check_tensor(op, "src", src, FLOATS)
    check_rank(op, "src", src, (2,))
    check_tensor(op, "expt_indx", expt_indx, _INDICES)
    check_rank(op, "expt_indx", expt_indx, (2,))
    check_like(op, "expt_indx", expt_indx, "src", src)
    check_like(op, "expt_assignment", expt_assignment.expt_bitmask, "src", src)
    tokens, chosen = expt_indx.shape
    check_operand(op, name, order, (tokens * chosen,), "src", src, _INDICES)
    if expt_assignment.expt_map.shape[0] != mesh.world_size:
        found = f"has {expt_assignment.expt_map.shape[0]} processes"
        raise refuse(op, "expt_assignment", found, f"{mesh.world_size}, those of the mesh")
    if tokens % mesh.world_size:
        found = f"has {tokens} rows"
        raise refuse(op, "expt_indx", found, f"a multiple of {mesh.world_size}, the processes")
    return tokens // mesh.world_size, chosen


def _addresses(tensors: Sequence[Tensor]) -> Tensor:
    values = [t.data_ptr() for t in tensors]
    return torch.tensor(values, dtype=torch.int64, device=tensors[0].device)


@untraced
def convert_dp_to_ep(
    src: Tensor, expt_assignment: ExptAssignment, expt_indx: Tensor, gate_indx: Tensor,
    symm_mem_pool: SymmetricMemoryPool,
) -> Tensor:  # fmt: skip
    """Rows of this process's experts, in the order by expert of all processes' rows.

    Rows of other processes' experts are left as they come.

    Args:
        src: this process's tokens (tokens, columns); all processes have as many.
        expt_indx: experts of all tokens (tokens of all, experts of a token); -1 for none.
        gate_indx: the place of each of them in the order by expert (`row_sorted_indx`).
    """
    op = "convert_dp_to_ep"
    check_given(op, SymmetricMemoryPool, symm_mem_pool=symm_mem_pool)
    mesh = symm_mem_pool.mesh
    local, chosen = _check(op, src, expt_assignment, expt_indx, "gate_indx", gate_indx, mesh)
    if src.shape[0] != local:
        raise refuse(op, "src", f"has {src.shape[0]} rows", f"{local}, a process's share")
    columns = src.shape[1]
    peers = symm_mem_pool.make_empty((expt_indx.numel(), columns), src.dtype, "dp_to_ep")
    symm_mem_pool.hdl.barrier(0)  # nobody reads what was there before
    if src.numel():
        block = min(power_of_two(columns), _MOST_COLUMNS)
        with on(op, "src", src):
            kernels.dispatch[(local, cdiv(columns, block))](
                src, *src.stride(), _addresses(peers), expt_assignment.expt_bitmask,
                expt_assignment.expt_bitmask.stride(0), expt_indx.contiguous(),
                gate_indx.contiguous(), mesh.local_rank * local, columns, ACT=chosen,
                SHARDS=mesh.world_size, BLOCK=block,
            )  # fmt: skip
    symm_mem_pool.hdl.barrier(1)  # all rows are there
    return peers[mesh.local_rank]


@untraced
def convert_ep_to_dp(
    src: Tensor, expt_assignment: ExptAssignment, expt_indx: Tensor, topk_indx: Tensor,
    symm_mem_pool: SymmetricMemoryPool,
) -> Tensor:  # fmt: skip
    """Rows of this process's tokens, (tokens * experts of a token, columns).

    Rows of what no expert takes are 0.

    Args:
        src: rows in the order by expert, of which those of this process's experts count.
        topk_indx: which of all tokens' experts each row belongs to (`col_sorted_indx`); -1: none.
    """
    op = "convert_ep_to_dp"
    check_given(op, SymmetricMemoryPool, symm_mem_pool=symm_mem_pool)
    mesh = symm_mem_pool.mesh
    local, chosen = _check(op, src, expt_assignment, expt_indx, "topk_indx", topk_indx, mesh)
    if src.shape[0] != expt_indx.numel():
        found = f"has {src.shape[0]} rows"
        raise refuse(op, "src", found, f"{expt_indx.numel()}, the elements of expt_indx")
    columns = src.shape[1]
    peers = symm_mem_pool.make_empty((local * chosen, columns), src.dtype, "ep_to_dp", clear=True)
    symm_mem_pool.hdl.barrier(0)  # all are cleared
    if src.numel():
        block = min(power_of_two(columns), _MOST_COLUMNS)
        with on(op, "src", src):
            kernels.combine[(src.shape[0], cdiv(columns, block))](
                src, *src.stride(), _addresses(peers),
                expt_assignment.expt_bitmask[mesh.local_rank], expt_indx.contiguous(),
                topk_indx.contiguous(), local * chosen, columns, BLOCK=block,
            )  # fmt: skip
    symm_mem_pool.hdl.barrier(1)
    return peers[mesh.local_rank]
