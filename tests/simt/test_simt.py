"""`codegen.gpu` executed on the CPU, for warps of 32 and of 64 lanes: the corpus of kernels, and
that missing barriers and wrong changes of layout are found."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.ir.test_reference_runs import CASES, REFERENCE
from tests.simt.hardware import Simt
from tests.simt.machine import Machine
from tritium.backends.nvidia.processor import processor
from tritium.codegen.gpu.memory import shared
from tritium.codegen.gpu.module import lower_to_llvm
from tritium.ir import types as ir
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines
from tritium.passes.ttgir import AccelerateMatmul

C_TYPES = {"i1": ctypes.c_bool, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
           "f32": ctypes.c_float, "f64": ctypes.c_double}  # fmt: skip
OPTIONS = SimpleNamespace(enable_fp_fusion=True, num_warps=4)


def target_machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, codemodel="large"
    )


class Kernel:
    """A kernel of the corpus; calling it runs a grid with NumPy arrays."""

    def __init__(
        self, name: str, lanes: int, *, dropped: frozenset[int] = frozenset(),
        last_warp_first: bool = False,
    ):  # fmt: skip
        module = parse_module((REFERENCE / f"{name}.source.ttir").read_text(), name)
        passes = [*pipelines.ttir(), *pipelines.ttgir(replace(processor(80), lanes=lanes), 4, 3)]
        PassManager([p for p in passes if not isinstance(p, AccelerateMatmul)]).run(module)
        function: Any = next(f for f in module.ops if f.sym_visibility == "public")
        self._types = list(function.function_type.inputs)
        machine = target_machine()
        hardware = Simt(machine, lanes, dropped)
        self.text, facts = lower_to_llvm(module, hardware, OPTIONS)
        self.barriers: int = hardware.barriers.count
        self._machine = Machine(lanes, facts["num_warps"], last_warp_first=last_warp_first)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(self.text), machine)
        self._engine.finalize_object()
        types = [
            ctypes.c_uint64 if isinstance(t, ir.PointerType) else C_TYPES[str(t)]
            for t in self._types
        ]
        address = self._engine.get_function_address(hardware.symbol(function.sym_name))
        self._function = ctypes.CFUNCTYPE(None, *types)(address)

    def __call__(self, *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
        values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        self._machine.run(partial(self._function, *values), grid)


NOT_RUN = {
    "casts": "conversions toward zero", "library": "libdevice", "inline_asm": "assembly",
    "print_assert": "printing", "dot_scaled": "bfloat, for which LLVM calls functions of libgcc",
    "indirect_pointers": "pointers that are arguments of the reference semantics' memory",
}  # fmt: skip
"""Kernels of the corpus, and what they need that this processor lacks."""

RUN = sorted(CASES.keys() - NOT_RUN.keys())


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("name", RUN)
def test_kernels_of_the_corpus(name: str, lanes: int) -> None:
    CASES[name](Kernel(name, lanes))


def without(name: str, dropped: frozenset[int], reverse: bool) -> Kernel:
    return Kernel(name, 32, dropped=dropped, last_warp_first=reverse)


def wrong(make: Callable[[bool], Kernel], name: str) -> bool:
    """Whether a kernel gives wrong results with either order of the warps."""
    for reverse in (False, True):
        try:
            CASES[name](make(reverse))
        except (AssertionError, IndexError):
            return True
    return False


@pytest.mark.parametrize("name", ["histogram_gather", "scans"])
def test_each_barrier_is_needed(name: str) -> None:
    count = Kernel(name, 32).barriers
    assert count and not wrong(lambda r: Kernel(name, 32, last_warp_first=r), name)
    for number in range(count):
        dropped = frozenset({number})
        assert wrong(partial(without, name, dropped), name), number


def test_a_wrong_change_of_layout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_registers(*arguments: Any) -> list[Any]:
        return load(*arguments)[::-1]

    load = shared.load_tile
    monkeypatch.setattr(shared, "load_tile", reversed_registers)
    assert wrong(lambda r: Kernel("attention", 32, last_warp_first=r), "attention")
