"""Promotion, broadcasting, conversion and arithmetic: what the operators of tensors do.

Functions here take tensors or Python numbers (already unwrapped from constexpr). Between tensors
types promote much as in C. A Python number is weak and takes the tensor's type where its kind ranks
no higher; one that was assigned to a name (`AssignedInt`) has the type that it has by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.undecided import AutoEncoding
from tritium.language import emitter
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.casts import (
    as_element,
    bitcast,
    block,
    cast,
    constant,
    is_number,
    plain,
    python_type,
    to_tensor,
)
from tritium.language.values.constexpr import is_assigned
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int64,
    uint8,
)
from tritium.ops import math as math_ops
from tritium.ops import ttir
from tritium.ops.arith.compare import CmpFOp, CmpFPredicate, CmpIOp, CmpIPredicate, SelectOp
from tritium.ops.arith.floating import (
    AddFOp,
    DivFOp,
    MaximumFOp,
    MaxNumFOp,
    MinimumFOp,
    MinNumFOp,
    MulFOp,
    NegFOp,
    RemFOp,
    SubFOp,
)
from tritium.ops.arith.integer import (
    AddIOp,
    AndIOp,
    DivSIOp,
    DivUIOp,
    MaxSIOp,
    MaxUIOp,
    MinSIOp,
    MinUIOp,
    MulIOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubIOp,
    XOrIOp,
)
from tritium.ops.base import Op
from tritium.ops.gluon import SetAutoLayoutOp


class PropagateNan:
    """The NaN rule of min, max and clamp: `NONE` returns the other operand, `ALL` returns NaN."""

    NONE: PropagateNan
    ALL: PropagateNan
    name: str = ""
    value: int = 0

    def __init__(self, name: str, value: int):
        self.name, self.value = name, value

    def __repr__(self) -> str:
        return f"<PropagateNan.{self.name}: {self.value}>"


PropagateNan.NONE = PropagateNan("NONE", 0)
PropagateNan.ALL = PropagateNan("ALL", 0xFFFF)


# Types


def incompatible(a: dtype, b: dtype, allowed: str) -> TypeError:
    """The error for operands that an operator does not accept; `allowed` says what it does."""
    return TypeError(f"invalid operands of type {a!r} and {b!r}; {allowed}")


def integer_promote(a: dtype, b: dtype) -> dtype:
    """The wider type; at equal width (or if it is the wider) the unsigned one."""
    if a.int_signedness == b.int_signedness:
        return a if a.int_bitwidth > b.int_bitwidth else b
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def promote(a: dtype, a_weak: bool, b: dtype, b_weak: bool, divides: bool) -> dtype:
    """The type in which an operator on `a` and `b` computes.

    A weak operand (a Python number) of a kind that ranks no higher than the other's takes its
    type. `divides`: for `/`, `//`, `%`, which compute narrow floats in fp32 and want one sign.
    Raises `TypeError` for pointers and for a division of mixed signedness.
    """
    if a_weak != b_weak:
        weak, strong = (a, b) if a_weak else (b, a)
        if weak.kind().value <= strong.kind().value:
            a = b = strong
    if float64 in (a, b):
        return float64
    if float32 in (a, b) or (divides and (a.is_floating() or b.is_floating())):
        return float32
    if float16 in (a, b):
        return float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b else float32
    if a.is_fp8() and b.is_fp8():
        return a if a == b else float16
    if not a.is_int() or not b.is_int():
        raise TypeError(f"unexpected type {a} and {b}")
    if divides and a.int_signedness != b.int_signedness:
        raise TypeError(
            f"Cannot use /, //, or % with {a!r} and {b!r} because they have different "
            "signedness; cast one of them"
        )
    return integer_promote(a, b)


def _is_weak(value: TensorLike) -> bool:
    return is_number(value) and not is_assigned(value)


_MOVES = "a pointer is moved by + or - of an integer; tl.load reads what it points to"


def _check_pointer(a: dtype, b: dtype, allowed: bool) -> None:
    if a.is_ptr() and (not allowed or (b.is_ptr() and a != b) or b.is_floating()):
        raise incompatible(a, b, _MOVES)


def _check_scalar_fits(value: TensorLike, type: dtype) -> None:
    """A weak number must be representable in the type that it is converted to."""
    if type.is_int_unsigned() and value < 0:
        raise ValueError(
            f"Cannot perform a binary operation between an unsigned tensor ({type}) and a negative "
            f"scalar ({value}); cast one of them explicitly"
        )
    if type.is_int() and not type.get_int_min_value() <= value <= type.get_int_max_value():
        raise ValueError(
            f"Scalar {value} is out of range for type {type}, which holds "
            f"{type.get_int_min_value()} to {type.get_int_max_value()}"
        )


def binary_operands(
    lhs: TensorLike,
    rhs: TensorLike,
    lhs_pointer: bool = False,
    rhs_pointer: bool = False,
    divides: bool = False,
) -> tuple[tensor, tensor]:
    """Both operands as tensors of one shape and one type."""
    a, b = _number_or_tensor(lhs), _number_or_tensor(rhs)
    weak_left, weak_right = _is_weak(a), _is_weak(b)
    left = a.dtype if isinstance(a, tensor) else python_type(a)
    right = b.dtype if isinstance(b, tensor) else python_type(b)
    _check_pointer(left, right, lhs_pointer)
    _check_pointer(right, left, rhs_pointer)
    if not left.is_ptr() and not right.is_ptr():
        left = right = promote(left, weak_left, right, weak_right, divides)
        if weak_left:
            _check_scalar_fits(a, left)
        if weak_right:
            _check_scalar_fits(b, left)
    before = a.type if isinstance(a, tensor) else left
    after = b.type if isinstance(b, tensor) else right
    return broadcast_values(as_element(a, left, after), as_element(b, right, before))


def _number_or_tensor(value: TensorLike) -> TensorLike:
    if isinstance(value, tensor):
        return value
    value = plain(value)
    return value if is_number(value) else to_tensor(value)


def ternary_operands(*operands: TensorLike) -> tuple[tensor, tensor, tensor]:
    """Three operands as tensors of one shape and one type.

    Numbers are weak against all tensors at once, whatever the order, and become constants of the
    common type directly, so that none is rounded to a narrower one before.
    """
    values = [plain(value) for value in operands]
    kinds = [python_type(v) if is_number(v) else to_tensor(v).dtype for v in values]
    for kind in kinds:
        _check_pointer(kind, kind, False)
    common: dict[bool, dtype] = {}
    for value, kind in zip(values, kinds, strict=True):
        weak = _is_weak(value)
        common[weak] = promote(common.get(weak, kind), weak, kind, weak, False)
    strong, weak = common.get(False, common.get(True)), common.get(True, common.get(False))
    assert strong is not None and weak is not None
    result = promote(strong, False, weak, len(common) > 1, False)
    for value in values:
        if _is_weak(value):
            _check_scalar_fits(value, result)
    x, y, z = (as_element(value, result, result) for value in values)
    x, y = broadcast_values(x, y)
    x, z = broadcast_values(x, z)
    y, z = broadcast_values(y, z)
    return x, y, z


# Shapes


def splat(value: tensor, shape: tuple[int, ...], encoding: object = None) -> tensor:
    """A scalar repeated in a block."""
    result = block(value.type, shape, encoding).to_ir()
    return build(ttir.SplatOp, value, like=value, result=result)


def expand_dims(value: tensor, axis: int) -> tensor:
    """A new axis of size 1 before `axis`; a scalar becomes a block of one element."""
    if not value.type.is_block():
        return splat(value, (1,))
    for change in emitter.current().features.before_new_axis:
        value = change(value, axis)
    return build(ttir.ExpandDimsOp, value, like=value, axis=axis)


def broadcast_shape(value: tensor, shape: tuple[int, ...], encoding: object = None) -> tensor:
    """`value` repeated along its axes of size 1; a scalar in a block of the encoding. Raises
    `OpError` where an extent differs."""
    if value.type.shape == shape:
        return value
    if not value.type.is_block():
        return splat(value, shape, encoding)
    result = ir.with_shape(value.handle.type, shape)
    return build(ttir.repetition(value.handle.type), value, like=value, result=result)


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that blocks of these shapes broadcast to. Raises `ValueError` where extents differ
    and neither is 1."""
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in (a, b))
    for i, (left, right) in enumerate(zip(a, b, strict=True)):
        if left != right and 1 not in (left, right):
            raise ValueError(
                f"Cannot make_shape_compatible: incompatible dimensions at index {i}: "
                f"{left} and {right}"
            )
    return tuple(right if left == 1 else left for left, right in zip(a, b, strict=True))


def broadcast_like(value: tensor, like: dtype) -> tensor:
    """`value` repeated to the shape of `like`, a scalar in its encoding."""
    return broadcast_shape(value, like.shape, like.encoding)


def layouts_differ(a: tensor, b: tensor) -> ValueError:
    """The error for blocks that an op does not take together."""
    return ValueError(
        f"blocks of different layouts, {a.type} and {b.type}; `convert_layout` one of them"
    )


def decided(value: tensor, like: tensor) -> tensor:
    """`value`, in the encoding of `like` if its own is still to be found."""
    own, encoding = value.type.encoding, like.type.encoding
    if not isinstance(own, AutoEncoding) or own == encoding or encoding is None:
        return value
    result = ir.tensor_of(value.type.shape, value.dtype.to_ir(), encoding)
    return build(SetAutoLayoutOp, value, like=value, result=result)


def _lengthened(value: tensor, like: tensor) -> tensor:
    """`value` with new leading axes, for the rank of `like`. Raises `ValueError` where its layout
    is not of a block without them."""
    found = value
    while len(found.type.shape) < len(like.type.shape):
        try:
            found = expand_dims(found, 0)
        except OpError:
            if value.type.encoding is None:
                raise
            raise ValueError(
                f"blocks of different ranks, {value.type} and {like.type}; of a block that gets "
                "leading axes the layout must be SliceLayout(0, that of the other)"
            ) from None
    return found


def broadcast_values(lhs: tensor, rhs: tensor) -> tuple[tensor, tensor]:
    """Both repeated to a common shape: new leading axes, and axes of size 1 stretched.

    Raises `ValueError` where extents differ and neither is 1, and for different layouts.
    """
    if not lhs.type.is_block() or not rhs.type.is_block():
        common = lhs.type if lhs.type.is_block() else rhs.type
        return broadcast_like(lhs, common), broadcast_like(rhs, common)
    lhs, rhs = _lengthened(lhs, rhs), _lengthened(rhs, lhs)
    lhs, rhs = decided(lhs, rhs), decided(rhs, lhs)
    if lhs.type.encoding != rhs.type.encoding:
        raise layouts_differ(lhs, rhs)
    shape = common_shape(lhs.type.shape, rhs.type.shape)
    return broadcast_shape(lhs, shape), broadcast_shape(rhs, shape)


# Arithmetic


def _widen_fp8(*values: tensor) -> list[tensor]:
    return [cast(v, float32) if v.dtype.is_fp8() else v for v in values]


def _emit_like(cls: type[Op], *values: tensor) -> tensor:
    """An op whose result has the element of its first operand."""
    kind = values[0].dtype
    if kind.is_fp8():  # in which nothing computes: it is rounded to that
        return cast(_emit_like(cls, *_widen_fp8(*values)), kind)
    return build(cls, *values, like=values[0])


def _check_overflow(name: str, lhs: tensor, rhs: tensor, compute: Callable[..., tensor]) -> None:
    """In debug builds, assert that an integer operation of fewer than 64 bits does not wrap: as in
    the reference, words of 64 bits (hashes, random numbers) may."""
    features = emitter.current().features
    type = lhs.dtype
    checks = features.debug and features.sanitize_overflow and not type.is_bool()
    if not checks or type.int_bitwidth >= 64:
        return
    exact = compute(cast(lhs, int64), cast(rhs, int64), False)
    low, high = type.get_int_min_value(), type.get_int_max_value()
    fits = and_(
        compare("le", exact, constant(high, int64)), compare("ge", exact, constant(low, int64))
    )
    message = f"int{type.int_bitwidth} overflow detected for operation {name}"
    emit(ttir.AssertOp, fits, message=message)


def add(lhs: TensorLike, rhs: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`lhs + rhs`; one may be a pointer, which moves by the other's number of elements."""
    a, b = binary_operands(lhs, rhs, True, True)
    if a.dtype.is_ptr() and b.dtype.is_ptr():
        raise TypeError("cannot add pointers together")
    if b.dtype.is_ptr():
        a, b = b, a
    if a.dtype.is_ptr():
        return offset_pointer(a, b)
    if a.dtype.is_floating():
        return _emit_like(AddFOp, a, b)
    if sanitize_overflow:
        _check_overflow("add", a, b, add)
    return _emit_like(AddIOp, a, b)


def offset_pointer(pointer: tensor, offset: tensor) -> tensor:
    """`pointer` moved by `offset` elements; both have one shape."""
    if not offset.dtype.is_int():
        raise incompatible(pointer.dtype, offset.dtype, _MOVES)
    # The op takes offsets as signed numbers.
    if offset.dtype.is_int_unsigned() and offset.dtype.int_bitwidth < 64:
        offset = cast(offset, int64)
    return _emit_like(ttir.AddPtrOp, pointer, offset)


def sub(lhs: TensorLike, rhs: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`lhs - rhs`; `lhs` may be a pointer."""
    a, b = binary_operands(lhs, rhs, True, False)
    if a.dtype.is_ptr():
        return offset_pointer(a, negate(cast(b, int64) if b.dtype.is_int_unsigned() else b))
    if a.dtype.is_floating():
        return _emit_like(SubFOp, a, b)
    if sanitize_overflow:
        _check_overflow("sub", a, b, sub)
    return _emit_like(SubIOp, a, b)


def mul(lhs: TensorLike, rhs: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`lhs * rhs`."""
    a, b = binary_operands(lhs, rhs)
    if a.dtype.is_floating():
        return _emit_like(MulFOp, a, b)
    if sanitize_overflow:
        _check_overflow("mul", a, b, mul)
    return _emit_like(MulIOp, a, b)


def truediv(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs / rhs`, of integers in float32."""
    a, b = binary_operands(lhs, rhs, divides=True)
    if a.dtype.is_int():
        a, b = cast(a, float32), cast(b, float32)
    return _emit_like(DivFOp, a, b)


def floordiv(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs // rhs` of integers, rounded toward zero as in C."""
    a, b = binary_operands(lhs, rhs, divides=True)
    if not a.dtype.is_int():
        raise TypeError(f"unexpected type {a.dtype}: // takes integers; use / for floats")
    return _emit_like(DivSIOp if a.dtype.is_int_signed() else DivUIOp, a, b)


def mod(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs % rhs` with the sign of `lhs`, as in C."""
    a, b = binary_operands(lhs, rhs, divides=True)
    if a.dtype.is_floating():
        return _emit_like(RemFOp, a, b)
    return _emit_like(RemSIOp if a.dtype.is_int_signed() else RemUIOp, a, b)


def fdiv(
    lhs: TensorLike, rhs: TensorLike, ieee_rounding: bool = False, approx: bool = False
) -> tensor:
    """`lhs / rhs` of floating-point numbers: correctly rounded with `ieee_rounding`, of fp32 and
    off by 2 units in the last place at most with `approx`."""
    if ieee_rounding and approx:
        raise ValueError("fdiv: `approx` and `ieee_rounding` cannot both be true")
    a, b = binary_operands(lhs, rhs, divides=True)
    if not a.dtype.is_floating():
        raise TypeError(f"fdiv of {a.dtype}: one operand at least must be floating-point")
    if approx and a.dtype != float32:
        raise ValueError(f"fdiv of {a.dtype}: `approx` requires fp32 operands")
    exactness = ttir.PreciseDivFOp if ieee_rounding else ttir.ApproxDivFOp if approx else DivFOp
    return _emit_like(exactness, a, b)


def negate(value: TensorLike) -> tensor:
    """`-value`."""
    x = to_tensor(value)
    if x.dtype.is_ptr():
        raise ValueError(f"wrong type argument to unary minus ({x.dtype!r}); numbers have it")
    if x.dtype.is_floating():
        return _emit_like(NegFOp, x)
    return sub(constant(0, x.type), x, True)


# Bits


def _bit_operands(lhs: TensorLike, rhs: TensorLike) -> tuple[tensor, tensor]:
    a, b = binary_operands(lhs, rhs)
    if not a.dtype.is_int() or not b.dtype.is_int():
        raise incompatible(a.dtype, b.dtype, "bits are those of integers: cast with `.to(...)`")
    return a, b


def bitwise(cls: type[Op], lhs: TensorLike, rhs: TensorLike) -> tensor:
    """A bitwise operation of two integers."""
    return _emit_like(cls, *_bit_operands(lhs, rhs))


def and_(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs & rhs`."""
    return bitwise(AndIOp, lhs, rhs)


def or_(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs | rhs`."""
    return bitwise(OrIOp, lhs, rhs)


def xor(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs ^ rhs`."""
    return bitwise(XOrIOp, lhs, rhs)


def lshift(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs << rhs`."""
    return bitwise(ShLIOp, lhs, rhs)


def rshift(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs >> rhs`: copies of the sign come in where `lhs` is signed, zeros where it is unsigned.

    The type of `lhs` before promotion counts: an int32 moved by a uint32 keeps its sign. A number,
    which has no type of its own, counts as the tensor beside it.
    """
    a, b = _bit_operands(lhs, rhs)
    lhs, rhs = plain(lhs), plain(rhs)
    if not is_number(lhs):
        own = to_tensor(lhs).dtype
    elif is_assigned(lhs) or is_number(rhs):
        own = python_type(lhs)
    else:
        own = to_tensor(rhs).dtype
    return _emit_like(ShRSIOp if own.is_int_signed() else ShRUIOp, a, b)


def invert(value: TensorLike) -> tensor:
    """`~value` of integers."""
    x = to_tensor(value)
    if not x.dtype.is_int():
        raise ValueError(f"wrong type argument to unary invert ({x.dtype!r}); integers have it")
    ones = 1 if x.dtype.is_bool() else -1
    return _emit_like(XOrIOp, x, constant(ones, x.type))


def truth(value: TensorLike) -> tensor:
    """True if each element is not zero, as int1."""
    x = to_tensor(value)
    return x if x.dtype.is_int1() else cast(x, int1)


def logical_and(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs and rhs` elementwise, both evaluated."""
    return bitwise(AndIOp, truth(lhs), truth(rhs))


def logical_or(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`lhs or rhs` elementwise, both evaluated."""
    return bitwise(OrIOp, truth(lhs), truth(rhs))


def logical_not(value: TensorLike) -> tensor:
    """`not value` elementwise."""
    return invert(truth(value))


# Comparison and choice

_FLOAT_PREDICATES = {
    "eq": CmpFPredicate.OEQ, "ne": CmpFPredicate.UNE, "lt": CmpFPredicate.OLT,
    "le": CmpFPredicate.OLE, "gt": CmpFPredicate.OGT, "ge": CmpFPredicate.OGE,
}  # fmt: skip


def compare(kind: str, lhs: TensorLike, rhs: TensorLike) -> tensor:
    """`kind`: eq, ne, lt, le, gt or ge. NaN is unequal to everything."""
    a, b = binary_operands(lhs, rhs)
    if a.dtype.is_floating():
        a, b = _widen_fp8(a, b)
        predicate: Any = _FLOAT_PREDICATES[kind]
        return build(CmpFOp, a, b, like=int1, predicate=predicate)
    ordered = kind not in ("eq", "ne")
    prefix = ("S" if a.dtype.is_int_signed() else "U") if ordered else ""
    predicate = CmpIPredicate[prefix + kind.upper()]
    return build(CmpIOp, a, b, like=int1, predicate=predicate)


def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> tensor:
    """`x` where the condition holds, else `y`; both are evaluated."""
    c = to_tensor(condition)
    if not c.dtype.is_bool():
        emitter.current().warn(
            "tl.where with a non-boolean condition is deprecated and will error out in a future "
            f"release. Got {c.dtype}"
        )
        c = cast(c, int1)
    a, b = binary_operands(x, y, True, True)
    if c.type.is_block():
        c, a = broadcast_values(c, a)
        a, b = broadcast_values(a, b)
        c, a = broadcast_values(c, a)
    return build(SelectOp, c, a, b, like=a)


def _check_nan(propagate_nan: PropagateNan) -> bool:
    if propagate_nan not in (PropagateNan.ALL, PropagateNan.NONE):
        raise ValueError(
            f"Unexpected propagate_nan {propagate_nan}; "
            "tl.PropagateNan.ALL and tl.PropagateNan.NONE are allowed"
        )
    return propagate_nan is PropagateNan.ALL


def _extremum(
    lhs: TensorLike,
    rhs: TensorLike,
    propagate_nan: PropagateNan,
    ops: tuple[type[Op], ...],
    name: str,
) -> tensor:
    a, b = binary_operands(lhs, rhs)
    propagates = _check_nan(propagate_nan)
    if a.dtype.is_floating():
        return _emit_like(ops[0] if propagates else ops[1], a, b)
    if a.dtype.is_int():
        return _emit_like(ops[2] if a.dtype.is_int_signed() else ops[3], a, b)
    raise TypeError(f"Unexpected dtype {a.dtype} for {name}")


def minimum(
    x: TensorLike, y: TensorLike, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """The smaller of each two elements."""
    return _extremum(x, y, propagate_nan, (MinimumFOp, MinNumFOp, MinSIOp, MinUIOp), "minimum")


def maximum(
    x: TensorLike, y: TensorLike, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """The larger of each two elements."""
    return _extremum(x, y, propagate_nan, (MaximumFOp, MaxNumFOp, MaxSIOp, MaxUIOp), "maximum")


def clamp(
    x: TensorLike,
    low: TensorLike,
    high: TensorLike,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> tensor:
    """`x` limited to [low, high]; undefined for floating-point numbers if low > high."""
    x, low, high = ternary_operands(x, low, high)
    _check_nan(propagate_nan)
    kind = x.dtype
    if kind.is_int():
        return minimum(maximum(x, low), high)
    x, low, high = _widen_fp8(x, low, high)
    nan = ttir.PropagateNan[propagate_nan.name]
    return cast(build(ttir.ClampFOp, x, low, high, like=x, propagateNan=nan), kind)


def absolute(value: TensorLike) -> tensor:
    """The magnitude; unsigned numbers stay."""
    x = to_tensor(value)
    if x.dtype.is_fp8e4b15() or x.dtype.is_fp8e4nv() or x.dtype.is_fp8e5():
        # Computed in fp32, as other functions of such small floats, an infinity would come back as
        # the largest number. (In the other formats there is none, and 0x80 is a NaN.)
        bits = and_(bitcast(x, uint8), constant(0x7F, uint8))
        return bitcast(bits, x.dtype)
    if x.dtype.is_floating():
        return _emit_like(math_ops.AbsFOp, x)
    if x.dtype.is_int_signed():
        return _emit_like(math_ops.AbsIOp, x)
    if x.dtype.is_int_unsigned():
        return x
    raise TypeError(f"abs takes numbers; got {x.dtype}")


def multiply_high(lhs: TensorLike, rhs: TensorLike) -> tensor:
    """The upper half of the product of two 32- or 64-bit integers, taken as unsigned."""
    a, b = _bit_operands(lhs, rhs)
    return _emit_like(ttir.MulHiUIOp, a, b)


def fma(x: TensorLike, y: TensorLike, z: TensorLike) -> tensor:
    """`x * y + z`, rounded once."""
    return _emit_like(math_ops.FmaOp, *ternary_operands(x, y, z))
