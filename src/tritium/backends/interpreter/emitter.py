"""The emitter that evaluates each op as soon as it is built."""

from __future__ import annotations

import copy
import inspect
import linecache
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from tritium.backends.interpreter.builder import Foreign, Replaced, Unknown, handle_of, replaced
from tritium.backends.interpreter.rewrite import Rewritten, rewritten
from tritium.errors import OpError
from tritium.frontend.values import wrap
from tritium.ir.types import TensorType, Type, is_pointer
from tritium.language.emitter import Divergence, Evaluated, TargetFeatures, activate
from tritium.language.jit.function import JITCallable
from tritium.language.values.aggregate import fork
from tritium.language.values.base import as_tuple, base_value
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tuples import type_of
from tritium.language.values.types import dtype
from tritium.ops.base import Op
from tritium.ops.declared import SEGMENTS
from tritium.ops.effects import observes
from tritium.ops.evaluation import one_by_one
from tritium.ops.fields import i32_array
from tritium.ops.memory import PAUSE, Memory, Place
from tritium.ops.ttir import ElementAccess, IntToPtrOp
from tritium.sanitize.ring import Note, listeners

T = TypeVar("T")
_INTERNAL = "tritium.", "functools"
"""The beginnings of the names of modules that are no program's."""

class PythonRegion(Region):
    """The region of an op that is evaluated at once: a Python function in place of blocks."""

    def __init__(self, types: Sequence[Type], body: Callable[..., Sequence[Any]]):
        super().__init__()
        self.types = tuple(types)
        self.body = body

    def run(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The body's results for these arrays."""
        handles = [Evaluated(t, a) for t, a in zip(self.types, arguments, strict=True)]
        return tuple(h.array for h in self.body(*handles))



class EagerEmitter:
    """Evaluates ops on NumPy arrays, and is the context in which they are evaluated.

    Args:
        features: what the language checks programs against.
        memory: where pointers point.
    """

    of_tool: ClassVar[bool] = False
    """True if a tool runs the programs, and says which one by `interpreter_builder`."""

    def __init__(self, features: TargetFeatures | None = None, memory: Memory | None = None):
        self.features = features or TargetFeatures()
        self.memory = memory or Memory()
        self.program_id: tuple[int, int, int] = (0, 0, 0)
        self.num_programs: tuple[int, int, int] = (1, 1, 1)
        self._states: dict[type, Any] = {}
        self._vectorised = 0
        self._running: list[Any] = []
        self.kernel = ""
        self._called: dict[int, Rewritten] = {}
        self.observed: Callable[[], None] | None = None
        """Called after each op that sees what other programs do while this one runs."""
        self.watch: Any = None
        """The sanitizer's checks, `tritium.sanitize.interpreted.Watch`."""
        self.replaced: Replaced | None = None
        """The functions that the program has put in place of methods of the builder."""

    def sibling(self) -> EagerEmitter:
        """The emitter of another program of the same launch."""
        other = EagerEmitter(self.features, self.memory)
        other.num_programs, other._called = self.num_programs, self._called
        other.kernel, other.watch = self.kernel, self.watch
        return other

    def begin(self, program_id: tuple[int, int, int]) -> None:
        """Run the ops from now on for this program."""
        self.program_id, self._states, self.replaced = program_id, {}, replaced()

    # Emitter

    def emit(
        self,
        cls: type[Op],
        *operands: Any,
        result: Any = None,
        regions: Sequence[Any] = (),
        **attrs: Any,
    ) -> tuple[Evaluated, ...]:
        """Evaluate the op that `cls.build` would make. Raises `OpError` where `infer` does."""
        types, values = _gathered(cls, operands)
        op = _built(cls, types, result, regions, attrs)
        if self._vectorised and not _runs_for_all_elements(op, types):
            raise Divergence
        handles: list[Any] = []
        # The op sees its surroundings (`evaluation.Context`) in us; nothing calls by symbol.
        if self.replaced is not None:
            outcome = self.replaced.evaluate(self, op, operands, attrs, values)
            if isinstance(outcome, Unknown):
                return (Foreign(op.results[0].type, outcome),)
        elif self.watch is None:
            outcome = op.evaluate(self, *values)
        else:
            handles = [h for given in operands for h in as_tuple(given) if h is not None]
            self.watch.begin(op, handles, self.program_id)
            outcome = self.watch.evaluate(op, self, handles, values)
        self._note_effects(op)
        if len(op.results) == 1:
            outcome = (outcome,)
        found = tuple(Evaluated(r.type, v) for r, v in zip(op.results, outcome or (), strict=True))
        return found if self.watch is None else tuple(self.watch.results(op, handles, found))

    def _note_effects(self, op: Op) -> None:
        """Account for what an op that has been evaluated means to the memory and to others."""
        makes = isinstance(op, (IntToPtrOp, ElementAccess)) and [r.type for r in op.results]
        if makes and is_pointer(makes[0]):
            # The program makes its own addresses, which may lie in memory that is no argument's.
            self.memory.ranges = None
        if self.observed is not None and observes(op.own_effects()):
            self.observed()

    def region(
        self, types: Sequence[Type], body: Callable[..., Sequence[Any]], terminator: type[Op]
    ) -> PythonRegion:
        """A region that runs `body`."""
        return PythonRegion(types, body)

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the function as `rewrite` compiles it; defaults are filled in, numbers and what
        parameters annotated `tl.constexpr` get are compile-time values."""
        kwargs = {k: v for k, v in kwargs.items() if k not in ("_semantic", "_generator")}
        bound = bind_arguments(function, args, kwargs)
        key = id(function), tuple(type_of(v) for v in bound.arguments.values())
        if key in self._running:
            raise RecursionError(
                f"{function.__name__} calls itself, directly or through others; "
                "recursion is not supported in kernels"
            )
        function.check_parameters()
        self._running.append(key)
        self._called[id(function)] = actual = rewritten(function)
        # What a function does to an aggregate's fields stays inside of it, as in a compiled call.
        bound.arguments = {name: fork(value) for name, value in bound.arguments.items()}
        try:
            return wrap(actual.fn(*bound.args, **bound.kwargs))
        finally:
            self._running.pop()

    @contextmanager
    def partition(self, num_warps: int) -> Generator[EagerEmitter]:
        """An emitter of the same program for code that `num_warps` warps run."""
        other = copy.copy(self)
        other.features = replace(self.features, num_warps=num_warps)
        other._running = list(self._running)
        with activate(other):
            yield other

    def called(self) -> list[Rewritten]:
        """The functions that kernels have called."""
        return list(self._called.values())

    def set_attribute(self, handle: Any, name: str, value: Any) -> None:
        """Hints change nothing."""

    def needs_carrier(self, handle: Any) -> bool:
        """Hints change nothing."""
        return False

    is_of_block = needs_carrier

    def adopt(self, handle: Any, type: dtype) -> Evaluated:
        """The handle of a tensor of this type for one of a program's own class."""
        return handle_of(handle, type.to_ir()).read_as(type)

    def warn(self, message: str) -> None:
        """A `UserWarning` at the line of the kernel."""
        warnings.warn(message, UserWarning, stacklevel=_frames_above_library())

    def static_print(self, text: str, file: Any = None, flush: bool = False) -> None:
        """Print at once."""
        print(text, end="", file=file or sys.stdout, flush=flush)

    def semantic(self) -> Any:
        """The `_semantic` argument of functions in the reference's style, a `TritonSemantic`."""
        from tritium.language.semantic import TritonSemantic  # which few kernels need

        return TritonSemantic()

    # Context

    def run_region(self, region: PythonRegion, *arguments: Any) -> tuple[Any, ...]:
        """Run a region once."""
        with self._evaluating_at_once():
            return region.run(arguments)

    @contextmanager
    def _evaluating_at_once(self) -> Generator[None]:
        """Evaluate ops of a region, whose scalars may stand for many, without the program's
        functions."""
        kept, self.replaced = self.replaced, None
        try:
            yield
        finally:
            self.replaced = kept

    def run_elementwise(self, region: PythonRegion, *arguments: Any) -> tuple[Any, ...]:
        """Run a region of scalars for every element of some arrays of one shape: for all at once
        unless it branches on a value or has effects, else one by one in row-major order."""
        with self._evaluating_at_once():
            return self._run_elementwise(region, *arguments)

    def _run_elementwise(self, region: PythonRegion, *arguments: Any) -> tuple[Any, ...]:
        shape = np.shape(arguments[0])
        self._vectorised += 1
        try:
            return tuple(np.broadcast_to(v, shape) for v in region.run(arguments))
        except Divergence:
            pass
        finally:
            self._vectorised -= 1
        if self._vectorised:
            raise Divergence
        return one_by_one(region.run, arguments)

    def state(self, kind: type[T]) -> T:
        """The state that the ops of a dialect share during a program."""
        return self._states.setdefault(kind, kind())

    def record(self, starts: bool, label: str) -> None:
        """Tell the profiler that a scope of the kernel begins or ends."""
        for listener in list(listeners):
            listener(Note(starts, label, self.kernel, self.program_id))

    checks_fences = True

    @property
    def num_ctas(self) -> int:
        return self.features.num_ctas

    def place(self) -> Place:
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_globals.get("__name__", "").startswith(_INTERNAL):
            frame = frame.f_back
        if frame is None:
            return Place()
        file, line = frame.f_code.co_filename, frame.f_lineno
        return Place(file, line, linecache.getline(file, line).strip())

    def pause(self) -> None:
        """Let other programs run."""
        if self.observed is not None:
            self.observed()
        time.sleep(PAUSE)

    def external(self, symbol: str) -> Callable[..., Any]:
        from tritium.codegen.llvm.vmath.arrays import external  # many coefficients, rarely needed

        return external(symbol)

    def print(self, text: str) -> None:
        """Output of `tl.device_print`."""
        print(text)


def _gathered(cls: type[Op], operands: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The types and the arrays of the operands, by the op's fields. Raises `OpError` where one
    is missing."""
    types: list[Any] = []
    values: list[Any] = []
    missing = [None] * len(cls.operand_fields)
    for field, given in zip(cls.operand_fields, (*operands, *missing), strict=False):
        if field.kind == "variadic":
            group = tuple(given or ())
            types.append(tuple(h.type for h in group))
            values.append(tuple(h.array for h in group))
        elif given is None and field.kind == "one":
            raise OpError(f"{cls.name}: operand '{field.name}' is missing")
        else:
            types.append(None if given is None else given.type)
            values.append(None if given is None else given.array)
    return types, values


def _built(
    cls: type[Op], types: list[Any], result: Any, regions: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    """The op that `cls.build` would make, in no block; it has operands only if it looks at their
    types."""
    fields = cls.attr_fields
    properties = {
        n: fields[n].encode(v)
        for n, v in attrs.items()
        if fields[n].required or v != fields[n].default
    }
    if cls.segmented and cls.reads_operand_types:
        sizes = (len(t) if type(t) is tuple else int(t is not None) for t in types)  # pyright: ignore
        properties[SEGMENTS] = i32_array(tuple(sizes))
    return cls.create(  # pyright: ignore[reportUnknownVariableType]
        operands=_placeholders(types) if cls.reads_operand_types else (),
        result_types=cls.result_types_for(types, attrs, result),
        properties=properties,
        regions=regions,
    )


def _runs_for_all_elements(op: Op, types: Sequence[Any]) -> bool:
    """True if an op in a region of scalars can be evaluated for all elements of tiles at once, each
    scalar being an array. A tile of the region then has further axes, the last ones: an op may
    make one or compute with several, but not match its elements with scalars."""
    if op.memory_effects():
        return False
    tiles = [isinstance(t, TensorType) for t in _flat(types)]
    if not any(tiles) and not any(isinstance(t, TensorType) for t in op.result_types):
        return True
    return op.tile_source or (op.is_elementwise and all(tiles))


def _placeholders(types: Sequence[Any]) -> Sequence[SSAValue]:
    """Values of these types, for an op that asks for them."""
    return Block(arg_types=_flat(types)).args


def _flat(types: Sequence[Any]) -> list[Type]:
    """The types of operands that are there, those of variadic ones one after the other."""
    return [t for group in types for t in as_tuple(group) if t is not None]


def bind_arguments(
    function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Arguments by parameter, defaults filled in, as language values.

    Raises `TypeError` as Python does for wrong arguments.
    """
    try:
        bound = function.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
    bound.apply_defaults()
    for param in function.params:
        value = wrap(bound.arguments[param.name])
        bound.arguments[param.name] = value if isinstance(value, base_value) else constexpr(value)
    return bound


def _frames_above_library() -> int:
    """The stack level of the kernel's own code, for `warnings.warn` called by our caller."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and _is_library(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _is_library(module: str) -> bool:
    return module.startswith(("tritium.language", "tritium.backends.interpreter", "functools"))
