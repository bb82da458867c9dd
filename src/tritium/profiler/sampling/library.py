"""CUPTI's C library: the functions that sample the program counter, which cupti-python lacks.

The structures, their order of fields and the values of enumerations are those that NVIDIA documents
(https://docs.nvidia.com/cupti/api/group__CUPTI__PCSAMPLING__API.html); each begins with its size,
by which the library tells versions apart. The same page says which function needs which.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from tritium import knobs
from tritium.system.libraries import open_first

_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
_FOLDERS = ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib")
"""The folders of NVIDIA's Python packages that have the library."""
_NAME_BYTES = 128  # CUPTI_STALL_REASON_STRING_SIZE
_PCS = 4096
"""Places in the code that one call hands over."""
_PERMISSION, _NOT_SUPPORTED, _FULL = (35, 40), (27, 33), 8
"""Results: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, the same of virtual devices; _NOT_SUPPORTED, the
same; _OUT_OF_MEMORY, which for samples means that the hardware's buffer is full."""
PERIOD, COLLECTION, START_STOP, FORMAT, BUFFER = 1, 5, 6, 7, 8
"""Attributes: CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD and its like."""
_CONTINUOUS, _PARSED = 1, 1


class StallReason(ctypes.Structure):
    """CUpti_PCSamplingStallReason."""

    _fields_ = (("reason", c_uint32), ("samples", c_uint32))


class PCData(ctypes.Structure):
    """CUpti_PCSamplingPCData."""

    _fields_ = (
        ("size", c_size_t), ("cubin_crc", c_uint64), ("pc_offset", c_uint64),
        ("function_index", c_uint32), ("pad", c_uint32), ("function_name", c_char_p),
        ("reason_count", c_size_t), ("reasons", POINTER(StallReason)), ("correlation", c_uint32),
    )  # fmt: skip


class Data(ctypes.Structure):
    """CUpti_PCSamplingData."""

    _fields_ = (
        ("size", c_size_t), ("collect", c_size_t), ("total_samples", c_uint64),
        ("dropped_samples", c_uint64), ("total_pcs", c_size_t), ("remaining_pcs", c_size_t),
        ("range", c_uint64), ("pcs", POINTER(PCData)), ("other_samples", c_uint64),
        ("buffer_full", c_uint8),
    )  # fmt: skip


class Attribute(ctypes.Structure):
    """CUpti_PCSamplingConfigurationInfo; the union's members all begin at its first word."""

    _fields_ = (("kind", c_int), ("status", c_int), ("value", c_uint64 * 3))


class Params(ctypes.Structure):
    """The parameters of a function; `Library.call` sets their size."""

    size: int


_HEAD = (("size", c_size_t), ("private", c_void_p), ("context", c_void_p))


class ContextParams(Params):
    """CUpti_PCSamplingEnableParams, and those of Disable, Start and Stop."""

    _fields_ = _HEAD


class AttributesParams(Params):
    """CUpti_PCSamplingConfigurationInfoParams."""

    _fields_ = (*_HEAD, ("count", c_size_t), ("attributes", POINTER(Attribute)))


class DataParams(Params):
    """CUpti_PCSamplingGetDataParams."""

    _fields_ = (*_HEAD, ("data", POINTER(Data)))


class CountParams(Params):
    """CUpti_PCSamplingGetNumStallReasonsParams."""

    _fields_ = (*_HEAD, ("count", POINTER(c_size_t)))


class ReasonsParams(Params):
    """CUpti_PCSamplingGetStallReasonsParams."""

    _fields_ = (
        *_HEAD, ("count", c_size_t), ("indices", POINTER(c_uint32)), ("names", POINTER(c_void_p)),
    )  # fmt: skip


class LineParams(Params):
    """CUpti_GetSassToSourceCorrelationParams."""

    _fields_ = (
        ("size", c_size_t), ("cubin", c_char_p), ("function", c_char_p), ("cubin_size", c_size_t),
        ("line", c_uint32), ("pc_offset", c_uint64), ("file", c_void_p), ("folder", c_void_p),
    )  # fmt: skip


class Sample(NamedTuple):
    """The samples of one place in the code.

    Attributes:
        function: the kernel's name.
        offset: bytes from the function's beginning.
        reasons: numbers of samples by the name of what warps waited for.
    """

    function: str
    offset: int
    reasons: dict[str, int]


class CuptiError(RuntimeError):
    """A function of CUPTI's failed; its number is `status`."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class Library:
    """The functions that sampling uses.

    Args:
        cupti: the loaded library.
    """

    def __init__(self, cupti: Any):
        self._cupti = cupti

    def call(self, function: str, params: Params) -> None:
        """Call `cupti<function>`. Raises `CuptiError`."""
        params.size = ctypes.sizeof(params)
        status = getattr(self._cupti, f"cupti{function}")(ctypes.byref(params))
        if status:
            raise CuptiError(self._message(function, status), status)

    def _message(self, function: str, status: int) -> str:
        text = c_char_p()
        self._cupti.cuptiGetResultString(status, ctypes.byref(text))
        name = (text.value or b"an unknown error").decode()
        hint = ""
        if status in _PERMISSION:
            hint = ("; the driver lets only administrators sample: run as root, or load it with "
                    "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/"
                    "ERR_NVGPUCTRPERM)")  # fmt: skip
        elif status in _NOT_SUPPORTED:
            hint = "; devices of compute capability 7.0 and higher sample, virtual ones may not"
        elif status == _FULL:
            hint = "; samples were lost: PCSampling(interval=...) of more cycles takes fewer"
        return f"cupti{function} failed: {name} ({status}){hint}"

    def of_context(self, function: str, context: int) -> None:
        """Call one of the functions that take nothing but a context."""
        self.call(function, ContextParams(context=context))

    def reasons(self, context: int) -> dict[int, str]:
        """The names of what warps may wait for, by number."""
        count = c_size_t()
        self.call("PCSamplingGetNumStallReasons",
                  CountParams(context=context, count=ctypes.pointer(count)))  # fmt: skip
        indices = (c_uint32 * count.value)()
        texts = [ctypes.create_string_buffer(_NAME_BYTES) for _ in range(count.value)]
        names = (c_void_p * count.value)(*(ctypes.addressof(text) for text in texts))
        self.call("PCSamplingGetStallReasons", ReasonsParams(
            context=context, count=count.value, indices=indices, names=names,
        ))  # fmt: skip
        return {int(i): text.value.decode() for i, text in zip(indices, texts, strict=True)}

    def configure(self, context: int, values: Sequence[tuple[int, int]]) -> None:
        """Set attributes."""
        attributes = (Attribute * len(values))()
        for attribute, (kind, value) in zip(attributes, values, strict=True):
            attribute.kind, attribute.value[0] = kind, value
        self.call("PCSamplingSetConfigurationAttribute", AttributesParams(
            context=context, count=len(values), attributes=attributes,
        ))  # fmt: skip

    def line(self, cubin: bytes, function: str, offset: int) -> tuple[str, int] | None:
        """The file and the line of an instruction; None where the binary does not say."""
        params = LineParams(cubin=cubin, function=function.encode(), cubin_size=len(cubin),
                            pc_offset=offset)  # fmt: skip
        try:
            self.call("GetSassToSourceCorrelation", params)
        except CuptiError:
            return None
        texts = [self._taken(address) for address in (params.folder, params.file)]
        return (os.path.join(*texts), params.line) if texts[1] and params.line else None

    def _taken(self, address: int | None) -> str:
        """A text that the caller owns, which is freed."""
        if not address:
            return ""
        text = ctypes.string_at(address).decode(errors="replace")
        free = ctypes.CDLL(None).free
        free.argtypes = [c_void_p]
        free(address)
        return text


class Buffer:
    """Memory for samples.

    Args:
        reasons: what warps may wait for.
    """

    def __init__(self, reasons: int):
        self._reasons = reasons
        self._counts = (StallReason * (reasons * _PCS))()
        self._pcs = (PCData * _PCS)()
        self.data = Data(size=ctypes.sizeof(Data), collect=_PCS, pcs=self._pcs)
        step = ctypes.sizeof(StallReason) * reasons
        for number, pc in enumerate(self._pcs):
            pc.size = ctypes.sizeof(PCData)
            place = ctypes.addressof(self._counts) + number * step
            pc.reasons = ctypes.cast(place, POINTER(StallReason))

    @property
    def address(self) -> int:
        """The address of the data."""
        return ctypes.addressof(self.data)

    def clear(self) -> None:
        """Make room for samples."""
        self.data.total_pcs = self.data.remaining_pcs = 0
        for pc in self._pcs:
            pc.reason_count = self._reasons

    def samples(self, names: dict[int, str]) -> Iterator[Sample]:
        """The samples that were handed over."""
        for pc in self._pcs[: self.data.total_pcs]:
            counts = {names[r.reason]: int(r.samples) for r in pc.reasons[: pc.reason_count]}
            yield Sample((pc.function_name or b"").decode(), int(pc.pc_offset), counts)


class Context:
    """Sampling in one CUDA context, from the beginning until `close`.

    Args:
        library: CUPTI.
        context: the context's handle.
        exponent: of 2, for the number of cycles between samples.
    """

    def __init__(self, library: Library, context: int, exponent: int):
        self._library, self._context = library, context
        library.of_context("PCSamplingEnable", context)
        try:
            self._names = library.reasons(context)
            self._own, self._buffer = (Buffer(len(self._names)) for _ in range(2))
            library.configure(context, [
                (COLLECTION, _CONTINUOUS), (PERIOD, exponent), (START_STOP, 1), (FORMAT, _PARSED),
                (BUFFER, self._own.address),
            ])  # fmt: skip
        except CuptiError:
            self.close()
            raise

    def start(self) -> None:
        """Sample what runs from now on."""
        self._library.of_context("PCSamplingStart", self._context)

    def stop(self) -> tuple[list[Sample], int]:
        """Sample no more; returns the samples, and the number of those that the hardware dropped.
        The device must be idle."""
        self._library.of_context("PCSamplingStop", self._context)
        found, dropped = list[Sample](), 0
        while True:
            self._buffer.clear()
            self._library.call("PCSamplingGetData", DataParams(
                context=self._context, data=ctypes.pointer(self._buffer.data),
            ))  # fmt: skip
            found += self._buffer.samples(self._names)
            dropped += int(self._buffer.data.dropped_samples)
            if not self._buffer.data.remaining_pcs:
                return found, dropped

    def close(self) -> None:
        """End sampling in the context."""
        self._library.of_context("PCSamplingDisable", self._context)


@functools.cache
def library() -> Library:
    """CUPTI's library. Raises `RuntimeError` where there is none."""
    given = knobs.proton.cupti_lib_dir
    folders = [given] if given else [
        *(os.path.join(path, folder) for path in sys.path for folder in _FOLDERS), "",
        "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
    ]  # fmt: skip
    if (found := open_first(folders, _NAMES)) is not None:
        return Library(found)
    where = f"in TRITON_CUPTI_LIB_PATH={given}" if given else "with NVIDIA's packages or CUDA"
    raise RuntimeError(
        f"profiler.start: mode='pcsampling' needs CUPTI's library, and none of {', '.join(_NAMES)} "
        f"can be loaded {where}: pip install nvidia-cuda-cupti (for CUDA 12 nvidia-cuda-cupti-cu12)"
    )
