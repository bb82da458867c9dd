"""Reference semantics: running IR on NumPy arrays.

`Op.evaluate` defines one op; this module defines the rest: memory, program ids, regions, calls
and control flow. The interpreter, constant folding and every differential test build on it.

Values: an array (or NumPy scalar) of `numpy_dtype(type)` whose shape is the tile's; pointers are
uint64 addresses; integers are signed and wrap around. A value may carry extra axes in place of a
scalar when a combine region is evaluated for many elements at once.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tritium.errors import TritonError
from tritium.ops.base import Op

T = TypeVar("T")


class EvaluationError(TritonError):
    """The program did something that has no meaning (a wild address, a failed assertion)."""


class Memory:
    """The process's own memory, addressed by uint64.

    With `ranges` (pairs of first address and size in bytes) any access outside them raises
    `EvaluationError`; without, a wild address crashes the process as native code would.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] | None = None):
        self.ranges = None if ranges is None else sorted(ranges)

    def load(self, addresses: np.ndarray, dtype: np.dtype, mask: np.ndarray | None) -> np.ndarray:
        """The elements at `addresses`; zero where the mask is false."""
        addresses = np.asarray(addresses, dtype=np.uint64)
        out = np.zeros(addresses.shape, dtype=dtype)
        where = self._active(addresses, mask)
        active = addresses[where]
        if active.size:
            view, index = self._window(active, dtype)
            out[where] = view[index[:, None] + np.arange(dtype.itemsize)].view(dtype).reshape(-1)
        return out

    def store(self, addresses: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        """Store element by element, later elements winning over earlier ones."""
        addresses = np.asarray(addresses, dtype=np.uint64)
        value = np.ascontiguousarray(np.broadcast_to(value, addresses.shape))
        where = self._active(addresses, mask)
        active = addresses[where]
        if active.size:
            size = value.dtype.itemsize
            view, index = self._window(active, value.dtype)
            data = np.ascontiguousarray(value[where]).reshape(-1, 1).view(np.uint8)
            view[index[:, None] + np.arange(size)] = data.reshape(-1, size)

    def update(
        self,
        addresses: np.ndarray,
        dtype: np.dtype,
        mask: np.ndarray | None,
        change: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Replace elements one after the other, in row-major order, and return what each found.

        `change(old, where)` gives the new values for the flat positions `where`, which have
        different addresses. Zero where the mask is false.
        """
        addresses = np.asarray(addresses, dtype=np.uint64)
        active = np.flatnonzero(self._active(addresses, mask))
        flat, found = addresses.reshape(-1), np.zeros(addresses.size, dtype)
        # Positions that share an address take turns; the n-th of each go together.
        _, first, counts = np.unique(flat[active], return_inverse=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        starts = np.cumsum(counts) - counts
        turn = np.empty(len(active), np.int64)
        turn[order] = np.arange(len(active)) - starts[first[order]]
        for n in range(int(counts.max(initial=0))):
            where = active[turn == n]
            found[where] = self.load(flat[where], dtype, None)
            self.store(flat[where], change(found[where], where), None)
        return found.reshape(addresses.shape)

    @staticmethod
    def _active(addresses: np.ndarray, mask: np.ndarray | None) -> Any:
        if mask is None:
            return np.ones(addresses.shape, dtype=bool)
        return np.broadcast_to(mask, addresses.shape)

    def _window(self, active: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """A byte array over the span of the addresses, and their offsets in it. Only the bytes
        that are indexed are touched, so the span may cross unmapped pages."""
        if self.ranges is not None:
            self._check(active, dtype.itemsize)
        low = int(active.min())
        span = int(active.max()) - low + dtype.itemsize
        if low == 0 or span > sys.maxsize:
            raise EvaluationError(f"access to invalid address {low:#x}")
        buffer = (ctypes.c_uint8 * span).from_address(low)
        view: Any = np.frombuffer(buffer, np.uint8)  # pyright: ignore
        return view, (active - np.uint64(low)).astype(np.int64)  # pyright: ignore[reportUnknownVariableType]

    def _check(self, active: np.ndarray, size: int) -> None:
        assert self.ranges is not None
        inside = np.zeros(active.shape, dtype=bool)
        for start, length in self.ranges:
            inside |= (active >= start) & (active + np.uint64(size) <= start + length)
        if not inside.all():
            wild = int(active[~inside][0])
            raise EvaluationError(f"access to address {wild:#x}, which belongs to no argument")


PAUSE = 20e-6
"""Seconds between two looks of an op that waits."""


class Context(Protocol):
    """The services that `Op.evaluate` may use."""

    memory: Memory
    program_id: tuple[int, int, int]
    num_programs: tuple[int, int, int]

    def run_region(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a single-block region; returns the operands of its terminator."""
        ...

    def run_elementwise(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a region of scalars for every element of some arrays of one shape; returns arrays."""
        ...

    def call(self, symbol: str, *arguments: Any) -> tuple[Any, ...]:
        """Call a function of the module."""
        ...

    def print(self, text: str) -> None:
        """Output of `tt.print`."""
        ...

    def pause(self) -> None:
        """Let other programs run: the op waits for one of them."""
        ...

    def external(self, symbol: str) -> Callable[..., Any]:
        """The function of an external library, on arrays, that no op's module defines."""
        ...

    def state(self, kind: type[T]) -> T:
        """The state that the ops of a dialect share during a program: an instance of
        `kind`, made (without arguments) at its first use."""
        ...


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
        results: list[np.ndarray] | None = None
        index: tuple[int, ...]
        for index in np.ndindex(shape):  # pyright: ignore[reportUnknownVariableType]
            found = self.run_region(region, *(a[index] for a in arguments))
            if results is None:
                results = [np.empty(shape, np.asarray(v).dtype) for v in found]
            for array, value in zip(results, found, strict=True):
                array[index] = value
        return tuple(results or ())

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
            outcome = op.evaluate(self, *self._operands(op))
            if isinstance(outcome, (Jump, Return)):
                return outcome
            if len(op.results) == 1:
                environment[op.results[0]] = outcome
            elif op.results:
                environment.update(zip(op.results, outcome, strict=True))
        raise EvaluationError("a block ended without a terminator")

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
