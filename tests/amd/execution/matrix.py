"""Matrix instructions: which element of which matrix each lane has in each register.

MFMA: AMD's matrix instruction calculator, and the layouts of "Matrix Core Programming on AMD CDNA3
and CDNA4 architecture" (ROCm blogs), for MI200, MI300 and gfx950. WMMA of RDNA3: the "RDNA3
Instruction Set Architecture", "Wave Matrix Multiply Accumulate", whose lanes from 16 on repeat the
operands; of RDNA4: the "RDNA4 Instruction Set Architecture". Sums are computed in double precision
and rounded once, which the processors do not promise; tests with small integers are exact.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from tests.amd.execution.conversions import small_float
from tests.amd.execution.lanes import number
from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.parse import Instruction
from tests.amd.execution.types import Type, spread, to_bytes

_VERSIONS = {"gfx90a": 2, "gfx942": 3, "gfx950": 4}
_ELEMENTS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "xf32": np.float32,
             "f64": np.float64, "i8": np.int8, "iu8": np.int8}  # fmt: skip
_NAME = re.compile(r"(\w+)\.(\w+)\.(\d+)x(\d+)x(\d+)\.?(\w+?)(?:\.1k|\.v\w+.*|\.(\w+).*)?$")
_WITH_FP8 = ("gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250")
_ONLY = {"xf32": ("gfx942",), "fp8": _WITH_FP8, "bf8": _WITH_FP8}
"""The processors that have products of some elements."""
_FORMATS = {0: ml_dtypes.float8_e4m3fn, 1: ml_dtypes.float8_e5m2, 4: None}
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _elements(arch: str, kind: str, type: Type, value: Any) -> Any:
    """A lane's elements of an operand, as doubles (integers as they are)."""
    data = to_bytes(type, value)
    dtype = small_float(arch, kind) if kind in ("fp8", "bf8") else np.dtype(_ELEMENTS[kind])
    found = np.ascontiguousarray(data).view(dtype)
    if kind in ("i8", "iu8"):
        return found.astype(np.int64)
    wide = found.astype(np.float64)
    if kind == "xf32":  # 10 bits of mantissa
        fraction, exponent = np.frexp(wide)
        wide = np.ldexp(np.rint(fraction * 2.0**11), exponent - 11)
    return wide


def _row(lanes: int, size: int) -> tuple[Any, Any]:
    """The row of the left operand (column of the right one) of a lane, and its part of K."""
    lane = np.arange(lanes)
    return lane % size, lane // size


def _operand(elements: Any, size: int, k: int, places: Any) -> Any:
    """The matrix (size, k); `places`: where along K a lane's elements are, (lanes, elements)."""
    row, _ = _row(len(elements), size)
    found = np.full((size, k), np.nan if elements.dtype == np.float64 else 0, elements.dtype)
    counts = np.zeros((size, k), int)
    np.add.at(counts, (row[:, None], places), 1)
    if (counts != 1).any():
        raise ExecutionError(f"an operand of {size} rows has {elements.shape[1]} elements a lane")
    found[row[:, None], places] = elements
    return found


def _neighbours(lanes: int, size: int, count: int) -> Any:
    """A lane's elements are neighbours along K."""
    _, part = _row(lanes, size)
    return part[:, None] * count + np.arange(count)


def _result_rows(family: str, kind: str, size: int, arch: str, registers: int) -> Any:
    """The row of the result in each register of each lane; its column is `lane % size`."""
    lane, register = np.meshgrid(
        np.arange(64 if family == "mfma" else 32), np.arange(registers), indexing="ij"
    )
    part = lane // size
    if family == "wmma":
        return 2 * register + part if arch.startswith("gfx11") else 8 * part + register
    if kind == "f64":
        return 4 * register + part
    if size == 32:
        return 8 * (register // 4) + 4 * part + register % 4
    return 4 * part + register


def _sum(ins: Instruction, product: Any, total: Any, rows: Any, size: int) -> Any:
    column = (np.arange(len(rows)) % size)[:, None]
    part = product[rows, column]
    if part.dtype == np.int64:
        return (part + total.astype(np.int32)).astype(np.int32).astype(np.uint32)
    return (part + total.astype(np.float64)).astype(ins.type.dtype)


def multiply(wave: Any, ins: Instruction, mask: Any, *values: Any) -> Any:
    """A product that is not scaled."""
    name = ins.what.removeprefix("llvm.amdgcn.")
    wave.need_all(mask, name)
    found = _NAME.match(name)
    if found is None:
        raise NotImplementedError(f"matrix instruction {name}")
    family, _, m, n, k, kind, other = found.groups()
    size, k = int(m), int(k)
    kinds = kind, other if kind in ("fp8", "bf8") else kind
    _check_processor(wave.arch, family, kind, name)
    operands = [i for i, type in enumerate(ins.types)
                if type.count or type.kind in ("float", "double") or type.bits >= 32]  # fmt: skip
    a, b, c = operands[:3]
    for i in set(range(len(values))) - {a, b, c}:
        signed = kind == "iu8" and i in (0, 2)
        if number(values[i]) != signed:
            raise NotImplementedError(f"operand {i} of {name}: {number(values[i])}")
    lanes = wave.lanes
    left, right = (
        _elements(wave.arch, kind_, ins.types[i], spread(values[i], lanes))
        for kind_, i in zip(kinds, (a, b), strict=True)
    )
    total = spread(values[c], lanes)
    if m == "4":
        return _sixteen(ins, left, right, total)
    assert m == n
    if family == "wmma" and wave.arch.startswith("gfx11"):
        for half in (left, right):
            if not np.array_equal(half[:16], half[16:], equal_nan=half.dtype == np.float64):
                raise ExecutionError(f"{name}: lanes from 16 on do not repeat the operands")
        left, right = left[:16], right[:16]
    places = _neighbours(len(left), size, left.shape[1])
    product = _operand(left, size, k, places) @ _operand(right, size, k, places).T
    rows = _result_rows(family, kind, size, wave.arch, ins.type.count)
    return _sum(ins, product, total, rows, size)


def _check_processor(arch: str, family: str, kind: str, name: str) -> None:
    wanted = "mfma" if arch in _VERSIONS else "wmma"
    if family != wanted or arch not in _ONLY.get(kind, (arch,)):
        raise ExecutionError(f"{arch} has no {name}")


def _sixteen(ins: Instruction, left: Any, right: Any, total: Any) -> Any:
    """16 products of 4 rows and 4 columns, one for four neighbouring lanes each."""
    a, b = (v.reshape(16, 4, -1) for v in (left, right))
    product = a @ b.transpose(0, 2, 1)  # row, column
    lane = np.arange(64)
    part = product[lane // 4, :, lane % 4]
    if part.dtype == np.int64:
        return (part + total.astype(np.int32)).astype(np.int32).astype(np.uint32)
    return (part + total.astype(np.float64)).astype(ins.type.dtype)


def _scaled_operand(
    type: Type, value: Any, format: int, scale: Any, byte: int, size: int, k: int
) -> Any:
    """8-bit floats: two runs of 16 elements a lane, of either half of K; 4-bit ones: one of 32. A
    lane has the scale of 32 elements of its row: the part of K that its number says."""
    data = to_bytes(type, value)
    row, part = _row(64, size)
    if format == 4:
        data = data[:, :16]
        elements = _FP4[np.stack([data & 15, data >> 4], axis=2).reshape(64, 32)]
        places = _neighbours(64, size, 32)
    elif format in (0, 1):
        elements = np.ascontiguousarray(data[:, :32]).view(_FORMATS[format]).astype(np.float64)
        step = np.arange(32)
        places = part[:, None] * 16 + step % 16 + k // 2 * (step // 16)
    else:
        raise NotImplementedError(f"format {format} of scaled products")
    matrix = _operand(elements, size, k, places)
    if scale is None:
        return matrix
    exponents = (spread(scale, 64) >> np.uint32(8 * byte) & np.uint32(255)).astype(np.int64)
    factors = np.zeros((size, k // 32))
    factors[row, part] = np.where(exponents == 255, np.nan, np.ldexp(1.0, exponents - 127))
    return matrix * np.repeat(factors, 32, axis=1)


def multiply_scaled(wave: Any, ins: Instruction, mask: Any, a: Any, b: Any, c: Any,
                    *numbers: Any) -> Any:  # fmt: skip
    name = ins.what.removeprefix("llvm.amdgcn.")
    wave.need_all(mask, name)
    sizes = re.match(r"mfma\.scale\.f32\.(\d+)x\d+x(\d+)\.f8f6f4", name)
    if sizes is None or wave.arch != "gfx950":
        raise NotImplementedError(f"{name} on {wave.arch}")
    size, k = map(int, sizes.groups())
    format_a, format_b, byte_a, scale_a, byte_b, scale_b = numbers
    if all(isinstance(ins.args[i], np.ndarray) and not ins.args[i].any() for i in (6, 8)):
        scale_a = scale_b = None  # LLVM makes an instruction without scales of constants 0
    left = _scaled_operand(ins.types[0], spread(a, 64), number(format_a), scale_a,
                           number(byte_a), size, k)  # fmt: skip
    right = _scaled_operand(ins.types[1], spread(b, 64), number(format_b), scale_b,
                            number(byte_b), size, k)  # fmt: skip
    rows = _result_rows("mfma", "f32", size, wave.arch, ins.type.count)
    return _sum(ins, left @ right.T, spread(c, 64), rows, size)


def _operand_in_runs(
    type: Type, value: Any, format: int, half: int, kind: int, scale: Any, first: int = 0
) -> Any:
    """An operand of WMMA with scales, by AMD's Composable Kernel (`LayoutFromDataType` of
    warp_gemm_attribute_wmma_impl_base_traits.hpp): of 128 elements of its row a lane has every
    second run of 16 (4-bit ones: of 32, from byte `first` on), and the lane 16 further on the
    others. The lanes of a `half` have the scales of the row, a byte for 32 elements, or for 16 in
    words of 64 bits: an exponent (`kind` 0) or a number of e4m3 (2)."""
    data, lane, step = to_bytes(type, value), np.arange(32), np.arange(64)
    if format == 4:
        run, data = 32, data[:, first : first + 32]
        elements = _FP4[np.stack([data & 15, data >> 4], axis=2).reshape(32, 64)]
    elif format in (0, 1):
        run = 16
        elements = np.ascontiguousarray(data[:, :64]).view(_FORMATS[format]).astype(np.float64)
    else:
        raise NotImplementedError(f"format {format} of scaled products")
    places = 2 * run * (step // run) + run * (lane[:, None] // 16) + step % run
    words = spread(scale, 32)[16 * half : 16 * half + 16]
    codes = np.ascontiguousarray(words).view(np.uint8).reshape(16, -1)
    if kind == 2:
        factors = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    elif kind == 0:
        factors = np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))
    else:
        raise NotImplementedError(f"scales of format {kind}")
    return _operand(elements, 16, 128, places) * np.repeat(factors, 128 // factors.shape[1], axis=1)


def multiply_scaled_by_wmma(wave: Any, ins: Instruction, mask: Any, *values: Any) -> Any:
    name = ins.what.removeprefix("llvm.amdgcn.")
    wave.need_all(mask, name)
    wide = re.match(r"wmma\.scale(16)?\.f32\.32x16x128\.f4", name) is not None
    plain = re.match(r"wmma\.scale(16)?\.f32\.16x16x128\.f8f6f4", name) is not None
    if wave.arch != "gfx1250" or not (wide or plain):
        raise NotImplementedError(f"{name} on {wave.arch}")
    if wide:
        return _of_32_rows(wave, ins, *values)
    format_a, a, format_b, b, _, c, half_a, kind_a, scale_a, half_b, kind_b, scale_b, *_ = values
    left = _operand_in_runs(ins.types[1], spread(a, 32), number(format_a), number(half_a),
                            number(kind_a), scale_a)  # fmt: skip
    right = _operand_in_runs(ins.types[3], spread(b, 32), number(format_b), number(half_b),
                             number(kind_b), scale_b)  # fmt: skip
    rows = _result_rows("wmma", "f32", 16, wave.arch, ins.type.count)
    return _sum(ins, left @ right.T, spread(c, 32), rows, 16)


def _of_32_rows(wave: Any, ins: Instruction, *values: Any) -> Any:
    """A lane has its row of the first operand and the row 16 further on, and the scales of one of
    the first 16 rows, or in the other half of the wave of the last; of the result 8 numbers each
    of these halves of the rows."""
    a, b, _, c, _, kind_a, scale_a, half_b, kind_b, scale_b, *_ = values
    left = np.vstack([
        _operand_in_runs(ins.types[0], spread(a, 32), 4, half, number(kind_a), scale_a, 32 * half)
        for half in range(2)
    ])  # fmt: skip
    right = _operand_in_runs(ins.types[1], spread(b, 32), 4, number(half_b), number(kind_b),
                             scale_b)  # fmt: skip
    rows = _result_rows("wmma", "f32", 16, wave.arch, ins.type.count // 2)
    return _sum(ins, left @ right.T, spread(c, 32), np.hstack([rows, rows + 16]), 16)
