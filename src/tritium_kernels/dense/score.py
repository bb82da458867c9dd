"""Functions of attention's scores: kernel-language functions with derivatives, by name.

A score function takes (score, batch, head, query, key, aux): a tile of scores (times the scale),
the numbers of the sequence and of the head, the positions of queries and keys as tiles that
broadcast, and the pointer of the tensor given as `aux`, whose elements are adjacent in the order of
its dimensions. Its gradient takes (score, dscore, and the same) and gives the gradient of the score
that came in; `aux` has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import score as kernels
from tritium_kernels.errors import (
    FLOATS,
    check_like,
    check_shape,
    check_tensor,
    check_without_gradient,
    refuse,
)

HEADS = "heads"
"""Stands for the number of q's heads in the shape of `aux`."""

AUX_DTYPES = (*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)

_modifiers: dict[str, ScoreModifier] = {}


@dataclass(frozen=True)
class ScoreModifier:
    """A function of scores, known to the ops of torch by its name.

    Attributes:
        name: of the function; one of a name in a process.
        function: a `jit` function.
        gradient: of the function; None where the derivative is 1: it only adds to scores.
        aux_shape: of the tensor that the function reads, of integers and of "heads", the number of
            q's heads; None: it may be any, or none.
    """

    name: str
    function: Any
    gradient: Any = None
    aux_shape: tuple[int | str, ...] | None = None

    def __post_init__(self) -> None:
        known = _modifiers.get(self.name)
        if known is not None and known.function is not self.function:
            raise ValueError(f"ScoreModifier: the name {self.name!r} is taken by another function")
        _modifiers[self.name] = self


def find(name: str | None) -> tuple[Any, Any]:
    """(function, gradient) of a name; (None, None) of None."""
    if name is None:
        return None, None
    return _modifiers[name].function, _modifiers[name].gradient


def prepare_aux(op: str, score: Any, aux: Any, q: Tensor, heads: int) -> Tensor | None:
    """`aux` as a score function reads it, its elements adjacent; refused if `score` is no score
    function, or reads another shape."""
    if score is not None and not isinstance(score, ScoreModifier):
        raise refuse(op, "score", f"is {type(score).__name__}", "a ScoreModifier or None")
    wanted: tuple[int, ...] | None = None
    if score is not None and score.aux_shape is not None:
        wanted = tuple(heads if isinstance(size, str) else size for size in score.aux_shape)
    if aux is None:
        if score is not None and wanted is not None:
            raise refuse(op, "aux", "is None", f"a tensor of shape {wanted}, for {score.name}")
        return None
    if score is None:
        raise refuse(op, "aux", "is given without score", "None, or a score function that reads it")
    if not isinstance(aux, Tensor):
        raise refuse(op, "aux", f"is {type(aux).__name__}", "torch.Tensor or None")
    check_tensor(op, "aux", aux, AUX_DTYPES)
    check_like(op, "aux", aux, "q", q)
    if wanted is not None and aux.numel() != math.prod(wanted):
        check_shape(op, "aux", aux, wanted)
    check_without_gradient(op, aux=aux)
    return aux.contiguous()


alibi = ScoreModifier("alibi", kernels.alibi, aux_shape=(HEADS,))
"""score - slope * |query - key|; `aux`: the slope of each head."""

softcap = ScoreModifier("softcap", kernels.softcap, kernels.softcap_gradient, aux_shape=(1,))
"""cap * tanh(score / cap); `aux`: one number, cap."""
