"""`TritonSemantic`: the language's functions as functions written against the reference call them.

There a builtin gets an object `_semantic` whose methods build the operations. Here the functions of
the language do that themselves; this class is their table by the reference's names and parameters.

    @tl.core.builtin
    def double(x, _semantic=None):
        return _semantic.mul(x, 2, True)

What a method is given may be tensors, numbers or constexprs. Methods that work on the reference's
own IR objects (`reduction`, `associative_scan` and `map_elementwise` with region builders, and the
`*_impl` helpers of type checking) are not there: asking for one raises `NotImplementedError`.
"""

# The adapters in the table below are lambdas, whose parameters cannot be annotated.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

from tritium.language import core
from tritium.language.builtins import arithmetic, casts
from tritium.language.operation_builder import OperationBuilder
from tritium.language.values.base import as_tuple
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tensor import tensor
from tritium.language.values.types import dtype

__all__ = ["OperationBuilder", "TritonSemantic"]


def _logical_shift(input: Any, other: Any) -> tensor:
    value = casts.to_tensor(input)
    unsigned = getattr(core, f"uint{value.dtype.primitive_bitwidth}")
    return arithmetic.rshift(casts.bitcast(value, unsigned), other)


def _arithmetic_shift(input: Any, other: Any) -> tensor:
    value = casts.to_tensor(input)
    signed = getattr(core, f"int{value.dtype.primitive_bitwidth}")
    return arithmetic.rshift(casts.bitcast(value, signed), other)


def _broadcast_all(inputs: Any) -> tuple[tensor, ...]:
    values = [casts.to_tensor(value) for value in inputs]
    for _ in values:  # until the shapes are the same; one round a value is enough
        first = values[0]
        for index, value in enumerate(values[1:], 1):
            first, values[index] = arithmetic.broadcast_values(first, value)
        values[0] = first
    return tuple(values)


def _to_tensor(x: object, check_type: object = True) -> tensor:
    return casts.to_tensor(x)


def _scalar(value: object, dtype: dtype) -> tensor:
    return casts.constant(value, dtype)


def _on_descriptor(name: str) -> Callable[..., Any]:
    return lambda desc, value, offsets: getattr(desc, name)(offsets, value)


def _compare(kind: str) -> Callable[[Any, Any], tensor]:
    return lambda input, other: arithmetic.compare(kind, input, other)


_BINARY: Mapping[str, Callable[..., Any]] = {
    "truediv": arithmetic.truediv, "floordiv": arithmetic.floordiv, "mod": arithmetic.mod,
    "and_": arithmetic.and_, "or_": arithmetic.or_, "xor_": arithmetic.xor,
    "shl": arithmetic.lshift, "ashr": _arithmetic_shift, "lshr": _logical_shift,
    "logical_and": arithmetic.logical_and, "logical_or": arithmetic.logical_or,
    "greater_than": _compare("gt"), "greater_equal": _compare("ge"), "less_than": _compare("lt"),
    "less_equal": _compare("le"), "equal": _compare("eq"), "not_equal": _compare("ne"),
}  # fmt: skip

_ATOMICS = ("add", "and", "max", "min", "or", "xchg", "xor")

METHODS: Mapping[str, tuple[str, Any]] = {
    **{name: ("input other", function) for name, function in _BINARY.items()},
    **{f"atomic_{kind}": ("ptr val mask=None sem=None scope=None", getattr(core, f"atomic_{kind}"))
       for kind in _ATOMICS},
    **{f"descriptor_atomic_{kind}": ("desc value offsets", _on_descriptor(f"atomic_{kind}"))
       for kind in _ATOMICS if kind != "xchg"},
    "add": ("input other sanitize_overflow=True", arithmetic.add),
    "sub": ("input other sanitize_overflow=True", arithmetic.sub),
    "mul": ("input other sanitize_overflow=True", arithmetic.mul),
    "fdiv": ("input other ieee_rounding=False approx=False", arithmetic.fdiv),
    "minimum": ("x y propagate_nan", arithmetic.minimum),
    "maximum": ("x y propagate_nan", arithmetic.maximum),
    "clamp": ("x min max propagate_nan", arithmetic.clamp),
    "plus": ("input", casts.to_tensor),
    "minus": ("input", arithmetic.negate),
    "invert": ("input", arithmetic.invert),
    "not_": ("input", arithmetic.logical_not),
    "where": ("condition x y", arithmetic.where),
    "program_id": ("axis", core.program_id),
    "num_programs": ("axis", core.num_programs),
    "arange": ("start end ret_ty=None", lambda start, end, ret_ty: core.arange(start, end)),
    "full": ("shape value dtype", core.full),
    "splat": ("value shape", lambda value, shape: arithmetic.splat(value, as_tuple(shape))),
    "unsplat": ("value", lambda value: value.item()),
    "to_tensor": ("x check_type=True", _to_tensor),
    "scalar_constant": ("value dtype", _scalar),
    "make_scalar": ("value dtype", _scalar),
    "bitcast": ("input dst_ty", casts.bitcast),
    "cast": ("input dst_ty fp_downcast_rounding=None", casts.cast),
    "reshape": ("input dst_shape can_reorder=False",
                lambda x, shape, reorder: core.reshape(x, shape, can_reorder=reorder)),
    "expand_dims": ("input axis", core.expand_dims),
    "permute": ("input dims", core.permute),
    "join": ("a b", core.join),
    "split": ("a", core.split),
    "cat": ("lhs rhs can_reorder=False", lambda a, b, reorder: core.cat(a, b, can_reorder=reorder)),
    "broadcast_impl_shape": ("input shape",
                             lambda x, shape: arithmetic.broadcast_shape(x, as_tuple(shape))),
    "broadcast_impl_value": ("lhs rhs", arithmetic.broadcast_values),
    "broadcast_tensors": ("inputs", _broadcast_all),
    "load": ("ptr mask=None other=None boundary_check=() padding_option='' cache_modifier='' "
             "eviction_policy='' is_volatile=False", core.load),
    "store": ("ptr val mask=None boundary_check=() cache_modifier='' eviction_policy=''",
              core.store),
    "atomic_load": ("ptr mask sem scope", core.atomic_load),
    "atomic_store": ("ptr val mask sem scope", core.atomic_store),
    "atomic_poll": ("ptr expected sem scope timeout_ns", core.atomic_poll),
    "atomic_cas": ("ptr cmp val sem=None scope=None", core.atomic_cas),
    "make_block_ptr": ("base shape strides offsets block_shape order", core.make_block_ptr),
    "advance": ("base offsets", core.advance),
    "make_tensor_descriptor": ("base shape strides block_shape padding_option='zero'",
                               core.make_tensor_descriptor),
    "descriptor_load": ("desc offsets cache_modifier='' eviction_policy=''",
                        lambda desc, offsets, *_: core.load_tensor_descriptor(desc, offsets)),
    "descriptor_store": ("desc value offsets",
                         lambda d, value, at: core.store_tensor_descriptor(d, at, value)),
    "descriptor_gather": ("desc x_offsets y_offset cache_modifier='' eviction_policy=''",
                          lambda desc, x, y, *_: desc.gather(x, y)),
    "descriptor_scatter": ("desc value x_offsets y_offset",
                           lambda desc, value, x, y: desc.scatter(value, x, y)),
    "dot": ("lhs rhs acc input_precision max_num_imprecise_acc out_dtype",
            lambda a, b, acc, precision, imprecise, out: core.dot(
                a, b, acc, precision, None, imprecise, out)),
    "dot_scaled": ("lhs lhs_scale lhs_format rhs rhs_scale rhs_format acc fast_math lhs_k_pack "
                   "rhs_k_pack out_dtype", core.dot_scaled),
    "gather": ("src index axis", core.gather),
    "histogram": ("input num_bins mask=None", core.histogram),
    "multiple_of": ("x values", core.multiple_of),
    "max_contiguous": ("x values", core.max_contiguous),
    "max_constancy": ("x values", core.max_constancy),
    "assume": ("cond", core.assume),
    "debug_barrier": ("", core.debug_barrier),
    "device_assert": ("cond msg mask=None", core.device_assert),
    "device_print": ("prefix args hex=False",
                     lambda prefix, args, hex: core.device_print(prefix, *args, hex=hex)),
}  # fmt: skip


def _parameter(text: str) -> Parameter:
    name, equals, default = text.partition("=")
    values = {"None": None, "True": True, "False": False, "()": ()}
    value = values.get(default, default.strip("'")) if equals else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value)


def _method(name: str, parameters: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = Signature([_parameter(text) for text in parameters.split()])

    def method(self: object, *args: object, **kwargs: object) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(*map(unwrap, bound.args))

    method.__name__, method.__qualname__ = name, f"TritonSemantic.{name}"
    method.__doc__ = f"What `{getattr(function, '__name__', name)}` of the language does."
    return method


class TritonSemantic:
    """See the module. There is no state beside the `builder`."""

    tensor = tensor
    lang = core

    def __init__(self, builder: object = None):
        self.builder = OperationBuilder() if builder is None else builder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(
            f"TritonSemantic.{name}: not built; call the functions of tritium.language instead"
        )


for _name, (_parameters, _function) in METHODS.items():
    setattr(TritonSemantic, _name, _method(_name, _parameters, _function))
