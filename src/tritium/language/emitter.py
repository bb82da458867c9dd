"""Emitters: what language functions send the ops to that they build.

Every function of the language ends in `build(SomeOp, operands...)` (`builtins/build.py`). What
happens then is decided by the *emitter* that is active on the current thread:

- the compiler's (`frontend/builder.py`) appends the op to a block and returns its SSA results;
- the interpreter's (`backends/interpreter`) evaluates the op at once and returns arrays.

So the language is stated once, and needs no patching to be interpreted. The emitter is ambient,
not an argument, because an interpreted kernel is plain Python that calls `tl.load(...)` itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from tritium.ir.types import Type
from tritium.language.values.base import Handle as Handle
from tritium.language.values.types import dtype, from_ir, get_int_dtype
from tritium.ops.base import Op
from tritium.target import GPUTarget


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The handle of a value that is known already, as in the interpreter: an array (NumPy scalar
    for a scalar) of `numpy_dtype(type)`.

    The other members are for programs that print or check `x.handle.data` while they are debugged.
    `unsigned` says how to read integers, whose sign `type` does not have.
    """

    type: Type
    array: Any
    unsigned: bool = False

    def read_as(self, type: dtype) -> Evaluated:
        """Treat the handle, from now on, as a tensor of that type of the language."""
        scalar = type.scalar
        unsigned = scalar.is_int_unsigned() and not scalar.is_bool()
        if unsigned != self.unsigned:  # in place: the sanitizer knows handles by their identity
            object.__setattr__(self, "unsigned", unsigned)
        return self

    @property
    def data(self) -> np.ndarray:
        """The elements, of a scalar in one dimension; of bfloat16 and FP8 the bits, unsigned."""
        array = np.atleast_1d(self.array)
        bits = self.unsigned or array.dtype.isbuiltin != 1
        return array.view(f"u{array.itemsize}") if bits else array

    @property
    def dtype(self) -> dtype:
        """The language's type of an element."""
        scalar = from_ir(self.type).scalar
        return get_int_dtype(scalar.primitive_bitwidth, signed=False) if self.unsigned else scalar

    def get_element_ty(self) -> dtype:
        """The type of an element; of pointers, that of what they point to."""
        found: Any = self.dtype
        while hasattr(found, "element_ty"):
            found = found.element_ty
        return found

    def clone(self) -> Evaluated:
        """A handle with elements of its own."""
        return Evaluated(self.type, self.array.copy(), self.unsigned)


class Divergence(Exception):
    """A scalar that stands for many elements at once was asked for one value. Caught where the
    region began, which is then evaluated element by element."""


@dataclass(frozen=True)
class TargetFeatures:
    """Facts about the target with which the language checks a program; the backend sets them.

    Attributes:
        name: the backend, "cpu" or "cuda".
        target: what is compiled for; None where nothing is (the interpreter).
        min_dot_size: (lhs dtype, rhs dtype) -> smallest allowed (M, N, K) of a dot.
        supported_fp8_dtypes: names such as "fp8e5", "fp8e4nv".
        deprecated_fp8_dot_operand_dtypes: fp8 formats that warn when used in a dot.
        allowed_dot_input_precisions: e.g. ("tf32", "tf32x3", "ieee").
        default_dot_input_precision: what a dot of fp32 uses when the program says nothing.
        max_num_imprecise_acc_default: for fp8 dots; 0 where the target has no such notion.
        debug: whether `device_assert` is compiled in.
        sanitize_overflow: whether integer arithmetic is checked for overflow (with `debug`).
        instrumentation_mode: the sanitizer's checks, separated by commas.
        num_warps: the launch's option, which kernels can ask for (`asked_num_warps`).
        num_ctas: how many blocks, a cluster, run a program.
        encoding: of the blocks that a program makes without saying which; None for no encoding.
        sorts: whether the backend takes `tt.sort`; else sorting is a network of other ops.
        modules: what a backend puts in place of modules of the language, by their names.
    """

    name: str = "cpu"
    target: GPUTarget | None = None
    min_dot_size: Callable[[Any, Any], tuple[int, int, int]] = lambda lhs, rhs: (1, 1, 1)
    supported_fp8_dtypes: tuple[str, ...] = (
        "fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16",
    )  # fmt: skip
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    default_dot_input_precision: str = "tf32"
    max_num_imprecise_acc_default: int = 0
    debug: bool = False
    sanitize_overflow: bool = True
    instrumentation_mode: str = ""
    num_warps: int = 4
    num_ctas: int = 1
    encoding: Any = None
    sorts: bool = False
    modules: Mapping[str, ModuleType] = field(default_factory=dict[str, ModuleType])
    asked: set[str] = field(default_factory=set[str], compare=False)
    """The options that the kernel has asked for."""
    before_new_axis: list[Callable[[Any, int], Any]] = field(
        default_factory=list[Callable[[Any, int], Any]], compare=False
    )
    """The change of a block, in this kernel, before it gets a new axis: one function or none."""

    def asked_num_warps(self) -> int:
        """`num_warps`, for the kernel: its code depends on the option from now on."""
        self.asked.add("num_warps")
        return self.num_warps


class Emitter(Protocol):
    """Receives ops. See the module's docstring for the two implementations."""

    features: TargetFeatures

    def emit(
        self,
        cls: type[Op],
        *operands: Handle | Sequence[Handle] | None,
        result: object = None,
        regions: Sequence[Any] = (),
        **attrs: object,
    ) -> tuple[Any, ...]:
        """Build an op as `cls.build` would; returns the handles of its results.

        Raises `OpError` where the op's `infer` does.
        """
        ...

    def region(
        self, types: Sequence[Type], body: Callable[..., Sequence[Handle]], terminator: type[Op]
    ) -> Any:
        """A region for an op such as `tt.reduce`: `body` is called with one handle for each of
        `types` and returns the handles that `terminator` yields. Pass the result in `regions`."""
        ...

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call another kernel-language function (a `JITCallable`) with language values; returns its
        value."""
        ...

    def partition(self, num_warps: int) -> AbstractContextManager[Emitter]:
        """The emitter, active on this thread, for code that `num_warps` warps run."""
        ...

    def set_attribute(self, handle: Handle, name: str, value: Any) -> None:
        """Attach a discardable attribute (a compiler hint) to the op that defines `handle`."""
        ...

    def needs_carrier(self, handle: Handle) -> bool:
        """True if no op has `handle` as its only result, so that a hint about it needs an op of its
        own: an argument of a block, or one result of several."""
        ...

    def is_of_block(self, handle: Handle) -> bool:
        """True if the block that ops are emitted into defines `handle`."""
        ...

    def warn(self, message: str) -> None:
        """Report a `UserWarning` at the user's line."""
        ...

    def static_print(self, text: str, file: object = None, flush: bool = False) -> None:
        """Output of `tl.static_print`, at compile time."""
        ...

    def semantic(self) -> Any:
        """The `_semantic` argument of functions in the reference's style, a `TritonSemantic`."""
        ...


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Emitter] = []


_state = _State()


def active() -> bool:
    """True if a kernel is being compiled or interpreted on this thread."""
    return bool(_state.stack)


def current() -> Emitter:
    """The active emitter. Raises `ValueError` outside of a kernel."""
    if not _state.stack:
        raise ValueError(
            "language functions can only be called inside a kernel: "
            "did you forget to add @triton.jit?"
        )
    return _state.stack[-1]


@contextmanager
def activate(emitter: Emitter) -> Generator[None, None, None]:
    """Make `emitter` the active one on this thread."""
    _state.stack.append(emitter)
    try:
        yield
    finally:
        _state.stack.pop()
