"""The pytest plug-in of `tritium pytest`: the fixtures of `tritium.testing.plugin`, added last.

The options and fixtures of the tests' own `conftest.py` come first: the reference's suite defines
an option `--device` too, and pytest refuses the second definition of an option.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

_PLUGIN = "tritium.testing.plugin"


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Load the fixtures once the tests' own conftest files are loaded."""
    yield
    early_config.pluginmanager.import_plugin(_PLUGIN)


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures in a worker of pytest-xdist, which loads plug-ins after conftest files."""
    config.pluginmanager.import_plugin(_PLUGIN)
