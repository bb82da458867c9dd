"""The name of `cdna5` in release 3.6."""

from tritium.experimental.gluon.language.amd.cdna5 import (
    PartitionedSharedLayout,
    async_copy,
    buffer_load,
    buffer_store,
    cluster,
    get_scaled_upcast_fp4_scale_layout,
    get_wmma_scale_layout,
    load_shared_fp4_repacked,
    make_partitioned_dot_layouts,
    mbarrier,
    scaled_downcast,
    scaled_upcast,
    tdm,
    wmma,
    wmma_scaled,
)

__all__ = [
    "PartitionedSharedLayout", "async_copy", "buffer_load", "buffer_store", "cluster",
    "get_scaled_upcast_fp4_scale_layout", "get_wmma_scale_layout", "load_shared_fp4_repacked",
    "make_partitioned_dot_layouts",
    "mbarrier", "scaled_downcast", "scaled_upcast", "tdm", "wmma", "wmma_scaled",
]  # fmt: skip
