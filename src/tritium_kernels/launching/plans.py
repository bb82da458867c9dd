"""Record the host's work of a call of a tensor function, and repeat it in later calls.

The host does the same work for all calls whose arguments agree in types, shapes, strides and
numbers, that is, in their signature (`tritium.launch.call_signature`). The second call with a
signature is recorded: memory that torch allocates, launches of kernels, differentiated functions
that are called. Later calls do only these steps. A call that does anything else, such as calling
another function of torch, is not repeated.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from tritium.launch.call_signature import make_signature
from tritium.runtime import driver
from tritium.runtime.jit import watch_launches
from tritium.tools.tensor_descriptor import TensorDescriptor

F = TypeVar("F", bound=Callable[..., Any])

MOST = 4096
"""The number of signatures of a function after which all are forgotten."""

_CONSTANTS = (int, float, bool, type(None), str, torch.dtype)
"""Types of recorded calls' arguments besides tensors; members of tuples are of these."""

_ops = torch.ops.aten
_EMPTY = {_ops.empty.memory_format, _ops.empty_like.default, _ops.new_empty.default}
_ZEROS = {_ops.zeros.default, _ops.zeros_like.default, _ops.new_zeros.default}
"""torch's ops that give memory."""

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_modes = _C._len_torch_dispatch_stack
_transformation = _C._functorch.maybe_current_level
_is_traced = _C._is_tracing
_autocasts = _C._is_any_autocast_enabled
_STATE = (
    torch.is_grad_enabled, _modes, _transformation, _is_traced, _autocasts,
    torch.are_deterministic_algorithms_enabled, torch.get_default_dtype,
    functools.partial(getattr, forward_ad, "_current_level"),
    functools.partial(getattr, driver, "active"),
)  # fmt: skip
"""Functions that tell what of the program's state has a part in what a call does."""


def signer(addresses: bool = False, lists: bool = False) -> Callable[..., bytes | None]:
    """A function that gives a call's signature, with the state that has a part in what it does."""
    return make_signature(*_STATE, addresses=addresses, lists=lists)


def is_watched() -> bool:
    """True if a mode, a transformation, a tracer or autocast has a part in what a call does."""
    return bool(
        _modes() or _transformation() is not None or _is_traced() or _autocasts()
        or forward_ad._current_level >= 0  # pyright: ignore[reportPrivateUsage]
    )  # fmt: skip


class _Here(threading.local):
    """The record that a thread makes."""

    record: Record | None = None


_here = _Here()


def current_record() -> Record | None:
    """The record that this thread makes now."""
    return _here.record


class Record(TorchDispatchMode):
    """A record of what a call does, as lines of Python.

    Attributes:
        names: the name of each tensor, by the tensor's identity.
        kept: the tensors, which must stay alive while the identities are in use.
        memory: the name and the tensor of each allocation by torch, by the allocation's identity.
        places: the same of memory that exactly one argument has: a launch that is given its address
            is given that argument.
        values: other objects that the lines name.
        possible: whether all that was done can be repeated.
        paused: whether the current steps are part of a function that is noted as one step.
        device: the number of the GPU that has the tensors; None: they are on the host.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.names: dict[int, str] = {}
        self.memory: dict[int, tuple[str, Tensor]] = {}
        self.places: dict[int, tuple[str, Tensor] | None] = {}
        self.values: dict[str, Any] = {}
        self.lines: list[str] = []
        self.kept: list[Any] = []
        self.possible, self.paused = True, False
        self.device: int | None = None
        self.parameters = [f"_a{i}" for i in range(len(args))]
        self.keywords = [*kwargs]
        for name, value in zip((*self.parameters, *kwargs), (*args, *kwargs.values()), strict=True):
            if isinstance(value, Tensor):
                self._name(value, name)
                memory = _memory_of(value)
                self.places[memory] = None if memory in self.places else (name, value)
                self.device = value.device.index if value.is_cuda else self.device
        # Launches on another device than the current one need more than is noted.
        if self.device is not None and self.device != torch.cuda.current_device():
            self.possible = False

    def _name(self, tensor: Tensor, name: str = "") -> str:
        name = name or f"_t{len(self.kept)}"
        self.names[id(tensor)] = name
        self.kept.append(tensor)
        return name

    def _text(self, value: Any) -> str:
        """An expression for a value; of a tensor that nothing gave there is none."""
        if isinstance(value, Tensor):
            return self.names.get(id(value)) or self._part(value)
        if type(value) is tuple:
            members = cast("tuple[Any, ...]", value)
            return f"({''.join(f'{self._text(v)}, ' for v in members)})"
        if value is None or type(value) in (int, bool):
            return repr(value)
        if isinstance(value, (list, dict, tuple, TensorDescriptor)):  # what may have tensors in it
            self.possible = False
        name = f"_v{len(self.values)}"
        self.values[name] = value
        return name

    def _part(self, tensor: Tensor) -> str:
        """An expression for memory that torch gave, or a part of it."""
        name, whole = self.memory.get(_memory_of(tensor), ("", tensor))
        if not name:
            self.possible = False
        if tensor.shape == whole.shape and tensor.stride() == whole.stride():
            return name
        how = f"{tuple(tensor.shape)}, {tensor.stride()}, {tensor.storage_offset()}"
        return f"{name}.as_strided({how})"

    def _argument(self, value: Any) -> str:
        """An expression for an argument of a launch."""
        if isinstance(value, Tensor):
            return self._pointer(value)
        return self._descriptor(value) if type(value) is TensorDescriptor else self._text(value)

    def _pointer(self, tensor: Tensor) -> str:
        """An expression for a tensor of which only the address and the type count."""
        found = self.places.get(_memory_of(tensor))
        if id(tensor) in self.names or found is None:
            return self._text(tensor)
        name, whole = found
        same = whole.data_ptr() == tensor.data_ptr() and whole.dtype == tensor.dtype
        return name if same else self._text(tensor)

    def _descriptor(self, value: TensorDescriptor) -> str:
        """An expression for a descriptor of a tensor, with the same extents and blocks."""
        how = tuple(map(tuple, (value.shape, value.strides, value.block_shape)))
        if value.padding != "zero" or value.round_f32_to_tf32:
            self.possible = False
        numbers = ", ".join(map(repr, how))
        return f"{self._text(TensorDescriptor.unchecked)}({self._pointer(value.base)}, {numbers})"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if self.paused:
            return found
        if (func in _EMPTY or func in _ZEROS) and found.is_contiguous():
            line = self._made_by(found, func in _ZEROS)
            # torch hands on another object than this one, of the same memory.
            name = self._name(found)
            self.memory[_memory_of(found)] = self.places[_memory_of(found)] = name, found
            self.lines.append(f"{name} = {line}")
        elif not func.is_view:
            self.possible = False
        return found

    def _made_by(self, found: Tensor, is_zero: bool) -> str:
        """An expression for memory like what was found; the fastest that torch has."""
        how = f"dtype={self._text(found.dtype)}, device={self._text(found.device)}"
        if is_zero:
            return f"{self._text(torch.zeros)}({tuple(found.shape)}, {how})"
        for other in self.kept:
            same = other.shape == found.shape and other.dtype == found.dtype
            if same and other.is_contiguous() and other.device == found.device:
                return f"{self._text(torch.empty_like)}({self.names[id(other)]})"
        layout = f"{tuple(found.shape)}, {found.stride()}"
        return f"{self._text(torch.empty_strided)}({layout}, {how})"

    def launch(
        self, kernel: Any, grid: Any, args: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        """Note a launch."""
        if not self.paused:
            named = (f"{name}={self._argument(value)}" for name, value in options.items())
            given = [*map(self._argument, args), *named]
            self.lines.append(f"{self._text(kernel)}[{self._text(grid)}]({', '.join(given)})")

    def call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a function as one step, whatever it does."""
        given = ", ".join(map(self._text, args))
        self.paused, before = True, self.paused
        try:
            found = function(*args)
        finally:
            self.paused = before
        several = isinstance(found, tuple)
        for tensor in cast("tuple[Any, ...]", found) if several else (found,):
            self._name(tensor)
        if not before:
            self.lines.append(f"{self._text(found)} = {self._text(function)}({given})")
        return found

    def compile(self, found: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function that repeats a call of `function` which gave `found`."""
        result = self._text(found)
        if not self.possible:
            return function
        named = f"*, {', '.join(self.keywords)}" if self.keywords else ""
        head = ", ".join(filter(None, (*self.parameters, named)))
        lines = [f"def repeat({head}):", *self.lines, f"return {result}"]
        if self.device is not None:
            given = ", ".join((*self.parameters, *(f"{k}={k}" for k in self.keywords)))
            elsewhere = f"{self._text(torch.cuda.current_device)}() != {self.device}"
            lines.insert(1, f"if {elsewhere}: return {self._text(function)}({given})")
        exec("\n    ".join(lines), self.values)
        return self.values["repeat"]


_kept: list[dict[bytes, Any]] = []


def forget_records() -> None:
    """Forget all records: something has changed that no signature tells."""
    for by_signature in _kept:
        by_signature.clear()


def _memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]


def _can_be_told(values: Sequence[Any]) -> bool:
    """True if a record can tell the arguments apart: a tensor that is given twice has one name."""
    tensors = [v for v in values if type(v) in (Tensor, Parameter)]
    others = [v for v in values if type(v) not in (Tensor, Parameter)]
    return len({*map(id, tensors)}) == len(tensors) and all(map(_is_constant, others))


def _is_constant(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, cast("tuple[Any, ...]", value)))
    return type(value) in _CONSTANTS


def repeated(function: F) -> F:
    """A function whose calls are repeated from records; positional arguments and keywords, tensors
    among them, are all that its work depends on."""
    seen: dict[bytes, Any] = {}
    runs: dict[bytes, Callable[..., Any]] = {}
    _kept.extend((seen, runs))
    get, sign = runs.get, signer()
    is_compiling = torch.compiler.is_compiling

    def learn(key: bytes | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = (*args, *kwargs.values())
        if key is None or is_watched() or not _can_be_told(values):
            return function(*args, **kwargs)
        if key not in seen:
            if len(seen) >= MOST:
                seen.clear()
                runs.clear()
            # The signature tells these by their identity.
            constants = [v for v in values if not isinstance(v, Tensor)]
            seen[key] = (driver.active, constants, [*kwargs])
            return function(*args, **kwargs)
        record = Record(args, kwargs)
        _here.record = record
        try:
            with watch_launches(record.launch), record:
                found = function(*args, **kwargs)
        finally:
            _here.record = None
        runs[key] = record.compile(found, function)
        return found

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return function(*args, **kwargs)
        key = sign(*args, **kwargs)
        run = get(key)  # pyright: ignore[reportArgumentType]
        return learn(key, args, kwargs) if run is None else run(*args, **kwargs)

    return cast(F, call)
