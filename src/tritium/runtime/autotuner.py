"""Autotuning: measure several configurations of a kernel once, then use the fastest."""

from __future__ import annotations

import builtins
import hashlib
import json
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tritium import knobs
from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.compiler.key import cache_invalidating_env_vars, compiler_key
from tritium.errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from tritium.runtime.cache import get_cache_manager
from tritium.runtime.interface import KernelInterface
from tritium.runtime.jit import JITFunction
from tritium.runtime.locks import ForkSafeLock
from tritium.runtime.specialize import constexpr_key

Hook = Callable[..., Any]
_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


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
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_ctas = num_ctas
        self.num_stages = num_stages
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def __setstate__(self, state: dict[str, Any]) -> None:
        given: dict[str, Any] = {"kwargs": {}, **state}
        self.__init__(**given)

    def all_kwargs(self) -> dict[str, Any]:
        """Meta-parameters and options as keyword arguments of a launch."""
        options = {name: getattr(self, name) for name in _OPTIONS}
        return {**self.kwargs, **{n: v for n, v in options.items() if v is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self._items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def _items(self) -> list[tuple[str, Any]]:
        options = ((name, getattr(self, name)) for name in _OPTIONS[:-1])
        return [*self.kwargs.items(), *options]

    def _identity(self) -> tuple[Any, ...]:
        items = constexpr_key(dict(sorted(self._items())), "a meta-parameter")
        return items, self.ir_override, self.pre_hook

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()


class Autotuner(KernelInterface[Any]):
    """A kernel with configurations to choose from. See `autotune` for the parameters."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Hook | None = None,
        post_hook: Hook | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: int | None = None,
        rep: int | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ):
        self.fn = fn
        self.arg_names = list(arg_names)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.reset_to_zero = list(reset_to_zero or [])
        self.restore_value = list(restore_value or [])
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, Any] = {}
        self.best_config: Config | None = None
        self.bench_time = 0.0
        self.cache_results = cache_results or knobs.autotuning.cache
        self._local = threading.local()
        self._tuning = ForkSafeLock()
        self._failure: Exception | None = None
        self._check_names()
        self._saved: dict[str, Any] = {}
        self.user_defined_pre_hook = pre_hook is not None
        self.pre_hook: Hook = pre_hook or self._prepare
        self.user_defined_post_hook = post_hook is not None
        self.post_hook: Hook = post_hook or self._restore
        prune = dict(prune_configs_by or {})
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        if warmup is not None or rep is not None or use_cuda_graph:
            warnings.warn(
                "warmup, rep, and use_cuda_graph parameters are deprecated; pass `do_bench`",
                DeprecationWarning,
                stacklevel=2,
            )
        self._do_bench = do_bench

    @property
    def nargs(self) -> dict[str, Any] | None:
        """The positional arguments of this thread's launch, by name, while it runs."""
        return getattr(self._local, "nargs", None)

    @nargs.setter
    def nargs(self, value: dict[str, Any] | None) -> None:
        self._local.nargs = value

    def _check_names(self) -> None:
        for option, names in (("key", self.keys), ("reset_to_zero", self.reset_to_zero),
                              ("restore_value", self.restore_value)):  # fmt: skip
            for name in names:
                if name not in self.arg_names:
                    raise ValueError(
                        f"autotune: {option} names '{name}'; the kernel's parameters are "
                        f"{', '.join(self.arg_names)}"
                    )

    @cached_property
    def base_fn(self) -> Any:
        """The kernel itself, below all decorators."""
        fn: Any = self.fn
        while not isinstance(fn, JITFunction) and hasattr(fn, "fn"):
            fn = fn.fn
        return fn  # pyright: ignore[reportUnknownVariableType]

    @cached_property
    def do_bench(self) -> Callable[..., Any]:
        """What measures a configuration: `do_bench(call, quantiles=...)`, in milliseconds."""
        if self._do_bench is not None:
            return self._do_bench
        bench = driver.active.get_benchmarker()
        given = {"warmup": self.num_warmups, "rep": self.num_reps}
        extra = {name: value for name, value in given.items() if value is not None}

        def measure(call: Callable[[], Any], quantiles: Sequence[float]) -> Any:
            return bench(call, quantiles=quantiles, **extra)

        return measure

    # Values that measuring would spoil

    def _prepare(self, kwargs: Mapping[str, Any], reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            _fill_zero(kwargs[name])
        if not reset_only:
            self._saved = {name: _copy(kwargs[name]) for name in self.restore_value}

    def _restore(self, kwargs: Mapping[str, Any], exception: BaseException | None) -> None:
        for name, value in self._saved.items():
            _assign(kwargs[name], value)
        self._saved = {}

    # Measuring

    def _bench(self, *args: Any, config: Config, **meta: Any) -> list[float]:
        current = _with_config(meta, config)
        named = {**(self.nargs or {}), **current}

        def kernel_call() -> None:
            if config.pre_hook:
                config.pre_hook(named)
            self.pre_hook(named)
            try:
                self.fn.run(*args, **current)
            except Exception as error:
                try:
                    self.post_hook(named, exception=error)
                finally:
                    raise
            self.post_hook(named, exception=None)

        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        try:
            return self.do_bench(kernel_call, quantiles=(0.5, 0.2, 0.8))
        except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as error:
            self._failure = error
            if knobs.autotuning.print:
                print(f"Autotuning failed with {error}")
            return [float("inf")] * 3

    def check_disk_cache(
        self, tuning_key: tuple[Any, ...], configs: list[Config], bench_fn: Callable[[], None]
    ) -> bool:
        """Take the timings from the cache, or call `bench_fn` and store them; whether they were
        found. Configurations with a `pre_hook` are not cached."""
        if not tuning_key or any(config.pre_hook for config in configs):
            bench_fn()
            return False
        target = driver.active.get_current_target()
        parts = [
            compiler_key(),
            make_backend(target).hash(),
            self.base_fn.cache_key,
            str(sorted(cache_invalidating_env_vars().items())),
            str(tuning_key),
            *map(str, configs),
        ]
        manager = get_cache_manager(hashlib.sha256("-".join(parts).encode()).hexdigest())
        filename = f"{self.base_fn.__name__[:150]}.autotune.json"
        group = manager.get_group(filename)
        if group is not None and filename in group:
            stored = json.loads(Path(group[filename]).read_text())
            timings = {Config(**config): timing for config, timing in stored["configs_timings"]}
            self.cache[tuning_key] = builtins.min(timings, key=lambda c: timings[c][0])
            self.configs_timings = timings
            return True
        bench_fn()
        fields = ("kwargs", *_OPTIONS)
        data = {
            "key": [str(k) for k in tuning_key],
            "configs_timings": [
                ({name: getattr(config, name) for name in fields}, timing)
                for config, timing in self.configs_timings.items()
            ],
        }
        path = manager.put(json.dumps(data), filename, binary=False)
        manager.put_group(filename, {filename: path})
        return False

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the fastest configuration for these arguments, measuring first if need be.

        Raises `AutotunerError` when no configuration works.
        """
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self.configs[0]
            if len(self.configs) > 1:
                key = self._key(kwargs)
                if key not in self.cache:
                    self._tune(key, args, kwargs)
                config = self.cache[key]
            self.best_config = config
            current = _with_config(kwargs, config)
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **current})
            return self.fn.run(*args, **current)
        finally:
            self.nargs = None

    def _key(self, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        named = {**(self.nargs or {}), **kwargs}
        values = {name: named[name] for name in self.arg_names if name in named}
        key = [values[name] for name in self.keys if name in values]
        key += [str(v.dtype) for v in values.values() if hasattr(v, "dtype")]
        return tuple(key)

    def _tune(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find the fastest configuration for a key, unless another thread just has."""

        def measure() -> None:
            start = time.time()
            timings = {c: self._bench(*args, config=c, **kwargs) for c in configs}
            self.bench_time = time.time() - start
            best = builtins.min(timings, key=lambda c: timings[c][0])
            if timings[best][0] == float("inf"):
                raise AutotunerError(
                    f"none of the {len(configs)} configurations of {self.base_fn.__name__} works; "
                    f"the last one failed with: {self._failure}"
                ) from self._failure
            self.cache[key] = best
            self.configs_timings = timings
            self.pre_hook({**(self.nargs or {}), **kwargs, **best.all_kwargs()}, reset_only=True)

        with self._tuning:
            if key in self.cache:
                return
            configs = self.prune_configs(kwargs)
            if self.cache_results:
                measured = not self.check_disk_cache(key, configs, measure)
            else:
                measure()
                measured = True
            if measured and knobs.autotuning.print:
                print(
                    f"Triton autotuning for function {self.base_fn.__name__},\n"
                    f"with key as {key},\nfinished after {self.bench_time:.2f}s,\n"
                    f"best config selected: {self.cache[key]};"
                )

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations worth measuring, by the user's pruning functions.

        Raises `AutotunerError` if none is left, `TypeError` for a bad `top_k`.
        """
        pruned = self.configs
        if self.early_config_prune is not None:
            pruned = list(self.early_config_prune(self.configs, self.nargs, **kwargs))
            if not pruned:
                raise AutotunerError(
                    "No valid autotuner configs after pruning. "
                    "`early_config_prune` should return at least one config."
                )
        if self.perf_model is not None:
            top_k = self.configs_top_k
            if isinstance(top_k, float) and 0 < top_k <= 1.0:
                top_k = max(int(len(self.configs) * top_k), 1)
            elif not isinstance(top_k, int) or top_k < 1:
                raise TypeError(
                    "Error while pruning configs, top_k must be either 1) a float <= 1.0 or "
                    f"2) an int, and positive; got {top_k!r}"
                )
            if len(pruned) > top_k:
                model, named = self.perf_model, {**(self.nargs or {}), **kwargs}
                estimates = {c: model(**{**named, **c.all_kwargs()}) for c in pruned}
                pruned = sorted(estimates, key=lambda c: estimates[c])[:top_k]
        return pruned

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile every configuration; returns the compiled kernels."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            return [
                self.fn.warmup(*args, **_with_config(kwargs, config))
                for config in self.prune_configs(kwargs)
            ]
        finally:
            self.nargs = None


def _with_config(kwargs: Mapping[str, Any], config: Config) -> dict[str, Any]:
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


def _fill_zero(tensor: Any) -> None:
    if hasattr(tensor, "zero_"):
        tensor.zero_()
    else:
        tensor[...] = 0


def _copy(tensor: Any) -> Any:
    return tensor.clone() if hasattr(tensor, "clone") else tensor.copy()


def _assign(tensor: Any, value: Any) -> None:
    if hasattr(tensor, "copy_"):
        tensor.copy_(value)
    else:
        tensor[...] = value


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Hook | None = None,
    post_hook: Hook | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Decorator: choose the fastest of several configurations, per values of some arguments.

    Args:
        configs: the configurations.
        key: parameters whose values (with the dtypes of all tensors) call for a new choice.
        prune_configs_by: `early_config_prune(configs, named_args, **kwargs) -> configs`;
            `perf_model(**args) -> time` with `top_k`, how many (int) or what part (float <= 1.0)
            of the configurations to measure.
        reset_to_zero: parameters (tensors) to zero before each run.
        restore_value: parameters (tensors) to restore after each measured run.
        pre_hook: `f(args, reset_only)`, instead of the zeroing and saving.
        post_hook: `f(args, exception)`, instead of the restoring.
        do_bench: `f(call, quantiles) -> milliseconds`, instead of the driver's.
        cache_results: keep the timings on disk.
        warmup, rep, use_cuda_graph: deprecated.
    """

    def decorator(fn: Any) -> Autotuner:
        return Autotuner(
            fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook=pre_hook,
            post_hook=post_hook, prune_configs_by=prune_configs_by, warmup=warmup, rep=rep,
            use_cuda_graph=use_cuda_graph, do_bench=do_bench, cache_results=cache_results,
        )  # fmt: skip

    return decorator


class Heuristics(KernelInterface[Any]):
    """A kernel some of whose meta-parameters are computed from its arguments."""

    def __init__(
        self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[Any], Any]]
    ):
        self.fn = fn
        self.arg_names = list(arg_names)
        self.values = dict(values)

    @cached_property
    def base_fn(self) -> Any:
        """The kernel itself, below all decorators."""
        return getattr(self.fn, "base_fn", self.fn)

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

    def decorator(fn: Any) -> Heuristics:
        return Heuristics(fn, fn.arg_names, values)

    return decorator
