"""PTX to machine code: every target, ptxas' errors and warnings, the backend's options."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import tritium
from tests.nvidia.support import KERNELS
from tritium import knobs
from tritium.backends.base import make_backend
from tritium.backends.nvidia import ptx
from tritium.backends.nvidia.options import assembler
from tritium.errors import PTXASError
from tritium.native.loader import compile_ir
from tritium.target import GPUTarget

needs_ptxas = pytest.mark.ptxas
SIMPLE = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n"


@pytest.mark.covering(1)
@needs_ptxas
@pytest.mark.parametrize("arch", [80, 86, 89, 90, 100, 120])
@pytest.mark.parametrize("name", ["add", "softmax", "matmul_mma"])
def test_every_target_assembles(arch: int, name: str, fresh_cache: Path):
    kernel = tritium.compile(KERNELS / f"{name}.ttgir", target=GPUTarget("cuda", arch, 32))
    assert list(kernel.asm) == ["ttgir", "llir", "ptx", "cubin"]
    assert f".target {ptx.cpu_name(arch)}" in kernel.asm["ptx"]
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert kernel.metadata.num_warps == 4 and kernel.metadata.n_regs > 0


@needs_ptxas
@pytest.mark.parametrize("name", ["matmul_wgmma", "matmul_tma"])
def test_hopper_kernels_assemble_without_performance_warnings(name: str, fresh_cache: Path):
    kernel = tritium.compile(KERNELS / f"{name}.ttgir", target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.n_spills == 0
    _, log = ptx.assemble(kernel.asm["ptx"], 90, ptx.ptxas_arguments(90))
    assert ptx.performance_messages(log, None) == []


def test_performance_messages_are_read():
    log = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized\n"
    (message,) = ptx.performance_messages(log, None)
    assert message == "C7510: Potential Performance Loss: wgmma.mma_async is serialized"
    spilled = "ptxas info : Used 96 registers\n 0 bytes stack frame, 16 bytes spill stores\n"
    (message,) = ptx.performance_messages(spilled, None)
    assert "16 bytes a thread do not fit its registers" in message and "maxnreg" not in message
    (message,) = ptx.performance_messages(spilled, 96)
    assert "the 96 registers that maxnreg allows" in message and "larger maxnreg" in message


@needs_ptxas
@pytest.mark.parametrize("remarks", [False, True])
def test_spills_and_registers_are_remarked_on(
    remarks: bool, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder,
):  # fmt: skip
    """Nothing is said unless remarks are asked for, and Python's warnings are not used."""
    if remarks:
        monkeypatch.setenv("MLIR_ENABLE_DIAGNOSTICS", "remarks")
    target = GPUTarget("cuda", 90, 32)
    kernel = tritium.compile(KERNELS / "matmul_mma.ttgir", target=target, options={"maxnreg": 64})
    assert kernel.metadata.n_spills > 0 and not recwarn.list
    text = capfd.readouterr().err
    assert (f": remark: {kernel.metadata.n_regs} registers a thread, " in text) == remarks
    assert ("the 64 registers that maxnreg allows" in text) == remarks
    assert (f"{4 * kernel.metadata.n_spills} bytes spilled" in text) == remarks


@needs_ptxas
def test_ptxas_error_has_the_tools_words_and_a_command(tmp_path: Path):
    with pytest.raises(PTXASError) as error:
        ptx.assemble(SIMPLE.replace("ret;", "return;"), 80, ptx.ptxas_arguments(80))
    text = str(error.value)
    assert "`ptxas` stderr:" in text and "line 4" in text
    command = text.split("Repro command: ")[1].split()
    assert "--gpu-name=sm_80" in command
    source = next(Path(word) for word in command if word.endswith(".ptx"))
    assert "return;" in source.read_text()
    source.unlink()


@pytest.mark.parametrize(
    ("code", "words"), [(255, "Internal Triton PTX codegen error"), (7, "error code 7")]
)
def test_failures_are_told_apart(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = tmp_path / "ptxas"
    tool.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'release 12.8, V12.8.1'; exit 0; }\n"
        f'echo "$@" > {tmp_path}/arguments\nexit {code}\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    with pytest.raises(PTXASError, match=words) as error:
        arguments = ptx.ptxas_arguments(80, enable_fp_fusion=False, options="--foo 3")
        ptx.assemble(SIMPLE, 80, arguments)
    arguments = (tmp_path / "arguments").read_text()
    assert "--fmad=false" in arguments and "--foo 3" in arguments
    Path(str(error.value).split("Repro command: ")[1].split()[-3]).unlink()


def _tool(path: Path, *commands: str) -> str:
    """A program in the place of ptxas."""
    version = "[ \"$1\" = --version ] && { echo 'release 12.8, V12.8.1'; exit 0; }"
    path.write_text("\n".join(["#!/bin/sh", version, *commands, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_ptxas_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", _tool(tmp_path / "ptxas", "exec sleep 60"))
    monkeypatch.setenv("TRITIUM_PTXAS_TIMEOUT", "1")
    with pytest.raises(PTXASError, match=r"took longer than 1 seconds \(TRITIUM") as error:
        ptx.assemble(SIMPLE, 80, [])
    Path(str(error.value).split("Repro command: ")[1].split()[-3]).unlink()


def test_another_ptxas_for_blackwell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", _tool(tmp_path / "older"))
    for arch in (90, 100):
        found = assembler(arch)
        assert found is not None and found.path.endswith("older")
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", _tool(tmp_path / "newer"))
    paths = [assembler(arch) for arch in (90, 100, 120)]
    assert [Path(p.path).name for p in paths if p] == ["older", "newer", "newer"]


def test_optimization_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    assert "--opt-level" not in ptx.ptxas_arguments(80)
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    assert "--opt-level 0" in " ".join(ptx.ptxas_arguments(80))


@pytest.mark.parametrize(
    ("tool", "version"),
    [("12.0", 80), ("12.5", 85), ("12.6", 85), ("12.8", 87), ("12.9", 88), ("13.0", 90),
     (None, 87)],
)  # fmt: skip
def test_ptx_version_of_a_tool(tool: str | None, version: int):
    """The versions are those of the release history in NVIDIA's PTX ISA document."""
    assert ptx.ptx_version(tool) == version


def test_without_ptxas_the_driver_gets_ptx(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(knobs.nvidia).ptxas, "find", lambda path: None)
    assert ptx.assemble(SIMPLE, 80, []) == (SIMPLE.encode() + b"\0", "")


def options(arch: int = 90, **given: object):
    return make_backend(GPUTarget("cuda", arch, 32)).parse_options(given)


def test_defaults():
    found = options()
    assert (found.num_warps, found.num_ctas, found.num_stages) == (4, 1, 3)
    assert found.maxnreg is None and found.cluster_dims == (1, 1, 1) and found.enable_fp_fusion
    assert "fp8e4nv" in found.supported_fp8_dtypes
    assert "fp8e4nv" not in options(80).supported_fp8_dtypes
    assert found.deprecated_fp8_dot_operand_dtypes == ("fp8e4b15",)


def test_hash_covers_the_contents_of_libraries(tmp_path: Path):
    library = tmp_path / "lib.bc"
    library.write_bytes(b"1")
    first = options(extern_libs={"lib": str(library)}).hash()
    assert first != options().hash()
    library.write_bytes(b"2")
    assert first != options(extern_libs={"lib": str(library)}).hash()


def test_bad_options():
    with pytest.raises(AssertionError, match="must be a power of 2"):
        options(num_warps=3)
    with pytest.raises(ValueError, match="maxnreg is 300; 1 to 255"):
        options(maxnreg=300)
    with pytest.raises(ValueError, match="must be an int from 80 on"):
        make_backend(GPUTarget("cuda", 75, 32))


def test_architecture_can_be_overridden(monkeypatch: pytest.MonkeyPatch):
    from tritium.backends.nvidia.options import pipeline_arch

    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    assert pipeline_arch(options().arch, 90) == 80
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "ampere")
    with pytest.raises(ValueError, match=r"must have the form \^sm\(\\d\+\)\$; got 'ampere'"):
        options()


def test_looking_for_a_gpu_imports_nothing_heavy():
    code = (
        "import sys; from tritium.backends.nvidia.driver import CudaDriver; CudaDriver.is_active();"
        "print([m for m in ('torch', 'cuda.bindings.driver', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


LOOP = """
define ptx_kernel void @f(ptr %p, i64 %stride, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, %stride
  %at = getelementptr i8, ptr %p, i64 %offset
  store volatile i64 %i, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def test_loops_are_strength_reduced_after_a_compile_for_the_cpu():
    compile_ir(LOOP.replace("ptx_kernel ", ""))
    multiplications = re.findall(r"mul\.lo\.s64|mad\.lo\.s64", ptx.emit_ptx(LOOP, 90, 87))
    assert not multiplications
