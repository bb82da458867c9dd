"""The processors that translations to Gluon may be for."""

from __future__ import annotations

import re
from enum import Enum


class TranslatorTarget(str, Enum):
    """The processors that a translation may be for. Any `gfx...` is one, listed or not."""

    GENERIC = "generic"
    SM80 = "sm80"
    SM90 = "sm90"
    SM100 = "sm100"
    SM103 = "sm103"
    SM107 = "sm107"
    GFX90A = "gfx90a"
    GFX942 = "gfx942"
    GFX950 = "gfx950"
    GFX1100 = "gfx1100"
    GFX1200 = "gfx1200"
    GFX1250 = "gfx1250"

    @classmethod
    def _missing_(cls, value: object) -> TranslatorTarget | None:
        if not isinstance(value, str) or re.fullmatch(r"gfx[0-9a-f]{3,}", value) is None:
            return None
        other = str.__new__(cls, value)
        other._name_, other._value_ = value.upper(), value
        return other

    @property
    def is_amd(self) -> bool:
        """True if it is one of AMD's."""
        return self.value.startswith("gfx")

    @property
    def is_nvidia(self) -> bool:
        """True if it is one of NVIDIA's."""
        return self.value.startswith("sm")
