"""The `ttng` dialect: what NVIDIA's GPUs from Hopper on have."""

from tritium.ops.ttgir import hopper, tensormap, tma

OPS = (*hopper.OPS, *tma.OPS, *tensormap.OPS)
ATTRIBUTES = ()
