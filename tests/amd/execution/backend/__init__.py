"""AMD GPUs as devices whose code is executed by `tests.amd.execution`: `use` makes one of them the
one that kernels run on. The compiler is the AMD backend's, up to LLVM IR."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tritium.backends import active
from tritium.backends.amd.processor import processor
from tritium.backends.base import OWN_BACKENDS, backends
from tritium.target import GPUTarget


def target(arch: str) -> GPUTarget:
    """The target of a processor."""
    return GPUTarget("hip", arch, processor(arch).lanes)


def _install(package: str) -> None:
    OWN_BACKENDS["amd"] = backends.packages["amd"] = package
    backends._loaded.pop("amd", None)


@contextmanager
def installed(arch: str) -> Generator[None]:
    """Kernels run on a processor's model."""
    own = OWN_BACKENDS["amd"]
    use(arch)
    try:
        yield
    finally:
        _install(own)
        active.driver.reset_active()


def use(arch: str) -> None:
    """Run kernels on a processor's model from now on."""
    _install(__name__)
    from tests.amd.execution.backend.driver import ModelDriver

    active.driver.set_active(ModelDriver(arch))
