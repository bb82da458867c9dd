"""The reference's path of the launching side of backends, and what drivers of others use there:
kernel arguments that are tensor descriptors, as the values that a launcher passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tritium.backends.base import Benchmarker, DriverBase, GPUDriver

__all__ = ["Benchmarker", "DriverBase", "GPUDriver", "decompose_descriptor", "expand_signature",
           "wrap_handle_tensordesc_impl"]  # fmt: skip

_DESCRIPTOR = re.compile(
    r"tensordesc(?:_im2col)?<([^[>]*)\[([^\]]*)\](?:.*,input_rank=(?P<rank>\d+))?"
)


def decompose_descriptor(arg: Any) -> list[Any]:
    """A host descriptor as plain values: base, shape, strides, whether padding is NaN, whether
    float32 is rounded to tf32, and shape and strides once more, for the kernel itself."""
    shape, strides = list(arg.shape), list(arg.strides)
    flags = [arg.padding == "nan", bool(arg.round_f32_to_tf32)]
    return [arg.base, *shape, *strides, *flags, *shape, *strides]


def _is_descriptor(kind: object) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")


def _expanded(kind: str, descriptor_type: str | None) -> list[str]:
    """The types of the values that a descriptor becomes: a tensor map of `descriptor_type`, or
    what `decompose_descriptor` gives."""
    match = _DESCRIPTOR.match(kind)
    if match is None:
        raise ValueError(f"malformed type of a tensor descriptor: {kind!r}")
    rank = int(match["rank"]) if match["rank"] else match[2].count(",") + 1
    if descriptor_type is None:
        first = ["*" + match[1], *["i64"] * (2 * rank), "i1", "i1"]
    else:
        first = [descriptor_type]
    return [*first, *["i32"] * rank, *["i64"] * rank]


def expand_signature(
    signature: Iterable[Any], tensordesc_meta: Sequence[Any] | None, descriptor_type: str
) -> list[Any]:
    """The types of a launch's arguments with descriptors replaced by those of their parts: with
    metadata of tensor maps a `descriptor_type`, else plain values. Tuples stay tuples.

    Raises `ValueError` for a malformed type.
    """
    passed = descriptor_type if tensordesc_meta else None

    def visit(kinds: Iterable[Any]) -> Iterator[Any]:
        for kind in kinds:
            if _is_descriptor(kind):
                yield from _expanded(kind, passed)
            elif isinstance(kind, tuple):
                yield tuple(visit(cast("tuple[Any, ...]", kind)))
            else:
                yield kind

    return list(visit(signature))


def _holds_descriptor(kind: object) -> bool:
    if isinstance(kind, tuple):
        return any(map(_holds_descriptor, cast("tuple[object, ...]", kind)))
    return _is_descriptor(kind)


def wrap_handle_tensordesc_impl(
    launcher: Callable[..., Any],
    signature: Mapping[Any, Any],
    tensordesc_meta: Sequence[Any] | None,
    make_tensordesc_arg: Callable[[Any, Any, tuple[Any, ...]], Sequence[Any]],
) -> Callable[..., Any]:
    """The launcher for kernels of this signature that take descriptors; `launcher` itself for
    others. It is called with what it is called with, the kernel's arguments as one sequence at the
    end. There each descriptor is replaced by the values of `make_tensordesc_arg(descriptor,
    its metadata, the launcher's other arguments)`.

    Raises `TypeError` where there are not as many metadata as descriptors.
    """
    kinds = tuple(signature.values())
    if not _holds_descriptor(kinds):
        return launcher

    def launch(*args: Any) -> Any:
        others, arguments = args[:-1], args[-1]
        metadata = iter(tensordesc_meta) if tensordesc_meta else None

        def visit(values: Sequence[Any], kinds: tuple[Any, ...]) -> Iterator[Any]:
            for value, kind in zip(values, kinds, strict=True):
                if _is_descriptor(kind):
                    yield from make_tensordesc_arg(value, following(), others)
                elif _holds_descriptor(kind):
                    yield tuple(visit(value, kind))
                else:
                    yield value

        def following() -> Any:
            if metadata is None:
                return None
            for found in metadata:
                return found
            raise TypeError(f"{len(tensordesc_meta or ())} metadata for more descriptors")

        return launcher(*others, list(visit(arguments, kinds)))

    return launch
