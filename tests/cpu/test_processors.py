"""Kernels compiled for processors that are named: for any on any machine, run where this one can.

The oracle of the table of features is LLVM: an operation that only a feature brings is compiled for
the processor's bare name, in a process of its own, which one that cannot be selected ends.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.cpu.processors import NAMES, processor
from tritium.compiler import ASTSource
from tritium.native.host import host, is_x86
from tritium.native.loader import assembly
from tritium.target import GPUTarget

VNNI = ", ".join(["<16 x i32>"] * 3)
V4F, V16F, V16B, V32H = "<4 x float>", "<16 x float>", "<16 x i8>", "<32 x i16>"
PROBES = {
    "x86_64": {
        "cx16": ("cmpxchg16b", "cmpxchg ptr %0, i128 %1, i128 %1 seq_cst seq_cst", "ptr, i128"),
        "sse4.1": ("phminposuw", "<8 x i16> llvm.x86.sse41.phminposuw", "<8 x i16>"),
        "avx": ("vrcpps", "<8 x float> llvm.x86.avx.rcp.ps.256", "<8 x float>"),
        "avx2": ("vpmaddwd", "<8 x i32> llvm.x86.avx2.pmadd.wd", "<16 x i16>, <16 x i16>"),
        "fma": ("vfmadd", f"{V4F} llvm.fma.v4f32", f"{V4F}, {V4F}, {V4F}"),
        "f16c": ("vcvtps2ph", "<8 x i16> llvm.x86.vcvtps2ph.128", f"{V4F}, i32 0"),
        "avx512f": ("vrcp14ps", f"{V16F} llvm.x86.avx512.rcp14.ps.512", f"{V16F}, {V16F}, i16 -1"),
        "avx512bw": ("vpmaddwd", "<16 x i32> llvm.x86.avx512.pmaddw.d.512", f"{V32H}, {V32H}"),
        "avx512dq": ("vpmullq", "mul <8 x i64> %0, %0", "<8 x i64>"),
        "avx512vl": ("vrcp14ps", f"{V4F} llvm.x86.avx512.rcp14.ps.128", f"{V4F}, {V4F}, i8 -1"),
        "avx512vpopcntdq": ("vpopcntd", "<16 x i32> llvm.ctpop.v16i32", "<16 x i32>"),
        "avx512vbmi": (
            "vpermb", "<64 x i8> llvm.x86.avx512.permvar.qi.512", "<64 x i8>, <64 x i8>"),
        "avx512bf16": ("vdpbf16ps", f"{V16F} llvm.x86.avx512bf16.dpbf16ps.512",
                       f"{V16F}, <32 x bfloat>, <32 x bfloat>"),
        "avx512vnni": ("vpdpwssd", "<16 x i32> llvm.x86.avx512.vpdpwssd.512", VNNI),
        "avx512fp16": ("vaddph", "fadd <32 x half> %0, %0", "<32 x half>"),
        "gfni": ("gf2p8mulb", f"{V16B} llvm.x86.vgf2p8mulb.128", f"{V16B}, {V16B}"),
        "amx-tile": ("tilezero", "void llvm.x86.tilezero", "i8 0"),
        "amx-bf16": ("tdpbf16ps", "void llvm.x86.tdpbf16ps", "i8 0, i8 1, i8 2"),
        "amx-int8": ("tdpbssd", "void llvm.x86.tdpbssd", "i8 0, i8 1, i8 2"),
        "amx-fp16": ("tdpfp16ps", "void llvm.x86.tdpfp16ps", "i8 0, i8 1, i8 2"),
    },
    "aarch64": {
        "dotprod": ("udot", "<4 x i32> llvm.aarch64.neon.udot.v4i32.v16i8",
                    f"<4 x i32>, {V16B}, {V16B}"),
        "i8mm": ("smmla", "<4 x i32> llvm.aarch64.neon.smmla.v4i32.v16i8",
                 f"<4 x i32>, {V16B}, {V16B}"),
        "bf16": ("bfdot", f"{V4F} llvm.aarch64.neon.bfdot.v4f32.v8bf16",
                 f"{V4F}, <8 x bfloat>, <8 x bfloat>"),
        "fp16fml": ("fmlal", f"{V4F} llvm.aarch64.neon.fmlal.v4f32.v8f16",
                    f"{V4F}, <8 x half>, <8 x half>"),
        "fullfp16": ("fadd.*8h", "fadd <8 x half> %0, %0", "<8 x half>"),
        "lse": ("ldadd", "atomicrmw add ptr %0, i32 %1 monotonic", "ptr, i32"),
        "sve": ("cntw", "i64 llvm.aarch64.sve.cntw", "i32 31"),
        "sve2": ("saba", "<vscale x 4 x i32> llvm.aarch64.sve.saba.nxv4i32",
                 ", ".join(["<vscale x 4 x i32>"] * 3)),
    },
}  # fmt: skip
"""Instructions that need a feature: mnemonic, the intrinsic or instruction, its arguments."""
FORK = """
import json, os, re, sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
found = []
for triple, cpu, mnemonic, text in json.load(sys.stdin):
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu)
            module = llvm.parse_assembly(text)
            module.triple = triple
            has = re.search(mnemonic, machine.emit_assembly(module))
        except BaseException:
            has = False
        os._exit(0 if has else 1)
    found.append(os.waitpid(child, 0)[1] == 0)
print(json.dumps(found))
"""


def probe(architecture: str, feature: str) -> tuple[str, str]:
    """The mnemonic to look for, and a function that needs it."""
    mnemonic, what, arguments = PROBES[architecture][feature]
    words = arguments.split(", ")
    taken = [w for w in words if not w[-1].isdigit() or " " not in w or w.endswith(">")]
    parameters = ", ".join(f"{t} %{i}" for i, t in enumerate(taken))
    if " llvm." not in what:
        return mnemonic, f"define void @f({parameters}, ptr %p) {{\n  {stored(what)}\n}}\n"
    result, _, name = what.rpartition(" ")
    numbers = iter(range(len(taken)))
    given = ", ".join(f"{w} %{next(numbers)}" if w in taken else w for w in words)
    declared = ", ".join(w if w in taken else w.split()[0] for w in words)
    called = f"call {result} @{name}({given})"
    body = f"{called}\n  ret void" if result == "void" else f"%r = {called}\n  ret {result} %r"
    return mnemonic, (
        f"declare {result} @{name}({declared})\n"
        f"define {result} @f({parameters}) {{\n  {body}\n}}\n"
    )


def stored(instruction: str) -> str:
    """An instruction whose result is used, as a function's body."""
    words = instruction.split()
    if words[0] in ("cmpxchg", "atomicrmw"):
        return f"%r = {instruction}\n  ret void"
    type = instruction[instruction.index("<") : instruction.index(">") + 1]
    return f"%r = {instruction}\n  store {type} %r, ptr %p\n  ret void"


@pytest.mark.skipif(
    not (sys.platform == "linux" and is_x86()), reason="the table is the same everywhere"
)
@pytest.mark.parametrize(
    ("first", "step"), [(0, 4), *(pytest.param(i, 4, marks=pytest.mark.slow) for i in (1, 2, 3))]
)
def test_llvm_has_the_same_features(first: int, step: int) -> None:
    """Each feature that the table gives is there, and none that it leaves out."""
    cases: list[tuple[str, str, bool]] = []
    inputs: list[tuple[str, str, str, str]] = []
    for name in NAMES[first::step]:
        target = processor(name)
        if name == host().cpu:  # the features of the machine, which may be a virtual one with fewer
            continue
        architecture = target.architecture
        for feature in PROBES[architecture]:
            cases.append((name, feature, target.has(feature)))
            inputs.append((target.triple, target.cpu, *probe(architecture, feature)))
    done = subprocess.run(
        [sys.executable, "-c", FORK], input=json.dumps(inputs), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    wrong = [
        f"{name}: {feature} is {'on' if has else 'off'} in the table and not in LLVM"
        for (name, feature, has), found in zip(cases, json.loads(done.stdout), strict=True)
        if has is not found
    ]
    assert not wrong, "\n".join(wrong)


@tritium.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * n + i, row / tl.sum(row, 0), mask=i < n)


@tritium.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    c = tl.dot(tl.load(a + m[:, None] * K + k), tl.load(b + k[:, None] * N + n))
    tl.atomic_add(out + m[:, None] * N + n, c)


SOURCES = {
    "softmax": ASTSource(softmax, {"x": "*bf16", "out": "*fp32", "n": "i32"}, {"BLOCK": 512}),
    "product": ASTSource(
        product, {"a": "*fp16", "b": "*fp16", "out": "*fp32"}, {"M": 32, "N": 32, "K": 64}
    ),
}
PROVIDED = {"memcpy", "memset", "memmove", "_memcpy", "_memset", "_memmove"} | {
    "__chkstk", "_fltused"
}
"""Functions of every C library, by their names in each object format."""


def undefined(code: bytes) -> set[str]:
    """Symbols that an object, Mach-O or COFF of 64 bits, needs from elsewhere."""
    if code[:4] == b"\xcf\xfa\xed\xfe":
        return _undefined_macho(code)
    symbols, count = struct.unpack_from("<II", code, 8)
    strings, found, skip = symbols + 18 * count, set[str](), 0
    for index in range(count):
        raw = code[symbols + 18 * index : symbols + 18 * (index + 1)]
        if skip:
            skip -= 1
            continue
        value, section, _, storage, skip = struct.unpack_from("<IhHBB", raw, 8)
        if section == 0 and storage == 2 and value == 0:
            name = raw[:8].rstrip(b"\0")
            if raw[:4] == b"\0\0\0\0":
                start = strings + struct.unpack_from("<I", raw, 4)[0]
                name = code[start : code.index(b"\0", start)]
            found.add(name.decode())
    return found


def _undefined_macho(code: bytes) -> set[str]:
    (commands,) = struct.unpack_from("<I", code, 16)
    at, found = 32, set[str]()
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", code, at)
        if kind == 2:  # LC_SYMTAB
            symbols, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for index in range(count):
                name, type, _, _, _ = struct.unpack_from("<IBBHQ", code, symbols + 16 * index)
                if type & 0x0E == 0:  # N_UNDF
                    start = strings + name
                    found.add(code[start : code.index(b"\0", start)].decode())
        at += size
    return found


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "arch", ["apple-m1", "haswell:x86_64-pc-windows-msvc", "cortex-a76:aarch64-pc-windows-msvc"]
)
@pytest.mark.parametrize("name", SOURCES)
def test_objects_of_other_systems_need_no_library(name: str, arch: str) -> None:
    kernel = tritium.compile(SOURCES[name], target=GPUTarget("cpu", arch, 1))
    assert undefined(kernel.asm["obj"]) <= PROVIDED
    with pytest.raises(RuntimeError, match=r"is compiled for .* this machine, .* cannot run it"):
        kernel[(1,)](None, None, 1)


@tritium.jit
def shout(x):
    tl.device_print("x", tl.load(x))


@tritium.jit
def wait(x):
    tl.store(x + 1, tl.atomic_poll(x, 1, timeout_ns=100).to(tl.int32))


def test_functions_of_other_systems() -> None:
    windows, macos = "haswell:x86_64-pc-windows-msvc", "haswell:x86_64-apple-darwin"
    printing, waiting = (ASTSource(f, {"x": "*i32"}, {}) for f in (shout, wait))
    with pytest.raises(NotImplementedError, match=r"tt\.print on Windows") as error:
        tritium.compile(printing, target=GPUTarget("cpu", windows, 1))
    assert Path(__file__).name in str(error.value)
    kernel = tritium.compile(printing, target=GPUTarget("cpu", macos, 1))
    assert undefined(kernel.asm["obj"]) == {"_fflush", "_printf"}
    kernel = tritium.compile(waiting, target=GPUTarget("cpu", windows, 1))
    performance = {"QueryPerformanceCounter", "QueryPerformanceFrequency"}
    assert undefined(kernel.asm["obj"]) - PROVIDED == performance
    kernel = tritium.compile(waiting, target=GPUTarget("cpu", macos, 1))
    assert undefined(kernel.asm["obj"]) == {"_clock_gettime"}


@pytest.mark.parametrize(
    ("arch", "has", "lacks"),
    [("x86-64", "%xmm", "%ymm"), ("haswell", "vfmadd", "%zmm"), ("skylake-avx512", "%zmm", "vdpbf"),
     ("cooperlake", "%zmm", "tmm"), ("neoverse-n1", "fmla", "xmm")],
)  # fmt: skip
def test_code_is_for_the_named_processor(arch: str, has: str, lacks: str) -> None:
    kernel = tritium.compile(SOURCES["product"], target=GPUTarget("cpu", arch, 1))
    assert kernel.metadata.target == GPUTarget("cpu", arch, 1) and kernel.metadata.arch == arch
    assert has in kernel.asm["asm"] and lacks not in kernel.asm["asm"]


@tritium.jit
def of_halves(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    less = tl.where(x < y, x, tl.abs(y))
    tl.store(out + i, tl.fma(x, y, (x + y) * x) - less)
    tl.store(out + N + i, tl.maximum(x, y))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("arch", "sum"), [("sapphirerapids", "vaddph"), ("cortex-a76", "fadd.*8h")]
)
def test_sums_of_fp16_are_not_converted(arch: str, sum: str) -> None:
    kinds = dict.fromkeys(("a", "b", "out"), "*fp16")
    source = ASTSource(of_halves, kinds, {"N": 128})
    text = tritium.compile(source, target=GPUTarget("cpu", arch, 1)).asm["asm"]
    assert re.search(sum, text) and not re.search(r"vaddps|fadd.*4s", text)
    older = {"sapphirerapids": "icelake-server", "cortex-a76": "cortex-a72"}[arch]
    assert not re.search(sum, tritium.compile(source, target=GPUTarget("cpu", older, 1)).asm["asm"])


def test_fp16_is_rounded_after_each_operation() -> None:
    """Numbers of all exponents, and signaling NaNs, which maxima leave out."""
    rng, size = np.random.default_rng(11), 4096
    a, b = (rng.integers(0, 1 << 16, size).astype(np.uint16).view(np.float16) for _ in range(2))
    out = np.zeros((2, size), np.float16)
    of_halves[(1,)](a, b, out, size)
    with np.errstate(all="ignore"):
        exact = a.astype(np.float64) * b + (a + b) * a  # doubles: nothing here is near a tie
        expected = exact.astype(np.float16) - np.where(a < b, a, np.abs(b))
    np.testing.assert_array_equal(out[0], expected)
    np.testing.assert_array_equal(out[1], np.fmax(a, b))


@tritium.jit
def after(a, x, b, y):
    return a * b, x * b + y


@tritium.jit
def recurrence(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    parts = tl.full((N,), 0.5, tl.float32), tl.load(x + at)
    tl.store(out + at, tl.associative_scan(parts, 0, after)[1])


@pytest.mark.parametrize(("arch", "hides"), [("haswell", False), ("skylake-avx512", True)])
def test_lanes_that_are_replaced_are_hidden_from_llvm_where_registers_are_permuted(
    arch: str, hides: bool
) -> None:
    source = ASTSource(recurrence, {"x": "*fp32", "out": "*fp32"}, {"N": 64})
    kernel = tritium.compile(source, target=GPUTarget("cpu", arch, 1))
    assert ('asm ""' in kernel.asm["llir"]) == hides


@pytest.mark.parametrize("arch", ["haswell", "skylake-avx512", "neoverse-n1"])
def test_the_inner_loop_of_a_product_begins_at_a_line(arch: str) -> None:
    kernel = tritium.compile(SOURCES["product"], target=GPUTarget("cpu", arch, 1))
    assert re.search(r"\.p2align\s+6\b.*\n\.LBB", kernel.asm["asm"])


SUMS = """
define void @f(ptr %p, ptr %q, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = phi float [ 0.0, %entry ], [ %s, %loop ]
  %y = phi float [ 0.0, %entry ], [ %t, %loop ]
  %a = getelementptr float, ptr %p, i64 %i
  %b = getelementptr float, ptr %q, i64 %i
  %l = load float, ptr %a
  %s = fmul float %l, %x
  %m = load float, ptr %b
  %t = fmul float %m, %y
  %k = fadd float %t, %s
  store float %k, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.mark.parametrize(
    ("arch", "first", "second"),
    [("znver3", "vaddss", "incq"), ("cortex-a57", "movi\td0", "mov\tx8, xzr")],
)
def test_code_for_x86_64_is_not_scheduled_behind_register_allocation(
    arch: str, first: str, second: str
) -> None:
    """It is for others: LLVM then moves what needs no registers of floats."""
    text = assembly(SUMS, processor=processor(arch))
    assert re.search(f"{first}.*{second}", text, re.DOTALL), text


ROWS = """
define <8 x float> @f(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = phi <8 x float> [ zeroinitializer, %entry ], [ %s, %loop ]
  %short = trunc i64 %i to i32
  %offset = mul i32 %short, 64
  %wide = sext i32 %offset to i64
  %a = getelementptr inbounds i32, ptr %p, i64 %wide
  %l = load <8 x float>, ptr %a, align 4
  %s = fadd <8 x float> %l, %x
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret <8 x float> %s
}
"""
"""The sum of a tile along its first axis, as the lowering writes it."""


@pytest.mark.parametrize("arch", ["znver3", "x86-64-v4", "cortex-a57"])
def test_addresses_of_rows_are_carried_by_loops(arch: str) -> None:
    text = assembly(ROWS, processor=processor(arch))
    loop = text[text.index("LBB0_1:") :]
    assert not re.search("movslq|cltq|sxtw|imul|shl|lsl", loop), text


def test_each_processor_has_its_own_cache_entry() -> None:
    names = ("native", *({"x86-64", "haswell", "apple-m1"} - {host().cpu}))  # which is `native`
    targets = [GPUTarget("cpu", arch, 1) for arch in names]
    kernels = [tritium.compile(SOURCES["softmax"], target=target) for target in targets]
    assert len({k.hash for k in kernels}) == len(names)
    for one, other in itertools.combinations(kernels, 2):
        assert one.asm["obj"] != other.asm["obj"]


@pytest.mark.parametrize("arch", ["x86-64", "x86-64-v2", "sandybridge", "x86-64-v3", "x86-64-v4"])
def test_runs_where_the_machine_has_all_features(arch: str) -> None:
    if not host().runs_code_of(processor(arch)):
        pytest.skip(f"this machine does not run code for {arch}")
    rng = np.random.default_rng(5)
    x, out = rng.standard_normal((3, 300), np.float32), np.zeros((3, 300), np.float32)
    kernel = softmax[(3,)](x, out, 300, BLOCK=512, arch=arch)
    assert kernel.metadata.arch == arch
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=2e-6)
    a, b = rng.integers(-4, 5, (32, 64)), rng.integers(-4, 5, (64, 32))
    c = np.zeros((32, 32), np.float32)
    product[(2,)](a.astype(np.float16), b.astype(np.float16), c, M=32, N=32, K=64, arch=arch)
    np.testing.assert_array_equal(c, 2 * (a @ b))


@tritium.jit
def sorted_block(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.flip(tl.sort(tl.load(x + i))))


def test_runs_where_the_cache_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch beyond the second cache costs time, and stops nothing: also not where a processor
    with a larger one was compiled for."""
    small = replace(host(), l2=4096)
    monkeypatch.setattr("tritium.backends.cpu.driver.host", lambda: small)
    x = np.random.default_rng(3).standard_normal(4096).astype(np.float32)
    out = np.zeros_like(x)
    kernel = sorted_block[(1,)](x, out, 4096)
    assert kernel.metadata.shared > small.l2
    np.testing.assert_array_equal(out, np.sort(x)[::-1])


def test_the_knob_goes_before_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "haswell")
    kernel = tritium.compile(SOURCES["product"], target=GPUTarget("cpu", "x86-64", 1))
    assert kernel.metadata.arch == "haswell" and "vfmadd" in kernel.asm["asm"]


@pytest.mark.parametrize(
    ("arch", "message"),
    [("no-such-cpu", r"no processor 'no-such-cpu' is known; there are 'native' .*, x86-64,"),
     (90, "no processor '90' is known"),
     ("haswell:arm64-apple-darwin", "'haswell' is a processor of x86_64, which the triple")],
)  # fmt: skip
def test_unknown_processors(arch: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tritium.compile(SOURCES["softmax"], target=GPUTarget("cpu", arch, 1))


def test_a_machine_with_fewer_features_refuses() -> None:
    """Before the code is loaded, with the features that are missing."""
    own = set(host().features)
    names = ("graniterapids", "znver5")
    lacking = next((name for name in names if set(processor(name).features) - own), None)
    if lacking is None or host().architecture != "x86_64":
        pytest.skip("this machine runs code for every x86 processor")
    kernel = tritium.compile(SOURCES["softmax"], target=GPUTarget("cpu", lacking, 1))
    message = rf"'softmax' is compiled for '{lacking}'.*: it lacks \w+"
    with pytest.raises(RuntimeError, match=message):
        kernel[(1,)](np.zeros(512, np.uint16), np.zeros(512, np.float32), 512)
