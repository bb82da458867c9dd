"""Statements for matrix units, with operands from registers and from shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.gluon_programs.engines import fence
from tools.gluon_programs.layouts import Bases, part_of, shared
from tools.gluon_programs.program import GluonProgram, named
from tools.tile_programs.program import BFLOAT16, Tile, is_float
from tritium.experimental.gluon import language as gl

_DTYPES = {
    "mma": (np.float16, BFLOAT16, np.int8, np.float32), "wgmma": (np.float16, BFLOAT16, np.int8),
    "mfma3": (np.float16, BFLOAT16, np.int8), "mfma4": (np.float16, BFLOAT16),
    "wmma1": (np.float16, BFLOAT16, np.int8), "wmma2": (np.float16, BFLOAT16, np.int8),
}  # fmt: skip
_CALLS = {
    "mma": "ampere.mma_v2({}, {}, {})", "mfma3": "gl.amd.cdna3.mfma({}, {}, {})",
    "mfma4": "gl.amd.cdna4.mfma({}, {}, {})", "wmma1": "gl.amd.rdna3.wmma({}, {}, {})",
    "wmma2": "gl.amd.rdna4.wmma({}, {}, {})",
}  # fmt: skip


def _dtype(p: GluonProgram, unit: str) -> np.dtype:
    return np.dtype(p.source.choice(_DTYPES[unit]))


def _result(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if is_float(dtype) else np.int32)


def _product(x: np.ndarray, y: np.ndarray, total: Tile | None) -> np.ndarray:
    wide = np.float64 if is_float(x.dtype) else np.int64
    data = x.astype(wide) @ y.astype(wide)
    return data if total is None else data + total.data


def _accumulator(
    p: GluonProgram, shape: tuple[int, int], dtype: np.dtype, layout: str
) -> tuple[Tile | None, str]:
    """A tile that the product is added to, if there is one, and its text."""
    fit = [t for t in p.tiles if t.shape == shape and t.data.dtype == dtype]
    if fit and p.source.random() < 0.6:
        tile = p.source.choice(fit)
        return tile, f"gl.convert_layout({tile.name}, {layout})"
    return None, f"gl.zeros({list(shape)}, {named(dtype)}, {layout})"


def _through_memory(p: GluonProgram, tile: Tile) -> tuple[str, int]:
    """Shared memory that holds a tile, which may be turned in it, and its bytes."""
    s = p.source
    turned = s.random() < 0.5
    shape = tile.shape[::-1] if turned else tile.shape
    kept = p.layouts.cluster(shape)
    layout = p.layout(shared(s, shape, 8 * tile.data.dtype.itemsize, kept))
    p.meet()
    name = p.name("s")
    value = f"gl.permute({tile.name}, (1, 0))" if turned else tile.name
    p.line(
        f"{name} = gl.allocate_shared_memory({named(tile.data.dtype)}, {list(shape)}, {layout}, "
        f"{value})"
    )
    p.meet()
    return name + (".permute((1, 0))" if turned else ""), tile.data[0].nbytes


def _operand(p: GluonProgram, tile: Tile, layout: str) -> str:
    """A tile as an operand: converted, or loaded from shared memory."""
    if p.room < 2 * tile.data[0].nbytes or p.source.random() < 0.5:
        return f"gl.convert_layout({tile.name}, {layout})"
    memory, nbytes = _through_memory(p, tile)
    p.room -= 2 * nbytes
    if p.blocks == 1:
        return f"{memory}.load({layout})"
    name = p.name("x")
    p.line(f"{name} = {memory}.load({layout})")
    p.meet()  # other tiles may come where the memory is
    return name


def product(p: GluonProgram) -> bool:
    """A product by instructions that take both operands from registers."""
    s = p.source
    units = [u for u in p.layouts.of_units() if u in _CALLS]
    if not units:
        return False
    unit = s.choice(units)
    dtype = _dtype(p, unit)
    m, n, k = (
        s.choice((16, 32, 64)),
        s.choice((8, 16, 32) if unit == "mma" else (16, 32, 64)),
        s.choice((16, 32, 64)),
    )
    result = p.layouts.unit(unit, (m, n))
    if unit == "mma" and dtype.itemsize == 1:
        k = max(k, 32)
    if unit != "mma":
        m, n = max(m, result.instr_shape[0] if unit[:4] == "mfma" else 16), max(n, 32)
        k = max(k, 32)
    a, b = p.tile_of((m, k), dtype), p.tile_of((k, n), dtype)
    total, text = _accumulator(p, (m, n), _result(dtype), p.layout(result))
    data = _product(a.data, b.data, total).astype(_result(dtype))
    if not (p.exact(data) and p.exact(a.data) and p.exact(b.data)):
        return False
    if dtype == np.float32 and (np.abs([np.abs(t.data).max() for t in (a, b)]).max() > 1024):
        return False  # tf32 has 11 bits
    wide = [w for w in (1, 2, 4) if unit == "mma" and 32 * w <= k * dtype.itemsize]
    wider = s.choice(wide or [1])
    left, right = (
        _operand(p, t, p.layout(p.layouts.operand(i, result, 8 * dtype.itemsize, wider)))
        for i, t in enumerate((a, b))
    )
    p.new(_CALLS[unit].format(left, right, text), data)
    return True


def multiplied(p: GluonProgram) -> bool:
    """`dot_fma`."""
    s = p.source
    m, n, k = s.choice((2, 8, 16)), s.choice((2, 8, 16)), s.choice((16, 32))
    dtype = np.dtype(np.float32)
    a, b = p.tile_of((m, k), dtype), p.tile_of((k, n), dtype)
    parent = p.layouts.blocked((m, n))
    total, text = _accumulator(p, (m, n), dtype, p.layout(parent))
    data = _product(a.data, b.data, total).astype(dtype)
    if not p.exact(data):
        return False
    left, right = (_operand(p, t, p.layout(gl.DotOperandLayout(i, parent, 0)))
                   for i, t in enumerate((a, b)))  # fmt: skip
    p.new(f"gl.dot_fma({left}, {right}, {text})", data)
    return True


def _for_wgmma(p: GluonProgram, tile: Tile, turned: bool, cluster: Bases) -> str:
    """Shared memory that holds a tile as wgmma reads it; each block of a cluster has a part."""
    dtype = tile.data.dtype
    kind: Any = {1: gl.int8, 2: gl.float16}[dtype.itemsize]
    layout = gl.NVMMASharedLayout.get_default_for(
        list(tile.shape), kind, transposed=turned, cga_layout=cluster
    )
    name = p.name("s")
    p.meet()
    p.line(
        f"{name} = gl.allocate_shared_memory({named(dtype)}, {list(tile.shape)}, "
        f"{p.layout(layout)}, {tile.name})"
    )
    return name


def of_warp_groups(p: GluonProgram) -> bool:
    """A product by warp groups, of an operand in registers or shared memory and one in memory."""
    s = p.source
    if "wgmma" not in p.layouts.of_units():
        return False
    dtype, result = _dtype(p, "wgmma"), p.layouts.unit("wgmma", (8, 8))
    if dtype.itemsize == 1 and "no_integer_wgmma" in p.abilities:
        return False
    k_of = 32 // dtype.itemsize
    result = gl.NVMMADistributedLayout(
        [3, 0], result.warps_per_cta, [16, result.instr_shape[1], k_of], result.cga_layout
    )
    rows, columns = (8 // part for part in part_of((8, 8), result.cga_layout))
    m = 16 * result.warps_per_cta[0] * s.choice((1, 1, 2)) * rows
    n = result.instr_shape[1] * result.warps_per_cta[1] * columns
    k = k_of * s.choice((1, 2, 4))
    if m * n > 8192 or 4 * (m + n) * k > p.room:
        return False
    a, b = p.tile_of((m, k), dtype), p.tile_of((k, n), dtype)
    total, text = _accumulator(p, (m, n), _result(dtype), p.layout(result))
    data = _product(a.data, b.data, total).astype(_result(dtype))
    if not (p.exact(data) and p.exact(a.data) and p.exact(b.data)):
        return False
    p.room -= 4 * (m + n) * k
    parts = [[[x[0], 0] for x in result.cga_layout], [[0, x[1]] for x in result.cga_layout]]
    right = _for_wgmma(p, b, dtype.itemsize == 1 or s.random() < 0.5, parts[1])
    if s.random() < 0.4:
        of_operand = p.layout(p.layouts.operand(0, result, 8 * dtype.itemsize))
        left = f"gl.convert_layout({a.name}, {of_operand})"
    else:
        left = _for_wgmma(p, a, dtype.itemsize > 1 and s.random() < 0.4, parts[0])
    fence(p)
    if s.random() < 0.5:
        p.new(f"hopper.warpgroup_mma({left}, {right}, {text})", data)
    else:
        name = p.name("w")
        p.line(f"{name} = hopper.warpgroup_mma({left}, {right}, {text}, is_async=True)")
        p.new(f"hopper.warpgroup_mma_wait(0, deps=[{name}])", data)
    return True
