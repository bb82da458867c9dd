"""Configurations of products, on devices that are not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.support import torch
from tritium_kernels import target_info
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul_details import opt_flags
from tritium_kernels.matmul_details.opt_flags_details import opt_flags_nvidia as nvidia
from tritium_kernels.tensor import make_ragged_tensor_metadata_torch
from tritium_kernels.tensor_details.dtype import BF16, FP4, FP8_E4M3FN, FP32
from tritium_kernels.tensor_details.layout import HopperMXScaleLayout

H200 = target_info.Machine("cuda", 90, 132, 232448)
A100 = target_info.Machine("cuda", 80, 108, 166912)
B200 = target_info.Machine("cuda", 100, 148, 232448)
MI300 = target_info.Machine("hip", "gfx942", 304, 65536)
MI350 = target_info.Machine("hip", "gfx950", 256, 163840)
CPU = target_info.Machine("cpu", "", 2, 65536)


class Config:
    """The fields of a `PrecisionConfig` that the heuristics read."""

    def __init__(self, b_scale=None, a_scale=None, invariant=False):
        self.a_mx_scale, self.b_mx_scale = a_scale, b_scale
        self.enforce_bitwise_invariance = invariant


class Scaled:
    """The properties of a tensor of scales that the heuristics read."""

    def __init__(self, layout):
        self.storage = self
        self.layout = layout


def choose(monkeypatch, machine, m, n, k, lhs=BF16, rhs=BF16, config=None, **options):
    monkeypatch.setattr(target_info, "machine", lambda: machine)
    arch = machine.arch if machine.backend == "cuda" else 0
    monkeypatch.setattr(
        target_info, "cuda_capability_geq", lambda major, minor=0: arch >= 10 * major + minor > 0
    )
    given = {
        "ragged_metadata": None, "can_use_persistent_tma": True, "can_use_split_k": True,
        "epilogue_effective_itemsize": None, "x_transpose": False, "has_y_acc_in": False,
        "block_k": None, "batch_size": 1, **options,
    }  # fmt: skip
    return opt_flags.make_opt_flags(
        BF16, lhs, rhs, config or Config(), given.pop("batch_size"), m, n, k, **given
    )


@pytest.fixture(autouse=True)
def nothing_prescribed():
    yield
    opt_flags.reset_opt_flags()
    opt_flags.reset_opt_flags_constraints()


@pytest.mark.parametrize(
    ("machine", "shape", "types", "expected"),
    [
        # block_m, block_n, block_k, warps, stages, split_k, persistent
        (H200, (4096, 4096, 4096), (BF16, BF16), (128, 256, 64, 8, 4, 1, True)),
        (H200, (1024, 1024, 4096), (BF16, BF16), (128, 128, 64, 8, 5, 2, False)),
        (H200, (16, 1024, 4096), (BF16, BF16), (16, 128, 64, 4, 5, 16, False)),
        (H200, (4096, 4096, 4096), (FP8_E4M3FN, FP8_E4M3FN), (128, 256, 128, 8, 4, 1, True)),
        (H200, (64, 16, 64), (FP32, FP32), (64, 16, 32, 4, 5, 1, False)),
        (A100, (4096, 4096, 4096), (BF16, BF16), (128, 128, 64, 8, 4, 1, True)),
        (MI300, (4096, 4096, 4096), (BF16, BF16), (128, 256, 64, 8, 2, 1, False)),
        (MI300, (16, 1024, 8192), (BF16, BF16), (16, 128, 64, 1, 2, 32, False)),
        (MI350, (4096, 4096, 4096), (FP8_E4M3FN, FP8_E4M3FN), (128, 256, 128, 8, 2, 1, False)),
        (CPU, (4096, 4096, 4096), (BF16, BF16), (64, 64, 64, 4, 1, 1, False)),
        (CPU, (3, 5, 4096), (BF16, BF16), (16, 16, 64, 4, 1, 1, False)),
    ],
)
def test_choices(monkeypatch, machine, shape, types, expected):
    flags = choose(monkeypatch, machine, *shape, *types)
    found = (flags.block_m, flags.block_n, flags.block_k, flags.num_warps, flags.num_stages,
             flags.split_k, flags.is_persistent)  # fmt: skip
    assert found == expected and flags.arch == machine.arch


def test_options_of_amd(monkeypatch):
    flags = choose(monkeypatch, MI300, 4096, 4096, 4096)
    assert flags.xcd_swizzle == 8
    assert flags.target_kernel_kwargs == {
        "waves_per_eu": 0, "matrix_instr_nonkdim": 32, "kpack": 1
    }  # fmt: skip
    with (
        opt_flags.scoped_opt_flags_constraints({"is_persistent": True}),
        pytest.raises(opt_flags.InapplicableConstraint, match="AMD GPUs have no engine"),
    ):
        choose(monkeypatch, MI300, 4096, 4096, 4096)


def test_slices_and_scales(monkeypatch):
    sizes = torch.full((128,), 32, dtype=torch.int32)
    metadata = make_ragged_tensor_metadata_torch(sizes, 4096)
    scaled = Config(b_scale=Scaled(HopperMXScaleLayout(-2, 4)))
    flags = choose(
        monkeypatch, H200, 4096, 2880, 2880, rhs=FP4, config=scaled, ragged_metadata=metadata,
        mx_block_size=32,
    )  # fmt: skip
    assert (flags.block_m, flags.block_n, flags.block_k, flags.num_warps) == (64, 128, 128, 4)
    few = replace(metadata, expected_slice_size=4)  # a product of warp groups has 64 rows
    for machine, rows in ((H200, 64), (A100, 16)):
        flags = choose(monkeypatch, machine, 512, 2880, 2880, ragged_metadata=few)
        assert flags.block_m == rows
    monkeypatch.setattr(target_info, "cuda_capability_geq", lambda major, minor=0: True)
    assert nvidia.compute_swap_xw(Config(b_scale=1), 32, True, BF16, FP4)
    assert not nvidia.compute_swap_xw(Config(b_scale=1), 128, True, BF16, FP4)
    assert not nvidia.compute_swap_xw(Config(), 32, True, BF16, BF16)
    assert nvidia.is_blackwell_mx_lhs_dense_rhs(Config(a_scale=1), FP8_E4M3FN, FP8_E4M3FN)


@pytest.mark.parametrize(
    ("warps", "rows", "expected"),
    [
        # block_m, tail_m, block_n, warps, stages, persistent
        (None, 32, (64, 0, 256, 8, 4, True)), (None, 64, (128, 32, 128, 4, 3, False)),
        (None, 128, (128, 32, 128, 4, 3, False)), (None, 256, (256, 32, 128, 8, 4, False)),
        (None, 512, (128, 0, 256, 8, 4, True)),
        (8, 32, (64, 0, 128, 4, 4, False)), (8, 64, (64, 16, 128, 4, 4, False)),
        (8, 256, (128, 32, 128, 8, 4, False)), (4, 256, (64, 16, 128, 4, 4, False)),
    ],
)  # fmt: skip
def test_ends_of_slices(monkeypatch, warps, rows, expected):
    """Beside tiles on Hopper, by the mean slice; in MXFP4 where `warps` is given."""
    sizes = torch.full((128,), rows, dtype=torch.int32)
    metadata = make_ragged_tensor_metadata_torch(sizes, 128 * rows)
    config, options = Config(), {"ragged_metadata": metadata}
    if warps:
        config = Config(b_scale=Scaled(HopperMXScaleLayout(-2, warps)))
        options |= {"rhs": FP4, "mx_block_size": 32, "can_use_persistent_tma": False}
    flags = choose(monkeypatch, H200, 128 * rows, 5760, 2880, config=config, **options)
    found = (flags.block_m, flags.tail_m, flags.block_n, flags.num_warps, flags.num_stages,
             flags.is_persistent)  # fmt: skip
    assert found == expected and flags.group_m == (1 if flags.tail_m else 8)
    assert not choose(monkeypatch, A100, 128 * rows, 5760, 2880, **options).tail_m
    with opt_flags.scoped_opt_flags_constraints({"tail_m": 0}):
        flags = choose(monkeypatch, H200, 128 * rows, 5760, 2880, config=config, **options)
        assert not flags.tail_m


@pytest.mark.parametrize(("rows", "expected"), [(64, (64, 16)), (128, (128, 32)), (256, (256, 32))])
def test_warps_apart(monkeypatch, rows: int, expected: tuple[int, int]):
    sizes = torch.full((4,), rows, dtype=torch.int32)
    metadata = make_ragged_tensor_metadata_torch(sizes, 4 * rows)
    given = {"ragged_metadata": metadata, "can_be_apart": True}
    assert not choose(monkeypatch, H200, 4 * rows, 5760, 2880, **given).apart
    with opt_flags.scoped_opt_flags_constraints({"apart": True}):
        flags = choose(monkeypatch, H200, 4 * rows, 5760, 2880, **given)
    assert flags.apart and (flags.block_m, flags.tail_m) == expected
    with opt_flags.scoped_opt_flags(flags):
        assert choose(monkeypatch, H200, 4 * rows, 5760, 2880, **given) is flags
        with pytest.raises(opt_flags.InapplicableConstraint, match="apart: only for Hopper"):
            choose(monkeypatch, H200, 4 * rows, 5760, 2880, ragged_metadata=metadata)


@pytest.mark.parametrize(
    ("rows", "n", "tile"),
    [(64, 5760, (64, 192)), (128, 5760, (128, 192)), (256, 5760, (128, 192)),
     (64, 5632, (64, 128))],
)
def test_warps_that_widen_are_apart(monkeypatch, rows: int, n: int, tile: tuple[int, int]):
    sizes = torch.full((4,), rows, dtype=torch.int32)
    given = {
        "rhs": FP4, "can_be_apart": True, "block_k": 128, "mx_block_size": 32,
        "config": Config(Scaled(HopperMXScaleLayout(-2, 8))),
        "ragged_metadata": make_ragged_tensor_metadata_torch(sizes, 4 * rows),
    }  # fmt: skip
    flags = choose(monkeypatch, H200, 4 * rows, n, 2880, **given)
    assert flags.apart and (flags.block_m, flags.block_n) == tile
    with opt_flags.scoped_opt_flags_constraints({"num_warps": 8}):
        assert not choose(monkeypatch, H200, 4 * rows, n, 2880, **given).apart


@pytest.mark.parametrize(("ragged", "tail"), [(False, 16), (True, 24)])
def test_ends_that_cannot_be(monkeypatch, ragged, tail):
    sizes = torch.full((4,), 64, dtype=torch.int32)
    metadata = make_ragged_tensor_metadata_torch(sizes, 256) if ragged else None
    with (
        opt_flags.scoped_opt_flags_constraints({"tail_m": tail}),
        pytest.raises(opt_flags.InapplicableConstraint, match=f"tail_m={tail}: 0 or, for rows"),
    ):
        choose(monkeypatch, H200, 256, 256, 256, ragged_metadata=metadata)


def test_rows_that_do_not_depend_on_others(monkeypatch):
    for m in (1, 100, 5000):
        flags = choose(monkeypatch, H200, m, 1024, 8192, config=Config(invariant=True))
        assert flags.block_m == 128 and flags.split_k == 1
    with (
        opt_flags.scoped_opt_flags_constraints({"split_k": 4}),
        pytest.raises(opt_flags.InapplicableConstraint, match="enforce_bitwise_invariance allows"),
    ):
        choose(monkeypatch, H200, 16, 1024, 8192, config=Config(invariant=True))


def test_constraints(monkeypatch):
    opt_flags.update_opt_flags_constraints({"block_n": 64, "split_k": 3, "num_warps": 4})
    flags = choose(monkeypatch, H200, 16, 1024, 8192)
    assert (flags.block_n, flags.split_k, flags.num_warps) == (64, 3, 4)
    with opt_flags.scoped_opt_flags_constraints({"split_k": 5}):
        assert choose(monkeypatch, H200, 16, 1024, 8192).split_k == 5
    assert choose(monkeypatch, H200, 16, 1024, 8192).split_k == 3
    opt_flags.set_idle_sms(7)
    assert choose(monkeypatch, H200, 16, 1024, 8192).idle_sms == 7
    opt_flags.reset_opt_flags_constraints()
    assert choose(monkeypatch, H200, 16, 1024, 8192).split_k == 16
    with opt_flags.scoped_opt_flags_constraints({"max_allowable_mn": 1024}):
        assert choose(monkeypatch, H200, 16, 1024, 8192).split_k == 1
    with opt_flags.scoped_opt_flags(flags):
        assert choose(monkeypatch, H200, 4096, 4096, 64) is flags
        with pytest.raises(ArgumentError, match=r"opt_flags is given.*accepted: reset_opt_flags"):
            opt_flags.set_opt_flags(flags)


@pytest.mark.parametrize(
    ("constraints", "options", "message"),
    [
        ({"is_persistent": True}, {"can_use_persistent_tma": False}, "bulk copies cannot read"),
        ({"split_k": 2}, {"can_use_split_k": False}, "split_k=2: this product's sum cannot be"),
        ({"block_k": 64}, {"block_k": 128}, "block_k=64: a layout requires a multiple of 128"),
        ({"apart": True}, {}, "apart: only for Hopper, slices of rows"),
        ({"apart": True, "block_n": 64}, {"can_be_apart": True}, "block_n=64: with apart 128, 192"),
        ({"apart": True, "block_m": 32}, {"can_be_apart": True}, "block_m=32: with apart 64, 128"),
    ],
)
def test_constraints_that_cannot_be_met(monkeypatch, constraints, options, message: str):
    with (
        opt_flags.scoped_opt_flags_constraints(constraints),
        pytest.raises(opt_flags.InapplicableConstraint, match=message),
    ):
        choose(monkeypatch, H200, 4096, 4096, 4096, **options)


def test_errors():
    with pytest.raises(ArgumentError, match="constraints names 'block_q'; accepted: block_m"):
        opt_flags.update_opt_flags_constraints({"block_q": 1})
