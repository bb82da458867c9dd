"""Products by AMD's matrix units, of operands in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import StringAttr

from tritium.experimental.gluon.language._core import convert_layout
from tritium.experimental.gluon.language._layouts import (
    DistributedLinearLayout,
    DotOperandLayout,
    layout_of,
)
from tritium.experimental.gluon.language._types import distributed_type
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout, AMDWMMALayout
from tritium.ir.layouts.amd import SCALED_RUN, scale_encoding
from tritium.language import core as tl
from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.values.constexpr import constexpr_function
from tritium.language.values.tensor import tensor
from tritium.language.values.types import uint8
from tritium.ops.attributes import CD_REGCLASS


def product(
    name: str, kind: type[AMDMFMALayout | AMDWMMALayout], versions: Sequence[int], a: tensor,
    b: tensor, acc: tensor,
) -> tensor:  # fmt: skip
    """`a @ b + acc`. Raises `ValueError` for other layouts than those of the matrix unit."""
    check_operands(name, kind, versions, (a, b), acc)
    return tl.dot(a, b, acc, input_precision="ieee", out_dtype=acc.dtype)


def check_operands(
    name: str, kind: type[AMDMFMALayout | AMDWMMALayout], versions: Sequence[int],
    operands: Sequence[tensor], acc: tensor,
) -> Any:  # fmt: skip
    """The layout of the result. Raises `ValueError` for operands in other layouts than it needs."""
    layout = getattr(acc.type, "layout", None)
    if not isinstance(layout, kind) or layout.version not in versions:
        wanted = " or ".join(map(str, versions))
        raise ValueError(
            f"{name}: acc has {layout}; an {kind.__name__} of version {wanted} is required"
        )
    for index, operand in enumerate(operands):
        found = getattr(operand.type, "layout", None)
        fits = isinstance(found, DotOperandLayout) and found.parent == layout
        if not fits or found.operand_index != index:  # pyright: ignore
            raise ValueError(
                f"{name}: operand {index} has {found}; a DotOperandLayout({index}, {layout}, ...) "
                "is required"
            )
    return layout


@constexpr_function
def scale_layout(
    dot_operand_layout: Any, shape: Any, scale_factor: int = SCALED_RUN
) -> DistributedLinearLayout:
    """The layout of the scales, of this shape, of an operand in a `DotOperandLayout`."""
    layout = dot_operand_layout.parent
    runs = (SCALED_RUN, 16) if isinstance(layout, AMDWMMALayout) else (SCALED_RUN,)
    if scale_factor not in runs:
        allowed = " or ".join(map(str, runs))
        raise ValueError(f"scale_factor is {scale_factor}; {allowed} is required")
    parent: Any = layout.to_encoding()
    index = dot_operand_layout.operand_index
    return layout_of(scale_encoding(parent, index, tuple(shape), scale_factor))


def scaled_product(
    name: str, kind: type[AMDMFMALayout | AMDWMMALayout], version: int, operands: Sequence[tensor],
    scales: Sequence[Any], formats: Sequence[str], acc: tensor,
) -> tensor:  # fmt: skip
    """`(a * a_scale) @ (b * b_scale) + acc`. Raises `ValueError` for other layouts."""
    operands = [
        _of_elements(operand, index, acc, format)
        for index, (operand, format) in enumerate(zip(operands, formats, strict=True))
    ]
    layout = check_operands(name, kind, (version,), operands, acc)
    found: list[tensor | None] = []
    k = operands[0].type.shape[1] * (2 if formats[0] == "e2m1" else 1)
    runs = [k // s.type.shape[-1] for s in scales if isinstance(s, tensor) and s.type.is_block()]
    for index, (operand, scale) in enumerate(zip(operands, scales, strict=True)):
        run = runs[0] if runs else SCALED_RUN
        shape = [operand.type.shape[index], k // run]
        wanted = scale_layout(DotOperandLayout(index, layout, 1), shape, run)
        if scale is not None and not (isinstance(scale, tensor) and scale.type.is_block()):
            code = casts.cast(casts.to_tensor(scale), uint8)
            scale = arithmetic.broadcast_like(code, distributed_type(uint8, shape, wanted))
        given = None if scale is None else getattr(scale.type, "layout", None)
        if given is not None and given.to_encoding() != wanted.to_encoding():
            raise ValueError(f"{name}: scales {index} have {given}; {wanted} is required")
        found.append(scale)
    (a, b), (left, right), (a_format, b_format) = operands, found, formats
    return tl.dot_scaled(a, left, a_format, b, right, b_format, acc)


def _of_elements(operand: tensor, index: int, acc: tensor, format: str) -> tensor:
    """An operand in the layout of the product's elements: one of e2m1 may have that of its bytes,
    of which WMMA takes half as many along k."""
    given, layout = (getattr(x.type, "layout", None) for x in (operand, acc))
    if format != "e2m1" or not isinstance(given, DotOperandLayout) \
            or not isinstance(layout, AMDWMMALayout) or layout.instr_shape is None:  # fmt: skip
        return operand
    *tile, k = layout.instr_shape
    if given.parent != replace(layout, instr_shape=[*tile, k // 2]):
        return operand
    return convert_layout(operand, DotOperandLayout(index, layout, given.k_width))


def in_registers(result: tensor, cd_regclass: str | None) -> tensor:
    """The result of a product, whose sums are in this class of registers. Raises `ValueError` for
    other words than "a" and "v"."""
    if cd_regclass is None:
        return result
    if cd_regclass not in ("a", "v"):
        raise ValueError(f"cd_regclass must be None, 'a' or 'v', got {cd_regclass!r}")
    emitter.current().set_attribute(result.handle, CD_REGCLASS, StringAttr(cd_regclass))
    return result
