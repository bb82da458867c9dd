"""`tritium.compile`: sources, stages, metadata, the cache."""

from __future__ import annotations

import base64
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.runtime.compiling.sources import SIGNATURE, STAGES, run, source
from tests.support.launching import add_kernel
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.driver import CPUDriver
from tritium.compiler import ASTSource
from tritium.runtime import driver


def test_ast_source() -> None:
    kernel = tritium.compile(source())
    assert (run(kernel) == 2 * np.arange(16)).all()
    assert kernel.metadata.target == driver.active.get_current_target()
    assert list(kernel.asm) == STAGES
    assert all(isinstance(kernel.asm[stage], str) for stage in STAGES[:-1])
    assert isinstance(kernel.asm["obj"], bytes) and kernel.kernel == kernel.asm["obj"]
    assert "tt.func public @add_kernel" in kernel.asm["ttir"]
    assert "tt.func public @add_kernel" in kernel.asm["source"]
    with pytest.raises(KeyError, match=r"ptx"):
        kernel.asm["ptx"]
    assert kernel.asm.get("ptx") is None and "ptx" not in kernel.asm


def test_signatures() -> None:
    shuffled = {name: SIGNATURE[name] for name in ("n", "BLOCK", "out", "y", "x")}
    assert ASTSource(add_kernel, shuffled, {"BLOCK": 16}).hash() == source().hash()
    assert ASTSource(add_kernel, shuffled, {(4,): 16}).hash() == source().hash()
    assert ASTSource(add_kernel, SIGNATURE, {"BLOCK": 32}).hash() != source().hash()
    text = ASTSource(add_kernel, "*fp32, *fp32, *fp32, i32", {"BLOCK": 16})
    assert text.hash() == source().hash()
    aligned = {(0,): [["tt.divisibility", 16]]}
    assert source(attrs=aligned).hash() != source().hash()
    assert "tt.divisibility = 16" in tritium.compile(source(attrs=aligned)).asm["ttir"]


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((add_kernel, {0: "*fp32"}), TypeError, "Signature keys must be string"),
        ((add_kernel, {"z": "*fp32"}), TypeError, "add_kernel has no parameter named 'z'"),
        ((add_kernel, SIGNATURE), TypeError, "no type and no constant for parameter 'BLOCK'"),
        ((add_kernel, SIGNATURE, {"Z": 1}), TypeError, "no parameter named 'Z'"),
        ((add_kernel, SIGNATURE, {"BLOCK": 1, (9,): 1}), TypeError, r"no parameter .*\(9,\)"),
        ((add_kernel, "*fp32"), TypeError, "no type and no constant for parameter 'y'"),
        ((add_kernel, ",".join(["i32"] * 7)), TypeError, "7 types .* 5 parameters"),
        ((add_kernel.fn, SIGNATURE), TypeError, "a function decorated with @jit is required"),
    ],
)
def test_bad_sources(args: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ASTSource(*args)


def test_types_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"'fp33'"):
        tritium.compile(ASTSource(add_kernel, {**SIGNATURE, "n": "fp33"}, {"BLOCK": 16}))


def test_what_is_no_source_or_target() -> None:
    with pytest.raises(TypeError, match=r"source must be either AST or a filepath; got 5"):
        tritium.compile(5)  # pyright: ignore
    with pytest.raises(TypeError, match=r"target must be of GPUTarget type; got 'cpu'"):
        tritium.compile(source(), target="cpu")  # pyright: ignore
    with pytest.raises(
        RuntimeError, match=r"0 compatible backends for target \(foo\) \(\[\]\). The"
    ):
        tritium.compile(source(), target=GPUTarget("foo", 0, 1))


def test_explicit_target() -> None:
    target = driver.active.get_current_target()
    assert tritium.compile(source(), target=target).hash == tritium.compile(source()).hash
    with pytest.raises(Exception, match=r"frozen|cannot assign"):
        target.arch = 5


METADATA = [
    "hash",
    "name",
    "target",
    "arch",
    "num_warps",
    "num_ctas",
    "num_stages",
    "cluster_dims",
    "shared",
    "maxnreg",
    "enable_fp_fusion",
    "extern_libs",
    "supported_fp8_dtypes",
    "deprecated_fp8_dot_operand_dtypes",
    "allowed_dot_input_precisions",
    "default_dot_input_precision",
    "max_num_imprecise_acc_default",
    "launch_pdl",
    "launch_cooperative_grid",
    "sanitize_overflow",
    "ir_override",
    "instrumentation_mode",
    "backend_name",
    "warp_size",
    "debug",
    "triton_version",
]


def test_metadata(fresh_cache: Path) -> None:
    kernel = tritium.compile(source(), options={"num_warps": 8})
    for name in METADATA:
        assert hasattr(kernel.metadata, name), name
    assert kernel.metadata.num_warps == 8 and kernel.metadata.name == "add_kernel"
    (path,) = fresh_cache.glob("*/add_kernel.json")
    stored = json.loads(path.read_text())
    assert stored["hash"] == kernel.hash == kernel.metadata.hash
    assert set(stored) == set(kernel.metadata._fields)


def test_layout_on_disk(fresh_cache: Path) -> None:
    kernel = tritium.compile(source())
    (folder,) = fresh_cache.iterdir()
    assert folder.name == base64.b32encode(bytes.fromhex(kernel.hash)).decode().rstrip("=")
    files = {f"add_kernel.{stage}" for stage in [*STAGES, "json"]}
    assert {p.name for p in folder.iterdir()} == files | {"__grp__add_kernel.json"}
    group = json.loads((folder / "__grp__add_kernel.json").read_text())
    assert set(group["child_paths"]) == files


def test_long_names_are_cut(fresh_cache: Path) -> None:
    name = "k" * 200

    @tritium.jit(repr=lambda _: name)
    def kernel(out):
        tl.store(out, 5)

    kernel.__name__ = name
    out = np.zeros(1, np.int32)
    assert kernel[(1,)](out).name == name and out[0] == 5
    assert all(len(path.name) <= 150 + len("__grp__.source") for path in fresh_cache.glob("*/*"))


# The cache


def _listen() -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    knobs.compilation.listener = lambda **info: seen.append(info)  # pyright: ignore
    return seen


def test_listener(fresh_cache: Path) -> None:
    seen = _listen()
    first = tritium.compile(source())
    second = tritium.compile(source())
    assert [info["cache_hit"] for info in seen] == [False, True]
    for info, kernel in zip(seen, (first, second), strict=True):
        assert info["metadata"]["name"] == "add_kernel" and info["src"].fn is add_kernel
        assert info["metadata"]["hash"] == kernel.hash
        assert info["metadata"]["target"] == kernel.metadata.target
        assert isinstance(info["metadata"]["target"], GPUTarget)
        assert "add_kernel.ttir" in info["metadata_group"]
    times = seen[0]["times"]
    assert [stage for stage, _ in times.lowering_stages] == STAGES[1:]
    assert times.ir_initialization > 0 and all(t > 0 for _, t in times.lowering_stages)
    assert times.total_lowering == sum(t for _, t in times.lowering_stages)
    assert times.total == times.ir_initialization + times.total_lowering + times.store_results
    hit = seen[1]["times"]
    assert hit.lowering_stages == [] and hit.store_results == 0 and hit.total_lowering == 0
    assert hit.total == hit.ir_initialization > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRITON_OVERRIDE_ARCH", "sm90"), ("DISABLE_LLVM_OPT", "1"), ("MLIR_ENABLE_DUMP", "x"),
        ("TRITON_DEFAULT_FP_FUSION", "0"), ("TRITON_F32_DEFAULT", "ieee"),
        ("PTXAS_OPTIONS", "-v"), ("TRITON_LIBDEVICE_PATH", "/x.bc"), ("MLIR_ENABLE_TIMING", "1"),
    ],
)  # fmt: skip
def test_variables_that_make_another_entry(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    first = tritium.compile(source())
    monkeypatch.setenv(name, value)
    assert tritium.compile(source()).hash != first.hash
    assert len(list(fresh_cache.glob("*/add_kernel.json"))) == 2


@pytest.mark.parametrize("name", ["TRITON_REPRODUCER_PATH", "TRITON_KERNEL_DUMP", "UNRELATED"])
def test_variables_that_do_not(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    first = tritium.compile(source())
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv(name, "1")
    assert tritium.compile(source()).hash == first.hash


def test_options_make_another_entry(fresh_cache: Path) -> None:
    hashes = {
        tritium.compile(source(), options=options).hash
        for options in ({}, {"num_warps": 8}, {"enable_fp_fusion": False}, {"num_warps": 4})
    }
    assert len(hashes) == 3


def test_always_compile(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _listen()
    tritium.compile(source())
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    tritium.compile(source())
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "0")
    tritium.compile(source())
    assert [info["cache_hit"] for info in seen] == [False, False, True]


def test_store_binary_only(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    kernel = tritium.compile(source())
    names = {p.name for p in fresh_cache.glob("*/*")}
    assert names == {"add_kernel.obj", "add_kernel.json", "__grp__add_kernel.json"}
    assert (run(kernel) == 2 * np.arange(16)).all()
    assert list(kernel.asm) == ["obj"]
    assert (run(tritium.compile(source())) == 2 * np.arange(16)).all()


@pytest.mark.parametrize("name", ["add_kernel.obj", "add_kernel.json", "__grp__add_kernel.json"])
def test_a_deleted_file(fresh_cache: Path, name: str) -> None:
    seen = _listen()
    tritium.compile(source())
    next(fresh_cache.glob(f"*/{name}")).unlink()
    kernel = tritium.compile(source())
    assert (run(kernel) == 2 * np.arange(16)).all()
    assert list(kernel.asm) == STAGES and kernel.asm["ttir"]
    assert [info["cache_hit"] for info in seen] == [False, False]


def test_a_deleted_text(fresh_cache: Path) -> None:
    seen = _listen()
    tritium.compile(source())
    next(fresh_cache.glob("*/add_kernel.ttir")).unlink()
    kernel = tritium.compile(source())
    assert (run(kernel) == 2 * np.arange(16)).all()
    assert "ttir" not in kernel.asm and "llir" in kernel.asm
    assert seen[1]["cache_hit"]


def test_stages_inspection_hook(fresh_cache: Path) -> None:
    seen: list[Any] = []

    def hook(*args: Any) -> Any:
        if not args:
            return "my key", "my hash"
        stages = args[1]
        original = stages["ttir"]

        def ttir(module: Any, metadata: Any) -> Any:
            seen.append("ttir")
            return original(module, metadata)

        stages["ttir"] = ttir
        return None

    plain = tritium.compile(source())
    knobs.runtime.add_stages_inspection_hook = hook
    assert tritium.compile(source()).hash != plain.hash
    assert seen == ["ttir"]


@pytest.mark.parametrize("target", [GPUTarget("cpu", "", 1), GPUTarget("cuda", 90, 32)])
def test_the_address_sanitizer_is_bounds(no_ptxas: None, target: GPUTarget) -> None:
    assert not tritium.compile(source(), target).metadata.instrumentation_mode
    knobs.compilation.enable_asan = True
    for mode in ("", "fp", "bounds"):
        options = {"instrumentation_mode": mode}
        found = tritium.compile(source(), target, options).metadata
        assert found.instrumentation_mode == ("bounds,fp" if mode == "fp" else "bounds")
        assert any(site["kind"] == "bounds" for site in found.sanitizer["sites"])


def test_no_plug_ins_of_llvm(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLVM_PASS_PLUGIN_PATH", "x.so")
    with pytest.warns(RuntimeWarning, match=r"PLUGIN_PATH=x.so has no effect: llvmlite") as said:
        assert tritium.compile(source()) and tritium.compile(source()) and len(said) == 1


@pytest.mark.parametrize("arch", [None, 0, "", "native", platform.machine()])
def test_the_cpus_own_names(arch: Any, fresh_cache: Path) -> None:
    """All of them are the machine's processor, in the metadata and in the cache."""
    first = tritium.compile(source(), target=GPUTarget("cpu", arch, 1))
    second = tritium.compile(source(), target=CPUDriver().get_current_target())
    assert first.metadata.target == second.metadata.target == CPUDriver().get_current_target()
    assert first.hash == second.hash
