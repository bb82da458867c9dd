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

    `backwards`: the last warp and the last program run first; with a `seed` the order is random.
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
        self._threads: tuple[int, int] = lanes, facts["num_warps"]
        caller = entry(hardware.symbol(function.sym_name), facts["kernel_signature"])
        self._code = compile_kernel(self.text + caller)
        self.run_in_order(backwards)

    def run_in_order(self, backwards: bool, seed: int = 0) -> None:
        """Choose the order of warps and programs for the launches to come."""
        self._machine = machine(
            *self._threads, last_warp_first=backwards, last_program_first=backwards, seed=seed
        )
        self._image = self._machine.load(self._code)

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


@pytest.mark.every(2)
@pytest.mark.covering(1)
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
    i = tl.arange(0, 1024)
    if tl.program_id(0) == 0:
        tl.store(x + i, i + 1)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.store(out + i, tl.load(x + i))


@tritium.jit
def hand_over_and_back(x: Any, flag: Any, out: Any) -> None:
    """Each of two programs waits for the other's tile, and reads what other threads wrote."""
    i = tl.arange(0, 1024)
    if tl.program_id(0) == 0:
        tl.store(x + i, i + 1)
        tl.atomic_xchg(flag, 1, sem="release")
        while tl.atomic_cas(flag, 2, 3, sem="acquire") != 2:
            pass
        tl.store(out + i, tl.load(x + 2047 - i))
    else:
        while tl.atomic_add(flag, 0, sem="acquire") != 1:
            pass
        tl.store(x + 1024 + i, tl.load(x + 1023 - i))
        tl.atomic_xchg(flag, 2, sem="release")


@tritium.jit
def add_with_a_lock(x: Any, lock: Any, out: Any) -> None:
    """Programs add to a tile one after the other."""
    i = tl.arange(0, 1024)
    value = tl.load(x + i) + i + 1
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(out + i, tl.load(out + i) + value)
    tl.atomic_xchg(lock, 0, sem="release")


ORDERED: dict[str, tuple[Any, int, int]] = {
    "hand_over": (hand_over, 2, 1), "hand_over_and_back": (hand_over_and_back, 2, 1),
    "add_with_a_lock": (add_with_a_lock, 6, 6),
}  # fmt: skip
"""Kernels, how many programs run them, and how many times `1 + i` is element `i` of the result."""
ORDERS = [(False, 0), (True, 0), *((seed % 2 > 0, seed) for seed in range(1, 9))]
"""Whether the last warp and program come first, and the seed of a random order."""


def arrives(name: str, lanes: int, dropped: int | None = None) -> tuple[bool, int]:
    """Whether a kernel of `ORDERED` is right in all orders, and how many barriers it has."""
    function, programs, times = ORDERED[name]
    source = ASTSource(function, dict.fromkeys(function.arg_names, "*i32"), {})
    text = tritium.compile(source, target(lanes)).asm["ttir"]
    without = frozenset(() if dropped is None else (dropped,))
    kernel = Kernel(name, lanes, dropped=without, text=text)
    for backwards, seed in ORDERS:
        kernel.run_in_order(backwards, seed)
        x, flag, out = (np.zeros(size, np.int32) for size in (2048, 1, 1024))
        try:
            kernel(x, flag, out, grid=(programs,))
        except KernelFailure:
            return False, kernel.barriers
        if (out != times * (np.arange(1024) + 1)).any():
            return False, kernel.barriers
    return True, kernel.barriers


@pytest.mark.covering(1)
@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("name", ORDERED)
def test_each_barrier_around_a_release_or_an_acquire_is_needed(name: str, lanes: int) -> None:
    """One before the release and those around an acquire in a loop: programs and warps run in
    several orders, and another program may run before each store."""
    right, barriers = arrives(name, lanes)
    assert right and barriers >= 3
    assert [arrives(name, lanes, number)[0] for number in range(barriers)] == [False] * barriers


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


@tritium.jit
def add_columns(x: Any, out: Any, stride: Any) -> None:
    """Copy 32 rows, then their bytes as 16 bits: columns of bytes are added to rows of i16."""
    rows, columns = tl.arange(0, 32)[:, None], tl.arange(0, 64)[None, :]
    tl.store(out + rows * 64 + columns, tl.load(x + rows * stride + columns))
    halves = (x + rows * stride).to(tl.pointer_type(tl.int8)) + tl.arange(0, 128)[None, :]
    into = (out + 2048 + rows * 128).to(tl.pointer_type(tl.int16)) + tl.arange(0, 128)[None, :]
    tl.store(into, tl.load(halves).to(tl.int16))


@pytest.mark.parametrize("lanes", [32, 64])
def test_columns_are_added_to_the_start_of_rows(lanes: int) -> None:
    """The pointers may have elements of another size than the rows."""
    source = ASTSource(add_columns, {"x": "*i16", "out": "*i16", "stride": "i32"}, {})
    text = tritium.compile(source, target(lanes)).asm["ttir"]
    kernel = Kernel("add_columns", lanes, text=text)
    stride = 70
    x = np.random.default_rng(0).integers(-(2**15), 2**15, (32, stride), np.int16)
    out = np.zeros(2048 + 4096, np.int16)
    kernel(x, out, stride)
    np.testing.assert_array_equal(out[:2048].reshape(32, 64), x[:, :64])
    np.testing.assert_array_equal(out[2048:].reshape(32, 128), x[:, :64].copy().view(np.int8))
