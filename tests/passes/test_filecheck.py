"""Passes by text: each `.mlir` file here names a pipeline in a `// RUN:` line and checks what comes
out with FileCheck lines. `// RUN: a,b` runs the pipeline "a,b" and prints without locations,
`// RUN-LOCATIONS: a,b` prints with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module
from tritium.passes import run_pipeline
from tritium.passes.registry import available

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.mlir"))
_RUN = re.compile(r"^// RUN(-LOCATIONS)?: *(\S.*)$", re.MULTILINE)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_file(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = file.read_text()
    run = _RUN.search(text)
    assert run, f"{file.name} has no RUN line"
    module = parse_module(text, str(file))
    module.verify()
    run_pipeline(module, run[2].strip(), verify_each=True)
    output = tmp_path / "output.mlir"
    output.write_text(print_module(module, locations=bool(run[1])))
    options = Options(match_filename=str(file), input_file=str(output))
    if Matcher.from_opts(options).run() != 0:
        pytest.fail(f"{capfd.readouterr()[1]}\noutput:\n{output.read_text()}", pytrace=False)


def test_every_pass_has_a_file() -> None:
    # Those of a backend, registered once it is imported, have tests beside its own.
    shared = {n for n, cls in available().items() if cls.__module__.startswith("tritium.passes.")}
    assert shared and shared <= {f.stem.split("-on-")[0] for f in FILES}
