"""Runs of ptxas that begin before their PTX is there, with shell scripts in its place."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import tritium
from tests.nvidia.support import KERNELS
from tritium.backends.nvidia import assembler_runs
from tritium.backends.nvidia.assembler_runs import AssemblerRun
from tritium.errors import PTXASError
from tritium.target import GPUTarget

COPIES = '#!/bin/sh\necho $$ > "$0.process"\necho said\ncat "$1" > "$3"\ncat "$1" >> "$3"\n'
"""A program that reads its file twice, and puts it where the cubin belongs."""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "ptxas"
    path.write_text(COPIES)
    path.chmod(0o755)
    return path


def process_of(tool: Path) -> int:
    """The number of a tool's process, which has begun."""
    file, end = tool.with_name("ptxas.process"), time.monotonic() + 20
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < end, "nothing has begun"
        time.sleep(0.01)
    return int(file.read_text())


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_begins_before_its_text_is_there(tool: Path):
    run = AssemblerRun(str(tool), [])
    process = process_of(tool)
    text = "// more than a pipe holds\n" * 10_000
    assert run.assemble(text) == (2 * text.encode(), "said\n")
    assert not is_alive(process)


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_that_is_not_used_ends(tool: Path, closed: bool):
    run = AssemblerRun(str(tool), [])
    process = process_of(tool)
    if closed:
        run.close()
    del run
    assert not is_alive(process)


def test_a_forked_child_does_not_hold_up_a_run(tool: Path):
    """Its copy of the pipe is closed: the run would wait until the child ends."""
    run = AssemblerRun(str(tool), [])
    process_of(tool)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert run.assemble("text")[0] == b"texttext"
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the run has waited for it"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_where_input_cannot_be_a_pipe_it_is_a_file(tool: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assembler_runs, "_INPUT", None)
    run = AssemblerRun(str(tool), [])
    assert not tool.with_name("ptxas.process").exists()
    assert run.assemble("text") == (b"texttext", "said\n")


def test_a_tool_that_ends_without_reading_has_failed(tool: Path):
    tool.write_text("#!/bin/sh\necho no >&2\nexit 3\n")
    with pytest.raises(PTXASError, match="error code 3\n`ptxas` stderr:\nno\n") as error:
        AssemblerRun(str(tool), []).assemble("text" * 100_000)
    Path(str(error.value).split("Repro command: ")[1].split()[1]).unlink()


def test_a_compilation_that_fails_ends_its_run(
    tool: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
):
    version = "[ \"$1\" = --version ] && { echo 'release 12.8, V12.8.1'; exit 0; }\n"
    tool.write_text(f'#!/bin/sh\n{version}echo $$ > "$0.process"\ncat > /dev/null\n')
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    failures = list[int]()

    def fail(*_: object, **__: object) -> str:
        failures.append(process_of(tool))
        raise ValueError("no PTX")

    monkeypatch.setattr("tritium.backends.nvidia.ptx.emit_ptx", fail)
    with pytest.raises(Exception, match="no PTX"):
        tritium.compile(KERNELS / "add.ttgir", target=GPUTarget("cuda", 90, 32))
    assert failures and not is_alive(failures[0])
