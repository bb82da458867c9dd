"""Layers of networks on torch tensors, each with its gradients and as an op of `torch.library`."""

from tritium_kernels.dense.adamw import Adam, AdamW
from tritium_kernels.dense.adamw_step import adam_, adam_foreach_, adamw_, adamw_foreach_
from tritium_kernels.dense.attention import attention, attention_packed
from tritium_kernels.dense.cross_entropy import cross_entropy
from tritium_kernels.dense.embedding import embedding
from tritium_kernels.dense.gated import geglu, swiglu
from tritium_kernels.dense.group_norm import group_norm
from tritium_kernels.dense.linear_attention import linear_attention
from tritium_kernels.dense.linear_cross_entropy import linear_cross_entropy
from tritium_kernels.dense.matmul import matmul
from tritium_kernels.dense.norm import layer_norm, rms_norm
from tritium_kernels.dense.order import cumsum, histogram, sort
from tritium_kernels.dense.paged import paged_attention
from tritium_kernels.dense.quantize import dequantize, quantize
from tritium_kernels.dense.rope import rope
from tritium_kernels.dense.sampling import sample
from tritium_kernels.dense.softmax import log_softmax, softmax

__all__ = [
    "Adam", "AdamW", "adam_", "adam_foreach_", "adamw_", "adamw_foreach_", "attention",
    "attention_packed", "cross_entropy", "cumsum", "dequantize", "embedding", "geglu", "group_norm",
    "histogram", "layer_norm", "linear_attention", "linear_cross_entropy", "log_softmax", "matmul",
    "paged_attention", "quantize", "rms_norm", "rope", "sample", "softmax", "sort", "swiglu",
]  # fmt: skip
