"""Random schedules and versions of nests and plans of products, among those that the tile stage's
text may have."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tritium import knobs
from tritium.backends.cpu.tiles import build
from tritium.backends.cpu.tiles.ir import Nest, TileFunction, functions_of
from tritium.backends.cpu.tiles.plan_products import verify_plans
from tritium.backends.cpu.tiles.schedule import is_scalar_combine, verify_schedules
from tritium.backends.cpu.tiles.version import is_long, lines_fit, may_wait, verify_versions
from tritium.ops.tile import PLAN, NestOp, PlanAttr, ProductPlan
from tritium.ops.ttir.reduction import ScanOp
from tritium.passes.base import Pass

WIDEST_BLOCK = 16
BEHIND_MASKS = ("unmasked", "streaming", "quick")


@dataclass(frozen=True)
class RandomSchedules(Pass):
    """Give nests that have a schedule another one, take versions away, and change plans."""

    seed: int = 0
    name: ClassVar[str] = "random-schedules"

    def run(self, module: ModuleOp) -> bool:
        chance = random.Random(self.seed)
        for function in functions_of(module):
            for op in function.order:
                if isinstance(op, NestOp) and op.lane is not None:
                    _reschedule(op, chance)
            for op in function.order:
                if PLAN in op.attributes:
                    _replan(function, op, chance)
            verify_schedules(function)
            verify_versions(function, may_wait(module))
        module.verify()
        return True


def _reschedule(nest: NestOp, chance: random.Random) -> None:
    domain = nest.domain or (1,)
    lane = chance.randrange(len(domain))
    widths = [w for w in (1, 2, 4, 8, 16, 32) if domain[lane] % w == 0]
    width = 1 if any(map(is_scalar_combine, nest.roots)) else chance.choice(widths)
    numbers = {"lane": lane, "width": width}
    most = 1 if any(isinstance(root, ScanOp) for root in nest.roots) else 8
    chunks = domain[lane] // width
    numbers["unroll"] = chance.choice([u for u in (1, 2, 4, 8) if chunks % u == 0 and u <= most])
    blocks = [d for d, size in enumerate(domain) if d != lane and size % width == 0]
    nest.properties.pop("block", None)
    if blocks and nest.axis is None and 1 < width <= WIDEST_BLOCK and chance.random() < 0.3:
        numbers.update(block=chance.choice(blocks), unroll=1)
    for name, number in numbers.items():
        nest.properties[name] = NestOp.attr_fields[name].encode(number)
    is_left = chance.random() < 0.5 and is_long(Nest.of(nest))
    left_out = () if is_left else BEHIND_MASKS
    nest.set_versions([
        name for name in nest.versions
        if name not in left_out and (name in BEHIND_MASKS or chance.random() < 0.6)
        and (name != "streaming" or lines_fit(Nest.of(nest)))
    ])  # fmt: skip


def _replan(function: TileFunction, op: Any, chance: random.Random) -> None:
    """Change a plan in a few places, each time unless it does not verify."""
    for _ in range(6):
        held = op.attributes[PLAN]
        op.attributes[PLAN] = PlanAttr(_changed(held.data, chance))
        try:
            verify_plans(function)
        except VerifyException:
            op.attributes[PLAN] = held


def _changed(plan: ProductPlan, chance: random.Random) -> ProductPlan:
    number = chance.choice((1, 2, 3, 4, 6, 8))
    lanes = max(1, plan.lanes // 2)
    return chance.choice((
        replace(plan, rows=number), replace(plan, vectors=number), replace(plan, unroll=number),
        replace(plan, pack=("a", "b"), prefetch=0), replace(plan, pack=("b",), prefetch=0),
        replace(plan, pack=()), replace(plan, prefetch=16), replace(plan, keep=(), room=0),
        replace(plan, loop=0, keep=(), room=0, used_rows=False),
        replace(plan, loop=number if plan.loop else 0), replace(plan, lanes=lanes),
        replace(plan, method="fma"),
    ))  # fmt: skip


@contextmanager
def random_schedules(seed: int) -> Generator[None]:
    """Kernels are compiled, whether the cache has them or not, with random schedules."""
    passes = build.passes
    build.passes = lambda processor: [*passes(processor), RandomSchedules(seed)]
    try:
        with knobs.compilation.scope():
            knobs.compilation.always_compile = True
            yield
    finally:
        build.passes = passes
