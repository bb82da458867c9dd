"""`simt` as a backend, installed as plug-ins are: `use` makes it the one that kernels run on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tritium.backends import active, backends
from tritium.target import GPUTarget

NAME = "simt"


def target(lanes: int) -> GPUTarget:
    """Target of kernels: warps of `lanes`."""
    return GPUTarget(NAME, lanes, lanes)


@contextmanager
def installed() -> Generator[None]:
    """The backend is found by its name."""
    backends.packages[NAME] = __name__
    try:
        yield
    finally:
        del backends.packages[NAME]


def use(lanes: int) -> None:
    """Run kernels with warps of `lanes` from now on."""
    backends.packages[NAME] = __name__
    from tests.simt.backend.driver import SimtDriver

    active.driver.set_active(SimtDriver(lanes))
