"""Functions of libdevice and contraction in the PTX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import KERNELS, compiled, in_order, kernel_text, to_ptx
from tritium.backends.nvidia import libdevice

pytestmark = pytest.mark.usefixtures("no_ptxas")


needs_libdevice = pytest.mark.skipif(
    libdevice.find() is None, reason="libdevice is in a CUDA toolkit or nvidia-nvvm"
)


@tritium.jit
def sines(x, o):
    i = tl.arange(0, 128)
    tl.store(o + i, tl.sin(tl.load(x + i)))


@needs_libdevice
def test_libdevice_leaves_only_what_is_used():
    text = compiled(sines, "*fp64 *fp64").asm["ptx"]
    functions = re.findall(r"\.func .*?(\w+)\(", text)
    assert "fma.rn.f64" in text and "__nv_sin" not in functions and len(functions) <= 1, (
        "all is inlined but the reduction of huge arguments"
    )


@needs_libdevice
def test_libdevice_is_inlined_without_optimization(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert "__nvvm_reflect" not in compiled(sines, "*fp32 *fp32").asm["ptx"]


def test_missing_libdevice_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(tmp_path / "none.bc"))
    with pytest.raises(FileNotFoundError) as caught:
        compiled(sines, "*fp32 *fp32")
    assert re.search(
        r"__nv_sinf is in NVIDIA's libdevice.10.bc, but TRITON_LIBDEVICE_PATH names .*none.bc"
        r".*pip install nvidia-nvvm", str(caught.value),
    )  # fmt: skip


def test_broken_libdevice_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "broken.bc"
    path.write_bytes(b"no bitcode")
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(path))
    with pytest.raises(RuntimeError, match=r"cannot link .*broken.bc"):
        compiled(sines, "*fp32 *fp32")


T = "tensor<1024xi32, #blocked>"
P = "tensor<1024x!tt.ptr<f32>, #blocked>"
F = "tensor<1024xf32, #blocked>"


@pytest.mark.parametrize(("fusion", "expected"), [(True, True), (False, False)])
def test_contraction_is_an_option(fusion: bool, expected: bool):
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %v = tt.load %p : {P}
    %m = arith.mulf %v, %v : {F}
    %a = arith.addf %m, %v : {F}
    tt.store %p, %a : {P}"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<f32>"), enable_fp_fusion=fusion)
    assert bool(re.search(r"fma\.r[nzmp]", text)) == expected


def test_softmax_copies_ahead_and_exponentiates_in_hardware():
    text = to_ptx((KERNELS / "softmax.ttgir").read_text())
    in_order(text, r"cp\.async\.cg\.shared\.global", r"cp\.async\.commit_group",
             r"cp\.async\.wait_group", r"max\.f32", r"ex2\.approx\.f32",
             r"div\.full\.f32")  # fmt: skip


@pytest.mark.parametrize("flush", [True, False])
def test_functions_flush_where_the_option_says(flush: bool) -> None:
    """Four instructions become one; `exp` keeps subnormal results, as in the reference."""
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %v = tt.load %p : {P}
    %e = math.NAME %v : {F}
    tt.store %p, %e : {P}"""
    found: dict[str, set[str]] = {}
    for name in ("exp2", "exp", "sqrt", "rsqrt"):
        text = kernel_text(body.replace("NAME", name), "%x: !tt.ptr<f32>")
        functions = re.findall(r"\b(?:ex2|r?sqrt)[.\w]*", to_ptx(text, enable_reflect_ftz=flush))
        found[name] = set(functions)
    kind = "approx.ftz.f32" if flush else "approx.f32"
    assert found == {
        "exp2": {f"ex2.{kind}"}, "exp": {"ex2.approx.f32"}, "sqrt": {f"sqrt.{kind}"},
        "rsqrt": {f"rsqrt.{kind}"},
    }  # fmt: skip
