"""The settings: groups, descriptors, environment, scopes, hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tritium import knobs


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch):
    groups = [g for g in vars(knobs).values() if isinstance(g, knobs.base_knobs)]
    keys = {k.key for g in groups for k in g.knob_descriptors.values()}
    before = {g: dict(g.__dict__) for g in groups}
    saved = dict(os.environ)
    for key in keys:
        os.environ.pop(key, None)
    yield
    for group, values in before.items():
        group.__dict__.clear()
        group.__dict__.update(values)
    monkeypatch.undo()  # first: it would delete again what the environment gets back
    os.environ.clear()
    os.environ.update(saved)


def test_environment_is_read_live(monkeypatch: pytest.MonkeyPatch):
    assert knobs.compilation.dump_ir is False
    for word in ("1", "true", "YES", " on ", "y"):
        monkeypatch.setenv("TRITON_KERNEL_DUMP", word)
        assert knobs.compilation.dump_ir is True, word
    for word in ("0", "false", "No", "off", "n", ""):
        monkeypatch.setenv("TRITON_KERNEL_DUMP", word)
        assert knobs.compilation.dump_ir is False, word
    assert knobs.language.default_fp_fusion is True
    monkeypatch.setenv("TRITON_HIP_USE_BLOCK_PINGPONG", "0")
    assert knobs.amd.use_block_pingpong is False
    assert knobs.amd.use_in_thread_transpose is None


def test_assignment_wins_and_is_written(monkeypatch: pytest.MonkeyPatch):
    knobs.redis.port = 5
    assert os.environ["TRITON_REDIS_PORT"] == "5"
    monkeypatch.setenv("TRITON_REDIS_PORT", "7")
    assert knobs.redis.port == 5
    knobs.redis.port = knobs.env
    assert knobs.redis.port == 7
    knobs.redis.port = 9
    del knobs.redis.port
    assert knobs.redis.port == 9  # the written variable
    monkeypatch.delenv("TRITON_REDIS_PORT")
    assert knobs.redis.port == 6379
    knobs.compilation.dump_ir = True
    assert os.environ["TRITON_KERNEL_DUMP"] == "1"
    knobs.nvidia.libcuda_path = "/x"
    knobs.nvidia.libcuda_path = None
    assert "TRITON_LIBCUDA_PATH" not in os.environ


def test_without_propagation_the_environment_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knobs, "propagate_env", False)
    knobs.redis.host = "far"
    assert knobs.redis.host == "far"
    assert "TRITON_REDIS_HOST" not in os.environ


def test_scope_restores_values_hooks_and_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_REDIS_HOST", "here")
    knobs.redis.port = 5
    with knobs.redis.scope():
        knobs.redis.port = 6
        knobs.redis.host = "there"
    assert (knobs.redis.port, knobs.redis.host) == (5, "here")
    assert os.environ["TRITON_REDIS_PORT"] == "5"
    with pytest.raises(ZeroDivisionError), knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(print)
        knobs.runtime.jit_cache_hook = print
        knobs.runtime.interpret = True
        raise ZeroDivisionError
    assert not knobs.runtime.launch_enter_hook
    assert knobs.runtime.jit_cache_hook is None
    assert "TRITON_INTERPRET" not in os.environ


def test_copy_and_reset_and_knobs():
    knobs.redis.port = 5
    other = knobs.redis.copy()
    other.port = 6
    assert (knobs.redis.port, other.port) == (5, 6)
    assert knobs.redis.knobs == {
        "key_format": "triton:{key}:{filename}", "host": "localhost", "port": 5,
        "timeout_ms": 1000,
    }  # fmt: skip
    del os.environ["TRITON_REDIS_PORT"]
    assert knobs.redis.reset() is knobs.redis
    assert knobs.redis.port == 6379
    hooks = knobs.runtime.copy()
    hooks.launch_enter_hook.add(print)
    assert not knobs.runtime.launch_enter_hook


@pytest.mark.parametrize(
    ("home", "given", "expected"),
    [
        (None, {}, ("~/.triton/cache", "~/.triton/dump", "~/.triton/override")),
        ("/h", {}, ("/h/.triton/cache", "/h/.triton/dump", "/h/.triton/override")),
        ("/h", {"TRITON_CACHE_DIR": "/c"}, ("/c", "/h/.triton/dump", "/h/.triton/override")),
        (None, {"TRITON_DUMP_DIR": "/d", "TRITON_OVERRIDE_DIR": "/o"},
         ("~/.triton/cache", "/d", "/o")),
    ],
)  # fmt: skip
def test_directories(monkeypatch: pytest.MonkeyPatch, home, given, expected):
    for key, value in {**given, **({"TRITON_HOME": home} if home else {})}.items():
        monkeypatch.setenv(key, value)
    got = (knobs.cache.dir, knobs.cache.dump_dir, knobs.cache.override_dir)
    assert got == tuple(os.path.expanduser(path) for path in expected)


@pytest.mark.parametrize(
    ("variable", "value", "read", "message"),
    [
        ("TRITON_REDIS_PORT", "abc", lambda: knobs.redis.port,
         "Unable to use TRITON_REDIS_PORT=abc: expected int"),
        ("TRITON_KERNEL_DUMP", "maybe", lambda: knobs.compilation.dump_ir,
         r"TRITON_KERNEL_DUMP=maybe: expected bool \(1/true/yes/on/y or 0/false/no/off/n\)"),
        ("TRITON_HIP_USE_BLOCK_PINGPONG", "2", lambda: knobs.amd.use_block_pingpong,
         "TRITON_HIP_USE_BLOCK_PINGPONG=2: expected bool"),
        ("TRITIUM_NUM_THREADS", "0", lambda: knobs.runtime.cpu_threads,
         "TRITIUM_NUM_THREADS=0: expected int of at least 1"),
        ("TRITON_F32_DEFAULT", "half", lambda: knobs.language.fp32_default,
         "TRITON_F32_DEFAULT=half: expected one of ieee, tf32"),
        ("TRITON_CACHE_MANAGER", "nocolon", lambda: knobs.cache.manager_class,
         "Unable to read TRITON_CACHE_MANAGER: 'nocolon' isn't of the form MODULE:CLASS"),
        ("TRITON_CACHE_MANAGER", "os:nothere", lambda: knobs.cache.manager_class,
         "Unable to use 'os:nothere' from TRITON_CACHE_MANAGER: .*no attribute"),
        ("TRITON_CACHE_MANAGER", "json:JSONDecoder", lambda: knobs.cache.manager_class,
         "'json:JSONDecoder' from TRITON_CACHE_MANAGER: not of type 'CacheManager'"),
    ],
)  # fmt: skip
def test_bad_values(monkeypatch: pytest.MonkeyPatch, variable, value, read, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(RuntimeError, match=message):
        read()


def test_bad_assignments_change_nothing():
    with pytest.raises(RuntimeError, match="TRITIUM_NUM_THREADS=-1"):
        knobs.runtime.cpu_threads = -1
    with pytest.raises(RuntimeError, match="TRITON_REDIS_PORT=x"):
        knobs.redis.port = "x"
    assert "TRITIUM_NUM_THREADS" not in os.environ
    assert knobs.redis.port == 6379


def test_cpu_threads(monkeypatch: pytest.MonkeyPatch):
    assert knobs.runtime.cpu_threads == len(os.sched_getaffinity(0))
    monkeypatch.setenv("TRITIUM_NUM_THREADS", "3")
    assert knobs.runtime.cpu_threads == 3


def test_class_setting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "tritium.runtime.cache:FileCacheManager")
    found = knobs.cache.manager_class
    assert found is not None and found.__name__ == "FileCacheManager"
    knobs.cache.manager_class = found
    assert os.environ["TRITON_CACHE_MANAGER"] == "tritium.cache.files:FileCacheManager"

    class FileCacheManager(found):
        pass

    knobs.cache.manager_class = FileCacheManager
    assert knobs.cache.manager_class is FileCacheManager
    del knobs.cache.manager_class
    assert knobs.cache.manager_class is found, "the environment tells nobody of a local class"


def _tool(path: Path, version: str) -> str:
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n")
    path.chmod(0o755)
    return str(path)


def test_nvidia_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine = _tool(tmp_path / "mine", "12.8")
    (tmp_path / "bin").mkdir()
    installed = _tool(tmp_path / "bin" / "ptxas", "11.0")
    monkeypatch.setenv("TRITON_PTXAS_PATH", mine)
    assert knobs.nvidia.ptxas == knobs.NvidiaTool(mine, "12.8")
    monkeypatch.setattr(knobs, "_nvidia_tool_candidates", lambda binary: iter([installed]))
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path))  # not a program: falls back
    assert knobs.nvidia.ptxas == knobs.NvidiaTool(installed, "11.0")
    monkeypatch.setattr(knobs, "_nvidia_tool_candidates", lambda binary: iter([]))
    assert knobs.nvidia.ptxas is None
    with pytest.raises(RuntimeError, match="TRITON_PTXAS_PATH=/nowhere: expected the path"):
        knobs.nvidia.ptxas = "/nowhere"


@pytest.mark.parametrize(
    ("group", "name"),
    [(knobs.runtime, "launch_enter_hook"), (knobs.runtime, "jit_cache_hook"),
     (knobs.compilation, "listener"), (knobs.build, "impl")],
)  # fmt: skip
def test_hooks_are_functions(group: Any, name: str) -> None:
    before = getattr(group, name)
    with pytest.raises(TypeError, match=rf"knobs\.\w+\.{name} is 3; a function is required"):
        setattr(group, name, 3)
    assert getattr(group, name) is before
    with pytest.raises(TypeError, match="a hook is 3; a function is required"):
        knobs.runtime.launch_enter_hook.add(3)  # pyright: ignore


@pytest.mark.parametrize(
    ("group", "name"),
    [(knobs.redis, "host"), (knobs.cache, "dir"), (knobs.build, "cc"),
     (knobs.runtime, "override_arch")],
)  # fmt: skip
def test_texts(group: Any, name: str) -> None:
    key = group.knob_descriptors[name].key
    with pytest.raises(RuntimeError, match=rf"Unable to use {key}=\['x'\]: expected str"):
        setattr(group, name, ["x"])
    setattr(group, name, Path("x"))
    assert getattr(group, name) == os.environ[key] == "x"


def test_hook_chain_order():
    seen: list[str] = []
    first, second = (lambda: seen.append("1")), (lambda: seen.append("2"))
    for reverse, expected in ((False, ["1", "2"]), (True, ["2", "1"])):
        chain = knobs.HookChain(reversed=reverse)
        chain.add(first)
        chain.add(second)
        chain.add(first)
        chain()
        assert seen == expected
        chain.remove(first)
        chain.remove(first)
        seen.clear()
        chain()
        assert seen == ["2"]
        seen.clear()


def test_compile_times():
    times = knobs.CompileTimes(10, [("ttir", 3), ("llir", 4)], 5)
    assert (times.total_lowering, times.total) == (7, 22)


def test_cache_invalidating_variables(monkeypatch: pytest.MonkeyPatch):
    before = knobs.cache_invalidating_env()
    monkeypatch.setenv("TRITON_REPRODUCER_PATH", "/r")
    assert knobs.cache_invalidating_env() == before
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert knobs.cache_invalidating_env() == {**before, "DISABLE_LLVM_OPT": "1"}


def test_the_module_is_light():
    """Loaded by its file: the package's own `__init__` is another test's affair."""
    code = (
        "import importlib.util as u, sys\n"
        f"spec = u.spec_from_file_location('knobs', {knobs.__file__!r})\n"
        "sys.modules['knobs'] = module = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print([m for m in ('numpy', 'torch', 'xdsl', 'llvmlite') if m in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_fusion_of_products_and_sums(monkeypatch: pytest.MonkeyPatch):
    enabled = knobs.language.fp_fusion_enabled
    assert enabled(None) and enabled(True) and not enabled(False)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert not enabled(None) and enabled(True)
    monkeypatch.setenv("TRITON_FORCE_DISABLE_FP_FUSION", "1")
    assert not enabled(None) and not enabled(True)


def test_settings_of_the_profiler_and_of_amd(monkeypatch: pytest.MonkeyPatch):
    assert knobs.proton.profile_buffer_size == 64 * 1024 * 1024
    monkeypatch.setenv("TRITON_PROFILE_METRIC_BUFFER_SIZE", "4096")
    monkeypatch.setenv("TRITON_HIP_USE_EXPERT_SCHEDULING", "1")
    monkeypatch.setenv("TRITON_DUMP_MIR", "/mir")
    assert knobs.proton.profile_metric_buffer_size == 4096 and not knobs.proton.enable_hw_trace
    assert knobs.amd.use_expert_scheduling is True and knobs.amd.use_coexec_scheduler is None
    assert knobs.amd.dump_mir == "/mir" and knobs.amd.swap_mir is None
