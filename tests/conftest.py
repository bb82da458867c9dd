"""Settings for the whole suite: a kernel cache of its own, removed at the end."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.support import device
from tests.support.browser import chromium
from tests.support.covering import mark_the_rest_slow
from tests.support.watchdog import HangWatch, Watchdog
from tritium import knobs
from tritium.compat import alias
from tritium.language import core
from tritium.language.values.base import is_builtin
from tritium.runtime import dynamo

_VARIABLE = "TRITON_CACHE_DIR"


def pytest_configure(config: pytest.Config) -> None:
    device.device = config.getoption("--device")
    device.targets = tuple(int(part) for part in config.getoption("--targets").split(","))
    if device.device != "cuda":  # also where there is a GPU, and for the processes that tests start
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if device.device == "ptx":
        knobs.compilation.listener = device.assemble_too
    config.pluginmanager.register(HangWatch())
    limit, record = config.getoption("--limit"), config.getoption("--record")
    if device.device == "cuda" or record:
        config.pluginmanager.register(Watchdog(limit, record))
    # Workers of pytest-xdist inherit the folders from the process that starts them, and share them.
    if not hasattr(config, "workerinput"):
        _use_cache(config)
        _keep_bytecode(config)
        if device.device != "cuda":
            _use_one_thread_of_others()
    if device.device == "simt":
        # Here, since it loads the GPU's code generation.
        from tests.simt.backend import use

        use(config.getoption("--lanes"))
    if device.device == "amd":
        from tests.amd.execution.backend import use as use_model  # as above

        use_model(config.getoption("--processor"))


def _use_cache(config: pytest.Config) -> None:
    folder = tempfile.mkdtemp(prefix="tritium-test-cache-")
    os.environ[_VARIABLE] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _use_one_thread_of_others() -> None:
    """Workers of pytest-xdist use all cores: threads of NumPy and torch beside them would wait in
    loops for work."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def _keep_bytecode(config: pytest.Config) -> None:
    """Where no bytecode is kept beside sources, keep it in a folder of pytest's.

    Else every process that a test starts compiles the package and all that it imports anew, which
    takes longer than most of these tests, and each worker rewrites the assertions of all tests.
    """
    if not sys.dont_write_bytecode:
        return
    folder = config.rootpath / ".pytest_cache" / "bytecode"
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", choices=("cpu", "cuda", "ptx", *device.EXECUTED), default="cpu",
        help="where kernels run; ptx: on the CPU, and they are assembled for GPUs besides; "
        "simt: GPU code of the conformance suite on the CPU; amd: LLVM IR for AMD GPUs, likewise",
    )  # fmt: skip
    parser.addoption(
        "--lanes", type=int, choices=(32, 64), default=32, help="threads of a warp of simt"
    )
    parser.addoption("--processor", default="gfx942", help="the processor of amd")
    parser.addoption(
        "--targets", default="90", help="compute capabilities to assemble for: 80,90,100"
    )
    parser.addoption(
        "--limit", type=float, default=120, help="seconds for a test on a GPU, or with --record"
    )
    parser.addoption("--part", default="0/1", help="i/n: every n-th test, from the i-th on")
    parser.addoption("--sample", type=int, help="one case of each test, another for each number")
    parser.addoption("--record", help="a file of results; tests that are in it are left out")


@pytest.hookimpl(tryfirst=True)  # a part does not change as its tests are recorded
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine has no means for, and count it as deselected."""
    if device.device == "cpu":  # other devices run all, or choose by `--sample`
        mark_the_rest_slow(items)
    missing: list[str] = []
    if config.getoption("--device") != "cuda":
        missing.append("gpu")
    else:
        missing.append("cpu")
    if knobs.nvidia.ptxas is None:
        missing.append("ptxas")
    if knobs.nvidia.cuobjdump is None or knobs.nvidia.nvdisasm is None:
        missing.append("cuobjdump")
    if chromium() is None:
        missing.append("chromium")
    left_out = {item for item in items if any(item.get_closest_marker(m) for m in missing)}
    if device.device in device.EXECUTED:
        from tests.simt.not_run import is_run

        processor = config.getoption("--processor") if device.device == "amd" else ""
        left_out |= {item for item in items if not is_run(item, processor)}
    sample: int | None = config.getoption("--sample")
    if sample is not None:
        left_out |= set(items) - sampled([i for i in items if i not in left_out], sample)
    first, parts = map(int, config.getoption("--part").split("/"))
    kept = [item for item in items if item not in left_out]
    left_out |= {item for i, item in enumerate(kept) if i % parts != first}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def sampled(items: list[pytest.Item], number: int) -> set[pytest.Item]:
    """One of the cases of each test that is not slow."""
    cases = defaultdict[tuple[Path, str], list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases[item.path, getattr(item, "originalname", item.name)].append(item)
    return {
        group[(crc32(name.encode()) + number) % len(group)] for (_, name), group in cases.items()
    }


def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage: modules and tests stay until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Objects of modules and tests are not looked at in each garbage collection, and those of tests
    seldom: a collection for every 700 new ones takes a twentieth of the time of all tests."""
    gc.freeze()
    gc.set_threshold(50_000, 5, 5)
    gc.enable()


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel cache."""
    path = tmp_path / "cache"
    monkeypatch.setenv(_VARIABLE, str(path))
    return path


@pytest.fixture
def no_ptxas(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX stands for the machine code that ptxas would make of it."""
    from tritium.backends.nvidia import ptx, stages

    monkeypatch.setattr(ptx, "assemble", lambda text, *_: (text.encode() + b"\0", ""))
    monkeypatch.setattr(stages.Assembly, "begun", lambda _: contextlib.nullcontext())


@pytest.fixture(autouse=True)
def process_stays() -> Iterator[None]:
    """Take back what a test assigns to settings; refuse that it leaves the alias to the next."""
    before = alias.is_installed()
    with contextlib.ExitStack() as stack:
        for group in vars(knobs).values():
            if isinstance(group, knobs.base_knobs):
                stack.enter_context(group.scope())
        yield
    assert alias.is_installed() == before, "the test leaves `triton` installed as an alias"


@pytest.fixture
def named_by_alias(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The functions of the language, as a program has them under the alias after torch.compile."""
    monkeypatch.setitem(sys.modules, "triton.language.core", core)
    before = {
        id(value): (value, value.__module__)
        for name, module in list(sys.modules.items()) if name.startswith("tritium.language")
        for value in vars(module).values() if isinstance(value, core.dtype) or is_builtin(value)
    }  # fmt: skip
    dynamo.name_by_alias()
    assert core.load.__module__.startswith("triton.language.")
    yield
    for value, module in before.values():
        value.__module__ = module
        vars(value).pop("__tritium_module__", None)
