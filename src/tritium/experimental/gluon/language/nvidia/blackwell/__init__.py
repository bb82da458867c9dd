"""Blackwell (sm_100): what Hopper has, but wgmma; products that keep sums in tensor memory."""

from tritium.experimental.gluon.language.nvidia._cache_policy import CachePolicy as CachePolicy
from tritium.experimental.gluon.language.nvidia._cache_policy import (
    FractionalEvictionPolicy as FractionalEvictionPolicy,
)
from tritium.experimental.gluon.language.nvidia.blackwell import clc as clc
from tritium.experimental.gluon.language.nvidia.blackwell import tma as tma
from tritium.experimental.gluon.language.nvidia.blackwell._packed import (
    add2,
    fma2,
    max2,
    min2,
    mul2,
    sub2,
)
from tritium.experimental.gluon.language.nvidia.blackwell._tcgen05 import (
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
)
from tritium.experimental.gluon.language.nvidia.blackwell._tensor_memory import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    get_tmem_reg_layout,
    tensor_memory_descriptor,
    tensor_memory_descriptor_type,
)
from tritium.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    async_store,
    cluster,
    fence_async_shared,
    mbarrier,
    mma_v2,
)

__all__ = [
    "TensorMemoryLayout", "TensorMemoryScalesLayout", "add2", "allocate_tensor_memory",
    "async_copy", "async_store", "clc", "cluster", "fence_async_shared", "fma2",
    "get_tmem_reg_layout", "max2", "mbarrier", "min2", "mma_v2", "mul2", "sub2", "tcgen05_commit",
    "tcgen05_copy", "tcgen05_mma", "tcgen05_mma_barrier_count", "tcgen05_mma_scaled",
    "tensor_memory_descriptor", "tensor_memory_descriptor_type", "tma",
]  # fmt: skip
