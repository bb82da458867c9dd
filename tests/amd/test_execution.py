"""The AMD backend's LLVM IR, executed (`tests.amd.execution`): the corpus of kernels, a sample of
the conformance suite, and that wrong instructions are found."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.amd.execution.memory import ExecutionError, extent
from tests.amd.execution.workgroup import Kernel
from tests.amd.kernels import TARGETS
from tests.ir.test_reference_runs import CASES, REFERENCE
from tests.simt.backend.compiler import SmallArguments
from tests.simt.not_run import SUITE
from tests.simt.test_simt import NOT_RUN
from tritium.backends.amd import stages
from tritium.backends.amd.options import make_options
from tritium.ir import types as ir
from tritium.launch.scalars import extract_scalar
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager

QUICK = ("gfx942", "gfx1200")
QUICK_HALVES = {("gfx942", True, 0), ("gfx1200", False, 1)}
"""The processors, the accesses, by buffer instructions or not, and the halves of the corpus that
are not slow."""
SAMPLE = (
    "test_reductions.py::test_reductions[float16]", "test_dot.py::test_dtypes[float16-shape0]",
    "test_dot.py::test_scaled_packed_along_rows_or_columns[e2m1-e4m3]",
    "test_memory.py::test_descriptors[int32-2-True]", "test_programs.py::test_assertions",
    "test_programs.py::test_printing",
)  # fmt: skip
Change = Callable[[str], str]


class CorpusKernel:
    """A kernel of the corpus for a processor; calling it runs a grid with NumPy arrays.

    `change`: makes other LLVM IR of the backend's; `small`: arrays are known to be small, so that
    buffer instructions reach them.
    """

    def __init__(
        self, name: str, arch: str, change: Change = str, *, small: bool = False,
        last_first: bool = False,
    ):  # fmt: skip
        text, facts = (REFERENCE / f"{name}.source.ttir").read_text(), dict[str, Any]()
        module, options = parse_module(text, name), make_options({}, arch)
        if small:
            PassManager([SmallArguments()]).run(module)
        module = stages.make_ttgir(stages.make_ttir(module, facts), facts, options)
        self.text = change(stages.make_llir(module, facts, options))
        function: Any = next(f for f in module.ops if f.sym_visibility == "public")
        self._types = list(function.function_type.inputs)
        self._kernel = Kernel(self.text, arch, TARGETS[arch], facts["num_warps"],
                              facts["shared"], last_first=last_first)  # fmt: skip

    def __call__(
        self, *arguments: Any, grid: tuple[int, ...] = (1,), reachable: Sequence[Any] = ()
    ) -> None:
        slots = [
            argument.ctypes.data if isinstance(type, ir.PointerType)
            else extract_scalar(argument, 0, "", str(type).replace("f", "fp"))
            for argument, type in zip(arguments, self._types, strict=True)
        ]  # fmt: skip
        arrays = [a for a in (*arguments, *reachable) if isinstance(a, np.ndarray)]
        self._kernel(slots, grid, [extent(array) for array in arrays])


RUN = sorted(CASES.keys() - NOT_RUN.keys())


def processors(quick: Sequence[str] = QUICK) -> list[Any]:
    """The processors; those that are not quick are slow tests."""
    return [a if a in quick else pytest.param(a, marks=pytest.mark.slow) for a in TARGETS]


@pytest.mark.parametrize(
    ("arch", "small", "half"),
    [
        pytest.param(*case, marks=() if case in QUICK_HALVES else pytest.mark.slow)
        for case in itertools.product(TARGETS, (False, True), (0, 1))
    ],
)  # fmt: skip
def test_kernels_of_the_corpus(arch: str, small: bool, half: int) -> None:
    for name in RUN[half::2]:
        CASES[name](CorpusKernel(name, arch, small=small))


def conformance(arch: str, *tests: str, part: str = "0/1") -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "amd",
        "--processor", arch, "--part", part, *(f"{SUITE}/{name}" for name in tests),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=SUITE.parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("arch", processors(("gfx942",)))
def test_a_sample_of_the_suite(arch: str) -> None:
    conformance(arch, *SAMPLE)


PARTS = 32
"""Parts of the suite, every 32nd case each: files have cases of very different length, and a whole
file can take longer than a test may."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1200"])
def test_the_suite(arch: str, part: int) -> None:
    conformance(arch, "", part=f"{part}/{PARTS}")


def dropped(pattern: str, number: int) -> Change:
    """Leave out one of the lines that match."""

    def change(text: str) -> str:
        place = list(re.finditer(rf"^.*{pattern}.*\n", text, re.M))[number]
        return text[: place.start()] + text[place.end() :]

    return change


def replaced(pattern: str, other: str) -> Change:
    def change(text: str) -> str:
        found, count = re.subn(pattern, other, text)
        assert count, f"{pattern} is not in the kernel"
        return found

    return change


def is_wrong(name: str, arch: str, change: Change) -> bool:
    """Whether a changed kernel gives wrong results or errors, with either order of the waves."""
    for last_first in (False, True):
        kernel = CorpusKernel(name, arch, change, last_first=last_first)
        try:
            CASES[name](kernel)
        except (AssertionError, ExecutionError):
            return True
    return False


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["histogram_gather", "scans", "matmul", "reductions"])
@pytest.mark.parametrize("arch", QUICK)
def test_each_barrier_is_needed(name: str, arch: str) -> None:
    barriers = len(re.findall(r"call void @llvm.amdgcn.s.barrier", CorpusKernel(name, arch).text))
    assert barriers or (name, arch) == ("scans", "gfx942")
    for number in range(barriers):
        change = dropped(r"call void @llvm.amdgcn.s.barrier", number)
        assert is_wrong(name, arch, change), number


FAULTS = {
    "reductions": [
        (r"(update\.dpp\.i32\(i32 poison, i32 %\w+, i32) \d+", r"\1 27"),
        (r"(update\.dpp\.i32\(i32 poison, i32 %\w+, i32 \d+, i32) 15", r"\1 10"),
        (r'fence syncscope\("workgroup"\) release', 'fence syncscope("singlethread") release'),
    ],
    "softmax": [(r"(ds\.swizzle\(i32 %\w+, i32) \d+", r"\1 31"),
                (r"(ds\.bpermute\(i32) %\w+", r"\1 12")],
    "matmul": [(r"mfma\.f32\.16x16x16f16", "mfma.f32.4x4x4f16"),
               (r"(@llvm\.amdgcn\.mfma\.\S+\(<4 x half>) (\S+), <4 x half> (\S+),",
                r"\1 \3, <4 x half> \2,")],
    "vector_add": [(r"i64 2147483647, i32 131072", "i64 64, i32 131072"),
                   (r"i32 2147483648", "i32 0")],
}  # fmt: skip
"""Faults of the backend, as changes of its LLVM IR for gfx942."""


@functools.cache
def is_right(name: str) -> bool:
    """True if a kernel without a change gives right results."""
    return not is_wrong(name, "gfx942", str)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, some in FAULTS.items() for change in some]
)
def test_wrong_instructions_are_found(name: str, change: tuple[str, str]) -> None:
    assert is_right(name)
    assert is_wrong(name, "gfx942", replaced(*change))


def run(body: str, arch: str = "gfx942", declarations: str = "") -> None:
    """Run instructions in a kernel of two waves with 256 bytes of LDS."""
    text = f"""target triple = "amdgcn-amd-amdhsa"
@lds = external addrspace(3) global [0 x i8], align 16
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier() convergent
{declarations}
define amdgpu_kernel void @kernel() {{
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
{body}
  ret void
}}
"""
    Kernel(text, arch, TARGETS[arch], 2, 256)([], (1,), [])


@pytest.mark.parametrize(("body", "error"), [
    ("%p = getelementptr i32, ptr addrspace(3) @lds, i32 %thread\n"
     "store i32 1, ptr addrspace(3) %p, align 4", "outside|of LDS, which has 256"),
    ("store i32 %thread, ptr addrspace(3) @lds, align 4", "race in LDS at 0"),
    ("%p = getelementptr i8, ptr addrspace(3) @lds, i32 2\n"
     "store i32 1, ptr addrspace(3) %p, align 4", "multiple of 4"),
    ("store i32 1, ptr addrspace(3) @lds, align 4\ncall void @llvm.amdgcn.s.barrier()",
     "not known to be done"),
    ("%c = icmp slt i32 %thread, 3\nbr i1 %c, label %then, label %end\nthen:\n"
     "call void @llvm.amdgcn.s.barrier()\nbr label %end\nend:", "some lanes of a wave"),
    ("store i32 1, ptr addrspace(1) null, align 4", "outside of the kernel's arrays"),
])  # fmt: skip
def test_what_kernels_must_not_do(body: str, error: str) -> None:
    with pytest.raises(ExecutionError, match=error):
        run(body)


def test_unknown_instructions_are_errors() -> None:
    declared = "declare i32 @llvm.amdgcn.sad.u8(i32, i32, i32)"
    with pytest.raises(NotImplementedError, match=r"no instruction llvm\.amdgcn\.sad\.u8"):
        run("%s = call i32 @llvm.amdgcn.sad.u8(i32 1, i32 2, i32 3)", declarations=declared)
