"""The register blocks that the rows of a tile are divided into."""

from __future__ import annotations

import re

import pytest

from tritium.backends.cpu.dot import Host, View, emit_dot, make_plan
from tritium.codegen.llvm.writer import Function, Module, Value

AVX2 = Host.of("x86_64", {"avx2", "fma"})
AVX512 = Host.of("x86_64", {"avx512f", "avx512vl", "avx512bw", "avx512dq"})


def blocks(host: Host, shape: tuple[int, int, int]) -> list[int]:
    """The rows of each block of an fp32 product, in the order of its loops over k: multiply-adds,
    of which LLVM's text has one a row for all columns of a block."""
    f = Function(Module(), "dot", [("ptr", f"p{i}", "") for i in range(3)])
    a, b = (View("float", f.arguments[i], 1024, 1) for i in range(2))
    plan = make_plan(host, a, b, "float", shape)

    def no_scratch(size: int) -> Value:
        raise AssertionError(f"{size} bytes of scratch for operands that are read in place")

    emit_dot(f, plan, a, b, f.arguments[2], shape, scratch_alloc=no_scratch)
    f.ret()
    loops = re.split(r"^\w[\w.]*:", f.module.text(), flags=re.M)
    return [count for loop in loops if (count := len(re.findall(r"call .*@llvm\.fma\.", loop)))]


@pytest.mark.parametrize(
    ("host", "rows", "expected"),
    [
        (AVX2, 128, [6, 4]),  # 20 blocks of 6 rows and 2 of 4, not 21 and one of 2
        (AVX2, 32, [6, 4]),
        (AVX2, 8, [6, 2]),  # there would be no block of 6 rows left
        (AVX2, 64, [6, 4]),  # 4 rows of 2 registers have enough sums
        (AVX512, 128, [6, 2]),  # and so do 2 rows of 4
    ],
)
def test_the_last_block_has_sums_enough(host: Host, rows: int, expected: list[int]) -> None:
    assert blocks(host, (rows, 64, 64)) == expected
