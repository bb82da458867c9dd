"""Gradients of products of experts.

With x the gathered rows of a, W the matrix of a row's slice, dy the gradient of a product's row:

    z = alpha * (x @ W * acc_scale + bias * betas)     y = activation(z) * gammas
    dgammas = sum(dy * activation(z))                  dz = activation'(z) applied to dy * gammas
    dx = alpha * acc_scale * dz @ W.T                  dW = alpha * acc_scale * x.T @ dz of a slice

The two products are those of `matmul` again: rows in slices for dx, slices of k for dW. z is
computed again in float32 where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.embedding import NO_PADDING, embedding_backward_op
from tritium_kernels.errors import check_without_gradient, refuse
from tritium_kernels.launching.operators import once
from tritium_kernels.matmul_details.operands import FLOATS, OP
from tritium_kernels.matmul_details.precision import (
    Epilogue,
    FlexCtx,
    FusedActivation,
    FusedComm,
    PrecisionConfig,
)
from tritium_kernels.moe_kernels.swiglu import swiglu_derivative, swiglu_fn
from tritium_kernels.numerics import UNSCALED
from tritium_kernels.reduce import PostprocessFn, reduce_backward, reduce_forward
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata
from tritium_kernels.tensor_details.storage import Tensor as Wrapped


@dataclass(frozen=True)
class Options:
    """Arguments of a product, besides the tensors that have gradients: see `matmul`."""

    a_ragged: RaggedTensorMetadata | None
    b_ragged: RaggedTensorMetadata | None
    gather: Tensor | None
    scatter: Tensor | None
    config: PrecisionConfig
    betas: Tensor | None
    alpha: float | Tensor | None
    activation: FusedActivation

    @property
    def is_activated(self) -> bool:
        return self.activation.specs.fn is not None


def _tensors(*values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Wrapped):
            yield value.storage.data
        elif isinstance(value, Tensor):
            yield value


def wants_gradient(*values: Any) -> bool:
    """True if one of the values is a tensor, or the storage of one, that is to get a gradient."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(*values))


def check_differentiable(
    operands: dict[str, Any], options: Options, c: Tensor | None, acc: Tensor | None,
    comm: FusedComm | None, epilogue: Epilogue | None,
) -> None:  # fmt: skip
    """A product of these has a gradient; the refusal names what has none."""
    config, activation = options.config, options.activation
    values = {name: next(_tensors(value), None) for name, value in operands.items()}
    alpha = options.alpha if isinstance(options.alpha, Tensor) else None
    check_without_gradient(OP, betas=options.betas, out_alpha=alpha)
    for i, value in enumerate(activation.fn_args):
        name = f"fused_activation.fn_args[{i}]"
        check_without_gradient(OP, **{name: next(_tensors(value), None)})
    for name in ("a", "b"):
        value = values[name]
        if isinstance(operands[name], Wrapped) or value is None or value.dtype not in FLOATS:
            accepted = "a tensor of float16, bfloat16 or float32"
            raise refuse(OP, name, "has a layout or dtype without a gradient", accepted)
    given: dict[str, Any] = {
        "c": c, "c_acc_in": acc, "fused_comm": comm,
        "epilogue": None if epilogue is None else epilogue.specs.fn,
        "c_mx_scale": config.c_mx_scale, "report_quantization_err_fn":
        config.report_quantization_err_fn,
        "flex_ctx": None if config.flex_ctx == FlexCtx() else config.flex_ctx,
    }  # fmt: skip
    for name, value in given.items():
        if value is not None:
            raise refuse(OP, name, "is given with a gradient wanted", "None, or torch.no_grad()")
    if config.out_dtype is not None and config.out_dtype not in FLOATS:
        found = f"is {config.out_dtype} with a gradient wanted"
        raise refuse(OP, "out_dtype", found, "float16, bfloat16, float32, or torch.no_grad()")
    if options.is_activated:
        _function(activation)


def _function(activation: FusedActivation) -> PostprocessFn:
    """The activation with its derivative."""
    specs, derivative = activation.specs, activation.derivative
    if derivative is None and specs.fn is swiglu_fn:
        derivative = swiglu_derivative
    if derivative is None:
        found = f"{specs.name!r} has no derivative, with a gradient wanted"
        accepted = "FusedActivation(specs, fn_args, derivative), a jit function of (tile, gradient "
        raise refuse(OP, "fused_activation", found, accepted + "of the result, *fn_args)")
    return PostprocessFn(specs, activation.fn_args, derivative)


def _rows(x: Tensor, places: Tensor | None) -> Tensor:
    """Rows of x by number; -1 is a row of zeros."""
    if places is None:
        return x
    found = x.index_select(0, places.clamp(min=0).long())
    return torch.where((places >= 0)[:, None], found, 0)


def _places(rows: int, to: RaggedTensorMetadata, of: RaggedTensorMetadata) -> Tensor | None:
    """The places of `rows` rows, in slices as `to` says, in slices as `of` says; -1: in none.
    None: they are the same."""
    if to is of:
        return None
    row = torch.arange(rows, dtype=torch.int32, device=to.slice_offs.device)
    number = (torch.searchsorted(to.slice_offs[:-1], row, right=True) - 1).clamp(min=0)
    within = row - to.slice_offs[number]
    inside = (within >= 0) & (within < to.slice_sizes[number])
    return torch.where(inside, of.slice_offs[number] + within, -1)


class Product(torch.autograd.Function):
    """A product with the gradients of a, b, bias and gammas."""

    @staticmethod
    def forward(
        ctx: Any, matmul: Callable[..., Tensor], options: Options, a: Tensor, b: Tensor,
        bias: Tensor | None, gammas: Tensor | None,
    ) -> Tensor:  # fmt: skip
        ctx.matmul, ctx.options = matmul, options
        ctx.save_for_backward(a, b, bias, gammas)
        o = options
        return matmul(
            a, b, bias, o.a_ragged, o.b_ragged, o.gather, o.scatter, o.config, o.betas, gammas,
            o.alpha, fused_activation=o.activation,
        )  # fmt: skip

    @staticmethod
    @once("matmul")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, bias, gammas = ctx.saved_tensors
        options, (_, _, *wanted) = ctx.options, ctx.needs_input_grad
        dz, dgammas = _through_functions(
            ctx.matmul, options, a, b, bias, gammas, gradients[0], wanted[3]
        )
        da = db = dbias = None
        if options.alpha is not None:
            dz = dz.float() * options.alpha
        if bias is not None and wanted[2]:
            dbias = _of_bias(ctx.matmul, options, dz, bias)
        if options.config.acc_scale != 1.0:
            dz = dz.float() * options.config.acc_scale
        dz = dz.to(a.dtype)
        if wanted[0]:
            da = _of_a(ctx.matmul, options, dz, a, b)
        if wanted[1]:
            db = _of_b(ctx.matmul, options, dz, a, b)
        return None, None, da, db, dbias, dgammas


def _config(options: Options, dtype: torch.dtype) -> PrecisionConfig:
    """The precision of the products of a gradient."""
    return replace(options.config, out_dtype=dtype, acc_scale=1.0, intermediate_out_dtype=None)


def _through_functions(
    matmul: Callable[..., Tensor], options: Options, a: Tensor, b: Tensor, bias: Tensor | None,
    gammas: Tensor | None, dy: Tensor, wants_gammas: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(dz of each row of the product, dgammas or None)."""
    dy = _rows(dy, options.scatter)
    dgammas = z = None
    wants_gammas = gammas is not None and wants_gammas
    if options.is_activated or wants_gammas:
        o = options
        config = replace(o.config, out_dtype=torch.float32)
        z = matmul(
            a, b, bias, o.a_ragged, o.b_ragged, o.gather, None, config, o.betas, None, o.alpha
        )
        z = z.flatten(0, -2)[None]
    function = _function(options.activation) if options.is_activated else None
    if gammas is not None:
        if wants_gammas:
            assert z is not None
            y = z[0] if function is None else reduce_forward(
                z, 0, y_dtype=torch.float32, postprocess_fn1=function
            )[0]  # fmt: skip
            dgammas = (y.view(dy.shape) * dy).sum(-1).to(gammas.dtype)
        dy = dy.float() * gammas.float()[:, None]
    if function is None:
        return dy, dgammas
    assert z is not None
    dz = reduce_backward(
        dy.flatten(0, -2), z.shape, 0, None, None, None, UNSCALED, function, None, None,
        None, None, torch.empty_like(z), sums=z[0],
    )  # fmt: skip
    return dz.view(*dy.shape[:-1], z.shape[-1]), dgammas


def _of_bias(matmul: Callable[..., Tensor], options: Options, dz: Tensor, bias: Tensor) -> Tensor:
    dz = dz.float()
    if options.betas is not None:
        dz = dz * options.betas.float()[:, None]
    if options.a_ragged is not None and options.b_ragged is None:
        # Sums over the rows of each slice.
        config = replace(_config(options, torch.float32), allow_tf32=False)
        ones = dz.new_ones(1, dz.shape[0])
        sums = matmul(ones, dz, None, None, options.a_ragged, precision_config=config)
    else:
        sums = dz.sum(-2)
        if sums.ndim > bias.ndim:  # one for all batches
            sums = sums.sum(0)
    return sums.reshape(bias.shape).to(bias.dtype)


def _of_a(
    matmul: Callable[..., Tensor], options: Options, dz: Tensor, a: Tensor, b: Tensor
) -> Tensor:
    config = _config(options, a.dtype)
    if options.b_ragged is not None:
        of_a = options.a_ragged or options.b_ragged
        places = _places(a.shape[1], of_a, options.b_ragged)
        return matmul(b, dz.mT, None, of_a, gather_indx=places, precision_config=config).mT
    dx = matmul(dz, b.mT, None, options.a_ragged, precision_config=config)
    if options.gather is None:
        return dx
    return embedding_backward_op(options.gather, dx, a.shape[0], NO_PADDING)


def _of_b(
    matmul: Callable[..., Tensor], options: Options, dz: Tensor, a: Tensor, b: Tensor
) -> Tensor:
    config = _config(options, b.dtype)
    if options.b_ragged is not None:
        places = _places(b.shape[0], options.b_ragged, options.a_ragged or options.b_ragged)
        return matmul(a.mT, dz, None, options.b_ragged, gather_indx=places, precision_config=config)
    x = _rows(a, options.gather)
    if x.ndim > b.ndim:  # one matrix for all batches
        x, dz = x.flatten(0, 1), dz.flatten(0, 1)
    db = matmul(x.mT, dz, None, None, options.a_ragged, precision_config=config)
    return db.reshape(b.shape)
