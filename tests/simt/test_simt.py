"""`codegen.gpu` executed on the CPU, for warps of 32 and of 64 lanes: the corpus of kernels, and
that missing barriers and wrong changes of layout are found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import tritium
from tests.ir.test_reference_runs import CASES, REFERENCE
from tests.simt.backend import installed, target
from tests.simt.backend.compiler import entry, gpu_passes
from tests.simt.hardware import AsyncCopies, Simt
from tests.simt.machine import KernelFailure, compile_kernel, machine
from tests.support.launching import add_kernel
from tritium.codegen.gpu.memory import convert_layout
from tritium.codegen.gpu.module import lower_to_llvm
from tritium.compiler import ASTSource
from tritium.ir import types as ir
from tritium.launch.scalars import extract_scalar
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines

OPTIONS = SimpleNamespace(enable_fp_fusion=True, num_warps=4)


@pytest.fixture(autouse=True)
def _installed() -> Generator[None]:
    with installed():
        yield


class Kernel:
    """A kernel of the corpus; calling it runs a grid with NumPy arrays."""

    def __init__(
        self, name: str, lanes: int, *, dropped: frozenset[int] = frozenset(),
        last_warp_first: bool = False,
    ):  # fmt: skip
        module = parse_module((REFERENCE / f"{name}.source.ttir").read_text(), name)
        PassManager([*pipelines.ttir(), *gpu_passes(lanes, 4, 3)]).run(module)
        function: Any = next(f for f in module.ops if f.sym_visibility == "public")
        self._types = list(function.function_type.inputs)
        hardware = Simt(lanes, dropped)
        self.text, facts = lower_to_llvm(module, hardware, OPTIONS)
        self.barriers: int = hardware.barriers.count
        self._machine = machine(lanes, facts["num_warps"], last_warp_first=last_warp_first)
        caller = entry(hardware.symbol(function.sym_name), facts["kernel_signature"])
        self._image = self._machine.load(compile_kernel(self.text + caller))

    def __call__(
        self, *arguments: Any, grid: tuple[int, ...] = (1,), reachable: Sequence[Any] = ()
    ) -> None:
        slots = [
            argument.ctypes.data if isinstance(type, ir.PointerType)
            else extract_scalar(argument, 0, "", str(type).replace("f", "fp"))
            for argument, type in zip(arguments, self._types, strict=True)
        ]  # fmt: skip
        self._machine.run(self._image, slots, grid)


NOT_RUN = {
    "inline_asm": "assembly of another processor",
    "print_assert": "what is printed goes to the process's output (conformance tests read it)",
}  # fmt: skip
"""Kernels of the corpus, and why they are not run."""

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
        except (AssertionError, IndexError, KernelFailure):
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

    load = convert_layout.load_tile
    monkeypatch.setattr(convert_layout, "load_tile", reversed_registers)
    assert wrong(lambda r: Kernel("attention", 32, last_warp_first=r), "attention")


def test_a_missing_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asynchronous copies are done no sooner than they must."""
    make = partial(Kernel, "attention", 32)
    assert not wrong(lambda r: make(last_warp_first=r), "attention")
    monkeypatch.setattr(AsyncCopies, "wait", lambda *_: None)
    assert wrong(lambda r: make(last_warp_first=r), "attention")


def test_what_it_lacks_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"tt\.elementwise_inline_asm"):
        Kernel("inline_asm", 32)
    source = ASTSource(add_kernel, dict.fromkeys(("x", "y", "out"), "*fp32") | {"n": "i32"},
                       {"BLOCK": 64})  # fmt: skip
    with pytest.raises(NotImplementedError, match="clusters of thread blocks"):
        tritium.compile(source, target(64), {"num_ctas": 2})
