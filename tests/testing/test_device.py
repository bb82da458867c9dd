"""The roofline figures, for devices with known data sheets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import tritium.language as tl
from tritium import testing
from tritium.backends.active import driver
from tritium.target import GPUTarget

pytest_plugins = ["pytester"]

H100 = {"mem_clock_rate": 2619000, "mem_bus_width": 5120, "multiprocessor_count": 132}
A100 = {"mem_clock_rate": 1215000, "mem_bus_width": 5120, "multiprocessor_count": 108}


@pytest.fixture
def device():
    before = driver._active

    def activate(properties: dict, arch: int, backend: str = "cuda") -> None:
        stub = SimpleNamespace(
            get_current_target=lambda: GPUTarget(backend, arch, 32),
            get_current_device=lambda: 0,
            utils=SimpleNamespace(get_device_properties=lambda index: properties),
        )
        driver.set_active(stub)

    yield activate
    driver._active = before


def test_bandwidth(device):
    device(H100, 90)
    assert testing.get_dram_gbps() == pytest.approx(3352, rel=1e-3)
    device(A100, 80)
    assert testing.get_dram_gbps() == pytest.approx(1555, rel=1e-3)


def test_tensor_cores(device):
    device(A100, 80)
    assert testing.get_max_tensorcore_tflops(tl.float16, 1410e3) == pytest.approx(312, rel=2e-3)
    assert testing.get_max_tensorcore_tflops(tl.float32, 1410e3) == pytest.approx(156, rel=2e-3)
    device(H100, 90)
    assert testing.get_max_tensorcore_tflops(tl.bfloat16, 1830e3) == pytest.approx(989, rel=2e-3)
    assert testing.get_max_tensorcore_tflops(tl.float8e5, 1830e3) == pytest.approx(1979, rel=2e-3)


def test_ordinary_cores(device):
    device(A100, 80)
    assert testing.get_max_simd_tflops(tl.float32, 1410e3) == pytest.approx(19.5, rel=2e-3)
    assert testing.get_max_simd_tflops(tl.float16, 1410e3) == pytest.approx(78, rel=2e-3)
    device(H100, 90)
    assert testing.get_max_simd_tflops(tl.float32, 1980e3) == pytest.approx(66.9, rel=2e-3)


def test_figures_that_nobody_has(device):
    device(H100, 90)
    with pytest.raises(RuntimeError, match="no SIMD figure"):
        testing.get_max_simd_tflops(tl.float64, 1e6)
    with pytest.raises(TypeError, match="not a dtype"):
        testing.get_max_simd_tflops("float32", 1e6)
    device({}, 0, backend="hip")
    with pytest.raises(NotImplementedError, match="not for hip"):
        testing.get_dram_gbps()


def test_the_cpu(device):
    device({"multiprocessor_count": 2, "vector_bits": 512}, 0, backend="cpu")
    assert testing.get_max_simd_tflops(tl.float32, 3e6) == pytest.approx(0.384)
    assert testing.get_max_simd_tflops(tl.float64, 3e6) == pytest.approx(0.192)
    with pytest.raises(RuntimeError, match=r"there is one for 32 and 64 bits"):
        testing.get_max_simd_tflops(tl.float16, 3e6)
    driver.set_active_to_cpu()
    assert 0.5 < testing.get_dram_gbps() < 5000
    assert testing.get_max_simd_tflops(tl.float32, 1e6) > 0


FAKE_SMI = """#!{python}
import pathlib, sys
log = pathlib.Path(__file__).with_name("log")
log.write_text((log.read_text() if log.exists() else "") + " ".join(sys.argv[3:]) + "\\n")
if sys.argv[3].startswith("--query"):
    print("{sm}, 1215")
if "{refuse}" and sys.argv[3].startswith("{refuse}"):
    sys.exit("Insufficient Permissions")
"""


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A program `nvidia-smi` whose calls are logged."""

    def make(sm: int = 1350, refuse: str = ""):
        file = tmp_path / "nvidia-smi"
        file.write_text(FAKE_SMI.format(python=sys.executable, sm=sm, refuse=refuse))
        file.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return tmp_path / "log"

    return make


def test_clocks(device, smi):
    device(A100, 80)
    log = smi()
    with testing.set_gpu_clock() as (tflops, gbps):
        assert tflops == pytest.approx(298.6, rel=1e-3) and gbps == pytest.approx(1555, rel=1e-3)
        assert log.read_text().split("\n")[1:3] == [
            "--lock-gpu-clocks=1350,1350", "--lock-memory-clocks=1215,1215"
        ]  # fmt: skip
    assert log.read_text().split("\n")[-3:-1] == ["--reset-gpu-clocks", "--reset-memory-clocks"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sm": 900}, "GPU SM clock is 900 MHz; 1350 MHz were asked for"),
     ({"refuse": "--lock-gpu"}, "--lock-gpu-clocks=1350,1350 failed: Insufficient Permissions")],
)  # fmt: skip
def test_clocks_that_cannot_be_had(device, smi, options, message):
    device(A100, 80)
    log = smi(**options)
    with pytest.raises(RuntimeError, match=message), testing.set_gpu_clock():
        pass
    assert "--reset-gpu-clocks" in log.read_text()


CHECKED = """
    import pytest
    from tritium.testing import cuda_memcheck

    @pytest.mark.parametrize("n", [1, 2])
    @cuda_memcheck(n=2)
    def test_it(n, request):
        assert n < 3
"""


def run_checked(pytester, tmp_path, monkeypatch, output: str):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\n\"$@\"\necho '{output}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    pytester.makepyfile(CHECKED)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


def test_memory_checker(pytester, tmp_path, monkeypatch):
    result = run_checked(pytester, tmp_path, monkeypatch, "ERROR SUMMARY: 0 errors")
    result.assert_outcomes(passed=2)
    assert (tmp_path / "calls").read_text().count("called") == 1


def test_memory_checker_that_finds_errors(pytester, tmp_path, monkeypatch):
    result = run_checked(pytester, tmp_path, monkeypatch, "ERROR SUMMARY: 3 errors")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*compute-sanitizer found errors*"])


def test_no_memory_checker(pytester, monkeypatch):
    monkeypatch.setenv("PATH", "")

    @testing.cuda_memcheck()
    def test(request):
        raise AssertionError("not reached")

    with pytest.raises(TypeError, match="must take the fixture `request`"):
        test()
    with pytest.raises(RuntimeError, match="needs compute-sanitizer on PATH"):
        test(request=SimpleNamespace(node=None))


def test_nvsmi_without_a_driver(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="nvidia-smi was not found"):
        testing.nvsmi(["clocks.sm"])
