"""Base classes of backends: compilation (`BaseBackend`), launching (`DriverBase`), and how
backends are found.

A backend is a package with two modules, `compiler` and `driver`, each defining exactly one concrete
subclass. Tritium's own are known by name; others are found through the entry-point groups
`tritium.backends` and `triton.backends` (name = package).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import inspect
import json
import operator
import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol, cast

from tritium import knobs
from tritium.cache import CachedObjects
from tritium.errors import OutOfResources
from tritium.language.emitter import TargetFeatures
from tritium.ops.attributes import DIVISIBILITY, PADDING
from tritium.sanitize.kinds import EXACT
from tritium.target import GPUTarget, Processor, provide_processors

Stage = Callable[[Any, dict[str, Any]], Any]


def unchanged(module: Any, facts: dict[str, Any]) -> Any:
    """A stage that leaves a module as it is."""
    return module


def stage_method(stage: str) -> Callable[..., Any]:
    """The method `make_...` of backends that runs one stage: stages that hooks put in place call
    it. `capability` is accepted for the reference's sake."""

    def make(
        self: BaseBackend, src: Any, metadata: dict[str, Any], options: Any, capability: Any = None
    ) -> Any:
        stages: dict[str, Stage] = {}
        self.add_stages(stages, options)
        return stages[stage](src, metadata)

    make.__name__, make.__doc__ = f"make_{stage}", f"The result of the stage {stage}."
    return make


MOST_THREADS = 1024
"""The threads of a GPU's thread block (workgroup) at the most."""


class Language(Enum):
    """The languages in which kernels are written."""

    TRITON = 0
    GLUON = 1


class BaseBackend(ABC):
    """Compiles kernels for the targets it supports.

    `binary_ext` names the last stage, whose result is bytes; the others are text or IR.
    """

    supports_native_tensor_specialization = True
    """True if tensors are specialized for alignment, without asking `get_tensor_specialization`."""
    binary_ext: ClassVar[str] = "bin"
    make_ttir, make_llir = stage_method("ttir"), stage_method("llir")

    def __init__(self, target: GPUTarget):
        assert self.supports_target(target), f"{type(self).__name__} does not support {target}"
        self.target = target

    @staticmethod
    @abstractmethod
    def supports_target(target: GPUTarget) -> bool:
        """True if this backend compiles for `target`."""

    @abstractmethod
    def hash(self) -> str:
        """The part of a cache key that identifies the backend's tools and target."""

    @abstractmethod
    def parse_options(self, options: dict[str, Any]) -> Any:
        """A frozen options value (with `hash()`) from keyword options; unknown ones are ignored.

        Raises `ValueError` for a bad value.
        """

    @abstractmethod
    def add_stages(
        self, stages: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        """Fill in the stages, in order: name (and file extension) -> function of the previous
        stage's result and the metadata, which it may extend."""

    def load_dialects(self, context: Any) -> None:
        """Register further dialects with an IR context; Tritium's own are known to all."""
        return None

    @staticmethod
    def processor(target: GPUTarget) -> Processor:
        """The facts about a GPU that passes over ttgir ask for."""
        raise NotImplementedError(f"no passes over ttgir are built for {target.backend}")

    def get_module_map(self) -> Mapping[str, ModuleType]:
        """Replacements of modules of the language (`triton.language.extra.libdevice`)."""
        return {}

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Functions that decide for the target: `min_dot_size(lhs type, rhs type)`."""
        return {}

    def target_features(self, options: Any) -> TargetFeatures:
        """The features that the language may use on this target: by default those of the options
        with the names of its fields, and the methods above."""
        names = {f.name for f in fields(TargetFeatures)} - {"name", "target", "modules"}
        found = {name: getattr(options, name) for name in names if hasattr(options, name)}
        if "min_dot_size" in (decided := self.get_codegen_implementation(options)):
            found["min_dot_size"] = decided["min_dot_size"]
        modules = {
            name.replace("triton.", "tritium.", 1) if name.startswith("triton.") else name: module
            for name, module in self.get_module_map().items()
        }
        target = self.target
        return TargetFeatures(name=target.backend, target=target, modules=modules, **found)

    def parse_stage(self, stage: str, text: str, options: Any) -> Any:
        """Parses a stage's stored text, so that compilation can continue from it: ttir, glir and
        ttgir give modules. Raises `ValueError` for what is no result of the stage."""
        if stage in ("ttir", "glir", "ttgir"):
            # Here, because a process that finds its kernels in the cache needs no ops.
            from tritium.ops.parsing import parse_module

            return parse_module(text, "<override>")
        return text

    def stage_module(self, stage: str, text: str, path: str) -> Any:
        """The ops, a module, that the text of a stage other than ttir and ttgir, from the file
        `path`, holds; None for a stage whose text holds none."""
        return None

    late_stages: ClassVar[tuple[str, ...]] = ()
    last_module: ClassVar[str] = ""
    """The stage whose module the stages behind it leave as it is: its text can be made later."""
    """Stages whose text is not stored, but made when it is asked for (one of `asm_views`)."""

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        """Further texts that `kernel.asm` has: name -> function of the stages' results."""
        return {}

    def without_effect(self, options: Any) -> frozenset[str]:
        """The options that make no difference to code, unless the kernel itself asks for them."""
        return frozenset()

    def pack_metadata(self, metadata: Any) -> Any:
        """The part of the metadata that the launcher takes."""
        return metadata

    @staticmethod
    def parse_attr(desc: str) -> list[list[Any]]:
        """Attributes of an argument from its specialization ("D": divisible by 16; "N": a
        descriptor that reads NaN outside of its bounds)."""
        if "N" in desc:
            return [[PADDING, "nan"]]
        return [[DIVISIBILITY, 16]] if "D" in desc else []

    @staticmethod
    def get_int_specialization(arg: int, **kwargs: Any) -> str:
        """The specialization of an integer argument."""
        return "D" if kwargs.get("align") and arg % 16 == 0 else ""

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        """The specialization of a tensor argument."""
        return "D" if kwargs.get("align") and arg.data_ptr() % 16 == 0 else ""


LAUNCH_OPTIONS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "ptx_version", "ptx_options",
    "ir_override", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "extern_libs",
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "allow_flush_denorm",
    "enable_reflect_ftz", "debug", "sanitize_overflow", "arch", "warp_size",
    "instrumentation_mode", "backend_name",
    "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision",
    "allowed_dot_input_precisions", "max_num_imprecise_acc_default", "minRegAutoWS",
    "maxRegAutoWS", "pingpongAutoWS", "allow_fp8e4nv", "num_buffers_warp_spec",
    "num_consumer_groups", "reg_dec_producer", "reg_inc_consumer", "clc", "sched4reg",
    "min_shared_mem", "fpsan_homomorphic_casts", "llvm_fn_attrs", "wgp_cu_mode",
})  # fmt: skip
"""Options of some backend or release; each backend takes those that it knows."""


def unknown_keyword(name: str, kernel: str, parameters: Iterable[str]) -> KeyError:
    """The error for a keyword of a launch that is neither a parameter nor an option."""
    return KeyError(
        f"Keyword argument {name} was specified but unrecognised; the parameters of {kernel} are "
        f"{', '.join(parameters)}"
    )


def option_values(options_class: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the fields of a frozen options class from a launch's keywords.

    Unknown names are left out, and counts that are None, so that their defaults hold. Integers of
    other types (NumPy's) become ints, lists tuples, and linked libraries (name -> path) sorted
    pairs. The knob decides on `enable_fp_fusion` where the launch does not. Raises `TypeError`.
    """
    known: dict[str, Any] = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in given.items()
        if name in options_class.__dataclass_fields__
    }
    for name in ("num_warps", "num_stages", "num_ctas", "enable_fp_fusion"):
        if known.get(name, 0) is None:
            del known[name]
    for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
        if name in known and hasattr(known[name], "__index__"):
            known[name] = operator.index(known[name])
    wanted = known.get("enable_fp_fusion")
    known["enable_fp_fusion"] = knobs.language.fp_fusion_enabled(wanted)
    known["instrumentation_mode"] = instrumentation(
        known.get("instrumentation_mode"), getattr(options_class, "instrumentations", ())
    )
    try:
        libraries: dict[str, str] = dict(known.get("extern_libs") or ())
    except (TypeError, ValueError):
        wrong = f"extern_libs is {known['extern_libs']!r}"
        raise TypeError(f"{wrong}; a dict of names and paths is required") from None
    known["extern_libs"] = tuple(sorted(libraries.items()))
    return known


SANITIZERS = ("bounds", "races", "fp", "unwritten")
"""Checks that are built for some backend."""

PROFILES = ("default", "mma")
"""The profiler's modes of instrumentation."""

REFERENCE_CHECKS = {
    "gsan": ("races", ""),
    "consan": ("races", "on GPUs tensor memory, and shared memory of clusters and of kernels "
               "that are not Gluon's, are not watched"),
    "iisan": ("bounds", "the alignment of descriptors is not checked"),
    "fpsan": ("exact", ""),
}  # fmt: skip
"""The check that stands for one of the reference's, by its name, and what it does not check."""

INSTRUMENTATIONS = (*SANITIZERS, EXACT, *REFERENCE_CHECKS, *PROFILES)
"""The sanitizer's checks, exact numbers, those of the reference, and the profiler's two, which have
options."""


def instrumentation(mode: Any, built: Sequence[str]) -> str:
    """The instrumentation that a launch asks for, or the setting (where `mode` is None): names of
    `INSTRUMENTATIONS`, with commas. Raises `ValueError` for an unknown one, `NotImplementedError`
    for one that is not among those `built` for the backend. `TRITON_ENABLE_ASAN` asks for `bounds`.
    """
    mode = knobs.compilation.instrumentation_mode if mode is None else mode
    if not isinstance(mode, str):
        raise TypeError(f"instrumentation_mode is {mode!r}; a string is required")
    profiled = mode.partition(":")[0] in PROFILES  # whose options have commas
    names = [mode] if profiled else [name.strip() for name in mode.split(",") if name.strip()]
    unknown = [name for name in names if name.split(":")[0] not in INSTRUMENTATIONS]
    if unknown and ":" not in mode:
        raise ValueError(
            f"TRITON_INSTRUMENTATION_MODE (or a launch's instrumentation_mode) is {mode!r}; "
            f"{', '.join(unknown)} is none of {', '.join(INSTRUMENTATIONS)}"
        )
    names = list(dict.fromkeys(_built_check(name) for name in names))
    if knobs.compilation.enable_asan and "bounds" in built and "bounds" not in names:
        if profiled:
            raise NotImplementedError(f"TRITON_ENABLE_ASAN beside the instrumentation {mode}")
        names.insert(0, "bounds")
    missing = [name for name in names if name.partition(":")[0] not in built]
    if missing:
        raise NotImplementedError(
            f"the instrumentation {', '.join(missing)} (TRITON_INSTRUMENTATION_MODE, or a launch's "
            "instrumentation_mode) is not built for this backend; unset it"
            + (f", or use {', '.join(built)}" if built else "")
        )
    return ",".join(names)


def digest_of_options(options: Any) -> str:
    """A digest of a dataclass of options, and of the contents of the libraries that it names."""
    values = {f.name: getattr(options, f.name) for f in fields(options)}
    values["extern_libs"] = tuple(
        (name, hashlib.sha256(Path(path).read_bytes()).hexdigest())
        for name, path in options.extern_libs
    )
    text = "_".join(f"{name}-{value}" for name, value in sorted(values.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def _built_check(name: str) -> str:
    """The check that a name of the reference's asks for; warns of what it has not."""
    check, lack = REFERENCE_CHECKS.get(name, (name, ""))
    if lack:
        warnings.warn(f"the instrumentation {name} is {check} here: {lack}", stacklevel=2)
    return check


def check_counts(num_warps: Any = 4, num_stages: Any = 3, num_ctas: Any = 1) -> None:
    """Raise for numbers that no backend compiles for: `ValueError`, or `AssertionError` for warps
    that are no power of two."""
    given = (("num_warps", num_warps, 1), ("num_ctas", num_ctas, 1), ("num_stages", num_stages, 0))
    for name, value, least in given:
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}; an int from {least} on is required")
    if num_warps & (num_warps - 1):
        raise AssertionError(f"num_warps must be a power of 2; got {num_warps}")


def check_threads(num_warps: int, warp_size: int) -> None:
    """Raise `OutOfResources` for more threads than a block of a GPU can have."""
    if num_warps * warp_size > MOST_THREADS:
        raise OutOfResources(num_warps * warp_size, MOST_THREADS, "threads")


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """The three sizes of a grid of 1 to 3 ints. Raises `TypeError` or `ValueError`."""
    if hasattr(grid, "__index__"):
        grid = (grid,)
    if not isinstance(grid, (tuple, list)) or not 1 <= len(cast("list[Any]", grid)) <= 3:
        raise TypeError(f"the grid must be a tuple of 1 to 3 ints or a function; got {grid!r}")
    sizes = [1, 1, 1]
    for axis, size in enumerate(cast("list[Any]", grid)):
        if type(size) is not int:
            try:
                size = operator.index(size)
            except TypeError:
                raise TypeError(f"grid[{axis}] is {size!r}; an int is required") from None
        if not 0 <= size < 2**31:
            raise ValueError(f"grid[{axis}] is {size}; it must be in 0 .. 2**31-1")
        sizes[axis] = size
    return sizes[0], sizes[1], sizes[2]


class Benchmarker(Protocol):
    """Times `kernel_call`; returns milliseconds, one number for each quantile."""

    def __call__(
        self, kernel_call: Callable[[], Any], *, quantiles: list[float], **kwargs: Any
    ) -> list[float]: ...


def c_type(ty: str, pointer: str, **names: str) -> str:
    """The C type of an argument of kernel type `ty`; `names` are a driver's own, by kernel type.
    Raises `TypeError` for types that are not known."""
    if ty.startswith("*"):
        return pointer
    known = {**dict.fromkeys(("fp16", "bf16", "fp32", "fp64"), "double"),
             "i1": "int8_t", "u1": "uint8_t", **names}  # fmt: skip
    sizes = (8, 16, 32, 64)
    known |= {f"i{n}": f"int{n}_t" for n in sizes} | {f"u{n}": f"uint{n}_t" for n in sizes}
    if ty not in known:
        raise TypeError(f"kernel type {ty!r} has no C type; known are *T, {', '.join(known)}")
    return known[ty]


class DriverBase(ABC):
    """A device that kernels can be launched on."""

    shares_processors: ClassVar[bool] = False
    """Kernels run on the processors that Python runs on: beside compilations they are slower, and
    a forked child process can launch them."""

    launcher_cls: Callable[..., Any]
    """Makes a kernel's launcher: (source, metadata)."""

    tensor_is_small: ClassVar[Callable[[Any], bool] | None] = None
    """True if a tensor is of the size for which the backend specializes kernels; None where it
    specializes for no size."""

    @classmethod
    @abstractmethod
    def is_active(cls) -> bool:
        """True if the device can be used on this machine."""

    @abstractmethod
    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of an argument of kernel type `ty`."""

    @abstractmethod
    def get_current_target(self) -> GPUTarget:
        """The target of the current device."""

    @abstractmethod
    def get_active_torch_device(self) -> Any:
        """The current device as torch names it."""

    @abstractmethod
    def get_benchmarker(self) -> Benchmarker:
        """The function that times launches on this device."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Zeroed device memory for a profiled launch, where the program has set no allocator."""
        raise NotImplementedError(f"{type(self).__name__}: memory for profiled launches")

    def record_memory(self, size: int) -> Any:
        """Memory for the profiler's records inside kernels, as an array of bytes that the host and
        the device reach at one address."""
        backend = self.get_current_target().backend
        raise NotImplementedError(f"the profiler's records inside kernels for {backend!r}")

    def check_runs(self, metadata: Any) -> None:
        """Raise `RuntimeError` if a kernel was compiled for another kind of device."""
        wanted, own = metadata.target, self.get_current_target()
        if wanted.backend != own.backend:
            raise RuntimeError(
                f"kernel {metadata.name!r} is compiled for {wanted}, which the current device, "
                f"{own}, cannot run"
            )

    def make_launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        """Launches a compiled kernel; called with the grid's three sizes, the stream, the
        function that `utils.load_binary` gave, the packed metadata, the launch's metadata, the two
        hooks, and the arguments."""
        return self.launcher_cls(src, metadata)


class GPUDriver(DriverBase):
    """A driver whose devices and streams torch manages."""

    def __init__(self) -> None:
        # torch is imported by the program if it uses GPU tensors at all.
        torch = importlib.import_module("torch")
        self.get_device_capability = torch.cuda.get_device_capability
        self.get_current_device = torch.cuda.current_device
        self.set_current_device = torch.cuda.set_device
        current_stream = torch.cuda.current_stream

        def get_current_stream(index: int) -> int:
            return current_stream(index).cuda_stream

        self.get_current_stream = get_current_stream

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """Launch arguments with tensor maps in their places; none by default."""
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Zeroed bytes of torch's, filled on the launch's stream (None: the current one)."""
        torch = importlib.import_module("torch")
        device = self.get_active_torch_device()
        if stream is None:
            return torch.zeros(size, dtype=torch.int8, device=device)
        chosen = (
            torch.cuda.ExternalStream(stream, device=device) if stream
            else torch.cuda.default_stream(device)
        )  # fmt: skip
        with torch.cuda.stream(chosen):
            scratch = torch.zeros(size, dtype=torch.int8, device=device)
        if stream:
            scratch.record_stream(chosen)
        return scratch


@dataclass(frozen=True)
class Backend:
    """A backend's two classes."""

    compiler: type[BaseBackend]
    driver: type[DriverBase]


OWN_BACKENDS = {name: f"tritium.backends.{name}" for name in ("cpu", "nvidia", "amd")}
"""The packages of our own backends by name."""
_TARGETS = {"cpu": "cpu", "nvidia": "cuda", "amd": "hip"}
"""The targets of the built-in backends."""
_DISTRIBUTIONS = (".dist-info", ".egg-info", ".egg-link", ".egg")
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_GROUPS = ("tritium.backends", "triton.backends")


class _ReferenceBlocker:
    """A finder that refuses `triton` to the thread that makes it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "triton" and threading.get_ident() == self._thread:
            raise ImportError(
                "a backend for Triton works where `triton` is Tritium: call "
                "tritium.compat.install() first, or start the program with: tritium run PROGRAM",
                name=name,
            )


@contextmanager
def _without_reference(own: bool) -> Generator[None]:
    """Import a plug-in: it must not bring in an installed Triton, whose classes are not ours."""
    if own or any(getattr(finder, "is_tritium", False) for finder in sys.meta_path):
        yield
        return
    blocker: Any = _ReferenceBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        yield
    finally:
        sys.meta_path.remove(blocker)


def concrete_subclass(module: ModuleType, base: type[Any]) -> type[Any]:
    """The one concrete subclass of `base` that a module defines. Raises `RuntimeError`."""
    found = [
        value
        for value in vars(module).values()
        if getattr(value, "__module__", None) == module.__name__  # first: no aliases of typing
        and isinstance(value, type)
        and base in value.__mro__  # `issubclass` asks abstract classes, at length
        and not inspect.isabstract(value)
    ]
    if len(found) != 1:
        count = ">1" if found else "0"
        raise RuntimeError(
            f"Found {count} concrete subclasses of {base.__name__} in {module.__name__}: "
            f"{[c.__name__ for c in found]}; there must be exactly one"
        )
    return found[0]


class Backends(Mapping[str, Backend]):
    """All installed backends by name, loaded when first used."""

    def __init__(self) -> None:
        self._loaded: dict[str, Backend] = {}
        self.failures: dict[str, BaseException] = {}
        """The exceptions that imports of plug-ins raised, by plug-in name."""
        self._packages: dict[str, str] | None = None

    @property
    def packages(self) -> dict[str, str]:
        """The package of each backend."""
        if self._packages is None:
            self._packages = {**plug_ins(), **OWN_BACKENDS}
        return self._packages

    def _part(self, name: str, part: str, base: type[Any]) -> type[Any]:
        package = OWN_BACKENDS.get(name) or self.packages[name]
        with _without_reference(name in OWN_BACKENDS):
            return concrete_subclass(importlib.import_module(f"{package}.{part}"), base)

    def usable(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """The driver classes of backends by name, without the plug-ins that cannot be imported
        (see `failures`)."""
        for name in names:
            try:
                found = self.driver(name)
            except Exception as error:
                if name in OWN_BACKENDS:
                    raise
                self.failures[name] = error
            else:
                self.failures.pop(name, None)
                yield name, found

    def compilers(self, target: GPUTarget) -> list[type[BaseBackend]]:
        """The compilers of the backends that support a target, without the plug-ins that cannot be
        imported."""
        # Our own are asked by name, so that no other backend's modules are loaded.
        names = [n for n in self if _TARGETS.get(n, target.backend) == target.backend]
        found: list[type[BaseBackend]] = []
        for name in names:
            try:
                compiler = self[name].compiler
            except Exception as error:
                if name in OWN_BACKENDS:
                    raise
                self.failures[name] = error
                continue
            if compiler.supports_target(target):
                found.append(compiler)
        return found

    def driver(self, name: str) -> type[DriverBase]:
        """The driver class alone: finding a device does not need the compiler."""
        return self._part(name, "driver", DriverBase)

    def __getitem__(self, name: str) -> Backend:
        if name not in self._loaded:
            compiler = self._part(name, "compiler", BaseBackend)
            self._loaded[name] = Backend(compiler, self.driver(name))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.packages)

    def __len__(self) -> int:
        return len(self.packages)


def plug_ins() -> dict[str, str]:
    """Packages of backends that other distributions install, by name.

    Looking through all distributions takes longer than the rest of a launch from the cache, so the
    answer is kept there, for as long as no folder of `sys.path` that holds any changes.
    """
    folders = [(path, _changed(path)) for path in sys.path if _has_distributions(path)]
    key = hashlib.sha256(repr(folders).encode()).hexdigest()
    stored = CachedObjects("plug_ins")
    known = stored.load(key)
    if known is not None:
        return json.loads(known)
    found: dict[str, str] = {}
    for group in _GROUPS:
        for entry in importlib.metadata.entry_points(group=group):
            if not _is_reference(entry):
                found.setdefault(entry.name, entry.value)
    stored.save(key, json.dumps(found).encode())
    return found


def _has_distributions(path: str) -> bool:
    if path.endswith(("site-packages", "dist-packages")):
        return True
    if path == _STANDARD_LIBRARY or path.endswith("lib-dynload"):
        return False
    try:
        return any(name.endswith(_DISTRIBUTIONS) for name in os.listdir(path or "."))
    except NotADirectoryError:
        return path.endswith((".zip", ".egg", ".whl"))
    except OSError:
        return False


def _changed(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _is_reference(entry: importlib.metadata.EntryPoint) -> bool:
    """True if an entry point is that of an installed Triton, whose backends are not ours."""
    return entry.dist is not None and entry.dist.name in ("triton", "pytorch-triton")


backends = Backends()


def make_backend(target: GPUTarget) -> BaseBackend:
    """The backend for a target. Raises `RuntimeError` unless exactly one supports it, `TypeError`
    for what is no target."""
    if not isinstance(target, GPUTarget):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"make_backend: {target!r} is no GPUTarget(backend, arch, warp_size)")
    found = backends.compilers(target)
    if len(found) != 1:
        failed = "".join(
            f"; '{name}' cannot be imported: {type(error).__name__}: {error}"
            for name, error in backends.failures.items()
        )
        raise RuntimeError(
            f"{len(found)} compatible backends for target ({target.backend}) "
            f"({[c.__name__ for c in found]}). There should only be one. Installed are: "
            f"{', '.join(backends)}{failed}"
        ) from next(iter(backends.failures.values()), None)
    return found[0](target)


provide_processors(lambda target: type(make_backend(target)).processor(target))
