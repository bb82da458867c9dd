"""Kernels under `TRITON_INTERPRET=1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tritium.language import emitter
from tritium.language.jit.function import JITCallable
from tritium.runtime.interface import Grid, KernelInterface

if TYPE_CHECKING:
    from tritium.backends.interpreter.interpret import InterpretedKernel


class InterpretedFunction(JITCallable, KernelInterface[Any]):
    """A kernel that runs as plain Python, program by program, on NumPy arrays.

    It can be called from other kernels, compiled or interpreted, like any other.

    Args:
        fn: the function.
        debug: whether `device_assert` is checked where a launch does not say.
        do_not_specialize, do_not_specialize_on_alignment: as for `JITCallable`.
    """

    encoding: Any = None
    """The encoding of blocks that the kernel makes without saying which."""

    def __init__(
        self,
        fn: Callable[..., Any],
        debug: bool | None = None,
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    ):
        super().__init__(fn, do_not_specialize, do_not_specialize_on_alignment)
        self.debug = debug
        with suppress(ValueError):  # said when the source is needed
            self._source  # noqa: B018  (the file may be gone when it is launched)
        self.pre_run_hooks: list[Callable[..., Any]] = []

    @cached_property
    def _kernel(self) -> InterpretedKernel:
        # Here, because a process that compiles its kernels never needs the interpreter.
        from tritium.backends.interpreter.interpret import InterpretedKernel

        return InterpretedKernel(self, debug=self.debug, encoding=self.encoding)

    @property
    def base_fn(self) -> InterpretedFunction:
        """The kernel below autotuners and heuristics: itself."""
        return self

    def __getitem__(self, grid: Grid) -> Any:
        """The launcher for a grid. Raises `TypeError` in a kernel."""
        if emitter.active():
            raise self.no_launch()
        return super().__getitem__(grid)

    def rewrite(self) -> Callable[..., Any]:
        """The function as it is run: on the same lines of the same file (`rewriter` says which),
        with the kernel language's meaning of what Python lets no class define."""
        from tritium.backends.interpreter.rewrite import rewritten

        return rewritten(self).fn

    @property
    def rewriter(self) -> Any:
        """The rewritten function and its place: `def_file_lineno` is the line of its `def`."""
        from tritium.backends.interpreter.rewrite import rewritten

        return rewritten(self)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook(*args, **kwargs)` before each launch."""
        self.pre_run_hooks.append(hook)

    def run(self, *args: Any, grid: Grid, warmup: bool, **kwargs: Any) -> None:
        """Run every program of the grid; `warmup` does nothing. Raises `InterpreterError`."""
        if warmup:
            return
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        self._kernel.launch(args, kwargs, grid)
