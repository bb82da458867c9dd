"""Compilation inputs: a kernel function with a signature, or a file of some stage's text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tritium import knobs
from tritium.backends.base import BaseBackend, Language, make_backend
from tritium.errors import CompilationError
from tritium.language.emitter import TargetFeatures
from tritium.language.jit.captured_globals import Watched
from tritium.language.jit.dependencies import digest_of_constexpr
from tritium.language.jit.function import JITCallable
from tritium.language.values.constexpr import ConstexprFunction, unwrap
from tritium.target import GPUTarget

if TYPE_CHECKING:
    from tritium.ops.view import module

ArgPath = tuple[int, ...]


def _constant_key(value: Any, watched: Watched) -> Any:
    """The part of a compile-time value in the digest: of functions, all they depend on, with
    what they read put in `watched`."""
    value = unwrap(value)
    if isinstance(value, JITCallable):
        key = value.cache_key
        watched.update(value.used_global_vals)
        return key
    if isinstance(value, ConstexprFunction):
        key, found = digest_of_constexpr(value)
        watched.update(found)
        return key
    if isinstance(value, (tuple, list)):
        members = cast("Sequence[Any]", value)
        return [type(members).__name__, *(_constant_key(v, watched) for v in members)]
    if isinstance(value, frozenset):  # whose order is each process's own
        return ["frozenset", *sorted(repr(_constant_key(v, watched)) for v in cast(Any, value))]
    return repr(value)


class Specialization(NamedTuple):
    """The argument of the function that names a kernel (`@jit(repr=...)`)."""

    signature: dict[str, Any]
    constants: dict[str, Any]


def _symbol(fn: JITCallable, name: Any) -> str:
    """The machine-code name of the kernel `name`: assemblers know letters,
    digits, _ and $ alone, and LLVM ends the process where it meets others."""
    if not isinstance(name, str):
        raise TypeError(f"{fn.__name__}: repr returned {name!r}; a str, its name, is required")
    name = name or fn.__name__
    plain = re.sub(r"[^\w$]", "_", re.sub(r"[^\x00-\x7f]", lambda c: f"_{ord(c[0]):x}", name))
    if plain[0].isdigit():
        return f"_{plain}"
    return f"{plain}_" if plain in ("_", "$", "llvm") else plain


class ASTSource:
    """A kernel function and the types of its arguments.

    Args:
        fn: the kernel.
        signature: parameter name -> type ("*fp32", "i32", "constexpr", nested tuples).
        constexprs: values of the constexpr parameters: name or path -> value.
        attrs: attributes of arguments: path -> [[name, value], ...].

    Raises: `TypeError` for keys or types of the wrong kind.
    """

    language = Language.TRITON
    ext = "ttir"
    asked_options: Sequence[str] = ()
    """The launch's options that the kernel asked for, known once its module is generated."""

    def __init__(
        self,
        fn: JITCallable,
        signature: Mapping[str, Any] | str,
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[ArgPath, Sequence[Sequence[Any]]] | None = None,
    ):
        if not isinstance(fn, JITCallable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"ASTSource: fn is {fn!r}; a function decorated with @jit is required")
        self.fn = fn
        self.name = fn.__name__
        if isinstance(signature, str):
            types = [s.strip() for s in signature.split(",")]
            if len(types) > len(fn.arg_names):
                raise TypeError(
                    f"{self.name}: the signature has {len(types)} types for "
                    f"{len(fn.arg_names)} parameters"
                )
            signature = dict(zip(fn.arg_names, types, strict=False))
        if not all(isinstance(cast(Any, name), str) for name in signature):
            raise TypeError("Signature keys must be string")
        unknown = [name for name in signature if name not in fn.arg_names]
        if unknown:
            raise TypeError(f"{self.name} has no parameter named {unknown[0]!r}")
        constants = {self._path(k): v for k, v in (constexprs or {}).items()}
        for path in constants:
            if not path or not 0 <= path[0] < len(fn.arg_names):
                count = len(fn.arg_names)
                raise TypeError(f"{self.name} has no parameter {path}: it has {count}")
        self.constants = constants
        self.attrs = {tuple(k): [list(v) for v in vs] for k, vs in (attrs or {}).items()}
        self.signature = {name: signature.get(name, "constexpr") for name in fn.arg_names}
        missing = [
            name
            for i, name in enumerate(fn.arg_names)
            if self.signature[name] == "constexpr" and (i,) not in constants
        ]
        for name in missing:
            param = next(p for p in fn.params if p.name == name)
            if not param.has_default:
                raise TypeError(f"{self.name}: no type and no constant for parameter {name!r}")
            constants[(param.num,)] = param.default
        names = fn.arg_names
        named = {names[path[0]]: v for path, v in constants.items() if len(path) == 1}
        self.entry = _symbol(fn, fn.repr(Specialization(dict(self.signature), named)))

    def _path(self, key: Any) -> ArgPath:
        if isinstance(key, str):
            if key not in self.fn.arg_names:
                raise TypeError(f"{self.name} has no parameter named {key!r}")
            return (self.fn.arg_names.index(key),)
        return (key,) if isinstance(key, int) else tuple(key)

    def hash(self) -> str:
        """A digest of the source, the signature, the constants and the attributes."""
        fn, watched = self.fn, Watched()
        key = fn.cache_key
        constants = [(p, _constant_key(v, watched)) for p, v in sorted(self.constants.items())]
        if not watched.keys() <= fn.used_global_vals.keys():
            fn.used_global_vals = {**watched, **fn.used_global_vals}
        parts = [
            self.entry,
            key,
            f"{getattr(fn, 'version', None)!r} {fn.noinline}",
            repr(list(self.signature.items())),
            repr(constants),
            repr(self.attrs),
        ]
        return hashlib.sha256("-".join(parts).encode()).hexdigest()

    def features(self, backend: BaseBackend, options: Any) -> TargetFeatures:
        """The features of the target that the language may use."""
        return backend.target_features(options)

    def generate(self, backend: BaseBackend, options: Any) -> Any:
        """The module of `tt` functions. Raises `CompilationError`."""
        # Here, because a process that finds its kernels in the cache never needs the frontend.
        from tritium.frontend.module import compile_function
        from tritium.frontend.tracebacks import hide_frontend_frames
        from tritium.frontend.visitor import FrontendOptions

        frontend = FrontendOptions(
            allow_non_constexpr_globals=knobs.compilation.allow_non_constexpr_globals,
            debugging=knobs.compilation.front_end_debugging,
        )
        features = self.features(backend, options)
        # What the frontend reads now must be what the digest, under which it is kept, says.
        self.fn.check_globals()
        try:
            module = compile_function(
                self.fn, self.signature, self.constants, self.attrs, features, frontend, self.entry
            )
            self.asked_options = sorted(features.asked)
            return module
        except CompilationError as error:
            if not frontend.debugging:
                hide_frontend_frames(error)
            raise error

    def make_ir(
        self, target: GPUTarget, options: Any, codegen_fns: Any, module_map: Any, context: Any
    ) -> module:
        """The module as `libtriton.ir` shows it, for programs that look into kernels.

        Args:
            target: what to compile for.
            options: what that target's backend parsed.
            codegen_fns, module_map, context: as the reference has them; the backend knows the
                first two, and a module does not depend on the context it was made in.

        Raises `CompilationError`.
        """
        from tritium.ops.view import module

        return module(self.generate(make_backend(target), options))

    def parse_options(self) -> dict[str, Any]:
        """Options that the source itself fixes."""
        return {}


_THREADS = {
    "llir": re.compile(r'"nvvm\.(?:req|max)ntid"="(\d+)'),
    "ptx": re.compile(r"^\s*\.(?:req|max)ntid\s+(\d+)", re.MULTILINE),
}
"""The text with which files of later stages state the number of threads of a block."""
_BLOCKS = {
    "llir": re.compile(r'"nvvm\.cluster_dim"="(\d+)'),
    "ptx": re.compile(r"^\s*\.reqnctapercluster\s+(\d+)", re.MULTILINE),
}
"""The text with which they state the number of blocks of a program."""
_POINTER = re.compile(r"^!tt\.ptr<(.*?)(?:, \d+)?>$")
ENTRY = {
    "llir": re.compile(r"^define (?!internal|private)[^@]*@\"?([\w$.]+)\"?\(", re.MULTILINE),
    "ptx": re.compile(r"\.(?:visible|weak|extern)\s+\.entry\s+([\w$.]+)\s*\("),
}


COMMENT = {"llir": ";", "ptx": "//"}
"""The beginning of a line of comment, in the stages that no longer say what a launch needs to
know."""

_FACTS = "tritium-kernel: "


def with_facts(stage: str, signature: Mapping[int, str] | None, facts: Mapping[str, Any]) -> str:
    """A line of comment with what launching needs: the arguments' types, and what the stages have
    found out. Nothing where the types are not known."""
    if signature is None:
        return ""
    data = {"signature": list(signature.values()), "facts": facts}
    return f"{COMMENT[stage]} {_FACTS}{json.dumps(data, default=str)}\n"


def entry_signature(module: Any) -> dict[int, str] | None:
    """The types of the kernel's arguments ("*f32", "i32") by position; None without a kernel."""
    entry = _entry(module)
    if entry is None:
        return None
    types = [str(t) for t in entry.function_type.inputs]
    return {i: _POINTER.sub(r"*\1", t) for i, t in enumerate(types)}


def _entry(module: Any) -> Any:
    """The kernel of a module; None without one."""
    from tritium.analysis.regions import functions  # a launch of a cached kernel needs no ops

    return next((op for op in functions(module) if op.sym_visibility in ("public", "")), None)


class IRSource:
    """A file that holds the text of one stage; compilation goes on after that stage.

    Raises `ValueError` for a file that is no text or has no kernel.
    """

    def __init__(self, path: str | Path, context: Any, backend: BaseBackend):
        self.path = Path(path)
        self.ext = self.path.suffix[1:]
        self.language = Language.TRITON
        try:
            self.src = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{self.path} is no text (of machine code nothing can be compiled); "
                             "the text of an earlier stage is required") from None  # fmt: skip
        self.backend = backend
        self.module = None
        self.constants: dict[ArgPath, Any] = {}
        self._signature: dict[int, str] | None = None
        self.facts: dict[str, Any] = {}
        if self.ext in ("ttir", "ttgir"):
            from tritium.ops.parsing import parse_module  # as above

            self.module = parse_module(self.src, str(self.path))
            self._signature = entry_signature(self.module)
            self.name = self._entry_name(self.module)
        elif (held := backend.stage_module(self.ext, self.src, str(path))) is not None:
            self._signature = entry_signature(held)
            self.name = self._entry_name(held)
        else:
            pattern = ENTRY.get(self.ext)
            match = pattern.search(self.src) if pattern else None
            if pattern and match is None:
                raise ValueError(f"{self.path}: no kernel is defined in this {self.ext} text")
            self.name = match[1] if match else self.path.stem
            self._read_facts()

    def _read_facts(self) -> None:
        prefix = COMMENT.get(self.ext, "")
        line = re.search(rf"^{prefix} {_FACTS}(.*)$", self.src, re.MULTILINE) if prefix else None
        if line is not None:
            data: dict[str, Any] = json.loads(line[1])
            types: list[str] | None = data.get("signature")
            self._signature = None if types is None else dict(enumerate(types))
            self.facts = data.get("facts", {})

    @property
    def is_launchable(self) -> bool:
        """True if the types of the kernel's arguments are known."""
        return self._signature is not None

    @property
    def signature(self) -> dict[int, str]:
        """The types of the entry function's arguments ("*f32", "i32"), by position.

        Raises `ValueError` for a text that does not tell them: LLVM IR and PTX of other makers.
        """
        if self._signature is None:
            comment = f"{COMMENT.get(self.ext, '')} {_FACTS}".strip()
            raise ValueError(
                f"{self.path}: the types of the kernel's arguments cannot be had from this file, "
                f"for it lacks the line '{comment} ...' that Tritium writes at its end; launch "
                "from .ttir, or through @jit with this file as the option ir_override"
            )
        return self._signature

    def _entry_name(self, module: Any) -> str:
        entry = _entry(module)
        if entry is None:
            raise ValueError(f"{self.path}: the module has no public tt.func")
        return entry.sym_name

    def hash(self) -> str:
        """A digest of the text and its stage."""
        return hashlib.sha256(f"{self.ext}-{self.src}".encode()).hexdigest()

    def generate(self, backend: BaseBackend, options: Any) -> Any:
        """The input of the stages after this one."""
        if self.module is not None:
            self.module.verify()
            self._check_lanes(backend)
            return self.module
        return backend.parse_stage(self.ext, self.src, options)

    def _check_lanes(self, backend: BaseBackend) -> None:
        module: Any = self.module
        stated: Any = module.attributes.get("ttg.threads-per-warp")
        lanes = backend.target.warp_size
        if stated is not None and stated.value.data != lanes:
            raise ValueError(f"{self.path} is for warps of {stated.value.data} threads; those of "
                             f"{backend.target} have {lanes}")  # fmt: skip

    def make_ir(
        self, target: GPUTarget, options: Any, codegen_fns: Any, module_map: Any, context: Any
    ) -> module:
        """The module as `libtriton.ir` shows it (see `ASTSource.make_ir`). Raises `TypeError` for a
        file of a stage that has none."""
        from tritium.ops.view import module

        if self.module is None:
            raise TypeError(f"make_ir: {self.path} is {self.ext} text; ttir or ttgir has a module")
        return module(self.module)

    def parse_options(self) -> dict[str, Any]:
        """Options stated in the file: how many warps a block has, how many blocks a program."""
        found: dict[str, Any] = {}
        if self.ext in _THREADS:
            threads, blocks = (p[self.ext].search(self.src) for p in (_THREADS, _BLOCKS))
            if threads is not None:
                found["num_warps"] = int(threads[1]) // self.backend.target.warp_size
            if blocks is not None:
                found["num_ctas"] = int(blocks[1])
        elif self.ext == "ttgir" and self.module is not None:
            for option in ("num_warps", "num_ctas"):
                stated: Any = self.module.attributes.get(f"ttg.{option.replace('_', '-')}")
                if stated is not None:
                    found[option] = stated.value.data
        return found
