"""Kernels compiled for AMD GPUs, which no test runs: stages, instructions, resources, errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.amd.execution.memory import extent
from tests.amd.execution.workgroup import Kernel
from tests.amd.kernels import TARGETS, add, calls, compiled, softmax
from tests.ir.test_reference_runs import REFERENCE
from tritium.backends.amd import amdgcn
from tritium.backends.base import make_backend
from tritium.errors import CompilationError, OutOfResources
from tritium.language.extra import hip
from tritium.language.extra.hip import libdevice
from tritium.native.llvm_tools import assembler, disassemble
from tritium.target import GPUTarget


@pytest.fixture(scope="module", params=TARGETS)
def arch(request: pytest.FixtureRequest) -> str:
    return request.param


def code(kernel: Any) -> str:
    """The instructions of a kernel."""
    return kernel.asm["amdgcn"].partition(".section\t.rodata")[0]


def test_vector_addition(arch: str) -> None:
    kernel = compiled(add, "*fp32 *fp32 *fp32 i32", arch, constants={"BLOCK": 1024})
    assert list(kernel.asm) == ["source", "ttir", "ttgir", "llir", "amdgcn", "hsaco"]
    accesses = 2 * 1024 // (4 * 4 * TARGETS[arch])
    assert len(re.findall(r"buffer_load_(dwordx4|b128)", code(kernel))) == accesses
    assert "buffer_store_" in code(kernel) and "s_cbranch" not in code(kernel)
    assert kernel.metadata.n_spills == kernel.metadata.scratch_bytes == 0
    binary = kernel.asm["hsaco"]
    assert binary[:4] == b"\x7fELF" and b"add.kd\0" in binary and arch.encode() in binary


def test_softmax(arch: str) -> None:
    kernel = compiled(softmax, "*fp32 *fp32 i32 i32", arch, constants={"BLOCK": 1024})
    text = code(kernel)
    assert kernel.metadata.shared == 32
    assert "s_barrier" in text and "v_exp_f32" in text
    assert re.search(r"quad_perm|row_xmask", text)
    assert kernel.metadata.n_spills == kernel.metadata.scratch_bytes == 0
    assert re.search(rf"\.wavefront_size: +{TARGETS[arch]}\b", kernel.asm["amdgcn"])
    assert re.search(rf"\.max_flat_workgroup_size: +{4 * TARGETS[arch]}\b", kernel.asm["amdgcn"])


def test_functions_that_stay_functions() -> None:
    kernel = compiled(calls, "*fp32 *fp32")
    # Two, and the reduction of large angles, which is rarely needed.
    assert len(re.findall("s_swappc_b64", code(kernel))) == 3
    assert kernel.metadata.scratch_bytes == 0


def test_resources_are_listed_behind_the_code() -> None:
    text = compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 1024}).asm["amdgcn"]
    for word in ("NumVgprs", "TotalNumSgprs", "NumAgprs", "ScratchSize", "Occupancy"):
        assert re.search(rf"^; {word}: \d+$", text, re.M), word
    assert ".vgpr_spill_count: 0" in text


@tritium.jit
def powers(x, out):
    i = tl.arange(0, 128)
    tl.store(out + i, tl.exp2(tl.load(x + i)))


def test_options_have_their_effects() -> None:
    exact = code(compiled(powers, "*fp32 *fp32", num_warps=2))
    flushed = code(compiled(powers, "*fp32 *fp32", num_warps=2, allow_flush_denorm=True))
    assert "v_ldexp" in exact or exact.count("v_cndmask") > flushed.count("v_cndmask")
    limited = compiled(powers, "*fp32 *fp32", waves_per_eu=3, schedule_hint="")
    assert '"amdgpu-waves-per-eu"="3,3"' in limited.asm["llir"]
    text = "amdgpu-waves-per-eu = 2, amdgpu-sched-strategy=max-ilp, mine"
    named = compiled(powers, "*fp32 *fp32", waves_per_eu=3, llvm_fn_attrs=text).asm["llir"]
    assert '"amdgpu-waves-per-eu"="2"' in named and '"3,3"' not in named
    assert '"amdgpu-sched-strategy"="max-ilp" "mine"' in named


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "paired"), [("gfx1100", True), ("gfx1201", True),
                                              ("gfx1250", False), ("gfx942", False)])  # fmt: skip
def test_waves_on_one_or_both_units_of_a_pair(arch: str, paired: bool) -> None:
    for mode in ("wgp", "cu"):
        kernel = compiled(calls, "*fp32 *fp32", arch, wgp_cu_mode=mode)
        found = re.findall(r"workgroup_processor_mode (\d)", kernel.asm["amdgcn"])
        assert found == [str(int(mode == "wgp"))] * paired, mode


@tritium.jit
def functions_of_amd(x, out):
    tl.static_assert(hip.num_warps() == 2)
    i = tl.arange(0, hip.num_threads())
    value = hip.libdevice.atan2(tl.load(x + i), 2.0)
    tl.store(out + i, hip.libdevice.fma(hip.libdevice.acos(value), value, value))


@tritium.jit
def registers(times, units):
    start = hip.memrealtime()
    tl.store(units, hip.smid())
    tl.store(times, hip.memrealtime() - start)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1200"])
def test_functions_of_the_language_for_amd(arch: str) -> None:
    kernel = compiled(functions_of_amd, "*fp32 *fp32", arch, num_warps=2)
    assert f"tensor<{2 * TARGETS[arch]}xf32>" in kernel.asm["ttir"]
    text = code(compiled(registers, "*i64 *i32", arch))
    clock, unit = ("memrealtime", "HW_REG_HW_ID, 8, 8") if arch == "gfx942" else (
        "sendmsg(MSG_RTN_GET_REALTIME)", "HW_REG_WAVE_HW_ID1, 10, 4")  # fmt: skip
    assert len(re.findall(rf"^\ts_.*{re.escape(clock)}", text, re.M)) >= 2
    assert f"hwreg({unit})" in text


@tritium.jit
def directed(x, y, out, WHICH: tl.constexpr):
    a = tl.load(x)
    if WHICH == "div":
        tl.store(out, tl.extra.libdevice.div_rz(a, a))
    elif WHICH == "sqrt":
        tl.store(out, tl.extra.libdevice.sqrt_rd(a))
    elif WHICH == "rcp":
        tl.store(out, tl.extra.libdevice.rcp_ru(a))
    elif WHICH == "long":
        tl.store(out, tl.extra.libdevice.ll2float_rz(tl.load(y)))
    else:
        tl.store(out, tl.extra.libdevice.fma_rd(a, a, tl.extra.libdevice.add_ru(a, a)))


@pytest.mark.parametrize("which", ["div", "sqrt", "rcp", "long", "fma"])
def test_rounding_in_one_direction(which: str) -> None:
    text = code(compiled(directed, "*fp32 *i64 *fp32", constants={"WHICH": which}))
    assert text.count("s_round_mode") + text.count("s_setreg") >= 2


@tritium.jit
def directed_doubles(x, y, out):
    a, n = tl.load(x), tl.load(y)
    value = tl.extra.libdevice.div_rz(a, 3.0) + tl.extra.libdevice.sqrt_ru(a)
    value += tl.extra.libdevice.rcp_rd(a) + tl.extra.libdevice.ll2double_rd(n)
    tl.store(out, value)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100", "gfx1250"])
def test_doubles_rounded_in_one_direction(arch: str) -> None:
    text = code(compiled(directed_doubles, "*fp64 *i64 *fp64", arch))
    assert "v_div_fmas_f64" in text and text.count("s_round_mode") + text.count("s_setreg") > 10


@pytest.mark.parametrize("name", libdevice.NAMES)
def test_every_function_of_amds_library_is_one_of_ours(name: str) -> None:
    assert callable(getattr(tl.extra.libdevice, name))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (GPUTarget("hip", "gfx906", 64), "must be one of gfx90a, gfx942"),
        (GPUTarget("hip", 90, 64), "GPUTarget\\('hip', 90, ...\\)"),
        (GPUTarget("hip", "gfx942", 32), "waves have 64 lanes"),
        (GPUTarget("hip", "gfx1100", 64), "waves have 32 lanes"),
    ],
)
def test_bad_targets(target: GPUTarget, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_backend(target)


@pytest.mark.parametrize("target", [GPUTarget("hip", "gfx942", 64), GPUTarget("cuda", 90, 32)])
def test_the_version_of_llvm_in_keys_is_read_once(
    target: GPUTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each launch that is no copy of an earlier one asks for the key."""
    first = make_backend(target).hash()
    assert llvmlite.__version__ in first
    monkeypatch.delattr("importlib.metadata.version")
    assert make_backend(target).hash() == first


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_ctas": 2}, ValueError, "num_ctas is 2, for gfx942"),
        ({"num_warps": 32}, OutOfResources, "Required: 2048, Hardware limit: 1024"),
        ({"num_warps": 3}, AssertionError, "power of 2"),
        ({"matrix_instr_nonkdim": 8}, ValueError, "0, 4, 16 or 32"),
        ({"kpack": 3}, ValueError, "1 or 2"),
        ({"waves_per_eu": -1}, ValueError, "0 to 20"),
        ({"schedule_hint": "fast"}, ValueError, "memory-bound-attention"),
        ({"wgp_cu_mode": "both"}, ValueError, "'wgp' or 'cu' is required"),
        ({"llvm_fn_attrs": "a=b=c\""}, ValueError, "name=value or a name"),
        ({"llvm_fn_attrs": 3}, ValueError, "llvm_fn_attrs is 3"),
        ({"extern_libs": "x.bc"}, TypeError, "extern_libs is 'x.bc'"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_backend(GPUTarget("hip", "gfx942", 64)).parse_options(options)


@tritium.jit
def prints(x):
    tl.device_print("x", tl.load(x))
    tl.device_assert(tl.load(x) > 0, "x is too small")


def test_prints_and_assertions(arch: str) -> None:
    kernel = compiled(prints, "*fp32", arch, debug=True)
    assert [fails for _, fails in kernel.metadata.output] == [False, True]
    assert "tritium.output@rel" in code(kernel) and b"tritium.output\0" in kernel.asm["hsaco"]
    assert re.search(r"global_atomic_add_(x2|u64)", code(kernel))


def assembles(path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script be the assembler: `$1` ... are its arguments, `$OUT` the object."""
    path.write_text(f"#!/bin/sh\nfor OUT; do :; done\n{program}\n")
    path.chmod(0o755)
    monkeypatch.setenv("TRITIUM_AMD_ASSEMBLER", str(path))


def test_edited_assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types, constants = "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}
    kernel = compiled(add, types, constants=constants)
    other = compiled(add, types, constants={"BLOCK": 512})
    assert other.asm["hsaco"] != kernel.asm["hsaco"]
    path, made = tmp_path / "add.amdgcn", tmp_path / "made.o"
    path.write_text(f"; edited\n{kernel.asm['amdgcn']}")
    how = amdgcn.How(**other.metadata.code)
    made.write_bytes(amdgcn.emit(other.asm["llir"], how).object)
    said = tmp_path / "said"
    program = f'echo "$*" > {said}\nhead -1 "$7" >> {said}\ncp {made} "$OUT"'
    assembles(tmp_path / "clang", program, monkeypatch)
    edited = compiled(add, types, constants=constants, ir_override=str(path))
    assert edited.asm["hsaco"] == other.asm["hsaco"]
    assert edited.asm["amdgcn"].startswith("; edited\n")
    assert list(edited.asm)[-2:] == ["amdgcn", "hsaco"]
    arguments = r"-target amdgcn-amd-amdhsa -mcpu=gfx942 -x assembler -c \S+\.s -o \S+\.o"
    assert re.fullmatch(rf"{arguments}\n; edited\n", said.read_text())
    with pytest.raises(NotImplementedError, match=r"from a file alone.*TRITON_KERNEL_OVERRIDE"):
        tritium.compile(str(path), GPUTarget("hip", "gfx942", 64))


@tritium.jit
def brings_assembly(p, TEXT: tl.constexpr, CODES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    tl.store(p + i, tl.inline_asm_elementwise(TEXT, CODES, [x], tl.int32, True, 1))


def brings(text: str, codes: str, arch: str = "gfx942") -> Any:
    constants = {"TEXT": text, "CODES": codes}
    return compiled(brings_assembly, "*i32", arch, constants=constants)


def test_assembly_of_programs(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text that LLVM writes goes through the assembler."""
    made, read = tmp_path / "made.o", tmp_path / "read.s"
    plain = compiled(brings_assembly, "*i32", arch, constants={"TEXT": "", "CODES": "=v,0"})
    how = amdgcn.How(**plain.metadata.code)
    made.write_bytes(amdgcn.emit(plain.asm["llir"], how).object)
    assembles(tmp_path / "clang", f'cp "$7" {read}\ncp {made} "$OUT"', monkeypatch)
    kernel = brings("v_ffbl_b32 $0, $1", "=&v,v", arch)
    assert re.search(r"v_ffbl_b32 v\d+, v\d+\n", read.read_text())
    assert kernel.asm["amdgcn"] == read.read_text() and kernel.asm["hsaco"] == plain.asm["hsaco"]


def test_assembly_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """n=$(grep -n v_none "$7" | head -1 | cut -d: -f1)
printf "kernel.s:$n:2: error: invalid instruction\\n  v_none\\n  ^\\n" >&2; exit 1"""
    assembles(tmp_path / "clang", program, monkeypatch)
    line = brings_assembly.fn.__code__.co_firstlineno + 4
    with pytest.raises(CompilationError, match=rf"test_compile.py:{line}:.* cannot assemble this "
                       r"for gfx942; .*\n.*error: invalid instruction\n  v_none"):  # fmt: skip
        brings("v_none $0, $1", "=v,v")
    message = r"'=q' in '=q,v' is none of AMD's assembly: letters of registers are v"
    with pytest.raises(CompilationError, match=message):
        brings("v_ffbl_b32 $0, $1", "=q,v")
    monkeypatch.setenv("TRITIUM_AMD_ASSEMBLER", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match=r"TRITIUM_AMD_ASSEMBLER: .*nowhere does not run"):
        brings("v_none $0, $1", "=v,v")


def test_the_assembler_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clang").write_text("#!/bin/sh\n")
    (tmp_path / "clang").chmod(0o755)
    package = tmp_path / "packages" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert assembler("mine", str(tmp_path)) == ["mine"]
    assert assembler(None, str(tmp_path)) == [str(tmp_path / "clang")]
    monkeypatch.syspath_prepend(package.parent)
    assert assembler(None, "") == [str(package / "zig"), "clang"]
    monkeypatch.setattr(sys, "path", [])
    assert assembler(None, "") is None
    monkeypatch.setattr(amdgcn, "assembler", lambda: None)
    with pytest.raises(NotImplementedError, match=r"pip install ziglang.*TRITIUM_AMD_ASSEMBLER"):
        amdgcn.assembled("", "gfx942")


def library(path: Any) -> str:
    """Bitcode of a function."""
    with llvm.create_context() as context:
        module = llvm.parse_assembly(
            'target triple = "amdgcn-amd-amdhsa"\n'
            "define float @thrice(float %x) {\n %y = fmul float %x, 3.0\n ret float %y\n}",
            context=context,
        )
        with module:
            path.write_bytes(module.as_bitcode())
    return str(path)


@tl.core.extern
def thrice(x, path, _semantic=None):
    symbols = {(tl.float32,): ("thrice", tl.float32)}
    return tl.core.extern_elementwise("mine", path, [x], symbols, is_pure=True, _semantic=_semantic)


@tritium.jit
def of_libraries(x, out, PATH: tl.constexpr):
    i = tl.arange(0, 128)
    tl.store(out + i, thrice(tl.load(x + i), PATH))


def test_functions_of_libraries(tmp_path: Any) -> None:
    path = library(tmp_path / "mine.bc")
    named = compiled(of_libraries, "*fp32 *fp32", constants={"PATH": path})
    option = compiled(of_libraries, "*fp32 *fp32", constants={"PATH": ""},
                      extern_libs={"mine": path})  # fmt: skip
    for kernel in (named, option):
        text = code(kernel)
        assert re.search(r"v_mul_f32_e32 v\d+, 0x40400000", text) and "thrice" not in text
    with pytest.raises(RuntimeError, match="thrice is in none of the libraries"):
        compiled(of_libraries, "*fp32 *fp32", constants={"PATH": ""})


@pytest.mark.parametrize(("name", "first"), [("ld.lld", ""), ("lld", "-flavor gnu ")])
def test_the_linker_that_a_setting_names(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, name: str, first: str
) -> None:
    program, copy = tmp_path / name, 'while [ "$1" != -shared ]; do shift; done; cp "$2" "$4"'
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n{copy}\n')
    program.chmod(0o755)
    own = compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 128})
    monkeypatch.setenv("TRITON_HIP_LLD_PATH", str(program))
    other = compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 128})
    assert (tmp_path / "arguments").read_text().startswith(f"{first}-shared ")
    assert other.asm["hsaco"][:4] == b"\x7fELF" and other.asm["hsaco"] != own.asm["hsaco"]
    program.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match=r"(?s)TRITON_HIP_LLD_PATH.*no such thing"):
        compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 64})


@tritium.jit
def pairs(x, out):
    i = tl.arange(0, 1024)
    value = tl.load(x + i)
    tl.store(out + i, value * value + 3.0 * value)


def test_packed_operations_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = code(compiled(pairs, "*fp32 *fp32", enable_fp_fusion=False))
    monkeypatch.setenv("AMDGCN_SCALARIZE_PACKED_FOPS", "1")
    apart = code(compiled(pairs, "*fp32 *fp32", enable_fp_fusion=False))
    assert "v_pk_mul_f32" in packed and "v_pk_" not in apart


def test_assembly_is_written_when_it_is_asked_for(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = {"BLOCK": 512}
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("AMDGCN_SCALARIZE_PACKED_FOPS", "1")
    made = compiled(add, "*fp32 *fp32 *fp32 i32", constants=constants)
    monkeypatch.delenv("AMDGCN_SCALARIZE_PACKED_FOPS")  # which the assembly of `made` still has
    assert "v_pk_" not in made.asm["amdgcn"] and "v_add_f32" in made.asm["amdgcn"]
    assert not list(tmp_path.rglob("*.amdgcn")) and list(tmp_path.rglob("*.hsaco"))
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    dumped = compiled(add, "*fp32 *fp32 *fp32 i32", constants=constants)
    (written,) = tmp_path.rglob("*.amdgcn")
    assert written.read_text().startswith(dumped.asm["amdgcn"])
    again = compiled(add, "*fp32 *fp32 *fp32 i32", constants=constants)
    assert again.asm["amdgcn"] == dumped.asm["amdgcn"]


def test_disassembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 64})
    assert "disassembly" not in list(kernel.asm)
    program = tmp_path / "llvm-objdump"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "$@"\nhead -c 4 "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("TRITIUM_LLVM_OBJDUMP_PATH", str(program))
    text = kernel.asm["disassembly"]
    assert text == "-d --no-show-raw-insn --mcpu=gfx942 kernel.o\n\x7fELF"
    program.write_text("#!/bin/sh\necho no such target >&2\nexit 1\n")
    wanted = r"(?s)cannot disassemble code for gfx942.*OBJDUMP_PATH names another.*no such target"
    with pytest.raises(RuntimeError, match=wanted):
        disassemble(kernel.asm["hsaco"], "gfx942", str(program), "")
    program.write_text("#!/bin/sh\nprintf '\\ts_nop 0\\n\\t.long 0xe0a0c000 // 1860\\n'\n")
    wanted = r"cannot disassemble the instruction 0xe0a0c000 of gfx942 \(is it too old\?\)"
    with pytest.raises(RuntimeError, match=wanted):
        disassemble(kernel.asm["hsaco"], "gfx942", str(program), "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=r"not installed here.*OBJDUMP_PATH names one"):
        disassemble(kernel.asm["hsaco"], "gfx942", None, "")


def test_lines_where_a_call_has_none(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM would drop those of the whole function."""
    path = REFERENCE / "map_elementwise.source.ttir"
    kernel = tritium.compile(str(path), target=GPUTarget("hip", "gfx942", 64))
    assert re.search(r"call .* @k_.*branchy.*, !dbg", kernel.asm["llir"])
    assert "invalid debug info" not in capfd.readouterr().err


def test_another_processor_than_the_device_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "gfx950")
    kernel = compiled(add, "*fp32 *fp32 *fp32 i32", "gfx942", constants={"BLOCK": 1024})
    assert 'amdgcn-amd-amdhsa--gfx950"' in kernel.asm["amdgcn"]
    assert kernel.metadata.arch == "gfx950"
    for wrong, why in (("sm90", "'sm90': .*one of gfx90a"), ("gfx1100", "32 lanes; .*have 64")):
        monkeypatch.setenv("TRITON_OVERRIDE_ARCH", wrong)
        with pytest.raises(ValueError, match=f"TRITON_OVERRIDE_ARCH is .*{why}"):
            compiled(add, "*fp32 *fp32 *fp32 i32", constants={"BLOCK": 1024})


def test_the_dump_goes_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMDGCN_ENABLE_DUMP", "1")
    compiled(powers, "*fp32 *fp32", constants={})
    printed = capsys.readouterr()
    assert "// -----// AMDGCN Dump //----- //" in printed.out and "v_exp_f32" in printed.out
    assert not printed.err


def test_knobs_without_effect_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_SWAP_MIR", "/tmp/mir")
    monkeypatch.setenv("TRITON_HIP_USE_EXPERT_SCHEDULING", "1")
    with pytest.warns(UserWarning) as told:
        compiled(powers, "*fp32 *fp32", num_warps=1)
    texts = [str(warning.message) for warning in told]
    assert any(t.startswith("TRITON_SWAP_MIR (knobs.amd.swap_mir) has no") for t in texts)
    assert any("TRITON_HIP_USE_EXPERT_SCHEDULING" in t for t in texts)


@tritium.jit
def places(out, AXIS: tl.constexpr):
    tl.store(out + tl.program_id(AXIS), tl.num_programs(0))


@pytest.mark.parametrize(
    ("axis", "used"), [(0, set[str]()), (1, {"workgroup-id-y"}), (2, {"workgroup-id-z"})]
)
def test_what_a_kernel_does_without_is_what_llvm_finds(axis: int, used: set[str]) -> None:
    text = compiled(places, "*i32", constants={"AXIS": axis}).asm["llir"]
    (attributes,) = re.findall(r"^attributes #\d+ = { (.*flat-work-group-size.*) }$", text, re.M)
    stated = {a for a in attributes.split() if re.match(r'"amdgpu-(no|agpr)-', a)}
    for attribute in (*stated, amdgcn.PLAIN):
        text = text.replace(f"{attribute} ", "")
    machine = amdgcn.machine("gfx942")
    with llvm.create_context() as context, amdgcn.parse(text, context) as module:
        amdgcn.optimize(module, machine, 1, packing=False)
        found = re.findall(r"^attributes #\d+ = .*flat-work-group-size.*$", str(module), re.M)
    assert stated <= set(found[0].split())
    needs = {f'"amdgpu-no-{name}"' for name in {"implicitarg-ptr", *used}}
    assert not needs & stated and len(stated) == 18 - len(needs) + 1


def test_kernels_that_need_the_whole_pipeline() -> None:
    """They call functions, or run on processors that have clusters."""
    cluster = compiled(places, "*i32", "gfx1250", constants={"AXIS": 0})
    kernels = compiled(calls, "*fp32 *fp32"), cluster
    assert [amdgcn.PLAIN in kernel.asm["llir"] for kernel in kernels] == [False, False]


@tritium.jit
def carried(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total, twice = tl.zeros((BLOCK,), tl.float16), tl.zeros((BLOCK,), tl.int8)
    for k in range(n):
        total += tl.load(x + k * BLOCK + i)
        twice = (twice * 3 + 1).to(tl.int8)
    if n > 2:
        total *= 2
    while n > 0:
        twice = (twice + 5).to(tl.int8)
        n -= 1
    tl.store(out + i, total + twice.to(tl.float16))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_narrow_elements_are_carried_as_words(arch: str) -> None:
    kernel = compiled(carried, "*fp16 *fp16 i32", arch, constants={"BLOCK": 2048}, num_warps=2)
    assert re.search("phi i32", kernel.asm["llir"])
    assert not re.search("phi (half|i8)", kernel.asm["llir"])
    assert re.search("v_pk_add_f16", code(kernel))


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_values_of_carried_words(arch: str, n: int) -> None:
    kernel = compiled(carried, "*fp16 *fp16 i32", arch, constants={"BLOCK": 2048}, num_warps=2)
    x = np.random.default_rng(n).integers(-8, 9, (max(n, 1), 2048)).astype(np.float16) / 4
    out, twice = np.zeros(2048, np.float16), np.zeros(1, np.int8)
    Kernel(kernel.asm["llir"], arch, TARGETS[arch], 2, kernel.metadata.shared)(
        [x.ctypes.data, out.ctypes.data, n], (1,), [extent(x), extent(out)]
    )
    for k in range(2 * n):
        twice = twice * 3 + 1 if k < n else twice + 5
    total = x[:n].sum(0, dtype=np.float16) * (2 if n > 2 else 1)
    np.testing.assert_array_equal(out, total + twice.astype(np.float16))


def test_packed_addition() -> None:
    kernel = compiled(add, "*fp32 *fp32 *fp32 i32", "gfx942", constants={"BLOCK": 1024})
    assert "v_pk_add_f32" in code(kernel)


@tritium.jit
def loops_in_control(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if n > 3:
        for k in range(n):
            v += tl.cumsum(v, 0) + k
    while tl.sum(v, 0) > 0:
        for k in range(n):
            v -= tl.load(x + k * B + i)
    tl.store(x + i, v)


def test_loops_in_branches_and_loops(arch: str) -> None:
    kernel = compiled(loops_in_control, "*i32 i32", arch, constants={"B": 256})
    assert kernel.metadata.scratch_bytes == 0 and "s_cbranch" in code(kernel)


POINTER_ACCESS = "%1 = load i32, ptr addrspace(1) %0, align 4\n"
BUFFER_ACCESS = "%1 = call i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8) %0)\n"


@pytest.mark.parametrize(("arch", "accesses", "shares"), [
    ("gfx1200", POINTER_ACCESS * 3, True), ("gfx1200", POINTER_ACCESS + 2 * BUFFER_ACCESS, False),
    ("gfx942", POINTER_ACCESS * 3, False),
])  # fmt: skip
def test_passes_that_share_addresses(arch: str, accesses: str, shares: bool) -> None:
    """They compare all addresses of a block, for nothing where buffers are used."""
    assert amdgcn._shares_addresses(accesses, amdgcn.How(arch)) is shares
