"""Names of kernels and functions, down to the cubin."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

import tritium
from tests.support.launching import module_from
from tritium.backends.nvidia.lower.registrations import hardware
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

KERNEL = """
import tritium
import tritium.language as tl
from tritium.language.extra import libdevice

@tritium.jit
def {name}(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_print("v", v)
    tl.device_assert(v < 5, "small")
    tl.store(o + i, libdevice.expm1(v) + tl.sum(v, 0))
"""


def compiled(fn: Any, signature: dict[str, str], constants: dict[str, Any], **options: Any) -> Any:
    source = ASTSource(fn, signature, constants)
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.parametrize(
    "name", ["smem", "vprintf", "__assertfail", "__nv_expm1f", "WARP_SZ", "_", "ядро", "entry"]
)
def test_a_kernel_may_have_any_name(name: str, tmp_path: Path) -> None:
    """Names of what the kernel uses among them: shared memory, printing, libdevice."""
    fn = getattr(module_from(KERNEL.format(name=name), tmp_path), name)
    kernel = compiled(fn, {"x": "*fp32", "o": "*fp32"}, {"B": 1024}, debug=True)
    entry = re.search(r"[.]entry ([\w$]+)[(]", kernel.asm["ptx"])
    assert entry is not None and kernel.name == entry[1]
    assert kernel.name == name or name not in ("smem", "entry")


def test_a_kernel_named_as_the_function_of_a_library(tmp_path: Path) -> None:
    path = tmp_path / "my.bc"
    llvm.initialize_all_targets()
    path.write_bytes(llvm.parse_assembly(
        'target triple = "nvptx64-nvidia-cuda"\n'
        "define float @my_add(float %a, float %b) {\n %c = fadd float %a, %b\n ret float %c }"
    ).as_bitcode())  # fmt: skip
    source = f"""
    import tritium
    import tritium.language as tl

    @tl.core.extern
    def add(a, b, _semantic=None):
        names = {{(tl.float32, tl.float32): ("my_add", tl.float32)}}
        return tl.core.extern_elementwise("my", {str(path)!r}, [a, b], names, is_pure=True,
                                          _semantic=_semantic)

    @tritium.jit
    def my_add(x, o):
        i = tl.arange(0, 128)
        tl.store(o + i, add(tl.load(x + i), 2.0))
    """
    fn = module_from(source, tmp_path).my_add
    kernel = compiled(fn, {"x": "*fp32", "o": "*fp32"}, {})
    assert "add.rn.f32" in kernel.asm["ptx"] or "add.f32" in kernel.asm["ptx"]


def test_a_function_of_a_module_whose_name_starts_with_a_digit(tmp_path: Path) -> None:
    path = tmp_path / "01_add.py"
    path.write_text(
        "import tritium, tritium.language as tl\n"
        "@tritium.jit(noinline=True)\ndef f(x, y):\n    return x * 3 + y\n"
        "@tritium.jit\ndef k(o, n):\n    tl.store(o, f(n, tl.program_id(0)))\n"
    )
    spec = importlib.util.spec_from_file_location("01_add", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = compiled(module.k, {"o": "*i32", "n": "i32"}, {})
    assert re.search(r"call i32 @k_01_add_f__\w+[(]", kernel.asm["llir"])


def test_symbols() -> None:
    symbol = hardware(90).symbol
    assert symbol("kernel_1") == "kernel_1"
    names = ["01_add", "_", "a.b", "a:b", "smem$", "vprintf", "__nv_sinf", "my_add"]
    found = [symbol(name, {"my_add"}) for name in names]
    assert len({*found}) == len(names) and not {*found} & {*names}
    assert all(re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII) for name in found)
