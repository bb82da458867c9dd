"""`tritium layout`: tables of layouts, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tritium.cli.app import app

BLOCKED = ("#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], "
           "order = [1, 0]}>")  # fmt: skip
SHARED = "#ttg.swizzled_shared<{vec = 2, perPhase = 1, maxPhase = 4, order = [1, 0]}>"
FILE = f"""
#rows = {BLOCKED}
#columns = {BLOCKED.replace("[1, 0]", "[0, 1]")}
#loc = loc("kernel.py":1:1)
module attributes {{"ttg.num-warps" = 1 : i32}} {{
  tt.func @f(%x: tensor<2x4xf32, #rows>, %y: tensor<8x8xf32, #rows>, %z: tensor<2x2xi1, #columns>) {{
    tt.return
  }}
}}
"""  # noqa: E501


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["layout", *arguments])
    return result.exit_code, result.output


def test_types():
    kind = f"tensor<8x8xf32, {BLOCKED}>"
    status, text = run(kind)
    first, *rows = text.splitlines()
    assert (status, first, len(rows)) == (0, kind, 8)
    assert rows[1] == "[ T4:0,  T4:1,  T5:0,  T5:1,  T6:0,  T6:1,  T7:0,  T7:1]"
    status, text = run("--hardware", kind)
    assert status == 0 and "\nT6 : (1, 4), (1, 5)\n" in text
    status, text = run(f"!ttg.memdesc<8x8xf16, {SHARED}, #ttg.shared_memory>")
    assert status == 0 and text.splitlines()[2] == "[10, 11,  8,  9, 14, 15, 12, 13]"


def test_files(tmp_path: Path):
    file = tmp_path / "kernel.ttgir"
    file.write_text(FILE)
    status, text = run(str(file))
    heads = [line for line in text.splitlines() if line.startswith("tensor<")]
    assert status == 0 and [head[:10] for head in heads] == ["tensor<8x8", "tensor<2x2"]
    status, text = run(str(file), "-l", "columns")
    assert status == 0 and text.startswith("tensor<2x2") and "tensor<8x8" not in text
    status, text = run(str(file), "-l", "#mma")
    assert status == 1 and text.endswith("has no layout #mma; there are #rows, #columns\n")


@pytest.mark.parametrize(("source", "message"), [
    ("tensor<8x8xf32>", "<type> has no layout"),
    ("tensor<8x", "<type>:1:25: "),
    (f"tensor<8x5xf32, {BLOCKED}>", "the size of dim1 is 5; a power of two is required"),
    (f"tensor<512x512xf32, {BLOCKED}>", "has 262144 elements; up to 65536 are shown"),
    ("nothing.ttgir", "nothing.ttgir: No such file or directory"),
])  # fmt: skip
def test_errors(source: str, message: str):
    status, text = run(source)
    assert status == 1 and text.startswith("tritium: error: ") and message in text


def test_a_file_that_is_no_text(tmp_path: Path):
    (tmp_path / "a.ttgir").write_bytes(b"\x8d")
    assert "is no text" in run(str(tmp_path / "a.ttgir"))[1]
