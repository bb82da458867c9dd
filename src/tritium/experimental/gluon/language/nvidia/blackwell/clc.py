"""Cluster launch control: programs that take over the work of others. Not built."""

from tritium.experimental.gluon.language._not_built import not_built

__getattr__ = not_built(__name__, "clc_result clc_result_type", "load_result try_cancel")
