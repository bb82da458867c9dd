"""Hints of programs for the caches of NVIDIA's GPUs, in the words that `HintedOp.hints` has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.llvm.writer import Value


@dataclass(frozen=True)
class Hints:
    """The suffixes of an instruction.

    Attributes:
        first: the priority in the first-level cache.
        prefetch: how many bytes a miss brings into the second-level cache.
        shares: of the second-level cache: "evict_last:0.5:evict_first"; "" for none.
    """

    first: str = ""
    prefetch: str = ""
    shares: str = ""

    @staticmethod
    def of(text: str) -> Hints:
        """Parse words such as `L1::no_allocate L2::128B L2::evict_last:0.5:evict_first`."""
        found: dict[str, str] = {}
        for word in text.split():
            _, _, value = word.partition("::")
            if word.startswith("L1"):
                found["first"] = f".{word}"
            elif value.endswith("B"):
                found["prefetch"] = f".{word}"
            else:
                found["shares"] = value
        return Hints(**found)

    @property
    def cached(self) -> str:
        """The suffix that says that a policy is the last operand."""
        return ".L2::cache_hint" if self.shares else ""

    @property
    def second(self) -> str:
        """The suffixes for the second-level cache."""
        return self.cached + self.prefetch

    @property
    def policy(self) -> Callable[[Emitter], Value] | None:
        """Write the operand of 64 bits that says how the second-level cache is shared."""
        return self._policy if self.shares else None

    def _policy(self, e: Emitter) -> Value:
        primary, fraction, secondary = self.shares.split(":")
        text = f"createpolicy.fractional.L2::{primary}.L2::{secondary}.b64 $0, {fraction};"
        return e.asm("i64", text, "=l", effects=False)
