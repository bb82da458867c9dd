"""A Python function that is a kernel or is called from kernels: its source, parameters, globals.

`JITCallable` knows everything about the function but how to launch it; `runtime.jit.JITFunction`
adds that. The language's own library (`language/standard.py`) consists of these.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

from tritium.language import emitter


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
        """Annotated `tl.constexpr`, as an object or as text."""
        return "constexpr" in self.annotation.split(".")[-1:]

    @cached_property
    def is_const(self) -> bool:
        """Annotated `tl.const`: the kernel only reads through the pointer."""
        return "const" in self.annotation.split(".")[-1:]

    @cached_property
    def annotation_type(self) -> str:
        """The type that the annotation fixes ("i32", "fp32", "u8"), or ""."""
        word = self.annotation.split(".")[-1]
        match = re.fullmatch(r"(u?)int(1|8|16|32|64)", word)
        if match:
            return ("u" if match[1] else "i") + match[2]
        return {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}.get(
            word, word if re.fullmatch(r"(fp16|bf16|fp32|fp64|[iu](1|8|16|32|64))", word) else ""
        )


class JITCallable:
    """A function written in the kernel language.

    Raises `ValueError` when the source of `fn` cannot be found.
    """

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.signature = inspect.signature(fn)
        try:
            raw, self.starting_line_number = inspect.getsourcelines(fn)
        except OSError as error:
            raise ValueError(
                "@jit functions should be defined in a Python file "
                "(or have their source registered with linecache)"
            ) from error
        source = textwrap.dedent("".join(raw))
        start = re.search(r"^(async\s+)?def\s+\w+\s*\(", source, re.MULTILINE)
        if start is None:
            raise ValueError(f"@jit can only be applied to a `def`; got {fn!r}")
        self.def_line_offset = source[: start.start()].count("\n")
        """Lines of decorators before the `def`."""
        self._src = source[start.start() :]
        self._unsafe_src_changed = False
        self.noinline = False
        self._fn_name = f"{fn.__module__}.{fn.__qualname__}"
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        self.__globals__ = fn.__globals__  # pyright: ignore[reportFunctionMemberAccess]

    @cached_property
    def params(self) -> list[KernelParam]:
        """The parameters, in order."""
        return [
            KernelParam(i, p, False, False)
            for i, p in enumerate(self.signature.parameters.values())
        ]

    @cached_property
    def arg_names(self) -> list[str]:
        return [p.name for p in self.params]

    @property
    def src(self) -> str:
        """The source, dedented, from `def` on."""
        return self._src

    @src.setter
    def src(self, value: str) -> None:
        raise AttributeError(
            "Cannot set attribute 'src' directly. "
            "Use '_unsafe_update_src()' and manually clear `.hash` of all callers instead."
        )

    def _unsafe_update_src(self, source: str) -> None:
        """Replace the source. The caller must clear `.hash` of all functions that call this."""
        self._src = source
        self._unsafe_src_changed = True

    @property
    def file_name(self) -> str:
        """The file that defines the function."""
        return self.fn.__code__.co_filename

    @property
    def first_line(self) -> int:
        """The line of `def` in its file, from 1."""
        return self.starting_line_number + self.def_line_offset

    @property
    def qualified_name(self) -> str:
        """`module.qualname`, which names the function in the IR."""
        return self._fn_name

    def parse(self) -> ast.Module:
        """The syntax tree of `src`: a module whose only statement is the function."""
        tree = ast.parse(self._src)
        assert len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef), self._fn_name
        return tree

    def get_capture_scope(self) -> dict[str, Any]:
        """Names that the body may refer to: globals and the variables of enclosing functions."""
        return {**self.__globals__, **inspect.getclosurevars(self.fn).nonlocals}

    def is_gluon(self) -> bool:
        """Whether the function is written in the explicit-layout language."""
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not emitter.active():
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return emitter.current().call(self, args, kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fn_name})"


def device_function(fn: Callable[..., Any]) -> JITCallable:
    """Decorator for library functions written in the language itself."""
    return JITCallable(fn)


def is_module(value: object) -> bool:
    """Whether a global is a module (modules may be read from kernels)."""
    return isinstance(value, ModuleType)
