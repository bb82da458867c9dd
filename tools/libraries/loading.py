"""Import files of libraries of which parts, or what they depend on, are missing.

A file runs statement by statement; what fails is left out. Packages are not run: their names are
looked up in the files that they import them from. Modules that are not there give stand-ins.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_REAL = {"triton", "tritium", "torch", "numpy"}
DECORATORS = 16
"""The most objects (`autotune`, `heuristics`) that a kernel is looked for below."""


class _Anything(type):
    """The class of what stands for something that is missing: it can be called, decorated with,
    inherited from, compared (it is newer than all versions) and has all attributes."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and not kwargs else StandIn
        decorates = callable(given) or hasattr(given, "fn")
        return given if decorates else StandIn

    def __getitem__(cls, key: Any) -> Any:
        return StandIn

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __bool__(cls) -> bool:
        return True

    def __lt__(cls, other: Any) -> bool:
        return False

    __le__ = __lt__

    def __gt__(cls, other: Any) -> bool:
        return True

    __ge__ = __gt__

    def __or__(cls, other: Any) -> Any:
        return StandIn

    __ror__ = __or__


class StandIn(metaclass=_Anything):
    """Something that is missing."""

    def __init_subclass__(cls, **options: Any) -> None:
        pass


def _missing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return StandIn


class _StandInLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__path__ = []
        vars(module)["__getattr__"] = _missing
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class _FileLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.path
        _run(Path(self.path), module.__dict__)


class _PackageLoader(importlib.abc.Loader):
    def __init__(self, folder: Path):
        self.folder = folder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = [str(self.folder)]
        imported: dict[str, tuple[str, str]] = {}
        namespace = vars(module)
        for node in ast.walk(_parsed(self.folder / "__init__.py")):
            if isinstance(node, ast.ImportFrom):
                dots = "." * node.level + (node.module or "")
                origin = importlib.util.resolve_name(dots, module.__name__) if node.level else dots
                imported |= {a.asname or a.name: (origin, a.name) for a in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [name.id for name in node.targets if isinstance(name, ast.Name)]
                namespace |= dict.fromkeys(names, node.value.value)
            elif isinstance(node, ast.Import):
                top = {a.name.split(".")[0] for a in node.names if a.asname is None}
                imported |= {name: (name, "") for name in top}
                imported |= {a.asname: (a.name, "") for a in node.names if a.asname}

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            origin, inner = imported.get(name, (module.__name__, ""))
            if origin != module.__name__:
                found = importlib.import_module(origin)
                return getattr(found, inner) if inner else found
            try:
                return importlib.import_module(f"{module.__name__}.{name}")
            except ImportError:
                return StandIn

        namespace["__getattr__"] = look_up


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, root: Path):
        self.root = root

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] in _REAL:
            return None
        at = self.root.joinpath(*name.split("."))
        if at.is_dir():
            return importlib.machinery.ModuleSpec(name, _PackageLoader(at), is_package=True)
        file = at.with_suffix(".py")
        if not file.exists():
            return None
        loader = _FileLoader(name, str(file))
        return importlib.util.spec_from_loader(name, loader, origin=str(file))


class _LastFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        top = name.split(".")[0]
        if top in _REAL or top in sys.stdlib_module_names or top.startswith("_"):
            return None
        return importlib.machinery.ModuleSpec(name, _StandInLoader(), is_package=True)


def install(root: Path) -> None:
    """Import what is below a folder from there, and stand-ins for what is nowhere."""
    sys.meta_path.insert(0, _Finder(root))
    sys.meta_path.append(_LastFinder())


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(errors="replace"), str(file))
    except (OSError, SyntaxError):
        return ast.Module([], [])


def _run(file: Path, namespace: dict[str, Any]) -> None:
    tree, flags = _parsed(file), 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag

    def run(statement: ast.stmt) -> None:
        try:
            code = compile(ast.Module([statement], []), str(file), "exec", flags, True)
            exec(code, namespace)
        except (Exception, SystemExit):
            if isinstance(statement, ast.If):  # a guard that asks for something missing
                for inner in statement.body:
                    run(inner)
            elif isinstance(statement, ast.FunctionDef) and statement.decorator_list[1:]:
                del statement.decorator_list[0]  # something missing, around the kernel
                run(statement)

    for statement in tree.body:
        run(statement)


def import_what_all_use() -> None:
    """Import torch and Triton before processes are forked for each module."""
    for name in ("torch", "triton"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def in_child(work: Callable[[], None]) -> int:
    """Run something in a child process, where what a library does to its process ends with it;
    returns the child's exit status, negative for a signal. Exceptions are printed by the child."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the body after `seconds` of the process's own CPU time, or sixty
    times as many on the clock: a busy machine does not change what is found."""

    def too_late(*_: Any) -> None:
        raise TimeoutError(f"it takes longer than {seconds} s")

    signal.signal(signal.SIGPROF, too_late)
    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 60 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


class Kernel(NamedTuple):
    """A kernel of a module: its name there, the function, and configurations to tune it with."""

    name: str
    fn: Any
    configs: list[Any]


def modules(root: Path) -> Iterator[str]:
    """The names of the modules below a folder that define kernels, always in the same random order:
    a sweep that is cut short has seen a part of every library."""
    files = sorted(root.rglob("*.py"))
    random.Random(0).shuffle(files)
    for file in files:
        text = file.read_text(errors="replace")
        if "triton" in text and "jit" in text:
            parts = file.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def kernels(name: str) -> list[Kernel]:
    """The kernels that a module defines, below at most `DECORATORS` others each: an object may
    have any attribute."""
    import triton

    module, found = importlib.import_module(name), list[Kernel]()
    for attribute, value in list(vars(module).items()):
        fn, configs = value, list[Any]()
        for _ in range(DECORATORS):
            if fn is None or isinstance(fn, (triton.runtime.JITFunction, type)):
                break
            configs = getattr(fn, "configs", None) or configs
            fn = getattr(fn, "fn", None)
        if isinstance(fn, triton.runtime.JITFunction) and fn.fn.__module__ == name:
            found.append(Kernel(attribute, fn, configs))
    return found
