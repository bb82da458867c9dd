"""A compiled kernel: the result of every stage, its metadata, and how to launch it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cache
from operator import itemgetter
from typing import Any, cast
from weakref import WeakSet

from tritium import knobs
from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.cache.files import read
from tritium.errors import OutOfResources
from tritium.target import GPUTarget


@cache
def _metadata_class(fields: tuple[str, ...]) -> Any:
    """A named tuple of these fields. `collections.namedtuple` would take a third of a millisecond
    of each process's first launch to make it: it compiles a constructor."""
    members: dict[str, Any] = {name: property(itemgetter(i)) for i, name in enumerate(fields)}
    return type("KernelMetadata", (_Metadata,), {"__slots__": (), "_fields": fields, **members})


class _Metadata(tuple[Any, ...]):
    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, **values: Any) -> _Metadata:
        return tuple.__new__(cls, [values[name] for name in cls._fields])

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **values: Any) -> _Metadata:
        return type(self)(**{**self._asdict(), **values})

    def __repr__(self) -> str:
        return f"KernelMetadata({', '.join(f'{k}={v!r}' for k, v in self._asdict().items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._asdict(),)


def _restore(values: dict[str, Any]) -> _Metadata:
    return _metadata_class(tuple(values))(**values)


class LazyDict:
    """Data for launch hooks: entries that are computed only if a hook asks (`get`).

    Attributes:
        arguments: of the launch, by name.
    """

    def __init__(self, data: dict[str, Any], arguments: Mapping[str, Any] | None = None):
        self.data, self.arguments = data, arguments or {}
        self.extras: list[tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]] = []

    def get(self) -> dict[str, Any]:
        """The dictionary, with the entries of functions that are still to be called."""
        for function, args in self.extras:
            more = function(*args)
            if not isinstance(cast(Any, more), Mapping):
                raise TypeError(f"launch_metadata returned {more!r}; a dict is required")
            self.data.update(more)
        self.extras.clear()
        return self.data

    def add(self, func: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
        """Entries to compute later, by `func(*args)`."""
        self.extras.append((func, args))


class AsmDict(dict[str, Any]):
    """Stage name -> its result, text or bytes (the last). Texts are decoded when asked for, and
    further views of the binary (disassembly) are made then."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        binary: str,
        views: Mapping[str, Callable[[Mapping[str, Any]], str]],
        late: Sequence[str] = (),
    ):
        """`late`: views that are stages, in front of the binary."""
        texts = [name for name in files if name != binary]
        super().__init__((name, None) for name in (*texts, *(late if texts else ()), binary))
        self._files, self._binary, self._views = files, binary, views

    def __getitem__(self, stage: str) -> Any:
        value = super().get(stage)
        if value is None:
            value = self[stage] = self.__missing__(stage)
        return value

    def __missing__(self, stage: str) -> Any:
        if stage in self._files:
            content = self._files[stage]
            return content if stage == self._binary else content.decode()
        if stage in self._views:
            return self._views[stage](self)
        known = ", ".join([*self._files, *self._views])
        raise KeyError(f"no stage is called {stage!r}; this kernel has {known}")

    def get(self, stage: str, default: Any = None) -> Any:
        return self[stage] if stage in self or stage in self._views else default

    # Python reads a dict past `__getitem__` unless all of these are replaced.

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def values(self) -> ValuesView[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ItemsView(self)

    def copy(self) -> dict[str, Any]:
        return {stage: self[stage] for stage in self}


loaded_kernels: WeakSet[CompiledKernel] = WeakSet()
"""The kernels that this process has loaded on a device."""


class CompiledKernel:
    """A kernel ready to launch: `kernel[grid](*args)`, or `run` with everything spelled out.

    Attributes:
        asm: stage name -> text, in order; the last is the binary.
        metadata: what the stages found out (`name`, `num_warps`, `shared`, ...), a named tuple.
        hash: the key of the cache entry.
    """

    launch_enter_hook = None
    launch_exit_hook = None

    def __init__(self, src: Any, metadata_group: Mapping[str, str], hash: str):
        # All at once: the cache may be cleared, or the working directory changed, before somebody
        # looks at a text or launches.
        contents = {name: read(path) for name, path in metadata_group.items()}
        metadata = json.loads(next(c for name, c in contents.items() if name.endswith(".json")))
        target = metadata["target"]
        metadata["target"] = GPUTarget(target["backend"], target["arch"], target["warp_size"])
        self.metadata = _metadata_class(tuple(sorted(metadata)))(**metadata)
        backend = make_backend(self.metadata.target)
        self.packed_metadata = backend.pack_metadata(self.metadata)
        self.src = src
        self.hash = hash
        self.name: str = self.metadata.name
        files = {
            name.rpartition(".")[2]: content
            for name, content in contents.items()
            if not name.endswith(".json")
        }
        self.asm = AsmDict(
            files, backend.binary_ext, backend.asm_views(self.metadata), backend.late_stages
        )
        self.metadata_group = metadata_group
        self.module: Any = None
        self.function: Any = None
        self._run: Any = None

    @property
    def kernel(self) -> bytes:
        """The binary."""
        return self.asm[make_backend(self.metadata.target).binary_ext]

    def code_key(self) -> tuple[Any, ...]:
        """Equal for kernels whose launches do the same: their code, and what launches depend on."""
        backend = make_backend(self.metadata.target)
        asked: Any = getattr(self.metadata, "asked_options", ())
        none = {"hash", *backend.without_effect(self.metadata).difference(asked)}
        fields = [(n, str(v)) for n, v in self.metadata._asdict().items() if n not in none]
        return hashlib.sha256(self.kernel).digest(), *fields

    def _init_handles(self) -> None:
        """Load the binary on the current device."""
        if self._run is not None:
            return
        active = driver.active
        device = active.get_current_device()
        if (check := getattr(active, "check_runs", None)) is not None:  # as `make_launcher` below
            check(self.metadata)
        self._check_shared_memory(active.utils, device)
        self._tell(knobs.runtime.kernel_load_start_hook)
        loaded = active.utils.load_binary(
            self.name, self.kernel, getattr(self.metadata, "shared", 0), device
        )
        self.module, self.function, self.n_regs, self.n_spills, self.n_max_threads = loaded
        self._check_threads()
        loaded_kernels.add(self)
        # Last: another thread that sees it launches.
        make = getattr(active, "make_launcher", None)
        if make is None:  # a driver that is no `DriverBase`
            self._run = active.launcher_cls(self.src, self.metadata)
        else:
            self._run = make(self.src, self.metadata, self.function)
        self._tell(knobs.runtime.kernel_load_end_hook)

    def close(self) -> None:
        """Give back what loading took. No launch may be under way; a later one loads the kernel
        again. A kernel that native launches hold stays loaded."""
        if self.module is not None:
            self._tell(knobs.runtime.kernel_unload_hook)
        run, self._run = self._run, None
        self.module = self.function = None
        unload = getattr(run, "unload", None)
        if unload is not None:
            unload()

    def _check_shared_memory(self, utils: Any, device: Any) -> None:
        """Raise `OutOfResources` for more shared memory than the device has."""
        shared: int = getattr(self.metadata, "shared", 0)
        # A program that is one thread keeps its scratch in plain memory: `shared` says how much
        # of a cache that takes on the processor compiled for, whatever this one has.
        if not shared or self.metadata.target.warp_size <= 1:
            return
        limit: Any = utils.get_device_properties(device).get("max_shared_mem")
        if limit is not None and shared > limit:
            raise OutOfResources(shared, limit, "shared memory")

    def _check_threads(self) -> None:
        """Raise `OutOfResources` for more threads than the kernel's registers leave room for."""
        target = self.metadata.target
        if target.warp_size <= 1:  # a program is one thread
            return
        threads = self.metadata.num_warps * target.warp_size
        if self.n_max_threads is not None and threads > self.n_max_threads:
            raise OutOfResources(threads, self.n_max_threads, "threads")

    def _tell(self, hook: Any) -> None:
        if hook:
            hook(self.module, self.function, self.name, self.metadata_group, self.hash)

    @property
    def run(self) -> Any:
        """The launcher: `run(gx, gy, gz, stream, function, packed_metadata, launch_metadata,
        enter_hook, exit_hook, *args)`, arguments as the kernel's Python parameters."""
        if self._run is None:
            self._init_handles()
        return self._run

    def launch_metadata(self, grid: tuple[int, ...], stream: Any, *args: Any) -> LazyDict | None:
        """The argument of launch hooks; None when there is no hook."""
        if knobs.runtime.launch_enter_hook is None:
            return None
        self._init_handles()
        function = getattr(self.src, "fn", None)
        names: list[str] = getattr(function, "arg_names", [])
        given = dict(zip(names, args, strict=False))
        known = {"name": self.name, "function": self.function, "stream": stream}
        data = LazyDict(known, given)
        extra = getattr(function, "launch_metadata", None)
        if extra is not None:
            data.add(extra, (grid, self.metadata, given))
        return data

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        if not isinstance(cast(Any, grid), (tuple, list)) or not 1 <= len(grid) <= 3:
            raise TypeError(f"the grid must be a tuple of 1 to 3 ints; got {grid!r}")
        launch = self.run
        gx, gy, gz = (*grid, 1, 1)[:3]

        def runner(*args: Any, stream: Any = None) -> None:
            active = driver.active
            if stream is None:
                stream = active.get_current_stream(active.get_current_device())
            launch(
                gx, gy, gz, stream, self.function, self.packed_metadata,
                self.launch_metadata(grid, stream, *args),
                knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook, *args,
            )  # fmt: skip

        return runner
