"""Files of PTX, LLVM IR and ttir that Tritium did not write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tritium
from tests.nvidia.support import in_order, kernel_text
from tritium.backends.nvidia.launch_facts import PTXError, launch_facts
from tritium.target import GPUTarget

PTX = """.version 8.0
.target sm_90a
.address_size 64
{before}
.visible .entry scaled(
\t.param .u64 .ptr .global .align 16 scaled_param_0,
\t.param .u64 scaled_param_1, .param .u32 scaled_param_2,
\t.param .f32 scaled_param_3{more}
)
.reqntid 256
{{
  ret;
}}
"""
DYNAMIC = ".extern .shared .align 16 .b8 buffer[];"
LLVM = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @scaled(ptr addrspace(1) %x, i64 %n, i32 %m, float %f) #0 {
  ret void
}
attributes #0 = { "nvvm.reqntid"="256" }
"""

BRANCHES = """tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %q = tt.addptr %p, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %q : tensor<1024x!tt.ptr<f32>>
  %z = tt.reshape %v : tensor<1024xf32> -> tensor<32x32xf32>
  cf.br ^bb1(%c0 : i32)
^bb1(%j: i32):
  %more = arith.cmpi slt, %j, %n : i32
  cf.cond_br %more, ^bb2, ^bb3
^bb2:
  %t = tt.trans %z {order = array<i32: 1, 0>} : tensor<32x32xf32> -> tensor<32x32xf32>
  %u = tt.reshape %t : tensor<32x32xf32> -> tensor<1024xf32>
  %w = arith.addf %u, %v : tensor<1024xf32>
  tt.store %q, %w : tensor<1024x!tt.ptr<f32>>
  %k = arith.addi %j, %c1 : i32
  cf.br ^bb1(%k : i32)
^bb3:
  %o = tt.trans %z {order = array<i32: 1, 0>} : tensor<32x32xf32> -> tensor<32x32xf32>
  %y = tt.reshape %o : tensor<32x32xf32> -> tensor<1024xf32>
  %s = arith.addf %y, %v : tensor<1024xf32>
  tt.store %q, %s : tensor<1024x!tt.ptr<f32>>
  tt.return
}
"""
"""Tiles of the first block are used in another layout in a loop and behind it."""


def compiled(folder: Path, text: str, stage: str = "ptx") -> Any:
    path = folder / f"file.{stage}"
    path.write_text(text)
    return tritium.compile(path, target=GPUTarget("cuda", 90, 32))


def test_ptx(tmp_path: Path, fresh_cache: Path) -> None:
    kernel = compiled(tmp_path, PTX.format(before="", more=""))
    assert list(kernel.asm) == ["ptx", "cubin"]
    facts = kernel.metadata
    assert (facts.name, facts.num_warps, facts.shared) == ("scaled", 8, 0)
    assert facts.kernel_signature == ["*", "*", "i32", "f32"]


def test_llvm_ir(tmp_path: Path, fresh_cache: Path) -> None:
    kernel = compiled(tmp_path, LLVM, "llir")
    assert list(kernel.asm) == ["llir", "ptx", "cubin"]
    assert kernel.metadata.kernel_signature == ["*", "*", "i32", "f32"]
    assert kernel.metadata.num_warps == 8


def test_shared_memory_must_be_stated(tmp_path: Path, fresh_cache: Path) -> None:
    text = PTX.format(before=DYNAMIC, more="")
    with pytest.raises(PTXError, match=r"kernel 'scaled' has dynamic shared memory .* buffer\[\]"):
        compiled(tmp_path, text)
    line = '// tritium-kernel: {"facts": {"shared": 4096}}'
    assert compiled(tmp_path, f"{text}{line}\n").metadata.shared == 4096
    static = PTX.format(before=".shared .align 16 .b8 buffer[512];", more="")
    assert compiled(tmp_path, static).metadata.shared == 0, "the cubin itself says it"


def test_what_cannot_be_passed(tmp_path: Path, fresh_cache: Path) -> None:
    text = PTX.format(before="", more=", .param .align 64 .b8 scaled_param_4[128]")
    with pytest.raises(PTXError, match=r"parameter 4 \(.*\[128\]\) is no pointer or number"):
        compiled(tmp_path, text)


def test_no_parameters() -> None:
    assert launch_facts(".visible .entry f() { ret; }", False)["kernel_signature"] == []
    assert launch_facts(".entry f { ret; }", False)["kernel_signature"] == []
    with pytest.raises(PTXError, match="no kernel"):
        launch_facts(".func f() { ret; }", False)


def test_tiles_in_other_layouts_behind_branches(tmp_path: Path, fresh_cache: Path) -> None:
    kernel = compiled(tmp_path, BRANCHES, "ttir")
    assert kernel.asm["ttgir"].count("ttg.convert_layout %v") == 2, "once in each block"
    assert list(kernel.asm)[-1] == "cubin"


def reordered(size: int, widths: tuple[int, int], order: str = "allow_reorder") -> str:
    """The sum of the squares of a tile, for which its elements stay where they are."""
    layouts = [
        f"#ttg.blocked<{{sizePerThread = [{n}], threadsPerWarp = [32], warpsPerCTA = [4], "
        "order = [0]}>" for n in widths
    ]  # fmt: skip
    first, other = (f"tensor<{size}xf32, {layout}>" for layout in layouts)
    return f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
      ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{
      tt.func public @k(%x: !tt.ptr<f32>, %v: f32) {{
        %t = tt.splat %v : f32 -> {first}
        %r = tt.reshape %t {order} : {first} -> {other}
        %s = "tt.reduce"(%r) <{{axis = 0 : i32}}> ({{
        ^bb0(%a: f32, %b: f32):
          %c = arith.addf %a, %b : f32
          tt.reduce.return %c : f32
        }}) : ({other}) -> f32
        tt.store %x, %s : !tt.ptr<f32>
        tt.return
      }}
    }}"""


@pytest.mark.parametrize("size", [512, 1024])
def test_reshapes_that_may_reorder(tmp_path: Path, fresh_cache: Path, size: int) -> None:
    assert compiled(tmp_path, reordered(size, (4, 1)), "ttgir").asm["ptx"]


@pytest.mark.parametrize(("size", "order"), [(512, ""), (128, "allow_reorder")])
def test_reshapes_that_move_elements(
    tmp_path: Path, fresh_cache: Path, size: int, order: str
) -> None:
    """Of 128 elements, several threads hold copies in the first layout."""
    with pytest.raises(NotImplementedError, match="elements would move between threads"):
        compiled(tmp_path, reordered(size, (4, 1), order), "ttgir")


def test_tensor_memory_in_a_branch(tmp_path: Path, fresh_cache: Path) -> None:
    """It is allocated in front of the branch, by all threads."""
    head = (
        "#rows = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[1, 0], [2, 0], "
        "[4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>\n"
    )
    memory = (
        "!ttg.memdesc<128x16xf32, #ttng.tensor_memory_encoding<blockM = 128, blockN = 16, "
        "colStride = 1>, #ttng.tensor_memory, mutable>"
    )
    body = f"""
    %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #rows>
    scf.if %c {{
      %m = ttng.tmem_alloc %zero : (tensor<128x16xf32, #rows>) -> {memory}
    }}"""
    text = kernel_text(body, "%c: i1", head=head).replace("cuda:90", "cuda:100")
    (file := tmp_path / "k.ttgir").write_text(text)
    made = tritium.compile(str(file), target=GPUTarget("cuda", 100, 32))
    in_order(made.asm["ptx"], "tcgen05.alloc", r"@%p\d+ bra", "tcgen05.st", "tcgen05.dealloc")
    assert "tmem_alloc %zero" in made.asm["ttgir"]
