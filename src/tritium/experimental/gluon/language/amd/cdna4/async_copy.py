"""Copies from global to shared memory that go on while the program computes. Not built."""

from tritium.experimental.gluon.language._not_built import not_built

__getattr__ = not_built(
    __name__, "",
    "buffer_load_to_shared commit_group global_load_to_shared load_shared_relaxed wait_group",
)  # fmt: skip
