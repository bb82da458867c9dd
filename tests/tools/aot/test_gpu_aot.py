"""C programs that launch kernels compiled ahead of time on a GPU, with no Python in the process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cuda_toolkit import COMPILER, driver_library, header_folder
from tests.tools.aot.test_aot import KERNELS
from tritium.backends.active import driver
from tritium.tools import compile as tool
from tritium.tools.link import link

pytestmark = pytest.mark.gpu

ADD = "*fp32:16, *fp32, *fp32, i32, fp32, 256"
MATMUL = "*fp32:16, *fp32:16, *fp32:16, i32, i32, i32, i32, 32"
PROGRAM = """
#include "add_all.h"
#include "matmul_all.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#define CHECK(call) check(call, #call)
static void check(CUresult status, const char *call) {
  if (status) { printf("%s: %d\\n", call, status); exit(3); }
}
enum { N = 5000, M = 64 };
static float x[N], y[N], z[N];

static CUdeviceptr given(const float *data, size_t bytes) {
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, bytes));
  CHECK(cuMemcpyHtoD(place, data, bytes));
  return place;
}

int main(void) {
  CUdevice device; CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < N; i++) { x[i] = i % 97; y[i] = i % 31; }
  CUdeviceptr a = given(x, sizeof x), b = given(y, sizeof y), c = given(z, sizeof z);
  int wrong = 0;
  for (int part = 0; part < 2; part++) {  /* the second time with pointers that are not aligned */
    int n = N - part;
    CHECK(add_default(0, a + 4 * part, b, c, n, 0.5f));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(z, c, sizeof z));
    for (int i = 0; i < n; i++) wrong += z[i] != x[i + part] + 0.5f * y[i];
  }
  for (int i = 0; i < N; i++) { x[i] = (i % 5) * 0.125f; y[i] = (i % 3) * 0.25f; }
  CHECK(cuMemcpyHtoD(a, x, sizeof x));
  CHECK(cuMemcpyHtoD(b, y, sizeof y));
  CHECK(matmul_default(0, a, b, c, M, M, M, 1));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoH(z, c, sizeof z));
  for (int m = 0; m < M; m++) for (int n = 0; n < M; n++) {
    float sum = 0;
    for (int k = 0; k < M; k++) sum += x[m * M + k] * y[k * M + n];
    wrong += fabsf(z[m * M + n] - expf(sum)) > 0.01f * expf(sum);
  }
  printf("%d wrong, no such version: %d\\n", wrong, add(0, a, b, c, N, 1.0f, 99));
  unload_add();
  unload_matmul();
  return 0;
}
"""


def test_a_c_program_launches_kernels(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(KERNELS)
    active = driver.active.get_current_target()
    target = f"{active.backend}:{active.arch}:{active.warp_size}"

    def compiled(kernel: str, signature: str, grid: str) -> list[Path]:
        place = tmp_path / kernel
        return tool.compile_kernel(tool.CompileArgs(
            str(source), kernel, signature, grid, target, num_warps=4, out_path=place
        ))[1]  # fmt: skip

    adds = [compiled("add", s, "(n + 255) / BLOCK, 1, 1") for s in (ADD, ADD.replace(":16", ""))]
    products = [compiled("matmul", MATMUL, "(M + 31) / BLOCK, (N + 31) / BLOCK, 1")]
    for name, files in (("add_all", adds), ("matmul_all", products)):
        link([header for header, _ in files], tmp_path / name)
    (tmp_path / "main.c").write_text(PROGRAM)
    include, library = header_folder(), driver_library()
    assert COMPILER is not None and include is not None and library is not None, (
        f"a C compiler, cuda.h and libcuda.so.1 are needed: {COMPILER}, {include}, {library}"
    )
    texts = [text.name for _, text in (*adds, *products)]
    command = [COMPILER, "-Wall", "-Werror", "-o", "main", "main.c", "add_all.c", "matmul_all.c",
               *texts, f"-I{include}", str(library), "-lm"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True)
    environment = {"PATH": "/nonexistent", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "0 wrong, no such version: 1\n"), done
