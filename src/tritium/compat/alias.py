"""The import alias: `triton` and all that is below it name Tritium's own modules, and so do
`triton_kernels` and its modules those of `tritium_kernels`.

A finder at the head of `sys.meta_path` answers for these names. Below the top the
alias *is* the module (`triton.language is tritium.language`), so that classes and state exist
once. The top is a module of its own, because one thing differs there: `triton.__version__` is
the reference release that we follow, while `tritium.__version__` is ours.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import CodeType, ModuleType
from typing import Any
from weakref import WeakSet

from tritium.compat import children
from tritium.errors import TritonError
from tritium.version import REFERENCE_VERSION

ALIAS = "triton"
_TARGET = __name__.split(".")[0]
_PACKAGES = {ALIAS: _TARGET, f"{ALIAS}_kernels": f"{_TARGET}_kernels"}
"""The packages that have a second name: the alias, and ours."""


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


class CompatError(TritonError, ImportError):
    """The alias cannot be set up in this process."""


_OWN = frozenset(
    {
        *("__name__", "__spec__", "__loader__", "__path__", "__file__", "__package__"),
        *("__version__", "__dict__", "__class__"),
    }
)
"""The attributes of the alias that are not those of `tritium`."""


class AliasModule(ModuleType):
    """`triton`: all attributes are those of `tritium`, read and written through, but its version.

    Written through so that `triton.X = ...` (as test suites do to replace a function) has the
    effect that it has on the reference.
    """

    def __getattr__(self, name: str) -> Any:
        target = sys.modules[_TARGET]
        try:
            value = getattr(target, name)
        except AttributeError:
            raise AttributeError(f"module '{ALIAS}' has no attribute '{name}'") from None
        if isinstance(target, _Mirrored) and name in vars(target):
            vars(self)[name] = value  # from now on found without this function
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            setattr(sys.modules[_TARGET], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(sys.modules[_TARGET], name)

    def __dir__(self) -> list[str]:
        return dir(sys.modules[_TARGET])


_aliases: WeakSet[AliasModule] = WeakSet()


class _Mirrored(ModuleType):
    """`tritium`, whose attributes `AliasModule`s remember once they were read: reading one through
    `__getattr__` takes 1 us, and programs do that at each launch. Changes make them forget."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._forget(name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        for alias in _aliases:
            if name not in _OWN:
                vars(alias).pop(name, None)


class _TopLoader(Loader):
    """Makes the module `triton` itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        target = importlib.import_module(_TARGET)
        target.__class__ = _Mirrored
        module = AliasModule(ALIAS, target.__doc__)
        _aliases.add(module)
        module.__version__ = REFERENCE_VERSION
        module.__file__ = target.__file__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The rest is read from `tritium` when it is asked for.
        _alias_loaded()


class _SubmoduleLoader(Loader):
    """Gives out the already imported `tritium.X` as `triton.X`."""

    def __init__(self, target: ModuleType):
        self.target = target
        self.spec = target.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.target

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the alias's spec into the module, which is shared.
        module.__spec__ = self.spec
        _alias_loaded()

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, for `-m triton.X`."""
        loader: Any = self.spec.loader if self.spec is not None else None
        return None if loader is None else loader.get_code(self.target.__name__)


def _alias_loaded() -> None:
    """Give every module of ours that is loaded its second name.

    A module that is imported by its alias would be bound in its package once more, in place of what
    the package itself keeps under that name: the function `runtime.jit`.
    """
    for name, module in list(sys.modules.items()):
        for alias, package in _PACKAGES.items():
            if name.startswith(package + "."):
                sys.modules.setdefault(alias + name[len(package) :], module)


class _AliasDistribution(Distribution):
    """The distribution that `importlib.metadata` reports for `triton`."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {ALIAS}\nVersion: {REFERENCE_VERSION}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: the alias of {ALIAS} owns no files")


class AliasFinder(MetaPathFinder):
    """Answers for the packages' aliases and what is below them, and for nothing else."""

    is_tritium = True
    """Says to `backends.base`, which looks for this, that `triton` is Tritium."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == ALIAS:
            spec = ModuleSpec(fullname, _TopLoader(), is_package=True)
            package = importlib.import_module(_TARGET)
            spec.submodule_search_locations = list(package.__path__)
            return spec
        alias = next((alias for alias in _PACKAGES if _is_within(fullname, alias)), None)
        if alias is None:
            return None
        real = _PACKAGES[alias] + fullname[len(alias) :]
        module = self._import(real, fullname)
        is_package = hasattr(module, "__path__")
        return ModuleSpec(fullname, _SubmoduleLoader(module), is_package=is_package)

    @staticmethod
    def _import(real: str, alias: str) -> ModuleType:
        try:
            return importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name is None or not (real + ".").startswith(error.name + "."):
                raise  # the module exists, and something that it imports does not
            raise ModuleNotFoundError(
                f"No module named '{alias}': under tritium.compat it would be '{real}', "
                f"which Tritium {sys.modules[_TARGET].__version__} does not have",
                name=alias,
            ) from None

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        if context is not None and (context.name or "").lower() == ALIAS:
            return [_AliasDistribution()]
        return []


def is_installed() -> bool:
    """True if `triton` names Tritium in this process."""
    return any(isinstance(finder, AliasFinder) for finder in sys.meta_path)


def install(*, in_children: bool = True) -> None:
    """Let `import triton`, and every module below it, give Tritium's, in this process.

    Installing twice is the same as once.

    Args:
        in_children: also in Python processes started from here on, by `multiprocessing` (fork,
            spawn, forkserver) or otherwise. It is passed on in the environment (`PYTHONPATH`),
            which a child that is started with `-E` or `-I` ignores.

    Raises:
        CompatError: the real Triton was imported before; its modules hold references to each
            other that no alias could replace.
    """
    loaded = sys.modules.get(ALIAS)
    if loaded is not None and not isinstance(loaded, AliasModule):
        where = getattr(loaded, "__file__", None) or "an unknown place"
        raise CompatError(
            f"Triton {getattr(loaded, '__version__', '')} was imported before from {where}. "
            "Call tritium.compat.install() before anything imports triton "
            "(import torch can do that too), or start the program with: tritium run PROGRAM"
        )
    if not is_installed():
        sys.meta_path.insert(0, AliasFinder())
        importlib.invalidate_caches()
    if in_children:
        children.enable()


def uninstall() -> None:
    """Undo `install()`: later imports of `triton` find what is installed under that name.

    Modules that imported the alias before keep what they have.
    """
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, AliasFinder)]
    for alias, package in _PACKAGES.items():
        loaded = sys.modules.get(alias)
        if isinstance(loaded, AliasModule) or loaded is sys.modules.get(package):
            for name in [m for m in sys.modules if _is_within(m, alias)]:
                del sys.modules[name]
    children.disable()
