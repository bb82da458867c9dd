"""Running ttir natively, and by the reference semantics, on the same NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.lower.module import lower_to_llvm
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.ir import types as ir
from tritium.native.host import host
from tritium.native.loader import compile_ir, load_object
from tritium.ops.evaluation import Evaluator
from tritium.ops.parsing import parse_module
from tritium.ops.ttir import FuncOp


class Fault(ctypes.Structure):
    """Report of a failed assertion."""

    _fields_ = [("raised", ctypes.c_int32), ("x", ctypes.c_int32), ("y", ctypes.c_int32),
                ("z", ctypes.c_int32), ("message", ctypes.c_char_p)]  # fmt: skip


class Context(ctypes.Structure):
    """The kernel ABI's context."""

    _fields_ = [("nx", ctypes.c_int32), ("ny", ctypes.c_int32), ("nz", ctypes.c_int32),
                ("thread", ctypes.c_int32), ("scratch", ctypes.c_void_p),
                ("fault", ctypes.c_void_p), ("alone", ctypes.c_int32)]  # fmt: skip


class Kernel:
    """A module compiled for the host (or as for `machine`, of which the host has all features),
    without fused multiplication and addition unless `fuse`, so that results are the same bits;
    `compiled` makes an object of LLVM IR and the machine, `tiles` the tile stage."""

    def __init__(
        self,
        module: ModuleOp | str,
        fuse: bool = False,
        machine: Any = None,
        compiled: Callable[[str, Any], bytes] = lambda text, _: compile_ir(text),
        tiles: Callable[[ModuleOp, Any], ModuleOp] = lower_to_tiles,
    ):
        self.module = parse_module(module) if isinstance(module, str) else module
        processor = machine or host()
        self.tiles = tiles(self.module, processor)
        self.llir, self.facts = lower_to_llvm(self.tiles, processor, fuse)
        self.image = load_object(compiled(self.llir, machine), [self.facts["name"]])
        prototype = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self.function = prototype(self.image[self.facts["name"]])
        self.kernel = next(
            op for op in self.module.body.block.ops
            if isinstance(op, FuncOp) and op.sym_visibility != "private"
        )  # fmt: skip

    def slots(self, arguments: Sequence[Any]) -> Any:
        """The arguments in their 8-byte slots."""
        slots = np.zeros(max(1, len(arguments)), np.uint64)
        for i, (value, block) in enumerate(zip(arguments, self.kernel.body.args, strict=True)):
            if isinstance(value, np.ndarray):
                slots[i] = value.ctypes.data
            elif ir.is_pointer(block.type):
                slots[i] = value
            else:
                scalar = np.asarray(value).astype(ir.numpy_dtype(block.type))
                if ir.is_integer(block.type):
                    slots[i] = np.int64(scalar).view(np.uint64)
                else:
                    raw = np.zeros(8, np.uint8)
                    raw[: scalar.itemsize] = np.frombuffer(scalar.tobytes(), np.uint8)
                    slots[i] = raw.view(np.uint64)[0]
        return slots

    def run(self, arguments: Sequence[Any], grid: Sequence[int] = (1,)) -> Fault:
        """Run all programs, one after the other; returns the fault record."""
        slots = self.slots(arguments)
        nx, ny, nz = (*grid, 1, 1, 1)[:3]
        size = self.facts["scratch_bytes"]
        memory = np.zeros(size + 128, np.uint8)
        start = -memory.ctypes.data % 64
        scratch = memory[start : start + size + 64]
        scratch[:] = 0xA5
        fault = Fault(0, 0, 0, 0, None)
        context = Context(nx, ny, nz, 0, scratch.ctypes.data, ctypes.addressof(fault), 0)
        self.function(slots.ctypes.data, ctypes.addressof(context), 0, nx * ny * nz)
        assert (scratch[size:] == 0xA5).all(), "wrote past the end of scratch"
        return fault


def run_native(
    module: ModuleOp | str, arguments: Sequence[Any], grid: Sequence[int] = (1,)
) -> Kernel:
    """Compile and run; arrays are changed in place. Returns the kernel."""
    kernel = Kernel(module)
    kernel.run(arguments, grid)
    return kernel


def run_reference(
    module: ModuleOp | str, arguments: Sequence[Any], grid: Sequence[int] = (1,)
) -> None:
    """The same by `evaluate`."""
    module = parse_module(module) if isinstance(module, str) else module
    kernel = next(
        op for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.sym_visibility != "private"
    )  # fmt: skip
    values = [
        np.uint64(v.ctypes.data) if isinstance(v, np.ndarray)
        else np.uint64(v) if ir.is_pointer(a.type)
        else np.asarray(v).astype(ir.numpy_dtype(a.type))[()]
        for v, a in zip(arguments, kernel.body.args, strict=True)
    ]  # fmt: skip
    Evaluator(module).launch(kernel.sym_name, values, grid)


def as_bits(array: np.ndarray) -> np.ndarray:
    """NaNs made equal, then the bits."""
    if array.dtype.kind in "fV":
        array = array.copy()
        wide = array.astype(np.float64)
        array[np.isnan(wide)] = np.array(np.nan).astype(array.dtype)
    return array.view(np.uint8).reshape(-1)


def compare(
    module: str | ModuleOp,
    arguments: Sequence[Any],
    grid: Sequence[int] = (1,),
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Kernel:
    """Run natively and by reference on copies; all arrays must then agree: in every bit (all NaNs
    being equal) or within the tolerances."""
    module = parse_module(module) if isinstance(module, str) else module
    ours = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    run_reference(module, theirs, grid)
    kernel = run_native(module, ours, grid)
    for number, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if not isinstance(a, np.ndarray):
            continue
        if rtol or atol:
            np.testing.assert_allclose(
                a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol,
                err_msg=f"argument {number}",
            )  # fmt: skip
        elif not (as_bits(a) == as_bits(b)).all():
            bad = np.argwhere((as_bits(a) != as_bits(b)).reshape(a.size, -1).any(1)).reshape(-1)
            raise AssertionError(
                f"argument {number}: {bad.size} of {a.size} differ, first at {bad[:5]}: "
                f"{a.reshape(-1)[bad[:5]]} instead of {b.reshape(-1)[bad[:5]]}"
            )
    return kernel
