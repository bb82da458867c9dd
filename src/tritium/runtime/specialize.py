"""From launch arguments to kernel types: what a kernel is compiled for, and the key of that.

An argument contributes (type, specialization):

    tensor of fp32          ("*fp32", "D")      "D": address divisible by 16, "" otherwise
    17, 32, 1               ("i32", ""), ("i32", "D"), ("constexpr", 1)
    2**40, 2**63            ("i64", "D"), ("u64", "D")
    0.5, True, None         ("fp32", ""), ("u1", ""), ("constexpr", None)
    a tuple                 a tuple of types, a tuple of specializations
    constexpr parameters    ("constexpr", value)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tritium.backends.base import BaseBackend
from tritium.language.jit.function import JITCallable, KernelParam
from tritium.language.values.base import base_type, class_of
from tritium.language.values.constexpr import ConstexprFunction, constexpr
from tritium.launch.signature import canonical_dtype, int_type


def address_of(arg: Any) -> int | None:
    """The address of a tensor-like argument's first element; None where this process cannot tell
    (memory of a device, by DLPack)."""
    if hasattr(arg, "data_ptr"):
        return arg.data_ptr()
    for protocol in ("__array_interface__", "__cuda_array_interface__"):
        interface = getattr(arg, protocol, None)
        if interface is not None:
            return interface["data"][0]
    if arg.__dlpack_device__()[0] != _DLPACK_CPU:
        return None
    return np.from_dlpack(arg).__array_interface__["data"][0]


_DLPACK_CPU = 1


_COMPILE_TIME = (str, base_type, constexpr, ConstexprFunction, JITCallable)
"""Values that are constants whatever the parameter is declared."""


class Specializer:
    """Specializes the arguments for one parameter."""

    def __init__(self, param: KernelParam, backend: Any):
        self.param = param
        self.name = param.name
        self.backend = backend
        self.by_value = not param.do_not_specialize
        self.by_alignment = self.by_value and not param.do_not_specialize_on_alignment
        self.fixed = param.annotation_type
        self.fixed_other = param.fixes_no_integer
        self.prefix = "*k" if param.is_const else "*"
        self._aligned: dict[Any, tuple[str, str]] = {}
        self._handlers: dict[type, Callable[[Any], tuple[Any, Any]]] = {
            int: self._int, float: self._float, bool: self._bool, np.ndarray: self._array
        }  # fmt: skip

    @property
    def function(self) -> Callable[[Any], tuple[Any, Any]]:
        """The function that `__call__` runs for this parameter."""
        return self.constant if self.param.is_constexpr else self.dynamic

    def constant(self, arg: Any) -> tuple[Any, Any]:
        """The specialization for a constexpr parameter."""
        kind: type[Any] = type(arg)  # pyright: ignore[reportUnknownVariableType]
        if kind is int or kind is str:
            return "constexpr", arg
        return "constexpr", constexpr_key(arg, f"argument '{self.name}'")

    def __call__(self, arg: Any) -> tuple[Any, Any]:
        """(type, specialization) of an argument. Raises `TypeError` naming the parameter."""
        return self.function(arg)

    def dynamic(self, arg: Any) -> tuple[Any, Any]:
        """The specialization for any other parameter."""
        kind: type[Any] = type(arg)  # pyright: ignore[reportUnknownVariableType]
        handler = self._handlers.get(kind)
        if handler is None:
            handler = self._handlers[kind] = self._handler(kind)
        return handler(arg)

    def _handler(self, kind: type) -> Callable[[Any], tuple[Any, Any]]:
        if kind.__name__ == "FakeTensor":
            return lambda arg: (self._pointer(arg.dtype), "D")  # as a mock tensor: no address
        return self._tensor_handler() if hasattr(kind, "data_ptr") else self._other

    def _tensor_handler(self) -> Callable[[Any], tuple[Any, Any]]:
        native = self.backend.supports_native_tensor_specialization
        return self._tensor if native else self._tensor_of_backend

    def _float(self, arg: float) -> tuple[Any, Any]:
        return self.fixed or "fp32", ""

    def _bool(self, arg: bool) -> tuple[Any, Any]:
        return self.fixed or "u1", ""

    def _int(self, arg: int) -> tuple[Any, Any]:
        if not self.fixed:
            if arg == 1 and self.by_value:
                return "constexpr", 1
            try:
                type_ = int_type(arg)
            except OverflowError as error:
                raise OverflowError(f"argument '{self.name}': {error}") from None
        elif self.fixed_other:
            return self.fixed, ""
        elif arg == 1 and self.by_value:
            return self.fixed, "1"  # a kernel of its own, as without the annotation
        else:
            type_ = self.fixed
        return type_, self.backend.get_int_specialization(arg, align=self.by_alignment)

    def _tensor(self, arg: Any) -> tuple[Any, Any]:
        try:
            pair = self._aligned.get(arg.dtype)
            if pair is None:
                pair = self._aligned[arg.dtype] = self._pointer(arg.dtype), "D"
            if self.by_alignment and arg.data_ptr() & 15 == 0:
                return pair
        except (RuntimeError, AttributeError) as error:  # a sparse one of torch; no dtype
            raise TypeError(f"argument '{self.name}': {error}") from error
        return pair[0], ""

    def _tensor_of_backend(self, arg: Any) -> tuple[Any, Any]:
        found = self.backend.get_tensor_specialization(arg, align=self.by_alignment)
        return self._pointer(arg.dtype), found

    def _array(self, arg: np.ndarray) -> tuple[Any, Any]:
        dtype = arg.dtype
        pair = self._aligned.get(dtype)
        if pair is None:
            pair = self._aligned[dtype] = self._pointer(dtype), "D"
        if self.by_alignment and arg.__array_interface__["data"][0] & 15 == 0:
            return pair
        return pair[0], ""

    def _pointer(self, dtype: Any) -> str:
        try:
            return self.prefix + canonical_dtype(dtype)
        except TypeError as error:
            raise TypeError(f"argument '{self.name}': {error}") from None

    def _other(self, arg: Any) -> tuple[Any, Any]:
        if arg is None or isinstance(arg, _COMPILE_TIME):
            return self.constant(arg)
        if isinstance(arg, tuple):
            pairs = [self.dynamic(item) for item in arg]  # pyright: ignore[reportUnknownVariableType]
            types, specs = (tuple(p[i] for p in pairs) for i in (0, 1))
            if hasattr(cast("tuple[Any, ...]", arg), "_fields"):
                kind = class_of(cast(Any, arg))
                return kind(*types), kind(*specs)
            return types, specs
        if isinstance(arg, np.bool_):
            return self._bool(bool(cast(Any, arg)))
        if isinstance(arg, (int, np.integer)):
            return self._int(int(arg))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(arg, (float, np.floating)):
            return self._float(float(arg))  # pyright: ignore[reportUnknownArgumentType]
        if hasattr(arg, "block_shape") and hasattr(arg, "base"):
            blocks = list(arg.block_shape)
            padding = "N" if getattr(arg, "padding", "zero") == "nan" else ""
            layout = f",{arg.layout!r}" if hasattr(arg, "layout") else ""
            element = self._pointer(arg.base.dtype).lstrip("*k")
            kind = ""
            if getattr(arg, "mode", "tiled") != "tiled":
                filters = f",{arg.filters}" if arg.shares_positions else ""
                kind, layout = f"_{arg.mode}", f",input_rank={len(arg.shape)}{filters}{layout}"
            return f"tensordesc{kind}<{element}{blocks}{layout}>", padding
        if not isinstance(arg, type) and (hasattr(arg, "dtype") or hasattr(arg, "__dlpack__")):
            return self._foreign(arg)
        raise TypeError(
            f"argument '{self.name}' has type {type(arg).__name__}; a kernel takes tensors, "
            "numbers, None, tuples of these, and compile-time values"
        )

    def _foreign(self, arg: Any) -> tuple[Any, Any]:
        if hasattr(arg, "data_ptr"):  # an attribute of this object alone
            return self._tensor_handler()(arg)
        dtype = getattr(arg, "dtype", None)
        if dtype is None:
            dtype = np.from_dlpack(arg).dtype
        address = address_of(arg) if self.by_alignment else None
        aligned = address is not None and address % 16 == 0
        return self._pointer(dtype), "D" if aligned else ""


def native_specialize_impl(
    backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool
) -> tuple[Any, Any]:
    """(kernel type, specialization) of a launch argument, as the reference's library is asked.

    Args:
        backend: the backend, or its class, that says what integers are specialized for.
        arg: the argument.
        is_const: whether a pointer is only read through.
        specialize_value: whether 1 and multiples of 16 matter.
        align: whether divisibility by 16 does.
    """
    annotation = "const" if is_const else inspect.Parameter.empty
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameter = inspect.Parameter("arg", kind, annotation=annotation)
    return Specializer(KernelParam(0, parameter, not specialize_value, not align), backend)(arg)


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """The kernel type of a launch argument ("*fp32", "i32"); with `specialize`, 1 is a constant."""
    return native_specialize_impl(BaseBackend, arg, False, specialize, True)[0]


def make_binder(function: Any, backend: Any) -> Callable[..., Any]:
    """A function from a launch's arguments to (values in the order of the parameters, a tuple of
    their specializations, the other keywords: options), made for a kernel's parameters.

    It is a Python function of the kernel's name and signature, so that Python itself matches
    arguments with parameters, and says what is wrong with them.
    """
    params: Sequence[KernelParam] = function.params
    parameters = list(function.signature.parameters.values())
    own = f"_{'_'.join(p.name for p in params)}"  # a name that no parameter has
    scope: dict[str, Any] = {}
    declared: list[str] = []
    keyword_only = False
    for i, (param, given) in enumerate(zip(params, parameters, strict=True)):
        if given.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(f"{function.__name__}: a kernel cannot have **{param.name}")
        if given.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
                declared.append("*")
        star = "*" if given.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = ""
        if param.has_default:
            scope[f"{own}_default{i}"] = param.default
            default = f"={own}_default{i}"
        declared.append(f"{star}{param.name}{default}")
        scope[f"{own}_{i}"] = Specializer(param, backend).function
    declared.append(f"**{own}")
    values = "".join(f"{p.name}, " for p in params)
    pairs = "".join(f"{own}_{i}({p.name}), " for i, p in enumerate(params))
    body = f"return ({values}), ({pairs}), {own}"
    exec(f"def binder({', '.join(declared)}): {body}", scope)
    binder = scope["binder"]
    binder.__name__ = binder.__qualname__ = function.__name__
    return binder


def constexpr_key(value: Any, what: str = "a constexpr") -> Any:
    """The part of a key for a compile-time value: `1`, `1.0` and `True` are equal to Python
    but compile differently, and so do `0.0` and `-0.0`. Raises `TypeError` for an unhashable value
    other than a list or a dict."""
    if isinstance(value, constexpr):
        value = value.value
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if value is None or kind is int or kind is str or isinstance(value, JITCallable):
        return value
    if isinstance(value, float):
        return kind, value.hex()
    if isinstance(value, (tuple, list)):
        return kind, tuple(constexpr_key(v, what) for v in value)  # pyright: ignore
    if isinstance(value, dict):
        return kind, tuple((k, constexpr_key(v, what)) for k, v in value.items())  # pyright: ignore
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{what}: the value of a constexpr must be hashable; got {value!r:.80} of type "
            f"{kind.__name__}"
        ) from None
    return kind, value


def constants_of(
    values: Sequence[Any], types: Sequence[Any], specs: Sequence[Any], path: tuple[int, ...] = ()
) -> dict[tuple[int, ...], Any]:
    """The values of the arguments whose type is "constexpr", by path."""
    found: dict[tuple[int, ...], Any] = {}
    for i, (value, type_, spec) in enumerate(zip(values, types, specs, strict=True)):
        here = (*path, i)
        if isinstance(type_, tuple):
            found.update(constants_of(value, cast("tuple[Any, ...]", type_), spec, here))
        elif type_ == "constexpr":
            # 1 of any class of integers (NumPy's, an enumeration's) has the key 1.
            given = value.value if isinstance(value, constexpr) else value
            found[here] = spec if type(spec) is int else given
    return found


def attributes_of(
    types: Sequence[Any], specs: Sequence[Any], backend: Any, path: tuple[int, ...] = ()
) -> dict[tuple[int, ...], list[list[Any]]]:
    """The IR attributes that the specializations stand for, by path."""
    found: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, (type_, spec) in enumerate(zip(types, specs, strict=True)):
        here = (*path, i)
        if isinstance(type_, tuple):
            found.update(attributes_of(cast("tuple[Any, ...]", type_), spec, backend, here))
        elif type_ != "constexpr" and isinstance(spec, str) and spec:
            attrs = backend.parse_attr(spec)
            if attrs:
                found[here] = attrs
    return found
