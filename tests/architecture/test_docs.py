"""The documentation: what it names is there, what it shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tritium"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/*.md"))]
TESTS = ROOT / "tests"
PLACES = (ROOT, ROOT / "src" / "tritium", ROOT / "src" / "tritium" / "backends" / "cpu")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:py|md))`", text)
    named = [n for n in named if not n.startswith(("/", "build/")) and ".." not in n]
    named = [n for n in named if not re.search(r"\bmy[_-]", n)]  # what the reader is to write
    places = (*PLACES, page.parent)
    missing = [n for n in named if not any((place / n).exists() for place in places)]
    # A page about one folder may name its files alone.
    missing = [n for n in missing if not any(f for top in (PACKAGE, TESTS) for f in top.rglob(n))]
    assert not missing


def test_the_tree_of_the_page_is_that_of_the_package():
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## The tree")[2]
    named = set(re.findall(r"[\w/]+(?=/)", text.split("```")[1]))
    folders = {f.parent.name for f in PACKAGE.glob("*/*.py")}
    backends = {f.parent.name for f in PACKAGE.glob("backends/*/__init__.py")}
    assert folders | backends <= named
    places = [PACKAGE, *(PACKAGE / folder for folder in folders)]
    assert all(any((place / name).is_dir() for place in places) for name in named)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [n for n in links if "://" not in n and not (page.parent / n).exists()]
    assert not missing


def test_the_first_kernel_of_the_readme_runs(tmp_path: Path):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    program = tmp_path / "first.py"
    program.write_text(code[1] + "\nassert abs(out.sum(axis=1) - 1).max() < 1e-5\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tt.func public @softmax_kernel" in done.stdout


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    assert set(phony[1].split()) == set(re.findall(r"^  make ([\w-]+)", listed, re.MULTILINE))
