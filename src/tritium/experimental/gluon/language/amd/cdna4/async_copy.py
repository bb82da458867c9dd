"""Copies from global to shared memory that go on while the program computes."""

from tritium.experimental.gluon.language.amd._copies import (
    buffer_load_to_shared,
    commit_group,
    global_load_to_shared,
    load_shared_relaxed,
    wait_group,
)

__all__ = [
    "buffer_load_to_shared", "commit_group", "global_load_to_shared", "load_shared_relaxed",
    "wait_group",
]  # fmt: skip
