"""`tl.extra.libdevice` against NVIDIA's file: every symbol is there and has these types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import pytest

import tritium
import tritium.language as tl
from tritium.backends.nvidia import libdevice
from tritium.compiler import ASTSource
from tritium.language.extra.signatures import signatures
from tritium.target import GPUTarget

TYPES = {"int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64", "float32": "float",
         "float64": "double"}  # fmt: skip


@pytest.fixture(scope="module")
def functions() -> Iterator[dict[str, Any]]:
    path = libdevice.find()
    if path is None:
        pytest.skip("libdevice is in a CUDA toolkit or nvidia-nvvm")
    with llvm.create_context() as context, \
            llvm.parse_bitcode(path.read_bytes(), context=context) as module:  # fmt: skip
        yield {f.name: f for f in module.functions}


@tritium.jit
def exponentials(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.extra.libdevice.exp(tl.load(x + i)))


@tritium.jit
def remainders(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.load(x + i) % 3.0)


def test_libdevice_flushes_subnormals_where_it_is_told_to():
    if libdevice.find() is None:
        pytest.skip("libdevice is in a CUDA toolkit or nvidia-nvvm")

    def flushing(kernel: Any = exponentials, **options: Any) -> int:
        source = ASTSource(kernel, {"x": "*fp32"})
        target = GPUTarget("cuda", 90, 32)
        return tritium.compile(source, target=target, options=options).asm["ptx"].count(".ftz")

    assert flushing(enable_reflect_ftz=True) == flushing() > flushing(enable_reflect_ftz=False)
    assert flushing(remainders) == 0


@pytest.mark.parametrize("name", signatures())
def test_symbols(functions: dict[str, Any], name: str):
    for overload in signatures()[name].overloads:
        function = functions.get(overload.symbol)
        assert function is not None, f"{overload.symbol} is not in libdevice"
        taken = [str(a.type) for a in function.arguments]
        assert taken == [TYPES[a] for a in overload.arguments], overload.symbol
        head = re.search(rf"(\w+) @{overload.symbol}\(", str(function))
        assert head is not None and head[1] == TYPES[overload.result], overload.symbol
