"""torch, for modules of tests whose imports need it: importing this one skips them without it."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
