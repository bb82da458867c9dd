"""Blackwell (sm_100): what Hopper has. Tensor memory and the products that use it are not built."""

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.nvidia.blackwell import clc as clc
from tritium.experimental.gluon.language.nvidia.blackwell import tma as tma
from tritium.experimental.gluon.language.nvidia.hopper import async_copy as async_copy
from tritium.experimental.gluon.language.nvidia.hopper import async_store as async_store
from tritium.experimental.gluon.language.nvidia.hopper import cluster as cluster
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared as fence_async_shared,
)
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier as mbarrier
from tritium.experimental.gluon.language.nvidia.hopper import mma_v2 as mma_v2

__getattr__ = not_built(
    __name__,
    "TensorMemoryLayout TensorMemoryScalesLayout tensor_memory_descriptor "
    "tensor_memory_descriptor_type",
    "add2 allocate_tensor_memory fma2 get_tmem_reg_layout max2 min2 mul2 sub2 tcgen05_commit "
    "tcgen05_copy tcgen05_mma tcgen05_mma_barrier_count tcgen05_mma_scaled",
)
