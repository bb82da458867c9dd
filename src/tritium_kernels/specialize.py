"""Functions that kernels take as constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FnSpecs:
    """A function of a kernel's result, called inside of the kernel.

    Attributes:
        name: for kernels' names and messages.
        fn: a `jit` function of a tile and the arguments in `fn_arg_names`; None: the tile itself.
        fn_arg_names: names of the arguments after the tile.
        fn_arg_do_not_specialize: those whose values are not to be specialized on.
        reduction_n: how many columns of the tile make one of the result.
    """

    name: str
    fn: Any
    fn_arg_names: tuple[str, ...] = ()
    fn_arg_do_not_specialize: tuple[str, ...] = ()
    reduction_n: int = 1

    @staticmethod
    def default() -> FnSpecs:
        """The function that gives the tile itself."""
        return IDENTITY


IDENTITY = FnSpecs("identity", None)
