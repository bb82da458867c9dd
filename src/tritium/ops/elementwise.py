"""Bases for ops that act on each element alone, and checks that `infer` methods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.fields import operand
from tritium.ops.memory import Context


def function(compute: Any) -> Any:
    """A NumPy function as the `compute` of an op class."""
    return staticmethod(compute)


def of_operands(rule: Callable[..., Any]) -> Any:
    """A function of the result's type and of what is known of each operand as the `axis_info` or
    the `interval` of an op class."""

    def hook(op: Op, *given: Any) -> Any:
        *algebra, operands = given
        return rule(*algebra, op.results[0].type, *operands)

    return hook


def describe(*types: ir.Type | None) -> str:
    """Types as a message shows them."""
    return ", ".join(str(t) for t in types if t is not None)


def check_same(name: str, *types: ir.Type) -> ir.Type:
    """Check that all operands have one type, and return it."""
    if any(t != types[0] for t in types[1:]):
        raise OpError(f"{name}: operands have types {describe(*types)}; they must be the same")
    return types[0]


def check_kind(name: str, kind: str, type: ir.Type) -> None:
    """Elements must be of `kind`: "integer", "float" or "number"."""
    fits = {
        "integer": ir.is_integer(type),
        "float": ir.is_float(type),
        "number": ir.is_integer(type) or ir.is_float(type),
        "any": True,
    }[kind]
    if not fits:
        raise OpError(f"{name}: operand has type {describe(type)}; {kind} elements are required")


def check_condition(name: str, type: ir.Type) -> None:
    """A condition must be a scalar i1."""
    if type != ir.i1:
        raise OpError(f"{name}: condition has type {type}; i1 is required")


def check_same_shape(name: str, *types: ir.Type) -> tuple[int, ...]:
    """Check that all have one shape, and return it."""
    shapes = [ir.shape_of(t) for t in types]
    if any(s != shapes[0] for s in shapes[1:]):
        raise OpError(f"{name}: operands {describe(*types)} differ in shape")
    return shapes[0]


class UnaryOp(Op):
    """One operand, a result of the same type."""

    elementwise = True
    builder_family = "unary_op operand op"
    kind: ClassVar[str] = "float"
    involution: ClassVar[bool] = False
    """True if the op applied twice gives its operand."""
    syntax = "$operand attrs : type(operand)"
    operand = operand()

    @classmethod
    def infer(cls, operand: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, cls.kind, operand)
        return operand


class BinaryOp(Op):
    """Two operands of one type, a result of the same type."""

    elementwise = True
    builder_family = "binary_op lhs rhs op"
    kind: ClassVar[str] = "integer"
    neutral: ClassVar[float | int | None] = None
    """The number that changes no other one that the op combines it with, if there is one."""
    right_neutral: ClassVar[float | int | None] = None
    """For an op that is not commutative: likewise, as its right operand."""
    absorbing: ClassVar[int | None] = None
    """The number that the result is wherever an operand is that number."""
    adds: ClassVar[bool] = False
    """True if the result is the sum of the operands."""
    associative: ClassVar[bool] = False
    """True if (a op b) op c is a op (b op c), exactly."""
    idempotent: ClassVar[bool] = False
    """True if a op a is a."""
    cancels: ClassVar[bool] = False
    """True if a op a is 0."""
    extends: ClassVar[str] = ""
    """The extensions of integers, of signed numbers (s) or with zeros (u), for which
    extend(a) op extend(b) is extend(a op b)."""
    atomic: ClassVar[str | None] = None
    """The name of the atomic read-modify-write (`AtomicKind`) that combines numbers like the op."""
    syntax = "$lhs, $rhs attrs : type(result)"
    lhs = operand()
    rhs = operand()

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, cls.kind, check_same(cls.name, lhs, rhs))
        return lhs

    @classmethod
    def identity_of(cls, type: ir.Type) -> float | int | None:
        """`neutral` of a type's elements."""
        return cls.neutral


class CastOp(Op):
    """One operand, converted to the element type of the requested result type."""

    syntax = "$operand attrs : type(operand) to type(result)"
    elementwise = True
    builder_family = "cast_impl operand result"
    source: ClassVar[str] = "integer"
    target: ClassVar[str] = "integer"
    widens: ClassVar[bool | None] = None
    """True: the result is wider. False: it is narrower. None: any width."""
    composes: ClassVar[bool] = False
    """True if two such casts in a row are one."""
    non_negative: ClassVar[bool] = False
    """True if no result is negative as a signed number."""
    operand = operand()

    @classmethod
    def infer(cls, operand: ir.Type, *, result: Any = None, **attrs: Any) -> ir.Type:
        check_same_shape(cls.name, operand, result)
        check_kind(cls.name, cls.source, operand)
        check_kind(cls.name, cls.target, result)
        before, after = ir.bit_width(operand), ir.bit_width(result)
        if cls.widens is not None and (after <= before if cls.widens else after >= before):
            raise OpError(
                f"{cls.name}: from {describe(operand)} to {describe(result)}; "
                f"the result must be {'wider' if cls.widens else 'narrower'}"
            )
        return result


class SameBitsOp(CastOp):
    """The same bits as another type of the same width; pointers have 64 bits."""

    cost = 0

    @classmethod
    def infer(cls, operand: ir.Type, *, result: Any = None, **attrs: Any) -> ir.Type:
        check_same_shape(cls.name, operand, result)
        if ir.bit_width(operand) != ir.bit_width(result):
            raise OpError(
                f"{cls.name}: from {describe(operand)} to {describe(result)}; "
                "the widths must be the same"
            )
        return result

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.asarray(operand).view(ir.numpy_dtype(self.result_types[0]))
