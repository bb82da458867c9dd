"""The compiler's emitter: language functions called while it is active append ops to a block."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.errors import OpError
from tritium.ir import locations
from tritium.ir.types import Type
from tritium.language.emitter import TargetFeatures
from tritium.language.jit.function import JITCallable
from tritium.ops.base import Op


def value_name(name: str) -> str:
    """The IR name of a Python variable: IR text has ASCII names only."""
    return name if name.isascii() else "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)


def _is_single(op: Op) -> bool:
    """True if an attribute of the op is about its one result, and stays with it: those of calls go
    when the function is inlined."""
    return len(op.results) == 1 and not op.regions and not op.is_call


class CallHandler(Protocol):
    """Generates a call of another function at the builder's position."""

    def __call__(
        self, function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any: ...


class IRBuilder:
    """Appends ops at the end of `block`, with the current source location and name hint.

    Implements `language.emitter.Emitter`.
    """

    def __init__(self, features: TargetFeatures):
        self.features = features
        self.block = Block()
        self.place: tuple[str, int, int] | None = None
        """The file, line and column that ops come from."""
        self.name_hint: str | None = None
        self.handle_call: CallHandler | None = None

    # Position

    @property
    def location(self) -> LocationAttr:
        """The location of ops from now on."""
        return locations.UNKNOWN if self.place is None else locations.file_line(*self.place)

    @contextmanager
    def inserting_into(self, block: Block) -> Generator[Block]:
        """Append to `block` for a while; location and name hint are restored afterwards."""
        saved = self.block, self.name_hint, self.place
        self.block = block
        try:
            yield block
        finally:
            self.block, self.name_hint, self.place = saved

    @contextmanager
    def naming(self, name: str | None) -> Generator[None]:
        """Name the results of ops after the Python variable that they are assigned to, if any."""
        saved, self.name_hint = self.name_hint, value_name(name) if name else self.name_hint
        try:
            yield
        finally:
            self.name_hint = saved

    # Emitter

    def emit(
        self,
        cls: type[Op],
        *operands: Any,
        result: Any = None,
        regions: Sequence[Any] = (),
        **attrs: Any,
    ) -> tuple[SSAValue, ...]:
        op = cls.build(*operands, result=result, regions=regions, location=self.location, **attrs)
        if cls.capabilities is not Op.capabilities:
            self._check_target(cls)
        self.insert(op)
        return tuple(op.results)

    def _check_target(self, cls: type[Op]) -> None:
        """Raise `OpError` for an instruction that the target lacks."""
        target = self.features.target
        arch = 0 if target is None else target.arch
        if isinstance(arch, int) and arch and (why := cls.lacking(arch)):
            raise OpError(f"{cls.name}: {why}")

    def insert(self, op: Operation) -> None:
        """Append an op that is already built."""
        if self.name_hint is not None:
            # The hint for whoever prints values; the location keeps the name through passes.
            op.location = locations.named(self.name_hint, op.location)
            for value in op.results:
                value.name_hint = self.name_hint
        self.block.add_op(op)

    def region(
        self, types: Sequence[Type], body: Callable[..., Sequence[Any]], terminator: type[Op]
    ) -> Region:
        block = Block(arg_types=types)
        with self.inserting_into(block):
            self.name_hint = None
            values = body(*block.args)
            self.emit(terminator, *([tuple(values)] if terminator.operand_fields else []))
        return Region(block)

    def call(self, function: JITCallable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        assert self.handle_call is not None, "no function is being compiled"
        return self.handle_call(function, args, kwargs)

    @contextmanager
    def partition(self, num_warps: int) -> Generator[IRBuilder]:
        saved, self.features = self.features, replace(self.features, num_warps=num_warps)
        try:
            yield self
        finally:
            self.features = saved

    def set_attribute(self, handle: Any, name: str, value: Attribute) -> None:
        owner = handle.owner
        if isinstance(owner, Op) and _is_single(owner):
            owner.attributes[name] = value

    def needs_carrier(self, handle: Any) -> bool:
        return not (isinstance(handle.owner, Op) and _is_single(handle.owner))

    def is_of_block(self, handle: Any) -> bool:
        owner = handle.owner
        return (owner.parent if isinstance(owner, Operation) else owner) is self.block

    def warn(self, message: str) -> None:
        file, line, _ = self.place or ("<unknown>", 0, 0)
        warnings.warn_explicit(message, UserWarning, file, line)

    def static_print(self, text: str, file: Any = None, flush: bool = False) -> None:
        print(text, end="", file=file or sys.stdout, flush=flush)

    def semantic(self) -> Any:
        from tritium.language.semantic import TritonSemantic  # which few kernels need

        return TritonSemantic()
