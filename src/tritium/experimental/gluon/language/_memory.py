"""Loads and stores through pointers, and what a program says about caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.language import core as tl
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import constexpr_type, unwrap
from tritium.language.values.tensor import tensor

_MODIFIERS = ("none", "ca", "cg", "cs", "cv", "wb", "wt")
_EVICTION = ("evict_normal", "evict_first", "evict_last")


class Policy:
    """Base of compile-time values that say how accesses treat the caches."""

    @property
    def type(self) -> Any:
        """The type of the policy as a compile-time value of kernels."""
        return constexpr_type(self)

    def mangle(self) -> str:
        """The policy in the name of a function that is compiled for it."""
        return repr(self)

    def words(self) -> tuple[str, str]:
        """The cache modifier and the eviction policy as `load` and `store` take them."""
        raise NotImplementedError(f"{type(self).__name__}.words")

    def bulk_hints(self) -> str:
        """The words that bulk copies have. Raises `ValueError` for what they do not take."""
        raise NotImplementedError(f"{type(self).__name__}.bulk_hints")


@dataclass(frozen=True)
class CachePolicy(Policy):
    """The cache hints of an access, for any GPU. Raises `ValueError` for unknown words."""

    cache_modifier: str = "none"
    eviction_policy: str = "evict_normal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_modifier", self.cache_modifier.removeprefix("."))
        for value, known in ((self.cache_modifier, _MODIFIERS), (self.eviction_policy, _EVICTION)):
            if value not in known:
                raise ValueError(f"CachePolicy: {value!r}; one of {', '.join(known)} is required")

    def words(self) -> tuple[str, str]:
        return modifier_word(self.cache_modifier), eviction_word(self.eviction_policy)

    def bulk_hints(self) -> str:
        if self.cache_modifier != "none":
            raise ValueError(f"{self}: bulk copies take no cache modifier")
        word = eviction_word(self.eviction_policy)
        return f"L2::{word}:1.0:evict_unchanged" if word else ""


def modifier_word(name: str | None) -> str:
    """A cache modifier as the language spells it."""
    return "" if name in (None, "none") else f".{name.removeprefix('.')}"


def eviction_word(name: str | None) -> str:
    """An eviction policy as the language spells it."""
    return "" if name in (None, "evict_normal") else str(name)


def chosen(policy: Any, cache_modifier: Any, eviction_policy: Any) -> tuple[str, str]:
    """The words of a policy, or those given without one. Raises `TypeError` for what is no policy,
    `ValueError` for both."""
    if policy is None:
        return cache_modifier or "", eviction_policy or ""
    if not isinstance(policy, Policy):
        raise TypeError(f"cache_policy is {policy!r}; a CachePolicy is required")
    if cache_modifier or eviction_policy:
        raise ValueError("a cache_policy goes without cache_modifier and eviction_policy")
    return policy.words()


def bulk_hints(policy: Any) -> str:
    """The words of a policy for a bulk copy. Raises `TypeError` for what is no policy."""
    if policy is None:
        return ""
    if not isinstance(policy, Policy):
        raise TypeError(f"cache_policy is {policy!r}; a CachePolicy is required")
    return policy.bulk_hints()


def _check_pointer(name: str, *of_blocks: Any) -> None:
    if any(map(unwrap, of_blocks)):
        raise ValueError(f"{name}: boundary_check and padding_option are of block pointers, which "
                         "Gluon has not; empty ones are allowed")  # fmt: skip


@builtin
def load(
    pointer: Any, mask: Any = None, other: Any = None, *, cache_modifier: Any = None,
    eviction_policy: Any = None, volatile: bool = False, cache_policy: Any = None,
    boundary_check: Any = (), padding_option: Any = "",
) -> tensor:  # fmt: skip
    """Load the values in memory at `pointer`; see `tl.load`. `cache_policy`: a `CachePolicy`
    instead of the two words. `boundary_check`, `padding_option`: of block pointers, which Gluon
    has not (empty; names of release 3.6)."""
    _check_pointer("load", boundary_check, padding_option)
    modifier, eviction = chosen(cache_policy, cache_modifier, eviction_policy)
    return tl.load(
        pointer, mask, other, cache_modifier=modifier, eviction_policy=eviction, volatile=volatile
    )


@builtin
def store(
    pointer: Any, value: Any, mask: Any = None, *, cache_modifier: Any = None,
    eviction_policy: Any = None, cache_policy: Any = None, boundary_check: Any = (),
) -> None:  # fmt: skip
    """Write `value` to memory at `pointer`; see `tl.store`. `cache_policy`, `boundary_check`: as
    for `load`."""
    _check_pointer("store", boundary_check)
    modifier, eviction = chosen(cache_policy, cache_modifier, eviction_policy)
    tl.store(pointer, value, mask, cache_modifier=modifier, eviction_policy=eviction)
