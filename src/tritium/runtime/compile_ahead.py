"""Compiling many configurations side by side, while who asked for them measures one at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from tritium import knobs
from tritium.compiler.compile import Compilation, Compiled, from_cache, prepare
from tritium.errors import AutotunerError, TritonError
from tritium.runtime import children
from tritium.runtime.async_compile import AsyncCompileMode, active_mode
from tritium.runtime.children import ChildTimeout, ForkedWorkers


class WorkerMismatch(TritonError):
    """A worker would compile something else than the process that asks it."""


class Workers(Protocol):
    """What runs compilations."""

    def submit(self, key: Hashable, job: Compilation) -> None: ...
    def next(self) -> tuple[Hashable, Callable[[], Compiled]]: ...
    def paused(self) -> Any: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...


class LocalWorkers(ForkedWorkers):
    """Child processes of this one."""

    def submit(self, key: Hashable, job: Any) -> None:
        """Start compiling `job` when there is a place."""
        job.load_compiler()  # once, and not in each child
        super().submit(key, job.run)


class ExecutorWorkers:
    """The workers of a `concurrent.futures.Executor`, on this machine or others.

    Results come back with the future; a cache that the workers share is not needed.

    Args:
        limit: seconds in which at least one of the jobs must end.
    """

    def __init__(self, executor: Executor, limit: float):
        self.executor, self.limit = executor, limit
        self._futures: dict[Future[Compiled], Hashable] = {}

    def submit(self, key: Hashable, job: Compilation) -> None:
        """Send `job` to a worker. Raises `AutotunerError` if it cannot be sent."""
        try:
            pickle.dumps(job)  # here: some executors report it late, or not at all
        except Exception as error:
            raise AutotunerError(
                f"autotune: {job.name} cannot be compiled by the executor's workers: {error}; "
                "or leave `executor` out, for child processes of this one"
            ) from error
        future = self.executor.submit(compile_as_told, job, job.identity())
        self._futures[future] = key

    def __len__(self) -> int:
        return len(self._futures)

    def next(self) -> tuple[Hashable, Callable[[], Compiled]]:
        """A job that has ended: its key, and a function that gives its result or raises."""
        done, _ = wait(self._futures, timeout=self.limit, return_when=FIRST_COMPLETED)
        if done:
            future = next(f for f in self._futures if f in done)
            return self._futures.pop(future), future.result
        future, key = next(iter(self._futures.items()))
        del self._futures[future]
        future.cancel()

        def too_late() -> Compiled:
            raise ChildTimeout(f"no worker ended within {self.limit:g} s")

        return key, too_late

    def paused(self) -> Any:
        """Others' processes cannot be paused."""
        return nullcontext()

    def close(self) -> None:
        """Drop what has not begun; the executor stays its owner's."""
        for future in self._futures:
            future.cancel()
        self._futures.clear()


def compile_as_told(job: Compilation, identity: tuple[str, str]) -> Compiled:
    """Compile in a worker. Raises `WorkerMismatch` where that would give other code than at home:
    another version, other tools, another processor to compile for."""
    here = job.identity()
    if here != identity:
        raise WorkerMismatch(
            f"{job.name}: the worker has Tritium {here[0]} with the backend {here[1]}; needed are "
            f"Tritium {identity[0]} with the backend {identity[1]}"
        )
    return job.run()


class Outcome(NamedTuple):
    """An item that is ready: compiled, unless there is an error."""

    item: Any
    error: Exception | None


class _Collecting(AsyncCompileMode):
    """Instead of compiling, remembers what would be."""

    def __init__(self) -> None:
        self.wanted: list[tuple[Compilation, Callable[[Any], None]]] = []

    def submit(self, key: Any, compile_fn: Any, finalize_fn: Callable[[Any], None]) -> Any:
        assert isinstance(compile_fn, partial)
        job = prepare(*compile_fn.args, **compile_fn.keywords)
        kernel = from_cache(job)
        if kernel is not None:
            finalize_fn(kernel)
        else:
            self.wanted.append((job, finalize_fn))
        return kernel

    @contextmanager
    def active(self) -> Generator[None]:
        token = active_mode.set(self)
        try:
            yield
        finally:
            active_mode.reset(token)


def workers_for(executor: Executor | None, limit: float) -> Workers | None:
    """Where to compile: the executor, or child processes, as many as `knobs.autotuning.workers`;
    None for this process."""
    if executor is not None:
        return ExecutorWorkers(executor, limit)
    count = knobs.autotuning.workers
    return LocalWorkers(count, limit) if count > 1 and children.available() else None


def one_by_one(items: Iterable[Any], warmup: Callable[[Any], Any]) -> Iterator[Outcome]:
    """Compile for every item in this process, when it is asked for; see `compile_ahead`."""
    for item in items:
        with suppress(Exception):
            warmup(item)
        yield Outcome(item, None)


def compile_ahead(
    items: Iterable[Any], warmup: Callable[[Any], Any], workers: Workers
) -> Iterator[Outcome]:
    """Compile for every item, side by side; each is given out as soon as it is ready.

    Args:
        items: hashable.
        warmup: asks for an item's kernel to be compiled (`kernel.warmup(...)`). What it raises is
            not reported here: who uses the item will meet it again.
        workers: where.
    """
    jobs: dict[Any, list[tuple[Compilation, Callable[[Any], None]]]] = {}
    ready: list[Any] = []
    for item in items:
        mode = _Collecting()
        try:
            with mode.active():
                warmup(item)
        except Exception:
            mode.wanted.clear()
        if mode.wanted:
            jobs[item] = mode.wanted
        else:
            ready.append(item)
    if len(jobs) < 2:  # it might as well be compiled where it is used
        ready, jobs = [*ready, *jobs], {}
    for item, wanted in jobs.items():
        for number, (job, _) in enumerate(wanted):
            workers.submit((item, number), job)
    yield from (Outcome(item, None) for item in ready)
    missing = {item: len(wanted) for item, wanted in jobs.items()}
    while len(workers):
        key, result = workers.next()
        item, number = cast("tuple[Any, int]", key)
        job, finish = jobs[item][number]
        missing[item] -= 1
        error = None
        try:
            finish(job.store(result()))
        except Exception as raised:
            error = raised
        if not missing[item]:
            yield Outcome(item, error)
