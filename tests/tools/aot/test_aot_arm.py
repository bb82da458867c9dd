"""Ahead of time for AArch64: a C program that calls objects and libraries runs under qemu.

`make test-arm` installs what it needs: `gcc-aarch64-linux-gnu` for the program that calls, and
`qemu-user`. The objects and libraries are Tritium's own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tritium.tools import compile as tool

COMPILER, EMULATOR = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
SYSTEM = Path("/usr/aarch64-linux-gnu")
pytestmark = pytest.mark.skipif(
    COMPILER is None or EMULATOR is None, reason="needs gcc-aarch64-linux-gnu and qemu-user"
)

KERNELS = '''
import tritium, tritium.language as tl

@tritium.jit
def every(b8, s16, half, brain, f, d, s64, out, flag, a8, a16, a32, a64, u8, u16, u32, u64, x, y,
          one, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(b8 + i, mask=m, other=0).to(tl.float64) + tl.load(s16 + i, mask=m, other=0)
    v += tl.load(half + i, mask=m, other=0).to(tl.float64) + tl.load(brain + i, mask=m, other=0)
    v += tl.load(f + i, mask=m, other=0) * x + tl.load(d + i, mask=m, other=0) * y
    v += tl.load(s64 + i, mask=m, other=0)
    v += a8.to(tl.float64) + a16 + a32 + a64.to(tl.float64)
    v += u8.to(tl.float64) + u16 + u32 + u64.to(tl.float64) + one
    tl.store(out + i, tl.where(flag, v, -v), mask=m)

@tritium.jit(debug=True)
def refuse(out, n):
    p = tl.program_id(0)
    tl.device_assert(p < n, "too many")
    tl.store(out + p, tl.exp(p.to(tl.float32)))

@tritium.jit
def matmul(a, b, c, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(a + m[:, None] * K + k[None, :])
        acc = tl.dot(left, tl.load(b + k[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc + tl.program_id(2))
'''
EVERY = (
    "*i8, *i16, *fp16, *bf16, *fp32:16, *fp64, *i64, *fp64, i1, i8, i16, i32:16, i64, "
    "u8, u16, u32, u64, fp32, fp64, i32:1, i32, 64"
)
KINDS = {
    "every": (EVERY, "(n + 63) / BLOCK, 1, 1"),
    "refuse": ("*fp32, i32", "n + 1, 1, 1"),
    "matmul": ("*fp32, *fp32, *fp32, i32, i32, i32, 16", "M / BLOCK, N / BLOCK, 2"),
}

PROGRAM = """
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "kernels.h"

enum { N = 1000 };
static int8_t b8[N];
static int16_t s16[N];
static uint16_t half[N], brain[N];
static _Alignas(16) float f[N];
static double d[N], out[N];
static int64_t s64[N];
#define SCALARS -100, -30000, -1600000000, -(1LL << 50), 200, 60000, 4000000000u, 1ULL << 40
#define SUM (-100.0 - 30000 - 1600000000.0 - 0x1p50 + 200 + 60000 + 4000000000.0 + 0x1p40 + 1)
#define ARRAYS b8, s16, half, brain, f, d, s64, out

static void fill(void) {
  for (int i = 0; i < N; i++) {
    float value = i % 128;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    b8[i] = i % 256 - 128, s16[i] = i * 30 - 15000, half[i] = 0x3C00 + i % 64;
    brain[i] = bits >> 16, f[i] = i * 0.5f, d[i] = -i * 3.25, s64[i] = (int64_t)i << 30;
    out[i] = 0;
  }
}

static int wrong(double sign) {
  int count = 0;
  for (int i = 0; i < N; i++) {
    double v = b8[i] + (double)s16[i] + (1 + (i % 64) / 1024.0) + i % 128 + f[i] * 0.5 + d[i] * 0.25
      + (double)s64[i] + SUM;
    count += !(fabs(sign * v - out[i]) < 1);
  }
  fill();
  return count;
}

static void *some(void *begin) {
  int64_t first = (intptr_t)begin;
  return (void *)(intptr_t)every_programs(16, 1, 1, first, first + 4, ARRAYS, 1, SCALARS, 0.5f,
                                          0.25, N);
}

static void *fail(void *_) {
  float values[8];
  return (void *)(intptr_t)refuse(0, values, 7);
}

static intptr_t threads(void *(*work)(void *)) {
  pthread_t running[4];
  intptr_t all = 0;
  for (intptr_t k = 0; k < 4; k++) pthread_create(&running[k], 0, work, (void *)(k * 4));
  for (int k = 0; k < 4; k++) {
    void *status;
    pthread_join(running[k], &status);
    all += (intptr_t)status;
  }
  return all;
}

int main(void) {
  fill();
  for (int flag = 0; flag < 3; flag++) {
    int status = every(0, ARRAYS, flag, SCALARS, 0.5f, 0.25, N);
    printf("every %d %d\\n", status, wrong(flag ? 1 : -1));
  }
  intptr_t status = threads(some);
  printf("threads %d %d\\n", (int)status, wrong(1));

  float values[8] = {0};
  int32_t program[3] = {9, 9, 9};
  printf("refuse %d", refuse(0, values, -1));
  printf(" %d\\n", refuse_failure(program) == 0);
  printf("refuse %d", refuse(0, values, 4));
  const char *text = refuse_failure(program);
  printf(" %.8s [%d %d %d] %.3f\\n", text, program[0], program[1], program[2], values[3]);
  printf("refuse %d", (int)threads(fail));
  text = refuse_failure(program);
  printf(" %.8s [%d %d %d]\\n", text, program[0], program[1], program[2]);

  static float a[32 * 32], b[32 * 32], c[32 * 32];
  int bad = 0;
  for (int i = 0; i < 32 * 32; i++) a[i] = i % 7 - 3, b[i] = i % 5 - 2;
  printf("matmul %d", matmul(0, a, b, c, 32, 32, 32));
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 32; j++) {
      float sum = 1;
      for (int k = 0; k < 32; k++) sum += a[i * 32 + k] * b[k * 32 + j];
      bad += sum != c[i * 32 + j];
    }
  printf(" %d\\n", bad);
  return 0;
}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("object", [True, False], ids=["objects", "libraries"])
@pytest.mark.parametrize("processor", ["cortex-a53", "neoverse-v2"])
def test_a_c_program_calls_kernels(tmp_path: Path, object: bool, processor: str):
    assert COMPILER is not None and EMULATOR is not None
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "main.c").write_text(PROGRAM)
    lines, binaries = [], []
    for kernel, (signature, grid) in KINDS.items():
        args = tool.CompileArgs(
            str(tmp_path / "kernels.py"), kernel, signature, grid, f"cpu:{processor}",
            out_path=tmp_path / kernel, object=object,
        )  # fmt: skip
        name, (header, binary) = tool.compile_kernel(args)
        lines += [f'#include "{header.name}"', f"#define {kernel} {name}"]
        lines += [f"#define {kernel}_{word} {name}_{word}" for word in ("programs", "failure")]
        binaries.append(binary.name)
    (tmp_path / "kernels.h").write_text("\n".join(lines) + "\n")
    command = [COMPILER, "-Wall", "-Werror", "-o", "main", "main.c", *binaries, "-lm", "-pthread"]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)
    done = subprocess.run([EMULATOR, "-cpu", "max" if "v2" in processor else processor,
                           "-L", SYSTEM, "main"],
                          cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.splitlines() == [
        "every 0 0", "every 0 0", "every 0 0", "threads 0 0",
        "refuse 0 1", "refuse 2 too many [4 0 0] 20.086", "refuse 8 too many [7 0 0]",
        "matmul 0 0",
    ]  # fmt: skip
