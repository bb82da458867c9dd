"""`codegen.gpu` executed on the CPU, for warps of 32 and of 64 lanes: the corpus of kernels, and
that missing barriers and wrong changes of layout are found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
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
    """A kernel of the corpus, or of a text; calling it runs a grid with NumPy arrays.

    `backwards`: the last warp and the last program run first.
    """

    def __init__(
        self, name: str, lanes: int, *, dropped: frozenset[int] = frozenset(),
        backwards: bool = False, text: str | None = None,
    ):  # fmt: skip
        text = text or (REFERENCE / f"{name}.source.ttir").read_text()
        module = parse_module(text, name)
        PassManager([*pipelines.ttir(), *gpu_passes(lanes, 4, 3)]).run(module)
        function: Any = next(f for f in module.ops if f.sym_visibility == "public")
        self._types = list(function.function_type.inputs)
        hardware = Simt(lanes, dropped)
        self.text, facts = lower_to_llvm(module, hardware, OPTIONS)
        self.barriers: int = hardware.barriers.count
        self._machine = machine(
            lanes, facts["num_warps"], last_warp_first=backwards, last_program_first=backwards
        )
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
    return Kernel(name, 32, dropped=dropped, backwards=reverse)


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
    assert count and not wrong(lambda r: Kernel(name, 32, backwards=r), name)
    for number in range(count):
        dropped = frozenset({number})
        assert wrong(partial(without, name, dropped), name), number


@tritium.jit
def hand_over(x: Any, flag: Any, out: Any) -> None:
    """The first program writes a tile, which the second one reads when the flag tells it to."""
    i = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tl.store(x + i, i + 1)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.store(out + i, tl.load(x + i))


def handed_over(dropped: frozenset[int], backwards: bool) -> tuple[bool, int]:
    """Whether the tile of `hand_over` arrives, and how many barriers the kernel has."""
    source = ASTSource(hand_over, dict.fromkeys(("x", "flag", "out"), "*i32"), {})
    text = tritium.compile(source, target(32)).asm["ttir"]
    kernel = Kernel("hand_over", 32, dropped=dropped, backwards=backwards, text=text)
    x, flag, out = np.zeros(128, np.int32), np.zeros(1, np.int32), np.zeros(128, np.int32)
    try:
        kernel(x, flag, out, grid=(2,))
    except KernelFailure:
        return False, kernel.barriers
    return bool((out == np.arange(128) + 1).all()), kernel.barriers


def test_a_missing_barrier_before_a_release_is_found() -> None:
    """Another program runs between the release and what the other threads have still to store."""
    for backwards in (False, True):
        assert handed_over(frozenset(), backwards)[0]
    assert not handed_over(frozenset({0}), False)[0]


def test_a_missing_barrier_behind_an_acquire_is_found() -> None:
    count = handed_over(frozenset(), True)[1]
    found = [handed_over(frozenset({n}), True)[0] for n in range(1, count)]
    assert not all(found)


def test_a_wrong_change_of_layout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_registers(*arguments: Any) -> list[Any]:
        return load(*arguments)[::-1]

    load = convert_layout.load_tile
    monkeypatch.setattr(convert_layout, "load_tile", reversed_registers)
    assert wrong(lambda r: Kernel("attention", 32, backwards=r), "attention")


def test_a_missing_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asynchronous copies are done no sooner than they must."""
    make = partial(Kernel, "attention", 32)
    assert not wrong(lambda r: make(backwards=r), "attention")
    monkeypatch.setattr(AsyncCopies, "wait", lambda *_: None)
    assert wrong(lambda r: make(backwards=r), "attention")


def test_what_it_lacks_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"tt\.elementwise_inline_asm"):
        Kernel("inline_asm", 32)
    source = ASTSource(add_kernel, dict.fromkeys(("x", "y", "out"), "*fp32") | {"n": "i32"},
                       {"BLOCK": 64})  # fmt: skip
    with pytest.raises(NotImplementedError, match="clusters of thread blocks"):
        tritium.compile(source, target(64), {"num_ctas": 2})
