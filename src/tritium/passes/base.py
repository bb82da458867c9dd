"""The base class of passes, and the manager that runs a sequence of them.

What passes transform is a module, or the form of one that a backend has for itself (`Unit`).
Nothing here reads the environment: who calls says what to verify, dump and time.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TextIO

from typing_extensions import TypeVar
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tritium.analysis.regions import functions
from tritium.analysis.results import forget_results, idle_passes
from tritium.errors import TritonError
from tritium.ir.printing import print_module
from tritium.ops.ttir.function import FuncOp


class Unit(Protocol):
    """A form of a program that passes transform, beside modules; it prints itself as text."""

    def verify(self) -> None:
        """Raise `VerifyException` where an invariant does not hold."""

    @property
    def module(self) -> ModuleOp:
        """The ops that it is about."""
        ...


IR = TypeVar("IR", bound="ModuleOp | Unit", default=ModuleOp)

Hook = Callable[["Pass[IR]", IR], None]


@dataclass(frozen=True)
class Pass(ABC, Generic[IR]):
    """A transformation of a module. Subclasses are frozen dataclasses; their fields are options.

    `name` is how pipelines and the command line call it, `title` what dumps print beside it: by
    default the words of the name.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    keeps_analyses: ClassVar[bool] = False
    """True if results of analyses stay right (`analysis.results`)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls) and "title" not in vars(cls):
            cls.title = "".join(word.capitalize() for word in cls.name.split("-"))

    @abstractmethod
    def run(self, module: IR) -> bool:
        """Transform the module in place; returns whether anything may have changed. Where nothing
        has, a further run would change nothing either, and is left out."""

    def text(self) -> str:
        """The pass as `parse_pipeline` reads it: `unroll{factor=4}`."""
        given = [
            f"{f.name}={_option_text(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}{{{' '.join(given)}}}" if given else self.name


class FunctionPass(Pass):
    """A transformation of one function at a time."""

    @abstractmethod
    def function(self, function: FuncOp) -> bool:
        """Transform a function in place; returns whether anything may have changed."""

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for function in functions(module):
            changed |= self.function(function)
        return changed


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class PassError(TritonError):
    """A pass failed, or left a module that does not verify. The cause is chained.

    Attributes:
        pass_name: the pass at fault.
        pipeline: that pass and those that would have come after it, as text: what a reproducer
            needs beside the module.
    """

    def __init__(self, pass_name: str, message: str, pipeline: str = ""):
        super().__init__(f"{pass_name}: {message}")
        self.pass_name, self.message, self.pipeline = pass_name, message, pipeline

    def __reduce__(self) -> tuple[type[PassError], tuple[str, str, str]]:
        return type(self), (self.pass_name, self.message, self.pipeline)


class PassManager(Generic[IR]):
    """Runs passes in order.

    Args:
        passes: what to run.
        verify_each: verify the module after each pass.
        before: called with each pass and the module before the pass runs (see `dump_before`).
        after: called likewise once the pass has run.
        continues: the module is as the last manager left it. Else the caller may have changed it:
            what is known of it is forgotten first.

    Attributes:
        timings: (pass name, seconds) of each pass of the last `run`, in order.
    """

    def __init__(
        self,
        passes: Sequence[Pass[IR]],
        verify_each: bool = False,
        before: Hook[IR] | None = None,
        after: Hook[IR] | None = None,
        continues: bool = False,
    ):
        self.passes, self.continues = tuple(passes), continues
        self.verify_each, self.before, self.after = verify_each, before, after
        self.timings: list[tuple[str, float]] = []

    def run(self, module: IR) -> bool:
        """Run the passes over the module, in place; returns whether anything may have changed.

        Raises:
            PassError: a pass raised an error that is no `TritonError` of its own (a fault of the
                compiler), or what it left does not verify. Errors in the user's program pass
                through as they are, and so does the end of Python's stack.
        """
        self.timings = []
        changed = False
        if not self.continues:
            forget_results(_module(module))
        for index, item in enumerate(self.passes):
            if self.before is not None:
                self.before(item, module)
            start = time.perf_counter()
            try:
                changed |= _run(item, module)
                if self.verify_each:
                    module.verify()
            except (TritonError, NotImplementedError, RecursionError):
                raise
            except Exception as error:
                what = "left invalid IR: " if isinstance(error, VerifyException) else ""
                rest = pipeline_text(self.passes[index:])
                message = f"{what}{error or type(error).__name__}"
                raise PassError(item.name, message, rest) from error
            self.timings.append((item.name, time.perf_counter() - start))
            if self.after is not None:
                self.after(item, module)
        return changed


def _run(item: Pass[IR], unit: IR) -> bool:
    """Run a pass, unless it changed nothing before and nothing was changed since; returns whether
    anything may have changed."""
    if item in idle_passes(_module(unit)):
        return False
    if not item.run(unit):
        idle_passes(_module(unit)).append(item)
        return False
    if item.keeps_analyses:
        idle_passes(_module(unit)).clear()
    else:
        forget_results(_module(unit))
    return True


def _module(unit: ModuleOp | Unit) -> ModuleOp:
    return unit if isinstance(unit, ModuleOp) else unit.module


def pipeline_text(passes: Sequence[Pass[Any]]) -> str:
    """The passes as `parse_pipeline` reads them."""
    return ",".join(p.text() for p in passes)


def dump_before(stream: TextIO, kernel: str | None = None) -> Hook[Any]:
    """A `before` hook that writes the module under the reference's header to `stream`.

    With `kernel`, only modules that define a function of that name are written.
    """

    def hook(item: Pass[Any], unit: ModuleOp | Unit) -> None:
        module = _module(unit)
        if kernel is None or kernel in function_names(module):
            text = print_module(module) if unit is module else str(unit)
            stream.write(
                f"// -----// IR Dump Before {item.title} ({item.name}) "
                f"('builtin.module' operation) //----- //\n{text}\n\n"
            )

    return hook


def function_names(module: ModuleOp) -> list[str]:
    """The symbols that a module defines."""
    names: list[str] = []
    for op in module.body.block.ops:
        symbol: Any = op.properties.get("sym_name")
        if symbol is not None:
            names.append(symbol.data)
    return names


def timing_report(timings: Sequence[tuple[str, float]]) -> str:
    """A table of pass timings under the header that MLIR prints."""
    total = sum(seconds for _, seconds in timings)
    rule = f"===-{'-' * 73}-==="
    lines = [
        rule,
        f"{'... Execution time report ...':^81}".rstrip(),
        rule,
        f"  Total Execution Time: {total:.4f} seconds",
        "",
        "  ----Wall Time----  ----Name----",
    ]
    for name, seconds in [*timings, ("Total", total)]:
        share = 100.0 * seconds / total if total else 0.0
        lines.append(f"  {seconds:8.4f} ({share:5.1f}%)  {name}")
    return "\n".join(lines) + "\n"
