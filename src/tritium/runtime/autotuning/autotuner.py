"""Autotuning: measure several configurations of a kernel once, then use the fastest."""

from __future__ import annotations

import builtins
import copy
import threading
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tritium import knobs
from tritium.backends.active import driver
from tritium.errors import (
    AutotunerError,
    CompileTimeAssertionFailure,
    InterpreterError,
    OutOfResources,
    PTXASError,
)
from tritium.forking import ForkSafeLock
from tritium.runtime.autotuning.configs import (
    Config,
    Hook,
    check_functions,
    checked,
    checked_pruning,
    with_config,
)
from tritium.runtime.autotuning.display import TuningDisplay
from tritium.runtime.autotuning.heuristics import Heuristics
from tritium.runtime.autotuning.measuring import LENGTH, QUANTILES, times_of
from tritium.runtime.autotuning.restoring import assign, copied, fill_zero, tensor_named
from tritium.runtime.autotuning.results import StoredTimings
from tritium.runtime.autotuning.tuning import Timings, Tuning
from tritium.runtime.interface import KernelInterface, names_of_parameters
from tritium.runtime.jit import JITFunction

if TYPE_CHECKING:
    from typing_extensions import Self
from tritium.runtime.workers.children import ChildError
from tritium.runtime.workers.compile_ahead import Ahead

_FAILED = [float("inf")] * 3


class Autotuner(KernelInterface[Any]):
    """A kernel with configurations to choose from. See `autotune` for the parameters.

    Attributes:
        best_config: the configuration of the last launch.
        configs_timings: milliseconds (median, quantiles 0.2 and 0.8) of the last tuning.
        failures: what is wrong with those that could not be measured.
        cache: the choice for each tuning key.
        bench_time: seconds that the last tuning took.
        executor: see `autotune`; may be assigned.
    """

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
        *,
        executor: Executor | None = None,
        timeout: float | None = None,
        incremental: bool = False,
    ):
        self.fn = fn
        self.arg_names = list(arg_names)
        self.configs = checked(configs, getattr(self.base_fn, "__name__", "the kernel"))
        self.keys, self.reset_to_zero, self.restore_value = (
            [names] if isinstance(names, str) else list(names or [])
            for names in (key, reset_to_zero, restore_value)
        )
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, Any] = {}
        self.failures: dict[Config, Exception] = {}
        self.best_config: Config | None = None
        self.bench_time = 0.0
        self.cache_results = cache_results or knobs.autotuning.cache
        self.executor, self.timeout, self.incremental = executor, timeout, incremental
        self._local = threading.local()
        self._tuning = ForkSafeLock()
        self._tuning_now: Tuning | None = None
        self._untried: dict[tuple[Any, ...], list[Config]] = {}
        self._tried: dict[tuple[Any, ...], Timings] = {}
        self._check_names()
        self._saved: dict[str, Any] = {}
        check_functions("autotune", pre_hook=pre_hook, post_hook=post_hook, do_bench=do_bench)
        self.user_defined_pre_hook = pre_hook is not None
        self.pre_hook: Hook = pre_hook or self._prepare
        self.user_defined_post_hook = post_hook is not None
        self.post_hook: Hook = post_hook or self._restore
        prune = checked_pruning(prune_configs_by)
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        if warmup is not None or rep is not None or use_cuda_graph:
            warnings.warn(
                "warmup, rep, and use_cuda_graph parameters are deprecated; pass `do_bench`",
                DeprecationWarning,
                stacklevel=3,
            )
        self._do_bench = do_bench

    def __deepcopy__(self, memo: object) -> Self:
        """Another tuner of the same kernel and configurations, which knows what this one has
        found. A tool gives each its own `fn`."""
        other = copy.copy(self)
        other.cache, other.configs_timings = dict(self.cache), dict(self.configs_timings)
        other.failures, other.configs = dict(self.failures), list(self.configs)
        other._untried, other._tried, other._saved = dict(self._untried), dict(self._tried), {}
        other._local, other._tuning, other._tuning_now = threading.local(), ForkSafeLock(), None
        if not self.user_defined_pre_hook:
            other.pre_hook = other._prepare
        if not self.user_defined_post_hook:
            other.post_hook = other._restore
        return other

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
                if name in self.arg_names:
                    continue
                message = (
                    f"autotune: {option} names '{name}'; the kernel's parameters are "
                    f"{', '.join(self.arg_names)}"
                )
                if option != "key":
                    raise ValueError(message)
                # The reference passes over it, and so do programs that were written for that.
                warnings.warn(f"{message}; it is left out", UserWarning, stacklevel=4)

    @cached_property
    def base_fn(self) -> Any:
        """The kernel itself, below all decorators."""
        fn: Any = self.fn
        while not isinstance(fn, JITFunction) and hasattr(fn, "fn"):
            fn = fn.fn
        return fn  # pyright: ignore[reportUnknownVariableType]

    @cached_property
    def do_bench(self) -> Callable[..., Any]:
        """The function that measures a configuration: `do_bench(call, quantiles=...)`, in
        milliseconds."""
        if self._do_bench is not None:
            return self._do_bench
        bench = driver.active.get_benchmarker()
        given = {"warmup": self.num_warmups, "rep": self.num_reps}
        extra = {name: value for name, value in given.items() if value is not None}

        def timed(call: Callable[[], Any], quantiles: Sequence[float], **options: Any) -> Any:
            return bench(call, quantiles=quantiles, **{**options, **extra})

        return timed

    # Values that measuring would spoil

    def _prepare(self, kwargs: Mapping[str, Any], reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            if (tensor := tensor_named(kwargs, name, "reset_to_zero")) is not None:
                fill_zero(tensor)
        if not reset_only:
            tensors = {n: tensor_named(kwargs, n, "restore_value") for n in self.restore_value}
            self._saved = {n: copied(tensor) for n, tensor in tensors.items() if tensor is not None}

    def _restore(self, kwargs: Mapping[str, Any], exception: BaseException | None) -> None:
        for name, value in self._saved.items():
            assign(kwargs[name], value)
        self._saved = {}

    # Measuring

    def _call(
        self, args: tuple[Any, ...], meta: Mapping[str, Any], config: Config
    ) -> Callable[[], None]:
        """The function that is timed for a configuration."""
        current = with_config(meta, config)
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

        return kernel_call

    def _bench(self, *args: Any, config: Config, **meta: Any) -> list[float]:
        """Measure a configuration that is being tuned: at length with the user's benchmark,
        otherwise at first shortly."""
        tuning = self._tuning_now
        call = self._call(args, meta, config)
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")

        def measure() -> list[float]:
            took = tuning.try_out(config) if tuning is not None else None
            with tuning.exclusive() if tuning is not None else nullcontext():
                if tuning is not None and self._measures_shortly:
                    return tuning.look(config, took)
                return times_of(self.do_bench(call, quantiles=QUANTILES))

        return self._unless_it_fails(config, measure) or list(_FAILED)

    @property
    def _measures_shortly(self) -> bool:
        """True if how long to measure is left to us."""
        return self._do_bench is None and self.num_warmups is None and not self.num_reps

    def _unless_it_fails(
        self, config: Config, measure: Callable[[], list[float]]
    ) -> list[float] | None:
        try:
            return measure()
        except (OutOfResources, CompileTimeAssertionFailure, PTXASError, ChildError) as error:
            self._leave_out(config, error)
            return None
        except InterpreterError as error:
            if not isinstance(error.__cause__, CompileTimeAssertionFailure):
                raise
            self._leave_out(config, error)
            return None

    @property
    def _limit(self) -> float:
        return self.timeout or knobs.autotuning.timeout

    def _leave_out(self, config: Config, error: Exception) -> None:
        self.failures[config] = error
        if knobs.autotuning.print:
            print(f"Autotuning failed with {error}")
        if isinstance(error, ChildError):
            name = self.base_fn.__name__
            warnings.warn(
                f"autotune: the configuration {config} of {name} is left out: it {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _measure_all(
        self, configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Timings:
        """The times of all configurations: compiled side by side, measured one at a time."""
        looks: Timings = {}
        first: dict[Any, Config] = {}
        same: dict[Config, Config] = {}
        name = self.base_fn.__name__
        with (
            TuningDisplay(name, len(configs)) as display,
            self._tuned(configs, args, kwargs) as tuning,
        ):
            for config, error, _ in tuning.compiled(self.executor):
                if isinstance(error, ChildError):
                    self._leave_out(config, error)
                    timing = list(_FAILED)
                else:
                    display.was_compiled(config)
                    key = self._launch_key(config, args, kwargs)
                    same[config] = first.setdefault(key, config)
                    timing = looks.get(same[config])
                    if timing is None:
                        timing = self._bench(*args, config=config, **kwargs)
                looks[config] = timing
                if timing[0] < float("inf"):
                    display.was_measured(config, timing[0])
                else:
                    display.has_failed(config, self.failures.get(config, "not measured"))
            raced = tuning.race(looks, partial(self._longer, tuning))
            timings = {config: raced[same.get(config, config)] for config in raced}
            display.is_decided({config: timing[0] for config, timing in timings.items()})
        return {config: timings[config] for config in configs}

    def _launch_key(
        self, config: Config, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> object:
        """Equal for configurations whose launches do the same; they are measured once. On a CPU
        many differ only in options that have no effect there."""
        alone = object()
        if config.pre_hook is not None or not self._is_plain:
            return alone
        current = with_config(kwargs, config)
        try:
            kernel = self.fn.run(*args, **{**current, "warmup": True})
            grid: Any = current.get("grid")
            if callable(grid):
                defaults = {p.name: p.default for p in self.base_fn.params if p.has_default}
                grid = grid({**defaults, **(self.nargs or {}), **current})
            key: object = (*kernel.code_key(), str(grid))
            hash(key)
        except Exception:  # measuring meets it again, and reports it
            return alone
        return key

    def _longer(self, tuning: Tuning, config: Config, milliseconds: float) -> list[float] | None:
        return self._unless_it_fails(config, partial(tuning.longer, config, milliseconds))

    @contextmanager
    def _tuned(
        self, configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Generator[Tuning]:
        """While `_bench` is asked for these configurations."""

        def ask(config: Config) -> Any:
            current = with_config(kwargs, config)
            if config.pre_hook is not None:  # it may set what the kernel is specialized for
                config.pre_hook({**(self.nargs or {}), **current})
            return self.fn.run(*args, **{**current, "warmup": True})

        several = len(configs) > 1  # one is compiled where it is used
        ahead = Ahead(configs, ask if several and self._is_plain else lambda config: None)
        call = partial(self._call, args, kwargs)
        with Tuning(configs, ahead, call, self.do_bench, self._limit) as tuning:
            self._tuning_now = tuning
            try:
                yield tuning
            finally:
                self._tuning_now = None

    @property
    def _is_plain(self) -> bool:
        """True if asking the kernel below to compile does just that: nobody has replaced `run`."""
        fn: Any = self.fn
        while type(fn) is Heuristics:
            fn = fn.fn
        return isinstance(fn, JITFunction) and getattr(fn.run, "__func__", None) is JITFunction.run

    def check_disk_cache(
        self, tuning_key: tuple[Any, ...], configs: list[Config], bench_fn: Callable[[], None]
    ) -> bool:
        """Take the timings from the cache, or call `bench_fn` and store them; returns whether they
        were found. Configurations with a `pre_hook` are not cached, nor those of interpreted
        kernels, which are not measured."""
        interpreted = not hasattr(self.base_fn, "cache_key")
        if interpreted or not tuning_key or any(config.pre_hook for config in configs):
            bench_fn()
            return False
        stored = StoredTimings(self.base_fn, tuning_key, configs)
        timings = stored.load()
        if timings is not None:
            self.cache[tuning_key] = builtins.min(timings, key=lambda c: timings[c][0])
            self.configs_timings = timings
            return True
        bench_fn()
        stored.save(self.configs_timings)
        return False

    # Launching

    def _computed(self) -> set[str]:
        return super()._computed().union(*(config.kwargs for config in self.configs))

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the fastest configuration for these arguments, measuring first if need be.

        Raises `AutotunerError` when no configuration works.
        """
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self.configs[0]
            if len(self.configs) > 1:
                key = self._key(kwargs)
                config = self.cache.get(key) or self._tune(key, args, kwargs)
            self.best_config = config
            current = with_config(kwargs, config)
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
        try:
            hash(tuple(key))
        except TypeError as error:
            names = ", ".join(name for name in self.keys if name in values)
            raise TypeError(f"autotune: one of the key's values ({names}): {error}") from None
        return tuple(key)

    def _tune(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        """The fastest configuration for a key, unless another thread has just found it; with
        `incremental` the fastest of those tried so far, one more than before."""

        def measure_all() -> None:
            start = time.time()
            timings = self._measure_all(configs, args, kwargs)
            self.bench_time = time.time() - start
            self._choose(key, timings, kwargs)

        with self._tuning:
            if key in self.cache:
                return self.cache[key]
            if key in self._untried:
                return self._try_next(key, args, kwargs)
            configs = self.prune_configs(kwargs)
            self.failures = {}
            if len(configs) == 1:  # no choice to make, as with a single one from the start
                self.cache[key] = configs[0]
                return configs[0]
            if self.incremental:
                self._untried[key], self._tried[key] = list(configs), {}
                return self._try_next(key, args, kwargs)
            if self.cache_results:
                measured = not self.check_disk_cache(key, configs, measure_all)
            else:
                measure_all()
                measured = True
            if measured and knobs.autotuning.print:
                print(
                    f"Triton autotuning for function {self.base_fn.__name__},\n"
                    f"with key as {key},\nfinished after {self.bench_time:.2f}s,\n"
                    f"best config selected: {self.cache[key]};"
                )
            self._tell_listener(key, measured)
            return self.cache[key]

    def _tell_listener(self, key: tuple[Any, ...], measured: bool) -> None:
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(
                fn=self.base_fn, key=key, best_config=self.cache[key],
                configs_timings=self.configs_timings, cache_hit=not measured,
                duration=self.bench_time if measured else None,
            )  # fmt: skip

    def _choose(self, key: tuple[Any, ...], timings: Timings, kwargs: Mapping[str, Any]) -> None:
        best = builtins.min(timings, key=lambda c: timings[c][0])
        if timings[best][0] == float("inf"):
            failure = self.failures.get(best) or next(iter(self.failures.values()), None)
            raise AutotunerError(
                f"none of the {len(timings)} configurations of {self.base_fn.__name__} works; "
                f"one failed with: {failure}"
            ) from failure
        self.cache[key] = best
        self.configs_timings = timings
        self.pre_hook({**(self.nargs or {}), **kwargs, **best.all_kwargs()}, reset_only=True)

    def _try_next(
        self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Config:
        untried, timings = self._untried[key], self._tried[key]
        named = {**(self.nargs or {}), **kwargs}
        while untried:
            config = untried.pop(0)
            with self._tuned([config], args, kwargs) as tuning:
                timings[config] = self._bench(*args, config=config, **kwargs)
                if config in tuning.contenders:
                    timings[config] = self._longer(tuning, config, LENGTH) or list(_FAILED)
            if untried and builtins.min(t[0] for t in timings.values()) < float("inf"):
                self.pre_hook({**named, **config.all_kwargs()}, reset_only=True)
                return builtins.min(timings, key=lambda c: timings[c][0])
        del self._untried[key], self._tried[key]
        self._choose(key, timings, kwargs)
        self._tell_listener(key, True)
        return self.cache[key]

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations worth measuring, by the user's pruning functions.

        Raises `AutotunerError` if none is left, `TypeError` for a bad `top_k`.
        """
        pruned = self.configs
        if self.early_config_prune is not None:
            given = self.early_config_prune(self.configs, self.nargs, **kwargs)
            pruned: list[Any] = list(given or ())
            if not all(isinstance(config, Config) for config in pruned):
                raise TypeError(f"early_config_prune returned {given!r}; Configs are required")
            if not pruned:
                raise AutotunerError(
                    "No valid autotuner configs after pruning. "
                    "`early_config_prune` should return at least one config."
                )
        if self.perf_model is not None:
            top_k = self.configs_top_k
            if isinstance(top_k, float) and 0 < top_k <= 1.0:
                top_k = max(int(len(pruned) * top_k), 1)
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
                self.fn.warmup(*args, **with_config(kwargs, config))
                for config in self.prune_configs(kwargs)
            ]
        finally:
            self.nargs = None


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
    *,
    executor: Executor | None = None,
    timeout: float | None = None,
    incremental: bool = False,
) -> Callable[[Any], Autotuner]:
    """Decorator: choose the fastest of several configurations, per values of some arguments.

    Configurations are compiled in child processes, side by side (`knobs.autotuning.workers`), and
    measured one at a time, on the CPU while nothing compiles. One that cannot be compiled or
    launched, hangs or crashes is left out (`failures` says why).

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
        executor: where to compile instead; its workers must be able to import the kernel.
        timeout: seconds that one configuration may take to compile, or on the CPU to run;
            `knobs.autotuning.timeout` by default.
        incremental: measure one more configuration at each launch, instead of all at the first.
    """

    def decorator(fn: Any) -> Autotuner:
        return Autotuner(
            fn, names_of_parameters(fn, "autotune"), configs, key, reset_to_zero, restore_value,
            pre_hook=pre_hook, post_hook=post_hook, prune_configs_by=prune_configs_by,
            warmup=warmup, rep=rep, use_cuda_graph=use_cuda_graph, do_bench=do_bench,
            cache_results=cache_results, executor=executor, timeout=timeout,
            incremental=incremental,
        )  # fmt: skip

    return decorator
