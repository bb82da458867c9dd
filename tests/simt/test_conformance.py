"""A sample of the conformance suite on `simt`, as `make test-simt` runs all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.test_random_programs import a_program
from tests.simt.backend import compiler, installed
from tests.simt.backend.driver import SimtDriver
from tests.simt.not_run import REASONS, SUITE
from tests.support import device
from tritium.backends.active import driver


@pytest.mark.parametrize(
    ("lanes", "part"),
    [(32, "0/32"), (64, "1/32"), *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in ((32, "16/32"), (32, "8/16"), (32, "4/8"), (32, "2/4"), (32, "1/2"),
                     (64, "17/32"), (64, "9/16"), (64, "5/8"), (64, "3/4"), (64, "0/2"))
    )],
)  # fmt: skip
def test_a_sample_of_the_suite(lanes: int, part: str) -> None:
    """One case of each test, another one for each number of lanes."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "simt",
        "--lanes", str(lanes), "--sample", str(lanes // 32), "--part", part, str(SUITE),
        f"--ignore={SUITE / 'test_many_casts.py'}",  # one of its cases takes minutes
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=SUITE.parents[1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 2


def test_what_is_left_out_is_there() -> None:
    for name in REASONS:
        file, _, function = name.partition("::")
        assert f"def {function}" in Path(SUITE, file).read_text(), name


def test_random_programs_find_wrong_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(text: str) -> bytes:
        return compile_kernel(text.replace("sub i32", "add i32"))

    compile_kernel = compiler.compile_kernel
    monkeypatch.setattr(device, "device", "simt")
    with installed():
        driver.set_active(SimtDriver(64))
        try:
            assert not a_program("v1 - v2").divergence()
            monkeypatch.setattr(compiler, "compile_kernel", wrong)
            assert a_program("v1 - v2").kind() == "simt against evaluation"
        finally:
            driver.reset_active()
