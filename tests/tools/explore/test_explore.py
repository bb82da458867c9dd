"""The explorer's page: stages, links by source line, passes, layouts; and its errors."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tritium.backends.base import Language
from tritium.cli.app import app
from tritium.cli.explore import ExploreError, Other, explore, record
from tritium.profiler import specs
from tritium.tools.explore.highlight import lexer_for
from tritium.tools.explore.layouts import layouts_of
from tritium.tools.explore.lines import Line, assembly_lines, ir_lines, llvm_lines, placed
from tritium.tools.explore.profile import profile_of
from tritium.tools.explore.shared import shared_layouts_of
from tritium.tools.instruction_mix import instruction_mix

pytest.importorskip("jinja2")
pytest.importorskip("pygments")
SRC = str(Path(__file__).parents[3] / "src")
KERNELS = """
import tritium, tritium.language as tl

@tritium.jit
def halve(x, y):
    return (x + y) * 0.5

@tritium.jit
def mean(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = halve(tl.load(x_ptr + i, mask=inside), tl.load(y_ptr + i, mask=inside))
    tl.store(out_ptr + i, total, mask=inside)
"""
SIGNATURE = "*fp32:16, *fp32, *fp32, i32, 64"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "kernels.py"
    place.write_text(KERNELS)
    return place


def page(file: Path, *, target: str = "cpu") -> str:
    out = file.with_suffix(".html")
    path, names = explore([str(file)], out, "mean", target, SIGNATURE)
    assert (path, names) == (out, ["mean (BLOCK=64)"])
    return out.read_text()


def stages(text: str) -> dict[str, str]:
    found = re.findall(r'data-stage="(\w+)"><pre class="code c" data-gz="([^"]+)"', text)
    return {name: gzip.decompress(base64.b64decode(data)).decode() for name, data in found}


def linked(part: str) -> dict[str, str]:
    """The text of the lines by their place."""
    rows = re.findall(r"<div data-n=\"\d+\" data-l=[\"']([\d-]+)[\"']>(.*?)</div>", part)
    found: dict[str, str] = {}
    for key, text in rows:
        found[key] = found.get(key, "") + re.sub(r"<[^>]+>", "", text) + "\n"
    return found


def test_a_page_needs_nothing_else_and_links_lines_of_all_stages(file: Path):
    text = page(file)
    assert not re.search(r"(?:src|href)=|url\(|@import", text)
    assert len(text) < 300_000
    source = linked(text.split('class="code c source"')[1].split("</pre>")[0])
    key = next(k for k, line in source.items() if "(x + y) * 0.5" in line)
    parts = stages(text)
    assert list(parts) == ["source", "ttir", "tile", "llir", "asm"]
    for stage in ("source", "ttir", "tile"):
        assert "arith.mulf" in linked(parts[stage])[key]
        assert linked(parts[stage]).keys() <= source.keys()
    for stage, code in (("llir", "fmul"), ("asm", "mul")):  # lowered once more, with lines
        lines = linked(parts[stage])
        assert code in lines[key] and "!dbg" not in parts[stage] and ".loc" not in parts[stage]
        assert lines.keys() <= source.keys() and not any(k.endswith("-0") for k in lines)
    assert "#loc" not in parts["ttir"] and "ret" in parts["asm"]
    assert "num_warps" in text and "asm instructions" in text


def test_passes_have_times_counts_and_differences(file: Path):
    (found,) = record([str(file)], "mean", "cpu", SIGNATURE)
    named = {p.name: p for p in found.passes if p.name}
    assert {"inline", "canonicalize", "tile-fuse"} <= named.keys()
    inline = named["inline"]
    assert inline.changes["tt.call"] == -1 and "arith.mulf" not in inline.changes
    assert any(line.startswith("-") and "tt.call" in line for line in inline.diff)
    assert inline.ops > 0 and inline.seconds > 0
    assert found.stages.keys() >= {"ttir", "tile", "llir", "obj"}
    text = page(file)
    assert "tt.call -1" in text and '<span class="minus">' in text


def test_code_is_linked_where_the_same_code_has_lines():
    here, plain = ("kernel.py", 3), "entry:\n  %a = fadd x, !tbaa !3\n  ret void"
    end = Line("  ret void", ("", 0))
    same = [Line("entry:", None), Line("  %a = fadd x, !tbaa !7", here), end]
    lines = [Line(text, None) for text in plain.splitlines()]
    found = placed(lines, same)
    assert [line.place for line in found] == [None, here, None]
    assert [line.text for line in found] == plain.splitlines()
    other = [same[0], Line("  %a = fsub x", here), end]
    assert placed(lines, other) == lines


@pytest.mark.ptxas
def test_every_stage_of_a_gpu_is_linked(file: Path):
    text = page(file, target="cuda:90:32")
    parts = stages(text)
    assert list(parts)[:5] == ["source", "ttir", "ttgir", "llir", "ptx"]
    source = linked(text.split('class="code c source"')[1].split("</pre>")[0])
    key = next(k for k, line in source.items() if "tl.store(" in line)
    assert "store" in linked(parts["ttgir"])[key]
    assert "st.global" in linked(parts["ptx"])[key] and key in linked(parts["llir"])
    assert "#ttg.blocked" in text and "n_regs" in text


def test_a_program_is_run_and_a_stage_file_compiled(file: Path, tmp_path: Path):
    program = tmp_path / "prog.py"
    program.write_text(KERNELS + """
import sys, numpy as np
x = np.ones(100, np.float32)
mean[(2,)](x, x, np.zeros(100, np.float32), 100, BLOCK=64)
sys.exit(3)
""")
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "tritium", "explore", "-o", str(out), str(program)]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SRC})  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{out}: mean (BLOCK=64)\n")
    assert "the program ended with status 3" in done.stderr
    (found,) = record([str(file)], "mean", "cpu", SIGNATURE)
    stage = tmp_path / "kernel.ttir"
    stage.write_text(found.kernel.asm["ttir"])
    assert explore([str(stage)], out, None, "cpu", None)[1] == ["mean"]
    assert "kernel.ttir" in out.read_text()


GLUON = """
import numpy as np, tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
import tritium.language as tl

@tritium.jit
def fill(out):
    tl.store(out, 1.0)

@gluon.jit
def copy(x, out, N: gl.constexpr):
    i = gl.arange(0, N, gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(out + i, gl.load(x + i))

fill[(1,)](np.zeros(1, np.float32))
"""


def test_what_a_file_itself_launches_is_not_shown(file: Path):
    file.write_text(GLUON)
    (found,) = record([str(file)], "copy", "cuda:90:32", "*fp32, *fp32, 128")
    assert found.kernel.name == "copy" and found.kernel.src.language is Language.GLUON
    words = ["explore", "--kernel", "copy", "--target", "cpu", "--signature", "*fp32, *fp32, 128"]
    done = CliRunner().invoke(app, [*words, str(file)])
    assert done.exit_code == 1
    assert done.output.startswith("tritium: error: Gluon kernels need a GPU target"), done.output


@pytest.mark.parametrize(("program", "kernel", "signature", "message"), [
    (["nothing.py"], None, None, r"nothing\.py: no such file"),
    (["kernels.py"], None, None, "compiled: nothing; a program must launch it"),
    (["kernels.py"], None, SIGNATURE, "--signature needs the name of its kernel"),
    (["x.ttir", "--target"], None, None, "--target: options stand before the file"),
    (["x.hatchet", "-o", "p.html"], None, None, "-o: options stand before the file"),
    (["kernels.py", "--against"], "mean", SIGNATURE, "--against: options stand before the file"),
    (["x.json"], None, None, r"x\.json is no program; .* --against takes what was saved"),
    (["x.ptx"], None, None, r"x\.ptx is no program; a program, a .ttir or .ttgir file or a prof"),
    (["picture"], None, None, "picture is no program: it is no text"),
    (["folder"], None, None, "folder: a folder without __main__.py"),
    (["x.hatchet"], "mean", None, "x.hatchet is a profile, for which --kernel says nothing"),
    (["kernels.py"], "mean", None, "--target cpu: kernels.py is run, on this machine"),
])  # fmt: skip
def test_errors(
    file: Path, program: list[str], kernel: str | None, signature: str | None, message: str,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("tritium.cli.run.run_program", lambda arguments: None)
    for name in ("x.ttir", "x.hatchet", "x.json", "x.ptx"):
        Path(name).write_text("")
    Path("picture").write_bytes(b"\x89PNG\0")
    Path("folder").mkdir()
    target = None if message.startswith("compiled: nothing") else "cpu"
    with pytest.raises(ExploreError, match=message):
        explore(program, Path("out.html"), kernel, target, signature)
    assert not Path("out.html").exists()


def test_the_page_needs_a_folder(file: Path):
    with pytest.raises(ExploreError, match=r"--output no/x\.html: there is no folder no"):
        explore([str(file)], Path("no/x.html"), "mean", "cpu", SIGNATURE)


def test_a_folder_is_a_program(tmp_path: Path):
    program = tmp_path / "app"
    program.mkdir()
    (program / "__main__.py").write_text(KERNELS + """
import numpy as np
x = np.ones(64, np.float32)
mean[(1,)](x, x, np.zeros(64, np.float32), 64, BLOCK=64)
""")
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "tritium", "explore", "-o", str(out), str(program)]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SRC})  # fmt: skip
    assert (done.stdout, done.returncode) == (f"{out}: mean (BLOCK=64)\n", 0), done.stderr


def test_options_behind_a_program_are_named(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tritium.cli.run.run_program", lambda arguments: None)
    record([str(file), "--against", "x", "--other"], None, None, None)
    said = capsys.readouterr().err
    assert said == (f"tritium: warning: --against stands behind {file}, and is passed to it; "
                    "options of this command stand before it\n")  # fmt: skip


def test_a_missing_library_is_named(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tritium.tools.explore.page", None)
    with pytest.raises(ExploreError, match=r"pip install 'tritium\[explore\]'"):
        explore([str(file)], file.with_suffix(".html"), "mean", "cpu", SIGNATURE)


def test_locations_of_each_kind_of_text():
    lines = ir_lines('#loc1 = loc("k.py":3:4)\n%a = f loc(#loc2)\n%b = g loc(unknown)\n'
                     '#loc2 = loc(callsite("x"(#loc1) at "m.py":9:1))\n')  # fmt: skip
    assert [(x.text, x.place) for x in lines] == [("%a = f", ("k.py", 3)), ("%b = g", None)]
    lines = llvm_lines("  %a = add i32 1, 2, !dbg !4\n  ret void\n"
                       '!1 = !DIFile(filename: "k.py", directory: "/d")\n'
                       '!2 = distinct !DISubprogram(name: "f", file: !1, line: 1)\n'
                       "!4 = !DILocation(line: 7, column: 2, scope: !2)\n")  # fmt: skip
    assert [(x.text.strip(), x.place) for x in lines] == [
        ("%a = add i32 1, 2", ("/d/k.py", 7)), ("ret void", None)
    ]  # fmt: skip
    lines = assembly_lines('\t.file\t1 "/d" "k.py"\n\t.loc\t1 7 2\n\tadd.f32 %f1;\n$L1:\n')
    assert [x.place for x in lines] == [None, ("/d/k.py", 7), None]


def test_layouts_are_drawn_from_their_linear_form():
    text = """
#blocked = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @f() {
    %a = arith.constant dense<0> : tensor<8x16xi32, #blocked>
    tt.return
  }
}
"""  # noqa: E501
    (grid,) = layouts_of(text)
    assert (grid["shape"], grid["rows"], grid["columns"], grid["copies"]) == ([8, 16], 8, 16, 1)
    at = {(i // 16, i % 16): tuple(h) for i, h in enumerate(grid["holders"])}
    assert at[0, 0] == (0, 0, 0) and at[0, 1] == (0, 0, 1) and at[0, 2] == (0, 1, 0)
    assert at[1, 0] == (0, 8, 0) and at[4, 0] == (1, 0, 0)


MEMORY = """
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = MAX, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @f(%x: tensor<32x32xf32, #rows>) {
    %m = ttg.local_alloc %x : (tensor<32x32xf32, #rows>) -> !ttg.memdesc<32x32xf32, #shared, #smem>
    %a = ttg.local_load %m : !ttg.memdesc<32x32xf32, #shared, #smem> -> tensor<32x32xf32, #blocked>
    tt.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(("phases", "needed", "width"), [(1, 8 * 32, 16), (32, 32, 4)])
def test_banks_of_shared_memory_and_their_conflicts(phases: int, needed: int, width: int):
    """Eight lanes of a column meet in the same banks, unless the rows are swizzled."""
    (grid,) = shared_layouts_of(MEMORY.replace("MAX", str(phases)))
    assert (grid["shape"], grid["rows"], grid["columns"]) == ([32, 32], 32, 32)
    at = np.array(grid["holders"]).reshape(32, 32, 3)
    assert at[0, :, 1].tolist() == list(range(32))
    assert (at[:, :, 0] == np.arange(32)[:, None]).all()
    assert at[3, 0].tolist() == ([3, 0, 384] if phases == 1 else [3, 3, 396])
    store, load = grid["accesses"]
    assert (load["op"], load["width"], load["needed"], load["least"]) == (
        "ttg.local_load", width, needed, 32
    )  # fmt: skip
    assert (store["op"], store["width"]) == ("ttg.local_alloc", width)
    assert store["needed"] == store["least"] == 32


def test_instructions_are_counted_by_opcode():
    ptx = "\t@%p1 ld.global.v4.b32 {%r1, %r2}, [%rd1];\n\tadd.f32 %f1, %f2, %f3;\n$L1:\n.reg .b32"
    assert instruction_mix(ptx) == {"ld.global": 1, "add": 1}
    group = "{ .reg .pred use; wgmma.fence.sync.aligned; @use wgmma.mma_async.sync.aligned {%r1}; }"
    assert instruction_mix(f"\t{group}\n") == {"wgmma.fence": 1, "wgmma.mma_async": 1}
    assert instruction_mix(".LBB0_1:\n\tvaddps %zmm0, %zmm1, %zmm2\n\tretq\n") == {
        "vaddps": 1, "retq": 1
    }  # fmt: skip
    sass = ("Function:kernel\n--:-:-:-:1\tLDC R1, c[0x0][0x28];\nLBB0:\n04:-:2:Y:6\tLDG.E.64 R8, "
            "desc[UR4][R8.64];\n--:-:-:Y:5\t@!P0 BRA LBB0;\n--:0:-:-:2\t@UP1 LDG.E R2, [R4];\n")
    assert instruction_mix(sass) == {"LDC": 1, "LDG": 2, "BRA": 1}


def profile(folder: Path) -> Path:
    """Of a kernel on a GPU whose peak rates are known, and of one without a word of its work."""
    device = {"arch": "90", "num_sms": 132, "clock_rate": 1755000, "memory_clock_rate": 2619000,
              "bus_width": 5120}  # fmt: skip
    place = {"count": 2, "device_type": "CUDA", "device_id": "0"}
    nodes = [("mean", {"time (ns)": 2e6, "bytes": 4e9, "flops32": 1e9, **place}),
             ("other", {"time (ns)": 6e6, **place})]  # fmt: skip
    tree: list[dict] = [
        {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": []}
        for name, metrics in nodes
    ]
    root = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": tree}
    file = folder / "p.hatchet"
    file.write_text(json.dumps([root, {"CUDA": {"0": device}}]))
    return file


def test_a_profile_has_rates_and_a_roofline(file: Path, tmp_path: Path):
    shown = profile_of(profile(tmp_path))
    assert [(r["depth"], r["name"], r["share"]) for r in shown["rows"]] == [
        (0, "ROOT", 1), (1, "mean", 0.25), (1, "other", 0.75)
    ]  # fmt: skip
    table = dict(zip(shown["metrics"], shown["rows"][1]["values"], strict=True))
    assert (table["time/ms"], table["avg_time/us"], table["gbyte/s"]) == (2, 1000, 2000)
    assert table["gflop32/s"] == 500
    share = 100 * 2e12 / specs.max_bps("CUDA", "90", 5120, 2619000)
    text = shown["points"][0]["text"]
    assert "1000 us in each of 2 launches; 2000 GB/s; 500 GFLOP/s; 0.25 operations" in text
    assert f"{share:.1f} % of the roof, which is memory" in text
    (dot,), (roof,) = shown["chart"]["dots"], shown["chart"]["roofs"]
    (x0, y0), (x1, y1), _ = roof
    height = y0 + (y1 - y0) * (dot[0] - x0) / (x1 - x0)  # of the roof, above the dot
    assert height < dot[1] < height + 60
    out = tmp_path / "page.html"
    explore([str(file)], out, "mean", "cpu", SIGNATURE, profile=profile(tmp_path))
    assert "<th>measured</th><td>1000 us in each" in out.read_text()
    assert explore([str(profile(tmp_path))], out, None, None, None)[1] == ["p.hatchet"]
    assert "<svg" in out.read_text()


def test_a_timeline_is_nested(tmp_path: Path):
    file = tmp_path / "p.chrome_trace"
    spans = [("outer", 10, 100, 1), ("inner", 20, 30, 1), ("next", 60, 40, 1), ("away", 10, 5, 2)]
    named = {"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {"name": "stream 7"}}
    file.write_text(json.dumps([named, *(
        {"ph": "X", "name": n, "ts": t, "dur": d, "pid": 1, "tid": tid} for n, t, d, tid in spans
    )]))  # fmt: skip
    first, second = profile_of(file)["timeline"]
    assert [s[:4] for s in first["spans"]] == [
        (0, 100, 0, "outer"), (10, 30, 1, "inner"), (50, 40, 1, "next")
    ]  # fmt: skip
    assert (first["depth"], second["title"], len(second["spans"])) == (2, "1: stream 7", 1)
    for text in ("{", "{}", '[{"ph": "X"}]', "[3]"):
        file.write_text(text)
        with pytest.raises(ValueError, match="is no timeline in Chrome's JSON"):
            profile_of(file)


def test_two_runs_side_by_side(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, saved = tmp_path / "page.html", tmp_path / "other.json"
    explore([str(file)], saved, "mean", "cpu:haswell", SIGNATURE)
    explore([str(file)], out, "mean", "cpu:znver4", SIGNATURE, other=Other(str(saved)))
    text = out.read_text()
    (pairs,) = re.findall(r'class="pairs" data-pairs="([^"]+)"', text)
    stages = json.loads(unescape(pairs))
    data = json.loads(saved.read_text())["kernels"][0]["stages"]
    assert [index for index, _, _ in stages] == list(range(len(data)))
    same, *_, assembly = stages
    assert same[1:] == [[], []] and assembly[1] and assembly[2]
    assert "against other.json" in text and "<td class=\"plus\">cpu haswell</td>" in text
    other = Other(settings=["TRITON_DEFAULT_FP_FUSION=0", "TRITON_DEFAULT_FP_FUSON=0"])
    explore([str(file)], out, "mean", "cpu", SIGNATURE, other=other)
    assert "against kernels.py TRITON_DEFAULT_FP_FUSION=0" in out.read_text()
    said = capsys.readouterr().err
    assert said == "tritium: warning: no setting is called TRITON_DEFAULT_FP_FUSON\n"


def test_errors_of_the_other_run(file: Path, tmp_path: Path):
    broken = tmp_path / "broken.json"
    for text, message in (("{", "was not written by explore"), ("[]", "was not written by explore"),
                          ('{"format": 9}', "has the format 9, not 2")):  # fmt: skip
        broken.write_text(text)
        with pytest.raises(ExploreError, match=message):
            explore([str(file)], broken, "mean", "cpu", SIGNATURE, other=Other(str(broken)))
    for other, message in (
        (Other(settings=["MORE"]), "the setting 'MORE' is not NAME=VALUE"),
        (Other(str(broken), settings=["A=1"]), "is compiled already"),
    ):
        with pytest.raises(ExploreError, match=message):
            explore([str(file)], tmp_path / "p.html", "mean", "cpu", SIGNATURE, other=other)


def test_colours_of_ir():
    text = '%0 = tt.load %p {isVolatile = false} : tensor<64x!tt.ptr<f16>, #blocked> // "a"'
    lexer = lexer_for("mlir")
    found = [(word, str(kind)) for kind, word in lexer.get_tokens(text) if word.strip()]
    assert "".join(word for _, word in lexer.get_tokens(text)) == text
    for word, kind in (
        ("tt.load", "Token.Keyword"), ("%p", "Token.Name.Variable"), ("f16", "Token.Keyword.Type"),
        ("tensor", "Token.Keyword.Type"), ("false", "Token.Name.Builtin"),
        ("#blocked", "Token.Name.Label"), ('// "a"', "Token.Comment.Single"),
    ):  # fmt: skip
        assert (word, kind) in found
    lines = "\n\nmodule {\n}\n\n"
    assert "".join(word for _, word in lexer.get_tokens(lines)) == lines
