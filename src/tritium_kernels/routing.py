"""From the logits of experts to the order in which tokens are gathered and scattered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.tensor import (
    RaggedTensorMetadata,
    SparseMatrix,
    make_ragged_tensor_metadata,
)
from tritium_kernels.topk import topk, topk_torch


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
    """As `GatherIndx`, the other way round."""

    src_indx: Tensor
    dst_indx: Tensor


@dataclass(frozen=True)
class RoutingData:
    """Which experts work on how many tokens.

    Attributes:
        gate_scal: the weights of experts, in the order by expert.
        expt_hist: int32, tokens of each expert.
        n_expts_tot, n_expts_act: experts in all, and of a token.
        expt_data: where the experts' tokens are, and the blocks of them.
    """

    gate_scal: Tensor
    expt_hist: Tensor
    n_expts_tot: int
    n_expts_act: int
    expt_data: RaggedTensorMetadata

    def n_blocks(self, n_rows: int, block_m: int) -> int:
        """The most blocks of tokens that there can be."""
        return RaggedTensorMetadata.n_blocks(self.n_expts_tot, n_rows, block_m)


def _route(
    logits: Tensor, n_expts_act: int, renormalize: bool, expt_indx: Tensor | None,
    choose: Callable[..., SparseMatrix],
) -> tuple[RoutingData, GatherIndx, ScatterIndx]:
    if not renormalize:
        logits = torch.softmax(logits, -1)
    chosen = choose(logits, n_expts_act, apply_softmax=renormalize, y_indx=expt_indx)
    order = chosen.mask_metadata
    by_expert, by_token = order.col_sorted_indx, order.row_sorted_indx
    used = by_expert >= 0
    gates = chosen.vals.reshape(-1)[by_expert.clamp(min=0).long()]
    metadata = make_ragged_tensor_metadata(order.col_sum, by_expert.shape[0])
    data = RoutingData(
        torch.where(used, gates, 0.0), order.col_sum, logits.shape[1], n_expts_act, metadata
    )
    return data, GatherIndx(by_expert, by_token), ScatterIndx(by_token, by_expert)


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
        simulated_ep: only 1 is built.
    """
    if simulated_ep != 1:
        raise NotImplementedError(f"routing: simulated_ep={simulated_ep} is not built; 1 is")
    return _route(logits, n_expts_act, renormalize, expt_indx, topk)


def routing_torch(
    logits: Tensor, n_expts_act: int, renormalize: bool = True, expt_indx: Tensor | None = None
) -> tuple[RoutingData, GatherIndx, ScatterIndx]:
    """`routing` with the choice made by torch's functions, for comparison."""
    return _route(logits, n_expts_act, renormalize, expt_indx, topk_torch)
