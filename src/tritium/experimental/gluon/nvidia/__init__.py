"""What host programs give to kernels for NVIDIA's GPUs."""

from tritium.experimental.gluon.nvidia import blackwell as blackwell
from tritium.experimental.gluon.nvidia import hopper as hopper
