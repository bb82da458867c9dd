"""The documentation: what a reader copies from its pages works."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from tritium.backends.amd.processor import processor as amd_processor
from tritium.backends.nvidia.processor import processor
from tritium.cli.app import app
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines, registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/*.md"))]


def snippets(name: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


def load(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    sys.modules[path.stem] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def function(text: str) -> str:
    """A module of one function of a number and a block."""
    return f"tt.func public @f(%x: i32, %v: tensor<8xi32>) {{\n{text}\n  tt.return\n}}\n"


def test_the_pass_of_adding_a_pass(tmp_path: Path):
    (text,) = snippets("adding-a-pass.md")
    module = load(tmp_path / "strength_reduce.py", text)
    before = function("""
      %c = arith.constant 8 : i32
      %d = arith.constant dense<4> : tensor<8xi32>
      %e = arith.constant 12 : i32
      %y = arith.muli %x, %c : i32
      %w = arith.muli %v, %d : tensor<8xi32>
      %z = arith.muli %x, %e : i32
      tt.print " " {hex = false, isSigned = array<i32: 1, 1>} : %y, %z : i32, i32
      tt.print " " {hex = false, isSigned = array<i32: 1>} : %w : tensor<8xi32>
    """)
    found = {}
    for limit in (64, 4):
        ir = parse_module(before)
        manager = PassManager([module.StrengthReduce(limit)], verify_each=True)
        assert manager.run(ir) and not manager.run(ir)
        found[limit] = print_module(ir)
    assert found[64].count("arith.shli") == 2 and found[64].count("arith.muli") == 1
    assert found[4].count("arith.shli") == 1 and "arith.shli %v" in found[4]


def test_the_pipeline_of_the_page_of_passes():
    text = (DOCS / "passes.md").read_text()
    module = parse_module(function("%0 = arith.addi %x, %x : i32"))
    exec(snippets("passes.md")[0], {"module": module})
    assert "arith.addi" not in print_module(module)
    named = re.search(r"runs `pipelines\.ttir\(\)`: ([\w\s,-]+)\.", text)
    assert named is not None
    assert re.split(r",\s+", named[1]) == [item.name for item in pipelines.ttir()]


def test_the_page_of_passes_lists_all():
    rows = re.findall(r"^\| `([\w-]+)` \|", (DOCS / "passes.md").read_text(), re.MULTILINE)
    passes = registry.available().items()  # those of backends are in their own pages
    shared = [n for n, cls in passes if cls.__module__.startswith("tritium.passes.")]
    assert sorted(rows) == sorted(shared)
    later = rows[rows.index("convert-ttir-to-ttgir"):]
    seen: set[str] = set()
    amd = dataclasses.replace(amd_processor("gfx942"), buffers=True)
    for target, blocks in ((processor(90), 1), (processor(90), 2), (amd, 1)):
        used = [item.name for item in pipelines.ttgir(target, 4, 3, blocks)]
        assert [n for n in later if n in used] == [name for name in used if name in later]
        seen |= set(used)
    assert set(later) <= seen


OP = """
import numpy as np
import tritium
import tritium.language as tl
from tritium.backends.cpu.lower import elementwise
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.language.decorators import builtin, tensor_member
from tritium.language.math import unary
from tritium.codegen.registry import lowers
from tritium.codegen.llvm.vmath import call
from tritium.ops import math
from tritium.ops.math import MathOp

{op}
math.SinhOp = SinhOp
ops = math
{language}
tl.sinh = sinh
{lowering}
@tritium.jit
def kernel(x, out):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    tl.store(out + i, tl.sinh(v) + v.sinh())

x = np.linspace(-2, 2, 8, dtype=np.float32)
for run in (kernel, InterpretedKernel(kernel)):
    out = np.zeros(8, np.float32)
    run[(1,)](x, out)
    np.testing.assert_allclose(out, 2 * np.sinh(x), rtol=1e-6)
"""


def test_the_op_of_adding_an_op(tmp_path: Path):
    op, _, language, lowering = snippets("adding-an-op.md")
    # The function of the language and the lowering have one name, in different modules.
    lowering = lowering.replace("def sinh", "def lower")
    program = OP.format(op=op, language=language, lowering=lowering)
    (tmp_path / "op.py").write_text(program)
    done = subprocess.run([sys.executable, str(tmp_path / "op.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FUNCTION = """
import numpy as np
from tests.language.support import eager
from tritium import language as tl
from tritium.language.builtins import casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin, tensor_member
from tritium.language.jit.function import device_function
from tritium.language.builtins.regions import wrap_axis
from tritium.ops import ttir

{text}
with eager():
    n = tl.arange(0, 8)
    assert cdiv(n, 4).handle.array.tolist() == [0, 1, 1, 1, 1, 2, 2, 2]
    assert gather(n, 7 - n, 0).handle.array.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    try:
        gather(n, tl.zeros([8], tl.float32), 0)
    except ValueError as error:
        assert "integers are required" in str(error)
"""


def test_the_functions_of_adding_a_function(tmp_path: Path):
    program = FUNCTION.format(text="\n".join(snippets("adding-a-function.md")))
    (tmp_path / "functions.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "functions.py")], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_rule_of_the_page_of_the_cpu():
    (rule,) = snippets("cpu-backend.md")
    folder = ROOT / "src" / "tritium" / "backends" / "cpu" / "lower"
    assert any(rule.strip() in file.read_text() for file in folder.rglob("*.py"))


def commands() -> Iterator[tuple[str, str]]:
    """The commands of all pages."""
    for page in PAGES:
        text = page.read_text()
        lines = re.findall(r"^(?:    |\$ )((?:python|tritium) .*)$", text, re.MULTILINE)
        lines += re.findall(r"`((?:python|tritium|pytest) [^`]*)`", text)
        for line in lines:
            if re.match(r"\w+ [\w./-]", line):
                yield str(page.relative_to(ROOT)), line.partition("#")[0].strip()


@cache
def help_of(command: str) -> str:
    known = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert known.exit_code == 0, known.output
    return known.output


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_commands_and_their_options_exist(page: str, command: str):
    words = command.replace("[", " ").replace("]", " ").split()
    options = {w for w in words[2:] if w.startswith("--")}
    if words[0] == "tritium":
        text = help_of(words[1])
    elif words[0] == "pytest":
        assert (ROOT / words[1]).exists()
        text = (ROOT / "tests" / "conftest.py").read_text()
    elif words[1] == "-m":
        spec = find_spec(words[2])
        assert spec is not None and spec.origin is not None
        text = Path(spec.origin).read_text()
    else:
        text = (ROOT / words[1]).read_text()
        if words[1].startswith("tutorials/"):
            text += (ROOT / "src" / "tritium" / "testing" / "report.py").read_text()
    missing = {o for o in options if o not in text}
    assert not missing, page


def figures(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())


def rounded(number: float, digits: str) -> str:
    return str(Decimal(str(number)).quantize(Decimal(digits), ROUND_HALF_UP))


def test_the_figures_of_the_readme_are_those_of_the_results():
    measure = runpy.run_path(str(DOCS / "measure.py"))
    written = (ROOT / "README.md").read_text().split(measure["BEGIN"])[1].split(measure["END"])[0]
    record = json.loads((DOCS / "measured" / "cpu_suite.json").read_text())
    assert written.strip() == measure["readme_section"](record).strip()


def test_the_times_of_launches_are_those_of_the_results():
    times = figures("launch_overhead_h200.json")["launch, us (least, median)"]
    least = {name: rounded(values[0], "0.1") for name, values in times.items()}
    page = " ".join((DOCS / "nvidia-backend.md").read_text().split())
    kinds = ("3 arrays, 1 int", "7 arrays, 12 ints", "3 descriptors")
    one, many, descriptors = (least[f"tritium: {kind}"] for kind in kinds)
    assert f"takes {one} us, with 19 arguments {many}, with three tensor" in page
    assert f"descriptors {descriptors} (Triton 3.6" in page
    theirs = ", ".join(least[f"triton: {kind}"] for kind in kinds)
    assert f"Triton 3.6: {theirs}; `torch.add`: {least['torch.add']}" in page


def test_settings_that_pages_name_exist():
    source = "\n".join(f.read_text() for f in (ROOT / "src").rglob("*.py"))
    named: set[str] = set()
    for page in PAGES:
        pattern = r"\b((?:TRITON|TRITIUM|MLIR|LLVM|USE|NVPTX|PTXAS)_[A-Z0-9_]+)\b"
        named |= set(re.findall(pattern, page.read_text()))
    assert named
    assert not {name for name in named if name not in source}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rows_of_tables_are_as_long_as_their_heads(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    columns = 0
    for line in text.split("\n"):
        if not line.startswith("|"):
            columns = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        columns = columns or found
        assert found == columns, line


def test_modules_and_names_that_the_pages_import_exist():
    for page in PAGES:
        for text in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            try:
                tree = ast.parse(text)
            except SyntaxError:
                continue  # indented in a list
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tritium"):
                    module = __import__(node.module or "", fromlist=["x"])
                    assert all(hasattr(module, name.name) for name in node.names), text


EDITED = """
import numpy as np
import tritium
import tritium.language as tl

@tritium.jit
def kernel(out):
    tl.store(out, 12345)

out = np.zeros(1, np.int32)
kernel[(1,)](out)
print(out[0])
"""


def test_a_dumped_stage_is_edited_and_taken_as_the_readme_says(tmp_path: Path):
    text = (ROOT / "README.md").read_text()
    settings = dict(re.findall(r"\b(TRITON_\w+)=(\w+)", text[text.index("`TRITON_KERNEL_DUMP") :]))
    (tmp_path / "edited.py").write_text(EDITED)

    def printed(*names: str) -> str:
        chosen = {name: settings[name] for name in names}
        done = subprocess.run(
            [sys.executable, "edited.py"], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache"), **chosen},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    assert printed("TRITON_KERNEL_DUMP", "TRITON_DUMP_DIR") == "12345"
    (file,) = (tmp_path / settings["TRITON_DUMP_DIR"]).glob("*/kernel.ttir")
    copied = tmp_path / settings["TRITON_OVERRIDE_DIR"] / file.parent.name / file.name
    copied.parent.mkdir(parents=True)
    copied.write_text(file.read_text().replace("12345", "54321"))
    names = "TRITON_KERNEL_OVERRIDE", "TRITON_OVERRIDE_DIR", "TRITON_ALWAYS_COMPILE"
    assert printed(*names) == "54321"


STAGES = """
import json, sys
import numpy as np
{kernel}
from tritium.compiler.compiler import ASTSource
from tritium.target import GPUTarget
x = np.ones(4096, np.float32)
scale[(4,)](x, x, 4096, BLOCK=1024)
kinds = {{"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}}
aligned = {{(i,): [["tt.divisibility", 16]] for i in range(3)}}
source = ASTSource(scale, kinds, {{"BLOCK": 1024}}, attrs=aligned)
texts = dict(tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm)
texts |= tritium.compile(source, target=GPUTarget("cpu", "skylake-avx512", 1)).asm
amd = tritium.compile(source, target=GPUTarget("hip", "gfx942", 64)).asm
shown = [texts[s] for s in ("ttir", "tile", "ttgir", "ptx")] + [amd["ttgir"], amd["amdgcn"]]
print(json.dumps(shown))
"""


def test_the_stages_of_a_tile_are_those_of_the_page(tmp_path: Path):
    page = (DOCS / "architecture.md").read_text()
    (kernel,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shown = re.findall(r"^   ```\n(.*?)^   ```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "stages.py").write_text(STAGES.format(kernel=kernel))
    done = subprocess.run(
        [sys.executable, "stages.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout.splitlines()[-1])
    for text, lines in zip(texts, shown, strict=True):
        for line in lines.splitlines():
            assert line.strip() in text, line
