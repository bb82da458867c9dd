"""The end of tests that hang."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
CONFTEST = """
    from tests.support.watchdog import HangWatch

    def pytest_configure(config):
        config.pluginmanager.register(HangWatch(limit=1.0, turn=0.5))
"""
TESTS = """
    import time
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_short(number):
        time.sleep(0.3)

    def test_that_hangs():
        time.sleep(60)
"""


def test_a_test_that_hangs_ends_the_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others take longer than the limit only together."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-v", "-p", "no:xdist", "-p", "no:cacheprovider")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*test_short?7? PASSED*"])
    done.stderr.fnmatch_lines(["Timeout*", "*in test_that_hangs"])
    done.stdout.no_fnmatch_line("*passed in*")
