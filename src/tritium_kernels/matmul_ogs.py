"""The older front of `tritium_kernels.matmul`: products of tokens and the experts they go to."""

from __future__ import annotations

from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.matmul import FusedActivation as FusedActivation
from tritium_kernels.matmul import PrecisionConfig as PrecisionConfig
from tritium_kernels.matmul import matmul
from tritium_kernels.reduce import reduce
from tritium_kernels.routing import GatherIndx, RoutingData, ScatterIndx
from tritium_kernels.specialize import FnSpecs as FnSpecs


def matmul_ogs(
    x: Tensor, w: Tensor, bias: Tensor | None, routing_data: RoutingData | None = None,
    gather_indx: GatherIndx | None = None, scatter_indx: ScatterIndx | None = None,
    precision_config: PrecisionConfig | None = None, betas: Tensor | None = None,
    gammas: Tensor | None = None, out_alpha: float | None = None, y: Tensor | None = None,
    fused_activation: FusedActivation | None = None,
) -> Tensor:  # fmt: skip
    """x (tokens, k) by the matrix of each expert, w (experts, k, n).

    With `gather_indx` rows are tokens, in the order by expert; with `scatter_indx` the results of a
    token's experts are added up. Without `routing_data` x and w are batches, or matrices.
    """
    if routing_data is None:
        for name, value in (("gather_indx", gather_indx), ("scatter_indx", scatter_indx)):
            if value is not None:
                raise refuse("matmul_ogs", name, "is given without routing_data", "None")
        return matmul(
            x, w, bias, precision_config=precision_config, betas=betas, gammas=gammas,
            out_alpha=out_alpha, c=y, fused_activation=fused_activation,
        )  # fmt: skip
    experts = routing_data.n_expts_act
    source = None
    if gather_indx is not None:  # -1 stays -1: the quotient is rounded down
        source = gather_indx.src_indx // experts
    target = None if scatter_indx is None else scatter_indx.dst_indx
    result = matmul(
        x, w, bias, routing_data.expt_data, gather_indx=source, scatter_indx=target,
        precision_config=precision_config, betas=betas, gammas=gammas, out_alpha=out_alpha,
        c=y if target is None or experts == 1 else None, fused_activation=fused_activation,
    )  # fmt: skip
    if target is None or experts == 1:
        return result
    return reduce(result.view(-1, experts, result.shape[1]), 1, y=y)[0]
