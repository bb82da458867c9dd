"""Random kernels natively, beside NumPy, on this host and as for hosts with narrower vectors:
integer expressions as masks and addresses, and what is done with tiles of floats."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.memory.random_addresses import WITHOUT

ROOT = Path(__file__).resolve().parents[3]


def run(seed: int, count: int, features: str, what: str = "random_addresses") -> None:
    command = [sys.executable, "-m", f"tests.ops.memory.{what}", str(seed), str(count), features]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=3600)
    wrong = re.findall(r"^WRONG.*(?:\n(?!program).*)*", done.stdout, re.MULTILINE)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, "\n".join([*wrong, *last, done.stderr[-2000:]])


HOSTS = ["native", *WITHOUT] if platform.machine() in ("x86_64", "AMD64") else ["native"]


@pytest.mark.every(2)
@pytest.mark.parametrize("features", HOSTS)
def test_random_addresses(features: str) -> None:
    run(100, 2, features)


@pytest.mark.slow
@pytest.mark.parametrize("features", HOSTS)
def test_many_random_addresses(features: str) -> None:
    run(1000, 600, features)


@pytest.mark.every(2)
@pytest.mark.parametrize("features", HOSTS)
def test_random_tiles(features: str) -> None:
    run(2000, 2, features, "random_tiles")


@pytest.mark.slow
@pytest.mark.parametrize("features", HOSTS)
def test_many_random_tiles(features: str) -> None:
    run(4000, 300, features, "random_tiles")
