"""The table of vector functions: what each is called, takes and guarantees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from tritium.codegen.llvm.vmath.lanes import FORMATS, EagerLanes, Features, Lanes, concat
from tritium.codegen.llvm.writer import Function, Module, Value, const, mangle, scalar

Emitter = Callable[..., Lanes]


@dataclass(frozen=True)
class VectorFunction:
    """One entry.

    `emit(*lanes)` writes the function and returns its result. `ulp` bounds the error for each lane
    type in units in the last place of the true result (0.5: correctly rounded). A function with
    `outlined` not 0 becomes an internal function of the module, called with up to that many
    registers of lanes at a time: for those that branch (to a path rarely needed) or are long.
    `emit` of a `wide` function knows doubles only: floats are converted there and back.
    """

    name: str
    arity: int
    ulp: dict[str, float]
    emit: Emitter
    outlined: int = 0
    wide: bool = False


TABLE: dict[str, VectorFunction] = {}


def function(
    name: str, *, float: float, double: float, arity: int = 1, outlined: int = 0, wide: bool = False
) -> Callable[[Emitter], Emitter]:
    """Register the decorated emitter; `float` and `double` are its error bounds in ulp."""

    def register(emit: Emitter) -> Emitter:
        assert name not in TABLE, name
        bounds = {"float": float, "double": double}
        TABLE[name] = VectorFunction(name, arity, bounds, emit, outlined, wide)
        return emit

    return register


def call(f: Function, name: str, *args: Value, features: Features) -> Value:
    """Write the function `name` of `args` into the current block of `f`, without control flow.

    Args:
        f: the function being written.
        name: an entry of `TABLE` (`exp`, `log2`, `atan2`, ...).
        args: float or double scalars or vectors, all of one type, any number of lanes.
        features: LLVM names of what the host has (`"avx512f" in features` is all that is asked).

    Returns: the result, of the arguments' type.

    Raises:
        NotImplementedError: there is no such function.
        TypeError: wrong number or type of arguments.
    """
    entry = TABLE.get(name)
    if entry is None:
        raise NotImplementedError(
            f"vector math: no function {name!r}; there are {', '.join(sorted(TABLE))}"
        )
    if len(args) != entry.arity:
        raise TypeError(f"{name}: {len(args)} arguments given; it takes {entry.arity}")
    types = {a.type for a in args}
    if len(types) != 1 or scalar(args[0].type) not in FORMATS:
        given = ", ".join(a.type for a in args)
        raise TypeError(f"{name}: argument types {given}; they must be one of float or double")
    values = [Lanes(f, a, features) for a in args]
    if entry.wide and values[0].base == "float":
        found = _call(entry, [v.cast("fpext", "double") for v in values])
        return found.cast("fptrunc", "float").value
    return _call(entry, values).value


def apply(name: str, x: Lanes, *others: Lanes) -> Lanes:
    """The function `name` of lanes, whether they stand for code or for arrays."""
    if isinstance(x, EagerLanes):
        return x.apply(name, *others)
    values = [v.value for v in (x, *others)]
    return x.make(call(x.function, name, *values, features=x.features))


def _call(entry: VectorFunction, values: list[Lanes]) -> Lanes:
    if not entry.outlined:
        return entry.emit(*values)
    features = values[0].features
    in_register = _register_bits(features) // values[0].format.bits
    size = min(values[0].count, in_register * entry.outlined)
    if values[0].count % size:
        size = values[0].count
    chunks = zip(*(v.chunks(size) for v in values), strict=True)
    return concat([_call_outlined(entry, *chunk) for chunk in chunks])


def _register_bits(features: Features) -> int:
    if "avx512f" in features:
        return 512
    return 256 if "avx" in features or "avx2" in features else 128


def _call_outlined(entry: VectorFunction, *args: Lanes) -> Lanes:
    first = args[0]
    type = first.value.type
    name = f"tritium.{entry.name}.{mangle(type)}"
    if not any(known.name == name for known in first.function.module.functions):
        _define(entry, first.function.module, name, type, first.features)
    operands = ", ".join(str(a.value) for a in args)
    return first.make(first.function.emit(type, f"call fastcc {type} @{name}({operands})"))


def _define(
    entry: VectorFunction, module: Module, name: str, type: str, features: Features
) -> None:
    body = Function(
        module,
        name,
        [(type, f"x{i}", "") for i in range(entry.arity)],
        type,
        linkage="internal fastcc",
        attributes=f"nounwind willreturn memory(none) {module.outlined}",
    )
    body.ret(entry.emit(*(Lanes(body, a, features) for a in body.arguments)).value)


def any_lane(condition: Lanes) -> Value:
    """i1: whether the condition holds in some lane."""
    if condition.count == 1:
        return condition.value
    f, type = condition.function, condition.value.type
    return f.call("i1", f"llvm.vector.reduce.or.{mangle(type)}", condition.value)


def repeat_while(
    active: Callable[..., Lanes], step: Callable[..., list[Lanes]], state: list[Lanes]
) -> list[Lanes]:
    """`while any(active(*state)): state = step(*state)`, the last state. For outlined functions
    only; `step` itself keeps lanes that are not active as they are."""
    if isinstance(state[0], EagerLanes):
        while cast(EagerLanes, active(*state)).any():
            state = step(*state)
        return state
    f = state[0].function
    before, (head, body, done) = f.block, map(f.new_label, ("while", "body", "done"))
    f.branch(head)
    f.label(head)
    phis = [f.phi(v.value.type, [(v.value, before)]) for v in state]
    current = [v.make(phi.value) for v, phi in zip(state, phis, strict=True)]
    f.branch_if(any_lane(active(*current)), body, done)
    f.label(body)
    for phi, value in zip(phis, step(*current), strict=True):
        phi.add(value.value, f.block)
    f.branch(head)
    f.label(done)
    return current


def replace_lanes(
    condition: Lanes, value: Lanes, compute: Callable[[Lanes], Lanes], by: Lanes
) -> Lanes:
    """`value`, but `compute(lane of by)` in the lanes where the condition holds.

    Branches, so for outlined functions only: nothing is executed when no lane asks for it, and the
    lanes are taken one by one when some does (`compute` writes scalar code, once).
    """
    f = condition.function
    before = f.block
    with f.when(any_lane(condition), "cold"):
        new = compute(by).value if by.count == 1 else _lane_loop(condition, value, compute, by)
        last = f.block
    return value.make(f.phi(value.value.type, [(value.value, before), (new, last)]).value)


def _lane_loop(
    condition: Lanes, value: Lanes, compute: Callable[[Lanes], Lanes], by: Lanes
) -> Value:
    f = condition.function
    wide = condition.cast("sext", "i8").value  # i1 lanes have no address to pick one by
    zero, one, stop = const("i32", 0), const("i32", 1), const("i32", by.count)
    with f.loop(zero, stop, one, [value.value], at_least_once=True) as loop:
        wanted = f.icmp("ne", f.extract(wide, loop.index), const("i8", 0))
        head = f.block
        with f.when(wanted, "lane", "next"):
            found = compute(by.make(f.extract(by.value, loop.index)))
            merged = f.insert(loop.carried[0], found.value, loop.index)
            worked = f.block
        loop.next = [f.phi(merged.type, [(loop.carried[0], head), (merged, worked)]).value]
    return loop.results[0]
