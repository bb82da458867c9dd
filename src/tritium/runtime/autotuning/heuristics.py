"""Meta-parameters that are computed from a launch's other arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tritium.runtime.interface import KernelInterface, names_of_parameters

if TYPE_CHECKING:
    from typing_extensions import Self


class Heuristics(KernelInterface[Any]):
    """A kernel some of whose meta-parameters are computed from its arguments."""

    def __init__(
        self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[Any], Any]]
    ):
        self.fn = fn
        self.arg_names = list(arg_names)
        self.values = dict(values)

    def __deepcopy__(self, memo: object) -> Self:
        """The same kernel with a dictionary of its own. A tool gives each its own `fn`."""
        other = copy.copy(self)
        other.values = dict(self.values)
        return other

    @cached_property
    def base_fn(self) -> Any:
        """The kernel itself, below all decorators."""
        return getattr(self.fn, "base_fn", self.fn)

    def _computed(self) -> set[str]:
        return super()._computed() | self.values.keys()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the values and launch."""
        named = dict(zip(self.arg_names, args, strict=False))
        for name, function in self.values.items():
            kwargs[name] = function({**named, **kwargs})
        return self.fn.run(*args, **kwargs)


def heuristics(values: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Heuristics]:
    """Decorator: compute meta-parameters from the other arguments.

    Args:
        values: name -> function of the arguments by name.
    """

    for name, function in values.items():
        if not callable(cast(Any, function)):
            raise TypeError(
                f"heuristics: '{name}' is {function!r}; a function of the arguments is required"
            )

    def decorator(fn: Any) -> Heuristics:
        return Heuristics(fn, names_of_parameters(fn, "heuristics"), values)

    return decorator
