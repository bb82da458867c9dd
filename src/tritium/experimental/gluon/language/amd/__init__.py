"""Functions of AMD's GPUs, by the generation that brought them."""

from tritium.experimental.gluon.language.amd import cdna3 as cdna3
from tritium.experimental.gluon.language.amd import cdna4 as cdna4
from tritium.experimental.gluon.language.amd import cdna5 as cdna5
from tritium.experimental.gluon.language.amd import gfx1250 as gfx1250
from tritium.experimental.gluon.language.amd import hint as hint
from tritium.experimental.gluon.language.amd import rdna3 as rdna3
from tritium.experimental.gluon.language.amd import rdna4 as rdna4
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout as AMDMFMALayout
from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout as AMDWMMALayout
from tritium.experimental.gluon.language.amd.slice import slice as slice
from tritium.experimental.gluon.language.amd.warp_pipeline import (
    warp_pipeline_stage as warp_pipeline_stage,
)
