"""The older front of `tritium_kernels.matmul`: products of tokens and the experts they go to."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tritium_kernels.errors import ArgumentError, check_kind, refuse
from tritium_kernels.matmul import Epilogue as Epilogue
from tritium_kernels.matmul import FlexCtx as FlexCtx
from tritium_kernels.matmul import FnName as FnName
from tritium_kernels.matmul import FusedActivation as FusedActivation
from tritium_kernels.matmul import PrecisionConfig as PrecisionConfig
from tritium_kernels.matmul import matmul, matmul_torch
from tritium_kernels.matmul import matmul_set_idle_sms as matmul_set_idle_sms
from tritium_kernels.reduce import reduce
from tritium_kernels.routing import GatherIndx, RoutingData, ScatterIndx
from tritium_kernels.specialize import FnSpecs as FnSpecs


def _only_with_routing(gather_indx: object, scatter_indx: object) -> None:
    for name, value in (("gather_indx", gather_indx), ("scatter_indx", scatter_indx)):
        if value is not None:
            raise refuse("matmul_ogs", name, "is given without routing_data", "None")


_NAMES = {"a": "x", "b": "w", "c": "y"}
"""Arguments of `matmul`, and what `matmul_ogs` calls them."""


def _matmul(*args: Any, **options: Any) -> Tensor:
    """`matmul`, with errors that name the arguments of `matmul_ogs`."""
    try:
        return matmul(*args, **options)
    except ArgumentError as error:
        raise error.renamed("matmul_ogs", _NAMES) from None


def matmul_ogs(
    x: Tensor, w: Tensor, bias: Tensor | None, routing_data: RoutingData | None = None,
    gather_indx: GatherIndx | None = None, scatter_indx: ScatterIndx | None = None,
    precision_config: PrecisionConfig | None = None, betas: Tensor | None = None,
    gammas: Tensor | None = None, out_alpha: float | Tensor | None = None,
    y: Tensor | None = None, fused_activation: FusedActivation | None = None,
    epilogue: Epilogue | None = None,
) -> Tensor:  # fmt: skip
    """x (tokens, k) by the matrix of each expert, w (experts, k, n).

    With `gather_indx` rows are tokens, in the order by expert; with `scatter_indx` the results of a
    token's experts are added up. Without `routing_data` x and w are batches, or matrices.
    """
    check_kind("matmul_ogs", RoutingData, routing_data=routing_data)
    if routing_data is None:
        _only_with_routing(gather_indx, scatter_indx)
        return _matmul(
            x, w, bias, precision_config=precision_config, betas=betas, gammas=gammas,
            out_alpha=out_alpha, c=y, fused_activation=fused_activation, epilogue=epilogue,
        )  # fmt: skip
    check_kind("matmul_ogs", GatherIndx, gather_indx=gather_indx)
    check_kind("matmul_ogs", ScatterIndx, scatter_indx=scatter_indx)
    experts = routing_data.n_expts_act
    source, target = _places(gather_indx, scatter_indx, experts)
    result = _matmul(
        x, w, bias, routing_data.expt_data, gather_indx=source, scatter_indx=target,
        precision_config=precision_config, betas=betas, gammas=gammas, out_alpha=out_alpha,
        c=y if target is None or experts == 1 else None, fused_activation=fused_activation,
        epilogue=epilogue,
    )  # fmt: skip
    if target is None or experts == 1:
        return result
    return reduce(result.unflatten(0, (-1, experts)), 1, y=y)[0]


def _places(
    gather_indx: GatherIndx | None, scatter_indx: ScatterIndx | None, experts: int
) -> tuple[Tensor | None, Tensor | None]:
    """The token of each row, and the row of the result that it goes to."""
    source = None
    if gather_indx is not None:  # -1 stays -1: the quotient is rounded down
        source = gather_indx.src_indx // experts
    return source, None if scatter_indx is None else scatter_indx.dst_indx


def matmul_ogs_torch(
    x: Tensor, w: Tensor, bias: Tensor | None, routing_data: RoutingData | None = None,
    gather_indx: GatherIndx | None = None, scatter_indx: ScatterIndx | None = None,
    precision_config: PrecisionConfig | None = None, betas: Tensor | None = None,
    gammas: Tensor | None = None, round_x: Any = None, round_y: Any = None,
) -> Tensor:  # fmt: skip
    """`matmul_ogs` without functions of the result by torch's functions, for comparison."""
    if routing_data is None:
        _only_with_routing(gather_indx, scatter_indx)
        source, target, metadata, experts = None, None, None, 1
    else:
        experts, metadata = routing_data.n_expts_act, routing_data.expt_data
        source, target = _places(gather_indx, scatter_indx, experts)
    y = matmul_torch(
        x, w, bias, metadata, gather_indx=source, scatter_indx=target,
        precision_config=precision_config, betas=betas, gammas=gammas, round_x=round_x,
        round_y=round_y,
    )  # fmt: skip
    if target is None or experts == 1:
        return y
    return y.double().unflatten(0, (-1, experts)).sum(1).to(y.dtype)
