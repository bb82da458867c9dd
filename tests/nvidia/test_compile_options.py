"""Options and settings of a compilation for NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import module_from
from tritium.backends.base import make_backend
from tritium.backends.nvidia.options import CUDAOptions
from tritium.compiler import ASTSource
from tritium.errors import OutOfResources
from tritium.target import GPUTarget


@tritium.jit
def product(a, b, c, B: tl.constexpr):
    i = tl.arange(0, B)
    p = i[:, None] * B + i[None, :]
    tl.store(c + p, tl.dot(tl.load(a + p), tl.load(b + p)))


def compiled(capability: int = 90, **options: Any) -> Any:
    source = ASTSource(product, {"a": "*fp16", "b": "*fp16", "c": "*fp32"}, {"B": 64})
    return tritium.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def test_external_libraries_as_a_dict(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("z.bc", "a.bc")]
    for path in paths:
        path.write_bytes(path.name.encode())
    given = {"z": str(paths[0]), "a": str(paths[1])}
    options = CUDAOptions(extern_libs=given)  # pyright: ignore[reportArgumentType]
    assert options.extern_libs == (("a", given["a"]), ("z", given["z"]))
    assert options.hash() == CUDAOptions(extern_libs=tuple(given.items())).hash()
    paths[0].write_bytes(b"other")
    assert options.hash() != CUDAOptions().hash()
    changed = CUDAOptions(extern_libs=options.extern_libs).hash()
    paths[0].write_bytes(b"z.bc")
    assert changed != options.hash(), "what the files hold counts"


def test_more_threads_than_a_block_can_have() -> None:
    with pytest.raises(OutOfResources, match=r"Required: 2048, .* 1024. Reducing `num_warps` may"):
        compiled(num_warps=64)


@pytest.mark.parametrize("arch", [80, 90, 120])
def test_the_architecture_is_in_the_metadata(arch: int, fresh_cache: Path) -> None:
    assert make_backend(GPUTarget("cuda", arch, 32)).parse_options({}).arch == f"sm{arch}"
    assert compiled(arch).metadata.arch == f"sm{arch}"
    assert "wgmma" not in compiled(90, arch="sm80").asm["ptx"]


@pytest.mark.parametrize(
    ("arch", "name", "instruction"),
    [(90, "DISABLE_MMA_V3", "wgmma.mma_async"), (100, "DISABLE_MMA_V5", "tcgen05.mma")],
)
def test_products_from_shared_memory_can_be_turned_off(
    arch: int, name: str, instruction: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert instruction in compiled(arch).asm["ptx"]
    monkeypatch.setenv(name, "1")
    text = compiled(arch).asm["ptx"]
    assert instruction not in text and "mma.sync" in text


def test_a_library_that_an_op_and_an_option_name(tmp_path: Path) -> None:
    """It is linked once, under whichever of its paths."""
    path, other = tmp_path / "my.bc", tmp_path / "same.bc"
    llvm.initialize_all_targets()
    path.write_bytes(llvm.parse_assembly(
        'target triple = "nvptx64-nvidia-cuda"\n'
        "define float @of_mine(float %a) {\n %c = fadd float %a, 3.0\n ret float %c }"
    ).as_bitcode())  # fmt: skip
    other.symlink_to(path)
    source = f"""
    import tritium
    import tritium.language as tl

    @tl.core.extern
    def mine(a, _semantic=None):
        names = {{(tl.float32,): ("of_mine", tl.float32)}}
        return tl.core.extern_elementwise("my", {str(path)!r}, [a], names, is_pure=True,
                                          _semantic=_semantic)

    @tritium.jit
    def k(x, o):
        i = tl.arange(0, 128)
        tl.store(o + i, mine(tl.load(x + i)))
    """
    kernel = module_from(source, tmp_path).k
    for given in (path, other):
        made = tritium.compile(
            ASTSource(kernel, {"x": "*fp32", "o": "*fp32"}, {}),
            target=GPUTarget("cuda", 90, 32), options={"extern_libs": {"my": str(given)}},
        )  # fmt: skip
        assert "of_mine" not in made.asm["ptx"], "and inlined"


@tritium.jit
def strided(x, out, n, step):
    total = 0.0
    for k in range(0, n):
        total += tl.load(x + k * step) + tl.load(x + k * step * 3)
    tl.store(out, total)


def test_passes_of_llvm_are_turned_off_or_given_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    def code(setting: str) -> str:
        monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
        monkeypatch.setenv("DISABLE_LLVM_OPT", setting)
        source = ASTSource(strided, {"x": "*fp32", "out": "*fp32", "n": "i32", "step": "i32"})
        return tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

    optimized, plain = code(""), code("1")
    assert plain != optimized == code("0") == code("no-flag-of-llvm")
    assert code("disable-lsr") not in (optimized, plain)
    assert code("") == optimized  # the flag was for one compilation
