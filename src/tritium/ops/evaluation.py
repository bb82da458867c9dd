"""Reference semantics: running IR on NumPy arrays.

`Op.evaluate` defines one op; this module defines the rest: memory, program ids, regions, calls
and control flow. The interpreter, constant folding and every differential test build on it.

Values: an array (or NumPy scalar) of `numpy_dtype(type)` whose shape is the tile's; pointers are
uint64 addresses; integers are signed and wrap around. A value may carry extra axes in place of a
scalar when a combine region is evaluated for many elements at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tritium.ir.locations import source_position
from tritium.ops.base import Op
from tritium.ops.memory import PAUSE, EvaluationError, Memory, Place

T = TypeVar("T")


@dataclass(frozen=True)
class Jump:
    """The result of a branch: the successor block and its arguments."""

    target: Block
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Return:
    """The result of a terminator that leaves its region."""

    values: tuple[Any, ...]


class Evaluator:
    """Runs functions of a module, one program at a time.

    `external` gives the functions of external libraries by their symbols
    (`codegen.llvm.vmath.arrays.external` knows those of libdevice).
    """

    def __init__(
        self,
        module: ModuleOp,
        memory: Memory | None = None,
        external: Callable[[str], Callable[..., Any]] | None = None,
    ):
        self.module = module
        self._external = external
        self.memory = memory or Memory()
        self.program_id = (0, 0, 0)
        self.num_programs = (1, 1, 1)
        self._environment: dict[SSAValue, Any] = {}
        self._states: dict[type, Any] = {}
        self._op: Op | None = None
        self._functions: Mapping[str, Operation] = {
            op.properties["sym_name"].data: op  # pyright: ignore[reportAttributeAccessIssue]
            for op in module.body.block.ops
            if "sym_name" in op.properties
        }

    def launch(self, function: str, arguments: Sequence[Any], grid: Sequence[int]) -> None:
        """Run `function` for every program of the grid, in increasing order of program id."""
        nx, ny, nz = (*grid, 1, 1, 1)[:3]
        self.num_programs = (nx, ny, nz)
        for z in range(nz):
            for y in range(ny):
                for x in range(nx):
                    self.program_id = (x, y, z)
                    self._states = {}
                    self.call(function, *arguments)

    def call(self, symbol: str, *arguments: Any) -> tuple[Any, ...]:
        """Run one function; returns what it returns."""
        function = self._functions.get(symbol)
        if function is None:
            raise EvaluationError(f"call of '{symbol}', which the module does not define")
        with np.errstate(all="ignore"):
            return self.run_region(function.regions[0], *arguments)

    def run_region(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a region from its entry block until a terminator leaves it."""
        block, values = region.blocks[0], arguments
        while True:
            outcome = self._run_block(block, values)
            if isinstance(outcome, Return):
                return outcome.values
            block, values = outcome.target, outcome.arguments

    def run_elementwise(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a region of scalars for every element of some arrays of one shape.

        All elements at once where the region is straight-line code without effects, else one
        by one in row-major order.
        """
        shape = arguments[0].shape
        if self._is_straight_line(region):
            found = self.run_region(region, *arguments)
            return tuple(np.broadcast_to(v, shape) for v in found)
        return one_by_one(lambda scalars: self.run_region(region, *scalars), arguments)

    def _is_straight_line(self, region: Region) -> bool:
        for op in region.blocks[0].ops:
            assert isinstance(op, Op), f"{op.name} has no reference semantics"
            if op.name == "tt.call":
                callee = self._functions.get(op.callee)  # pyright: ignore
                if callee is None or not self._is_straight_line(callee.regions[0]):
                    return False
            elif op.regions or op.successors or op.effects:
                return False
        return True

    def _run_block(self, block: Block, arguments: Sequence[Any]) -> Jump | Return:
        environment = self._environment
        environment.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            assert isinstance(op, Op), f"{op.name} has no reference semantics"
            self._op = op
            outcome = self._apply(op, self._operands(op))
            if isinstance(outcome, (Jump, Return)):
                return outcome
            if len(op.results) == 1:
                environment[op.results[0]] = outcome
            elif op.results:
                environment.update(zip(op.results, outcome, strict=True))
        raise EvaluationError("a block ended without a terminator")

    def _apply(self, op: Op, operands: Sequence[Any]) -> Any:
        """Evaluate an op on these operands."""
        return op.evaluate(self, *operands)

    def _operands(self, op: Op) -> list[Any]:
        environment = self._environment
        values: list[Any] = []
        for field, group in zip(op.operand_fields, op.operand_groups(), strict=True):
            if field.kind == "variadic":
                values.append(tuple(environment[v] for v in group))
            else:
                values.append(environment[group[0]] if group else None)
        return values

    def print(self, text: str) -> None:
        print(text)

    def record(self, starts: bool, label: str) -> None:
        """Do nothing: nobody profiles the reference semantics."""

    checks_fences = False
    num_ctas = 1

    def place(self) -> Place:
        location = getattr(self._op, "location", None)
        found = None if location is None else source_position(location)
        return Place() if found is None else Place(*found[:2])

    def pause(self) -> None:
        """Wait; there is one program."""
        time.sleep(PAUSE)

    def external(self, symbol: str) -> Callable[..., Any]:
        if self._external is None:
            raise NotImplementedError(
                f"reference semantics of the external function {symbol}, without `external`"
            )
        return self._external(symbol)

    def state(self, kind: type[T]) -> T:
        return self._states.setdefault(kind, kind())


def one_by_one(
    run: Callable[[Sequence[Any]], Sequence[Any]], arguments: Sequence[Any]
) -> tuple[Any, ...]:
    """Arrays of what a function gives for the elements of some arrays of one shape, in row-major
    order."""
    shape = np.shape(arguments[0])
    results: list[np.ndarray] | None = None
    places: list[Any] = list(np.ndindex(shape))
    for index in places:
        found = run([a[index] for a in arguments])
        if results is None:
            results = [np.empty(shape, np.asarray(v).dtype) for v in found]
        for array, value in zip(results, found, strict=True):
            array[index] = value
    return tuple(results or ())


class _Nowhere:
    """The surroundings of an op that is folded: there are none."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"an op that needs the program's {name} cannot be folded")


def fold(op: Op, operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """The results of a pure op for these values of `op.operands`, or None if they cannot be known
    now (it has effects, regions or successors, depends on the program, or has no reference
    semantics)."""
    if op.regions or op.successors or not op.is_pure:
        return None
    grouped: list[Any] = []
    position = 0
    for field, group in zip(op.operand_fields, op.operand_groups(), strict=True):
        values = tuple(operands[position : position + len(group)])
        position += len(group)
        grouped.append(values if field.kind == "variadic" else (values[0] if values else None))
    nowhere: Any = _Nowhere()
    try:
        with np.errstate(all="ignore"):
            results = op.evaluate(nowhere, *grouped)
    except NotImplementedError:
        return None
    return (results,) if len(op.results) == 1 else tuple(results or ())
