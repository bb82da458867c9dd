"""Random schedules and versions of nests, among those that the tile stage's text may have."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.backends.cpu.tiles import build
from tritium.backends.cpu.tiles.ir import Nest, functions_of
from tritium.backends.cpu.tiles.schedule import is_scalar_combine, verify_schedules
from tritium.backends.cpu.tiles.version import is_long, lines_fit, may_wait, verify_versions
from tritium.ops.tile import NestOp
from tritium.ops.ttir.reduction import ScanOp
from tritium.passes.base import Pass

WIDEST_BLOCK = 16
BEHIND_MASKS = ("unmasked", "streaming", "quick")


@dataclass(frozen=True)
class RandomSchedules(Pass):
    """Give nests that have a schedule another one, and take versions away."""

    seed: int = 0
    name: ClassVar[str] = "random-schedules"

    def run(self, module: ModuleOp) -> bool:
        chance = random.Random(self.seed)
        for function in functions_of(module):
            for op in function.order:
                if isinstance(op, NestOp) and op.lane is not None:
                    _reschedule(op, chance)
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
