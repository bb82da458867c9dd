"""A wave: it runs a function's blocks for all of its lanes at once.

Each lane has a block that it runs next. The wave runs the first of these, in the order of the text,
for the lanes that wait for it: the two sides of a branch one after the other, and a loop as long as
a lane stays in it. A value keeps, for the lanes that do not take part, what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from tests.amd.execution import atomics, buffers, matrix, memory
from tests.amd.execution.conversions import CONVERSIONS
from tests.amd.execution.functions import function
from tests.amd.execution.lanes import LANES
from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.operations import compute
from tests.amd.execution.parse import Function, Instruction, Local, Module, Symbol
from tests.amd.execution.types import LDS, select, spread

AMD = "llvm.amdgcn."
_MOST_BLOCKS = 200_000
_ENDED = -1
Step = Callable[["Wave", Any, Sequence[Any]], Any]


class Code:
    """A module that is ready to run: the functions of its instructions, addresses of its variables.

    `addresses`: where global variables are; LDS begins at 0.
    """

    def __init__(self, module: Module, addresses: dict[str, int]):
        self.module, self._addresses = module, addresses
        self.functions = {name: Prepared(self, f) for name, f in module.functions.items()}

    def operand(self, value: Any) -> Any:
        """A local's name, or a constant."""
        if isinstance(value, Local):
            return value.name
        if isinstance(value, Symbol):
            address = self._addresses[value.name] + value.offset
            return np.array([address & (1 << 64) - 1], np.uint64)
        return value

    def step(self, ins: Instruction) -> Step:
        """The function that does an instruction, but for control flow."""
        pure = compute(ins)
        if pure is not None:
            return lambda wave, mask, values: pure(*values)
        if ins.opcode == "call":
            return _call(ins)
        return _MEMORY[ins.opcode](ins)


class Prepared:
    """A function, with `blocks` of (name of the result, operands, step, instruction)."""

    def __init__(self, code: Code, function: Function):
        self.params, self.type, self.name = function.params, function.type, function.name
        self.index = {block.name: i for i, block in enumerate(function.blocks)}
        self.phis = [
            [(phi.dest, self._sources(code, phi)) for phi in block.phis]
            for block in function.blocks
        ]
        self.blocks = [
            [(ins.dest, [code.operand(v) for v in ins.args], self._step(code, ins), ins)
             for ins in block.body] for block in function.blocks
        ]  # fmt: skip

    def _sources(self, code: Code, phi: Instruction) -> dict[int, Any]:
        """The operand for each block that control comes from."""
        pairs = zip(phi.labels, phi.args, strict=True)
        return {self.index[label]: code.operand(value) for label, value in pairs}

    @staticmethod
    def _step(code: Code, ins: Instruction) -> Step | None:
        """None for what changes the flow of control."""
        if ins.opcode in ("br", "switch", "ret", "unreachable"):
            return None
        if ins.opcode == "call" and (ins.what in code.module.functions or ins.what in _WAITS):
            return None
        return code.step(ins)


_HANDED_ON = 'asm "" "=v,0"', 'asm "" "=v,0,s"'
_WAITS = (f"{AMD}s.barrier", f"{AMD}endpgm")


def _call(ins: Instruction) -> Step:
    name, type = ins.what, ins.type
    if name == "llvm.readsteadycounter":
        return lambda wave, mask, values: wave.group.clock()
    if name in _HANDED_ON:
        return lambda wave, mask, values: values[0]
    if name.startswith(AMD):
        return _intrinsic(ins, name.removeprefix(AMD))
    found = function(name.removeprefix("llvm.")) if name.startswith("llvm.") else None
    if found is None:
        raise NotImplementedError(f"the model has no function {name}: {ins.text}")
    return lambda wave, mask, values: found(type, *values)


def _intrinsic(ins: Instruction, name: str) -> Step:
    parts = name.split(".")
    if parts[0] in ("mfma", "wmma"):
        scaled = {"mfma": matrix.multiply_scaled, "wmma": matrix.multiply_scaled_by_wmma}
        act = scaled[parts[0]] if parts[1].startswith("scale") else matrix.multiply
        return lambda wave, mask, values: act(wave, ins, mask, *values)
    if name.startswith("ds.read.tr16.b64"):
        return _turned(ins)
    if name.startswith("make.buffer.rsrc"):
        return lambda wave, mask, values: buffers.make(wave, mask, *values)
    for count in range(len(parts), 0, -1):
        known = ".".join(parts[:count])
        if (act := buffers.BUFFERS.get(known)) is not None:
            return lambda wave, mask, values, act=act: act(wave, ins, mask, *values)
        if (act := LANES.get(known) or CONVERSIONS.get(known)) is not None:
            return lambda wave, mask, values, act=act: act(wave, mask, *values)
    raise NotImplementedError(f"the model has no instruction {AMD}{name}: {ins.text}")


def _load(ins: Instruction) -> Step:
    space, type = ins.types[0].space, ins.type
    waits = space == LDS and "noalias" not in ins.metadata

    def load(wave: Wave, mask: Any, values: Sequence[Any]) -> Any:
        if waits:  # LLVM does not know that no copy under way writes this
            wave.finish_copies(0)
        return memory.load(wave, type, space, values[0], mask, ins.align)

    return load


def _turned(ins: Instruction) -> Step:
    """`ds_read_b64_tr_b16` (CDNA4, "MFMA transpose load from LDS"): of each 16 lanes, lane t gives
    the address of part t % 4 of row t / 4, and gets column t of the four rows."""
    load = _load(ins)

    def turn(wave: Wave, mask: Any, values: Sequence[Any]) -> Any:
        if wave.arch != "gfx950":
            raise ExecutionError(f"{wave.arch} has no ds_read_b64_tr_b16")
        wave.need_all(mask, "ds_read_b64_tr_b16")
        if np.any(values[0] % 8):
            raise ExecutionError("an address of ds_read_b64_tr_b16 that 8 does not divide")
        rows = load(wave, mask, values).reshape(-1, 4, 16)
        return rows.transpose(0, 2, 1).reshape(-1, 4)

    return turn


def _store(ins: Instruction) -> Step:
    type, space = ins.types[0], ins.types[1].space

    def store(wave: Wave, mask: Any, values: Sequence[Any]) -> None:
        wave.open_lds |= space == LDS
        memory.store(wave, type, space, values[0], values[1], mask, ins.align)

    return store


def _update(ins: Instruction) -> Step:
    kind, type, space = ins.what, ins.type, ins.types[0].space

    def update(wave: Wave, mask: Any, values: Sequence[Any]) -> Any:
        wave.open_lds |= space == LDS
        return _by_elements(wave, kind, type, space, values, mask)

    return update


def _by_elements(
    wave: Wave, kind: str, type: Any, space: int, values: Sequence[Any], mask: Any
) -> Any:
    """Vectors are updated element by element, as `global_atomic_pk_add_f16` does."""
    address, operand = values
    if not type.count:
        return atomics.update(wave, kind, type, space, address, operand, mask)
    size = np.uint64(type.element.size)
    parts = [
        atomics.update(wave, kind, type.element, space, address + size * np.uint64(i),
                       operand[:, i], mask)
        for i in range(type.count)
    ]  # fmt: skip
    return np.stack(parts, axis=1)


def _swap(ins: Instruction) -> Step:
    type, space = ins.types[1], ins.types[0].space
    return lambda wave, mask, values: atomics.compare_and_swap(wave, type, space, *values, mask)


def _fence(ins: Instruction) -> Step:
    wide = ins.scope in ("workgroup", "agent", "system", "cluster")
    releases = ins.what in ("release", "acq_rel", "seq_cst")

    def fence(wave: Wave, mask: Any, values: Sequence[Any]) -> None:
        if wide and releases:
            wave.finish_copies(0)
            wave.open_lds = False

    return fence


_MEMORY = {"load": _load, "store": _store, "atomicrmw": _update, "cmpxchg": _swap, "fence": _fence}


class Wave:
    """One wave of a workgroup (`group`).

    Attributes:
        copies: what finishes the copies to LDS that are under way, the oldest first.
        open_lds: the wave has written LDS and has not waited for that to be done.
    """

    def __init__(self, group: Any, number: int, lanes: int):
        self.group, self.number, self.lanes = group, number, lanes
        self.arch, self.memory = group.arch, group.memory
        self.alive = np.ones(lanes, bool)
        self.copies: list[Callable[[], None]] = []
        self.open_lds = False
        self._blocks = 0

    def finish_copies(self, left: int) -> None:
        while len(self.copies) > left:
            self.copies.pop(0)()

    def need_all(self, mask: Any, what: str) -> None:
        """Raise an error where lanes do not take part in what all have to."""
        if not mask.all():
            raise ExecutionError(f"{what} in {int(mask.sum())} of {self.lanes} lanes")

    def _barrier(self, mask: Any) -> None:
        if not np.array_equal(mask, self.alive):
            raise ExecutionError("a barrier in some lanes of a wave")
        if self.open_lds:
            raise ExecutionError("a barrier while stores to LDS are not known to be done")

    def run(
        self, code: Code, function: Prepared, arguments: Sequence[Any], mask: Any
    ) -> Generator[None, None, Any]:
        """Run a function; it yields at each barrier, and gives what the function returns."""
        values: dict[str, Any] = dict(zip(function.params, arguments, strict=True))
        at = np.where(mask, 0, _ENDED)
        before, result = np.full(self.lanes, _ENDED), None
        while (waiting := at[at >= 0]).size:
            here = int(waiting.min())
            active = at == here
            full = bool(active.all())
            self._count()
            self._phis(function.phis[here], values, before, active, full)
            for dest, operands, step, ins in function.blocks[here]:
                found = [values[v] if type(v) is str else v for v in operands]
                if step is not None:
                    value = step(self, active, found)
                elif ins.opcode != "call":
                    returned = self._jump(function, ins, found, active, at, before)
                    if returned is not None:
                        result = returned if result is None else select(active, returned, result)
                    break
                elif ins.what in code.functions:
                    called = code.functions[ins.what]
                    value = yield from self.run(code, called, found, active)
                    active &= self.alive
                    at[~self.alive] = _ENDED
                elif ins.what.endswith("endpgm"):
                    self.alive[:], at[:] = False, _ENDED  # the wave ends, whoever asks for it
                    break
                else:
                    self._barrier(active)
                    value = yield
                if dest:
                    old = None if full else values.get(dest)
                    values[dest] = value if old is None else select(active, value, old)
        return result

    def _count(self) -> None:
        self._blocks += 1
        if self._blocks > _MOST_BLOCKS:
            raise ExecutionError("a wave runs for ever")

    def _phis(
        self, phis: Sequence[Any], values: dict[str, Any], before: Any, active: Any, full: bool
    ) -> None:
        if not phis:
            return
        came = before[active]
        only = int(came[0]) if (came == came[0]).all() else None
        news = list[tuple[str, Any]]()
        for dest, sources in phis:
            if only is not None:
                operand = sources[only]
                value = values[operand] if type(operand) is str else operand
            else:
                value = None
                for block in np.unique(came):
                    operand = sources[int(block)]
                    one = values[operand] if type(operand) is str else operand
                    value = one if value is None else select(before == block, one, value)
            news.append((dest, value))
        for dest, value in news:
            old = None if full else values.get(dest)
            values[dest] = value if old is None else select(active, value, old)

    def _jump(
        self, function: Prepared, ins: Instruction, found: Sequence[Any], active: Any, at: Any,
        before: Any,
    ) -> Any:  # fmt: skip
        """Send the active lanes on; gives what is returned."""
        before[active] = at[active]
        if ins.opcode == "ret":
            at[active] = _ENDED
            return found[0] if found else None
        if ins.opcode == "unreachable":
            raise ExecutionError("what cannot be reached is")
        targets = [function.index[label] for label in ins.labels]
        if ins.opcode == "switch":
            where = np.full(self.lanes, targets[0])
            for number, target in zip(ins.numbers, targets[1:], strict=True):
                wanted = spread(found[0], self.lanes) == found[0].dtype.type(number)
                where = np.where(wanted, target, where)
            at[active] = where[active]
        elif found:
            where = np.where(spread(found[0], self.lanes), targets[0], targets[1])
            at[active] = where[active]
        else:
            at[active] = targets[0]
        return None

