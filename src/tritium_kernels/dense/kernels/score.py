"""The score functions that `tritium_kernels.dense.score` names."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def alibi(score, batch, head, query, key, aux):
    slope = tl.load(aux + head).to(score.dtype)
    return score - slope * tl.abs(query - key).to(score.dtype)


@tritium.jit
def bounded_ratio(score, cap):
    """tanh(score / cap)."""
    return 1 - 2 / (tl.exp(2 * score / cap) + 1)


@tritium.jit
def softcap(score, batch, head, query, key, aux):
    cap = tl.load(aux).to(score.dtype)
    return cap * bounded_ratio(score, cap)


@tritium.jit
def softcap_gradient(score, dscore, batch, head, query, key, aux):
    cap = tl.load(aux).to(score.dtype)
    bounded = bounded_ratio(score, cap)
    return dscore * (1 - bounded * bounded)
