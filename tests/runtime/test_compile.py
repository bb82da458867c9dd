"""`tritium.compile`: sources, stages, metadata, the cache, dumps and overrides."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import add_kernel
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.driver import CPUDriver
from tritium.cli.opt import optimize
from tritium.compiler import ASTSource, CompiledKernel, IRSource, make_backend
from tritium.errors import StageFileError, TritonError
from tritium.passes import PassError
from tritium.passes.ttir import CSE
from tritium.runtime import driver

SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
STAGES = ["source", "ttir", "tile", "llir", "obj"]


def source(block: int = 16, **attrs: Any) -> ASTSource:
    return ASTSource(add_kernel, SIGNATURE, {"BLOCK": block}, **attrs)


def run(kernel: CompiledKernel, block: int = 16) -> np.ndarray:
    x = np.arange(block, dtype=np.float32)
    out = np.zeros_like(x)
    kernel[(1, 1, 1)](x, x, out, block, block)
    return out


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


# Files as sources


@pytest.mark.parametrize("stage", ["ttir", "llir"])
def test_from_a_file(tmp_path: Path, stage: str) -> None:
    text = tritium.compile(source()).asm[stage]
    path = tmp_path / f"add_kernel.{stage}"
    path.write_text(text)
    kernel = tritium.compile(str(path) if stage == "ttir" else path)
    assert kernel.name == "add_kernel"
    assert list(kernel.asm) == STAGES[STAGES.index(stage) :]
    assert kernel.asm[stage].strip() == text.strip()
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    kernel[(1, 1, 1)](x, x, out, 16)
    assert (out == 2 * x).all()


def test_an_edited_file_is_launched(tmp_path: Path) -> None:
    text = tritium.compile(source()).asm["llir"]
    assert " fadd " in text
    path = tmp_path / "add_kernel.llir"
    path.write_text(text.replace(" fadd ", " fmul "))
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    tritium.compile(path)[(1, 1, 1)](x, x, out, 16)
    assert (out == x * x).all()


def test_a_file_of_another_maker(tmp_path: Path) -> None:
    text = tritium.compile(source()).asm["llir"]
    path = tmp_path / "add_kernel.llir"
    path.write_text("\n".join(line for line in text.split("\n") if "tritium-kernel" not in line))
    message = r"add_kernel.llir: the types of the kernel's arguments .* lacks the line "
    with pytest.raises(ValueError, match=message):
        _ = IRSource(path, None, make_backend(driver.active.get_current_target())).signature


@pytest.mark.ptxas
def test_files_for_cuda(tmp_path: Path) -> None:
    target, options = GPUTarget("cuda", 90, 32), {"num_warps": 8}
    first = tritium.compile(source(512), target, options)
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        path = tmp_path / f"add_kernel.{stage}"
        path.write_text(first.asm[stage])
        parsed = IRSource(path, None, make_backend(target))
        assert list(parsed.signature.values()) == ["*f32", "*f32", "*f32", "i32"]
        kernel = tritium.compile(path, target, options if stage == "ttir" else None)
        assert list(kernel.asm)[:: len(kernel.asm) - 1] == [stage, "cubin"]
        assert kernel.asm["ptx"] == first.asm["ptx"], stage
        for name in ("num_warps", "shared", "name", "global_scratch_size"):
            assert getattr(kernel.metadata, name) == getattr(first.metadata, name), (stage, name)


def test_signature_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "k.ttir"
    path.write_text(tritium.compile(source()).asm["ttir"])
    backend = make_backend(driver.active.get_current_target())
    parsed = IRSource(path, None, backend)
    assert parsed.name == "add_kernel"
    assert list(parsed.signature.values()) == ["*f32", "*f32", "*f32", "i32"]
    path.write_text("module {}")
    with pytest.raises(ValueError, match=r"k.ttir: the module has no public tt.func"):
        IRSource(path, None, backend)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text("")
    with pytest.raises(
        ValueError, match=r"k.txt: '.txt' is no stage of this backend; its stages are"
    ):
        tritium.compile(path)
    with pytest.raises(FileNotFoundError, match=r"absent.ttir"):
        tritium.compile(tmp_path / "absent.ttir")
    path = tmp_path / "k.ttir"
    path.write_text("module { tt.func @k(")
    with pytest.raises(Exception, match=r"k.ttir"):
        tritium.compile(path)
    path = tmp_path / "k.llir"
    path.write_text("")
    with pytest.raises(ValueError, match=r"k.llir: no kernel is defined in this llir text"):
        tritium.compile(path)
    path = tmp_path / "k.obj"
    path.write_bytes(tritium.compile(source()).asm["obj"])
    with pytest.raises(ValueError, match=r"k.obj is no text .*an earlier stage is required"):
        tritium.compile(path)


def test_bad_text_in_files(tmp_path: Path) -> None:
    kernel = tritium.compile(source())
    path = tmp_path / "k.ttir"
    path.write_text(kernel.asm["ttir"].replace("tt.return", "tt.return\n    tt.return"))
    with pytest.raises(TritonError, match=r"k.ttir:\d+:5: tt.return ends its block; tt.return fol"):
        tritium.compile(path)
    path.write_text("module {")
    with pytest.raises(TritonError, match=r"k.ttir:1:9: an operation or '}' is expected"):
        tritium.compile(path)
    path = tmp_path / "k.tile"
    path.write_text(kernel.asm["tile"].replace("tt.store", "tt.stor"))
    with pytest.raises(TritonError, match=r"k.tile:\d+:\d+: .*tt\.stor is not registered"):
        tritium.compile(path)


def test_a_file_for_another_number_of_lanes(tmp_path: Path) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(tritium.compile(source(), target=GPUTarget("cuda", 90, 32)).asm["ttgir"])
    with pytest.raises(ValueError, match=r"k.ttgir is for warps of 32 threads; .* have 64"):
        tritium.compile(path, target=GPUTarget("hip", "gfx942", 64))


def test_the_stage_of_a_file_is_in_the_key(tmp_path: Path) -> None:
    backend = make_backend(GPUTarget("cuda", 90, 32))
    text = tritium.compile(source(), target=backend.target).asm["ptx"]
    for stage in ("ptx", "cubin"):
        (tmp_path / f"k.{stage}").write_text(text)
    ptx, cubin = (IRSource(tmp_path / f"k.{stage}", None, backend) for stage in ("ptx", "cubin"))
    assert ptx.hash() != cubin.hash()


# Dumps and overrides


def _source_folder(src: ASTSource) -> str:
    digest = hashlib.sha256(src.hash().encode()).hexdigest()
    return base64.b32encode(bytes.fromhex(digest)).decode().rstrip("=")


def test_dump(fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    kernel = tritium.compile(source())
    (folder,) = (tmp_path / "dump").iterdir()
    files = {path.name for path in folder.iterdir()}
    assert files == {f"add_kernel.{stage}" for stage in STAGES}
    assert (folder / "add_kernel.ttir").read_text() == kernel.asm["ttir"]
    tritium.compile(source(), options={"num_warps": 8})
    assert len(list((tmp_path / "dump").iterdir())) == 1, "the folder does not depend on options"


def test_override(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path / "override"))
    with knobs.compilation.scope():
        knobs.compilation.dump_ir = True
        tritium.compile(source())
    os.rename(tmp_path / "dump", tmp_path / "override")
    (folder,) = (tmp_path / "override").iterdir()
    for path in folder.iterdir():
        if path.name != "add_kernel.ttir":
            path.unlink()
    text = (folder / "add_kernel.ttir").read_text()
    (folder / "add_kernel.ttir").write_text(text.replace("arith.addf", "arith.mulf"))
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    kernel = tritium.compile(source())
    assert (run(kernel) == np.arange(16) ** 2).all()
    printed = capsys.readouterr().out
    assert f"Overriding kernel with file {folder / 'add_kernel.ttir'}" in printed
    assert "arith.mulf" in kernel.asm["ttir"] and "arith.mulf" not in kernel.asm["source"]


@pytest.fixture
def tile_file(fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dumped text of the tile stage, which replaces that stage; it may be changed."""
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path))
    with knobs.compilation.scope():
        knobs.compilation.dump_ir = True
        tritium.compile(source())
    (folder,) = (path for path in tmp_path.iterdir() if (path / "add_kernel.tile").exists())
    for path in folder.iterdir():
        if path.name != "add_kernel.tile":
            path.unlink()
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    return folder / "add_kernel.tile"


def test_an_override_of_the_tile_stage(tile_file: Path, capsys: Any) -> None:
    text = tile_file.read_text()
    with knobs.compilation.scope():
        knobs.compilation.override = False
        plain = tritium.compile(source())
    same = tritium.compile(source())
    assert f"Overriding kernel with file {tile_file}" in capsys.readouterr().out
    assert same.asm["llir"] == plain.asm["llir"] and same.metadata.written_args == [2]
    tile_file.write_text(text.replace("arith.addf", "arith.mulf"))
    assert (run(tritium.compile(source())) == np.arange(16) ** 2).all()
    # Now it stores through y as well.
    store = re.search(r"tt\.store (%\w+)(, .*)", text)
    _, pointer = re.findall(r"tt\.load (%\w+)", text)
    assert store is not None
    tile_file.write_text(text.replace(store[0], f"{store[0]}\n    tt.store {pointer}{store[2]}"))
    assert tritium.compile(source()).metadata.written_args == [1, 2]


def test_what_is_no_text_of_the_tile_stage(tile_file: Path) -> None:
    text = tile_file.read_text()
    line = text[: text.index("tt.store")].count("\n") + 1
    for changed, error, message in (
        (text.replace("nest [16]", "nest [8]"), StageFileError, r"over \(8,\) runs over \(16,"),
        (text.replace("tt.store", "tt.stor"), TritonError, rf"kernel\.tile:{line}:\d+: .*tt\.stor"),
    ):  # fmt: skip
        assert changed != text
        tile_file.write_text(changed)
        with pytest.raises(error, match=message):
            tritium.compile(source())


def test_an_override_does_not_stay(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel compiled with a file in place of a stage is not found without it."""
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path))
    text = tritium.compile(source()).asm["ttir"]
    folder = tmp_path / _source_folder(source())
    folder.mkdir()
    (folder / "add_kernel.ttir").write_text(text.replace("arith.addf", "arith.mulf"))
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    assert (run(tritium.compile(source())) == np.arange(16) ** 2).all()
    monkeypatch.delenv("TRITON_KERNEL_OVERRIDE")
    assert (run(tritium.compile(source())) == 2 * np.arange(16)).all()


@pytest.mark.parametrize("stage", ["ttir", "llir"])
def test_ir_override(tmp_path: Path, stage: str) -> None:
    text = tritium.compile(source()).asm[stage]
    path = tmp_path / f"changed.{stage}"
    path.write_text(text.replace("arith.addf", "arith.mulf").replace("fadd", "fmul"))
    kernel = tritium.compile(source(), options={"ir_override": str(path)})
    assert (run(kernel) == np.arange(16) ** 2).all()
    path.write_text(text)
    kernel = tritium.compile(source(), options={"ir_override": str(path)})
    assert (run(kernel) == 2 * np.arange(16)).all(), "the file's content is part of the key"


def test_bad_overrides(tmp_path: Path) -> None:
    (tmp_path / "k.spv").write_text("")
    with pytest.raises(ValueError, match=r"k\.spv'; it must be a file of a stage: \['ttir', "):
        tritium.compile(source(), options={"ir_override": str(tmp_path / "k.spv")})
    with pytest.raises(FileNotFoundError, match=r"ir_override: there is no file .*none\.ttir"):
        tritium.compile(source(), options={"ir_override": str(tmp_path / "none.ttir")})


CUDA = GPUTarget("cuda", 90, 32)
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "bytes": lambda data: b"\xff\xfe" + data,
    "an end": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "words": lambda data: data[: len(data) // 2] + b"\n%%% words\n" + data[len(data) // 2 :],
}
WHERE = {"ttir": r":\d+:\d+: ", "ttgir": r":\d+:\d+: ", "llir": r":\d+:\d+: "}


@pytest.mark.parametrize("how", ["ir_override", "TRITON_KERNEL_OVERRIDE"])
@pytest.mark.parametrize("target", [None, CUDA], ids=["cpu", "cuda"])
def test_a_damaged_override_is_named(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any, how: str
) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path))
    folder = tmp_path / _source_folder(source())
    folder.mkdir()
    (folder / "notes").mkdir()  # which is nobody's stage
    texts = {k: v for k, v in tritium.compile(source(), target).asm.items() if k != "source"}
    texts.pop("cubin", None)  # only the driver can tell
    options = None
    if how == "TRITON_KERNEL_OVERRIDE":
        monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    for stage, text in texts.items():
        path = folder / f"add_kernel.{stage}"
        if how == "ir_override":
            options = {"ir_override": str(path)}
        for kind, damage in DAMAGE.items():
            path.write_bytes(damage(text if isinstance(text, bytes) else text.encode()))
            place = WHERE.get(stage, "") if kind == "words" else ""
            with pytest.raises(TritonError, match=re.escape(str(path)) + place):
                tritium.compile(source(), target, options)
        path.unlink()


def test_an_override_that_is_wrong_in_itself(tmp_path: Path) -> None:
    text = tritium.compile(source()).asm["ttir"]
    path = tmp_path / "wrong.ttir"
    path.write_text(re.sub(r"arith\.addf (%\w+), %\w+", r"arith.addf \1, %x_ptr", text))
    assert path.read_text() != text
    with pytest.raises(TritonError, match=re.escape(str(path))):
        tritium.compile(source(), options={"ir_override": str(path)})


def test_what_is_no_cubin(tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"damaged")
    with pytest.raises(TritonError, match=rf"{path}: this is no cubin"):
        tritium.compile(source(), CUDA, {"ir_override": str(path)})


def test_an_override_of_another_name(tmp_path: Path, fresh_cache: Path) -> None:
    """The driver is asked for the entry that the machine code has."""
    target = GPUTarget("cuda", 90, 32)
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        text = tritium.compile(source(), target=target).asm[stage]
        (tmp_path / f"k.{stage}").write_text(text.replace("add_kernel", f"other_{stage}"))
        options = {"ir_override": str(tmp_path / f"k.{stage}")}
        kernel = tritium.compile(source(), target=target, options=options)
        assert kernel.name == kernel.metadata.name == f"other_{stage}"
        assert f".entry other_{stage}(" in kernel.asm["ptx"]


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


def test_dump_of_passes(capfd: Any, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "add_kernel")
    tritium.compile(source())
    error = capfd.readouterr().err
    assert re.search(r"// -----// IR Dump Before \S+ \(.*\) .*----- //", error)
    assert "IR Dump Before ReshapeAccesses (reshape-accesses) " in error, "of the tile stage"
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "another_kernel")
    tritium.compile(source())
    assert "IR Dump" not in capfd.readouterr().err


def test_a_named_kernels_passes_alone(capfd: Any, fresh_cache: Path) -> None:
    for name, shown in (("add_kernel", True), ("another", False), ("0", False), ("TRUE", True)):
        knobs.compilation.dump_passes = name
        tritium.compile(source())
        header = "// -----// IR Dump Before Inliner (inline) ('builtin.module' operation) //---"
        assert (header in capfd.readouterr().err) == shown


@pytest.mark.parametrize("variable", ["MLIR_DUMP_PATH", "TRITON_REPRODUCER_PATH"])
def test_paths_that_cannot_be_written(
    variable: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "1")
    monkeypatch.setenv(variable, "/no/such/folder/x")
    with pytest.raises(RuntimeError, match=f"Unable to use {variable}=/no/such/folder/x: "):
        tritium.compile(source())


def test_reproducer(tmp_path: Path, fresh_cache: Path) -> None:
    knobs.compilation.reproducer_path = str(tmp_path / "repro")
    key = tritium.compile(source()).hash
    tiles, file = sorted(tmp_path.glob("repro*"))
    assert tiles.name == "repro.make_tiles.repro.mlir"
    assert 'pipeline: "builtin.module(tensor-pointers,' in tiles.read_text()
    assert file.name == "repro.make_ttir.repro.mlir"
    text = file.read_text()
    assert "mlir_reproducer" in text
    assert re.search(r'pipeline: "builtin\.module\(inline,canonicalize,.*\)"', text)
    done = optimize(str(file), [])
    assert done.strip() == tritium.compile(source()).asm["ttir"].strip()
    assert optimize(str(file), ["cse"]) != done, "passes that are named are run instead"
    del knobs.compilation.reproducer_path
    assert tritium.compile(source()).hash == key, "it is neutral"


def test_a_failing_pass_prints_its_reproducer(
    capfd: Any, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(self: Any, module: Any) -> bool:
        raise RuntimeError("no reason")

    monkeypatch.setattr(CSE, "run", fail)
    with pytest.raises(PassError, match=r"cse: no reason"):
        tritium.compile(source())
    err = capfd.readouterr().err
    assert err.startswith("error: cse: no reason\nnote: pass cse failed; `tritium opt FILE` runs")
    text = err.split("\n", 2)[2]
    assert "tt.func public @add_kernel" in text and 'pipeline: "builtin.module(inline,' in text
    (tmp_path / "r.mlir").write_text(text)
    with pytest.raises(PassError, match=r"cse: no reason"):
        optimize(str(tmp_path / "r.mlir"), [])


def test_times_of_passes(capfd: Any, fresh_cache: Path) -> None:
    knobs.compilation.pass_timing = True
    tritium.compile(source())
    err = capfd.readouterr().err
    assert "... Execution time report ..." in err and re.search(r"\d+\.\d+ \( *\d.*%\)  cse", err)
    assert "  reshape-accesses\n" in err


def test_llvm_dump_and_times(capfd: Any, fresh_cache: Path) -> None:
    knobs.compilation.dump_llvm = knobs.compilation.llvm_timing = True
    tritium.compile(source())
    err = capfd.readouterr().err
    assert "; *** IR Dump of add_kernel ***\n" in err and "define" in err
    assert "execution timing report" in err


@pytest.mark.parametrize("target", [GPUTarget("cpu", "", 1), GPUTarget("cuda", 90, 32)])
def test_the_address_sanitizer_is_bounds(no_ptxas: None, target: GPUTarget) -> None:
    assert not tritium.compile(source(), target).metadata.instrumentation_mode
    knobs.compilation.enable_asan = True
    for mode in ("", "fp", "bounds"):
        options = {"instrumentation_mode": mode}
        found = tritium.compile(source(), target, options).metadata
        assert found.instrumentation_mode == ("bounds,fp" if mode == "fp" else "bounds")
        assert any(site["kind"] == "bounds" for site in found.sanitizer["sites"])


def test_remarks(capfd: Any, fresh_cache: Path) -> None:
    @tritium.jit
    def product(x, out):
        i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
        a = tl.load(x + i)
        tl.store(out + i, tl.dot(a, a))

    src = ASTSource(product, {"x": "*fp64", "out": "*fp64"}, {})
    assert knobs.compilation.diagnostics == frozenset()
    text = r"test_compile.py:\d+:\d+: remark: MMA version 3 acceleration not applied due to unsupp"
    for words, patterns in (
        ("", []),
        ("remarks", [text]),
        ("remarks,operations", [text, "note: see current operation: "]),
        ("remarks, stacktraces", [text, "note: diagnostic emitted with trace:\n  File"]),
    ):
        knobs.compilation.diagnostics = words
        knobs.compilation.always_compile = True
        tritium.compile(src, GPUTarget("cuda", 90, 32))
        err = capfd.readouterr().err
        assert all(re.search(p, err) for p in patterns) and bool(err) == bool(words), (words, err)
    with pytest.raises(RuntimeError, match=r"MLIR_ENABLE_DIAGNOSTICS.*some of warnings, remarks"):
        knobs.compilation.diagnostics = "everything"


@pytest.mark.parametrize("name", ["TRITON_ENABLE_LLVM_DEBUG", "TRITON_LLVM_DEBUG_ONLY"])
def test_no_llvm_debug_output(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.warns(RuntimeWarning, match=r"only LLVM built with assertions has debug output"):
        tritium.compile(source())


def test_the_module_of_a_file(tmp_path: Path) -> None:
    """As programs that look into kernels ask for it."""
    text = "module {\n  tt.func public @nothing() {\n    tt.return\n  }\n}\n"
    file = tmp_path / "nothing.ttir"
    file.write_text(text)
    source = IRSource(file, None, make_backend(GPUTarget("cpu", None, 1)))
    view = source.make_ir(GPUTarget("cpu", None, 1), None, {}, {}, None)
    assert view.verify() and "@nothing" in view.str_nodebug()




@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_locations_in_a_stages_file(capsys: Any, fresh_cache: Path, stage: str) -> None:
    """`USE_IR_LOC`: lines of that stage's text instead of Python's."""
    knobs.compilation.use_ir_loc = stage
    kernel = tritium.compile(source(), CUDA)
    path = Path(kernel.metadata_group[f"add_kernel.{stage}"])
    assert capsys.readouterr().out == f"Creating new locations for {path}\n"
    text, ptx = path.read_text(), kernel.asm["ptx"]
    assert text == kernel.asm[stage] and "loc(" not in text
    assert re.findall(r'\.file\s+\d+ "(.*)"', ptx) == [str(path)]
    lines = {int(n) for n in re.findall(r"\.loc\s+1 (\d+) ", ptx)}
    places = {n for n, line in enumerate(text.splitlines(), 1) if "tt.load" in line}
    assert places and places <= lines


def test_locations_in_a_source_file(capsys: Any, fresh_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.ttir"
    path.write_text("// a comment\n" + tritium.compile(source(), CUDA).asm["ttir"])
    knobs.compilation.use_ir_loc = "ttgir"
    ptx = tritium.compile(str(path), CUDA).asm["ptx"]
    assert f"Creating new locations for {path}\n" in capsys.readouterr().out
    assert '.ttgir"' in ptx and str(path) not in ptx, "those of the later stage"
    knobs.compilation.use_ir_loc = "ttir"
    ptx = tritium.compile(str(path), CUDA).asm["ptx"]
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if "tt.load" in line)
    assert f'"{path}"' in ptx and re.search(rf"\.loc\s+1 {number} ", ptx)


def test_no_plug_ins_of_llvm(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLVM_PASS_PLUGIN_PATH", "x.so")
    with pytest.warns(RuntimeWarning, match=r"PLUGIN_PATH=x.so has no effect: llvmlite") as said:
        assert tritium.compile(source()) and tritium.compile(source()) and len(said) == 1


def test_a_file_of_the_tile_stage(fresh_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.tile"
    path.write_text(tritium.compile(source()).asm["tile"])
    kernel = tritium.compile(path)
    assert list(kernel.asm) == ["tile", "llir", "obj"] and kernel.name == "add_kernel"
    x, y, out = (np.arange(16, dtype=np.float32) for _ in range(3))
    kernel[(1,)](x, y, out, 16)
    assert np.array_equal(out, x + y)


@pytest.mark.parametrize("arch", [None, 0, "", "native", platform.machine()])
def test_the_cpus_own_names(arch: Any, fresh_cache: Path) -> None:
    """All of them are the machine's processor, in the metadata and in the cache."""
    first = tritium.compile(source(), target=GPUTarget("cpu", arch, 1))
    second = tritium.compile(source(), target=CPUDriver().get_current_target())
    assert first.metadata.target == second.metadata.target == CPUDriver().get_current_target()
    assert first.hash == second.hash
