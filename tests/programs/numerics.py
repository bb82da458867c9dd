"""Numerical methods: an FFT of joins and splits, a factorization in one tile, pointers that take turns."""
# ruff: noqa: E501  (lines as long as such programs have them)

import torch
import triton
import triton.language as tl


@triton.jit
def _times(a, b):
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


@triton.jit
def _halves(x, N: tl.constexpr, H: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(x, (N // (2 * H), 2, H)), (0, 2, 1)))


@triton.jit
def _whole(a, b, N: tl.constexpr):
    return tl.reshape(tl.permute(tl.join(a, b), (0, 2, 1)), (N,))


@triton.jit
def _butterfly(re, im, N: tl.constexpr, H: tl.constexpr):
    r0, r1 = _halves(re, N, H)
    i0, i1 = _halves(im, N, H)
    angle = -3.14159265358979 * tl.arange(0, H).to(tl.float32) / H
    turned = _times((tl.cos(angle)[None, :], tl.sin(angle)[None, :]), (r1, i1))
    return _whole(r0 + turned[0], r0 - turned[0], N), _whole(i0 + turned[1], i0 - turned[1], N)


@triton.jit
def _fft_kernel(x_ptr, out_ptr, N: tl.constexpr, LOG: tl.constexpr):
    i = tl.arange(0, N)
    reversed_bits = tl.zeros((N,), tl.int32)
    for b in tl.static_range(LOG):
        reversed_bits |= ((i >> b) & 1) << (LOG - 1 - b)
    re = tl.load(x_ptr + tl.program_id(0) * N + reversed_bits)
    im = tl.zeros_like(re)
    for stage in tl.static_range(LOG):
        re, im = _butterfly(re, im, N, 1 << stage)
    tl.store(out_ptr + tl.program_id(0) * 2 * N + i * 2, re)
    tl.store(out_ptr + tl.program_id(0) * 2 * N + i * 2 + 1, im)


def check_fft(device):
    torch.manual_seed(0)
    for log in (1, 6):
        x = torch.randn(3, 1 << log, device=device)
        out = torch.empty(3, 1 << log, 2, device=device)
        _fft_kernel[(3,)](x, out, 1 << log, log)
        torch.testing.assert_close(torch.view_as_complex(out), torch.fft.fft(x), atol=1e-4, rtol=1e-4)


@triton.jit
def _cholesky_kernel(a_ptr, l_ptr, n, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    place = tl.program_id(0) * n * n + r[:, None] * n + r[None, :]
    inside = (r[:, None] < n) & (r[None, :] < n)
    A = tl.load(a_ptr + place, mask=inside, other=0.0)
    for j in range(n):
        column = tl.sum(tl.where(r[None, :] == j, A, 0.0), 1)
        pivot = tl.sum(tl.where(r == j, column, 0.0))
        column = tl.where(r >= j, column / tl.sqrt(pivot), 0.0)
        rest = (r[None, :] > j) & (r[:, None] > j)
        A = tl.where(rest, A - column[:, None] * column[None, :], tl.where(r[None, :] == j, column[:, None], A))
    tl.store(l_ptr + place, tl.where(r[:, None] >= r[None, :], A, 0.0), mask=inside)


def check_cholesky(device):
    torch.manual_seed(0)
    for n in (1, 13):
        x = torch.randn(3, n, n + 4, device=device)
        a = x @ x.transpose(1, 2) + 0.1 * torch.eye(n, device=device)
        lower = torch.empty_like(a)
        _cholesky_kernel[(3,)](a, lower, n, BLOCK=16)
        torch.testing.assert_close(lower, torch.linalg.cholesky(a), atol=1e-3, rtol=1e-3)


@triton.jit
def _smooth_kernel(x_ptr, y_ptr, n, iterations, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    source, target = x_ptr, y_ptr
    for _ in range(iterations):
        left = tl.load(source + i - 1, mask=(i > 0) & (i < n), other=0.0)
        right = tl.load(source + i + 1, mask=i < n - 1, other=0.0)
        middle = tl.load(source + i, mask=i < n)
        tl.store(target + i, 0.25 * left + 0.5 * middle + 0.25 * right, mask=i < n)
        tl.debug_barrier()
        source, target = target, source


@triton.jit
def _mandelbrot_kernel(out_ptr, width, height, limit, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cx = (i % width).to(tl.float32) / width * 3.0 - 2.0
    cy = (i // width).to(tl.float32) / height * 2.0 - 1.0
    zx, zy = tl.zeros_like(cx), tl.zeros_like(cy)
    count = tl.zeros((BLOCK,), dtype=tl.int32)
    live = count == 0
    turn = 0
    while turn < limit and tl.max(live.to(tl.int32)) != 0:
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        live = live & (zx * zx + zy * zy <= 4.0)
        count += live
        turn += 1
    tl.store(out_ptr + i, count, mask=i < width * height)


def check_iterations(device):
    torch.manual_seed(0)
    x = torch.randn(50, device=device)
    want = x.clone()
    for _ in range(5):
        wide = torch.nn.functional.pad(want, (1, 1))
        want = 0.25 * wide[:-2] + 0.5 * want + 0.25 * wide[2:]
    y = torch.zeros_like(x)
    _smooth_kernel[(1,)](x, y, 50, 5, BLOCK=64)
    torch.testing.assert_close(y, want)
    width, height = 20, 15
    out = torch.empty(width * height, dtype=torch.int32, device=device)
    _mandelbrot_kernel[(triton.cdiv(width * height, 64),)](out, width, height, 12, BLOCK=64)
    i = torch.arange(width * height, device=device)
    c = torch.complex((i % width).float() / width * 3 - 2, (i // width).float() / height * 2 - 1)
    z, count, live = torch.zeros_like(c), torch.zeros_like(out), torch.ones_like(i, dtype=torch.bool)
    for _ in range(12):
        z = z * z + c
        live &= z.real**2 + z.imag**2 <= 4
        count += live
    assert float((count == out).float().mean()) > 0.98


@triton.jit
def _permute_kernel(x, y, s0, s1, s2, t0, t1, t2, n1, n2, B1: tl.constexpr, B2: tl.constexpr):
    i = tl.program_id(2).to(tl.int64)
    j = tl.program_id(1).to(tl.int64) * B1 + tl.arange(0, B1)
    k = tl.program_id(0).to(tl.int64) * B2 + tl.arange(0, B2)
    inside = (j < n1)[:, None] & (k < n2)[None, :]
    value = tl.load(x + i * s0 + j[:, None] * s1 + k[None, :] * s2, mask=inside)
    tl.store(y + i * t0 + j[:, None] * t1 + k[None, :] * t2, value, mask=inside)


def check_strides(device):
    """Axes exchanged, and all of them backwards from the last element."""
    torch.manual_seed(0)
    grid = (triton.cdiv(33, 16), triton.cdiv(19, 8), 3)
    for dtype in (torch.float64, torch.bool):
        x = torch.randint(0, 2, (3, 19, 33), device=device).to(dtype)
        y = torch.zeros(33, 3, 19, dtype=dtype, device=device).permute(1, 2, 0)
        _permute_kernel[grid](x, y, *x.stride(), *y.stride(), 19, 33, B1=8, B2=16)
        assert torch.equal(y, x)
        y = torch.zeros_like(x)
        last = x.flatten()[x.numel() - 1 :]
        _permute_kernel[grid](last, y, *(-s for s in x.stride()), *y.stride(), 19, 33, B1=8, B2=16)
        assert torch.equal(y, x.flip(0, 1, 2))
