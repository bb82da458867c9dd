"""The frontend's entry point: a kernel function becomes a module of `tt` functions."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import BoolAttr, FunctionType, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, Block, Region

from tritium.errors import CompilationError
from tritium.frontend.builder import IRBuilder
from tritium.frontend.function import FunctionGenerator
from tritium.frontend.targets import named
from tritium.frontend.values import ir_types, undeclared, unflatten, wrap
from tritium.frontend.visitor import FrontendOptions
from tritium.ir import locations
from tritium.language import emitter
from tritium.language.emitter import TargetFeatures
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_type, base_value, is_sequence
from tritium.language.values.constexpr import constexpr, constexpr_type
from tritium.language.values.tuples import tuple_type, type_of
from tritium.language.values.types import dtype, str_to_ty
from tritium.ops.ttir import CallOp, FuncOp, ReturnOp

Path = tuple[int, ...]
MANY_CALLS = 8
"""Calls of a function by itself from which on they, not its statements, are too deep."""


@dataclass
class Generated:
    """A function of the module: its symbol, and its return type once it is known."""

    symbol: str
    return_type: base_type | None = None


class ModuleGenerator:
    """Generates the functions of one module, each (function, argument types) once."""

    def __init__(self, features: TargetFeatures, options: FrontendOptions):
        self.builder = IRBuilder(features)
        self.options = options
        self.functions: list[FuncOp] = []
        self._known: dict[tuple[Any, ...], Generated] = {}
        self._symbols: set[str] = set()
        self._calls: list[JITCallable] = []
        self._last_return: ast.Return | None = None

    def entry(
        self,
        function: JITCallable,
        types: Mapping[str, base_type],
        attrs: Mapping[Path, Sequence[Sequence[Any]]],
        name: str | None = None,
    ) -> None:
        """Generate the kernel, with run-time arguments of the given types."""
        arg_attrs = flat_attributes(list(types.values()), attrs)
        symbol = name or function.__name__
        self._symbols.add(symbol)
        self._known[self._key(function, types)] = Generated(symbol)
        returned = self._generate(function, types, symbol, "public", arg_attrs)
        if returned != constexpr_type(None):
            message = f"a kernel cannot return a value; this one returns {returned}"
            assert self._last_return is not None
            raise CompilationError.in_function(function, self._last_return, message)

    def call(self, function: JITCallable, arguments: Mapping[str, Any]) -> Any:
        """Emit a call; generates the callee first if need be. Returns the call's value."""
        types = {name: value.type for name, value in arguments.items()}
        key = self._key(function, types)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Generated(self._symbol_for(function, types))
            position = len(self.functions)
            self._calls.append(function)
            known.return_type = self._generate(function, types, known.symbol, "private", None)
            self._calls.pop()
            self.functions.insert(position, self.functions.pop())
        elif known.return_type is None:
            raise RecursionError(
                f"{function.__name__} calls itself, directly or through others; "
                "recursion is not supported in kernels"
            )
        assert known.return_type is not None
        handles = [h for value in arguments.values() for h in value.flatten()]
        op = CallOp.build(
            handles,
            callee=known.symbol,
            result=known.return_type.flatten_types(),
            location=self.builder.location,
        )
        self.builder.insert(op)
        return unflatten([known.return_type], op.results)[0]

    def too_deep(self) -> str:
        """The reason why the kernel is too deep for Python's stack, asked for in its innermost
        call."""
        limit = f"Python's recursion limit is {sys.getrecursionlimit()}"
        calls = Counter(self._calls).most_common(1)
        if calls and calls[0][1] > MANY_CALLS:
            function, count = calls[0]
            return f"{function.__name__} has called itself {count} times: {limit}"
        return (
            "this is nested too deeply (each `elif`, and each `if` that returns, nests what "
            f"follows it): {limit}"
        )

    def _key(self, function: JITCallable, types: Mapping[str, base_type]) -> tuple[Any, ...]:
        """The key for which a function is generated once. Equal types may differ in which constants
        in them are weak (`AssignedInt`); their mangled names tell."""
        composed = (t.mangle() for t in types.values() if not isinstance(t, dtype))
        return id(function), self.builder.features.num_warps, tuple(types.values()), *composed

    def _symbol_for(self, function: JITCallable, types: Mapping[str, base_type]) -> str:
        values = "_".join(t.mangle() for t in types.values() if not is_constant(t))
        constants = "_".join(
            f"({i},){t.mangle()}" for i, t in enumerate(types.values()) if is_constant(t)
        )
        symbol, count = f"{function.qualified_name}__{values}", 1
        if constants:
            symbol = f"{symbol}__{constants}".replace("'", "_")
        unique = symbol
        while unique in self._symbols:
            unique, count = f"{symbol}.{count}", count + 1
        self._symbols.add(unique)
        return unique

    def _generate(
        self,
        function: JITCallable,
        types: Mapping[str, base_type],
        symbol: str,
        visibility: str,
        arg_attrs: Sequence[Mapping[str, Attribute]] | None,
    ) -> base_type:
        builder = self.builder
        tree = function.definition
        inputs = ir_types(list(types.values()))
        block = Block(arg_types=inputs)
        generator = FunctionGenerator(self, function)
        saved, builder.handle_call = builder.handle_call, generator.call_function
        try:
            with builder.inserting_into(block):
                builder.name_hint = None
                generator.visitor.place(tree)
                start = builder.location
                values = unflatten(list(types.values()), block.args)
                arguments = dict(zip(types, values, strict=True))
                for name, value in arguments.items():
                    named(name, value)
                for argument in block.args:
                    argument.location = locations.named(argument.name_hint or "", start)
                result = wrap(generator.generate(tree, arguments))
                if not isinstance(result, base_value):  # a function, say
                    result = constexpr(result)
                builder.emit(ReturnOp, tuple(result.flatten()))
        finally:
            builder.handle_call = saved
        return_type: base_type = result.type
        self._last_return = generator.control.last_return
        op = FuncOp.build(
            sym_name=symbol,
            function_type=FunctionType.from_lists(inputs, return_type.flatten_types()),
            sym_visibility=visibility,
            regions=[Region(block)],
            location=start,
            attributes={"noinline": BoolAttr.from_bool(bool(function.noinline))},
            arg_attrs=() if arg_attrs is None else arg_attrs,
        )
        self.functions.append(op)
        return return_type

    def finish(self) -> ModuleOp:
        """The module: the kernel, then the functions it calls."""
        ordered = [self.functions[-1], *self.functions[:-1]]
        return ModuleOp(ordered)  # pyright: ignore[reportArgumentType]


def is_constant(type_: base_type) -> bool:
    """True if values of the type are compile-time constants."""
    return isinstance(type_, constexpr_type)


def flat_attributes(
    types: Sequence[base_type], attrs: Mapping[Path, Sequence[Sequence[Any]]]
) -> list[dict[str, Attribute]]:
    """Attributes for each IR argument, from attributes by path of the Python argument."""
    flat: list[dict[str, Attribute]] = []

    def add(type_: base_type, path: Path) -> None:
        if isinstance(type_, tuple_type):
            for i, member in enumerate(type_.types):
                add(member, (*path, i))
            return
        entries = {name: to_attribute(value) for name, value in attrs.get(path, ())}
        for i, _ in enumerate(type_.flatten_types()):
            flat.append(entries if i == 0 else {})

    for i, type_ in enumerate(types):
        add(type_, (i,))
    return flat


def to_attribute(value: Any) -> Attribute:
    """A Python value of an argument attribute in the IR."""
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    return IntegerAttr(value, i32) if isinstance(value, int) else StringAttr(str(value))


def argument_type(
    signature: Any, constants: Mapping[Path, Any], path: Path, is_declared: bool
) -> base_type:
    """The language type of an argument from its signature ("*fp32", "constexpr", a tuple).

    For numbers that are constants without being declared ones see `undeclared`."""
    if is_sequence(signature):
        members = [
            argument_type(kind, constants, (*path, i), is_declared)
            for i, kind in enumerate(signature)
        ]
        return tuple_type(members, getattr(signature, "_fields", None))
    if signature == "constexpr" or path in constants:
        value = wrap(constants.get(path))
        return type_of(value if is_declared else undeclared(value))
    return str_to_ty(signature)


def compile_function(
    function: JITCallable,
    signature: Mapping[str, Any],
    constants: Mapping[Path, Any],
    attrs: Mapping[Path, Sequence[Sequence[Any]]],
    features: TargetFeatures,
    options: FrontendOptions,
    name: str | None = None,
) -> ModuleOp:
    """Compile a kernel to a module of `tt` functions.

    Args:
        function: the kernel.
        signature: type of each parameter, by name and in order: "*fp32", "i32", "constexpr",
            tuples of these.
        constants: values of the constexpr ones, by path: (2,) is the third parameter, (2, 0) the
            first member of a tuple in its place.
        attrs: attributes by path, such as {(0,): [["tt.divisibility", 16]]}.
        features: what the target supports.
        name: the symbol of the kernel; the function's name by default.

    Raises: `CompilationError` (or a subclass) at the user's line.
    """
    declared = {p.name for p in function.params if p.is_constexpr}
    types = {
        parameter: argument_type(kind, constants, (i,), parameter in declared)
        for i, (parameter, kind) in enumerate(signature.items())
    }
    generator = ModuleGenerator(features, options)
    with emitter.activate(generator.builder):
        generator.entry(function, types, attrs, name)
    return generator.finish()
