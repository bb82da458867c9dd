"""Records shared by the CPU's native launcher and Python (see `launch_writer`)."""

from __future__ import annotations

from tritium.native import guards
from tritium.native.records import Record

MAX_GRID = (1 << 31) - 1

POINTER, INTEGER, FLOAT32, FLOAT64, SKIP, OTHER = range(6)

PARAM = Record(
    ("kind", "i32"), ("dlpack", "i32"), ("low", "i64"), ("high", "i64"),
    ("descr", "ptr"), ("numpy_flags", "i32"),
)  # fmt: skip
"""A parameter: its kind; the DLPack type that a tensor must have (0: any); an integer's limits;
the NumPy dtype object that was last accepted for it; flags that the array must have."""

STATE = Record(
    ("kernel", "ptr"), ("pool", "ptr"), ("types", "ptr"), ("cost", "double"),
    ("shared_cost", "double"),
    ("scratch_bytes", "i64"), ("param_count", "i64"), ("exclusive", "i32"),
    ("waits", "i32"),
    ("on_argument", "ptr"), ("on_grid", "ptr"), ("on_count", "ptr"), ("on_fault", "ptr"),
    ("threads", "ptr"), ("known_threads", "ptr"), ("params", "ptr"), ("most", "i64"),
)  # fmt: skip
"""A kernel. `on_...` and `threads` are Python functions, kept alive by the launcher's owner;
`known_threads` points to the address of a `THREADS` record;
`exclusive` and `waits` as in `pool.JOB`; `cost` is what a program was last seen to take, in ticks
(infinite before the first launch); `shared_cost` that time when the pool ran them, divided by the
number of programs (0: not known); `most` is how many programs a grid may have."""

THREADS = Record(("guards", "ptr"), ("count", "i64"), ("number", "i32"))
"""The number of threads to use, as long as these guards hold."""

CAPSULE = b"tritium.launcher"

API = (
    "PyCapsule_GetPointer", "PyErr_CheckSignals", "PyErr_Clear", "PyErr_NoMemory",
    "PyErr_Occurred", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_AsLong",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_AsUnsignedLongLongMask", "PyLong_FromLongLong", "PyLong_FromVoidPtr",
    "PyObject_CallFunctionObjArgs", "Py_DecRef", "Py_IncRef", *guards.API,
)  # fmt: skip
