"""Kinds of run-time arguments, and their conversion to 8-byte slots.

Everything here is the careful path, in Python: the native launcher takes the common cases itself
and comes here for all else, and for every error.
"""

from __future__ import annotations

import ctypes
import operator
import sys

from tritium.launch.scalars import SCALARS, label, type_name

TYPE_CHECKING = False  # a bundle starts without `typing`
if TYPE_CHECKING:
    from typing import Any

ELEMENT_NAMES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16", "float8_e4m3b11fnuz": "fp8e4b15",
    "half": "fp16", "float": "fp32", "double": "fp64", "int": "i32", "long": "i64", "u1": "i1",
}  # fmt: skip
"""Element type names of array libraries and of signatures."""

# (code, bits) by DLPack's header: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 7 to 17 small floats.
DLPACK_TYPES = {
    "i1": (6, 8), "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "fp16": (2, 16), "bf16": (4, 16), "fp32": (2, 32), "fp64": (2, 64),
    "fp8e4b15": (9, 8), "fp8e4nv": (10, 8), "fp8e4b8": (11, 8), "fp8e5": (12, 8),
    "fp8e5b16": (13, 8),
}  # fmt: skip
HOST_DEVICES = (1, 3, 11, 13)  # CPU, CUDA's and ROCm's pinned host memory, CUDA managed memory
BYTE_TYPES = frozenset({"i1", "i8", "u8"})


class Param:
    """A parameter of a compiled kernel.

    Attributes:
        name: as in the source, for messages.
        type: as in a signature: `*fp32` (a pointer; `*k...` to constants), `i32`, `u64`, `fp32`,
            or `constexpr`: an argument that is passed and ignored, and has no slot.
        writes: whether the kernel stores through the pointer.
    """

    # No dataclass: `dataclasses` takes a sixth of the time in which a bundle starts.
    __slots__ = "name", "type", "writes"

    def __init__(self, name: str, type: str, writes: bool = False):
        self.name, self.type, self.writes = name, type, writes
        if not self.is_pointer and self.type not in (*SCALARS, "constexpr"):
            raise NotImplementedError(
                f"parameter '{self.name}' of type {self.type!r}: a launch on the CPU takes "
                f"pointers (*T), constexpr and {', '.join(SCALARS)}"
            )

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")

    @property
    def element(self) -> str:
        """The element type of a pointer: `fp32`; a name of no dtype for pointers to pointers."""
        text = self.type[1:].removeprefix("k")
        return ELEMENT_NAMES.get(text, text)


def _device_error(where: str, device: object) -> ValueError:
    return ValueError(
        f"{where} is in the memory of device {device}, which the CPU cannot reach; "
        "pass an array in host memory (a tensor's .cpu()) or make the device the active target"
    )


def _check_element(where: str, given: object, expected: str | None) -> None:
    """Compare a dtype with what the kernel was compiled for; unknown ones pass."""
    text = str(given).rpartition(".")[2]
    name = ELEMENT_NAMES.get(text, text)
    if expected is None or expected not in DLPACK_TYPES or name not in DLPACK_TYPES:
        return
    if name != expected and not {name, expected} <= BYTE_TYPES:
        raise TypeError(
            f"{where} has elements of type {name}; this kernel was compiled for a pointer to "
            f"{expected}"
        )


def _check_writable(where: str, writable: bool, writes: bool) -> None:
    if writes and not writable:
        raise ValueError(f"{where} is read-only and the kernel writes to it; pass a writable array")


def extract_pointer(
    obj: Any, index: int, name: str, expected_dtype: str | None, writes: bool
) -> int:
    """The address of an argument's first element.

    Args:
        obj: a torch tensor, NumPy array, or anything with `data_ptr()`, `__array_interface__`,
            `__dlpack__` or the buffer protocol, in host memory.
        index, name: which parameter it is for, for messages.
        expected_dtype: the element type the kernel was compiled for (`fp32`), None for any.
        writes: whether the kernel stores through it.

    Raises:
        TypeError: no array, or one of another element type.
        ValueError: in a device's memory, or read-only though written to.
    """
    where = label(index, name)
    np: Any = sys.modules.get("numpy")  # imported by whoever has its arrays, as torch is
    torch: Any = sys.modules.get("torch")
    if np is not None and isinstance(obj, np.ndarray):
        return _from_array(obj, where, expected_dtype, writes)
    if torch is not None and isinstance(obj, torch.Tensor):
        return _from_tensor(obj, where, expected_dtype)
    if callable(getattr(obj, "data_ptr", None)):
        return _from_data_ptr(obj, where, expected_dtype)
    if hasattr(obj, "__cuda_array_interface__"):
        raise _device_error(where, "cuda")
    if hasattr(obj, "__dlpack_device__"):
        kind, number = obj.__dlpack_device__()
        if int(kind) not in HOST_DEVICES:
            raise _device_error(where, f"{getattr(kind, 'name', kind)}:{number}")
    if hasattr(obj, "__array_interface__"):
        return _from_interface(obj.__array_interface__, where, expected_dtype, writes)
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj, where, expected_dtype, writes)
    try:
        view = memoryview(obj)
    except TypeError:
        raise TypeError(
            f"{where} is {obj!r:.80} of type {type_name(obj)}; expected an array in host memory: "
            "a NumPy array, a torch tensor, or an object with __dlpack__, __array_interface__, "
            "the buffer protocol or data_ptr()"
        ) from None
    _check_writable(where, not view.readonly, writes)
    import numpy as np  # few launches come here

    array = np.asarray(view)
    if view.format not in ("B", "b", "c"):  # plain bytes stand for any element type
        _check_element(where, array.dtype, expected_dtype)
    return array.__array_interface__["data"][0]


def _from_array(array: Any, where: str, expected: str | None, writes: bool) -> int:
    if not array.dtype.isnative:
        raise TypeError(f"{where} is not in this machine's byte order (dtype {array.dtype})")
    _check_element(where, array.dtype, expected)
    _check_writable(where, array.flags.writeable, writes)
    return array.__array_interface__["data"][0]


def _from_tensor(tensor: Any, where: str, expected: str | None) -> int:
    if tensor.device.type != "cpu":
        raise _device_error(where, tensor.device)
    _check_element(where, tensor.dtype, expected)
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:
        raise TypeError(f"{where} is a tensor without memory of its own: {error}") from error
    if not address and tensor.numel():
        kind = f"{type_name(tensor)} of shape {list(tensor.shape)}"
        raise ValueError(f"{where} is a {kind} whose memory is not there (its data_ptr() is 0)")
    return address


def _from_data_ptr(obj: Any, where: str, expected: str | None) -> int:
    device = getattr(obj, "device", "cpu")
    kind = str(getattr(device, "type", device)).partition(":")[0].lower()
    if kind not in ("cpu", "", "none"):
        raise _device_error(where, device)
    _check_element(where, getattr(obj, "dtype", ""), expected)
    return operator.index(obj.data_ptr())


def _from_interface(interface: Any, where: str, expected: str | None, writes: bool) -> int:
    data = interface.get("data")
    if data is None:
        raise TypeError(f"{where} has an __array_interface__ without a data pointer")
    address, readonly = data
    import numpy as np  # as above

    dtype = np.dtype(interface["typestr"])
    if dtype.kind != "V":
        _check_element(where, dtype, expected)
    _check_writable(where, not readonly, writes)
    return operator.index(address)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_uint64), ("strides", ctypes.c_uint64),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _DLManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint64), ("context", ctypes.c_uint64), ("deleter", ctypes.c_uint64),
        ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


def _capsule_pointer(capsule: object, name: bytes) -> int | None:
    function = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    if not valid(("PyCapsule_IsValid", ctypes.pythonapi))(capsule, name):
        return None
    return function(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name)


def _from_dlpack(obj: Any, where: str, expected: str | None, writes: bool) -> int:
    """Read the tensor's struct; the capsule is dropped unconsumed, the object keeps the memory."""
    try:
        capsule = obj.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = obj.__dlpack__()
    readonly = False
    if address := _capsule_pointer(capsule, b"dltensor_versioned"):
        managed = _DLManagedVersioned.from_address(address)
        tensor, readonly = managed.tensor, bool(managed.flags & 1)
    elif address := _capsule_pointer(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(address)
    else:
        raise TypeError(f"{where}: __dlpack__ of {type_name(obj)} returned no DLPack capsule")
    if tensor.device_type not in HOST_DEVICES:
        raise _device_error(where, f"{tensor.device_type}:{tensor.device_id}")
    names = {number: name for name, number in DLPACK_TYPES.items()}
    _check_element(where, names.get((tensor.code, tensor.bits), ""), expected)
    _check_writable(where, not readonly, writes)
    return tensor.data + tensor.byte_offset
