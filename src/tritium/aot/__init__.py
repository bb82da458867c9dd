"""Kernels that were compiled ahead of time: `load` takes a library that `tritium.tools.compile`
has written, with no compiler in the process.

    add = tritium.aot.load("add.4f3b2a10_0d1d2d.so")
    add(x, y, out, n)                     # over the grid that was given to the compiler
    add[(4,)](x, y, out, n, threads=2)    # over another one, on two threads
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import sys
from operator import index

from tritium.errors import TritonError
from tritium.launch.arguments import Param, extract_pointer
from tritium.launch.scalars import extract_scalar, label
from tritium.system import linux_processor

TYPE_CHECKING = False  # a bundle starts without `collections`, `functools` and `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

ABOUT = "tritium_about"
"""The symbol of a library that describes it, as JSON."""

_SCALARS: dict[str, Any] = {
    "i1": ctypes.c_int8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "u1": ctypes.c_uint8, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}  # fmt: skip
_FLOATS: dict[str, Any] = {
    "fp32": (ctypes.c_float, ctypes.c_uint32), "fp64": (ctypes.c_double, ctypes.c_uint64),
}  # fmt: skip
"""The type of a number and that of its bits."""
_ELF = b"\x7fELF"
_MACHINES = {62: "x86_64", 183: "aarch64"}
"""The machines for which libraries are written, by their number in the header of an ELF file."""
_NO_MEMORY = 1
"""The status of a launch that got no scratch memory."""


class BundleError(TritonError, RuntimeError):
    """A file is no library of a compiled kernel, or one for another processor."""


class Kernel:
    """A kernel from a library.

    Attributes:
        name: as in the source.
        parameters: (name, type) of the arguments, in order.
        constants: the arguments that were fixed when it was compiled.
        grid: the sizes of the grid, as the compiler was given them.
    """

    def __init__(self, library: Any, about: dict[str, Any]):
        self.name: str = about["name"]
        self.parameters: list[tuple[str, str]] = [(n, t) for n, t in about["parameters"]]
        self.constants: dict[str, Any] = about["constants"]
        self.grid: str = about["grid"]
        self._hints: dict[str, int] = about["hints"]
        self._params = [
            Param(*pair, writes=i in about["written"]) for i, pair in enumerate(self.parameters)
        ]
        self._library = library
        types = [ctypes.c_void_p if t[0] == "*" else _SCALARS[t] for _, t in self.parameters]
        self._run = library[about["entry"]]
        self._run.argtypes = [ctypes.c_void_p, *types]
        self._range = library[f"{about['entry']}_programs"]
        self._range.argtypes = [*[ctypes.c_uint32] * 3, *[ctypes.c_int64] * 2, *types]
        self._failure = getattr(library, f"{about['entry']}_failure", None)
        if self._failure is not None:
            self._failure.restype = ctypes.c_char_p

    def __call__(self, *args: Any) -> None:
        """Run the kernel over its grid, on this thread. Raises `TypeError` for arguments that do
        not fit, `RuntimeError` for a failed device_assert."""
        self._check(self._run(None, *self._values(args)))

    def __getitem__(self, grid: Sequence[int] | int) -> Callable[..., None]:
        try:
            given: Any = (grid,) if hasattr(grid, "__index__") else grid
            sizes = [index(size) for size in given]
        except TypeError:
            raise TypeError(f"{self.name}: the grid is {grid!r}; integers are required") from None
        if not 1 <= len(sizes) <= 3 or not all(0 <= size < 2**31 for size in sizes):
            raise ValueError(f"{self.name}: the grid is {grid!r}; 1 to 3 sizes in 0 .. 2**31-1 "
                             "are required")  # fmt: skip
        x, y, z = (*sizes, 1, 1)[:3]
        return lambda *args, **options: self._launch((x, y, z), *args, **options)

    def _launch(self, grid: tuple[int, int, int], *args: Any, threads: int = 1) -> None:
        import threading  # the only use, and a tenth of the time that a bundle has to start

        values, programs = self._values(args), grid[0] * grid[1] * grid[2]
        if threads < 1:
            raise ValueError(f"{self.name}: threads={threads}; at least 1 is required")
        threads = max(1, min(threads, programs))
        ends = [programs * i // threads for i in range(threads + 1)]
        found: list[int] = []

        def run(begin: int, end: int) -> None:
            found.append(self._range(*grid, begin, end, *values))

        others = [
            threading.Thread(target=run, args=(ends[i], ends[i + 1])) for i in range(1, threads)
        ]
        for other in others:
            other.start()
        run(ends[0], ends[1])
        for other in others:
            other.join()
        self._check(max(found))

    def _check(self, status: int) -> None:
        if status == _NO_MEMORY:
            raise MemoryError(f"{self.name}: no memory for the kernel's scratch")
        if status:
            program = (ctypes.c_int32 * 3)()
            text = self._failure(program) if self._failure is not None else None
            more = f": {text.decode(errors='replace')} [program {(*program,)}]" if text else ""
            raise RuntimeError(f"device-side assert triggered{more}")

    def _values(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self.parameters):
            names = ", ".join(name for name, _ in self.parameters)
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments ({names}); "
                            f"got {len(args)}")  # fmt: skip
        values: list[Any] = []
        for i, (arg, param) in enumerate(zip(args, self._params, strict=True)):
            name, type = param.name, param.type
            if param.is_pointer:
                value = extract_pointer(arg, i, name, param.element, param.writes)
            else:
                value = extract_scalar(arg, i, name, type)
            if name in self._hints and value % self._hints[name]:
                raise ValueError(f"{label(i, name)} is {value:#x}; this kernel was compiled for "
                                 f"multiples of {self._hints[name]}")  # fmt: skip
            if type in _FLOATS:
                number, bits = _FLOATS[type]
                value = number.from_buffer(bits(value))
            values.append(value)
        return values


_opened_so_far = itertools.count()


def _opened(place: str) -> ctypes.CDLL:
    """The library in a file. The dynamic loader takes a name that it knows for the file that had
    it, which may have been replaced since: each time it gets a new one."""
    folder, name = os.path.split(os.path.realpath(place))
    same = "".join("./" if digit == "1" else "/" for digit in f"{next(_opened_so_far):b}")
    return ctypes.CDLL(f"{folder}/{same}{name}")


def _is_cut_off(data: bytes) -> bool:
    """True if a segment of an ELF file of 64 bits lies beyond the file's end."""
    if data[:5] != _ELF + b"\2":
        return False
    if len(data) < 64:
        return True
    table, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    if len(data) < table + size * count:
        return True
    segments = [struct.unpack_from("<5Q", data, table + size * i) for i in range(count)]
    return any(len(data) < offset + length for _, offset, _, _, length in segments)


def read_description(text: bytes) -> dict[str, Any]:
    """The description of a library, as JSON that `tritium.aot.entry` has written. It is read as an
    expression of Python, since `json` imports `re`, a fifth of the time that a bundle has to start;
    the code beside it in the library is trusted in any case."""
    names = {"true": True, "false": False, "null": None, "NaN": float("nan"),
             "Infinity": float("inf")}  # fmt: skip
    return eval(text, {"__builtins__": {}}, names)


def load(path: str | os.PathLike[str]) -> Kernel:
    """The kernel in a library that was compiled for the CPU.

    Raises:
        FileNotFoundError: there is no such file.
        BundleError: it is no such library, or one for another machine, or this processor lacks
            features that it uses.
    """
    place = os.fspath(path)  # pathlib takes a tenth of the time that this module has to start
    if os.path.isdir(place):
        raise BundleError(f"{place} is no library of a compiled kernel: it is a folder")
    if not os.path.isfile(place):
        raise FileNotFoundError(f"{place}: no such file")
    if not sys.platform.startswith("linux"):
        raise NotImplementedError("tritium.aot.load: libraries are written for Linux only")
    with open(place, "rb") as file:
        data, here = file.read(), os.uname().machine
    machine = _MACHINES.get(int.from_bytes(data[18:20], "little")) if data[:4] == _ELF else None
    if machine not in (None, here):
        raise BundleError(f"{place} is compiled for {machine}; this machine is {here}")
    if _is_cut_off(data):  # the dynamic loader would end the process
        raise BundleError(f"{place} is no library of a compiled kernel: its end is missing")
    try:
        library = _opened(place)
        about = ctypes.c_char.in_dll(library, ABOUT)
    except (OSError, ValueError) as error:
        raise BundleError(f"{place} is no library of a compiled kernel: {error}") from None
    try:
        described = read_description(ctypes.string_at(ctypes.addressof(about)))
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        raise BundleError(f"{place}: its description cannot be read: {error}") from None
    flags = linux_processor.flags()  # none where the system does not tell
    missing = sorted({*described["features"]} - {*flags})
    if flags and missing:
        raise BundleError(
            f"{place} is compiled for {described['cpu']}; this processor lacks {', '.join(missing)}"
        )
    return Kernel(library, described)
