"""Options of the descriptions of launches that a profiler asks for."""

from __future__ import annotations

import os

_allow_sync: bool | None = None


def launch_metadata_allow_sync() -> bool:
    """True if counts of operations and bytes may be read from tensors on the device.

    Exact counts of ragged products need that, and it waits for the device. Without it counts that
    are not known are left out. `PROTON_LAUNCH_METADATA_NOSYNC=1` forbids it from the start.
    """
    if _allow_sync is None:
        return os.environ.get("PROTON_LAUNCH_METADATA_NOSYNC") != "1"
    return _allow_sync


def set_launch_metadata_allow_sync(allow_sync: bool) -> None:
    """Say so; it wins over the environment."""
    global _allow_sync
    _allow_sync = bool(allow_sync)
