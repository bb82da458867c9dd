"""Runs a kernel as the Python function that it is, program by program.

Nothing is patched: the language's functions find an emitter that evaluates at once. What Python
does not let a class define (`and`, `if`, `for`, what `print` means, ...) is rewritten in a copy of
the function, on the same lines (`rewrite.py`): a breakpoint in the kernel stops there, with tensors
whose `repr` (and `.value`) is a NumPy array.
"""

from __future__ import annotations

import ast
import bdb
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments
from typing import Any

import numpy as np

from tritium import knobs
from tritium.backends.base import (
    LAUNCH_OPTIONS,
    PROFILES,
    SANITIZERS,
    check_counts,
    grid_sizes,
    instrumentation,
    unknown_keyword,
)
from tritium.backends.interpreter.arguments import Arguments
from tritium.backends.interpreter.binding import bind
from tritium.backends.interpreter.builder import replaced
from tritium.backends.interpreter.emitter import EagerEmitter
from tritium.backends.interpreter.failures import failure
from tritium.backends.interpreter.rewrite import rewritten
from tritium.backends.interpreter.scheduler import ProgramScheduler
from tritium.errors import CompilationError, InterpreterError
from tritium.frontend.values import undeclared, wrap
from tritium.language.emitter import TargetFeatures, activate
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_value
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.native.pool import check_together
from tritium.sanitize.kinds import EXACT
from tritium.sanitize.launch import SanitizerError

_COUNTS = ("num_warps", "num_stages", "num_ctas")


class InterpretedKernel:
    """A kernel that is run by Python itself.

    Args:
        fn: the user's function, or the kernel function made of it.
        features: what the language checks programs against.
        debug: whether `device_assert` is checked where a launch does not say.
        encoding: of blocks that the kernel makes without saying which.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | JITCallable,
        features: TargetFeatures | None = None,
        debug: bool | None = None,
        encoding: Any = None,
    ):
        self.function = fn if isinstance(fn, JITCallable) else JITCallable(fn)
        self.signature = self.function.signature
        self.params = self.function.params
        self._features = features
        self._debug = debug
        self._encoding = encoding

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self.launch(args, kwargs, grid)

    def launch(self, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> None:
        """Run every program of the grid, axis 0 fastest.

        Args:
            args, kwargs: NumPy arrays, torch tensors (device memory is copied there and back),
                numbers, tuples, descriptors; launch options.
            grid: 1 to 3 sizes, or a function of the arguments by name that returns them.

        Raises `InterpreterError`, chained to the cause, for anything that goes wrong in a program;
        what a compiled kernel's launch does for what is wrong with the launch itself: `TypeError`,
        `OverflowError` or `KeyError` for its arguments, `TypeError` or `ValueError` for a bad grid,
        `ValueError` for a bad option.
        """
        given, checks = self._bind(args, kwargs), self._checks(kwargs)
        check_counts(**{name: kwargs[name] for name in _COUNTS if kwargs.get(name) is not None})
        sizes = self._grid(grid, given)
        together = bool(kwargs.get("launch_cooperative_grid"))
        if together:
            check_together(self.function.__name__, sizes[0] * sizes[1] * sizes[2])
        arguments = Arguments()
        emitter = EagerEmitter(self._target(kwargs))
        emitter.kernel = self.function.__name__
        with activate(emitter):
            values = self._convert(arguments, given)
        try:
            with activate(emitter), np.errstate(all="ignore"):
                emitter.memory = arguments.memory()
                emitter.num_programs = sizes
                if checks:
                    self._watch(emitter, checks, arguments)
                self._run_programs(emitter, values, sizes, together)
                if checks:
                    emitter.watch.finish()
        except (InterpreterError, SanitizerError, bdb.BdbQuit):
            raise
        except Exception as error:
            raise failure(error, [rewritten(self.function), *emitter.called()]) from error
        arguments.write_back()

    def _run_programs(
        self, emitter: EagerEmitter, values: BoundArguments, sizes: tuple[int, int, int],
        together: bool,
    ) -> None:  # fmt: skip
        self.function.check_parameters()
        run = rewritten(self.function).fn

        def program(_: EagerEmitter) -> None:
            result = run(*values.args, **values.kwargs)
            if unwrap(result) is not None:
                raise self._no_result(result)

        ProgramScheduler(emitter, sizes, program, together).run()

    @staticmethod
    def _checks(kwargs: Mapping[str, Any]) -> list[str]:
        """The sanitizer's checks that a launch asks for."""
        built = (*SANITIZERS, EXACT, *PROFILES)
        mode = instrumentation(kwargs.get("instrumentation_mode"), built)
        return [name for name in mode.split(",") if name in (*SANITIZERS, EXACT)]

    def _watch(self, emitter: EagerEmitter, checks: list[str], arguments: Arguments) -> None:
        from tritium.sanitize.interpreted import Watch, WatchedMemory  # which few launches need

        if replaced() is not None:
            raise NotImplementedError(
                f"{self.function.__name__}: the sanitizer's checks while a program's functions are "
                "in place of methods of interpreter_builder"
            )

        known = [(name, extent, size) for name, extent, size, _ in arguments.pointers]
        watch = Watch(checks, self.function.__name__, emitter.num_programs, known)
        for number, (*_, handle) in enumerate(arguments.pointers):
            watch.argument(handle, number)
        emitter.watch, emitter.memory = watch, WatchedMemory(emitter.memory, watch)

    def _no_result(self, result: Any) -> CompilationError:
        # Which of several it was is not known: a called function may be the same one.
        returns = (n for n in ast.walk(self.function.definition) if isinstance(n, ast.Return))
        node = next(n for n in returns if n.value is not None)
        message = f"a kernel cannot return a value; this one returns {result!r}"
        return CompilationError.in_function(self.function, node, message)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = self.signature.parameters
        own = {k: v for k, v in kwargs.items() if k in names}
        bound = bind(self.function.__name__, self.signature, args, own)
        for name in kwargs:
            if name not in names and name not in LAUNCH_OPTIONS:
                raise unknown_keyword(name, self.function.__name__, names)
        return bound.arguments

    def _convert(self, arguments: Arguments, given: Mapping[str, Any]) -> BoundArguments:
        values: dict[str, Any] = {}
        for index, param in enumerate(self.params):
            value = given[param.name]
            if param.is_constexpr:
                converted = wrap(unwrap(value))
            else:
                converted = undeclared(
                    arguments.convert(
                        param.name, value, param.annotation_type, param.is_const, index
                    )
                )
            plain = not isinstance(converted, base_value)  # a function, say
            values[param.name] = constexpr(converted) if plain else converted
        return BoundArguments(self.signature, values)  # pyright: ignore[reportArgumentType]

    def _grid(self, grid: Any, given: Mapping[str, Any]) -> tuple[int, int, int]:
        if callable(grid):
            grid = grid(dict(given))
        return grid_sizes(grid)

    def _target(self, kwargs: Mapping[str, Any]) -> TargetFeatures:
        if self._features is not None:
            return self._features
        debug = kwargs.get("debug")
        return TargetFeatures(
            debug=bool(self._debug if debug is None else debug) or knobs.runtime.debug,
            sanitize_overflow=bool(kwargs.get("sanitize_overflow", True)),
            instrumentation_mode=",".join(self._checks(kwargs)),
            num_warps=kwargs.get("num_warps") or 4,
            sorts=True,
            num_ctas=kwargs.get("num_ctas") or 1,
            encoding=self._encoding,
        )
