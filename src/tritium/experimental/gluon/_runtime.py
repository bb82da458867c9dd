"""`@gluon.jit`: kernels whose blocks have layouts. Compilation begins with ttgir."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32

from tritium import knobs
from tritium.backends.base import BaseBackend, Language
from tritium.compiler.sources import ASTSource
from tritium.ir.layouts.undecided import AUTO
from tritium.language.emitter import TargetFeatures
from tritium.language.values.constexpr import constexpr_function
from tritium.ops.attributes import NUM_CTAS, NUM_WARPS, TARGET, THREADS_PER_WARP
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction

__all__ = ["GluonASTSource", "GluonJITFunction", "constexpr_function", "jit"]


class GluonASTSource(ASTSource):
    """A Gluon kernel and the types of its arguments; see `ASTSource`."""

    language = Language.GLUON
    ext = "glir"

    def features(self, backend: BaseBackend, options: Any) -> TargetFeatures:
        return replace(super().features(backend, options), encoding=AUTO)

    def generate(self, backend: BaseBackend, options: Any) -> Any:
        module = super().generate(backend, options)
        processor = backend.processor(backend.target)
        module.attributes.update({
            NUM_CTAS: IntegerAttr(options.num_ctas, i32),
            NUM_WARPS: IntegerAttr(options.num_warps, i32),
            TARGET: StringAttr(processor.name),
            THREADS_PER_WARP: IntegerAttr(processor.lanes, i32),
        })  # fmt: skip
        return module

    def hash(self) -> str:
        return f"gluon-{super().hash()}"


class GluonJITFunction(JITFunction[Any]):
    """A Gluon kernel. See `jit` for the parameters."""

    ASTSource = GluonASTSource

    def is_gluon(self) -> bool:
        return True


class InterpretedGluonFunction(InterpretedFunction):
    """A Gluon kernel that runs as plain Python; its blocks have layouts that are checked."""

    encoding = AUTO

    def is_gluon(self) -> bool:
        return True


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator: make a function a Gluon kernel, compiled at its first launch for each kind of
    arguments; or one that Gluon kernels call.

    Args:
        fn: the function.
        options: those of `tritium.jit`.

    Under `TRITON_INTERPRET=1` the kernel runs in the interpreter instead.
    """

    def decorator(fn: Callable[..., Any]) -> Any:
        if knobs.runtime.interpret:
            return InterpretedGluonFunction(fn, debug=options.get("debug"))
        return GluonJITFunction(fn, **options)

    return decorator if fn is None else decorator(fn)
