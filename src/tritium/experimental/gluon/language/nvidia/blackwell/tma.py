"""Bulk copies: those of Hopper. Copies of chosen rows are not built."""

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.nvidia.hopper.tma import *  # noqa: F403

__getattr__ = not_built(__name__, "", "async_gather async_scatter")
