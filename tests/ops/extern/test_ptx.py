"""Assembly and libraries of one's own in the PTX."""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled
from tritium.backends.nvidia import libdevice, ptx
from tritium.compiler import ASTSource
from tritium.errors import CompilationError
from tritium.ir.layouts.encodings import linear
from tritium.passes.ttgir.convert_ttir_to_ttgir import packed_encoding
from tritium.passes.ttgir.layout_propagation import Threads
from tritium.target import GPUTarget

pytestmark = pytest.mark.usefixtures("no_ptxas")


@pytest.mark.parametrize(("shape", "pack"), [((64,), 4), ((8, 2), 8), ((4, 4, 4), 2)])
def test_packed_neighbours_are_in_one_thread(shape: tuple[int, ...], pack: int):
    layout = linear(packed_encoding(shape, pack, Threads(4, 32)), shape)
    held = layout.apply({"register": np.arange(pack)})
    flat = np.ravel_multi_index([np.broadcast_to(v, pack) for v in held.values()], shape)
    assert sorted(flat.tolist()) == list(range(pack))


@tl.core.extern
def halved(x, _semantic=None):
    return tl.core.extern_elementwise(
        "mine", "", [x], {(tl.float32,): ("my_half", tl.float32)}, True, _semantic=_semantic
    )


@tritium.jit
def halves(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, halved(tl.load(x + i)))


def test_libraries_of_ones_own_are_linked(tmp_path: Path):
    module = llvm.parse_assembly(
        "define float @my_half(float %x) { %y = fmul float %x, 0.5 ret float %y }"
        " define float @other(float %x) { ret float %x }"
    )
    path = tmp_path / "mine.bc"
    path.write_bytes(module.as_bitcode())
    text = compiled(halves, "*fp32 *fp32", extern_libs={"mine": str(path)}).asm["ptx"]
    assert "my_half" not in text and "other" not in text
    assert re.search(r"mul\.rn?\.?f32.*0f3F000000", text)


@tl.core.extern
def marked(_semantic=None):
    return tl.core.extern_elementwise(
        "text", "", [], {(): ("my_mark", tl.int32)}, is_pure=False, _semantic=_semantic
    )


@tritium.jit
def marks(o):
    i = tl.arange(0, 128)
    tl.store(o + i, marked() + i)


def test_libraries_of_text_and_functions_without_arguments(tmp_path: Path):
    path = tmp_path / "text.ll"
    path.write_text("define i32 @my_mark() {\n"
                    '  %x = call i32 asm sideeffect "mov.u32 $0, 4242;", "=r"()\n'
                    "  ret i32 %x\n}\n")  # fmt: skip
    text = compiled(marks, "*i32", extern_libs={"text": str(path)}).asm["ptx"]
    assert "my_mark" not in text and text.count("mov.u32 %r1, 4242;") == 1


@pytest.mark.parametrize(("content", "message"), [
    (b"\xff\xfe", "neither bitcode nor LLVM's text"), (b"define i33", "expected"),
])  # fmt: skip
def test_libraries_that_are_none(content: bytes, message: str, tmp_path: Path):
    path = tmp_path / "none.bc"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=rf"(?s)cannot link .*none.bc: .*{message}"):
        compiled(marks, "*i32", extern_libs={"text": str(path)})


@tritium.jit
def packed(x, o):
    i = tl.arange(0, 512)
    y = tl.inline_asm_elementwise(
        "not.b32 $0, $1;", "=r,r", [tl.load(x + i)], dtype=tl.int8, is_pure=True, pack=4
    )
    tl.store(o + i, y)


def test_only_called_functions_of_libdevice_are_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    define = "define float @__nv_{0}(float %x) {{ {1} }}"
    texts = [
        define.format("used", "%y = call float @__nv_inner(float %x) ret float %y"),
        *(define.format(name, "ret float %x") for name in ("inner", "unused")),
    ]
    path = tmp_path / "three.bc"
    monkeypatch.setattr(libdevice, "find", lambda: path)
    with llvm.create_context() as context:
        path.write_bytes(llvm.parse_assembly("\n".join(texts), context).as_bitcode())
        module = llvm.parse_assembly("declare float @__nv_used(float)", context)
        assert libdevice.link(module, (), ptx._machine(90, 87), context)
        linked = {f.name: f.linkage.name for f in module.functions if not f.is_declaration}
        module.close()
    assert linked == {"__nv_used": "internal", "__nv_inner": "internal"}


def test_assembly_takes_four_bytes_at_once():
    text = compiled(packed, "*i8 *i8").asm["ptx"]
    assert len(re.findall(r"not\.b32", text)) == 1


@tritium.jit
def assembly(o, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr):
    i = tl.arange(0, 512)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", CONSTRAINTS, [tl.load(o + i)], dtype=tl.int32, is_pure=True, pack=PACK
    )
    tl.store(o + i, y)


@pytest.mark.parametrize(
    "constraints,pack,message",
    [
        ("=v,v", 1, "the constraint '=v' in '=v,v' is none of PTX: letters of registers are b"),
        ("=r,n", 1, "the constraint 'n' in"),
        ("=r,1", 1, "the constraint '1' in"),
        ("=r,r,r", 1, "'=r,r,r' has 1 outputs and 2 inputs; the operands .* are 1 .* and 1 of arg"),
        ("=r,r", 2, r"the operands \(pack=2\) are 2 registers of results and 2 of arguments"),
        ("r", 1, "'r' has 0 outputs and 1 inputs"),
    ],
)
def test_assembly_that_does_not_fit(constraints: str, pack: int, message: str):
    """LLVM would end the process, or show its own IR."""
    source = ASTSource(
        assembly,
        {"o": "*i32", "CONSTRAINTS": "constexpr", "PACK": "constexpr"},
        {"CONSTRAINTS": constraints, "PACK": pack},
    )
    with pytest.raises(CompilationError, match=message) as caught:
        tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "test_ptx.py" in str(caught.value)
