"""Plan matrix products: the instruction, the register block, copies of operands, loops over K.

before:
    %c = tt.dot %a, %b, %acc {tile.buffers = [@acc.0], tile.view_a, tile.view_b} : ...
after (on a Zen 4, in a loop over K):
    %c = tt.dot %a, %b, %acc {tile.buffers = [@acc.0], tile.plan = #tile.plan<fma rows 6 vectors 4
        lanes 16 unroll 1 loop 32 keep [b] room 1048576>, tile.view_a, tile.view_b} : ...

The plan is for operands whose addresses do not wrap around. Where the program finds that they do,
the product is that of dense copies, in short code, by the same instruction and register block.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from tritium.backends.cpu.dot.operand import ELEMENT_BYTES, Operand
from tritium.backends.cpu.dot.plan import Host, Method, Plan, make_plan
from tritium.backends.cpu.dot.stated import fault_of
from tritium.backends.cpu.lower.atomics.polling import may_observe
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.ir import TileFunction, functions_of
from tritium.backends.cpu.tiles.products import (
    Operands,
    Product,
    advances,
    carried_result,
    loop_of,
    uses_only,
)
from tritium.backends.cpu.tiles.slices import products_of
from tritium.backends.cpu.tiles.steps import Steps
from tritium.backends.cpu.tiles.views import peel
from tritium.ops.scf import ForOp
from tritium.ops.tile import PLAN, PlanAttr, ProductPlan
from tritium.passes.base import Pass


@dataclass(frozen=True)
class PlanProducts(Pass):
    """Set the plans of products for a host (`dot.plan.Host`) with `l2` bytes of cache a core."""

    host: str = "512x32+fma+half+madd"
    l2: int = 1 << 20
    name: ClassVar[str] = "tile-plan-products"
    keeps_analyses: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> bool:
        host = Host.read(self.host)
        for function in functions_of(module):
            for op, filled in products_of(function):
                found = _Analysis.of(function, op, filled)
                op.attributes[PLAN] = PlanAttr(found.choose(host, self.l2))
        return True


@dataclass(frozen=True)
class _Analysis:
    """Facts about a product that its plan depends on.

    Args:
        loop: the loop that only adds the product up.
        rows: whether only rows are used that a mask of A leaves.
    """

    function: TileFunction
    product: Product
    operands: Operands
    loop: ForOp | None
    rows: bool

    @classmethod
    def of(cls, function: TileFunction, op: Any, filled: Container[SSAValue]) -> _Analysis:
        product, loop = Product.of(function, op, filled), loop_of(op)
        result = None if loop is None else carried_result(function, loop, product)
        steps = Steps(filled, loop)
        if result is None or advances(steps, product) is None:
            loop = result = None
        operands = Operands(steps, function.address_axes.of)
        rows = result is not None and uses_only(result, product.used_rows)
        return cls(function, product, operands, loop, rows)

    def views(self) -> Any:
        """A and B."""
        of = self.operands.of_batch if self.product.is_batched else self.operands.of
        return of(self.product, False), of(self.product, True)

    def choose(self, host: Host, l2: int) -> ProductPlan:
        """The plan for a host."""
        product, (a, b) = self.product, self.views()
        result = value_type(product.op.result.type)
        plan = make_plan(host, a, b, result, product.shape, product.precision, l2)
        if self.loop is None:
            plan = plan.alone(product.shape[2])
        if self.rows:
            plan = replace(plan.compact, prefetch=plan.prefetch)
        pack = tuple(n for n, packs in (("a", plan.pack_a), ("b", plan.pack_b)) if packs)
        keep = tuple(self._kept(plan, plan.operands(a, b, product.shape), l2))
        return ProductPlan(
            plan.method.word, plan.block_rows, plan.block_vectors, plan.lanes, plan.unroll,
            plan.prefetch, pack, plan.together if self.loop is not None else 0, keep,
            l2 if keep else 0, plan.swap, self.rows,
        )  # fmt: skip

    def _kept(self, plan: Plan, operands: tuple[Operand, Operand], l2: int) -> Iterator[str]:
        """The operands (of the computed product) that are worth keeping for the next program."""
        rows, columns, depth = plan.orient(self.product.shape)
        possible = self.may_keep(plan.swap)
        for name, operand, outer in zip("ab", operands, (rows, columns), strict=True):
            packs = plan.pack_b if name == "b" else plan.pack_a
            size = outer * depth * ELEMENT_BYTES[plan.compute] * plan.together
            lazy = name == "b" and plan.method is Method.FMA and operand.element == plan.compute
            steady = operand.k_step is not None
            if name in possible and steady and (packs or lazy) and l2 >= 2 * size:
                yield name

    def may_keep(self, transposed: bool) -> str:
        """The operands (of the computed product) whose copy the next program may use: of memory
        that no program writes while another one reads it."""
        loop, function = self.loop, self.function
        if loop is None or function.op.sym_visibility != "public":
            return ""
        product = self.product
        masked = self.rows or any(p.along_k for p in product.prefixes)
        if loop.parent is not function.op.body or (loop.trip_count == 1 and not masked):
            return ""
        if any(may_observe(inner) for inner in function.order if inner is not function.op):
            return ""
        names = "ba" if transposed else "ab"
        return "".join(
            name for name, (value, _, _) in zip(names, product.operands, strict=True)
            if peel(value, product.filled)[0] not in product.filled
        )  # fmt: skip


def verify_plans(function: TileFunction) -> None:
    """Raise `VerifyException` for products without a plan, or with one that they cannot have on any
    processor."""
    for op, filled in products_of(function):
        found = _Analysis.of(function, op, filled)
        plan = found.product.plan
        if plan is None:
            raise VerifyException(f"{op.name} has no {PLAN}")
        fault = fault_of(plan, found.views(), value_type(op.result.type), found.product.shape)
        fault = fault or _fault_in_loop(plan, found)
        if fault is not None:
            raise VerifyException(f"{op.name}: {PLAN} <{plan}>: {fault}")


def _fault_in_loop(plan: ProductPlan, found: _Analysis) -> str | None:
    """The reason why a product's loop cannot go by a plan."""
    if plan.loop and found.loop is None:
        return "loop, though no loop only adds up this product"
    if plan.used_rows and not (plan.loop and found.rows):
        return "used_rows, though all rows are used"
    if not plan.keep:
        return None
    allowed = found.may_keep(plan.transposed) if plan.loop else ""
    for name in plan.keep:
        if name not in allowed:
            names = ", ".join(allowed)
            return f"keep {name}, which the next program cannot use; some of [{names}] are allowed"
        if name == "a" and name not in plan.pack:
            return "keep a, which is not packed"
    return None
