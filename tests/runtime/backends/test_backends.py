"""Finding backends, and a third party's backend from a kernel to its launch."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.runtime.backends.dummy_backend import COMPILER, DRIVER
from tritium.backends import base
from tritium.backends.base import Backends, BaseBackend, DriverBase, concrete_subclass, make_backend
from tritium.backends.compiler import GPUTarget
from tritium.cli import doctor
from tritium.compiler import ASTSource
from tritium.language.extra import libdevice
from tritium.language.extra.libdevice import cos
from tritium.runtime import driver
from tritium.runtime.driver import DriverConfig

OWN = dict(base.OWN_BACKENDS)
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


ABSENT = "from no_such_package import anything"
REFERENCE = "from triton.backends.driver import DriverBase"


@pytest.mark.parametrize("group", ["triton.backends", "tritium.backends"])
@pytest.mark.parametrize("broken", [ABSENT, REFERENCE, "raise SystemError('odd')"])
def test_a_plug_in_that_cannot_be_imported(
    install: Install, broken: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other backends work; its own target says why it does not, and so does the doctor."""
    monkeypatch.delenv("TRITON_CPU_BACKEND", raising=False)
    install("pkg_broken", f"{broken}\n{COMPILER}", f"{broken}\n{DRIVER}", group=group)
    config = DriverConfig()
    assert config.active.get_current_target().backend in ("cpu", "cuda")
    assert type(make_backend(GPUTarget("cpu", None, 1))).__name__ == "CPUBackend"
    with monkeypatch.context() as patch:
        patch.setenv("TRITON_DEFAULT_BACKEND", "dummy")
        with pytest.raises(RuntimeError, match=r"_BACKEND: the backend 'dummy' cannot be imported"):
            _ = DriverConfig().active
    with pytest.raises(RuntimeError, match=r"'dummy' cannot be imported: \w+Error: ") as error:
        make_backend(GPUTarget("dummy", 1, 1))
    assert isinstance(error.value.__cause__, Exception)
    if broken == REFERENCE:
        assert "works where `triton` is Tritium" in str(error.value)
        assert "triton" not in sys.modules
    monkeypatch.setattr(doctor, "backends", tritium.backends.backends)
    found = [f for f in doctor.examine() if f.name == "dummy"]
    assert [f.state for f in found] == ["missing"] and "Error" in found[0].detail


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
        RuntimeError, match=r"0 compatible backends for target \(foo\) \(\[\]\). .*: dummy, cpu"
    ):
        make_backend(GPUTarget("foo", 0, 1))
    with pytest.raises(TypeError, match="make_backend: 'cuda' is no GPUTarget"):
        make_backend("cuda")  # pyright: ignore[reportArgumentType]
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


def test_the_backend_of_the_documentation(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "adding-a-backend.md").read_text()
    compiler, driver_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    install("pkg_page", compiler, driver_, name="mydevice")
    module: Any = importlib.import_module("pkg_page.driver")
    driver.set_active(module.MyDriver())
    try:
        compiled = tritium.jit(fill.fn)[(3, 2)](np.zeros(8, np.int32), 7, 8, num_warps=2)
        assert driver.active.get_benchmarker()(lambda: None, quantiles=[0.5, 0.8])[1] >= 0
    finally:
        driver.reset_active()
    assert list(compiled.asm) == ["source", "ttir", "asm", "bin"]
    printed = f"3 x 2 x 1 programs of {len(compiled.asm['bin'])} bytes, 3 arguments"
    assert capsys.readouterr().out.strip() == printed
    assert "tt.store" in compiled.asm["asm"] and compiled.metadata.num_warps == 2


DECIDING = COMPILER.replace("        return {}\n", '''
        import importlib
        library = importlib.import_module(__package__ + ".library")
        return {"triton.language.extra.libdevice": library}

    supports_native_tensor_specialization = False

    @staticmethod
    def get_tensor_specialization(arg, **kwargs):
        few = "S" if arg.size < 64 else ""
        return BaseBackend.get_tensor_specialization(arg, **kwargs) + few

    @staticmethod
    def parse_attr(desc):
        return BaseBackend.parse_attr(desc) + ([["dummy.small", 1]] if "S" in desc else [])

    def get_codegen_implementation(self, options):
        return {"min_dot_size": lambda lhs, rhs: (32, 32, lhs.scalar.primitive_bitwidth)}
''').replace("debug: bool = False", '''debug: bool = False
    allowed_dot_input_precisions: tuple = ("ieee",)
    default_dot_input_precision: str = "ieee"''')

LIBRARY = '''
from tritium.language import core

def _call(name, x):
    table = {(core.dtype("fp32"),): (name, core.dtype("fp32"))}
    return core.extern_elementwise("", "", [x], table, is_pure=True)

@core.extern
def sin(arg0, _semantic=None):
    return _call("dummy_sin", arg0)

@core.extern
def cos(arg0, _semantic=None):
    return _call("dummy_cos", arg0)
'''


@tritium.jit
def functions(out, x):
    v = tl.load(x)
    tl.store(out, libdevice.sin(v) + cos(v) + tl.extra.libdevice.sin(v))


@tritium.jit
def product(out, N: tl.constexpr, PRECISION: tl.constexpr):
    x = tl.full((N, N), 1, tl.float32)
    tl.store(out + tl.arange(0, N), tl.sum(tl.dot(x, x, input_precision=PRECISION), 0))


def test_what_a_backend_decides(install: Install, tmp_path: Path) -> None:
    install("pkg_one", DECIDING)
    (tmp_path / "pkg_one" / "library.py").write_text(LIBRARY)
    target = GPUTarget("dummy", "v1", 1)
    source = ASTSource(functions, {"out": "*fp32", "x": "*fp32"})
    text = tritium.compile(source, target).asm["ttir"]
    assert text.count('"dummy_sin"') == 2 and text.count('"dummy_cos"') == 1 and "__nv" not in text

    def dot(size: int, precision: Any) -> Any:
        constants = {"N": size, "PRECISION": precision}
        return tritium.compile(ASTSource(product, {"out": "*fp32"}, constants), target)

    assert "tt.dot" in dot(32, None).asm["ttir"]
    with pytest.raises(tritium.CompilationError, match="M >= 32, N >= 32 and K >= 32; got M = 16"):
        dot(16, None)
    with pytest.raises(tritium.CompilationError, match="input_precision"):
        dot(32, "tf32")


@pytest.mark.usefixtures("named_by_alias", "fresh_cache")
def test_what_a_backend_decides_under_the_alias(install: Install, tmp_path: Path) -> None:
    assert cos.__module__.startswith("triton.")
    test_what_a_backend_decides(install, tmp_path)


def test_tensors_specialized_by_a_backend(install: Install, tmp_path: Path) -> None:
    install("pkg_one", DECIDING)
    (tmp_path / "pkg_one" / "library.py").write_text(LIBRARY)
    dummy: Any = importlib.import_module("pkg_one.driver")
    driver.set_active(dummy.DummyDriver())
    try:
        kernel = tritium.jit(fill.fn)
        for size, small in ((8, True), (128, False)):
            out = torch_like(np.zeros(size, np.int32))
            assert ("dummy.small" in kernel[(1,)](out, 7, 8).asm["ttir"]) == small
    finally:
        driver.reset_active()


def torch_like(array: np.ndarray) -> Any:
    address = array.ctypes.data
    return SimpleNamespace(data_ptr=lambda: address, dtype=array.dtype, size=array.size, base=array)
