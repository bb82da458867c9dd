"""Kernels launched in native code: the memory of one kernel's launcher, and how it learns.

A `NativeKernel` knows nothing at first. After each launch that the careful path has done, `learn`
asks the native code for the key of the same arguments and enters the compiled kernel under it. Code
and memory are `writer`'s.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tritium.cache import CachedObjects
from tritium.fingerprint import compiler_key
from tritium.forking import ForkSafeLock
from tritium.language.jit.captured_globals import Watched, change, is_stable, places
from tritium.launch.context import context
from tritium.launch.ends import End, Store
from tritium.launch.keys import meaning, stores
from tritium.launch.records import (
    API,
    CAPSULE,
    DESCRIPTOR_FIELDS,
    ENTRY,
    HASH_FACTOR,
    HASH_START,
    NAMES,
    OPERATION,
    PARAM,
    PLAN,
    READ_ONLY,
    SIZES,
    SYMBOLS,
)
from tritium.native import pyobjects
from tritium.native.guards import Guard, holds, item_guard, write_guards
from tritium.native.loader import Image, cached_object, compile_ir, load_object, object_key
from tritium.native.pyobjects import METH_FASTCALL, METH_KEYWORDS, MethodDef, builtin
from tritium.native.records import allocate

MAX_ENTRIES = 1024
"""A table that reaches this size is emptied: most of it is then about objects long gone."""


def link(
    write: Callable[[], str], symbols: Sequence[str], imports: Mapping[str, int]
) -> Image:
    """Native code for launching, kept on disk (see `ends.Link`)."""
    key = object_key("\0".join([*symbols, compiler_key(), sys.platform]), "light")
    code = cached_object(key, CachedObjects("launcher"), lambda: compile_ir(write(), opt="light"))
    image = load_object(code, symbols, imports)
    image.keep()  # small, and built-in functions may outlive all that knows of them
    return image


def _native_ir() -> str:
    # Here, because a process that finds the object code in the cache never needs the writer.
    from tritium.launch.writer import native_ir

    return native_ir()


@functools.cache
def _image() -> Image:
    api = pyobjects.api_addresses(API)
    image = link(_native_ir, SYMBOLS, api)
    _keep.append([sys.intern(name) for name in DESCRIPTOR_FIELDS])
    names = (ctypes.c_uint64 * len(_keep[-1])).from_address(image[NAMES])
    names[:] = [id(name) for name in _keep[-1]]
    return image


_keep: list[list[str]] = []


def load() -> None:
    """Load the native code that finds kernels; where it is not cached, make it."""
    _image()


class Launched(NamedTuple):
    """The result of a launch in Python: the `DriverConfig`, its arguments (with the grid
    first), the caches that it looked in, the kernel and its backend's end."""

    drivers: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    caches: dict[Any, Any]
    kernels: dict[Any, Any]
    kernel: Any
    end: End


class _Entry(NamedTuple):
    """Owns the memory of an `ENTRY` and all that it refers to."""

    address: int
    hash: int
    keep: tuple[Any, ...]


class NativeKernel:
    """The native launcher of one kernel's function (a `JITFunction`).

    Attributes:
        launch: `launch(grid, *args, **kwargs)`, a built-in function.
    """

    def __init__(self, function: Any):
        image, self._context = _image(), context()
        self._params = _write_params(function)
        address, self._memory = allocate(PLAN.size)
        self._plan = address
        self._hooks = function.pre_run_hooks
        self._slow = sys.intern("launch_in_python")
        self._names = {name: sys.intern(name) for name in function.arg_names}
        kinds = [p.kind for p in function.signature.parameters.values()]
        PLAN.write(
            address, enabled=1, context=self._context.slot,
            types=pyobjects.known_types().address, function=id(function), slow=id(self._slow),
            params=self._params[0], param_count=len(function.params),
            positional=sum(kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)
                           for kind in kinds),
            hooks=id(self._hooks),
        )  # fmt: skip
        self._globals: Any = None
        self._changing = ForkSafeLock()
        self._entries: dict[bytes, _Entry] = {}
        self._counts: dict[int, tuple[dict[Any, Any], ctypes.c_int64]] = {}
        self._memories: tuple[Any, ...] = ()
        self._write_table()
        self._failures = 0
        name = function.__name__.encode()
        flags = METH_FASTCALL | METH_KEYWORDS
        self._methods = [
            MethodDef(name, image[symbol], flags, None)
            for symbol in ("tritium_kernel", "tritium_key")
        ]
        # Each function keeps this object alive, and so all that it refers to.
        self._function = function
        self.launch = builtin(self._methods[0], address, CAPSULE, self)
        self._key = builtin(self._methods[1], address, CAPSULE, self)

    def forget(self) -> None:
        """Forget all kernels."""
        with self._changing:
            self._entries, self._counts = {}, {}
            self._write_table()

    def grew(self, kernels: dict[Any, Any], before: int) -> None:
        """A kernel was added to a cache, which had `before` of them."""
        with self._changing:
            count = self._counts.get(id(kernels))
            if count is None:
                return
            if count[1].value == before:
                count[1].value = len(kernels)
            else:
                self.forget()  # some were removed

    def close(self) -> None:
        """Leave every launch to Python from now on: the function has changed."""
        PLAN.write(self._plan, enabled=0)

    def learn(self, launched: Launched, device: Callable[[], int] | None) -> None:
        """Remember what a launch in Python found. `device` is a function that tells the active
        driver's current device, None where it has only one."""
        if self._failures >= 64 and self._failures % 64:
            self._failures += 1
            return
        with self._changing:
            known = self._learn(launched, device)
        self._failures = 0 if known else self._failures + 1

    def _learn(self, launched: Launched, device: Callable[[], int] | None) -> bool:
        types = pyobjects.known_types()
        for value in (*launched.args[1:], *launched.kwargs.values()):
            if hasattr(value, "block_shape") and not isinstance(value, type):
                types.learn_descriptor(type(value))  # pyright: ignore[reportUnknownArgumentType]
                value = value.base
            types.learn(value)
        if any(name is not self._names.get(name, name) for name in launched.kwargs):
            return False  # the same name in another string object
        self._context.refresh(launched.drivers, device)
        if not self._write_globals():
            return False
        key = self._key(*launched.args, **launched.kwargs)
        if key is None:
            return False
        found = meaning(key)
        if not all(map(is_stable, found.constants)):
            return False
        how = stores(found, launched.end.slots)
        if how is None:
            return False
        if len(self._entries) >= MAX_ENTRIES:
            self.forget()
        kernels = launched.kernels
        known = self._counts.get(id(kernels))
        if known is not None and known[1].value != len(kernels):
            self.forget()  # some were removed
        made = ctypes.c_int64(len(kernels))
        _, count = self._counts.setdefault(id(kernels), (kernels, made))
        entry = _write_entry(key, how, found, launched, count)
        # Other threads find the entry that is replaced until there is another table.
        replaced = self._entries.get(key)
        self._entries[key] = entry
        if replaced is not None or 2 * len(self._entries) > len(self._table):
            self._write_table()
        else:
            self._insert(entry)
        del replaced
        return True

    def _write_globals(self) -> bool:
        """Guard what the function reads of the program's state; returns whether that can be
        done."""
        used = self._function.used_global_vals
        if self._globals is not None and self._globals[0] is used:
            known = self._globals[1]
            if known is not None and all(map(holds, known)):
                return True
        guards = _global_guards(used)
        # Where nothing can be guarded, a guard that never holds.
        address, memory = write_guards([({}, "", None)] if guards is None else guards)
        self._globals, before = (used, guards, memory), self._globals
        PLAN.write(self._plan, global_count=0)
        PLAN.write(self._plan, globals=address)
        PLAN.write(self._plan, global_count=1 if guards is None else len(guards))
        del before
        return guards is not None

    def _write_table(self) -> None:
        size = 8
        while size < 4 * len(self._entries):
            size *= 2
        address, memory = allocate(8 * (size + 2), 64)
        table = (ctypes.c_uint64 * (size + 2)).from_address(address)
        table[0] = size - 1
        before, self._table, self._memories = self._memories, table, (memory, self._entries)
        for entry in self._entries.values():
            self._insert(entry)
        # One store of a pointer: other threads see the old table or the new one.
        PLAN.write(self._plan, table=address)
        del before

    def _insert(self, entry: _Entry) -> None:
        table, mask = self._table, self._table[0]
        at = entry.hash & mask
        while table[2 + at]:
            at = (at + 1) & mask
        table[2 + at] = entry.address


def _global_guards(used: Watched) -> list[Guard] | None:
    """Guards on the values of names; None where a value may change and still be the same object,
    or is computed each time."""
    guards: list[Guard] = []
    for (name, _), (value, namespace) in used.items():
        where = places(name, namespace) if is_stable(value) else None
        if where is None:
            return None
        guards += [item_guard(*place) for place in where]
    return None if change(used) else guards  # after the guards: what changes meanwhile breaks them


def _hash(key: bytes) -> int:
    """The hash of a launch's key, as `KernelWriter._find` computes it."""
    mask = (1 << 64) - 1
    digest = HASH_START
    for word in struct.unpack(f"{len(key) // 8}Q", key):
        digest = (digest ^ word) * (HASH_FACTOR & mask) & mask
        digest ^= digest >> 29
    return digest


def _write_params(function: Any) -> tuple[int, Any]:
    address, memory = allocate(PARAM.size * max(len(function.params), 1), 64)
    keep: list[Any] = []
    for i, param in enumerate(function.params):
        name = sys.intern(param.name)
        fixed, other = param.annotation_type, param.fixes_no_integer
        by_value = not param.do_not_specialize
        PARAM.write(
            address + i * PARAM.size, name=id(name),
            default=id(param.default) if param.has_default else 0,
            constant=int(param.is_constexpr), fixed=0 if not fixed else 2 if other else 1,
            by_value=int(by_value),
            by_alignment=int(by_value and not param.do_not_specialize_on_alignment),
        )  # fmt: skip
        keep += [name, param.default]
    return address, (memory, keep)


def _write_entry(
    key: bytes, how: Sequence[Store], found: Any, launched: Launched, count: ctypes.c_int64
) -> _Entry:
    operations, memory = allocate(OPERATION.size * max(len(how), 1), 64)
    for i, store in enumerate(how):
        OPERATION.write(
            operations + i * OPERATION.size, how=int(store.how), low=store.low, high=store.high,
            device=store.device, refused=READ_ONLY if store.writes else 0,
            extent=8 * store.extent,
        )  # fmt: skip
    words = ctypes.create_string_buffer(key, len(key))
    address, own = allocate(ENTRY.size, 64)
    digest, end = _hash(key), launched.end
    on_error = _error_handler(end)
    kept = launched.caches, launched.kernels, launched.kernel, on_error
    keep = (memory, words, own, found, count, kept, end)
    entry = _Entry(address, digest, keep)
    ENTRY.write(
        address, hash=digest, count=len(key) // 8, words=ctypes.addressof(words),
        operations=operations, operations_end=operations + len(how) * OPERATION.size,
        function=end.function, state=end.state, kernel=id(launched.kernel), owner=id(entry),
        caches=id(launched.caches), cache_count=len(launched.caches),
        kernels=id(launched.kernels), kernel_count=ctypes.addressof(count),
        extent_of=0 if end.extent_of is None else id(end.extent_of),
        on_error=0 if on_error is None else id(on_error),
    )  # fmt: skip
    return entry


def _error_handler(end: End) -> Callable[[BaseException, int, dict[str, Any]], None] | None:
    """`End.on_error` as native code calls it, with the address of the grid's `SIZES`."""
    on_error = end.on_error
    if on_error is None:
        return None

    def handle(error: BaseException, sizes: int, arguments: dict[str, Any]) -> None:
        x, y, z = (SIZES.read(sizes, axis) for axis in ("x", "y", "z"))
        on_error(error, (x, y, z), arguments)

    return handle


def can_launch(function: Any) -> bool:
    """True if a kernel's function is one that native code can launch."""
    kinds = {p.kind for p in function.signature.parameters.values()}
    names = set(function.arg_names)
    return (
        pyobjects.supported()
        and not any(kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD) for kind in kinds)
        and "debug" not in names  # which each launch is given as an option
    )
