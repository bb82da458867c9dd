"""Products and copies by sm_100's tensor cores, which keep sums in tensor memory."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.nvidia.blackwell._tensor_memory import (
    tensor_memory_descriptor,
)
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import constexpr_function
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int1
from tritium.ops import ttgir
from tritium.ops.ttgir.tcgen05 import is_of_pair
from tritium.ops.ttir.dot import ScaleFormat


def _flag(value: Any) -> tensor:
    return casts.cast(casts.to_tensor(value), int1)


def _barriers(name: str, barriers: Any, conditions: Any) -> tuple[Any, Any]:
    """The barriers of a product and their predicates. Raises `ValueError` where lengths differ."""
    given = tuple(barriers or ())
    flags = (True,) * len(given) if conditions is None else tuple(conditions)
    if len(given) != len(flags):
        raise ValueError(f"{name}: {len(given)} barriers, {len(flags)} predicates")
    return given, tuple(map(_flag, flags))


def _check(name: str, a: Any, b: Any, acc: Any) -> None:
    memories = (shared_memory_descriptor, tensor_memory_descriptor)
    if not isinstance(a, memories):
        raise TypeError(f"{name}: a is {a!r}; shared or tensor memory is required")
    if not isinstance(b, shared_memory_descriptor):
        raise TypeError(f"{name}: b is {b!r}; shared memory is required")
    if not isinstance(acc, tensor_memory_descriptor):
        raise TypeError(f"{name}: acc is {acc!r}; tensor memory is required")


@builtin
def tcgen05_mma(
    a: Any, b: Any, acc: Any, *, use_acc: Any = True, pred: Any = True, multicast: Any = False,
    mbarriers: Any = None, mbarrier_preds: Any = None,
) -> None:  # fmt: skip
    """Start `acc += a @ b` (`acc = a @ b` where `use_acc` is false), if `pred`. It is done when the
    barriers have got an arrival, each where its predicate holds, or those of a later
    `tcgen05_commit`.

    Where `acc` has a layout with `two_ctas`, each two blocks of the cluster have one product: the
    first of them starts it, and both get the arrivals.

    Args:
        a: shared or tensor memory.
        b: shared memory.
        acc: tensor memory.
        multicast: the barriers of the blocks with copies of `a` or `b` get an arrival too; see
            `tcgen05_mma_barrier_count`.
    """
    _check("tcgen05_mma", a, b, acc)
    barriers, flags = _barriers("tcgen05_mma", mbarriers, mbarrier_preds)
    emit(ttgir.TCGen5MMAOp, a, b, acc, _flag(use_acc), _flag(pred), barriers, flags,
         is_async=bool(barriers), two_ctas=is_of_pair(acc.handle.type),
         multicast=bool(multicast))  # fmt: skip


@builtin
def tcgen05_mma_scaled(
    a: Any, b: Any, acc: Any, a_scale: Any, b_scale: Any, a_type: Any, b_type: Any, *,
    use_acc: Any = True, pred: Any = True, multicast: Any = False, mbarriers: Any = None,
    mbarrier_preds: Any = None,
) -> None:  # fmt: skip
    """The same of operands with scales in tensor memory. `a_type`, `b_type`: "e4m3" or "e5m2", with
    a byte (a power of two) for each 32 elements along k, or both "e2m1", two elements a byte along
    k, with such bytes or with a float8e4nv for each 16 elements."""
    _check("tcgen05_mma_scaled", a, b, acc)
    formats: list[ScaleFormat] = []
    for format in (a_type, b_type):
        if format not in ("e4m3", "e5m2", "e2m1"):
            raise ValueError(f"tcgen05_mma_scaled of {format!r}; e4m3, e5m2 or e2m1 is required")
        formats.append(ScaleFormat[format.upper()])
    barriers, flags = _barriers("tcgen05_mma_scaled", mbarriers, mbarrier_preds)
    emit(ttgir.TCGen5MMAScaledOp, a, b, acc, a_scale, b_scale, _flag(use_acc), _flag(pred),
         barriers, flags, a_type=formats[0], b_type=formats[1],
         is_async=bool(barriers), two_ctas=is_of_pair(acc.handle.type),
         multicast=bool(multicast))  # fmt: skip


@builtin
def tcgen05_commit(barrier: Any, pred: Any = True, descs: Any = ()) -> None:
    """The barrier gets an arrival when all products and copies are done that were started before,
    if `pred`; in a cluster so do those of the blocks with copies of what is in `descs`."""
    emit(ttgir.TCGen5CommitOp, barrier, _flag(pred), tuple(descs))


@builtin
def tcgen05_copy(src: Any, dst: Any) -> None:
    """Start copying shared memory to tensor memory. Products that start later see it."""
    emit(ttgir.TMemCopyOp, src, dst)


@constexpr_function
def tcgen05_mma_barrier_count(smems: Any, multicast: bool, two_ctas: bool = False) -> int:
    """The number of thread blocks of a cluster that commit products to the barrier of the first:
    without `multicast` itself, else all that multiply what it has a copy of in one of `smems`; with
    `two_ctas` one of each two."""
    if not multicast or not smems:
        return 1
    parts = [memory.layout.cga_layout for memory in smems]
    if len({len(bases) for bases in parts}) > 1:
        raise ValueError(f"tcgen05_mma_barrier_count: {parts} are not of one cluster")
    shared = [sum(1 << i for i, basis in enumerate(bases) if not any(basis)) for bases in parts]
    blocks = range(0, 1 << len(parts[0]), 2 if two_ctas else 1)
    return sum(any(not block & ~copies for copies in shared) for block in blocks)
