"""Configurations of a kernel, for the autotuner to choose from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tritium.runtime.specialize import constexpr_key

Hook = Callable[..., Any]
OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


class Config:
    """One configuration of a kernel.

    Args:
        kwargs: meta-parameters: name -> value, passed as keyword arguments.
        num_warps, num_stages, num_ctas, maxnreg: options of GPU targets.
        pre_hook: called with the arguments by name before each launch with this configuration.
        ir_override: a file (`.ttir`, `.ttgir`, `.llir`, `.ptx`) that replaces that stage.
    """

    def __init__(
        self,
        kwargs: dict[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Hook | None = None,
        ir_override: str | None = None,
    ):
        if not isinstance(cast(Any, kwargs), Mapping):
            raise TypeError(f"Config: kwargs is {kwargs!r}; a dict of meta-parameters is required")
        check_functions("Config", pre_hook=pre_hook)
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_ctas = num_ctas
        self.num_stages = num_stages
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = ("kwargs", *OPTIONS, "pre_hook")
        given: dict[str, Any] = {"kwargs": {}, **{n: v for n, v in state.items() if n in own}}
        self.__init__(**given)
        # Programs (torch.compile, say) give configurations attributes of their own.
        self.__dict__.update((n, v) for n, v in state.items() if n not in own)

    def all_kwargs(self) -> dict[str, Any]:
        """Meta-parameters and options as keyword arguments of a launch."""
        options = {name: getattr(self, name) for name in OPTIONS}
        return {**self.kwargs, **{n: v for n, v in options.items() if v is not None}}

    def __str__(self) -> str:
        options = {name: getattr(self, name) for name in OPTIONS}
        items = {**self.kwargs, **options, **self.kwargs}.items()
        return ", ".join(f"{name}: {value}" for name, value in items)

    def __repr__(self) -> str:
        return f"Config({self})"

    def _identity(self) -> tuple[Any, ...]:
        items = constexpr_key(dict(sorted(self.all_kwargs().items())), "a meta-parameter")
        return items, self.pre_hook

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()


def checked(configs: Iterable[Config] | None, kernel: str) -> list[Config]:
    """The configurations that the decorator was given, each once.

    Without any there is one that sets nothing. Warns about that, and about a configuration that is
    given twice; raises `TypeError` for what is no `Config`.
    """
    if isinstance(cast(Any, configs), Config):
        raise TypeError(
            f"autotune: the configurations of {kernel} are {configs!r}; put it in a list"
        )
    every = list(configs or ())
    for given in cast("list[Any]", every):
        if not isinstance(given, Config):
            raise TypeError(
                f"autotune: the configurations of {kernel} contain {given!r}; each must be a "
                "tritium.Config({'NAME': value, ...}, num_warps=..., ...)"
            )
    if not every:
        _warn(f"autotune: {kernel} has no configurations: it is launched with the default options")
        return [Config({})]
    unique = list(dict.fromkeys(every))
    for config in unique:
        if (count := every.count(config)) > 1:
            _warn(f"autotune: {kernel} has the configuration {config} {count} times; once will do")
    return unique


_PRUNING = ("early_config_prune", "perf_model", "top_k")


def checked_pruning(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The functions that prune. Warns about a name that means nothing; raises `TypeError` for what
    cannot be called."""
    if given is not None and not isinstance(cast(Any, given), Mapping):
        raise TypeError(f"autotune: prune_configs_by is {given!r}; a dict is required")
    pruning = dict(given or {})
    for name, value in pruning.items():
        if name not in _PRUNING:
            names = ", ".join(_PRUNING)
            _warn(f"autotune: prune_configs_by has '{name}', which is not one of {names}")
        elif name != "top_k":
            check_functions("autotune", **{name: value})
    return pruning


def check_functions(where: str, **given: Any) -> None:
    """Raise `TypeError` for what is neither None nor a function, by the name it was given as."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{where}: {name} is {value!r}; a function is required")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=5)


def with_config(kwargs: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Keyword arguments with a configuration's. Raises `ValueError` where both give one."""
    chosen = config.all_kwargs()
    both = {**kwargs, **chosen}
    if len(both) != len(kwargs) + len(chosen):
        names = ", ".join(sorted(kwargs.keys() & chosen.keys()))
        raise ValueError(
            f"Conflicting meta-parameters: {names}. "
            "Make sure that you don't re-define auto-tuned symbols."
        )
    return both
