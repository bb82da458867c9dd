"""The reference's path of kernels under `TRITON_INTERPRET=1`.

Tools that run the programs of a grid themselves (in place of `GridExecutor.__call__`) call the
names with an underscore: `_patch_lang` makes the surroundings of a kernel's function on this
thread, `_implicit_cvt` its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from tritium.backends.interpreter.arguments import Arguments
from tritium.backends.interpreter.builder import (
    InterpreterBuilder,
    TensorHandle,
    interpreter_builder,
)
from tritium.backends.interpreter.emitter import EagerEmitter
from tritium.backends.interpreter.rewrite import ASTTransformer
from tritium.errors import InterpreterError
from tritium.ir.types import numpy_dtype
from tritium.language import emitter
from tritium.language.values.types import dtype
from tritium.runtime.interpreted import GridExecutor, InterpretedFunction

__all__ = [
    "ASTTransformer",
    "GridExecutor",
    "InterpretedFunction",
    "InterpreterBuilder",
    "InterpreterError",
    "TensorHandle",
    "_get_np_dtype",
    "_implicit_cvt",
    "_patch_lang",
    "_rewrap_tensor",
    "_tuple_create",
    "_unwrap_tensor",
    "interpreter_builder",
]  # fmt: skip


class _ToolsEmitter(EagerEmitter):
    """The emitter of programs that a tool runs: the builder says which program it is."""

    of_tool = True
    program_id: Any = property(
        lambda _: interpreter_builder.grid_idx or (0, 0, 0), lambda _, value: None
    )
    num_programs: Any = property(lambda _: interpreter_builder.grid_dim, lambda _, value: None)


class _LangPatchScope:
    """The surroundings of an interpreted kernel's function, and attributes that a tool sets."""

    def __init__(self, *surroundings: AbstractContextManager[object]):
        self._undo = ExitStack()
        for each in surroundings:
            self._undo.enter_context(each)

    def set_attr(self, owner: object, name: str, value: object) -> None:
        """Set an attribute until `restore`."""
        missing = object()
        before = getattr(owner, name, missing)
        undo: Any = (delattr, owner, name) if before is missing else (setattr, owner, name, before)
        self._undo.callback(*undo)
        setattr(owner, name, value)

    def restore(self) -> None:
        """Undo what `set_attr` did, and end the surroundings."""
        self._undo.close()


def _patch_lang(fn: Callable[..., object]) -> _LangPatchScope:
    """Let the language's functions evaluate on this thread, until the scope's `restore`."""
    running = _ToolsEmitter()
    running.kernel = getattr(fn, "__name__", "")
    running.begin((0, 0, 0))
    return _LangPatchScope(emitter.activate(running), np.errstate(all="ignore"))


def _implicit_cvt(arg: Any) -> Any:
    """An argument as a kernel's function takes it. `_patch_lang` must have been called."""
    return Arguments().convert("argument", arg)


def _tuple_create(arg: tuple[Any, ...], contents: Iterable[Any]) -> Any:
    """A tuple of the class of `arg`, which may be a named one."""
    return type(arg)(*contents) if hasattr(arg, "_fields") else tuple(contents)


def _unwrap_tensor(tensor: Any) -> Any:
    """The tensor that another one gives a further dtype."""
    return tensor.base if hasattr(tensor, "base") and hasattr(tensor.base, "data_ptr") else tensor


def _rewrap_tensor(tensor: Any, original_tensor: Any) -> Any:
    """`tensor` with the dtype that the original gives its own."""
    if _unwrap_tensor(original_tensor) is original_tensor:
        return tensor
    return type(original_tensor)(tensor, original_tensor.dtype)


def _get_np_dtype(type: dtype) -> np.dtype:
    """The dtype of arrays with elements of a type; of bfloat16 and FP8 that of the bits."""
    found = numpy_dtype(type.scalar.to_ir())
    return found if found.isbuiltin == 1 else np.dtype(f"u{found.itemsize}")
