"""Copies from global to shared memory that go on while the program computes. Copies to global
memory, and barriers that count copies, are not built."""

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.amd._copies import commit_group, wait_group
from tritium.experimental.gluon.language.amd._copies import (
    global_load_to_shared as global_to_shared,
)

__all__ = ["commit_group", "global_to_shared", "wait_group"]

__getattr__ = not_built(__name__, "", "mbarrier_arrive shared_to_global")
