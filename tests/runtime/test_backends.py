"""Finding backends, and a third party's backend from a kernel to its launch."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.runtime.dummy_backend import COMPILER, DRIVER
from tritium.backends import base
from tritium.backends.base import Backends, BaseBackend, DriverBase, concrete_subclass, make_backend
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource
from tritium.runtime import driver

OWN = dict(base._OWN)  # pyright: ignore[reportPrivateUsage]
Install = Callable[..., None]


class Entry(SimpleNamespace):
    """An entry point of an installed distribution."""

    def __init__(self, group: str, name: str, value: str, dist: str):
        super().__init__(group=group, name=name, value=value, dist=SimpleNamespace(name=dist))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Makes a package with a backend importable and announces it."""
    entries: list[Entry] = []

    def entry_points(*, group: str) -> list[Entry]:
        return [entry for entry in entries if entry.group == group]

    def install(
        package: str, compiler: str = COMPILER, driver_: str = DRIVER,
        group: str = "triton.backends", name: str = "dummy", dist: str = "someone",
    ) -> None:  # fmt: skip
        folder = tmp_path / package
        folder.mkdir()
        (tmp_path / f"{package}-1.0.dist-info").mkdir()  # only folders with any are looked through
        (folder / "__init__.py").touch()
        (folder / "compiler.py").write_text(compiler)
        (folder / "driver.py").write_text(driver_)
        importlib.invalidate_caches()
        entries.append(Entry(group, name, package, dist))

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    fresh = Backends()
    for module in (base, importlib.import_module("tritium.backends.active")):
        monkeypatch.setattr(module, "backends", fresh)
    monkeypatch.setattr(tritium.backends, "backends", fresh)
    yield install
    for name in [n for n in sys.modules if n.partition(".")[0] in {e.value for e in entries}]:
        del sys.modules[name]


@tritium.jit
def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@pytest.mark.parametrize("group", ["triton.backends", "tritium.backends"])
def test_discovery(install: Install, group: str) -> None:
    install("pkg_one", group=group)
    found = tritium.backends.backends
    assert set(found) == {*OWN, "dummy"} and len(found) == len(OWN) + 1 and "dummy" in found
    backend = found["dummy"]
    assert issubclass(backend.compiler, BaseBackend) and backend.compiler.__name__ == "DummyBackend"
    assert issubclass(backend.driver, DriverBase) and backend.driver.__name__ == "DummyDriver"
    with pytest.raises(KeyError):
        found["nothing"]


def test_an_installed_triton_is_not_ours(install: Install) -> None:
    install("pkg_nvidia", name="nvidia", dist="triton")
    assert tritium.backends.backends.packages == OWN


def test_ours_cannot_be_replaced(install: Install) -> None:
    install("pkg_cpu", name="cpu")
    assert tritium.backends.backends["cpu"].compiler.__name__ == "CPUBackend"


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        ("x = 1", r"Found 0 concrete subclasses of BaseBackend in pkg_odd.compiler: \[\]"),
        (COMPILER + "\nclass Another(DummyBackend): pass\n",
         r"Found >1 concrete subclasses of BaseBackend in .*'DummyBackend', 'Another'"),
        (COMPILER.replace("def hash(self):\n        return", "def hush(self):\n        return"),
         "Found 0 concrete"),
    ],
)  # fmt: skip
def test_exactly_one_class(install: Install, compiler: str, message: str) -> None:
    install("pkg_odd", compiler)
    with pytest.raises(RuntimeError, match=message):
        _ = tritium.backends.backends["dummy"]


def test_concrete_subclass_ignores_what_is_imported() -> None:
    module = ModuleType("imported")
    module.CPU = base.backends["cpu"].compiler  # pyright: ignore
    with pytest.raises(RuntimeError, match=r"Found 0"):
        concrete_subclass(module, BaseBackend)


def test_make_backend(install: Install) -> None:
    install("pkg_one")
    target = GPUTarget("dummy", "v1", 1)
    assert type(make_backend(target)).__name__ == "DummyBackend"
    assert make_backend(target).target == target
    with pytest.raises(
        RuntimeError, match=r"0 compatible backends for target \(foo\) \(\[\]\). There"
    ):
        make_backend(GPUTarget("foo", 0, 1))
    install("pkg_two", name="other")
    tritium.backends.backends._packages = None  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(
        RuntimeError, match=r"2 compatible backends for target \(dummy\) \(\['Dummy"
    ):
        make_backend(target)


def test_compile_only(install: Install) -> None:
    install("pkg_one")
    source = ASTSource(fill, {"out": "*i32", "value": "i32"}, {"N": 8})
    target = GPUTarget("dummy", "v1", 1)
    kernel = tritium.compile(source, target, {"flavour": "sweet"})
    assert list(kernel.asm) == ["source", "ttir", "words"]
    assert kernel.asm["words"].startswith(b"sweet: ") and b"tt.store" in kernel.asm["words"]
    assert kernel.metadata.flavour == "sweet" and kernel.metadata.target == target
    assert kernel.metadata.num_warps == 2
    again = tritium.compile(source, target, {"flavour": "sweet"})
    assert again.hash == kernel.hash != tritium.compile(source, target).hash


def test_launch(install: Install) -> None:
    install("pkg_one")
    dummy: Any = importlib.import_module("pkg_one.driver")
    driver.set_active(dummy.DummyDriver())
    try:
        kernel = tritium.jit(fill.fn)
        out = np.zeros(8, np.int32)
        for _ in range(100):
            compiled = kernel[(3, 2)](out, 7, 8, flavour="sour")
        assert len(dummy.launches) == 100
        count, function, args = dummy.launches[0]
        assert count == 6 and function == compiled.kernel and args[0] is out and args[1:] == (7, 8)
        assert compiled.kernel.startswith(b"sour: ")
        with pytest.raises(
            KeyError, match=r"Keyword argument taste was specified but unrecognised"
        ):
            kernel[(1,)](out, 7, 8, taste="x")
        kernel[(1,)](out, 7, 8, waves_per_eu=1)
    finally:
        driver.reset_active()


def test_a_usable_third_party_driver_is_chosen(install: Install) -> None:
    install("pkg_one")
    dummy: Any = importlib.import_module("pkg_one.driver")
    dummy.DummyDriver.usable = True
    assert type(type(driver)().active).__name__ == "DummyDriver"
