"""Compiling several kernels at once: launches inside `AsyncCompileMode` return futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from contextvars import ContextVar
from typing import Any

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)


class FutureKernel:
    """A kernel being compiled. Args: `finalize_compile` is called with the result; `future`."""

    def __init__(self, finalize_compile: Callable[[Any], None], future: Future[Any]):
        self.finalize_compile = finalize_compile
        self.kernel: Any = None
        self.future = future

    def result(self, ignore_errors: bool = False) -> Any:
        """Wait for the kernel. With `ignore_errors` a failed compilation gives None."""
        if self.kernel is not None:
            return self.kernel
        try:
            kernel = self.future.result()
        except Exception:
            if ignore_errors:
                return None
            raise
        self.finalize_compile(kernel)
        self.kernel = kernel
        return kernel

    def __getattr__(self, name: str) -> Any:
        # Only reached for what a compiled kernel has.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result(), name)


class AsyncCompileMode:
    """Context manager: kernels compiled inside are compiled by `executor`, side by side.

    Raises `RuntimeError` when nested. On leaving, all are waited for.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False):
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.future_kernels: dict[Any, FutureKernel] = {}
        self.raw_futures: list[Future[Any]] = []

    def submit(
        self, key: Any, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]
    ) -> FutureKernel:
        """Start compiling unless `key` is being compiled already."""
        known = self.future_kernels.get(key)
        if known is not None:
            return known
        future = self.executor.submit(compile_fn)
        self.raw_futures.append(future)
        kernel = FutureKernel(finalize_fn, future)
        self.future_kernels[key] = kernel
        return kernel

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        active_mode.set(self)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        active_mode.set(None)
        kernels = {k.future: k for k in self.future_kernels.values()}
        for future in as_completed(self.raw_futures):
            # An error of the block itself is not hidden by one of a compilation.
            kernels[future].result(self.ignore_errors or error is not None)
