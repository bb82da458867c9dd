"""Where the HIP runtime's library is looked for."""

from __future__ import annotations

import importlib.machinery
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tritium import knobs
from tritium.backends.amd import discovery
from tritium.system import libraries


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The paths that are opened, on a machine without the library; the loader knows none."""
    found: list[str] = []

    def load(path: str) -> str:
        if "/" not in path:
            raise OSError(f"{path}: not found")
        found.append(path)
        return path

    for module in (discovery, libraries):
        monkeypatch.setattr(module, "ctypes", SimpleNamespace(CDLL=load))
    monkeypatch.setattr(discovery, "USUAL", str(tmp_path / "opt"))
    mapped(monkeypatch)
    finder = SimpleNamespace(find_spec=lambda name: None)
    monkeypatch.setattr(importlib.machinery, "PathFinder", finder)
    for name in ("LD_LIBRARY_PATH", "HIP_PATH", "ROCM_PATH", "TRITON_LIBHIP_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return found


def mapped(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    """Let these be the files that are mapped into the process."""
    monkeypatch.setattr(type(knobs.system()), "loaded_files", lambda self: list(paths))


def installed(folder: Path, name: str = "libamdhip64.so") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"")
    return str(folder / name)


def loaded(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = installed(tmp / "mapped", "libamdhip64.so.6.2.41133")
    mapped(monkeypatch, "/x.so", path)
    return path


def of_torch(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    spec = SimpleNamespace(submodule_search_locations=[str(tmp / "torch")])
    finder = SimpleNamespace(find_spec=lambda name: spec if name == "torch" else None)
    monkeypatch.setattr(importlib.machinery, "PathFinder", finder)
    return installed(tmp / "torch" / "lib")


def in_library_path(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp / 'nowhere'}:{tmp / 'ld'}")
    return installed(tmp / "ld", "libamdhip64.so.6")


def in_hip_path(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HIP_PATH", str(tmp / "hip"))
    return installed(tmp / "hip" / "lib")


def by_hipconfig(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    tool = tmp / "bin" / "hipconfig"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho {tmp / 'configured'}\n")
    tool.chmod(0o755)
    return installed(tmp / "configured" / "lib")


def in_rocm_path(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ROCM_PATH", str(tmp / "rocm"))
    return installed(tmp / "rocm" / "lib")


def as_usual(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return installed(tmp / "opt" / "lib", "libamdhip64.so.7")


WAYS: tuple[Callable[..., str], ...] = (
    loaded, of_torch, in_library_path, in_hip_path, by_hipconfig, in_rocm_path, as_usual,
)  # fmt: skip
"""The first goes before the others."""


@pytest.mark.parametrize("first", range(len(WAYS)))
def test_the_first_place(
    first: int, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [way(tmp_path, monkeypatch) for way in WAYS[first:]]
    assert discovery.open_library() == paths[0]
    assert opened == paths[:1]


def test_the_place_that_is_named(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(tmp_path, monkeypatch)
    monkeypatch.setenv("TRITON_LIBHIP_PATH", "/named/libamdhip64.so")
    assert discovery.open_library() == "/named/libamdhip64.so"


def test_the_loader_s(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Any:
        if name != "libamdhip64.so.6":
            raise OSError(name)
        return name

    for module in (discovery, libraries):
        monkeypatch.setattr(module, "ctypes", SimpleNamespace(CDLL=load))
    assert discovery.open_library() == "libamdhip64.so.6"


def test_nowhere(opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", "/there/is/none")
    with pytest.raises(OSError, match=r"is not in /there/is/none/lib, .*opt/lib, and the loader"):
        discovery.open_library()
    assert not opened
