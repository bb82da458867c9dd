"""From the logits of experts to the order in which tokens are gathered and scattered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tritium_kernels.errors import (
    INDICES,
    LONGEST,
    check_choice,
    check_flag,
    check_given,
    check_integer,
    check_operand,
    check_rank,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.operators import untraced
from tritium_kernels.tensor import RaggedTensorMetadata, SparseMatrix, make_ragged_tensor_metadata
from tritium_kernels.topk import COLUMNS, FLOATS, topk, topk_torch


@dataclass(frozen=True)
class GatherIndx:
    """Places in the order by expert and in the order by token, each the inverse of the other.

    Attributes:
        src_indx: for each place in the order by expert, the place by token; -1 past the last.
        dst_indx: for each place by token, that by expert; -1 for what no expert takes.
    """

    src_indx: Tensor
    dst_indx: Tensor


@dataclass(frozen=True)
class ScatterIndx:
    """The inverse of a `GatherIndx`."""

    src_indx: Tensor
    dst_indx: Tensor


@dataclass(frozen=True)
class RoutingData:
    """The experts' shares of the tokens.

    Attributes:
        gate_scal: the weights of experts, in the order by expert.
        expt_hist: int32, tokens of each expert.
        n_expts_tot, n_expts_act: experts in all, and of a token.
        expt_data: where the experts' tokens are, and the blocks of them.
        expected_tokens_per_expt: what configurations assume; None: all have as many.
    """

    gate_scal: Tensor
    expt_hist: Tensor
    n_expts_tot: int
    n_expts_act: int
    expt_data: RaggedTensorMetadata

    expected_tokens_per_expt: int | None = None

    def n_blocks(self, n_rows: int, block_m: int) -> int:
        """The most blocks of tokens that there can be."""
        return RaggedTensorMetadata.n_blocks(self.n_expts_tot, n_rows, block_m)


@dataclass(frozen=True)
class ExptData:
    """Blocks of the experts' tokens, for blocks of one size.

    Attributes:
        hist: int32 (experts,): tokens of each.
        offs: int32 (experts + 1,): where each expert's tokens begin; the last, where all end.
        offs_sum: int32 (1,): where all end, in blocks.
        blocks: int32: (block of its expert << 16) + expert; -1 past the last.
        buffer: the memory of all of these, one after the other.
    """

    hist: Tensor
    offs: Tensor
    offs_sum: Tensor
    blocks: Tensor
    buffer: Tensor


def compute_metadata(routing_data: RoutingData, n_rows: int, block_m: int) -> ExptData:
    """The blocks of `block_m` rows that experts' tokens are in; `n_rows`: tokens times experts."""
    op = "compute_metadata"
    check_given(op, RoutingData, routing_data=routing_data)
    check_operand(op, "routing_data.expt_hist", routing_data.expt_hist,
                  (routing_data.n_expts_tot,), "expt_data", routing_data.expt_data.slice_sizes,
                  INDICES)  # fmt: skip
    check_integer(op, "n_rows", n_rows, 0, LONGEST)
    check_choice(op, "block_m", block_m, RaggedTensorMetadata.block_sizes())
    made = make_ragged_tensor_metadata(routing_data.expt_hist, n_rows)
    count = routing_data.n_blocks(n_rows, block_m)
    parts = (made.slice_sizes, made.slice_offs, made.block_offs(block_m)[-1:],
             made.block_schedule(block_m)[:count])  # fmt: skip
    buffer = torch.cat(parts)
    hist, offs, offs_sum, blocks = buffer.split([part.numel() for part in parts])
    return ExptData(hist, offs, offs_sum, blocks, buffer)


def _route(
    logits: Tensor, n_expts_act: int, renormalize: bool, expt_indx: Tensor | None, parts: int,
    choose: Callable[..., SparseMatrix],
) -> tuple[RoutingData, GatherIndx, ScatterIndx]:
    check_tensor("routing", "logits", logits, FLOATS)
    check_rank("routing", "logits", logits, (2,))
    experts = logits.shape[1]
    what = f"1 to {experts}, the columns of logits"
    check_integer("routing", "n_expts_act", n_expts_act, 1, experts, what)
    if expt_indx is not None:
        shape = (logits.shape[0], n_expts_act)
        check_operand("routing", "expt_indx", expt_indx, shape, "logits", logits, COLUMNS)
    check_flag("routing", renormalize=renormalize)
    check_integer("routing", "simulated_ep", parts, 1)
    if experts % parts:
        accepted = f"a divisor of {experts}, the experts"
        raise refuse("routing", "simulated_ep", f"is {parts}", accepted)
    if not renormalize:
        logits = torch.softmax(logits, -1)
    chosen = choose(logits, n_expts_act, apply_softmax=renormalize, y_indx=expt_indx)
    if parts > 1:
        experts //= parts  # what is no expert of the first device is none
        mask = replace(chosen.mask, shape=(logits.shape[0], experts))
        chosen = replace(chosen, mask=mask)
    order = chosen.mask_metadata
    by_expert, by_token = order.col_sorted_indx, order.row_sorted_indx
    used = by_expert >= 0
    gates = chosen.vals.reshape(-1)[by_expert.clamp(min=0).long()]
    metadata = make_ragged_tensor_metadata(order.col_sum, by_expert.shape[0])
    data = RoutingData(torch.where(used, gates, 0.0), order.col_sum, experts, n_expts_act, metadata)
    return data, GatherIndx(by_expert, by_token), ScatterIndx(by_token, by_expert)


@untraced
def routing(
    logits: Tensor, n_expts_act: int, renormalize: bool = True, expt_indx: Tensor | None = None,
    simulated_ep: int = 1,
) -> tuple[RoutingData, GatherIndx, ScatterIndx]:  # fmt: skip
    """Each token's `n_expts_act` experts with the largest logits, and the orders that follow.

    Args:
        logits: (tokens, experts).
        renormalize: gates are the softmax over the chosen experts; otherwise they are the chosen
            parts of the softmax over all.
        expt_indx: the experts to take (tokens, n_expts_act), in place of the best.
        simulated_ep: devices among which experts are divided; the result is that of the first one.
    """
    return _route(logits, n_expts_act, renormalize, expt_indx, simulated_ep, topk)


def routing_torch(
    logits: Tensor, n_expts_act: int, renormalize: bool = True, expt_indx: Tensor | None = None,
    simulated_ep: int = 1,
) -> tuple[RoutingData, GatherIndx, ScatterIndx]:  # fmt: skip
    """`routing` with the choice made by torch's functions, for comparison."""
    return _route(logits, n_expts_act, renormalize, expt_indx, simulated_ep, topk_torch)
