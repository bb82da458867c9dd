"""Texts of the driver's errors, without a driver."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tritium.backends.nvidia import libcuda
from tritium.backends.nvidia.launcher import address_of


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cuda.bindings.driver` with errors alone: status 7 is named by `NAME`."""
    module = ModuleType("cuda.bindings.driver")
    module.cuGetErrorName = lambda status: (0, NAMES[status].encode())  # type: ignore[attr-defined]
    module.cuGetErrorString = lambda status: (0, b"its words")  # type: ignore[attr-defined]
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", module)


NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    201: "CUDA_ERROR_INVALID_CONTEXT", 710: "CUDA_ERROR_ASSERT",
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "words"),
    [(1, "65535 x 65535 programs"), (209, "another architecture"), (222, "update the driver"),
     (201, "make the kernel's device current"), (700, "cannot use the device any more"),
     (710, "assertion in a kernel failed")],
)  # fmt: skip
def test_an_error_says_what_to_do(driver: Any, status: int, words: str):
    with pytest.raises(RuntimeError) as caught:
        libcuda.check((status,))
    text = str(caught.value)
    assert text.startswith(f"Triton Error [CUDA]: its words ({NAMES[status]}); ") and words in text


def test_other_errors_have_the_drivers_words(driver: Any):
    with pytest.raises(RuntimeError, match=r"^Triton Error \[CUDA\]: its words \(.*MEMORY\)$"):
        libcuda.check((2,))


def test_results_are_unpacked(driver: Any):
    assert libcuda.check((0, 5)) == 5 and libcuda.check((0, 1, 2)) == (1, 2)


def test_without_a_driver_there_is_no_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(tmp_path / "libcuda.so"))
    libcuda.device_count.cache_clear()
    try:
        assert libcuda.device_count() == 0
    finally:
        libcuda.device_count.cache_clear()


def test_a_library_that_is_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    path = tmp_path / "libcuda.so"
    path.write_bytes(b"not a library")
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(path))
    libcuda.device_count.cache_clear()
    try:
        assert libcuda.device_count() == 0
    finally:
        libcuda.device_count.cache_clear()


def test_launching_without_the_bindings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    libcuda.library.cache_clear()
    with pytest.raises(ImportError, match=r"needs cuda-bindings: pip install 'tritium\[cuda\]'"):
        libcuda.library()
    libcuda.library.cache_clear()


def test_a_module_that_is_called_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    """A user's `cuda.py` hides the bindings; it is neither run nor in the way."""
    (tmp_path / "cuda.py").write_text("raise SystemExit('was run')")
    for name in [n for n in sys.modules if n == "cuda" or n.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    assert not libcuda.has_bindings()
    (tmp_path / "cuda.py").unlink()
    (tmp_path / "cuda" / "bindings").mkdir(parents=True)
    importlib.invalidate_caches()
    assert libcuda.has_bindings()
    module: Any = ModuleType("cuda")
    monkeypatch.setitem(sys.modules, "cuda", module)
    assert not libcuda.has_bindings()
    module.__path__ = [str(tmp_path / "cuda")]
    assert libcuda.has_bindings()


def test_a_tensor_whose_memory_is_gone():
    def tensor(size: int) -> Any:
        return SimpleNamespace(is_cuda=True, data_ptr=lambda: 0, numel=lambda: size, shape=(size,))

    assert address_of(tensor(0), 2) == 0
    with pytest.raises(ValueError, match=r"\(at 2\) is a .* of shape \[5\] whose memory is not"):
        address_of(tensor(5), 2)
