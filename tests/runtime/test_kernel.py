"""`CompiledKernel`: loaded when it is first used, launched directly."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
from tests.support.launching import StubDriver, add_kernel
from tritium.compiler import ASTSource
from tritium.compiler.kernel import AsmDict
from tritium.runtime import driver
from tritium.target import GPUTarget

SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


def compiled() -> Any:
    return tritium.compile(ASTSource(add_kernel, SIGNATURE, {"BLOCK": 8}))


def test_loaded_when_used() -> None:
    kernel = compiled()
    assert kernel.module is None and kernel.function is None
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    kernel[(1, 1, 1)](x, x, out, 5, 8)
    assert kernel.module is not None
    assert out.tolist() == [2] * 5 + [0] * 3


@pytest.mark.parametrize("target", [GPUTarget("cpu", "haswell", 1), GPUTarget("cuda", 90, 32)])
def test_code_is_sent_between_processes(target: GPUTarget) -> None:
    source = ASTSource(add_kernel, SIGNATURE, {"BLOCK": 8})
    asm = tritium.compile(source, target=target).asm
    copy = pickle.loads(pickle.dumps(asm))
    assert list(copy) == list(asm)
    made = "asm" if target.backend == "cpu" else "ptx"
    assert copy[made] == asm[made]


def test_warps_of_a_target_with_lanes_are_no_threads_of_the_cpu() -> None:
    """torch.compile's targets have 32 lanes on a CPU as well."""
    host = driver.active.get_current_target()
    source = ASTSource(add_kernel, SIGNATURE, {"BLOCK": 8})
    kernel = tritium.compile(source, GPUTarget("cpu", host.arch, 32), {"num_warps": 8})
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    kernel[(1,)](x, x, out, 8, 8)
    assert (out == 2).all()


def test_closed_and_loaded_again() -> None:
    kernel = compiled()
    kernel.close()  # nothing is loaded yet
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    kernel[(1,)](x, x, out, 8, 8)
    kernel.close()
    assert kernel.module is None and kernel.function is None
    kernel.close()
    out[:] = 0
    kernel[(1,)](x, x, out, 8, 8)
    assert kernel.module is not None and (out == 2).all()


def test_a_closed_kernel_is_unloaded() -> None:
    unloaded: list[str] = []
    kernel = compiled()
    kernel._init_handles()
    kernel._run = SimpleNamespace(unload=lambda: unloaded.append("it"))
    kernel.close()
    assert unloaded == ["it"]


@pytest.mark.parametrize("grid", [(2,), (2, 1), (2, 1, 1)])
def test_grids_of_any_length(stub: StubDriver, grid: tuple[int, ...]) -> None:
    kernel = compiled()
    kernel[grid](1, 2, 3, 4, 5)
    kernel[grid](1, 2, 3, 4, 5, stream=77)
    assert [launch.grid for launch in stub.launches] == [(2, 1, 1)] * 2
    assert [launch.stream for launch in stub.launches] == [100, 77]
    assert stub.launches[0].args == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), 5, "abc"])
def test_bad_grids(stub: StubDriver, grid: Any) -> None:
    with pytest.raises(TypeError, match=r"the grid must be a tuple of 1 to 3 ints"):
        compiled()[grid]


def test_run_spelled_out() -> None:
    kernel = compiled()
    launch = kernel.run
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    launch(
        1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, x, out, 8, 8
    )  # fmt: skip
    assert (out == 2).all()


def test_a_kernel_does_not_need_its_cache_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", "cache")
    here = compiled()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "tt.func" in here.asm["ttir"]
    shutil.rmtree(tmp_path / "cache")
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    here[(1, 1, 1)](x, x, out, 8, 8)
    assert (out == 2).all()


def test_from_the_cache_it_is_the_same(fresh_cache: Path) -> None:
    first, second = compiled(), compiled()
    assert first is not second
    assert first.metadata == second.metadata and first.kernel == second.kernel
    assert dict(first.asm.items()).keys() == dict(second.asm.items()).keys()


def test_asm_is_complete_in_every_way_of_reading() -> None:
    asm = compiled().asm
    assert all(value is not None for value in asm.values())
    assert all(value is not None for _, value in asm.items())
    assert {**asm}["ttir"] == asm["ttir"] == asm.get("ttir")
    assert asm.copy()["llir"] == asm["llir"]


def test_views_of_the_binary() -> None:
    calls: list[bytes] = []

    def sass(stages: Mapping[str, Any]) -> str:
        calls.append(stages["bin"])
        return "listing"

    asm = AsmDict({"bin": b"\x01\x02"}, "bin", {"sass": sass})
    assert list(asm) == ["bin"] and not calls
    assert asm["sass"] == "listing" and asm["sass"] == "listing" and calls == [b"\x01\x02"]
    assert asm.get("ptx", 5) == 5
    with pytest.raises(KeyError, match="no stage is called 'ptx'; this kernel has bin, sass"):
        asm["ptx"]


def test_metadata_is_a_named_tuple():
    made = compiled()
    metadata = made.metadata
    fields = metadata._asdict()
    assert isinstance(metadata, tuple) and metadata.name == fields["name"] == made.name
    assert tuple(fields) == metadata._fields and list(fields.values()) == list(metadata)
    assert metadata._replace(num_warps=8).num_warps == 8
    assert repr(metadata).startswith("KernelMetadata(")
    copy = pickle.loads(pickle.dumps(metadata))
    assert copy == metadata and copy.shared == metadata.shared
