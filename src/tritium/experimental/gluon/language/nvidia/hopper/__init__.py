"""Hopper (sm_90): bulk copies (TMA), mbarriers that count bytes, and tensor cores that warp groups
run on operands in shared memory (wgmma)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.experimental.gluon.language._layouts import NVMMADistributedLayout
from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.nvidia._cache_policy import CachePolicy as CachePolicy
from tritium.experimental.gluon.language.nvidia._cache_policy import (
    FractionalEvictionPolicy as FractionalEvictionPolicy,
)
from tritium.experimental.gluon.language.nvidia.ampere import async_copy as async_copy
from tritium.experimental.gluon.language.nvidia.ampere import check_operand
from tritium.experimental.gluon.language.nvidia.ampere import mma_v2 as mma_v2
from tritium.experimental.gluon.language.nvidia.ampere.mbarrier import predicate
from tritium.experimental.gluon.language.nvidia.hopper import cluster as cluster
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier as mbarrier
from tritium.experimental.gluon.language.nvidia.hopper import tma as tma
from tritium.ir.types import Type
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit, typed
from tritium.language.builtins.dot import imprecise_products, precision_of
from tritium.language.decorators import builtin
from tritium.language.values.base import Handle, base_type, base_value
from tritium.language.values.tensor import tensor
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import dtype
from tritium.ops import ttgir

__all__ = [
    "async_copy", "async_store", "cluster", "fence_async_shared", "mbarrier", "mma_v2", "tma",
    "warpgroup_mma", "warpgroup_mma_init", "warpgroup_mma_wait",
]  # fmt: skip


@builtin
def fence_async_shared(cluster: bool = False) -> None:
    """Let bulk copies and tensor cores see what threads wrote to shared memory."""
    emit(ttgir.FenceAsyncSharedOp, bCluster=bool(cluster))


@builtin
def async_store(dst: Any, value: Any, mbarrier: Any) -> None:
    """Start writing a block to the shared memory of the thread blocks of the cluster that, by its
    layout, have the elements. The bytes that one gets count for its barrier."""
    if emitter.current().features.num_ctas == 1:
        raise ValueError("async_store: num_ctas is 1; a cluster of two or more is required")
    emit(ttgir.AsyncSharedStoreOp, casts.to_tensor(value), dst, mbarrier)


class warpgroup_mma_accumulator_type(base_type):
    """The type of products in flight whose result has the type `tensor_type`."""

    def __init__(self, tensor_type: dtype):
        self.tensor_type = tensor_type

    def flatten_types(self) -> list[Type]:
        return self.tensor_type.flatten_types()

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> tuple[Any, int]:
        return warpgroup_mma_accumulator(handles[cursor], self.tensor_type), cursor + 1

    def mangle(self) -> str:
        return f"FT{self.tensor_type.mangle()}FT"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, warpgroup_mma_accumulator_type)
            and self.tensor_type == other.tensor_type
        )

    def __hash__(self) -> int:
        return hash((warpgroup_mma_accumulator_type, self.tensor_type))

    def __repr__(self) -> str:
        return f"warpgroup_mma_accumulator<{self.tensor_type}>"


class warpgroup_mma_accumulator(base_value):
    """A product in flight: what `warpgroup_mma_wait` makes a block of, or another product adds
    to."""

    remedy = "warpgroup_mma_wait(0, deps=[...]) makes a block of a product in flight"

    def __init__(self, handle: Any, tensor_type: dtype):
        self.handle = handle
        self.type = warpgroup_mma_accumulator_type(tensor_type)

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.type.tensor_type.scalar

    def flatten(self) -> list[Handle]:
        return [self.handle]

    def _refused(self, *_: Any) -> Any:
        raise TypeError(f"arithmetic with a product in flight; {self.remedy}")

    __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = _refused
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = _refused


def _tensor_type(value: Any) -> dtype:
    in_flight = isinstance(value, warpgroup_mma_accumulator)
    return value.type.tensor_type if in_flight else value.type


@builtin
def warpgroup_mma_init(value: tensor) -> warpgroup_mma_accumulator:
    """A block in the place of a product in flight: what a loop begins with."""
    return warpgroup_mma_accumulator(value.handle, value.type)


@builtin
def warpgroup_mma(
    a: Any, b: Any, acc: Any, *, use_acc: Any = True, precision: Any = None,
    max_num_imprecise_acc: Any = None, is_async: bool = False,
) -> Any:  # fmt: skip
    """`a @ b + acc` (`a @ b` where `use_acc` is false) by warp groups.

    Args:
        a: shared memory, or a block with a `DotOperandLayout` of `acc`'s layout.
        b: shared memory.
        acc: a block with an `NVMMADistributedLayout` of version [3, 0], or a product in flight.
        precision: how float32 operands may be rounded: "tf32" for all that the units take.
        max_num_imprecise_acc: of fp8: how many products may be summed at reduced precision.
        is_async: only start; the result is a product in flight.

    Raises `ValueError` for operands and layouts that do not fit.
    """
    type = _tensor_type(acc)
    layout = getattr(type, "layout", None)
    if not isinstance(layout, NVMMADistributedLayout) or layout.version != [3, 0]:
        raise ValueError(
            f"warpgroup_mma: acc has {layout}; an NVMMADistributedLayout of version [3, 0] is "
            "required"
        )
    if not isinstance(a, shared_memory_descriptor):
        check_operand("warpgroup_mma", a, 0, layout)
    if not isinstance(b, shared_memory_descriptor):
        raise ValueError(f"warpgroup_mma: b is {b!r}; shared memory is required")
    (handle,) = emit(
        ttgir.WarpGroupDotOp, a, b, acc, predicate(use_acc),  # pyright: ignore[reportArgumentType]
        inputPrecision=precision_of(precision, None), isAsync=bool(is_async),
        maxNumImpreciseAcc=imprecise_products(a.dtype, b.dtype, b.shape[-2], max_num_imprecise_acc),
    )  # fmt: skip
    return warpgroup_mma_accumulator(handle, type) if is_async else tensor(handle, type)


@builtin
def warpgroup_mma_wait(num_outstanding: int = 0, deps: Any = None) -> Any:
    """Wait until all but the `num_outstanding` newest products are done.

    Args:
        deps: products in flight, which become blocks, and memory that must live until then.

    Returns the members of `deps`, one alone or a tuple. Raises `ValueError` without any.
    """
    if deps is None or not len(deps):
        raise ValueError("warpgroup_mma_wait: `deps` must be given: the products waited for")
    handles = emit(ttgir.WarpGroupDotWaitOp, tuple(deps), pendings=num_outstanding)
    found = [
        shared_memory_descriptor(handle, dep.dtype) if isinstance(dep, shared_memory_descriptor)
        else typed(handle, _tensor_type(dep))
        for handle, dep in zip(handles, deps, strict=True)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else tl_tuple(found)
