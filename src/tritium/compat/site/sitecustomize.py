"""Run by Python at its start where `tritium.compat` put this folder on PYTHONPATH.

It installs the alias, then runs the `sitecustomize` that it hides, if there is one.
"""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _install_alias() -> None:
    # Another environment's Python may inherit our PYTHONPATH; without Tritium it has no alias.
    if importlib.util.find_spec("tritium") is None:
        return
    from tritium.compat import install

    install()


def _run_hidden() -> None:
    rest = [entry for entry in sys.path if Path(entry).resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_install_alias()
_run_hidden()
