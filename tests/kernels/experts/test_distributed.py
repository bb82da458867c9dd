"""A layer of experts on two processes, which share memory on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.experts.distributed_program import (
    EXPERTS,
    OUT,
    WIDTH,
    check,
    check_gradient,
    make_pool,
)
from tests.kernels.support import normal, place, torch
from tritium_kernels.distributed import (
    Mesh,
    convert_dp_to_ep,
    convert_ep_to_dp,
    make_expt_assignment,
    make_expt_dict_random,
    make_expt_dict_uniform,
)
from tritium_kernels.distributed_details.mesh import MockSymmetricMemoryHandle
from tritium_kernels.errors import ArgumentError
from tritium_kernels.topk import topk

ROOT = Path(__file__).parents[3]


@pytest.mark.cpu
def test_two_processes():
    command = [sys.executable, "-m", "tests.kernels.experts.distributed_program"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0 and "cpu: all holds" in done.stdout, done.stdout


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
