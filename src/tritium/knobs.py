"""Every setting of Tritium, in groups; the only module that reads or writes `os.environ`.

A setting is a typed descriptor on its group. Reading it looks at the environment each time:

    >>> from tritium import knobs
    >>> knobs.compilation.dump_ir           # TRITON_KERNEL_DUMP, now
    False
    >>> knobs.compilation.dump_ir = True    # wins over the environment, and is written to it
    >>> knobs.compilation.dump_ir = knobs.env    # back to the environment (so does `del`)
    >>> with knobs.compilation.scope():     # values and environment are restored at the end
    ...     knobs.compilation.always_compile = True

Assignments are written to the environment so that child processes see them, unless
`knobs.propagate_env` is False. Names of groups, settings and variables are the reference's;
settings of our own are marked so. A value that does not fit raises `RuntimeError` naming the
variable, the value and what is allowed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from tritium import system as systems
from tritium.hooks import AutotuneListener as AutotuneListener
from tritium.hooks import CompilationListener as CompilationListener
from tritium.hooks import CompileTimes as CompileTimes
from tritium.hooks import HookChain as HookChain
from tritium.hooks import InitHandleHook as InitHandleHook
from tritium.hooks import JITHook as JITHook
from tritium.hooks import JITHookCompileInfo as JITHookCompileInfo
from tritium.hooks import LaunchHook as LaunchHook
from tritium.hooks import PipelineStagesHook as PipelineStagesHook
from tritium.system.interface import System

T = TypeVar("T")
G = TypeVar("G", bound="base_knobs")

propagate_env: bool = True
"""True if assigning to a setting also writes its environment variable."""


class Env:
    """The type of `env`: the marker that returns a setting to its environment variable."""

    def __repr__(self) -> str:
        return "knobs.env"


env = Env()

TRUE_WORDS = ("1", "true", "yes", "on", "y")
FALSE_WORDS = ("0", "false", "no", "off", "n", "")


def getenv(key: str, default: str | None = None) -> str | None:
    """The environment variable `key`, without surrounding spaces; `default` when it is unset."""
    value = os.environ.get(key)
    return default if value is None else value.strip()


def setenv(key: str, value: str | None) -> None:
    """Set the environment variable `key`, or remove it for None; nothing if not propagating."""
    if not propagate_env:
        return
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value


def toenv(value: object) -> str | None:
    """A setting's value as its environment variable holds it; None means unset."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    return str(value)


class env_base(ABC, Generic[T]):
    """A setting read live from the environment variable `key`; subclasses say how it is parsed."""

    def __init__(self, key: str):
        self.key = key
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, obj: None, owner: type) -> env_base[T]: ...
    @overload
    def __get__(self, obj: base_knobs, owner: type) -> T: ...
    def __get__(self, obj: base_knobs | None, owner: type) -> T | env_base[T]:
        if obj is None:
            return self
        stored = obj.__dict__
        return stored[self.name] if self.name in stored else self.get()

    def __set__(self, obj: base_knobs, value: T | Env) -> None:
        if isinstance(value, Env):
            obj.__dict__.pop(self.name, None)
            return
        value = self.check(value)
        obj.__dict__[self.name] = value
        if self.is_known_elsewhere(value):
            setenv(self.key, toenv(value))

    def is_known_elsewhere(self, value: T) -> bool:
        """True if other processes can read the value from the environment."""
        return True

    def __delete__(self, obj: base_knobs) -> None:
        obj.__dict__.pop(self.name, None)

    @abstractmethod
    def get(self) -> T:
        """The value that the environment (or else the default) gives now."""

    def check(self, value: Any) -> T:
        """The value to store for an assigned `value`; raises on one that cannot be used."""
        return value

    def bad(self, value: object, allowed: str) -> RuntimeError:
        """The error for a value that does not fit."""
        return RuntimeError(f"Unable to use {self.key}={value}: expected {allowed}")

    def text(self, value: Any) -> str:
        """An assigned string or path, as a string."""
        if not isinstance(value, (str, os.PathLike)):
            raise self.bad(repr(value), "str")
        return str(cast("str | os.PathLike[str]", value))


class env_str(env_base[str]):
    """A string; unset gives `default`."""

    def __init__(self, key: str, default: str):
        super().__init__(key)
        self.default = default

    def get(self) -> str:
        return getenv(self.key, self.default) or ""

    def check(self, value: Any) -> str:
        return self.text(value)


class env_choice(env_base["str | None"]):
    """One of a few words, or None when unset (of our own)."""

    def __init__(self, key: str, choices: tuple[str, ...]):
        super().__init__(key)
        self.choices = choices

    def get(self) -> str | None:
        return self.check(getenv(self.key) or None)

    def check(self, value: Any) -> str | None:
        if value is not None and value not in self.choices:
            raise self.bad(value, "one of " + ", ".join(self.choices))
        return value


class env_words(env_base["frozenset[str]"]):
    """Some of a few words, separated by commas (of our own)."""

    def __init__(self, key: str, choices: tuple[str, ...]):
        super().__init__(key)
        self.choices = choices

    def get(self) -> frozenset[str]:
        return self.check(getenv(self.key) or "")

    def check(self, value: Any) -> frozenset[str]:
        given = value.split(",") if isinstance(value, str) else value
        words = frozenset(word.strip() for word in given if word.strip())
        if not words <= set(self.choices):
            raise self.bad(value, "some of " + ", ".join(self.choices))
        return words


class env_str_callable_default(env_base[str]):
    """A string whose default is computed when asked for."""

    def __init__(self, key: str, default_factory: Callable[[], str]):
        super().__init__(key)
        self.default_factory = default_factory

    def get(self) -> str:
        value = getenv(self.key)
        return self.default_factory() if value is None else value

    def check(self, value: Any) -> str:
        return self.text(value)


class env_opt_str(env_base["str | None"]):
    """A string, or None when unset."""

    def get(self) -> str | None:
        return getenv(self.key)

    def check(self, value: Any) -> str | None:
        return None if value is None else self.text(value)


class env_bool(env_base[bool]):
    """A truth value: `1 true yes on y` or `0 false no off n` in any case, or empty for False."""

    def __init__(self, key: str, default: bool = False):
        super().__init__(key)
        self.default = default

    def get(self) -> bool:
        text = getenv(self.key)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> bool:
        """The truth value that `text` spells."""
        if text.lower() in TRUE_WORDS:
            return True
        if text.lower() in FALSE_WORDS:
            return False
        words = "/".join(TRUE_WORDS), "/".join(w for w in FALSE_WORDS if w)
        raise self.bad(text, f"bool ({words[0]} or {words[1]})")

    def check(self, value: Any) -> bool:
        return self.parse(value) if isinstance(value, str) else bool(value)


class env_opt_bool(env_base["bool | None"]):
    """A truth value, or None when unset."""

    def get(self) -> bool | None:
        text = getenv(self.key)
        return None if text is None else env_bool(self.key).parse(text)


class env_int(env_base[int]):
    """An integer, at least `minimum` where one is given."""

    def __init__(self, key: str, default: int = 0, minimum: int | None = None):
        super().__init__(key)
        self.default, self.minimum = default, minimum

    def get(self) -> int:
        text = getenv(self.key)
        return self.default if not text else self.check(text)

    def check(self, value: Any) -> int:
        allowed = "int" if self.minimum is None else f"int of at least {self.minimum}"
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise self.bad(value, allowed) from None
        if self.minimum is not None and number < self.minimum:
            raise self.bad(value, allowed)
        return number


class env_opt_int(env_base["int | None"]):
    """An integer, at least `minimum` where one is given, or None when unset (of our own)."""

    def __init__(self, key: str, minimum: int | None = None):
        super().__init__(key)
        self.minimum = minimum

    def get(self) -> int | None:
        return self.check(getenv(self.key) or None)

    def check(self, value: Any) -> int | None:
        return None if value is None else env_int(self.key, 0, self.minimum).check(value)


class env_count_of_cpus(env_int):
    """A number of threads or processes; unset gives the number of usable CPUs."""

    def get(self) -> int:
        return self.check(getenv(self.key) or len(system().usable_cpus()))


class env_class(env_base["type[Any] | None"]):
    """A class named `module:Class` that derives from one called `type`; None when unset."""

    def __init__(self, key: str, type: str):
        super().__init__(key)
        self.type = type

    def get(self) -> type[Any] | None:
        text = getenv(self.key)
        if not text:
            return None
        module, colon, name = text.partition(":")
        if not (module and colon and name):
            raise RuntimeError(
                f"Unable to read {self.key}: '{text}' isn't of the form MODULE:CLASS"
            )
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise RuntimeError(f"Unable to use '{text}' from {self.key}: {error}") from error
        return self._derived(found, text)

    def check(self, value: Any) -> type[Any] | None:
        return None if value is None else self._derived(value, toenv(value))

    def is_known_elsewhere(self, value: type[Any] | None) -> bool:
        named = value is None or "<locals>" not in value.__qualname__
        return named and getattr(value, "__module__", "") != "__main__"

    def _derived(self, value: Any, text: str | None) -> type[Any]:
        bases = value.__mro__ if isinstance(value, type) else ()
        if not any(base.__name__ == self.type for base in bases):
            raise RuntimeError(f"Unable to use '{text}' from {self.key}: not of type '{self.type}'")
        return value


@dataclass(frozen=True)
class NvidiaTool:
    """A program of the CUDA toolkit: where it is and which version (`12.8`) it reports."""

    path: str
    version: str

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def from_path(path: str) -> NvidiaTool | None:
        """The tool at `path`, or None when that is not a program that reports a version."""
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            return None
        import subprocess  # which bundles start without

        try:
            done = subprocess.run([path, "--version"], capture_output=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        version = re.search(r"release (\d+\.\d+)", done.stdout.decode(errors="replace"))
        return NvidiaTool(path, version[1]) if version else None


@functools.cache
def _packaged_tools(binary: str) -> list[str]:
    """The places of a CUDA tool in PyPI packages of NVIDIA."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or ()) if spec else ()
    return [str(p) for r in roots for p in sorted(Path(r).glob(f"*/bin/{binary}"), reverse=True)]


def _nvidia_tool_candidates(binary: str) -> Iterator[str]:
    """The places of a CUDA tool: PyPI packages of NVIDIA, `CUDA_HOME`, `PATH`, the usual prefix."""
    yield from _packaged_tools(binary)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := getenv(variable):
            yield os.path.join(home, "bin", binary)
    import shutil  # as above

    if found := shutil.which(binary):
        yield found
    yield f"/usr/local/cuda/bin/{binary}"


class env_nvidia_tool(env_base["NvidiaTool | None"]):
    """A CUDA tool: the program that the variable names, else the best one installed.

    None where there is none at all. Assigning a path at which there is no such tool falls back
    to an installed one, and raises `RuntimeError` if there is none.
    """

    def __init__(self, binary: str, key: str = ""):
        name = binary.upper().replace("-", "_")
        super().__init__(key or f"TRITON_{name}_PATH")
        self.binary = binary + (".exe" if sys.platform == "win32" else "")

    def get(self) -> NvidiaTool | None:
        return self.find(getenv(self.key))

    def find(self, path: str | None) -> NvidiaTool | None:
        """The tool at `path`, or else an installed one."""
        for candidate in itertools.chain((path,), _nvidia_tool_candidates(self.binary)):
            if candidate and (tool := NvidiaTool.from_path(candidate)):
                return tool
        return None

    def check(self, value: Any) -> NvidiaTool | None:
        if value is None or isinstance(value, NvidiaTool):
            return value
        if tool := self.find(str(value)):
            return tool
        allowed = f"the path of {self.binary} (there is none installed to fall back to either)"
        raise self.bad(value, allowed)

    def __set__(self, obj: base_knobs, value: NvidiaTool | str | Env | None) -> None:
        if isinstance(value, Env):
            obj.__dict__.pop(self.name, None)
            return
        obj.__dict__[self.name] = tool = self.check(value)
        setenv(self.key, tool.path if tool else None)


class base_knobs:
    """A group of settings. Besides the descriptors, plain class attributes hold hooks."""

    hooks: ClassVar[tuple[str, ...]] = ()
    """The names of those: a function each, or None."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.hooks and value is not None and not callable(value):
            group = type(self).__name__.removesuffix("_knobs")
            raise TypeError(f"knobs.{group}.{name} is {value!r}; a function is required")
        super().__setattr__(name, value)

    @property
    def knob_descriptors(self) -> dict[str, env_base[Any]]:
        """The settings of this group by name."""
        return dict(_descriptors(type(self)))

    @property
    def knobs(self) -> dict[str, Any]:
        """The current values by name."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self: G) -> G:
        """An independent group with the same assigned values and hooks."""
        other = type(self)()
        for name, value in self.__dict__.items():
            other.__dict__[name] = value.copy() if isinstance(value, HookChain) else value
        return other

    def reset(self: G) -> G:
        """Return every setting to its environment variable."""
        for name in self.knob_descriptors:
            self.__dict__.pop(name, None)
        return self

    @contextmanager
    def scope(self) -> Generator[None, None, None]:
        """Restore values, hooks and the environment variables of this group at the end."""
        keys = [knob.key for knob in _descriptors(type(self)).values()]
        values, before = dict(self.__dict__), {key: os.environ.get(key) for key in keys}
        hooks: list[Any] = [v for v in values.values() if isinstance(v, HookChain)]
        chains: list[tuple[list[Any], list[Any]]] = [(h.calls, list(h.calls)) for h in hooks]
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(values)
            for calls, saved in chains:
                calls[:] = saved
            for key, value in before.items():
                if os.environ.get(key) == value:
                    continue
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value


@functools.cache
def _descriptors(group: type[base_knobs]) -> dict[str, env_base[Any]]:
    """The settings that a group and its bases declare, by name."""
    return {
        name: value
        for cls in reversed(group.__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, env_base)
    }


class build_knobs(base_knobs):
    """Building of native helper modules."""

    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")

    hooks = ("impl",)
    impl: Callable[..., str] | None = None
    """Replaces the compiler: (name, src, srcdir, library_dirs, include_dirs, libraries, ...)."""

    @property
    def backend_dirs(self) -> set[str]:
        """The CUDA include directories that were set."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path}


class redis_knobs(base_knobs):
    """The Redis remote cache."""

    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)
    timeout_ms = env_int("TRITIUM_REDIS_TIMEOUT_MS", 1000, minimum=1)
    """Milliseconds to wait for an answer, after which the cache is local (of our own)."""


class cache_knobs(base_knobs):
    """Settings of the caches: the folders of compiled kernels, dumps and overrides, and the classes
    that keep them."""

    home_dir = env_str_callable_default("TRITON_HOME", lambda: os.path.expanduser("~"))
    dump_dir = env_str_callable_default("TRITON_DUMP_DIR", lambda: cache.get_triton_dir("dump"))
    override_dir = env_str_callable_default(
        "TRITON_OVERRIDE_DIR", lambda: cache.get_triton_dir("override")
    )
    dir = env_str_callable_default("TRITON_CACHE_DIR", lambda: cache.get_triton_dir("cache"))
    manager_class = env_class("TRITON_CACHE_MANAGER", "CacheManager")
    remote_manager_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend")

    def get_triton_dir(self, dirname: str) -> str:
        """`<home_dir>/.triton/<dirname>`."""
        return os.path.join(self.home_dir, ".triton", dirname)


class compilation_knobs(base_knobs):
    """Compilation: what is dumped, replaced, forced and reported."""

    override = env_bool("TRITON_KERNEL_OVERRIDE")
    dump_ir = env_bool("TRITON_KERNEL_DUMP")
    dump_ir_extract_di_local_variables = env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES")
    store_binary_only = env_bool("TRITON_STORE_BINARY_ONLY")
    always_compile = env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc = env_choice("USE_IR_LOC", ("ttir", "ttgir"))
    enable_asan = env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "")
    fpsan_homomorphic_casts = env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS")
    # Variables that the reference reads outside of its knobs.
    dump_passes = env_opt_str("MLIR_ENABLE_DUMP")
    dump_passes_path = env_opt_str("MLIR_DUMP_PATH")
    dump_llvm = env_bool("LLVM_IR_ENABLE_DUMP")
    disable_llvm_opt = env_opt_str("DISABLE_LLVM_OPT")
    pass_timing = env_bool("MLIR_ENABLE_TIMING")
    llvm_timing = env_bool("LLVM_ENABLE_TIMING")
    llvm_pass_plugin = env_opt_str("LLVM_PASS_PLUGIN_PATH")
    llvm_debug = env_bool("TRITON_ENABLE_LLVM_DEBUG")
    llvm_debug_only = env_opt_str("TRITON_LLVM_DEBUG_ONLY")
    reproducer_path = env_opt_str("TRITON_REPRODUCER_PATH")
    diagnostics = env_words(
        "MLIR_ENABLE_DIAGNOSTICS", ("warnings", "remarks", "operations", "stacktraces")
    )
    remark = env_bool("MLIR_ENABLE_REMARK")
    """The former name of the diagnostic `remarks`."""

    hooks = ("listener",)
    listener: CompilationListener | None = None


class autotuning_knobs(base_knobs):
    """Autotuning."""

    cache = env_bool("TRITON_CACHE_AUTOTUNING")
    print = env_bool("TRITON_PRINT_AUTOTUNING")
    # Settings that the reference lacks.
    workers = env_count_of_cpus("TRITIUM_AUTOTUNE_WORKERS", minimum=0)
    """The number of processes that compile configurations; below 2 this process does, one after
    another."""
    timeout = env_int("TRITIUM_AUTOTUNE_TIMEOUT", 60, minimum=1)
    """Seconds that compiling a configuration may take, or running it for the first time."""
    progress = env_choice("TRITIUM_AUTOTUNE_PROGRESS", ("on", "off"))
    """Show what tuning is doing; by default on a terminal alone."""

    hooks = ("listener",)
    listener: AutotuneListener | None = None


class runtime_knobs(base_knobs):
    """Launching."""

    interpret = env_bool("TRITON_INTERPRET")
    debug = env_bool("TRITON_DEBUG")
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    use_cpu = env_bool("TRITON_CPU_BACKEND")
    """Make the CPU the active target even where there is a GPU."""
    default_backend = env_opt_str("TRITON_DEFAULT_BACKEND")
    """The backend that launches, by name (`cpu`, `nvidia`, `amd`, a plug-in's), instead of the one
    that is found. It goes before `use_cpu`."""
    cpu_threads = env_count_of_cpus("TRITIUM_NUM_THREADS", minimum=1)
    """The number of threads that run a grid on the CPU; by default one for each usable CPU (of our
    own)."""

    crash_reports = env_bool("TRITIUM_CRASH_REPORTS", True)
    """Name the kernel that accesses memory of nobody, on the CPU under Linux (of our own)."""
    portable = env_bool("TRITIUM_PORTABLE")
    """Use no interface of Linux alone, to test what macOS and Windows get (of our own); to be set
    before the first launch."""

    hooks = (
        "launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook",
        "kernel_unload_hook", "jit_cache_hook", "jit_post_compile_hook",
        "add_stages_inspection_hook",
    )  # fmt: skip
    launch_enter_hook: HookChain[LaunchHook] | LaunchHook | None
    launch_exit_hook: HookChain[LaunchHook] | LaunchHook | None
    kernel_load_start_hook: HookChain[InitHandleHook] | InitHandleHook | None
    kernel_load_end_hook: HookChain[InitHandleHook] | InitHandleHook | None
    kernel_unload_hook: HookChain[InitHandleHook] | InitHandleHook | None
    jit_cache_hook: JITHook | None = None
    jit_post_compile_hook: JITHook | None = None
    add_stages_inspection_hook: PipelineStagesHook | None = None

    def __init__(self) -> None:
        self.launch_enter_hook = HookChain()
        self.launch_exit_hook = HookChain(reversed=True)
        self.kernel_load_start_hook = HookChain()
        self.kernel_load_end_hook = HookChain(reversed=True)
        self.kernel_unload_hook = HookChain()


class language_knobs(base_knobs):
    """Defaults of the language."""

    fp32_default = env_choice("TRITON_F32_DEFAULT", ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"))
    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", True)
    force_disable_fp_fusion = env_bool("TRITON_FORCE_DISABLE_FP_FUSION")
    """Never fuse multiplications and additions, whatever a launch says."""

    def fp_fusion_enabled(self, requested: bool | None) -> bool:
        """True if a launch that asks for `requested` (None: for nothing) fuses."""
        wanted = self.default_fp_fusion if requested is None else requested
        return bool(wanted) and not self.force_disable_fp_fusion


class nvidia_knobs(base_knobs):
    """The NVIDIA backend: tools, libraries, assembler options."""

    cuobjdump = env_nvidia_tool("cuobjdump")
    nvdisasm = env_nvidia_tool("nvdisasm")
    ptxas = env_nvidia_tool("ptxas")
    ptxas_blackwell = env_nvidia_tool("ptxas", "TRITON_PTXAS_BLACKWELL_PATH")

    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP")
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG")
    disable_ptxas_opt = env_bool("DISABLE_PTXAS_OPT")
    ptxas_options = env_opt_str("PTXAS_OPTIONS")
    ptxas_timeout = env_int("TRITIUM_PTXAS_TIMEOUT", 600, minimum=0)
    """Seconds that ptxas may take for a kernel; 0 for no limit (of our own)."""
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH")
    # Variables that the reference reads outside of its knobs.
    override_ptx_version = env_opt_int("TRITON_OVERRIDE_PTX_VERSION")
    disable_mma_v3 = env_bool("DISABLE_MMA_V3")
    disable_mma_v5 = env_bool("DISABLE_MMA_V5")
    auto_warp_specialize = env_bool("TRITIUM_AUTO_WARP_SPECIALIZE", True)
    """Give copies a warp of their own in loops that do not ask for it, where it pays."""
    mbarrier_timeout = env_int("TRITIUM_MBARRIER_TIMEOUT", 0, minimum=0)
    """Milliseconds after which a kernel that waits for an mbarrier ends with an error that has the
    line; 0 for never. Where a kernel hangs, that is the way to find where."""


class amd_knobs(base_knobs):
    """The AMD backend."""

    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    buffer_ops_analyze_small_tensor_range = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE")
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    lld_path = env_opt_str("TRITON_HIP_LLD_PATH")
    objdump_path = env_opt_str("TRITIUM_LLVM_OBJDUMP_PATH")
    assembler = env_opt_str("TRITIUM_AMD_ASSEMBLER")
    """The path of a clang that assembles inline assembly, and `amdgcn` from files."""
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_bool("TRITON_HIP_USE_ASYNC_COPY")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")
    codegen_path = env_opt_str("TRITON_AMD_CODEGEN_PATH")
    use_coexec_scheduler = env_opt_bool("TRITON_HIP_USE_COEXEC_SCHEDULER")
    use_expert_scheduling = env_opt_bool("TRITON_HIP_USE_EXPERT_SCHEDULING")
    dump_mir = env_opt_str("TRITON_DUMP_MIR")
    swap_mir = env_opt_str("TRITON_SWAP_MIR")
    swap_mir_enable_misched = env_bool("TRITON_SWAP_MIR_ENABLE_MISCHED")


class proton_knobs(base_knobs):
    """The profiler."""

    disable = env_bool("TRITON_PROTON_DISABLE")
    cupti_lib_dir = env_str("TRITON_CUPTI_LIB_PATH", "")
    cupti_lib_blackwell_dir = env_str("TRITON_CUPTI_LIB_BLACKWELL_PATH", "")
    hsa_runtime_path = env_opt_str("TRITON_HSA_RUNTIME_PATH")
    hsa_runtime_library = env_opt_str("TRITON_HSA_RUNTIME_LIBRARY")
    rocprofiler_sdk_include_path = env_opt_str("TRITON_ROCPROFILER_SDK_INCLUDE_PATH")
    rocprofiler_sdk_lib_path = env_opt_str("TRITON_ROCPROFILER_SDK_LIB_PATH")
    rocprofiler_sdk_library = env_opt_str("TRITON_ROCPROFILER_SDK_LIBRARY")
    roctracer_lib_path = env_opt_str("TRITON_ROCTRACER_LIB_PATH")
    roctracer_library = env_opt_str("TRITON_ROCTRACER_LIBRARY")
    roctx_lib_path = env_opt_str("TRITON_ROCTX_LIB_PATH")
    roctx_library = env_str("TRITON_ROCTX_LIBRARY", "libroctx64.so")
    profile_buffer_size = env_int("TRITON_PROFILE_BUFFER_SIZE", 64 * 1024 * 1024)
    profile_metric_buffer_size = env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 64 * 1024 * 1024)
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True)
    enable_hw_trace = env_bool("TRITON_ENABLE_HW_TRACE")


def system() -> System:
    """The operating system's interfaces (see `tritium.system`)."""
    return systems.system(runtime.portable)


CACHE_INVALIDATING: tuple[str, ...] = (
    "AMDGCN_ENABLE_DUMP", "AMDGCN_SCALARIZE_PACKED_FOPS", "AMDGCN_USE_BUFFER_ATOMICS",
    "AMDGCN_USE_BUFFER_OPS", "DISABLE_LLVM_OPT", "DISABLE_MMA_V3", "DISABLE_MMA_V5",
    "DISABLE_PTXAS_OPT", "LLVM_EXTRACT_DI_LOCAL_VARIABLES", "LLVM_IR_ENABLE_DUMP",
    "LLVM_ENABLE_TIMING", "LLVM_PASS_PLUGIN_PATH", "MLIR_ENABLE_DIAGNOSTICS", "MLIR_ENABLE_DUMP",
    "MLIR_ENABLE_REMARK", "MLIR_ENABLE_TIMING", "NVPTX_ENABLE_DUMP", "PTXAS_OPTIONS",
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_DEFAULT_FP_FUSION",
    "TRITON_DISABLE_LINE_INFO", "TRITON_ENABLE_ASAN", "TRITON_F32_DEFAULT",
    "TRITON_FORCE_DISABLE_FP_FUSION", "TRITON_FPSAN_HOMOMORPHIC_CASTS",
    "TRITON_HIP_LLD_PATH", "TRITON_HIP_USE_ASYNC_COPY", "TRITON_HIP_USE_BLOCK_PINGPONG",
    "TRITON_HIP_USE_IN_THREAD_TRANSPOSE", "TRITON_INSTRUMENTATION_MODE", "TRITON_LIBDEVICE_PATH",
    "TRITON_OVERRIDE_ARCH", "TRITON_OVERRIDE_PTX_VERSION", "USE_IR_LOC",
    "TRITIUM_AUTO_WARP_SPECIALIZE", "TRITIUM_MBARRIER_TIMEOUT",
)  # fmt: skip
"""The variables whose values change what is compiled (or printed while compiling)."""


def variables() -> set[str]:
    """The names of all variables that settings are read from."""
    groups = base_knobs.__subclasses__()
    return {v.key for group in groups for v in vars(group).values() if isinstance(v, env_base)}


def cache_invalidating_env() -> dict[str, str]:
    """The variables of `CACHE_INVALIDATING` that are set, with their values: a part of every
    kernel's cache key."""
    found = {key: getenv(key) for key in CACHE_INVALIDATING}
    return {key: value for key, value in found.items() if value is not None}


def places(group: base_knobs, name: str) -> list[tuple[dict[Any, Any], Any]]:
    """The dicts, with their keys, that decide what the setting `name` of one of the groups here
    is: as long as these items are the same objects (or absent), so is the setting. (Groups, and
    `os.environ` itself, may be replaced.)"""
    mine = next(key for key, value in globals().items() if value is group)
    variable, variables = group.knob_descriptors[name].key, cast("Any", os.environ)
    module: Any = vars(os)
    found: list[tuple[dict[Any, Any], Any]] = [
        (globals(), mine), (vars(group), name), (module, "environ"),
    ]  # fmt: skip
    if isinstance(variables, dict):
        return [*found, (cast("dict[Any, Any]", variables), variable)]
    return [*found, (variables._data, variables.encodekey(variable))]


def child_environment(**changes: str | None) -> dict[str, str]:
    """A copy of the environment for a child process, with variables set (or removed: None)."""
    merged = {**os.environ, **changes}
    return {key: value for key, value in merged.items() if value is not None}


build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()


def refresh_knobs() -> None:
    """Read again whatever is computed once: here only the versions of tools."""
    NvidiaTool.from_path.cache_clear()
