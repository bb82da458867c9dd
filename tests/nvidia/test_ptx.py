"""A kernel's header, calls and special registers in the PTX, without a GPU and without ptxas."""

from __future__ import annotations

import re

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import KERNELS, compiled, in_order, kernel_text, lowered, to_ptx
from tritium.backends.nvidia import ptx

pytestmark = pytest.mark.usefixtures("no_ptxas")


def test_kernel_header():
    text = to_ptx(kernel_text("", ""), maxnreg=42)
    in_order(text, r"\.version 8\.7", r"\.target sm_90a", r"\.address_size 64",
             r"\.entry k\(", r"\.reqntid 128", r"\.maxnreg 42")  # fmt: skip


@tritium.jit
def of_the_grid(o):
    i = tl.program_id(0) * 512 + tl.arange(0, 512)
    tl.store(o + i, i + tl.num_programs(0) + tl.num_programs(1))


def test_ranges_of_special_registers():
    stages = compiled(of_the_grid, "*i32", aligned=True).asm
    for register, low, end in (("tid.x", 0, 128), ("ctaid.x", 0, 2**31 - 1),
                               ("nctaid.x", 1, 2**31), ("nctaid.y", 1, 2**16)):  # fmt: skip
        pattern = rf"call range\(i32 (\d+), (\d+)\) i32 @\S+\.{re.escape(register)}\("
        found = re.search(pattern, stages["llir"])
        assert found is not None and [int(n) for n in found.groups()] == [low, end], register
    assert "and.b32" not in stages["ptx"], "a thread's index is below the 128 threads of the block"


def test_passes_for_one_function_make_the_code_of_the_whole_pipeline(monkeypatch):
    whole = ptx.run_passes
    text = compiled(of_the_grid, "*i32", aligned=True).asm["llir"]
    short = ptx.emit_ptx(text, 90, 87)
    monkeypatch.setattr(ptx, "optimize_function", lambda module, m: whole(module, m, 1, False))
    assert ptx.emit_ptx(text, 90, 87) == short
    monkeypatch.setattr(ptx, "optimize_function", lambda module, machine: None)
    assert ptx.emit_ptx(text, 90, 87) != short, "no pass was run"


def test_long_struct_types_are_written_once():
    text = lowered((KERNELS / "matmul_wgmma.ttgir").read_text())[0]
    assert "%struct0 = type { float, float, " in text and "call %struct0 asm" in text
    assert text.count("{ float, float, ") == 1


@tritium.jit(noinline=True)
def apart(x, i):
    return tl.sum(x, 0) + i, x * 2


@tritium.jit
def calls(x, o):
    i = tl.arange(0, 128)
    s, d = apart(tl.load(x + i), 3)
    t, e = apart(d, 4)
    tl.store(o + i, e + s + t)


def test_functions_that_stay_functions():
    kernel = compiled(calls, "*fp32 *fp32")
    text = kernel.asm["ptx"]
    assert len(re.findall(r"^\.func ", text, re.M)) + text.count(".visible .func") >= 1
    calls_ = [m.start() for m in re.finditer(r"call\.uni", text)]
    assert len(calls_) == 2
    between = text[calls_[0] : calls_[1]]
    assert re.search(r"bar(rier)?(\.cta)?\.sync", between), "the first call's memory is used again"
    assert kernel.metadata.shared >= 4 * 4


@tritium.jit
def asks_the_gpu(o):
    tl.extra.cuda.gdc_wait()
    i = tl.arange(0, tl.extra.cuda.num_threads())
    tl.store(o + i, tl.extra.cuda.globaltimer() + tl.extra.cuda.smid() + i)
    tl.extra.cuda.gdc_launch_dependents()
    tl.static_assert(tl.extra.cuda.num_warps() == 2)


def test_what_only_nvidia_gpus_have():
    stages = compiled(asks_the_gpu, "*i64", num_warps=2).asm
    words = ["griddepcontrol.wait;", "%globaltimer;", "%smid;", "griddepcontrol.launch_dependents;"]
    assert [stages["ptx"].count(word) for word in words] == [1, 1, 1, 1]
    in_order(stages["ptx"], words[0], "st.global", words[3])
    assert "tensor<64xi32>" in stages["ttir"]


@tritium.jit
def wrapped(x, out, start, n):
    i = tl.arange(0, 2048)
    tl.store(out + i, tl.load(x + (start + i) % n))


def test_addresses_that_wrap_around_are_read_together():
    """A remainder is taken not to be negative in an address."""
    ptx = compiled(wrapped, "*fp16 *fp16 i32 i32", aligned=True).asm["ptx"]
    assert re.findall(r"ld\.global\S*", ptx) == ["ld.global.v4.b32"] * 2


@tritium.jit
def fill_rows(out, stride):
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tl.store(out + rows * stride + columns, 1.0)


def test_a_row_takes_one_addition_to_a_pointer() -> None:
    """A thread's eight rows: its columns are added to the start, the rows to that."""
    text = compiled(fill_rows, "*fp32 i32", aligned=True).asm["ptx"]
    assert text.count("st.global.v4.b32") == 8 and text.count("add.s64") == 8 + 1
