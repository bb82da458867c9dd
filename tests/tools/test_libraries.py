"""Kernels of a library, found and run both ways, though what the library needs is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tritium import knobs

ROOT = Path(__file__).resolve().parents[2]
KERNELS = '''
import triton, triton.language as tl
from no_such_package import Config, cached, version
from .parts import twice

if version.parse("1") >= version.parse("2"):
    LIMIT = undefined_name

@Config.register
@triton.autotune([triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, twice(x), mask=at < n)

@cached(lambda arguments, options: options)
@triton.jit
def never(x_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 1000000)
    tl.store(x_ptr, BLOCK)

@triton.jit(debug=True)
def asserts(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 1000000, "it is not")

class Layer(Config):
    pass

class Endless:
    def __getattr__(self, name):
        return Endless()

endless = Endless()
'''
PARTS = '''
import triton

@triton.jit
def twice(x):
    return x * 2
'''
# Each process has another number; the last of three modules ends every process that imports it.
APART = '''
import os, triton, triton.language as tl

PROCESS = tl.constexpr(os.getpid())

@triton.jit
def differs(x_ptr):
    tl.store(x_ptr, PROCESS)

@triton.jit
def races(x_ptr):
    tl.store(x_ptr, tl.where(tl.num_programs(0) == 1, 1, PROCESS))

@triton.jit
def outside(x_ptr):
    tl.store(x_ptr + 10000000, 1)
'''
GONE = "import os, triton\nos._exit(7 * bool(triton.jit))\n"


LAUNCHED = '''
import triton
from .language import FACTOR, language as tl

@triton.jit
def look_up(table, order, keep, out, desc, stride, n, missing, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    first = tl.load(order + tl.program_id(0))
    bits = tl.load(keep + at)
    bits >>= 4
    values = tl.load(table + first * stride + at, mask=bits > 0)
    desc.store([0, 0], values)
    tl.store(out + at, values * FACTOR)

def call(table, order, keep, out, desc):
    look_up[(1,)](table, order, keep, out, desc, table.stride(-1), table.shape[0], None, WIDTH=128)
'''
GUESS = '''
import json, random, sys
from pathlib import Path
from tritium.compat import alias
alias.install()
from tools.libraries import guessing, loading
loading.install(Path(sys.argv[1]))
fn = loading.kernels("mine.launched")[0].fn
facts = guessing.facts_of(fn)
rng = random.Random(1)
made = [guessing.guess(facts, [], rng) for _ in range(200)]
print(json.dumps([sorted(facts.pointers), sorted(facts.integers), facts.descriptors, made]))
'''


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "libs" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('packages are not run')")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "parts.py").write_text(PARTS)
    return folder.parent


def run(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tools.libraries.{tool}", *map(str, arguments)]
    env = knobs.child_environment(PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_found_and_run(library: Path, tmp_path: Path):
    pytest.importorskip("torch")
    found = tmp_path / "found.jsonl"
    done = run("find", library, found, "--tries", 8)
    assert done.returncode == 0, done.stderr
    lines = {line["kernel"]: line for line in map(json.loads, found.read_text().splitlines())}
    assert lines.keys() == {"scale", "never", "asserts"}
    assert len(lines["scale"]["arguments"]) == 2
    assert lines["scale"]["arguments"][0]["x_ptr"][0] == "pointer"
    assert lines["never"]["arguments"] == [] and "static_assert" in lines["never"]["error"]

    done = run("agree", library, found)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "{'same': 2, 'refused': 2}"


def test_launches_and_uses_say_what_arguments_are(library: Path):
    (library / "mine" / "launched.py").write_text(LAUNCHED)
    (library / "mine" / "language").mkdir()
    text = "import triton\nimport triton.language as language\nFACTOR = 3\n"
    (library / "mine" / "language" / "__init__.py").write_text(text)
    env = knobs.child_environment(PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    command = [sys.executable, "-c", GUESS, str(library)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pointers, integers, descriptors, made = json.loads(done.stdout)
    assert pointers == ["keep", "order", "out", "table"] and integers == ["keep", "order"]
    assert descriptors == {"desc": 2}

    def often(name: str, wanted: list[object]) -> bool:
        return sum(each[name] == wanted for each in made) > 100

    assert often("stride", ["number", 1]) and often("WIDTH", ["constexpr", 128])
    assert sum(each["missing"] == ["constexpr", None] for each in made) > 30
    assert sum(each["order"][1] in ("i32", "i64", "u8") for each in made) > 150
    assert all(each["desc"] == ["constexpr", None] or len(each["desc"][1][1]) == 2
               for each in made)  # fmt: skip


@pytest.mark.slow
def test_what_ends_the_process_is_counted(library: Path, tmp_path: Path):
    pytest.importorskip("torch")
    found = tmp_path / "found.jsonl"
    line = {"module": "mine.kernels", "kernel": "gone", "arguments": [{}]}
    found.write_text(json.dumps(line) + "\n")
    done = run("agree", library, found)
    assert done.returncode == 1 and "crashed: mine.kernels: exit status 1" in done.stdout
    assert "KeyError: 'gone'" in done.stderr


@pytest.mark.slow
def test_beside_another_compiler(library: Path, tmp_path: Path):
    pytest.importorskip("torch")
    (library / "mine" / "apart.py").write_text(APART)
    (library / "mine" / "gone.py").write_text(GONE)
    found, out = tmp_path / "found.jsonl", tmp_path / "out.jsonl"
    pointer = {"x_ptr": ["pointer", "i32"]}
    lines = [
        *({"module": "mine.apart", "kernel": k, "arguments": [pointer]}
          for k in ("differs", "races", "outside")),
        {"module": "mine.gone", "kernel": "any", "arguments": [{}]},
    ]  # fmt: skip
    found.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--device", "cpu", "--reference", "tritium", "--jobs", 1)
    done = run("beside", library, found, out, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    by_kernel = {row["kernel"]: row for row in rows}
    assert [row["outcome"] for row in rows if row["kernel"] == "scale"] == ["same", "same"]
    assert by_kernel["differs"]["outcome"] == by_kernel["differs"]["alone"] == "different"
    assert "x_ptr in 1 places (at 0:" in by_kernel["differs"]["why"]
    assert "as interpreted: ours" in by_kernel["differs"]["why"]
    assert by_kernel["races"]["outcome"] == "different"
    assert by_kernel["races"]["alone"] == "same"
    assert by_kernel["outside"]["outcome"] == "interpreter refuses"
    assert by_kernel["any"] | {"seconds": 0} == {
        "module": "mine.gone", "kernel": "any", "number": 0, "outcome": "interpreter crashes",
        "why": "exit status 7", "arguments": {}, "seconds": 0,
    }  # fmt: skip
    assert "4 of 4 modules" in done.stdout
