"""`@jit`: kernels that are compiled when they are launched, for the arguments they are given."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any, NamedTuple, overload

from tritium import knobs
from tritium.backends.active import driver
from tritium.backends.base import (
    LAUNCH_OPTIONS,
    BaseBackend,
    grid_sizes,
    make_backend,
    unknown_keyword,
)
from tritium.compiler import ASTSource, CompiledKernel, compile
from tritium.errors import TritonError
from tritium.forking import ForkSafeLock
from tritium.language.jit.function import JITCallable, KernelParam
from tritium.language.jit.function import get_full_name as get_full_name
from tritium.language.values.constexpr import ConstexprFunction, constexpr_function, unwrap
from tritium.launch.signature import type_canonicalisation_dict
from tritium.launch.teacher import Teacher
from tritium.runtime.dynamo import leave_to_python
from tritium.runtime.hook_info import JitFunctionInfo, hook_info
from tritium.runtime.interface import Grid, KernelInterface, T
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.paths import find_paths_if as find_paths_if
from tritium.runtime.paths import get_iterable_path as get_iterable_path
from tritium.runtime.serialize import from_json
from tritium.runtime.specialize import (
    attributes_of,
    constants_of,
    constexpr_key,
    make_binder,
    mangle_type,
    native_specialize_impl,
)
from tritium.runtime.tensors import MockTensor, TensorWrapper, reinterpret
from tritium.runtime.workers import async_compile
from tritium.target import GPUTarget


class DeviceCache(NamedTuple):
    """The compiled kernels and settings of one kernel function on one device."""

    kernels: dict[Any, CompiledKernel]
    """Compiled kernels, by specializations and options."""
    keys: dict[Any, str]
    """The text that hooks are given for each key of `kernels`."""
    target: GPUTarget
    backend: BaseBackend
    binder: Callable[..., Any]
    """(values, specializations, options) of a launch's arguments; see `specialize.make_binder`."""
    shared: tuple[str, ...] = ()
    """The constexpr parameters that are options of the backend, too: given by keyword they set
    both."""


def _looked_up(
    cache: DeviceCache, pairs: Any, options: Mapping[str, Any], stages: tuple[str, ...]
) -> tuple[Any, CompiledKernel | None]:
    """The key of a launch and the kernel compiled for it before. `stages`: the digest that a hook
    gives of the stages that it changes."""
    key = (pairs, tuple(options.items()), *stages)
    try:
        return key, cache.kernels.get(key)
    except TypeError:
        key = (pairs, constexpr_key(options, "an option's value"), *stages)
        return key, cache.kernels.get(key)


def get_device_key() -> str:
    """The current device as text: `cpu:0`."""
    active = driver.active
    return f"{active.get_current_target().backend}:{active.get_current_device()}"


class _DeviceCaches(dict[Any, DeviceCache]):
    """Makes what is missing; threads that ask at once get the same."""

    def __init__(self, make: Callable[[], DeviceCache]):
        super().__init__()
        self._make = make

    def __missing__(self, device: Any) -> DeviceCache:
        return self.setdefault(device, self._make())


class JITFunction(JITCallable, KernelInterface[T]):
    """A kernel. See `jit` for the parameters."""

    def __init__(
        self,
        fn: T,
        version: Any = None,
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., dict[str, Any]] | None = None,
    ):
        super().__init__(fn, do_not_specialize, do_not_specialize_on_alignment)
        self._source  # noqa: B018  (a kernel whose source cannot be found fails here, not later)
        self.module = fn.__module__
        self.version = version
        self.debug = debug
        self.noinline = bool(noinline)
        self._repr = repr
        self.launch_metadata = launch_metadata
        self.kernel = None
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.arg_names = list(self.signature.parameters)
        self._caches: dict[Any, dict[Any, DeviceCache]] = {}
        self._preloaded: dict[str, CompiledKernel] = {}
        self._compiling = ForkSafeLock()
        overridden = type(self).run is not JITFunction.run
        self._teacher: Teacher | None = None if overridden else Teacher(driver)
        self._launch: Callable[..., Any] = self._launch_by_run if overridden else (
            self._launch_latest
        )  # fmt: skip
        leave_to_python()

    def repr(self, specialization: Any) -> str:
        return self.__name__ if self._repr is None else self._repr(specialization)

    @property
    def base_fn(self) -> JITFunction[T]:
        """The kernel below autotuners and heuristics: itself."""
        return self

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook(*args, **kwargs)` before each launch; it may raise to prevent it."""
        if not callable(hook):
            raise TypeError(f"add_pre_run_hook: {hook!r} is not callable")
        self.pre_run_hooks.append(hook)

    @property
    def device_caches(self) -> dict[Any, DeviceCache]:
        """The kernels compiled so far, by device of the active driver."""
        active = driver.active
        caches = self._caches.get(active)
        if caches is None:
            # Another driver may give its devices the same numbers, and launches in its own way.
            caches = self._caches.setdefault(active, _DeviceCaches(self.create_binder))
        return caches

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name not in _PRIVATE and "_launch" in self.__dict__:
            self._reset_launch()

    def _reset_launch(self) -> None:
        """Have the next launches done in Python, which looks at everything anew."""
        if self._teacher is not None:
            self._teacher.close()
        own = "run" in self.__dict__ or type(self).run is not JITFunction.run
        self._teacher = None if own else Teacher(driver)
        self._launch = self._launch_by_run if own else self._launch_latest

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._caches, self._preloaded, self._compiling = {}, {}, ForkSafeLock()
        self._teacher = None
        self._reset_launch()

    def create_binder(self) -> DeviceCache:
        """An empty cache for the current device."""
        if self._teacher is not None:
            self._teacher.forget()
        target = driver.active.get_current_target()
        backend = make_backend(target)
        options = backend.parse_options({}).__dict__
        shared = tuple(p.name for p in self.params if p.is_constexpr and p.name in options)
        return DeviceCache({}, {}, target, backend, make_binder(self, backend), shared)

    # Launching

    def __getitem__(self, grid: Grid) -> Any:
        """The launcher for a grid: a tuple of 1 to 3 ints, or a function of the arguments."""
        try:
            if _watchers and threading.get_ident() in _watchers:
                return functools.partial(self._launch_watched, grid)
            return MethodType(self._launch, grid)
        except TypeError:
            raise TypeError("the grid is None; 1 to 3 ints or a function are required") from None

    def _launch_watched(self, grid: Grid, /, *args: Any, **kwargs: Any) -> Any:
        _watchers[threading.get_ident()](self, grid, args, kwargs)
        return self._launch(grid, *args, **kwargs)

    def _launch_by_run(self, grid: Grid, /, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, grid: Grid, warmup: bool, **kwargs: Any) -> CompiledKernel | None:
        """Launch (or with `warmup` only compile) the kernel; returns it compiled.

        Raises `TypeError` for wrong arguments, `KeyError` for an unknown option, and whatever
        compiling raises.
        """
        if warmup or self._teacher is None:
            return self._run(grid, args, kwargs, warmup)
        return self._launch(grid, *args, **kwargs)

    def _launch_latest(self, grid: Grid, /, *args: Any, **kwargs: Any) -> Any:
        """Launch in Python until there is a native launcher: `kernel[grid]` may be kept from
        before."""
        latest = self._launch
        if latest == self._launch_latest:
            return self.launch_in_python(grid, *args, **kwargs)
        return latest(grid, *args, **kwargs)

    def launch_in_python(self, grid: Grid, /, *args: Any, **kwargs: Any) -> CompiledKernel | None:
        """Launch the kernel on the careful path, which the native one (see `launch/`) leaves
        everything to that it does not know, and which teaches it."""
        return self._run(grid, args, kwargs, warmup=False)

    def _run(
        self, grid: Grid, args: tuple[Any, ...], kwargs: dict[str, Any], warmup: bool
    ) -> CompiledKernel | None:
        given = dict(kwargs)
        debug = kwargs.get("debug")
        kwargs["debug"] = bool(self.debug if debug is None else debug) or knobs.runtime.debug
        active = driver.active
        device = active.get_current_device()
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        caches = self._caches.get(active) or self.device_caches
        cache = caches[device]
        values, pairs, options = cache.binder(*args, **kwargs)
        for name in cache.shared:
            if name in given:
                options[name] = unwrap(given[name])
        if mode := vars(knobs.compilation).get("instrumentation_mode"):  # assigned, as profilers do
            options.setdefault("instrumentation_mode", mode)
        inspection = knobs.runtime.add_stages_inspection_hook
        said: Any = None if inspection is None else inspection()
        key, kernel = _looked_up(cache, pairs, options, () if said is None else (said[1],))
        if kernel is None:
            launch = _Launch(cache, device, key, pairs, values, options, warmup)
            try:
                kernel = self._compile(launch)
            except TritonError as error:  # it is about the kernel: the compiler's frames are noise
                if knobs.compilation.front_end_debugging:
                    raise
                raise error.with_traceback(None) from error.__cause__
            if kernel is None:
                return None
        self.check_globals()
        if warmup:
            return kernel
        gx, gy, gz = self.grid_of(grid, values)
        if gx * gy * gz == 0:
            return kernel
        stream = active.get_current_stream(device)
        enter, exit_ = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        if enter or exit_:
            data = kernel.launch_metadata((gx, gy, gz), stream, *values)
        else:
            data = enter = exit_ = None
        run = kernel.run  # first: it loads the function
        run(
            gx, gy, gz, stream, kernel.function, kernel.packed_metadata, data, enter, exit_, *values
        )
        hooked = enter is not None or exit_ is not None or inspection is not None
        if not hooked and self._teacher is not None:
            native = self._teacher.teach(
                self, active, (caches, cache.kernels), (kernel, run), ((grid, *args), given)
            )
            if native is not None:
                self._launch = native
        return kernel

    def grid_of(self, grid: Grid, values: Sequence[Any]) -> tuple[int, int, int]:
        """The three sizes of the grid. Raises `TypeError` or `ValueError` for a bad one."""
        if callable(grid):
            grid = grid(dict(zip(self.arg_names, values, strict=True)))
        return grid_sizes(grid)

    # Compiling

    def _compile(self, launch: _Launch) -> CompiledKernel | None:
        """Compile what a launch needs; None when the hook cancels it."""
        cache, key = launch.cache, launch.key
        text = str(key)
        with self._compiling:
            known = cache.kernels.get(key)  # another thread may have been faster
            if known is None and self._preloaded:
                known = self._preloaded.get(text)
            if known is not None:
                self._keep(cache, key, known)
                return known
            leave_to_python()
            return self._compile_new(launch, text)

    def _compile_new(self, launch: _Launch, text: str) -> CompiledKernel | None:
        cache, key, device = launch.cache, launch.key, launch.device
        self._check_options(cache.backend, launch.options)
        types = [pair[0] for pair in launch.pairs]
        specs = [pair[1] for pair in launch.pairs]
        constants = constants_of(launch.values, types, specs)
        attrs = attributes_of(types, specs, cache.backend)
        parsed = cache.backend.parse_options(launch.options)
        signature = dict(zip(self.arg_names, types, strict=True))
        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
        info: dict[str, Any] = {}
        if before is not None or after is not None:
            details = (text, signature, device, constants, parsed, attrs, launch.warmup)
            info = hook_info(self, *details)
        if before is not None and before(already_compiled=False, **info):
            return None
        source = self.ASTSource(self, signature, constants, attrs)

        # Not a closure: who compiles elsewhere looks into it, or sends it there.
        build = functools.partial(compile, source, target=cache.target, options=parsed.__dict__)

        def finish(kernel: CompiledKernel) -> None:
            self._keep(cache, key, kernel)
            cache.keys[key] = text
            if after is not None:
                after(already_compiled=False, **info)

        mode = async_compile.active_mode.get()
        if mode is not None:
            future = mode.submit((id(cache.kernels), key), build, finish)
            if launch.warmup:
                return future  # pyright: ignore[reportReturnType]  (it stands for the kernel)
            return future.result()
        kernel = build()
        finish(kernel)
        return kernel

    def _keep(self, cache: DeviceCache, key: Any, kernel: CompiledKernel) -> None:
        before = len(cache.kernels)
        cache.kernels[key] = kernel
        if self._teacher is not None:
            self._teacher.grew(cache.kernels, before)

    ASTSource = ASTSource

    def _check_options(self, backend: Any, options: Mapping[str, Any]) -> None:
        known = backend.parse_options({}).__dict__
        for name in options:
            if name not in known and name not in LAUNCH_OPTIONS:
                raise unknown_keyword(name, self.__name__, self.arg_names)

    def preload(self, specialization_data: str) -> CompiledKernel:
        """Compile again what a hook was told (`specialization_data`), so that the launch it came
        from finds it. Raises `RuntimeError` if the data is of another kernel, `ValueError` if it is
        not what a hook was told."""
        data = _parsed(specialization_data)
        if data["name"] != self.qualified_name:
            raise RuntimeError(
                f"Specialization data is for {data['name']} but trying to preload for "
                f"{self.qualified_name}"
            )
        if list(data["signature"]) != self.arg_names:
            raise RuntimeError(
                f"Specialization data is for the parameters ({', '.join(data['signature'])}) but "
                f"{self.qualified_name} has ({', '.join(self.arg_names)})"
            )
        cache = self.device_caches[driver.active.get_current_device()]
        constants: dict[tuple[int, ...], Any] = {}
        for path, value in zip(data["constant_keys"], data["constant_vals"], strict=True):
            what = f"argument {self.arg_names[path[0]]}"
            constants[tuple(path)] = self._restored(value, what)
        paths: list[tuple[int, ...]] = [tuple(path) for path in data["attrs_keys"]]
        attrs = dict(zip(paths, data["attrs_vals"], strict=True))
        signature = {name: from_json(t) for name, t in data["signature"].items()}
        source = self.ASTSource(self, signature, constants, attrs)
        options = {k: self._restored(v, f"option {k}") for k, v in data["options"].items()}
        kernel = compile(source, target=cache.target, options=options)
        self._preloaded[data["key"]] = kernel
        return kernel

    def _restored(self, value: Any, what: str) -> Any:
        try:
            return from_json(value)
        except RuntimeError as error:
            raise RuntimeError(f"preload of {self.__name__}, {what}: {error}") from None


_PARTS = ("name", "signature", "constant_keys", "constant_vals", "attrs_keys", "attrs_vals",
          "options", "key")  # fmt: skip


def _parsed(specialization_data: str) -> dict[str, Any]:
    try:
        data: Any = json.loads(specialization_data)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"preload: the specialization data is not JSON: {error}") from None
    missing = [p for p in _PARTS if not isinstance(data, dict) or p not in data]
    if missing:
        raise ValueError(f"preload: the specialization data has no {', '.join(missing)}")
    return data  # pyright: ignore[reportUnknownVariableType]


class _Launch(NamedTuple):
    """A key that selects one compiled version of a kernel."""

    cache: DeviceCache
    device: Any
    key: Any
    pairs: Sequence[tuple[Any, Any]]
    values: Sequence[Any]
    options: dict[str, Any]
    warmup: bool


Watcher = Callable[[JITFunction[Any], Grid, tuple[Any, ...], dict[str, Any]], None]
"""Takes a kernel, the grid, the arguments and the options of a launch."""
_watchers: dict[int, Watcher] = {}
"""Watchers by the number of the thread."""


@contextmanager
def watch_launches(watcher: Watcher) -> Generator[None]:
    """Tell `watcher` of each launch by `kernel[grid]` of this thread, before it happens, inside of
    a `with` block."""
    thread = threading.get_ident()
    before = _watchers.get(thread)
    _watchers[thread] = watcher
    try:
        yield
    finally:
        del _watchers[thread]
        if before is not None:
            _watchers[thread] = before


_PRIVATE = frozenset({"_launch", "_teacher", "used_global_vals", "_hash"})
"""Attributes whose values the native launcher does not rely on, or watches itself."""
_OF_THIS_PROCESS = ("_launch", "_teacher", "_caches", "_preloaded", "_compiling")
"""Attributes that another process makes anew."""


@overload
def jit(fn: T) -> JITFunction[T]: ...
@overload
def jit(
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., dict[str, Any]] | None = None,
    do_not_specialize: Sequence[str | int] | None = None,
    do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Callable[[T], JITFunction[T]]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., dict[str, Any]] | None = None,
    do_not_specialize: Sequence[str | int] | None = None,
    do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Any:
    """Decorator: make a function a kernel, compiled at its first launch for each kind of arguments.

    Args:
        fn: the function, written in the kernel language.
        version: any value; changing it recompiles.
        repr: names the compiled kernel, from an object with `.signature` and `.constants`.
        launch_metadata: `f(grid, metadata, args) -> dict`, for launch hooks.
        do_not_specialize: parameters (names or positions) whose values never cause a recompile.
        do_not_specialize_on_alignment: the same for divisibility by 16 only.
        debug: compile in `device_assert`.
        noinline: keep calls of this function as calls.

    Under `TRITON_INTERPRET=1` the kernel runs in the interpreter instead.
    """

    def decorator(fn: Callable[..., Any]) -> Any:
        if not inspect.isfunction(fn):
            raise TypeError(f"@jit can only be applied to a function; got {fn!r}")
        if knobs.runtime.interpret:
            return InterpretedFunction(fn, debug, do_not_specialize, do_not_specialize_on_alignment)
        return JITFunction(
            fn,
            version=version,
            do_not_specialize=do_not_specialize,
            do_not_specialize_on_alignment=do_not_specialize_on_alignment,
            debug=debug,
            noinline=noinline,
            repr=repr,
            launch_metadata=launch_metadata,
        )

    return decorator if fn is None else decorator(fn)


__all__ = [
    "ConstexprFunction",
    "JITCallable",
    "JITFunction",
    "JitFunctionInfo",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "constexpr_function",
    "jit",
    "mangle_type",
    "native_specialize_impl",
    "reinterpret",
    "type_canonicalisation_dict",
]
