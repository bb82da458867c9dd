"""Files of stages: as sources, dumped, and in place of what a stage makes."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.runtime.compiling.sources import STAGES, run, source
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource, IRSource, make_backend
from tritium.errors import StageFileError, TritonError
from tritium.runtime import driver


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


def test_a_module_of_a_file_is_kept_as_it_is_written(tmp_path: Path) -> None:
    text = "// the sum\n" + tritium.compile(source()).asm["ttir"]
    path = tmp_path / "add_kernel.ttir"
    path.write_text(text)
    assert tritium.compile(path).asm["ttir"] == text
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        assert "loc(" not in tritium.compile(path, options={"num_warps": 8}).asm["ttir"]


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


@pytest.mark.covering(1)
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


def test_the_module_of_a_file(tmp_path: Path) -> None:
    """The IR of a kernel is asked for the way programs that inspect kernels do it."""
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


def test_a_file_of_the_tile_stage(fresh_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.tile"
    path.write_text(tritium.compile(source()).asm["tile"])
    kernel = tritium.compile(path)
    assert list(kernel.asm) == ["tile", "llir", "obj"] and kernel.name == "add_kernel"
    x, y, out = (np.arange(16, dtype=np.float32) for _ in range(3))
    kernel[(1,)](x, y, out, 16)
    assert np.array_equal(out, x + y)
