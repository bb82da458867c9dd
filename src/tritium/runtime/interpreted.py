"""Kernels under `TRITON_INTERPRET=1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from tritium.language import emitter
from tritium.language.jit.function import JITCallable
from tritium.runtime.interface import Grid, KernelInterface

if TYPE_CHECKING:
    from tritium.backends.interpreter.interpret import InterpretedKernel


class GridExecutor:
    """Runs a function as an interpreted kernel for each program of a grid. Tools replace
    `__call__`; `fn` then runs in the surroundings that `_patch_lang` makes.

    Args:
        fn: the function, which need not be under `jit`.
        arg_names: the names of its parameters.
        grid: 1 to 3 sizes, or a function of the arguments by name that returns them.
        pre_run_hooks: called with the arguments before the programs run.
        function: what `fn` was rewritten from, where it was.
    """

    def __init__(
        self, fn: Callable[..., object], arg_names: Sequence[str], grid: Grid,
        pre_run_hooks: Sequence[Callable[..., object]] = (),
        function: InterpretedFunction | None = None,
    ):  # fmt: skip
        self.fn, self.arg_names, self.grid = fn, arg_names, grid
        self.pre_run_hooks = pre_run_hooks
        self._function = InterpretedFunction(fn) if function is None else function
        self.constexprs = [p.name for p in self._function.params if p.is_constexpr]

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Run all programs. Raises `InterpreterError` for what goes wrong in one."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        self._function.kernel.launch(args, kwargs, self.grid)

    def _init_args_hst(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with copies in main memory of tensors that a device has."""
        return [_on_host(a) for a in args], {k: _on_host(v) for k, v in kwargs.items()}

    def _restore_args_dev(
        self, args: Sequence[Any], args_hst: Sequence[Any], kwargs: Mapping[str, Any],
        kwargs_hst: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Copy what programs wrote to the copies of `_init_args_hst` to the devices."""
        copies = zip(args_hst, args, strict=True), ((kwargs_hst[k], kwargs[k]) for k in kwargs_hst)
        for copy, original in chain(*copies):
            if copy is not original:
                original.copy_(copy)


def _on_host(argument: Any) -> Any:
    device = getattr(argument, "device", None)
    return argument.cpu() if getattr(device, "type", "cpu") != "cpu" else argument


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
    def kernel(self) -> InterpretedKernel:
        """The kernel, launched beside `pre_run_hooks`."""
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
        executor = GridExecutor(self.rewrite(), self.arg_names, grid, self.pre_run_hooks, self)
        executor(*args, **kwargs)
