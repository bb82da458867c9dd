"""The version of this package, and of the reference that it implements."""

from __future__ import annotations

__version__ = "0.1.0"

#: What `triton.__version__` says under `tritium.compat`: the reference release whose language
#: and Python API this version follows (IR is printed as 3.6 prints it).
REFERENCE_VERSION = "3.9.0"
