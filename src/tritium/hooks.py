"""Functions of the user's that are told what happens, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypedDict, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class HookChain(Generic[F]):
    """Callables that are called one after another, in order of addition or reversed."""

    def __init__(self, reversed: bool = False):
        self.calls: list[F] = []
        self.reversed = reversed

    def add(self, func: F) -> None:
        """Append `func` unless it is in the chain already."""
        if not callable(cast(Any, func)):
            raise TypeError(f"a hook is {func!r}; a function is required")
        if func not in self.calls:
            self.calls.append(func)

    def remove(self, func: F) -> None:
        """Take `func` out; nothing if it is not in the chain."""
        if func in self.calls:
            self.calls.remove(func)

    def copy(self) -> HookChain[F]:
        """A chain with the same callables that can change on its own."""
        other: HookChain[F] = HookChain(self.reversed)
        other.calls = list(self.calls)
        return other

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for call in self.calls[::-1] if self.reversed else list(self.calls):
            call(*args, **kwargs)


@dataclass(frozen=True)
class CompileTimes:
    """The times of the parts of a compilation, in microseconds.

    Attributes:
        ir_initialization: making the first IR of the source.
        lowering_stages: (file extension, time) of each stage.
        store_results: writing the cache.
    """

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


class CompilationListener(Protocol):
    """Called after each compilation or cache hit."""

    def __call__(
        self, *, src: Any, metadata: dict[str, Any], metadata_group: dict[str, str],
        times: CompileTimes, cache_hit: bool,
    ) -> None: ...  # fmt: skip


class AutotuneListener(Protocol):
    """Called after each launch for which an autotuner had to choose a configuration.

    `fn` is the kernel, `key` the values that it was chosen for, `configs_timings` the times of all
    configurations, `duration` the seconds it took to measure them; None where they were stored
    (`cache_hit`).
    """

    def __call__(
        self, *, fn: Any, key: tuple[Any, ...], best_config: Any, configs_timings: dict[Any, Any],
        duration: float | None, cache_hit: bool,
    ) -> None: ...  # fmt: skip


class JITHookCompileInfo(TypedDict, total=False):
    """The `compile` argument of `jit_cache_hook`, without the backend's options."""

    key: str
    signature: dict[Any, Any]
    device: Any
    constants: Any
    num_warps: int
    num_ctas: int
    num_stages: int
    enable_fp_fusion: bool
    extern_libs: tuple[tuple[str, str], ...] | None
    configs: list[dict[tuple[int, ...], Any]]
    specialization_data: str
    is_warmup: bool


JITHook = Callable[..., "bool | None"]
LaunchHook = Callable[..., None]
InitHandleHook = Callable[..., None]
PipelineStagesHook = Callable[..., "tuple[str, str] | None"]
