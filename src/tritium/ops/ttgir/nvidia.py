"""The `ttng` dialect: what NVIDIA's GPUs from Hopper on have."""

from tritium.ops.ttgir import hopper, tensormap, tma, tma_rows

OPS = (*hopper.OPS, *tma.OPS, *tma_rows.OPS, *tensormap.OPS)
ATTRIBUTES = ()
