"""`@jit`: kernels that are compiled when they are launched, for the arguments they are given."""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from tritium import knobs
from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.compiler import ASTSource, CompiledKernel, compile  # noqa: A004
from tritium.language.constexpr import constexpr, constexpr_function, unwrap
from tritium.language.function import JITCallable, KernelParam
from tritium.runtime import async_compile
from tritium.runtime.interface import Grid, KernelInterface, T
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.specialize import (
    Specializer,
    attributes_of,
    constants_of,
    type_canonicalisation_dict,
)
from tritium.runtime.tensors import MockTensor, TensorWrapper, reinterpret

class _DeviceCache:
    """What a kernel keeps for each device: compiled kernels by key, target, backend."""

    def __init__(self, function: JITFunction[Any]):
        self.kernels: dict[Any, CompiledKernel] = {}
        self.keys: dict[Any, str] = {}
        self.target = driver.active.get_current_target()
        self.backend = make_backend(self.target)
        self.specializers = [Specializer(p, self.backend) for p in function.params]

    def __getitem__(self, index: int) -> Any:
        # The reference keeps a tuple here.
        return (self.kernels, self.keys, self.target, self.backend, self.specializers)[index]


class JitFunctionInfo:
    """Names of a kernel, for hooks."""

    def __init__(self, module: str, name: str, jit_function: JITFunction[Any]):
        self.module, self.name, self.jit_function = module, name, jit_function


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
        repr: Callable[[Any], str] | None = None,  # noqa: A002
        launch_metadata: Callable[..., dict[str, Any]] | None = None,
    ):
        super().__init__(fn)
        self._source  # noqa: B018  (a kernel whose source cannot be found fails here, not later)
        self.version = version
        self.do_not_specialize = list(do_not_specialize or [])
        self.do_not_specialize_on_alignment = list(do_not_specialize_on_alignment or [])
        self.debug = debug
        self.noinline = bool(noinline)
        self._repr = repr
        self.launch_metadata = launch_metadata
        self.kernel = None
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.params: list[KernelParam] = [  # pyright: ignore[reportIncompatibleMethodOverride]
            KernelParam(
                i,
                p,
                i in self.do_not_specialize or name in self.do_not_specialize,
                i in self.do_not_specialize_on_alignment
                or name in self.do_not_specialize_on_alignment,
            )
            for i, (name, p) in enumerate(self.signature.parameters.items())
        ]
        self.arg_names = list(self.signature.parameters)
        self.device_caches: dict[Any, _DeviceCache] = defaultdict(lambda: _DeviceCache(self))

    def repr(self, specialization: Any) -> str:
        """The name of the compiled kernel."""
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

    def create_binder(self) -> tuple[Any, ...]:
        """(kernels by key, keys, target, backend, binder) for the current device."""
        cache = self.device_caches[driver.active.get_current_device()]
        return cache.kernels, cache.keys, cache.target, cache.backend, self._bind

    # Launching

    def run(self, *args: Any, grid: Grid, warmup: bool, **kwargs: Any) -> CompiledKernel | None:
        """Launch (or with `warmup` only compile) the kernel; returns it compiled.

        Raises `TypeError` for wrong arguments, `KeyError` for an unknown option, and whatever
        compiling raises.
        """
        debug = kwargs.get("debug")
        kwargs["debug"] = bool(self.debug if debug is None else debug) or knobs.runtime.debug
        active = driver.active
        device = active.get_current_device()
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        cache = self.device_caches[device]
        values, options = self._bind(args, kwargs)
        pairs = [s(v) for s, v in zip(cache.specializers, values)]
        key = (tuple(pairs), tuple(options.items()))
        kernel = cache.kernels.get(key)
        if kernel is None:
            kernel = self._compile(cache, device, key, pairs, values, options, warmup)
            if kernel is None:
                return None
        self._check_globals()
        if warmup:
            return kernel
        grid_size = self.grid_of(grid, values)
        stream = active.get_current_stream(device)
        enter, exit_ = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        kernel.run(
            *grid_size, stream, kernel.function, kernel.packed_metadata,
            kernel.launch_metadata(grid_size, stream, *values) if enter or exit_ else None,
            enter, exit_, *values,
        )  # fmt: skip
        return kernel

    def _bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Argument values in the order of the parameters, and the keywords that are options."""
        params = self.params
        if len(args) > len(params):
            raise TypeError(
                f"{self.__name__}() takes {len(params)} arguments but {len(args)} were given"
            )
        values = list(args)
        for param in params[: len(args)]:
            if param.name in kwargs:
                raise TypeError(f"{self.__name__}() got multiple values for '{param.name}'")
        missing: list[str] = []
        for param in params[len(args) :]:
            if param.name in kwargs:
                values.append(kwargs.pop(param.name))
            elif param.has_default:
                values.append(param.default)
            else:
                missing.append(param.name)
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            raise TypeError(f"{self.__name__}() is missing arguments: {names}")
        return values, kwargs

    def grid_of(self, grid: Grid, values: Sequence[Any]) -> tuple[int, int, int]:
        """The three sizes of the grid. Raises `TypeError` or `ValueError` for a bad one."""
        if callable(grid):
            grid = grid(dict(zip(self.arg_names, values)))
        if isinstance(grid, int):
            grid = (grid,)
        if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
            raise TypeError(f"the grid must be a tuple of 1 to 3 ints or a function; got {grid!r}")
        sizes: list[int] = []
        for axis, size in enumerate(grid):
            size = unwrap(size)
            if not hasattr(size, "__index__"):
                raise TypeError(f"grid[{axis}] is {size!r}; an int is required")
            size = int(size)
            if not 0 <= size < 2**31:
                raise ValueError(f"grid[{axis}] is {size}; it must be in 0 .. 2**31-1")
            sizes.append(size)
        sizes += [1] * (3 - len(sizes))
        return sizes[0], sizes[1], sizes[2]

    def _check_globals(self) -> None:
        for (name, _), (value, namespace) in self.used_global_vals.items():
            now = namespace.get(name, constexpr(None))
            if now is not value and not _equal(now, value):
                raise RuntimeError(
                    f"Global variable {name} has changed since we compiled this kernel, "
                    f"from {value} to {now}"
                )

    # Compiling

    def _compile(
        self,
        cache: _DeviceCache,
        device: Any,
        key: Any,
        pairs: Sequence[tuple[Any, Any]],
        values: Sequence[Any],
        options: Mapping[str, Any],
        warmup: bool,
    ) -> CompiledKernel | None:
        self._check_options(cache.backend, options)
        types = [p[0] for p in pairs]
        constants = constants_of(values, types)
        attrs = attributes_of(types, [p[1] for p in pairs], cache.backend)
        parsed = cache.backend.parse_options(dict(options))
        signature = dict(zip(self.arg_names, types))
        text = str(key)
        hooks = (knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook)
        info = None
        if any(hooks):
            info = self._hook_info(text, signature, device, constants, parsed, attrs, warmup)
        if hooks[0] is not None and hooks[0](already_compiled=False, **(info or {})):
            return None
        preloaded = self._preloaded.get(text)
        if preloaded is not None:
            cache.kernels[key] = preloaded
            return preloaded
        source = self.ASTSource(self, signature, constants, attrs)
        source.name = self.repr(_Specialization(signature, constants, self.arg_names))
        mode = async_compile.active_mode.get()

        def build() -> CompiledKernel:
            return compile(source, target=cache.target, options=parsed.__dict__)

        def finish(kernel: CompiledKernel) -> None:
            cache.kernels[key] = kernel
            cache.keys[key] = text
            if hooks[1] is not None:
                hooks[1](already_compiled=True, **(info or {}))

        if mode is not None and warmup:
            return mode.submit((id(self), key), build, finish)  # pyright: ignore[reportReturnType]
        kernel = build()
        finish(kernel)
        return kernel

    ASTSource = ASTSource

    def _check_options(self, backend: Any, options: Mapping[str, Any]) -> None:
        known = backend.parse_options({}).__dict__
        for name in options:
            if name not in known and name not in _FOREIGN_OPTIONS:
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")

    def _hook_info(
        self,
        key: str,
        signature: Mapping[str, Any],
        device: Any,
        constants: Mapping[Any, Any],
        options: Any,
        attrs: Mapping[Any, Any],
        warmup: bool,
    ) -> dict[str, Any]:
        types = ", ".join(f"{name}: {t}" for name, t in signature.items())
        shown = {n: getattr(options, n) for n in ("num_warps", "num_ctas", "num_stages")
                 if hasattr(options, n)}  # fmt: skip
        details = ", ".join(f"{n}={v}" for n, v in shown.items())
        data = json.dumps(
            {
                "name": self.qualified_name,
                "signature": {k: v for k, v in signature.items()},
                "constant_keys": [list(p) for p in constants],
                "constant_vals": [_jsonable(v) for v in constants.values()],
                "attrs_keys": [list(p) for p in attrs],
                "attrs_vals": list(attrs.values()),
                "options": {k: _jsonable(v) for k, v in options.__dict__.items()},
                "key": key,
            }
        )
        return {
            "key": key,
            "repr": f"{self.__name__}[{details}]({types})",
            "fn": JitFunctionInfo(self.__module__, self.__name__, self),
            "compile": {
                "signature": signature,
                "device": device,
                "constants": constants,
                "configs": [attrs],
                "extern_libs": getattr(options, "extern_libs", None),
                "specialization_data": data,
                "is_warmup": warmup,
                "key": key,
                **options.__dict__,
            },
            "is_manual_warmup": warmup,
        }

    def preload(self, specialization_data: str) -> CompiledKernel:
        """Compile again what a hook was told (`specialization_data`), so that the launch it came
        from finds it. Raises `RuntimeError` if the data is of another kernel."""
        data = json.loads(specialization_data)
        if data["name"] != self.qualified_name:
            raise RuntimeError(
                f"Specialization data is for {data['name']} but trying to preload for "
                f"{self.qualified_name}"
            )
        cache = self.device_caches[driver.active.get_current_device()]
        constants = {
            tuple(path): _from_json(value)
            for path, value in zip(data["constant_keys"], data["constant_vals"])
        }
        attrs = {tuple(path): v for path, v in zip(data["attrs_keys"], data["attrs_vals"])}
        signature = {name: _as_tuples(t) for name, t in data["signature"].items()}
        source = self.ASTSource(self, signature, constants, attrs)
        options = {k: _from_json(v) for k, v in data["options"].items()}
        kernel = compile(source, target=cache.target, options=options)
        self._preloaded[data["key"]] = kernel
        return kernel

    @property
    def _preloaded(self) -> dict[str, CompiledKernel]:
        return self.__dict__.setdefault("_preloaded_kernels", {})


_FOREIGN_OPTIONS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "ptx_version", "ptx_options",
    "ir_override", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "extern_libs",
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "allow_flush_denorm",
    "debug", "sanitize_overflow", "arch", "warp_size", "instrumentation_mode", "backend_name",
    "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision",
    "allowed_dot_input_precisions", "max_num_imprecise_acc_default", "minRegAutoWS",
    "maxRegAutoWS", "pingpongAutoWS",
})  # fmt: skip
"""Options of some backend; each backend takes those that it knows."""


class _Specialization:
    """What a kernel's `repr` function is given."""

    def __init__(self, signature: Mapping[str, Any], constants: Mapping[Any, Any], names: list[str]):
        self.signature = dict(signature)
        self.constants = {names[p[0]]: v for p, v in constants.items() if len(p) == 1}


def _equal(left: Any, right: Any) -> bool:
    try:
        return bool(unwrap(left) == unwrap(right))
    except (TypeError, ValueError):
        return False


def _jsonable(value: Any) -> Any:
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.__module__}:{value.__qualname__}"}
    if isinstance(value, (tuple, list)):
        return [_jsonable(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"constexpr": str(value)}


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(v) for v in value)
    if isinstance(value, dict):
        from_text = value.get("constexpr")
        name = type_canonicalisation_dict.get(str(from_text))
        if name is None:
            raise RuntimeError(f"cannot restore the compile-time value {value}")
        return _dtype(name)
    return value


def _dtype(name: str) -> Any:
    import tritium.language as tl  # the language is larger than all that a launch needs

    return tl.dtype(name if name[0] in "fb" else name.replace("i", "int", 1))


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list) else value


@overload
def jit(fn: T) -> JITFunction[T]: ...
@overload
def jit(
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,  # noqa: A002
    launch_metadata: Callable[..., dict[str, Any]] | None = None,
    do_not_specialize: Sequence[str | int] | None = None,
    do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Callable[[T], JITFunction[T]]: ...
def jit(
    fn: T | None = None,
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,  # noqa: A002
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

    def decorator(fn: T) -> Any:
        if not inspect.isfunction(fn):
            raise TypeError(f"@jit can only be applied to a function; got {fn!r}")
        if knobs.runtime.interpret:
            return InterpretedFunction(fn)
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
    "JITCallable",
    "JITFunction",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "constexpr_function",
    "jit",
    "reinterpret",
    "type_canonicalisation_dict",
]
