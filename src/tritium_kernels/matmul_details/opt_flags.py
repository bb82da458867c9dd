"""Configurations of products: tiles and launches, chosen by shape and device, or prescribed.

`make_opt_flags` asks the heuristics of the device's maker; `update_opt_flags_constraints` fixes
some of what they choose, `set_opt_flags` all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tritium_kernels import target_info
from tritium_kernels.errors import refuse
from tritium_kernels.launching.launch import cdiv, power_of_two
from tritium_kernels.launching.overrides import InapplicableConstraint as InapplicableConstraint
from tritium_kernels.launching.overrides import Overrides
from tritium_kernels.launching.overrides import (
    all_constraints_satisfied as all_constraints_satisfied,
)
from tritium_kernels.matmul_details.opt_flags_details import opt_flags_amd as amd
from tritium_kernels.matmul_details.opt_flags_details import opt_flags_nvidia as nvidia

INVARIANT_M = 128
"""Rows of a tile where results must not depend on how many rows there are."""


@dataclass(frozen=True)
class OptFlags:
    """A configuration of a product.

    Attributes:
        block_m, block_n, block_k: sizes of a tile.
        num_warps, num_stages: of a program.
        group_m: tiles along m whose programs run together, so that they share what they read.
        xcd_swizzle: dies of the GPU among which neighbouring programs are not spread; 1: one die.
        w_cache_modifier: how b is loaded: "", ".cg", ...
        split_k: programs among which a sum over k is divided.
        is_persistent: a program for each processor, each of which computes many tiles.
        idle_sms: processors that persistent programs leave to others.
        epilogue_subtile: parts in which a tile is stored.
        arch: that the configuration was chosen for.
        occupancy_target: programs that are to fit on a processor at once.
        target_kernel_kwargs: options that only this backend has.
        tail_m: rows that a tile has beside `block_m` where no more are left of a slice; 0: none.
        apart: some warps copy and the others multiply, in persistent programs.
    """

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int
    xcd_swizzle: int
    w_cache_modifier: str
    split_k: int
    is_persistent: bool
    idle_sms: int
    epilogue_subtile: int
    arch: int | str
    occupancy_target: int
    target_kernel_kwargs: dict[str, Any]
    tail_m: int = 0
    apart: bool = False


_PRESCRIBED: Overrides[OptFlags] = Overrides(
    (*(field.name for field in fields(OptFlags)), "max_allowable_mn")
)
update_opt_flags_constraints = _PRESCRIBED.update_opt_flags_constraints
reset_opt_flags_constraints = _PRESCRIBED.reset_opt_flags_constraints
scoped_opt_flags_constraints = _PRESCRIBED.scoped_opt_flags_constraints
set_opt_flags = _PRESCRIBED.set_opt_flags
reset_opt_flags = _PRESCRIBED.reset_opt_flags
scoped_opt_flags = _PRESCRIBED.scoped_opt_flags


def set_idle_sms(num_idle_sms: int) -> None:
    """Have persistent programs leave that many processors to others."""
    update_opt_flags_constraints({"idle_sms": num_idle_sms})


def max_allowable_mn(max_mn: int, m: int, n: int, split_k: int) -> int:
    """`split_k` for results of fewer than `max_mn` elements, 1 for larger ones."""
    return split_k if m * n < max_mn else 1


def _rows(m: int, batch_size: int, ragged_metadata: Any, invariant: bool) -> int:
    """Rows of a tile: as many as a slice is expected to have."""
    if invariant:
        return INVARIANT_M
    return max(16, min(power_of_two(_expected_rows(m, ragged_metadata)), 128))


def _expected_rows(m: int, ragged_metadata: Any) -> int:
    """Rows that a slice has on average."""
    if ragged_metadata is None:
        return m
    if ragged_metadata.expected_slice_size is not None:
        return ragged_metadata.expected_slice_size
    return cdiv(m, max(1, ragged_metadata.n_slices))


def _split(
    constraints: dict[str, Any], can_use_split_k: bool, invariant: bool, m: int, n: int,
    chosen: int,
) -> int:  # fmt: skip
    wanted = constraints.get("split_k")
    if wanted is None:
        split_k = chosen if can_use_split_k and not invariant else 1
        most = constraints.get("max_allowable_mn")
        return split_k if most is None else max_allowable_mn(most, m, n, split_k)
    if wanted > 1 and not can_use_split_k:
        raise InapplicableConstraint(f"split_k={wanted}: this product's sum cannot be divided")
    if wanted > 1 and invariant:
        raise InapplicableConstraint(f"split_k={wanted}: enforce_bitwise_invariance allows 1")
    return int(wanted)


def _rows_of_nvidia(
    m: int, routing_data: Any, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any,
    invariant: bool, takes_ends: bool, constraints: dict[str, Any],
) -> tuple[int, int]:  # fmt: skip
    """The rows of a tile, and those that it has beside them at the end of a slice."""
    tail_m = constraints.get("tail_m")
    if constraints.get("block_m"):
        return constraints["block_m"], tail_m or 0
    rows = _rows(m, 1, routing_data, invariant)
    if invariant:
        return rows, tail_m or 0
    grouped = routing_data is not None and nvidia.has_warp_group_products(
        target_info.machine().arch
    )
    expected = _expected_rows(m, routing_data)
    if tail_m is None and grouped and takes_ends:
        ends = nvidia.compute_rows_and_ends(expected, lhs_dtype, rhs_dtype, precision_config)
        if ends is not None:
            return ends
    if nvidia.is_widened_in_registers(precision_config):
        rows = nvidia.compute_widened_block_m(expected)
    elif grouped:
        # Rows past the end of a slice are not read, and products of warp groups have 64.
        rows = max(rows, 64)
    return rows, tail_m or 0


def make_default_opt_flags_nvidia(
    out_dtype: Any, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any, batch_size: int, m: int,
    n: int, k: int, routing_data: Any, can_use_persistent_tma: bool, can_use_split_k: bool,
    enforce_bitwise_invariance: bool, epilogue_effective_itemsize: float | None, x_transpose: bool,
    has_y_acc_in: bool, constraints: dict[str, Any], x_uses_tma_when_persistent: bool = True,
    w_transpose: bool = False, mx_block_size: int | None = None, epilogue_reduction_n: int = 1,
) -> OptFlags:  # fmt: skip
    """The configuration for an NVIDIA GPU."""
    machine = target_info.machine()
    widened = nvidia.is_widened_in_registers(precision_config)
    takes_ends = n >= 64 and not x_transpose
    block_m, tail_m = _rows_of_nvidia(
        m, routing_data, lhs_dtype, rhs_dtype, precision_config, enforce_bitwise_invariance,
        takes_ends, constraints,
    )  # fmt: skip
    narrow, wide = nvidia.compute_block_n(n, machine.arch, precision_config)
    tiles = nvidia.compute_grid_size(routing_data, batch_size, m, n, block_m, narrow)
    persistent = constraints.get("is_persistent")
    if persistent is None:
        # One tile for each processor leaves nothing that persistent programs could overlap.
        # Programs with ends take turns of their own: some have less to do than others.
        persistent = can_use_persistent_tma and tiles > machine.processors and not tail_m
    block_n = constraints.get("block_n") or (wide if persistent else narrow)
    block_k = constraints.get("block_k") or nvidia.compute_block_k(
        m, k, persistent, lhs_dtype, rhs_dtype, precision_config, has_y_acc_in
    )
    tiles = nvidia.compute_grid_size(routing_data, batch_size, m, n, block_m, block_n)
    split_k = _split(
        constraints, can_use_split_k, enforce_bitwise_invariance, m, n,
        1 if persistent else nvidia.compute_split_k(block_k, k, tiles),
    )  # fmt: skip
    # With two programs, one widens operands while the other multiplies.
    paired = nvidia.are_paired(block_m, 0 if persistent else tail_m, widened)
    occupancy = constraints.get("occupancy_target") or (2 if paired else 1)
    subtile = constraints.get("epilogue_subtile")
    if subtile is None:
        subtile = 2 if persistent and block_m * block_n >= 128 * 256 else 1
    stages = constraints.get("num_stages") or nvidia.compute_num_stages(
        precision_config, persistent, block_m + tail_m, block_n, block_k, out_dtype,
        lhs_dtype, rhs_dtype, x_transpose, epilogue_effective_itemsize, has_y_acc_in, mx_block_size,
        epilogue_reduction_n, epilogue_subtile=subtile, occupancy_target=occupancy,
        w_transpose=w_transpose,
    )  # fmt: skip
    warps = constraints.get("num_warps") or (
        4 if paired and not widened and block_n <= 128 else nvidia.compute_num_warps(
            block_m, block_n, persistent, precision_config, constraints
        )
    )  # fmt: skip
    return OptFlags(
        block_m=block_m, block_n=block_n, block_k=block_k, num_warps=warps, num_stages=stages,
        # Tiles with ends read a slice's weights about once: neighbours share its rows.
        group_m=constraints.get("group_m") or (1 if tail_m else 8), xcd_swizzle=1,
        w_cache_modifier=".cg" if block_m <= 32 else "",
        split_k=split_k, is_persistent=persistent, idle_sms=constraints.get("idle_sms") or 0,
        epilogue_subtile=subtile, arch=machine.arch, occupancy_target=occupancy,
        target_kernel_kwargs={}, tail_m=tail_m,
    )  # fmt: skip


def make_default_opt_flags_amd(
    out_dtype: Any, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any, batch_size: int, m: int,
    n: int, k: int, ragged_metadata: Any, can_use_persistent_tma: bool, can_use_split_k: bool,
    enforce_bitwise_invariance: bool, epilogue_effective_itemsize: float | None, x_transpose: bool,
    has_y_acc_in: bool, constraints: dict[str, Any],
) -> OptFlags:  # fmt: skip
    """The configuration for an AMD GPU."""
    if constraints.get("is_persistent"):
        raise InapplicableConstraint("is_persistent: AMD GPUs have no engine for bulk copies")
    machine = target_info.machine()
    block_m = constraints.get("block_m") or _rows(
        m, batch_size, ragged_metadata, enforce_bitwise_invariance
    )
    down = batch_size * amd.compute_grid_m(ragged_metadata, m, block_m)
    dies = amd.num_xcds(machine.arch)
    block_n, block_k = amd.compute_block_nk(
        n, block_m, down, dies, lhs_dtype, rhs_dtype, precision_config
    )
    block_n = constraints.get("block_n") or block_n
    block_k = constraints.get("block_k") or block_k
    split_k = _split(
        constraints, can_use_split_k, enforce_bitwise_invariance, m, n,
        amd.compute_split_k(block_k, k, down * cdiv(n, block_n), machine.processors),
    )  # fmt: skip
    return OptFlags(
        block_m=block_m, block_n=block_n, block_k=block_k,
        num_warps=constraints.get("num_warps") or amd.compute_num_warps(block_m, block_n),
        num_stages=constraints.get("num_stages") or 2, group_m=4, xcd_swizzle=dies,
        w_cache_modifier=".cg" if block_m <= 32 else "", split_k=split_k, is_persistent=False,
        idle_sms=0, epilogue_subtile=constraints.get("epilogue_subtile") or 1, arch=machine.arch,
        occupancy_target=constraints.get("occupancy_target") or 1,
        target_kernel_kwargs=amd.kernel_options(block_m), tail_m=constraints.get("tail_m") or 0,
    )  # fmt: skip


def _make_default_opt_flags_cpu(
    m: int, n: int, k: int, batch_size: int, ragged_metadata: Any, can_use_split_k: bool,
    enforce_bitwise_invariance: bool, constraints: dict[str, Any],
) -> OptFlags:  # fmt: skip
    """The configuration for a CPU: tiles that stay in the second level of its caches."""
    if constraints.get("is_persistent") is None:
        constraints = {**constraints, "is_persistent": False}
    rows = _rows(m, batch_size, ragged_metadata, enforce_bitwise_invariance)
    block_m = constraints.get("block_m") or (rows if enforce_bitwise_invariance else min(rows, 64))
    split_k = _split(constraints, can_use_split_k, enforce_bitwise_invariance, m, n, 1)
    return OptFlags(
        block_m=block_m, block_n=constraints.get("block_n") or max(16, min(64, power_of_two(n))),
        block_k=constraints.get("block_k") or 64, num_warps=constraints.get("num_warps") or 4,
        num_stages=constraints.get("num_stages") or 1, group_m=1, xcd_swizzle=1,
        w_cache_modifier="", split_k=split_k, is_persistent=constraints["is_persistent"],
        idle_sms=constraints.get("idle_sms") or 0,
        epilogue_subtile=constraints.get("epilogue_subtile") or 1, arch="",
        occupancy_target=constraints.get("occupancy_target") or 1, target_kernel_kwargs={},
        tail_m=constraints.get("tail_m") or 0,
    )  # fmt: skip


def _is_faster_apart(
    constraints: dict[str, Any], block_k: int | None, expected: int, precision_config: Any
) -> bool:
    """True where nothing is prescribed and programs whose warps copy or multiply are faster."""
    prescribed = {name for name, value in constraints.items() if value is not None}
    free = not prescribed - {"block_k"} and constraints.get("block_k") == block_k
    return free and nvidia.is_faster_apart(expected, precision_config)


def _constraints(
    can_use_persistent_tma: bool, block_k: int | None, ragged: bool
) -> dict[str, Any]:
    """The choices that are prescribed: by the user, and `block_k` by an operand's layout."""
    constraints = dict(_PRESCRIBED.constraints)
    if constraints.get("is_persistent") and not can_use_persistent_tma:
        raise InapplicableConstraint(
            "is_persistent: bulk copies cannot read these operands; their last dimension must be "
            "adjacent, other strides and the address multiples of 16 bytes"
        )
    tail_m = constraints.get("tail_m")
    if tail_m and (not ragged or tail_m & (tail_m - 1)):
        raise InapplicableConstraint(
            f"tail_m={tail_m}: 0 or, for rows of a that are in slices, a power of two"
        )
    if block_k is not None:
        given = constraints.setdefault("block_k", block_k)
        if given is not None and given % block_k:
            raise InapplicableConstraint(f"block_k={given}: a layout requires a multiple of "
                                         f"{block_k}")  # fmt: skip
    return constraints


def _check_apart(wanted: bool | None, can_be_apart: bool) -> None:
    if wanted and not can_be_apart:
        raise InapplicableConstraint(
            "apart: only for Hopper, slices of rows of 16-bit floats, weights of that type with "
            "adjacent columns (k a multiple of 64) or MXFP4 in the layouts for Hopper, results "
            "of 16 bits without functions and scales"
        )


def _check_flags(flags: OptFlags, constraints: dict[str, Any], epilogue_reduction_n: int) -> None:
    checked = {name: v for name, v in constraints.items() if name != "max_allowable_mn"}
    if not all_constraints_satisfied(flags, checked):
        raise InapplicableConstraint(f"{checked} are prescribed; {flags} is what there can be")
    if flags.block_n % epilogue_reduction_n:
        found = f"is {flags.block_n}"
        accepted = f"a multiple of {epilogue_reduction_n}, the columns that make one"
        raise refuse("make_opt_flags", "block_n", found, accepted)


def make_opt_flags(
    out_dtype: Any, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any, batch_size: int, m: int,
    n: int, k: int, ragged_metadata: Any, can_use_persistent_tma: bool, can_use_split_k: bool,
    epilogue_effective_itemsize: float | None, x_transpose: bool, has_y_acc_in: bool,
    block_k: int | None, mx_block_size: int | None = None, x_uses_tma_when_persistent: bool = True,
    w_transpose: bool = False, rhs_layout: Any = None, epilogue_reduction_n: int = 1,
    can_be_apart: bool = False,
) -> OptFlags:  # fmt: skip
    """The configuration of a product (m, k) by (k, n), or of slices or batches of it.

    Args:
        out_dtype, lhs_dtype, rhs_dtype: element types (`tritium_kernels.tensor_details.dtype`).
        ragged_metadata: of the rows, if they are in slices.
        can_use_persistent_tma, can_use_split_k: what the operands allow.
        epilogue_effective_itemsize: bytes of an element while a result is converted; None: 4.
        x_transpose, w_transpose: k is not the adjacent dimension of a, or is that of b.
        block_k: what an operand's layout prescribes; None: nothing.
        mx_block_size: elements that share a scale; None: there are no scales.
        rhs_layout: of b; its `swizzle_block_shape` is what tiles must be multiples of.
        epilogue_reduction_n: columns that make one of the result.
        can_be_apart: programs whose warps copy or multiply can compute this product.

    Raises `InapplicableConstraint` where what is prescribed cannot be had.
    """
    constraints = _constraints(can_use_persistent_tma, block_k, ragged_metadata is not None)
    given = _PRESCRIBED.flags
    _check_apart(constraints.get("apart") if given is None else given.apart, can_be_apart)
    if given is not None:
        return given
    invariant = precision_config.enforce_bitwise_invariance
    backend = target_info.machine().backend
    expected = _expected_rows(m, ragged_metadata)
    if constraints.get("apart") or (
        can_be_apart and _is_faster_apart(constraints, block_k, expected, precision_config)
    ):
        flags = nvidia.make_flags_apart(OptFlags, expected, n, precision_config, constraints)
    elif backend == "cpu":
        flags = _make_default_opt_flags_cpu(
            m, n, k, batch_size, ragged_metadata, can_use_split_k, invariant, constraints
        )
    else:
        shared = (
            out_dtype, lhs_dtype, rhs_dtype, precision_config, batch_size, m, n, k,
            ragged_metadata, can_use_persistent_tma, can_use_split_k, invariant,
            epilogue_effective_itemsize, x_transpose, has_y_acc_in, constraints,
        )  # fmt: skip
        if backend == "hip":
            flags = make_default_opt_flags_amd(*shared)
        else:
            flags = make_default_opt_flags_nvidia(
                *shared, x_uses_tma_when_persistent, w_transpose, mx_block_size,
                epilogue_reduction_n,
            )  # fmt: skip
    _check_flags(flags, constraints, epilogue_reduction_n)
    return flags
