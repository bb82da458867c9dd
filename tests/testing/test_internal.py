"""The helpers that test suites of kernels import."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

import tritium.language as tl
from tritium import _internal_testing as it
from tritium import knobs
from tritium.backends.active import driver
from tritium.target import GPUTarget

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


class Stub:
    def __init__(self, backend: str, arch: object):
        self.target = GPUTarget(backend, arch, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target


@pytest.fixture
def target(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return lambda backend, arch: monkeypatch.setattr(driver, "_active", Stub(backend, arch))


FAMILIES = ("is_cuda", "is_hip", "is_xpu", "is_cpu")
KINDS = (
    *("is_ampere_or_newer", "is_hopper", "is_hopper_or_newer", "is_blackwell", "is_sm12x"),
    *("is_hip_cdna2", "is_hip_cdna3", "is_hip_cdna4", "is_hip_cdna"),
    *("is_hip_gfx11", "is_hip_gfx12", "is_hip_gfx1250"),
)


@pytest.mark.parametrize(
    ("backend", "arch", "true"),
    [
        ("cpu", "znver4", {"is_cpu"}),
        ("cuda", 75, {"is_cuda"}),
        ("cuda", 80, {"is_cuda", "is_ampere_or_newer"}),
        ("cuda", 90, {"is_cuda", "is_ampere_or_newer", "is_hopper", "is_hopper_or_newer"}),
        ("cuda", 100, {"is_cuda", "is_ampere_or_newer", "is_blackwell", "is_hopper_or_newer"}),
        ("cuda", 120, {"is_cuda", "is_ampere_or_newer", "is_sm12x", "is_hopper_or_newer"}),
        ("hip", "gfx942", {"is_hip", "is_hip_cdna", "is_hip_cdna3"}),
        ("hip", "gfx950", {"is_hip", "is_hip_cdna", "is_hip_cdna4"}),
        ("hip", "gfx1100", {"is_hip", "is_hip_gfx11"}),
        ("hip", "gfx1250", {"is_hip", "is_hip_gfx1250"}),
    ],
)
def test_targets(target, backend, arch, true):
    target(backend, arch)
    assert {name for name in FAMILIES + KINDS if getattr(it, name)()} == true
    assert it.get_arch() == str(arch)


def test_under_the_interpreter_there_is_no_target(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert it.is_interpreter() and it.get_current_target() is None
    assert not any(getattr(it, name)() for name in FAMILIES + KINDS) and it.supports_tma()


@pytest.mark.parametrize("name", [*it.dtypes_with_bfloat16, "float8e5", "bool"])
def test_random_data(name):
    x = it.numpy_random((3, 5), name)
    assert x.shape == (3, 5) and np.array_equal(x, it.numpy_random((3, 5), name))
    if name in it.integral_dtypes:
        assert x.dtype.name == name and np.all(x != 0)
        few = it.numpy_random(100, name, low=1, high=4)
        assert set(few.tolist()) == {1, 2, 3}
    if name == "bfloat16":
        assert not np.any(x.view(np.uint32) & 0xFFFF)


def test_random_data_of_no_type():
    with pytest.raises(RuntimeError, match="unknown dtype 'int7'"):
        it.numpy_random(3, "int7")


def test_names_of_types():
    assert it.str_to_triton_dtype("bool") is tl.int1
    assert it.str_to_triton_dtype("float32") is tl.float32
    with pytest.raises(TypeError, match="not a dtype"):
        it.torch_dtype_name("float32")


@needs_torch
@pytest.mark.parametrize("name", ["int32", "uint16", "float32", "bool"])
def test_to_torch_and_back(name):
    x = it.numpy_random((4, 4), name)
    found = it.to_numpy(it.to_triton(x, device="cpu"))
    assert found.dtype == x.dtype and np.array_equal(found, x)


@needs_torch
def test_bfloat16_through_torch():
    import torch

    x = it.numpy_random(16, "bfloat16")
    tensor = it.to_triton(x, device="cpu", dst_type="bfloat16")
    assert tensor.dtype == torch.bfloat16 and it.torch_dtype_name(tensor.dtype) == "bfloat16"
    assert np.array_equal(it.to_numpy(tensor), x)


def test_fresh_settings(monkeypatch):
    monkeypatch.setenv("TRITON_REDIS_PORT", "5")
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", "/cuda")
    monkeypatch.setattr(knobs, "propagate_env", False)
    fresh, reset = it._fresh_knobs_impl({"nvidia"})
    found = fresh()
    assert found is knobs and knobs.propagate_env
    assert knobs.redis.port == 6379 and knobs.nvidia.libcuda_path == "/cuda"
    knobs.redis.host = "far"
    assert os.environ["TRITON_REDIS_HOST"] == "far"
    reset()
    assert knobs.redis.port == 5 and knobs.redis.host == "localhost" and not knobs.propagate_env
    assert "TRITON_REDIS_HOST" not in os.environ
