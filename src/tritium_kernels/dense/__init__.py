"""Layers of networks on torch tensors, each with its gradients and as an op of `torch.library`."""

from tritium_kernels.dense.cross_entropy import cross_entropy
from tritium_kernels.dense.gated import geglu, swiglu
from tritium_kernels.dense.norm import layer_norm, rms_norm
from tritium_kernels.dense.rope import rope
from tritium_kernels.dense.softmax import log_softmax, softmax

__all__ = [
    "cross_entropy", "geglu", "layer_norm", "log_softmax", "rms_norm", "rope", "softmax", "swiglu",
]  # fmt: skip
