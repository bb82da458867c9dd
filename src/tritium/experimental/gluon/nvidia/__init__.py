"""Arguments that host programs make for kernels of NVIDIA's GPUs."""

from tritium.experimental.gluon.nvidia import blackwell as blackwell
from tritium.experimental.gluon.nvidia import hopper as hopper
