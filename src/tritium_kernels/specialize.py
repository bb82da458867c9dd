"""Kernels made from other kernels: functions put in place of parameters, tuples of arguments split.

A kernel with a parameter for a function, and one for a tuple of the function's arguments, becomes
one that names the function in its code and has a parameter for each argument:

    kernel(x, FN, fn_args): ... FN(x, *fn_args)   ->   kernel_swiglu(x, alpha, limit): ...
"""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tritium
import tritium.language as tl
from tritium_kernels.errors import refuse

_numbers = itertools.count()


@dataclass(frozen=True)
class FnSpecs:
    """A function of a kernel's result, called inside of the kernel.

    Attributes:
        name: for kernels' names and messages.
        fn: a `jit` function of a tile and the arguments in `fn_arg_names`; None: the tile itself.
        fn_arg_names: names of the arguments after the tile.
        fn_arg_do_not_specialize: those whose values are not to be specialized on.
        reduction_n: how many columns of the tile make one of the result.
    """

    name: str
    fn: Any
    fn_arg_names: tuple[str, ...] = ()
    fn_arg_do_not_specialize: tuple[str, ...] = ()
    reduction_n: int = 1

    @staticmethod
    def default() -> FnSpecs:
        """The identity, which kernels that fuse no function take."""
        return IDENTITY


IDENTITY = FnSpecs("identity", None)


@dataclass(frozen=True)
class ClosureArg:
    """The two parameters of a kernel that stand for a function and for its further arguments."""

    fn_name: str
    fn_params_name: str


def cacheable(f: Callable[[], Any]) -> Any:
    """Decorator: the kernel that `f` makes, under the name and the module of `f`.

    Kernels made at run time are found again by name, as those in a file are.
    """
    kernel = f()
    for function in (kernel, kernel.fn):
        function.__name__, function.__qualname__ = f.__name__, f.__qualname__
        function.__module__ = f.__module__
    return kernel


def define_kernel(
    src: str, module: ModuleType, attrs: Mapping[str, Any] | None = None, **extra_globals: Any
) -> Any:
    """The kernel that a text defines: one function, whose globals are the module's and those given.

    `attrs` are options of `tritium.jit`. Tracebacks and listings show the text.
    """
    definitions = [node for node in ast.parse(src).body if isinstance(node, ast.FunctionDef)]
    if len(definitions) != 1:
        raise refuse("define_kernel", "src", f"defines {len(definitions)} functions", "one")
    file = f"<{module.__name__}.{definitions[0].name} {next(_numbers)}>"
    linecache.cache[file] = len(src), None, src.splitlines(keepends=True), file
    namespace = {**vars(module), **extra_globals}
    exec(compile(src, file, "exec"), namespace)
    function = namespace[definitions[0].name]
    function.__module__ = module.__name__
    return tritium.jit(**(attrs or {}))(function)


def _check_names(fn: Any, given: Mapping[str, Any], argument: str) -> None:
    for name in given:
        if name not in fn.arg_names:
            accepted = ", ".join(fn.arg_names)
            raise refuse("specialize", argument, f"names {name!r}", accepted)


def _parameters(
    node: ast.FunctionDef, constants: Mapping[str, Any], tuples: Mapping[str, Sequence[str]]
) -> list[ast.arg]:
    """Parameters of the new kernel; those with defaults must stay the last."""
    found: list[ast.arg] = []
    for parameter in node.args.args:
        if parameter.arg in tuples:
            found += [ast.arg(name) for name in tuples[parameter.arg]]
        elif parameter.arg not in constants:
            found.append(parameter)
    names = [parameter.arg for parameter in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise refuse("specialize", "tuples", f"gives {twice[0]!r} twice", "names of their own")
    return found


def specialize(
    fn: Any, module: ModuleType, constants: Mapping[str, Any], tuples: Mapping[str, Sequence[str]],
    name: str | None = None, do_not_specialize: Sequence[str] = (),
) -> Any:  # fmt: skip
    """A kernel made of `fn`, a `jit` function.

    Args:
        module: where the new kernel belongs; its globals, after those of `fn`, are the kernel's.
        constants: values of parameters that the new kernel does not have.
        tuples: names of parameters that the new kernel has in place of one that is a tuple.
        name: of the new kernel; that of `fn` if not given.
        do_not_specialize: parameters whose values never cause a recompile, besides those of `fn`.
    """
    if not hasattr(fn, "arg_names"):
        raise refuse("specialize", "fn", f"is {fn!r}", "a function of @tritium.jit")
    _check_names(fn, constants, "constants")
    _check_names(fn, tuples, "tuples")
    tree = ast.parse(fn.src)
    (node,) = tree.body
    assert isinstance(node, ast.FunctionDef)
    defaults = len(node.args.defaults)
    with_default = {p.arg for p in node.args.args[len(node.args.args) - defaults :]}
    moved = sorted(with_default & (constants.keys() | tuples.keys()))
    if moved:
        raise refuse("specialize", "fn", f"has a default of {moved[0]!r}", "parameters without")
    node.args.args = _parameters(node, constants, tuples)
    node.name = fn.__name__ if name is None else name
    node.decorator_list = []
    split = [ast.parse(f"{p} = ({''.join(n + ', ' for n in names)})").body[0]
             for p, names in tuples.items()]  # fmt: skip
    document = 1 if ast.get_docstring(node) is not None else 0
    node.body[document:document] = split
    kept = {p.arg for p in node.args.args}
    attrs = {
        "do_not_specialize": [p for p in (*fn.do_not_specialize, *do_not_specialize) if p in kept],
        "debug": fn.debug, "noinline": fn.noinline, "launch_metadata": fn.launch_metadata,
        "repr": None if name is not None else fn._repr,
    }  # fmt: skip
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    # Kernels read globals that are functions, or marked as constants.
    fixed = {p: v if callable(v) else tl.constexpr(v) for p, v in constants.items()}
    return define_kernel(text, module, attrs, **{**fn.fn.__globals__, **vars(module), **fixed})


class SpecializationModule:
    """Kernels made for sets of functions, each set once.

    Attributes:
        module_name: of the modules that hold the made kernels.
        kernels: (name, kernel) of what is specialized.
        closure_args: name of a function in `get` -> the parameters of the kernels that it replaces.
    """

    def __init__(
        self, module_name: str, kernels: Sequence[tuple[str, Any]],
        closure_args: Mapping[str, ClosureArg],
    ) -> None:  # fmt: skip
        self.module_name, self.kernels = module_name, list(kernels)
        self.closure_args = dict(closure_args)
        self._made: dict[tuple[FnSpecs, ...], ModuleType] = {}

    def get(self, **specs: FnSpecs) -> ModuleType:
        """The kernels, as attributes of a module, with these functions; `FnSpecs.default()` for
        those that are not given."""
        for name in specs:
            if name not in self.closure_args:
                accepted = ", ".join(self.closure_args)
                raise refuse("SpecializationModule.get", name, "is given", accepted)
        key = tuple(specs.get(name, IDENTITY) for name in self.closure_args)
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def _make(self, key: tuple[FnSpecs, ...]) -> ModuleType:
        suffix = "".join(f"_{specs.name}" for specs in key if specs.fn is not None)
        module = ModuleType(self.module_name + suffix)
        constants: dict[str, Any] = {}
        tuples: dict[str, Sequence[str]] = {}
        for (name, closure), specs in zip(self.closure_args.items(), key, strict=True):
            constants[closure.fn_name] = specs.fn
            # Two functions may have arguments of one name.
            tuples[closure.fn_params_name] = [f"{name}_{arg}" for arg in specs.fn_arg_names]
        quiet = [
            f"{name}_{arg}" for name, specs in zip(self.closure_args, key, strict=True)
            for arg in specs.fn_arg_do_not_specialize
        ]  # fmt: skip
        for name, kernel in self.kernels:
            made = specialize(kernel, module, constants, tuples, name + suffix, quiet)
            setattr(module, name, made)
        return module
