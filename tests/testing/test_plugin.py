"""The pytest plug-in's fixtures, in a run of pytest of its own."""

from __future__ import annotations

import importlib.util
import sys

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import os
    import pytest
    from tritium import knobs
    from tritium.runtime._allocation import NullAllocator
    from tritium.launch import allocation

    def test_device(device):
        assert device == "somewhere"

    def test_cache(fresh_triton_cache, tmp_path):
        assert knobs.cache.dir == fresh_triton_cache == str(tmp_path / ".triton" / "cache")
        assert os.listdir(fresh_triton_cache) == []
        knobs.runtime.debug = True

    def test_cache_is_over():
        assert "test_cache" not in knobs.cache.dir
        assert not knobs.runtime.debug

    def test_knobs(fresh_knobs):
        assert fresh_knobs is knobs
        assert not knobs.compilation.always_compile and knobs.nvidia.libcuda_path is None
        assert "TRITON_ALWAYS_COMPILE" not in os.environ
        knobs.redis.port = 7

    def test_libraries(fresh_knobs_except_libraries):
        assert knobs.redis.port == 6379, "what a test sets does not outlive it"
        assert not knobs.compilation.always_compile and knobs.nvidia.libcuda_path == "/cuda"

    def test_knobs_are_back():
        assert knobs.compilation.always_compile and os.environ["TRITON_ALWAYS_COMPILE"] == "1"

    def test_allocator(with_allocator):
        pytest.importorskip("torch")
        from tritium.runtime import driver
        driver.set_active_to_cpu()
        assert allocation._allocator.get()(128, 16, None).numel() == 128

    @pytest.mark.interpreter
    def test_marker():
        pass
"""


@pytest.fixture
def program(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", "/cuda")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    pytester.makepyfile(TESTS)
    return pytester


def test_fixtures(program: pytest.Pytester) -> None:
    options = ("-p", "tritium.testing.plugin", "--device", "somewhere", "--strict-markers")
    torch = importlib.util.find_spec("torch") is not None  # one of them seeds its generator
    program.runpytest_subprocess(*options).assert_outcomes(passed=7 + torch, skipped=1 - torch)


def test_an_option_of_someone_elses(program: pytest.Pytester) -> None:
    program.makeconftest("""
        pytest_plugins = ["tritium.testing.plugin"]

        def pytest_addoption(parser):
            parser.addoption("--device", default="somewhere")
    """)
    program.runpytest_subprocess("-k", "test_device").assert_outcomes(passed=1, deselected=7)


def test_the_default_is_where_kernels_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.setenv("TRITON_CPU_BACKEND", "1")
    pytester.makepyfile("def test_device(device): assert device == 'cpu'")
    pytester.runpytest_subprocess("-p", "tritium.testing.plugin").assert_outcomes(passed=1)
