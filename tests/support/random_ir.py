"""Random ttir functions: modules to compare before and after a transformation.

    @given(modules())
    def test(sample): ... sample.module ...

Each module has a public function `kernel(in_f, in_i, out_f, out_i, n)` (pointers to `SIZE` f32 or
i32 elements, and an i32) made of elementwise chains, masked loads and stores, reductions, shape
ops, loops, conditionals and calls. Every access is in bounds. `run(module)` evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Region, SSAValue

from tritium.ir import types as ir
from tritium.ir.printing import print_module
from tritium.ops import arith
from tritium.ops import math as math_ops
from tritium.ops.base import Op
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tritium.ops.ttir.function import CallOp, FuncOp, ReturnOp
from tritium.ops.ttir.memory import AddPtrOp, LoadOp, StoreOp
from tritium.ops.ttir.program import Axis, GetProgramIdOp
from tritium.ops.ttir.reduction import ReduceOp, ReduceReturnOp
from tritium.ops.ttir.shape import BroadcastOp, ExpandDimsOp, MakeRangeOp, ReshapeOp, SplatOp

SIZE = 64
"""Elements of each buffer."""

SHAPES: tuple[tuple[int, ...], ...] = ((), (8,), (4, 8))
INTEGER = (
    arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.ShLIOp, arith.ShRSIOp,
    arith.ShRUIOp,
)  # fmt: skip
DIVISIONS = (arith.DivSIOp, arith.RemSIOp, arith.DivUIOp, arith.RemUIOp)
FLOAT = (
    arith.AddFOp, arith.SubFOp, arith.MulFOp, arith.DivFOp, arith.MaximumFOp, arith.MinNumFOp,
)  # fmt: skip
UNARY = (math_ops.AbsFOp, math_ops.FloorOp, math_ops.SqrtOp, arith.NegFOp)
INTEGERS = (0, 1, -1, 2, 7, 63, -(2**31), 2**31 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.25, 1e30, float("inf"))

Draw = Callable[[Any], Any]
Pool = dict[ir.Type, list[SSAValue]]


class Generator:
    """Appends random ops to a block. `pool` holds the values that can be used, by type."""

    def __init__(self, draw: Draw, block: Block, pool: Pool, buffers: dict[str, SSAValue]):
        self.draw, self.block, self.pool, self.buffers = draw, block, pool, buffers
        self.helpers: list[FuncOp] = []
        self.depth = 0

    # Building

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def add(self, cls: type[Op], *operands: Any, **attrs: Any) -> SSAValue:
        op = cls.build(*operands, **attrs)
        self.block.add_op(op)
        for result in op.results:
            self.pool.setdefault(result.type, []).append(result)
        return op.results[0]

    def constant(self, number: Any, kind: ir.Type) -> SSAValue:
        op = arith.ConstantOp.of(number, kind)
        self.block.add_op(op)
        self.pool.setdefault(kind, []).append(op.results[0])
        return op.results[0]

    def value(self, kind: ir.Type) -> SSAValue:
        """Some value of a type; now and then a new constant."""
        known = self.pool.get(kind, [])
        if known and self.draw(st.integers(0, 3)):
            return self.pick(known)
        if ir.element_type(kind) == ir.i1:
            return self.constant(self.draw(st.booleans()), kind)
        return self.constant(self.pick(FLOATS if ir.is_float(kind) else INTEGERS), kind)

    def kind(self, element: ir.Type) -> ir.Type:
        return ir.tensor_of(self.pick(SHAPES), element)

    # Kinds of statement

    def elementwise(self) -> None:
        which = self.draw(st.integers(0, 7))
        integer, real = self.kind(ir.i32), self.kind(ir.f32)
        if which <= 1:
            self.add(self.pick(INTEGER), self.value(integer), self.value(integer))
        elif which <= 3:
            self.add(self.pick(FLOAT), self.value(real), self.value(real))
        elif which == 4:
            self.add(self.pick(UNARY), self.value(real))
        elif which == 5:
            divisor = self.constant(self.pick((1, 3, 8)), integer)
            self.add(self.pick(DIVISIONS), self.value(integer), divisor)
        elif which == 6:
            predicate = self.pick(list(arith.CmpIPredicate))
            self.add(arith.CmpIOp, self.value(integer), self.value(integer), predicate=predicate)
        else:
            mask = self.value(ir.with_element(real, ir.i1))
            self.add(arith.SelectOp, mask, self.value(real), self.value(real))

    def cast(self) -> None:
        integer = self.kind(ir.i32)
        wide, narrow = ir.with_element(integer, ir.i64), ir.with_element(integer, ir.i16)
        value = self.value(integer)
        which = self.draw(st.integers(0, 4))
        if which == 0:
            extended = self.add(self.pick((arith.ExtSIOp, arith.ExtUIOp)), value, result=wide)
            self.add(arith.TruncIOp, extended, result=self.pick((integer, narrow)))
        elif which == 1:
            low = self.add(arith.TruncIOp, value, result=narrow)
            self.add(self.pick((arith.ExtSIOp, arith.ExtUIOp)), low, result=integer)
        elif which == 2:
            self.add(arith.SIToFPOp, value, result=ir.with_element(integer, ir.f32))
        elif which == 3:
            self.add(arith.BitcastOp, value, result=ir.with_element(integer, ir.f32))
        else:
            left = self.add(arith.ExtSIOp, value, result=wide)
            limit = self.constant(self.pick((2**31 - 1, -(2**31), 5, 2**40)), wide)
            self.add(arith.CmpIOp, left, limit, predicate=self.pick(list(arith.CmpIPredicate)))

    def shape(self) -> None:
        element = self.pick((ir.i32, ir.f32))
        scalar, row, tile = (ir.tensor_of(s, element) for s in SHAPES)
        which = self.draw(st.integers(0, 3))
        if which == 0:
            self.add(SplatOp, self.value(scalar), result=self.pick((row, tile)))
        elif which == 1:
            column = self.add(ExpandDimsOp, self.value(row), axis=0)
            self.add(BroadcastOp, column, result=tile)
        elif which == 2:
            flat = self.add(ReshapeOp, self.value(tile), result=ir.tensor_of((32,), element))
            self.add(ReshapeOp, flat, result=tile)
        else:
            self.add(MakeRangeOp, start=0, end=8)

    def reduce(self) -> None:
        element = self.pick((ir.i32, ir.f32))
        body = Block(arg_types=[element, element])
        cls = self.pick((arith.AddIOp, arith.MaxSIOp) if element == ir.i32 else (arith.AddFOp,))
        combined = cls.build(*body.args)
        body.add_ops([combined, ReduceReturnOp.build([combined.results[0]])])
        tile = self.value(ir.tensor_of(self.pick(SHAPES[1:]), element))
        self.add(ReduceOp, [tile], axis=0, regions=[Region(body)])

    def pointers(self, name: str, shape: tuple[int, ...]) -> SSAValue:
        base = self.buffers[name]
        kind = ir.tensor_of(shape, ir.i32)
        index = self.add(arith.AndIOp, self.value(kind), self.constant(SIZE - 1, kind))
        if shape:
            base = self.add(SplatOp, base, result=ir.tensor_of(shape, base.type))
        return self.add(AddPtrOp, base, index)

    def mask(self, shape: tuple[int, ...]) -> SSAValue | None:
        return self.value(ir.tensor_of(shape, ir.i1)) if self.draw(st.booleans()) else None

    def load(self) -> None:
        name, shape = self.pick(("in_f", "in_i", "out_f", "out_i")), self.pick(SHAPES)
        pointers, mask = self.pointers(name, shape), self.mask(shape)
        kind = ir.tensor_of(shape, ir.f32 if name.endswith("f") else ir.i32)
        other = self.value(kind) if mask is not None else None
        loaded = self.add(LoadOp, pointers, mask, other)
        if mask is not None and self.draw(st.booleans()):
            self.add(arith.SelectOp, mask, loaded, self.value(kind))

    def store(self) -> None:
        name, shape = self.pick(("out_f", "out_i")), self.pick(SHAPES)
        kind = ir.tensor_of(shape, ir.f32 if name.endswith("f") else ir.i32)
        pointers, value = self.pointers(name, shape), self.value(kind)
        self.block.add_op(StoreOp.build(pointers, value, self.mask(shape)))

    def inner(self, arguments: list[SSAValue], block: Block) -> Generator:
        pool = {kind: list(values) for kind, values in self.pool.items()}
        for argument in arguments:
            pool.setdefault(argument.type, []).append(argument)
        inner = Generator(self.draw, block, pool, self.buffers)
        inner.depth, inner.helpers = self.depth + 1, self.helpers
        return inner

    def loop(self) -> None:
        inits = [self.value(self.kind(self.pick((ir.i32, ir.f32)))) for _ in range(self.count(3))]
        body = Block(arg_types=[ir.i32, *(v.type for v in inits)])
        upper = self.pick((0, 1, 2, 5))
        high = self.value(ir.i32) if self.draw(st.booleans()) else self.constant(upper, ir.i32)
        # A bound that is not a constant is made small.
        high = self.add(arith.AndIOp, high, self.constant(3, ir.i32))
        low, step = self.constant(0, ir.i32), self.constant(self.pick((1, 2)), ir.i32)
        inner = self.inner(list(body.args), body)
        inner.statements(self.count(4))
        carried = list(body.args)[1:]
        yielded = [inner.value(v.type) if self.draw(st.booleans()) else v for v in carried]
        body.add_op(YieldOp.build(yielded))
        op = ForOp.build(low, high, step, inits, regions=[Region(body)])
        self.finish(op)

    def while_loop(self) -> None:
        """Some carried values, and a counter that ends the loop after at most three turns."""
        inits = [self.constant(0, ir.i32)]
        inits += [self.value(self.kind(self.pick((ir.i32, ir.f32)))) for _ in range(self.count(2))]
        kinds = [v.type for v in inits]
        before, after = Block(arg_types=kinds), Block(arg_types=kinds)
        first = self.inner(list(before.args), before)
        first.statements(self.count(2))
        limit = first.constant(self.pick((0, 1, 3)), ir.i32)
        predicate = arith.CmpIPredicate.SLT
        going = first.add(arith.CmpIOp, before.args[0], limit, predicate=predicate)
        passed = [first.value(v.type) if self.draw(st.booleans()) else v for v in before.args[1:]]
        before.add_op(ConditionOp.build(going, [before.args[0], *passed]))
        second = self.inner(list(after.args), after)
        second.statements(self.count(2))
        following = second.add(arith.AddIOp, after.args[0], second.constant(1, ir.i32))
        yielded = [second.value(v.type) if self.draw(st.booleans()) else v for v in after.args[1:]]
        after.add_op(YieldOp.build([following, *yielded]))
        self.finish(WhileOp.build(inits, regions=[Region(before), Region(after)], result=kinds))

    def conditional(self) -> None:
        kinds = [self.kind(self.pick((ir.i32, ir.f32))) for _ in range(self.count(2))]
        condition = self.value(ir.i1)
        regions = []
        for _ in range(2):
            block = Block()
            inner = self.inner([], block)
            inner.statements(self.count(3))
            block.add_op(YieldOp.build([inner.value(kind) for kind in kinds]))
            regions.append(Region(block))
        self.finish(IfOp.build(condition, regions=regions, result=kinds))

    def call(self) -> None:
        if not self.helpers:
            return
        helper = self.pick(self.helpers)
        arguments = [self.value(t) for t in helper.function_type.inputs]
        outputs = list(helper.function_type.outputs)
        self.finish(CallOp.build(arguments, callee=helper.sym_name, result=outputs))

    def finish(self, op: Op) -> None:
        self.block.add_op(op)
        for result in op.results:
            self.pool.setdefault(result.type, []).append(result)

    def count(self, limit: int) -> int:
        return self.draw(st.integers(0, limit))

    def statements(self, count: int) -> None:
        simple = [self.elementwise, self.elementwise, self.cast, self.shape, self.reduce]
        memory = [self.load, self.store] if self.buffers else []
        nested = [self.loop, self.while_loop, self.conditional, self.call] if self.depth < 2 else []
        for _ in range(count):
            self.pick([*simple, *memory, *memory, *nested])()


def _helper(draw: Draw, number: int) -> FuncOp:
    """A function of a few scalars or tiles, which may be `noinline`."""
    inputs = [ir.tensor_of(s, e) for s, e in draw(st.lists(
        st.tuples(st.sampled_from(SHAPES), st.sampled_from((ir.i32, ir.f32))), max_size=2
    ))]  # fmt: skip
    block = Block(arg_types=inputs)
    pool: Pool = {}
    for argument in block.args:
        pool.setdefault(argument.type, []).append(argument)
    generator = Generator(draw, block, pool, {})
    generator.statements(draw(st.integers(0, 4)))
    result = generator.value(generator.kind(ir.f32))
    block.add_op(ReturnOp.build([result]))
    return FuncOp.build(
        sym_name=f"helper{number}",
        function_type=FunctionType.from_lists(inputs, [result.type]),
        sym_visibility="private",
        regions=[Region(block)],
    )


class Sample:
    """A module, shown as its text."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def __repr__(self) -> str:
        return "\n" + print_module(self.module, locations=False)


@st.composite
def modules(draw: Draw, statements: int = 12) -> Sample:
    """A module with a public `kernel` of up to so many statements, and functions it may call."""
    helpers = [_helper(draw, i) for i in range(draw(st.integers(0, 1)))]
    real, integer = ir.pointer_to(ir.f32), ir.pointer_to(ir.i32)
    inputs = [real, integer, real, integer, ir.i32]
    block = Block(arg_types=inputs)
    buffers = dict(zip(("in_f", "in_i", "out_f", "out_i"), block.args, strict=False))
    generator = Generator(draw, block, {ir.i32: [block.args[4]]}, buffers)
    generator.helpers = helpers
    generator.add(GetProgramIdOp, axis=Axis.X)
    generator.statements(draw(st.integers(1, statements)))
    generator.store()
    generator.store()
    block.add_op(ReturnOp.build([]))
    kernel = FuncOp.build(
        sym_name="kernel",
        function_type=FunctionType.from_lists(inputs, []),
        sym_visibility="public",
        regions=[Region(block)],
    )
    return Sample(ModuleOp([kernel, *helpers]))


def run(module: ModuleOp, n: int = 3, programs: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Evaluate `kernel` on random buffers; returns what is in (out_f, out_i) afterwards."""
    random = np.random.default_rng(seed)
    reals = [random.standard_normal(SIZE).astype(np.float32) for _ in range(2)]
    integers = [random.integers(-100, 100, SIZE, dtype=np.int32) for _ in range(2)]
    buffers = [reals[0], integers[0], reals[1], integers[1]]
    memory = Memory([(b.ctypes.data, b.nbytes) for b in buffers])
    arguments = [np.uint64(b.ctypes.data) for b in buffers]
    Evaluator(module, memory).launch("kernel", [*arguments, np.int32(n)], (programs,))
    return reals[1], integers[1]


def same_bits(left: tuple[Any, Any], right: tuple[Any, Any]) -> bool:
    """Whether two results agree bit for bit, NaNs aside."""
    for a, b in zip(left, right, strict=True):
        nan = np.isnan(a) & np.isnan(b)
        width = f"u{a.dtype.itemsize}"
        if not ((a.view(width) == b.view(width)) | nan).all():
            return False
    return True
