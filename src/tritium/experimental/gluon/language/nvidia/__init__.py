"""What NVIDIA's GPUs have, by the generation that brought it."""

from tritium.experimental.gluon.language.nvidia import ampere as ampere
from tritium.experimental.gluon.language.nvidia import blackwell as blackwell
from tritium.experimental.gluon.language.nvidia import hopper as hopper
from tritium.experimental.gluon.language.nvidia import rubin as rubin
