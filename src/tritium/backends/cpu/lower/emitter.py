"""Computing the values of tiles where they are used: the core of the CPU's code generation.

`Emitter.emit(value, at)` writes code for one chunk of a tile: the elements at positions `at` (an
`Index` for each dimension), of which at most one runs over the lanes. It walks up the ttir ops
that define the value; each has a rule, found in these tables:

    RULES["cpu.tile"]    ops that move elements (splat, broadcast, trans, loads, ...):
                         rule(emitter, op, result number, at) -> Lanes
    RULES["cpu.linear"]  index arithmetic that keeps arithmetic progressions what they are:
                         rule(emitter, op, arguments) -> Linear | None
    RULES["cpu"]         elementwise ops, on scalars and vectors alike:
                         rule(context, op, *values) -> Value (or a tuple of them)
    RULES["cpu.origin"]  the parts of vectors of addresses:
                         rule(emitter, op, arguments) -> Origin | None

Values are remembered, and written at the outermost loop level at which they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.context import Context, as_tuple, class_of
from tritium.backends.cpu.lower.values import (
    NOTHING,
    ZERO,
    At,
    Facts,
    Index,
    Kind,
    Lanes,
    Linear,
    Uniform,
    Vec,
    differs_by_lane,
)
from tritium.codegen.llvm.writer import (
    Function,
    Loop,
    Section,
    Value,
    const,
    const_vector,
    lanes,
    vector,
)
from tritium.codegen.registry import rules
from tritium.ir import types as ir

_TILE, _LINEAR, _ELEMENTWISE = rules("cpu.tile"), rules("cpu.linear"), rules("cpu")
_ORIGIN = rules("cpu.origin")


class Emitter:
    """Emits values of tiles for the chunks of one nest; see the module.

    `width` is the number of lanes. `inline` are values that have a buffer but are computed all the
    same (this nest is what fills the buffer). Of some values more is known (`facts`).
    """

    def __init__(
        self,
        context: Context,
        width: int,
        inline: frozenset[SSAValue] = frozenset(),
        facts: Facts = NOTHING,
    ):
        self.context, self.width, self.inline = context, width, inline
        self.facts = facts
        self.f: Function = context.f
        self.block: Value | None = None
        """Start position of the current transposed block; see `moves/transpose`."""
        self.streams = False
        """True if stores go past the caches."""
        self.aligned = True
        """True if chunks begin at multiples of the width."""
        self.chunks: tuple[Value | None, int] = None, 0
        """The index of the loop over chunks of lanes, and its step."""
        self._sections: list[Section] = []
        self._known: dict[Any, Any] = {}
        self._written: dict[Any, int] = {}
        """The level at which `once` wrote what is known under a key."""
        self._scopes: list[list[Any]] = []

    # Levels

    @property
    def depth(self) -> int:
        """The level of code that is appended at the current position."""
        return len(self._sections) - 1

    def push(self) -> None:
        """Enter a loop body (or, first, the nest): a new innermost level begins here."""
        self._sections.append(self.f.section())
        self._scopes.append([])

    def pop(self) -> None:
        """Leave the innermost level; what was computed in it is forgotten."""
        for key in self._scopes.pop():
            del self._known[key]
            self._written.pop(key, None)
        self._sections.pop()

    @contextmanager
    def loop(
        self, size: int | Value, step: int = 1, carried: Sequence[Value] = (), *,
        start: int | Value = 0, at_least_once: bool = True,
    ) -> Generator[Loop, None, None]:  # fmt: skip
        """A loop of the nest, `start` to `size`, and its level. What the body finds to be
        invariant goes before the loop, behind all that has been written so far."""
        if self._sections:
            self._sections[-1] = self.f.section()
        first, stop, by = (
            n if isinstance(n, Value) else const("i64", n) for n in (start, size, step)
        )
        with self.f.loop(first, stop, by, carried, at_least_once=at_least_once) as loop:
            self.push()
            yield loop
            self.pop()

    def loops(
        self, domain: Sequence[int], axes: Sequence[int], at: list[Index], write: Callable[[], None]
    ) -> None:
        """Loops over some axes of a domain around what `write` writes, where `at` has their
        indices."""
        if not axes:
            write()
            return
        axis, *rest = axes
        if domain[axis] == 1:
            at[axis] = ZERO
            self.loops(domain, rest, at, write)
            return
        with self.loop(domain[axis]) as loop:
            at[axis] = Index(Kind.SCALAR, loop.index, 0, self.depth)
            self.loops(domain, rest, at, write)

    def at_level(self, level: int, write: Callable[..., Any], *arguments: Any) -> Any:
        """Call `write(*arguments)` so that the straight-line code it emits lands at `level`."""
        if level >= len(self._sections) - 1:
            return write(*arguments)
        lines = self.f.enter(self._sections[level])
        try:
            return write(*arguments)
        finally:
            self.f.leave(lines)

    def remember(self, key: Any, level: int, result: Any) -> Any:
        """Keep `result` until the loop of `level` ends."""
        if key not in self._known:
            self._scopes[min(level, len(self._scopes) - 1)].append(key)
        self._known[key] = result
        return result

    def known(self, key: Any) -> Any:
        """The cached value of a key, or None."""
        return self._known.get(key)

    def once(self, key: Any, level: int, write: Callable[..., Value], *arguments: Any) -> Value:
        """`write(*arguments)` at `level`, unless that was done before under the same key, there or
        further out (what is further in cannot be used here)."""
        found = self._known.get(key)
        if found is None or self._written.get(key, 0) > level:
            found = self.remember(key, level, self.at_level(level, write, *arguments))
            self._written[key] = level
        return found

    # Values of tiles

    def emit(self, value: SSAValue, at: At, number: int = 0) -> Lanes:
        """The elements of `value` at the positions `at`."""
        found = self._find(value, at)
        if found is not None:
            return found
        # Operands first, so that chains of any length take no recursive call for each op.
        stack, met, done = [value], {value}, set[SSAValue]()
        stack.extend(reversed(self._arguments(value)))
        while stack:
            value = stack[-1]
            place = at if value.type.__class__ is ir.TensorType else ()
            if value not in met:
                met.add(value)
                found = self._find(value, place)
                if found is None:
                    missing = [o for o in self._arguments(value) if o not in met]
                    if missing:
                        stack.extend(reversed(missing))
                        continue
                else:
                    done.add(value)
            if value not in done:
                found = self._emit(value, place)
                done.add(value)
            stack.pop()
        assert found is not None
        return found

    def _arguments(self, value: SSAValue) -> Sequence[SSAValue]:
        """The values that are needed at the same positions as `value`, to compute it."""
        context, owner = self.context, value.owner
        if value in self.facts.true or value in context.scalars:
            return ()
        if value in context.buffers and value not in self.inline:
            return ()
        if isinstance(owner, Block) or class_of(owner) in _TILE:
            return ()
        return owner.operands

    def _find(self, value: SSAValue, at: At) -> Lanes | None:
        """The cached elements of `value` at the positions `at`."""
        found = self._known.get((value, at))
        if found is not None:
            return found
        start = _start(at)
        if start is None:
            return None
        known = self._known.get(("base", value, start[0]))
        if known is None or isinstance(known, Uniform):
            return known
        return known._replace(shift=start[1])

    def _emit(self, value: SSAValue, at: At) -> Lanes:
        start = _start(at)
        result = self._compute(value, at)
        if start is not None and not result.pinned and not isinstance(result, Vec):
            kept = result if isinstance(result, Uniform) else result._replace(shift=0)
            self.remember(("base", value, start[0]), self.level_of(result), kept)
        else:
            self.remember((value, at), max(self.level_of(result), _level(at)), result)
        return result

    @staticmethod
    def level_of(result: Lanes) -> int:
        """The innermost level that a value depends on."""
        if isinstance(result, Linear):
            return max(result.level, result.index_level)
        return result.level

    def _compute(self, value: SSAValue, at: At) -> Lanes:
        context = self.context
        if value in self.facts.true:
            return Uniform(const("i1", True), 0)
        held = context.scalars.get(value)
        if held is not None:
            return Uniform(held, 0)
        if value in context.buffers and value not in self.inline:
            return context.load_buffer(self, context.buffers[value], at)
        owner: Any = value.owner
        if isinstance(owner, Block):
            raise NotImplementedError(f"a tile of type {value.type} as an argument of this block")
        rule = _TILE.get(class_of(owner))
        with context.lines(owner):
            if rule is not None:
                return rule(self, owner, value.index, at)  # pyright: ignore
            return self._elementwise(owner, value, at)

    def _elementwise(self, op: Any, value: Any, at: At) -> Lanes:
        rule = _ELEMENTWISE.get(class_of(op))
        if rule is None:
            raise self.context.unsupported(op)
        arguments = [self.emit(o, at if o.type.__class__ is ir.TensorType else ())
                     for o in op.operands]  # fmt: skip
        linear = False
        uniform = True
        for argument in arguments:
            if isinstance(argument, Linear):
                linear, uniform = True, False
            elif isinstance(argument, Vec):
                uniform = False
        if linear:
            keep = _LINEAR.get(class_of(op))
            result = None if keep is None else keep(self, op, arguments)
            if result is not None:
                return result
        if not uniform and (op.piecewise or op.widened_operand):
            aligned = self._by_alignment(value, at)
            if aligned is not None:
                return aligned
        found = self.apply(op, rule, arguments, uniform, value.index)
        origin = None if uniform else _ORIGIN.get(class_of(op))
        return found if origin is None else found._replace(origin=origin(self, op, arguments))

    def apply(
        self, op: Any, rule: Callable[..., Any], arguments: list[Lanes], uniform: bool, number: int
    ) -> Lanes:
        """Call an elementwise rule on scalars where all arguments are, else on vectors."""
        pinned = any(a.pinned for a in arguments)
        if uniform:
            level = max([a.level for a in arguments], default=0)
            values = [a.value for a in arguments]  # pyright: ignore
        else:
            level = max(self.level_of(a) for a in arguments)
            values = [self.vec(a) for a in arguments]
        results = self.at_level(level, rule, self.context, op, *values)
        result = as_tuple(results)[number]
        return (Uniform if uniform else Vec)(result, level, pinned)

    def _by_alignment(self, value: SSAValue, at: At) -> Uniform | Linear | None:
        """Use what is known of alignment: equal or consecutive elements within the chunk."""
        dim = next((d for d, i in enumerate(at) if i.kind == Kind.LANES), None)
        if dim is None or not self.aligned or differs_by_lane(at):
            return None
        index = at[dim]
        info = self.context.info(value)
        first = (*at[:dim], index._replace(kind=Kind.SCALAR), *at[dim + 1 :])
        if info.constancy[dim] % self.width == 0:
            found = self.emit(value, first)
            assert isinstance(found, Uniform)
            return found._replace(pinned=True)
        if info.contiguity[dim] % self.width == 0 and ir.element_type(value.type) != ir.i1:
            found = self.emit(value, first)
            assert isinstance(found, Uniform)
            stride = 1
            if ir.is_pointer(value.type):
                stride = self.context.pointee_bytes(value.type)
            return Linear(found.value, stride, None, 0, found.level, found.level, True)
        return None

    # Between the forms

    def vec(self, value: Lanes) -> Value:
        """A value as a vector of `width` lanes (a scalar if that is 1)."""
        if isinstance(value, Vec):
            return value.value
        width = self.width
        if isinstance(value, Uniform):
            if width == 1:
                return value.value
            return self.once(("splat", value.value), value.level, self.f.splat, value.value, width)
        return self._progression(value)

    def _progression(self, value: Linear) -> Value:
        """base + stride * (index + shift + lane), lane by lane."""
        f, width = self.f, self.width
        level = max(value.level, value.index_level)
        key = ("progression", value[:6], width)
        found = self._known.get(key)
        if found is not None:
            return found
        base = value.base
        number = "i64" if base.type == "ptr" else base.type
        start = self.moved(value._replace(shift=0))
        steps = vector(number, width)
        if isinstance(value.stride, int):
            first, stride = value.shift * value.stride, value.stride
            offsets = const_vector(steps, [first + stride * i for i in range(width)])
        else:
            count = const_vector(steps, [value.shift + i for i in range(width)])
            stride = self.vec(Uniform(value.stride, value.level))
            offsets = self.once(("mul", stride, count), value.level, f.op, "mul", stride, count)
        if base.type == "ptr":
            return self.once(key, level, f.gep, "i8", start, offsets)
        wide = self.vec(Uniform(start, level))
        return self.once(key, level, f.op, "add", wide, offsets)

    def pinned(self, value: Linear) -> Linear:
        """The progression as seen from this chunk only."""
        if value.index is None and value.shift == 0:
            return value
        level = max(value.level, value.index_level)
        return Linear(self.moved(value), value.stride, None, 0, level, level, pinned=True)

    def moved(self, value: Linear) -> Value:
        """The scalar in the first lane: base + stride * (index + shift)."""
        f, base, pointer = self.f, value.base, value.base.type == "ptr"
        number = "i64" if pointer else base.type
        level = value.level
        result = base
        if value.index is not None and value.stride != 0:
            level = max(level, value.index_level)
            index = value.index
            if number != "i64":
                index = self.once(
                    ("trunc", index, number), value.index_level, f.cast, "trunc", index, number
                )
            result = self._advance(result, index, value.stride, level)
        if value.shift and value.stride != 0:
            result = self._advance(result, const(number, value.shift), value.stride, level)
        return result

    def _advance(self, base: Value, count: Value, stride: Value | int, level: int) -> Value:
        """base + count * stride."""
        f = self.f
        if isinstance(stride, int):
            if count.ref.lstrip("-").isdigit():
                offset = const(count.type, int(count.ref) * stride)
            elif stride == 1 or (base.type == "ptr" and stride in (1, 2, 4, 8)):
                offset = count
            else:
                offset = self.once(
                    ("mul", count, stride), level, f.op, "mul", count, const(count.type, stride)
                )
                stride = 1
        else:
            offset = self.once(("mul", count, stride), level, f.op, "mul", count, stride)
            stride = 1
        if base.type == "ptr":
            unit = "i8"
            if not offset.ref.lstrip("-").isdigit():
                unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[stride]
            key = ("gep", unit, base, offset)
            return self.once(key, level, f.gep, unit, base, offset)
        return self.add(base, offset, level)

    def add(self, left: Value, right: Value, level: int) -> Value:
        """The sum of two integers, folded where both are known."""
        if right.ref == "0":
            return left
        if left.ref == "0":
            return right
        if left.ref.lstrip("-").isdigit() and right.ref.lstrip("-").isdigit():
            return const(left.type, int(left.ref) + int(right.ref))
        return self.once(("add", left, right), level, self.f.op, "add", left, right)

    def position(self, index: Index, type: str = "i64") -> Lanes:
        """An index as a number."""
        f = self.f
        if index.kind == Kind.LANES:
            zero = const(type, 0)
            return Linear(zero, 1, index.value, index.shift, 0, index.level)
        value = index.value
        if index.kind == Kind.VECTOR:
            assert value is not None
            to = vector(type, lanes(value.type))
            if to != value.type:
                key = ("trunc", value, to)
                value = self.once(key, index.level, f.cast, "trunc", value, to)
            if index.shift:
                value = f.op("add", value, const(to, index.shift))
            return Vec(value, index.level)
        if value is None:
            return Uniform(const(type, index.shift), 0)
        if type != "i64":
            key = ("trunc", value, type)
            value = self.once(key, index.level, f.cast, "trunc", value, type)
        return Uniform(self.add(value, const(type, index.shift), index.level), index.level)


@lru_cache(maxsize=1024)
def _start(at: At) -> tuple[At, int] | None:
    """The position with lanes that start at 0, and the shift at which they start; None if no index
    runs over lanes."""
    for number, index in enumerate(at):
        if index.kind == Kind.LANES:
            return (*at[:number], index._replace(shift=0), *at[number + 1 :]), index.shift
    return None


def _level(at: At) -> int:
    return max([i.level for i in at], default=0)
