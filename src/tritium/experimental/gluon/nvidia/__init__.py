"""What host programs give to kernels for NVIDIA's GPUs."""

from tritium.experimental.gluon.nvidia import hopper as hopper
