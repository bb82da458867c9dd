"""Functions of attention's scores: kernel-language functions with derivatives, by name.

A score function takes (score, batch, head, query, key, aux): a tile of scores (times the scale),
the numbers of the sequence and of the head, the positions of queries and keys as tiles that
broadcast, and the pointer of the tensor given as `aux`. Its gradient takes (score, dscore, and the
same) and gives the gradient of the score that came in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium_kernels.dense.kernels import score as kernels

_modifiers: dict[str, ScoreModifier] = {}


@dataclass(frozen=True)
class ScoreModifier:
    """A function of scores, known to the ops of torch by its name.

    Attributes:
        name: of the function; one of a name in a process.
        function: a `jit` function.
        gradient: of the function; None where the derivative is 1: it only adds to scores.
    """

    name: str
    function: Any
    gradient: Any = None

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


alibi = ScoreModifier("alibi", kernels.alibi)
"""score - slope * |query - key|; `aux`: the slope of each head."""

softcap = ScoreModifier("softcap", kernels.softcap, kernels.softcap_gradient)
"""cap * tanh(score / cap); `aux`: one number, cap."""
