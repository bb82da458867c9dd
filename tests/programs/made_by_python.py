"""Kernels that Python makes: by `exec` from text, by a function of functions, in a class; and what they are called with."""
# ruff: noqa: E501  (lines as long as such programs have them)

import enum
import linecache
from typing import NamedTuple

import torch
import triton
import triton.language as tl

TEMPLATE = '''
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def {name}(in0, in1, out, numel, BLOCK : tl.constexpr):
    # generated
    offs = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)[:]
    m = offs < numel
    t0 = tl.load(in0 + (offs), m)
    t1 = tl.load(in1 + (offs), m)
    t2 = {expression}
    tl.store(out + (offs), t2, m)
'''

EXPRESSIONS = {
    "libdevice.pow(tl.abs(t0), t1)": lambda a, b: a.abs() ** b,
    "tl.where(t0 > t1, t0, -t1).to(tl.float16).to(tl.float32)": lambda a, b: torch.where(a > b, a, -b).half().float(),
    "tl.full([1], 2.0, tl.float32) * t0 + (-t1 if BLOCK > 64 else t1)": lambda a, b: 2 * a + b,
}


def check_generated_text(device):
    torch.manual_seed(0)
    a, b = torch.randn(50, device=device), torch.randn(50, device=device)
    for number, (expression, meaning) in enumerate(EXPRESSIONS.items()):
        name, file = f"generated_{number}", f"<generated {number}>"
        text = TEMPLATE.format(name=name, expression=expression)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names = {}
        exec(compile(text, file, "exec"), names)
        out = torch.empty_like(a)
        names[name][(1,)](a, b, out, 50, BLOCK=64)
        torch.testing.assert_close(out, meaning(a, b))


@triton.jit
def relu(x, scale):
    return tl.maximum(x, 0.0)


@triton.jit
def scaled(x, scale):
    """The product."""
    return x * scale


def elementwise(function, scale):
    scale = tl.constexpr(scale)

    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, function(tl.load(x + i, mask=i < n), scale), mask=i < n)

    return kernel


@triton.jit
def _epilogues_kernel(x, y, n, scale, EPILOGUES: tl.constexpr, WEIGHTS: tl.constexpr, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    for e in tl.static_range(len(EPILOGUES)):
        value = EPILOGUES[e](value, scale)
    total = tl.zeros_like(value)
    for w in tl.static_range(0, len(WEIGHTS)):
        if WEIGHTS[w] % 2 == 0:
            total += value * WEIGHTS[w]
        else:
            total -= value / WEIGHTS[w]
    tl.store(y + i, total, mask=i < n)


def check_functions_of_functions(device):
    torch.manual_seed(0)
    x = torch.randn(77, device=device)
    y = torch.empty_like(x)
    three, five = elementwise(scaled, 3), elementwise(scaled, 5)
    for kernel, want in ((three, x * 3), (five, x * 5), (three, x * 3), (elementwise(relu, 0), x.relu())):
        kernel[(2,)](x, y, 77, BLOCK=64)
        torch.testing.assert_close(y, want)
    for functions, weights, want in (
        ((scaled, relu), (1, 2), (x * 1.5).relu()), ((), (4, 3, 2), x * (4 - 1 / 3 + 2)),
    ):  # fmt: skip
        _epilogues_kernel[(2,)](x, y, 77, 1.5, EPILOGUES=functions, WEIGHTS=weights)
        torch.testing.assert_close(y, want)


class Mode(enum.IntEnum):
    ADD = 0
    MULTIPLY = 1


class Strides(NamedTuple):
    row: object
    column: object


class Matrix(NamedTuple):
    pointer: object
    strides: Strides


@triton.jit
def _at(matrix, i, j):
    return matrix.pointer + i[:, None] * matrix.strides.row + j[None, :] * matrix.strides.column


class InPlace:
    @staticmethod
    @triton.jit
    def _kernel(a, b, M, N, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
        i = tl.program_id(0) * BM + tl.arange(0, BM)
        j = tl.program_id(1) * BN + tl.arange(0, BN)
        mask = (i[:, None] < M) & (j[None, :] < N)
        x = tl.load(_at(a, i, j), mask)
        y = tl.load(_at(b, i, j), mask)
        if MODE == 1:
            x *= y
        else:
            x += y
        tl.store(_at(a, i, j), x, mask)

    def __call__(self, a, b, mode):
        M, N = a.shape
        a, b = (Matrix(t, Strides(*t.stride())) for t in (a, b))
        self._kernel[triton.cdiv(M, 8), triton.cdiv(N, 16)](a, b, M, N, MODE=mode, BM=8, BN=16)


def check_kernel_of_a_class(device):
    torch.manual_seed(0)
    a, b = torch.randn(11, 20, device=device), torch.randn(20, 11, device=device).t()
    for mode, want in ((Mode.MULTIPLY, a * b), (Mode.ADD, a * b + b)):
        InPlace()(a, b, mode)
        torch.testing.assert_close(a, want)


@triton.jit
def _classified(x, low, high=10):
    if x < low:
        return -1, x * 2
    if x > high:
        return 1, x // 2
    return 0, x


@triton.jit
def _doubled(x, times: tl.constexpr):
    if times == 0:
        return x
    else:
        return _doubled(x * 2 + 1, times - 1)


@triton.jit
def _scalars_kernel(x, out, n, TIMES: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    kind, value = _classified(tl.load(x + pid), 3)
    again, value = _classified(value, low=4, high=6)
    total = 0
    i = 0
    while i < value:
        if i % 3 == 0:
            i += 2
            total += i
        else:
            if i % 5 == 0:
                total -= 1
            i += 1
    tl.store(out + pid * 4, kind)
    tl.store(out + pid * 4 + 1, again)
    tl.store(out + pid * 4 + 2, total)
    tl.store(out + pid * 4 + 3, _doubled(value, TIMES))


def check_scalar_control(device):
    x = torch.arange(-4, 40, dtype=torch.int32, device=device)
    out = torch.full((len(x) + 2, 4), 99, dtype=torch.int32, device=device)
    _scalars_kernel[(len(x) + 2,)](x, out, len(x), TIMES=3)

    def classified(v, low, high=10):
        return (-1, v * 2) if v < low else (1, v // 2) if v > high else (0, v)

    want = []
    for v in x.tolist():
        kind, value = classified(v, 3)
        again, value = classified(value, 4, 6)
        total = i = 0
        while i < value:
            if i % 3 == 0:
                i += 2
                total += i
            else:
                total -= i % 5 == 0
                i += 1
        want.append([kind, again, total, value * 8 + 7])
    assert out.tolist() == [*want, [99] * 4, [99] * 4]
