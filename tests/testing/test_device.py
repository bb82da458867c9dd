"""The roofline figures, for devices with known data sheets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tritium.language as tl
from tritium import testing
from tritium.backends.active import driver
from tritium.target import GPUTarget

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
    device({}, 0, backend="cpu")
    with pytest.raises(NotImplementedError, match="not for cpu"):
        testing.get_dram_gbps()


def test_nvsmi_without_a_driver(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="nvidia-smi was not found"):
        testing.nvsmi(["clocks.sm"])
