"""Arguments that host programs make for kernels of AMD's GPUs."""

from tritium.experimental.gluon.amd import cdna5 as cdna5
from tritium.experimental.gluon.amd import gfx1250 as gfx1250

__all__ = ["cdna5", "gfx1250"]
