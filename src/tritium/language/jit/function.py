"""A Python function that is a kernel or is called from kernels: its source, parameters, globals.

`JITCallable` knows everything about the function but how to launch it; `runtime.jit.JITFunction`
adds that. The language's own library (`language/standard.py`) consists of these.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pickle
import re
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tritium.errors import CompilationError
from tritium.forking import ForkSafeLock
from tritium.language import emitter
from tritium.language.jit import dependencies, syntax
from tritium.language.jit.captured_globals import Watched, change
from tritium.language.values.constexpr import constexpr_type

if TYPE_CHECKING:
    from typing_extensions import Self

_NAMES = ("fp16", "bf16", "fp32", "fp64", "i1", *(f"{s}{n}" for s in "iu" for n in (8, 16, 32, 64)))
# Not by regular expressions: to compile two takes as long as half of a launch from the cache.
_ANNOTATIONS = {
    **{name: name for name in _NAMES},
    **{f"{u}int{n}": f"{u or 'i'}{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
    "bool": "u1", "int1": "u1", "uint1": "u1", "u1": "u1", "int": "i32", "float": "fp32",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip
_DIGESTING = ForkSafeLock()
"""Held while a digest is computed: by one lock for all functions, which may call each other."""


class KernelParam:
    """One parameter of a kernel, with what its annotation and the decorator say of it."""

    def __init__(
        self,
        num: int,
        param: inspect.Parameter,
        do_not_specialize: bool,
        do_not_specialize_on_alignment: bool,
    ):
        self.num = num
        self._param = param
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment

    @property
    def name(self) -> str:
        return self._param.name

    @property
    def default(self) -> Any:
        return self._param.default

    @property
    def has_default(self) -> bool:
        return self._param.default is not inspect.Parameter.empty

    @cached_property
    def annotation(self) -> str:
        """The annotation as text, "" when there is none."""
        given = self._param.annotation
        if given is inspect.Parameter.empty:
            return ""
        if isinstance(given, str):
            return given.strip("'\" ")
        return getattr(given, "__name__", None) or str(given)

    @cached_property
    def is_constexpr(self) -> bool:
        """Annotated `tl.constexpr`, as an object or as text; also `tl.constexpr | None`."""
        return "constexpr" in self.annotation

    @cached_property
    def is_const(self) -> bool:
        """Annotated `tl.const`, `const *fp32` or `*kfp32`: the kernel only reads through the
        pointer."""
        words = self.annotation.replace(".", " ").replace("*", " ").split()
        return not self.is_constexpr and ("const" in words or self.annotation.startswith("*k"))

    @cached_property
    def annotation_type(self) -> str:
        """The type that the annotation fixes ("i32", "fp32", "u8"), or ""."""
        return _ANNOTATIONS.get(self.annotation.split(".")[-1], "")

    @property
    def fixes_no_integer(self) -> bool:
        """True if the annotation fixes a float or a truth value: nothing specializes for those."""
        return self.annotation_type in ("u1", "i1") or self.annotation_type[:2] in ("fp", "bf")


def get_full_name(fn: Callable[..., Any]) -> str:
    """`module.qualname` of a Python function."""
    return f"{fn.__module__}.{fn.__qualname__}"


class JITCallable:
    """A function written in the kernel language.

    The source is read when it is first asked for (`read_source` does so at once). Raises
    `ValueError` then if it cannot be found.

    Args:
        fn: the function.
        do_not_specialize: parameters (names or positions) whose values never cause a recompile.
        do_not_specialize_on_alignment: the same for divisibility by 16 only.
    """

    __jit_callable__ = True

    def __init__(
        self,
        fn: Callable[..., Any],
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    ):
        self.fn = fn
        self.do_not_specialize = list(do_not_specialize or [])
        self.do_not_specialize_on_alignment = list(do_not_specialize_on_alignment or [])
        self._unsafe_src_changed = False
        self._lines: list[str] = []
        self._hash: str | None = None
        self.noinline = False
        self.must_use_result: str | bool = getattr(fn, "must_use_result", False)
        self._fn_name = get_full_name(fn)
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        self.__globals__ = fn.__globals__  # pyright: ignore[reportFunctionMemberAccess]
        self.used_global_vals: Watched = {}
        """Globals that the compiled code depends on, and attributes of them."""

    def read_source(self) -> tuple[str, int, int]:
        """The dedented source from `def` on, the file's line where the decorators start (from 1)
        and how many lines of decorators there are."""
        try:
            lines, start_line = inspect.getsourcelines(self.fn)
        except (OSError, TypeError) as error:
            raise ValueError(
                "@jit functions should be defined in a Python file "
                "(or have their source registered with linecache)"
            ) from error
        self._lines = lines
        source = textwrap.dedent("".join(lines))
        start = re.search(r"^def\s+\w+\s*\(", source, re.MULTILINE)
        if start is None:
            raise ValueError(f"@jit can only be applied to a `def`; got {self.fn!r}")
        return source[start.start() :], start_line, source[: start.start()].count("\n")

    @cached_property
    def _source(self) -> tuple[str, int, int]:
        return self.read_source()

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function."""
        return inspect.signature(self.fn)

    @property
    def starting_line_number(self) -> int:
        """The line of the first decorator in the file, from 1.

        Programs that derive a function from another set it; part of the digest.
        """
        return self._source[1]

    @starting_line_number.setter
    def starting_line_number(self, line: int) -> None:
        source, _, decorators = self._source
        self._source = (source, line, decorators)
        self._hash = None

    @property
    def raw_src(self) -> list[str]:
        """The source's lines, decorators included. To set them does not change `src`."""
        self._source  # noqa: B018  (reads them)
        return self._lines

    @raw_src.setter
    def raw_src(self, lines: list[str]) -> None:
        self._source  # noqa: B018  (otherwise a later reading would replace them)
        self._lines = list(lines)

    @cached_property
    def params(self) -> list[KernelParam]:
        """The parameters, in order."""
        values, alignment = self.do_not_specialize, self.do_not_specialize_on_alignment
        return [
            KernelParam(i, p, i in values or n in values, i in alignment or n in alignment)
            for i, (n, p) in enumerate(self.signature.parameters.items())
        ]

    def check_parameters(self) -> None:
        """Raise `CompilationError` for a constexpr parameter that is listed in
        `do_not_specialize`: a constant is always specialized for."""
        for param in self.params:
            listed = param.do_not_specialize or param.do_not_specialize_on_alignment
            if param.is_constexpr and listed:
                nodes = ast.walk(self.definition)
                node = next(n for n in nodes if isinstance(n, ast.arg) and n.arg == param.name)
                raise CompilationError.in_function(
                    self,
                    node,
                    f"{param.name} marked as constexpr and listed in do_not_specialize/"
                    "do_not_specialize_on_alignment; remove one of both",
                )

    @cached_property
    def arg_names(self) -> list[str]:
        return [p.name for p in self.params]

    def repr(self, specialization: object) -> str:
        """The name of the compiled kernel, from its `.signature` (parameter -> type) and
        `.constants` (parameter -> value)."""
        return self.__name__

    @property
    def src(self) -> str:
        """The source, dedented, from `def` on."""
        return self._source[0]

    @src.setter
    def src(self, value: str) -> None:
        raise AttributeError(
            "Cannot set attribute 'src' directly. "
            "Use '_unsafe_update_src()' and manually clear `.hash` of all callers instead."
        )

    def _unsafe_update_src(self, source: str) -> None:
        """Replace the source. The caller must clear `.hash` of all functions that call this."""
        self._source = (source, *self._source[1:])
        self._unsafe_src_changed = True
        self._hash = None

    @property
    def file_name(self) -> str:
        """The file that defines the function."""
        return self.fn.__code__.co_filename

    @property
    def first_line(self) -> int:
        """The line of `def` in its file, from 1."""
        return self._source[1] + self._source[2]

    @property
    def qualified_name(self) -> str:
        """`module.qualname`, which names the function in the IR."""
        return self._fn_name

    def parse(self) -> ast.Module:
        """The syntax tree of `src`: a module whose only statement is the function."""
        tree = syntax.parse(self.src)
        assert len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef), self._fn_name
        return tree

    @property
    def definition(self) -> ast.FunctionDef:
        """The function in the syntax tree of `src`, for those who do not change the tree."""
        tree = syntax.shared(self.src)
        assert len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef), self._fn_name
        return tree.body[0]

    def get_capture_scope(self) -> dict[str, Any]:
        """Names that the body may refer to: globals and the variables of enclosing functions."""
        scope = dict(self.__globals__)
        for name, cell in zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that has no value yet
                scope[name] = cell.cell_contents
        return scope

    @property
    def cache_key(self) -> str:
        """A digest of all that the compiled code depends on: this source and its place in the
        file, the functions it calls, the globals it reads."""
        with _DIGESTING:
            if self._hash is None:
                self._hash = f"recursion:{self._fn_name}"  # what a cycle of calls comes back to
                try:
                    digest, self.used_global_vals = dependencies.digest(self)
                except BaseException:
                    self._hash = None
                    raise
                self._hash = digest
            return self._hash

    def check_globals(self) -> None:
        """Raise `RuntimeError` if a global has changed since the digest was computed."""
        if self.used_global_vals and (text := change(self.used_global_vals)) is not None:
            raise RuntimeError(text)

    @property
    def hash(self) -> str | None:
        """The digest as far as it is computed; assign None after changing the source."""
        return self._hash

    @hash.setter
    def hash(self, value: str | None) -> None:
        self._hash = value

    @property
    def type(self) -> Any:
        """The type of this function as a compile-time value."""
        return constexpr_type(self)

    def is_gluon(self) -> bool:
        """True if the function is written in the explicit-layout language."""
        return False

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if not emitter.active():
            raise RuntimeError(
                "Cannot call @triton.jit'd outside of the scope of a kernel: "
                f"'{self.__name__}'; a kernel is launched as kernel[grid](...)"
            )
        return emitter.current().call(self, args, kwargs)

    def no_launch(self) -> TypeError:
        """The error for a launch of this function by a kernel."""
        return TypeError(f"a kernel cannot launch another; call it: `{self.__name__}(...)`")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fn_name})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes get a function of ours as they get any function: by its name.
        if cast(Any, self.fn) is None:  # torch.compile took it out, to send what else is known
            return _without_function, (type(self),), self.__getstate__()
        if _by_name(self.__module__, self.__qualname__) is not self:
            raise pickle.PicklingError(
                f"{self._fn_name} cannot be sent to another process: no such name is found in the "
                f"module {self.__module__}; define it at the top of a module"
            )
        return _by_name, (self.__module__, self.__qualname__)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _without_function(kind: type[JITCallable]) -> JITCallable:
    """An object whose attributes are still to be set."""
    return kind.__new__(kind)


def _by_name(module: str, name: str) -> Any:
    """The kernel function below the decorators of what has this name; None if there is none."""
    try:
        found: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):  # of a module without a name
        return None
    while not isinstance(found, JITCallable) and hasattr(found, "fn"):
        found = found.fn
    return found


def device_function(fn: Callable[..., Any]) -> JITCallable:
    """Decorator for library functions written in the language itself. Their source is read when it
    is first needed, which keeps the import of the language fast."""
    return JITCallable(fn)
