"""Hints of a program for the caches of NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from tritium.experimental.gluon.language._memory import Policy, modifier_word
from tritium.language.builtins.memory import EvictionHints

_PRIMARY = ("evict_first", "evict_last", "evict_normal", "evict_unchanged")
_L1 = (*_PRIMARY, "no_allocate")
_PREFETCH = (64, 128, 256)


@dataclass(frozen=True)
class FractionalEvictionPolicy(Policy):
    """Eviction of the lines that an access brings into the second-level cache: a `fraction` of them
    as `primary` says, the others as `secondary`. Raises `ValueError` for unknown words and
    fractions."""

    primary: str
    fraction: float
    secondary: str = "evict_unchanged"

    def __post_init__(self) -> None:
        if self.primary not in _PRIMARY or self.secondary not in ("evict_first", "evict_unchanged"):
            raise ValueError(f"{self}: one of {', '.join(_PRIMARY)} is required")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"the fraction is {self.fraction}; above 0 and at most 1 is needed")

    def hints(self) -> str:
        """The word that accesses have; see `HintedOp`."""
        return f"L2::{self.primary}:{float(self.fraction)!r}:{self.secondary}"


@dataclass(frozen=True)
class CachePolicy(Policy):
    """The cache hints of an access: `l1` and `l2` say what makes room in which level,
    `l2_prefetch_size` how many bytes come with a miss. Raises `ValueError` for unknown words."""

    cache_modifier: str | None = None
    l1: str | None = None
    l2: FractionalEvictionPolicy | None = None
    l2_prefetch_size: int | None = None

    def __post_init__(self) -> None:
        if self.l1 is not None and self.l1 not in _L1:
            raise ValueError(f"l1 is {self.l1!r}; one of {', '.join(_L1)} is required")
        if self.l2 is not None and not isinstance(self.l2, FractionalEvictionPolicy):  # pyright: ignore
            raise ValueError(f"l2 is {self.l2!r}; a FractionalEvictionPolicy is required")
        if self.l2_prefetch_size not in (None, *_PREFETCH):
            raise ValueError(f"l2_prefetch_size is {self.l2_prefetch_size}; 64, 128 or 256")

        if self.cache_modifier is None and self.hints() == "":
            raise ValueError("CachePolicy() says nothing; at least one of its arguments is needed")
        if self.cache_modifier is not None and self.l1 is not None:
            raise ValueError(f"{self}: a cache_modifier says what the first-level cache does")

    def words(self) -> tuple[str, str]:
        eviction = EvictionHints()
        eviction.hints = self.hints()
        return modifier_word(self.cache_modifier), eviction

    def hints(self) -> str:
        """The words that accesses by instructions of their own have; see `HintedOp`."""
        first = [] if self.l1 is None else [f"L1::{self.l1}"]
        further = [] if self.l2_prefetch_size is None else [f"L2::{self.l2_prefetch_size}B"]
        return " ".join([*first, *further, *([] if self.l2 is None else [self.l2.hints()])])

    def bulk_hints(self) -> str:
        if self.cache_modifier or self.l1 or self.l2_prefetch_size:
            raise ValueError(f"{self}: bulk copies take a policy of the second-level cache alone")
        return self.hints()
