"""Triton's own kernels, in the ttir that it writes, become machine code for every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

import tritium
from tritium.errors import CompilationError
from tritium.target import GPUTarget

REFERENCE = Path(__file__).parent.parent / "ir" / "reference"
NAMES = sorted(
    p.name.removesuffix(".source.ttir") for p in REFERENCE.glob("*.source.ttir")
)  # fmt: skip
TARGETS = (80, 89, 90, 100, 120)

pytestmark = pytest.mark.ptxas


def assembled(name: str, arch: int) -> None:
    """Compile one file down to machine code."""
    path = REFERENCE / f"{name}.ttir"
    compiled = tritium.compile(path, target=GPUTarget("cuda", arch, 32))
    assert compiled.asm["cubin"][:4] == b"\x7fELF"


@pytest.mark.every(4)
@pytest.mark.parametrize("name", NAMES)
def test_assembles_for_hopper(name: str, fresh_cache: Path):
    assembled(name, 90)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [t for t in TARGETS if t != 90])
@pytest.mark.parametrize("name", NAMES)
def test_assembles(name: str, arch: int, fresh_cache: Path):
    try:
        assembled(name, arch)
    except CompilationError as error:
        assert arch < 89 and "not supported in this architecture" in str(error)
