"""Rubin: what Blackwell has. Its own instructions, which ptxas does not know, are not built."""

from __future__ import annotations

from dataclasses import dataclass

from tritium.experimental.gluon.language._layouts import Layout
from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.nvidia import blackwell
from tritium.experimental.gluon.language.nvidia.blackwell import *  # noqa: F403  # pyright: ignore
from tritium.experimental.gluon.language.nvidia.blackwell import CachePolicy as CachePolicy
from tritium.experimental.gluon.language.nvidia.blackwell import (
    FractionalEvictionPolicy as FractionalEvictionPolicy,
)
from tritium.experimental.gluon.language.nvidia.rubin import mbarrier as mbarrier
from tritium.ir.layouts.tensor_memory import TensorMemoryScalesEncoding

__getattr__ = not_built(__name__, "", "add4 fma4 mul4 sub4")


@dataclass(frozen=True)
class TensorMemoryScalesLayout(blackwell.TensorMemoryScalesLayout):
    """The layout of scales that Blackwell has. `block_rep_order`: the order of repeated blocks of
    scales, "mnThenK" (the other is not built: `NotImplementedError`)."""

    block_rep_order: str = "mnThenK"
    __hash__ = Layout.__hash__

    def to_encoding(self) -> TensorMemoryScalesEncoding:
        if self.block_rep_order != "mnThenK":
            raise NotImplementedError(
                f"TensorMemoryScalesLayout(block_rep_order={self.block_rep_order!r}) is not built"
            )
        return blackwell.TensorMemoryScalesLayout(self.cga_layout).to_encoding()  # pyright: ignore
