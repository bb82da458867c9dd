"""Our own linker of ELF objects: each kind of reference, what it refuses, damaged files."""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tritium.native import elf
from tritium.native.host import is_x86
from tritium.native.loader import compile_ir, load_object

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="objects of another kind")

TEXT = """
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@counter = internal global i64 40
@zeros = internal global [1024 x i64] zeroinitializer
@functions = internal constant [2 x ptr] [ptr @one, ptr @two]
declare double @cbrt(double)
declare i64 @given(i64)
@elsewhere = external global i64

define internal i64 @one() noinline { ret i64 1 }
define internal i64 @two() noinline { ret i64 2 }

define double @look_up(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  ret double %v
}
define i64 @count() {
  %v = load i64, ptr @counter
  %n = add i64 %v, 1
  store i64 %n, ptr @counter
  %z = getelementptr i64, ptr @zeros, i64 1000
  %w = load i64, ptr %z
  %m = add i64 %w, 100
  store i64 %m, ptr %z
  %sum = add i64 %n, %m
  ret i64 %sum
}
define i64 @choose(i64 %i) {
  %p = getelementptr ptr, ptr @functions, i64 %i
  %f = load ptr, ptr %p
  %v = call i64 %f()
  ret i64 %v
}
define double @root(double %x) {
  %v = call double @cbrt(double %x)
  ret double %v
}
define i64 @ask(i64 %x) {
  %v = call i64 @given(i64 %x)
  %w = load i64, ptr @elsewhere
  %sum = add i64 %v, %w
  ret i64 %sum
}
"""
NAMES = ["look_up", "count", "choose", "root", "ask"]


@pytest.fixture(scope="module")
def code() -> bytes:
    return compile_ir(TEXT)


def call(address: int, result: type, *arguments: object) -> object:
    kinds = [ctypes.c_double if isinstance(a, float) else ctypes.c_int64 for a in arguments]
    return ctypes.CFUNCTYPE(result, *kinds)(address)(*arguments)


def test_every_kind_of_reference(code: bytes) -> None:
    given = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 3 * x)
    elsewhere = ctypes.c_int64(7)
    imports = {
        "given": ctypes.cast(given, ctypes.c_void_p).value or 0,
        "elsewhere": ctypes.addressof(elsewhere),
    }
    linked = elf.link(code, NAMES, imports)
    integer, double = ctypes.c_int64, ctypes.c_double
    assert [call(linked["look_up"], double, i) for i in range(4)] == [1.5, 2.5, 3.5, 4.5]
    assert [call(linked["count"], integer) for _ in range(2)] == [141, 242]
    assert [call(linked["choose"], integer, i) for i in (0, 1)] == [1, 2]
    assert call(linked["root"], double, 27.0) == math.cbrt(27.0)
    assert call(linked["ask"], integer, 11) == 40
    other = elf.link(code, NAMES, imports)
    assert call(other["count"], integer) == 141  # data of its own


def test_memory_is_not_both_written_and_executed(code: bytes) -> None:
    linked = elf.link(code, ["count"], {"given": 1, "elsewhere": 1})
    lines = Path("/proc/self/maps").read_text().splitlines()
    for line in lines:
        start, end = (int(n, 16) for n in line.split()[0].split("-"))
        if start <= linked["count"] < end:
            assert line.split()[1] == "r-xp"
            return
    raise AssertionError("not mapped")


def test_memory_is_released() -> None:
    code = compile_ir("define i64 @f() { ret i64 7 }")
    before = Path("/proc/self/maps").read_text().count("\n")
    kept = [elf.link(code, ["f"]) for _ in range(50)]
    assert call(kept[-1]["f"], ctypes.c_int64) == 7
    del kept
    gc.collect()
    assert Path("/proc/self/maps").read_text().count("\n") < before + 25


def test_missing_symbols(code: bytes) -> None:
    with pytest.raises(RuntimeError, match="not found in this process: given"):
        elf.link(code, NAMES)
    with pytest.raises(RuntimeError, match="not found in the object: nothing"):
        elf.link(compile_ir("define i64 @f() { ret i64 7 }"), ["nothing"])


def test_damaged_objects_raise(code: bytes) -> None:
    imports = {"given": 1, "elsewhere": 1}
    for end in range(0, len(code), 97):
        with pytest.raises(RuntimeError):
            load_object(code[:end], NAMES, imports)


def test_what_is_not_known_is_left_to_llvm() -> None:
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="static", codemodel="small", jit=True
    )
    module = llvm.parse_assembly(TEXT.replace("@given", "@labs"))
    static = machine.emit_object(module)
    if is_x86():  # absolute addresses of 32 bits
        with pytest.raises(elf.Unsupported, match=r"relocation 1[01]"):
            elf.link(static, NAMES)
    with pytest.raises(elf.Unsupported, match="thread-local"):
        local = "@t = thread_local global i64 3\ndefine ptr @f() { ret ptr @t }"
        elf.link(compile_ir(local), ["f"])


def test_pages() -> None:
    text = f"@big = constant [{3 * mmap.PAGESIZE} x i8] zeroinitializer, align 64\n"
    text += "@small = global i32 5, align 4096\ndefine ptr @f() { ret ptr @small }\n"
    text += "define ptr @g() { ret ptr @big }"
    linked = elf.link(compile_ir(text), ["f", "g"])
    small, big = (call(linked[n], ctypes.c_void_p) for n in ("f", "g"))
    assert isinstance(small, int) and isinstance(big, int)
    assert small % 4096 == 0 and big % 64 == 0
    assert ctypes.c_int32.from_address(small).value == 5
