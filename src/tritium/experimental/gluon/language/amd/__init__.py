"""Functions of AMD's GPUs, by the generation that brought them."""

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.amd import cdna3 as cdna3
from tritium.experimental.gluon.language.amd import cdna4 as cdna4
from tritium.experimental.gluon.language.amd import cdna5 as cdna5
from tritium.experimental.gluon.language.amd import gfx1250 as gfx1250
from tritium.experimental.gluon.language.amd import rdna3 as rdna3
from tritium.experimental.gluon.language.amd import rdna4 as rdna4
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout as AMDMFMALayout
from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout as AMDWMMALayout

__getattr__ = not_built(__name__, "warp_pipeline_stage", "slice")
