"""One step of Adam or AdamW on a tensor, or on many by one launch for all of the same types."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter, is_, or_
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

import tritium.language as tl
from tritium_kernels.dense.kernels.adamw import adamw as kernel
from tritium_kernels.dense.kernels.adamw import adamw_of_many
from tritium_kernels.errors import (
    FLOATS,
    check_flag,
    check_integer,
    check_operand,
    check_range,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, device_class, on
from tritium_kernels.launching.operators import increment_version, operator
from tritium_kernels.launching.plans import is_watched, signer
from tritium_kernels.launching.tables import FLAT, plan_flat


def _flat(x: Tensor, like: Tensor) -> Tensor | None:
    """x's memory in the order of `like`, if both are dense and in the same order."""
    dense = torch.ops.aten.is_non_overlapping_and_dense(like)
    if dense and x.stride() == like.stride():
        return x.as_strided((x.numel(),), (1,))
    return None


@operator("adamw_", mutates=("parameter", "first", "second"), like=())
def adamw_op(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, rate: float,
    beta1: float, beta2: float, eps: float, decay: float, maximize: bool, coupled: bool,
) -> None:  # fmt: skip
    if parameter.numel() == 0:
        return
    tensors = (parameter, gradient, first, second)
    copies, is_copied = tensors, False
    if not all(t.is_contiguous() for t in tensors):
        flat = [f for f in (_flat(t, parameter) for t in tensors) if f is not None]
        # What has another order of elements is worked on in a copy.
        is_copied = len(flat) < len(tensors)
        copies = [t.contiguous() for t in tensors] if is_copied else flat
    options = rate, beta1, beta2, eps, decay, maximize, coupled
    _prepare_one(parameter).launch(copies, step, *options)
    if is_copied:
        for target, copy in ((parameter, copies[0]), (first, copies[2]), (second, copies[3])):
            target.copy_(copy)


def _shares_elements(x: Tensor) -> bool:
    """True if a dimension repeats the same elements."""
    return any(not step and n > 1 for n, step in zip(x.shape, x.stride(), strict=True))


def check_operands(op: str, name: str, parameter: Tensor, others: Mapping[str, Tensor]) -> None:
    """A parameter, and its gradient and moments, in this order, by their names."""
    check_tensor(op, name, parameter)
    for other, value in others.items():
        check_operand(op, other, value, parameter.shape, name, parameter)
    _, *moments = others.items()
    for written, value in ((name, parameter), *moments):
        if not torch.compiler.is_compiling() and value.is_neg():
            accepted = "a tensor whose numbers are those in its memory, as resolve_neg() gives it"
            raise refuse(op, written, "is a negative view", accepted)
        if value.numel() and _shares_elements(value):
            accepted = "a tensor whose elements each have memory of their own"
            raise refuse(op, written, "has elements that share memory", accepted)
    if torch.is_grad_enabled():
        for written, value in ((name, parameter), *moments):
            if value.requires_grad:
                accepted = "a call under torch.no_grad(): it is written to in place"
                raise refuse(op, written, "requires grad", accepted)


def check_options(
    op: str, step: int, lr: float, betas: tuple[float, float], eps: float, weight_decay: float,
    maximize: bool,
) -> None:  # fmt: skip
    check_integer(op, "step", step, 1, what="step >= 1, an integer")
    check_rates(op, lr, betas, eps, weight_decay, maximize)


def check_rates(
    op: str, lr: float, betas: tuple[float, float], eps: float, weight_decay: float,
    maximize: bool,
) -> None:  # fmt: skip
    """The numbers that stay the same from step to step."""
    check_flag(op, maximize=maximize)
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
        check_range(op, name, value, 0, float("inf"))
    for value in pair(op, betas):
        check_range(op, "betas", value, 0, 1)


def pair(op: str, betas: Any) -> tuple[float, float]:
    """The two of `betas`."""
    if not isinstance(betas, (tuple, list)) or len(cast("Sequence[Any]", betas)) != 2:
        raise refuse(op, "betas", f"is {betas!r}", "two numbers")
    low, high = cast("Sequence[float]", betas)
    return low, high


def adamw_(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int,
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, maximize: bool = False,
) -> None:  # fmt: skip
    """One step, in place: the parameter and its moments `first` and `second`.

    `step` counts from 1. Computed in float32 (float64 for a float64 parameter).
    """
    tensors = parameter, gradient, first, second
    _step_one(tensors, step, lr, betas, eps, weight_decay, maximize, coupled=False)


def adam_(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int,
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0.0, maximize: bool = False,
) -> None:  # fmt: skip
    """`adamw_`, but `weight_decay` times the parameter is added to the gradient."""
    tensors = parameter, gradient, first, second
    _step_one(tensors, step, lr, betas, eps, weight_decay, maximize, coupled=True)


def _name(coupled: bool, of: str = "") -> str:
    """The name of the function whose decay is, or is not, part of the gradient."""
    return f"adam_{of}" if coupled else f"adamw_{of}"


def _numbers(
    step: int, rate: float, beta1: float, beta2: float, eps: float, decay: float, maximize: bool,
    coupled: bool,
) -> tuple[float, ...]:  # fmt: skip
    """The numbers that the kernels take of a step with these options."""
    return (
        rate, beta1, beta2, eps, decay if coupled else rate * decay, 1 - beta1**step,
        (1 - beta2**step) ** 0.5, -1.0 if maximize else 1.0,
    )  # fmt: skip


def _step_one(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor], step: int, lr: float,
    betas: tuple[float, float], eps: float, weight_decay: float, maximize: bool, coupled: bool,
) -> None:  # fmt: skip
    op, (parameter, gradient, first, second) = _name(coupled), tensors
    key = None if torch.compiler.is_compiling() else _sign_one(*tensors)
    known = None if key is None else _known_one.get(key)
    if known is None:
        gradients = {"gradient": gradient, "first": first, "second": second}
        check_operands(op, "parameter", parameter, gradients)
    options = lr, *pair(op, betas), eps, weight_decay, maximize, coupled
    if known is None or not _are_checked(known.options, step, options):
        check_options(op, step, lr, betas, eps, weight_decay, maximize)
    if known is None and key is not None and not is_watched():
        known = _remember_one(key, tensors)
    if known is None:
        adamw_op(parameter, gradient.resolve_neg(), first, second, step, *options)
        return
    known.options = options
    known.launch(tensors, step, *options)
    increment_version([parameter, first, second])


@dataclass
class PreparedOne:
    """A launch for one tensor of a known signature, and the options of the last one, which have
    been looked at."""

    grid: tuple[int]
    count: int
    constants: dict[str, Any]
    options: tuple[Any, ...] = ()

    def launch(self, tensors: Sequence[Tensor], step: int, *options: Any) -> None:
        coupled = options[-1]
        with on(_name(coupled), "parameter", tensors[0]):
            numbers = _numbers(step, *options)
            kernel[self.grid](*tensors, self.count, *numbers, COUPLED=coupled, **self.constants)


def _prepare_one(parameter: Tensor) -> PreparedOne:
    """The launch for a parameter, its gradient and moments, which are dense and in one order."""
    n = parameter.numel()
    table, even = plan_flat(parameter.device, n)
    constants = {"BLOCK": table.block, "EVEN": even, "num_warps": table.warps}
    return PreparedOne((cdiv(n, table.block),), n, constants)


_MOST_KNOWN = 64
_known_one: dict[bytes, PreparedOne] = {}
"""Launches for one tensor by the signatures of calls."""
_sign_one = signer()


def _remember_one(key: bytes, tensors: Sequence[Tensor]) -> PreparedOne | None:
    """The launch for tensors that it takes as they are, which the next calls find."""
    if not tensors[0].numel() or not all(map(Tensor.is_contiguous, tensors)):
        return None
    if len(_known_one) >= _MOST_KNOWN:
        _known_one.clear()
    prepared = _known_one[key] = _prepare_one(tensors[0])
    return prepared


def _are_checked(before: tuple[Any, ...], step: int, options: tuple[Any, ...]) -> bool:
    """True for a step >= 1 with the options of the call before: by identity, as to compare a tensor
    of many elements is an error of torch's."""
    same = len(before) == len(options) and all(map(is_, before, options))
    return same and step.__class__ is int and step >= 1


_TYPES = {
    torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32,
    torch.float64: tl.float64,
}  # fmt: skip

_PLAIN = {Tensor, torch.nn.Parameter}
_FLOATS = frozenset(FLOATS)
_SHAPE, _DTYPE, _DEVICE, _LAYOUT, _GRAD = map(
    attrgetter, ("shape", "dtype", "device", "layout", "requires_grad")
)

_STEP = 256
"""Elements of a step of a program on CPUs; the last one's lanes without an element take time."""


@lru_cache(maxsize=64)
def _table(
    device: torch.device, addresses: tuple[int, ...], sizes: tuple[int, ...], block: int
) -> tuple[Tensor, int]:
    """(what `adamw_of_many` reads, the number of programs): the same tensors give the same."""
    elements = np.array(sizes, dtype=np.int64)
    programs = -(-elements // block)
    of = np.repeat(np.arange(len(sizes)), programs)
    within = np.arange(len(of)) - np.repeat(np.cumsum(programs) - programs, programs)
    own = np.stack([of, within * block], axis=1).reshape(-1)
    table = np.concatenate([np.array(addresses, dtype=np.int64), elements, own])
    return torch.from_numpy(table).to(device), len(of)


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """The tensors' elements fill their memory, in the same order."""
    for t in tensors:
        if not t.is_contiguous():
            break
    else:
        return True
    strides = tensors[0].stride()
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensors[0])
    return dense and all(t.stride() == strides for t in tensors)


@operator("adamw_foreach_", mutates=("parameters", "firsts", "seconds"), like=())
def adamw_foreach_op(
    parameters: list[Tensor], gradients: list[Tensor], firsts: list[Tensor],
    seconds: list[Tensor], step: int, rate: float, beta1: float, beta2: float, eps: float,
    decay: float, maximize: bool, coupled: bool,
) -> None:  # fmt: skip
    options = (step, rate, beta1, beta2, eps, decay, maximize, coupled)
    lists = (parameters, gradients, firsts, seconds)
    together = _prepare_all(lists)
    if together is not None:
        return together.launch(*options)
    groups: dict[Any, list[tuple[Tensor, ...]]] = {}
    for tensors in zip(parameters, gradients, firsts, seconds, strict=True):
        if not _is_plain(tensors):
            adamw_op.function(*tensors, *options)
        elif tensors[0].numel():
            kind = (tensors[0].device, *(t.dtype for t in tensors))
            groups.setdefault(kind, []).append(tensors)
    for (device, *dtypes), group in groups.items():
        _prepare(device, dtypes, [*zip(*group, strict=True)]).launch(*options)


def _prepare_all(lists: Sequence[Sequence[Tensor]]) -> Prepared | None:
    """The launch for all tensors, if one does for them."""
    kinds = [set(map(_DTYPE, tensors)) for tensors in lists]
    if max(map(len, kinds)) > 1 or len(set(map(_DEVICE, lists[0]))) > 1 or not all(
        map(Tensor.is_contiguous, chain.from_iterable(lists))
    ):  # fmt: skip
        return None
    return _prepare(lists[0][0].device, [kind.pop() for kind in kinds], lists)


@dataclass
class Prepared:
    """A launch for known tensors, and the options of the last one, which have been looked at."""

    grid: tuple[int]
    table: Tensor
    count: int
    constants: dict[str, Any]
    options: tuple[Any, ...] = ()

    def launch(self, step: int, *options: Any) -> None:
        coupled = options[-1]
        with on(_name(coupled, "foreach_"), "parameters", self.table):
            adamw_of_many[self.grid](
                self.table, self.count, *_numbers(step, *options), COUPLED=coupled,
                **self.constants,
            )  # fmt: skip


def _prepare(
    device: torch.device, dtypes: Sequence[torch.dtype], lists: Sequence[Sequence[Tensor]]
) -> Prepared:
    """The launch for tensors of the same types: lists of parameters, gradients and moments."""
    addresses = tuple(map(Tensor.data_ptr, chain.from_iterable(lists)))
    sizes = tuple(map(Tensor.numel, lists[0]))
    kind = device_class(device)
    block, warps = FLAT[kind].block, FLAT[kind].warps
    table, programs = _table(device, addresses, sizes, block)
    parameter, gradient, first, second = (_TYPES[dtype] for dtype in dtypes)
    constants = {
        "P": parameter, "G": gradient, "M": first, "V": second,
        "ALIGNED": not functools.reduce(or_, addresses) % 16, "BLOCK": block,
        "STEP": _STEP if kind == "cpu" else block, "num_warps": warps,
    }  # fmt: skip
    return Prepared((programs,), table, len(sizes), constants)


def _fit(*lists: Sequence[Any]) -> bool:
    """`check_operands` of each parameter finds nothing to refuse, seen at once for all; False also
    where each has to be looked at."""
    if not _PLAIN.issuperset(map(type, chain.from_iterable(lists))):
        return False
    shapes = [*map(_SHAPE, lists[0])]
    return (
        all([*map(_SHAPE, tensors)] == shapes for tensors in lists[1:])
        and _FLOATS.issuperset(map(_DTYPE, chain.from_iterable(lists)))
        and len(set(map(_DEVICE, chain.from_iterable(lists)))) == 1
        and set(map(_LAYOUT, chain.from_iterable(lists))) == {torch.strided}
        and not (torch.is_grad_enabled() and any(map(_GRAD, chain.from_iterable(lists))))
        and not any(map(Tensor.is_neg, chain.from_iterable(lists)))
    )  # fmt: skip


def adamw_foreach_(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], firsts: Sequence[Tensor],
    seconds: Sequence[Tensor], step: int, lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
    maximize: bool = False,
) -> None:  # fmt: skip
    """`adamw_` of each parameter, with its gradient and moments: one launch for all that have the
    same types, in place of one for each. Tensors whose elements are in different orders, or do not
    fill their memory, have a launch of their own."""
    given = parameters, gradients, firsts, seconds
    _step_many(given, step, lr, betas, eps, weight_decay, maximize, coupled=False)


def adam_foreach_(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], firsts: Sequence[Tensor],
    seconds: Sequence[Tensor], step: int, lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:  # fmt: skip
    """`adam_` of each parameter, by as few launches as `adamw_foreach_`."""
    given = parameters, gradients, firsts, seconds
    _step_many(given, step, lr, betas, eps, weight_decay, maximize, coupled=True)


def _step_many(
    given: Sequence[Any], step: int, lr: float, betas: tuple[float, float], eps: float,
    weight_decay: float, maximize: bool, coupled: bool,
) -> None:  # fmt: skip
    op, names = _name(coupled, "foreach_"), ("parameters", "gradients", "firsts", "seconds")
    lists = [_tensors(op, name, tensors) for name, tensors in zip(names, given, strict=True)]
    key = None if torch.compiler.is_compiling() else _sign(*lists)
    known = _known.get(key)  # pyright: ignore[reportArgumentType]
    if known is None:
        _check_lists(op, *lists)
    options = lr, *pair(op, betas), eps, weight_decay, maximize, coupled
    if known is None or not _are_checked(known.options, step, options):
        check_options(op, step, lr, betas, eps, weight_decay, maximize)
    if known is None and key is not None and not is_watched() and lists[0] and _fit(*lists):
        known = _remember(key, lists)
    if known is not None:
        known.options = options
        known.launch(step, *options)
        increment_version(lists[0] + lists[2] + lists[3])
    elif lists[0]:
        lists[1] = [gradient.resolve_neg() for gradient in lists[1]]
        adamw_foreach_op(*lists, step, *options)


def _tensors(op: str, name: str, given: Any) -> list[Tensor]:
    """The elements of an argument that is to have tensors, which `_check_lists` looks at."""
    if given.__class__ is list:
        return given
    if isinstance(given, Tensor) or not isinstance(given, Iterable):
        raise refuse(op, name, f"is {type(given).__name__}", "a list of tensors")
    return list(cast("Iterable[Tensor]", given))


def _check_lists(op: str, parameters: list[Tensor], *others: list[Tensor]) -> None:
    given = dict(zip(("gradients", "firsts", "seconds"), others, strict=True))
    for name, tensors in given.items():
        if len(tensors) != len(parameters):
            raise refuse(op, name, f"has {len(tensors)} tensors", f"{len(parameters)}, as many as "
                         "parameters")  # fmt: skip
    if torch.compiler.is_compiling() or not _fit(parameters, *given.values()):
        for i, parameter in enumerate(parameters):
            beside = {f"{name}[{i}]": tensors[i] for name, tensors in given.items()}
            check_operands(op, f"parameters[{i}]", parameter, beside)


_known: dict[bytes, Prepared] = {}
"""Launches by the signatures of their tensors, with addresses."""
_sign = signer(addresses=True, lists=True)


def _remember(key: bytes, lists: Sequence[Sequence[Tensor]]) -> Prepared | None:
    """The launch for all tensors, if one does for them, which the next steps find."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    prepared = _prepare_all(lists)
    if prepared is not None:
        _known[key] = prepared
    return prepared
