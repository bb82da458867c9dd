"""The interface of everything that can be launched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tritium.runtime.tensors import MockTensor

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T", bound=Callable[..., Any])
Grid = Any
"""1 to 3 ints, or a function from the arguments by name to that."""


class KernelInterface(ABC, Generic[T]):
    """Anything that is launched as `kernel[grid](*args, **options)`."""

    @abstractmethod
    def run(self, *args: Any, grid: Grid, warmup: bool, **kwargs: Any) -> Any:
        """Launch, or with `warmup` only compile."""

    def __deepcopy__(self, memo: object) -> Self:
        """Itself, as for a function: an object that holds a kernel can be copied."""
        return self

    def warmup(self, *args: Any, grid: Grid, **kwargs: Any) -> Any:
        """Compile without launching; tensors may be given by their dtype. For a constexpr
        parameter a dtype is the value itself."""
        params: Any = getattr(getattr(self, "base_fn", self), "params", ())
        constants = {i for p in params if p.is_constexpr for i in (p.num, p.name)}

        def wrap(place: int | str, value: Any) -> Any:
            return value if place in constants else MockTensor.wrap_dtype(value)

        mocked = [wrap(i, value) for i, value in enumerate(args)]
        named = {name: wrap(name, value) for name, value in kwargs.items()}
        return self.run(*mocked, grid=grid, warmup=True, **named)

    def __getitem__(self, grid: Grid) -> Any:
        """The launcher for a grid: a tuple of 1 to 3 ints, or a function of the arguments."""

        def launch(*args: Any, **kwargs: Any) -> Any:
            if "grid" in kwargs or "warmup" in kwargs:
                args, kwargs = self._by_place(args, kwargs)
            return self.run(*args, grid=grid, warmup=False, **kwargs)

        return launch

    def _computed(self) -> set[str]:
        """Parameters whose values come from a decorator, not from the launch."""
        inner = getattr(self, "fn", None)
        return inner._computed() if isinstance(inner, KernelInterface) else set()

    def _by_place(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with those of parameters called `grid` and `warmup`, names that `run` has
        too, and all before them in their places. Raises `TypeError` where one of these lacks."""
        names = names_of_parameters(self, "jit")
        last = max((i for i, n in enumerate(names) if n in ("grid", "warmup")), default=-1)
        places = names[len(args) : last + 1]
        kernel: Any = getattr(self, "base_fn", self)
        params: Any = getattr(kernel, "params", ())
        defaults = {p.name: p.default for p in params if p.has_default}
        given = {n: v for n, v in defaults.items() if n not in self._computed()} | kwargs
        for name in [n for n in ("grid", "warmup") if n in kwargs and n not in names] + [
            n for n in places if n not in given
        ]:
            raise TypeError(
                f"{getattr(kernel, '__name__', self)}: argument {name!r}: `grid` and `warmup` by "
                "name are for parameters of these names, after values for all parameters before "
                "them"
            )
        kept = {n: v for n, v in kwargs.items() if n not in places}
        return (*args, *(given[n] for n in places)), kept


def names_of_parameters(fn: Any, decorator: str) -> list[str]:
    """The names of a kernel's parameters. Raises `TypeError` for what is no kernel."""
    names = getattr(fn, "arg_names", None)
    if names is None:
        raise TypeError(f"@{decorator} goes above @jit: a kernel is required; got {fn!r}")
    return list(names)
