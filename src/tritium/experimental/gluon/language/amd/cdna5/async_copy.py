"""Copies from global to shared memory that go on while the program computes. Copies to global
memory, and barriers that count copies, are not built."""

from typing import Any

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.amd._copies import commit_group, start, wait_group
from tritium.language.builtins.memory import check_pointer
from tritium.language.decorators import builtin

__all__ = ["commit_group", "global_to_shared", "wait_group"]

__getattr__ = not_built(__name__, "", "mbarrier_arrive shared_to_global")


@builtin
def global_to_shared(
    smem: Any, pointer: Any, mask: Any = None, other: Any = None, cache_modifier: str = ""
) -> None:
    """Start copying the elements at a block of pointers into shared memory of its shape; `other`
    (or zero) where the mask is false."""
    found = check_pointer("global_to_shared", pointer)
    start("global_to_shared", smem, found, mask, other, cache_modifier)
