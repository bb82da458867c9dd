"""Functions of NVIDIA's GPUs, by the generation that brought them."""

from tritium.experimental.gluon.language.nvidia import ampere as ampere
from tritium.experimental.gluon.language.nvidia import blackwell as blackwell
from tritium.experimental.gluon.language.nvidia import hopper as hopper
from tritium.experimental.gluon.language.nvidia import rubin as rubin
