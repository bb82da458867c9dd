"""The version of this package, and of the reference that it implements."""

from __future__ import annotations

__version__ = "0.1.0"

#: What `triton.__version__` says under `tritium.compat`: the reference release whose language,
#: IR syntax and Python API this version follows.
REFERENCE_VERSION = "3.6.0"
