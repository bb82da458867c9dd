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
from no_such_package import Config, version
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

@triton.jit
def never(x_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 1000000)
    tl.store(x_ptr, BLOCK)

class Layer(Config):
    pass
'''
PARTS = '''
import triton

@triton.jit
def twice(x):
    return x * 2
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


def test_found_and_run(library: Path, tmp_path: Path):
    pytest.importorskip("torch")
    found = tmp_path / "found.jsonl"
    done = run("find", library, found, "--tries", 8)
    assert done.returncode == 0, done.stderr
    lines = {line["kernel"]: line for line in map(json.loads, found.read_text().splitlines())}
    assert lines.keys() == {"scale", "never"}
    assert len(lines["scale"]["arguments"]) == 2
    assert lines["scale"]["arguments"][0]["x_ptr"][0] == "pointer"
    assert lines["never"]["arguments"] == [] and "static_assert" in lines["never"]["error"]

    done = run("agree", library, found)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "{'same': 2}"


def test_what_ends_the_process_is_counted(library: Path, tmp_path: Path):
    pytest.importorskip("torch")
    found = tmp_path / "found.jsonl"
    line = {"module": "mine.kernels", "kernel": "gone", "arguments": [{}]}
    found.write_text(json.dumps(line) + "\n")
    done = run("agree", library, found)
    assert done.returncode == 1 and "crashed: mine.kernels: exit status 1" in done.stdout
    assert "KeyError: 'gone'" in done.stderr
