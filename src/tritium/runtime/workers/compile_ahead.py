"""Compiling many configurations side by side, while who asked for them measures one at a time."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol

from tritium import knobs
from tritium.compiler.compile import Compilation, Compiled, from_cache, prepare
from tritium.compiler.kernel import CompiledKernel
from tritium.errors import AutotunerError
from tritium.runtime.workers import children
from tritium.runtime.workers.async_compile import AsyncCompileMode, active_mode
from tritium.runtime.workers.children import ChildTimeout, ForkedWorkers, WorkerMismatch
from tritium.runtime.workers.spawned import SpawnedWorkers

Jobs = Mapping[Hashable, list[Compilation]]
Done = tuple[Hashable, Callable[[], list[Compiled]]]
"""A key, and a function that gives its results or raises."""


class Workers(Protocol):
    """The executor of compilations."""

    def start(self, jobs: Jobs) -> None: ...
    def next(self) -> Done: ...
    def paused(self) -> Any: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...


class NoWorkers:
    """Compilation without workers: this process compiles, one after the other, when it is asked for
    the next."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Hashable, list[Compilation]]] = deque()

    def start(self, jobs: Jobs) -> None:
        """Remember them."""
        self._jobs.extend(jobs.items())

    def next(self) -> Done:
        """The next job; compiled when its result is wanted."""
        key, job = self._jobs.popleft()
        return key, partial(_run, job)

    def __len__(self) -> int:
        return len(self._jobs)

    def paused(self) -> Any:
        """Do nothing: no worker runs."""
        return nullcontext()

    def close(self) -> None:
        """Drop the rest."""
        self._jobs.clear()


class LocalWorkers(ForkedWorkers):
    """Child processes of this one."""

    def start(self, jobs: Any) -> None:
        """Start compiling."""
        for job in jobs.values():
            for compilation in job:
                compilation.load_compiler()  # once, and not in each child
        super().start({key: partial(_run, job) for key, job in jobs.items()})


class NewProcesses(SpawnedWorkers):
    """New processes, which import the kernels."""

    def start(self, jobs: Any) -> None:
        """Start compiling."""
        super().start({
            key: (partial(compile_as_told, job, _identities(job)), partial(_run, job))
            for key, job in jobs.items()
        })  # fmt: skip


class ExecutorWorkers:
    """The workers of a `concurrent.futures.Executor`, on this machine or others.

    Results come back with the future; a cache that the workers share is not needed.

    Args:
        limit: seconds in which at least one of the jobs must end.
    """

    def __init__(self, executor: Executor, limit: float):
        self.executor, self.limit = executor, limit
        self._futures: dict[Future[list[Compiled]], Hashable] = {}

    def start(self, jobs: Jobs) -> None:
        """Send the jobs to workers. Raises `AutotunerError` if one cannot be sent."""
        for key, job in jobs.items():
            try:
                pickle.dumps(job)  # here: some executors report it late, or not at all
            except Exception as error:
                raise AutotunerError(
                    f"autotune: {job[0].name} cannot be compiled by the executor's workers: "
                    f"{error}; or leave `executor` out, for child processes of this one"
                ) from error
            self._futures[self.executor.submit(compile_as_told, job, _identities(job))] = key

    def __len__(self) -> int:
        return len(self._futures)

    def next(self) -> Done:
        """A job that has ended."""
        done, _ = wait(self._futures, timeout=self.limit, return_when=FIRST_COMPLETED)
        if done:
            future = next(f for f in self._futures if f in done)
            return self._futures.pop(future), future.result
        future, key = next(iter(self._futures.items()))
        del self._futures[future]
        future.cancel()

        def too_late() -> list[Compiled]:
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


def _run(job: list[Compilation]) -> list[Compiled]:
    return [compilation.run() for compilation in job]


def _identities(job: list[Compilation]) -> list[tuple[str, str]]:
    return [compilation.identity() for compilation in job]


def compile_as_told(job: list[Compilation], identities: list[tuple[str, str]]) -> list[Compiled]:
    """Compile in a worker. Raises `WorkerMismatch` where that would give other code than at home:
    another version, other tools, another processor to compile for."""
    for compilation, identity in zip(job, identities, strict=True):
        here = compilation.identity()
        if here != identity:
            raise WorkerMismatch(
                f"{compilation.name}: the worker has Tritium {here[0]} with the backend "
                f"{here[1]}; needed are Tritium {identity[0]} with the backend {identity[1]}"
            )
    return _run(job)


class Outcome(NamedTuple):
    """An item that is ready: compiled, unless there is an error."""

    item: Any
    error: Exception | None
    kernels: list[Mapping[str, str]]
    """The paths of the files of what was compiled for it just now."""


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


def workers_for(executor: Executor | None, limit: float) -> Workers:
    """The workers that compile: the executor, or child processes, as many as
    `knobs.autotuning.workers` (forked, where that is possible), or this process."""
    if executor is not None:
        return ExecutorWorkers(executor, limit)
    count = knobs.autotuning.workers
    if count < 2:
        return NoWorkers()
    return LocalWorkers(count, limit) if children.available() else NewProcesses(count, limit)


class Ahead:
    """Items, and what has to be compiled for each before it is used.

    Args:
        items: hashable.
        warmup: asks for an item's kernel to be compiled (`kernel.warmup(...)`). What it raises is
            not reported here: who uses the item will meet it again.
    """

    def __init__(self, items: Iterable[Any], warmup: Callable[[Any], Any]):
        self._wanted: dict[Any, list[tuple[Compilation, Callable[[Any], None]]]] = {}
        self._ready: list[Any] = []
        self._same: dict[Any, list[Any]] = {}
        """Items that need the same code as one that is compiled, by that one."""
        for item in items:
            mode = _Collecting()
            try:
                with mode.active():
                    warmup(item)
            except Exception:
                mode.wanted.clear()
            if mode.wanted:
                self._wanted[item] = mode.wanted
            else:
                self._ready.append(item)
        first: dict[tuple[str, ...], Any] = {}
        for item, wanted in self._wanted.items():
            keys = tuple(compilation.code_key() for compilation, _ in wanted)
            self._same.setdefault(first.setdefault(keys, item), []).append(item)
        if len(self._wanted) < 2:  # it might as well be compiled where it is used
            self._ready, self._wanted, self._same = [*self._ready, *self._wanted], {}, {}

    def compile(self, workers: Workers) -> Iterator[Outcome]:
        """The items, each as soon as it is ready."""
        workers.start({
            item: [compilation for compilation, _ in self._wanted[item]] for item in self._same
        })  # fmt: skip
        yield from (Outcome(item, None, []) for item in self._ready)
        while len(workers):
            first, result = workers.next()
            try:
                made = result()
            except Exception as error:
                yield from (Outcome(item, error, []) for item in self._same[first])
                continue
            for item in self._same[first]:
                yield self._finished(item, made, own=item is first)

    def _finished(self, item: Any, made: list[Compiled], own: bool) -> Outcome:
        """An item whose code is compiled: for itself, or for another that needs the same."""
        kernels: list[CompiledKernel] = []
        try:
            for (compilation, finish), result in zip(self._wanted[item], made, strict=True):
                taken = result if own else compilation.adopt(result)
                if taken is None:  # it is not quite the same: compiled where it is used
                    break
                kernels.append(compilation.store(taken))
                finish(kernels[-1])
        except Exception as error:
            return Outcome(item, error, [kernel.metadata_group for kernel in kernels])
        return Outcome(item, None, [kernel.metadata_group for kernel in kernels])

    def adopt(self, item: Any, kernels: list[Mapping[str, str]]) -> None:
        """Make known in a child process what its parent has compiled since it was forked."""
        for (compilation, finish), files in zip(self._wanted.get(item, ()), kernels, strict=False):
            finish(CompiledKernel(compilation.src, files, compilation.key))
