"""RMS norm, fused add and RMS norm, group norm: as training libraries write them."""

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.libdevice import rsqrt
except ModuleNotFoundError:
    from triton.language.math import rsqrt

_CASTING_NONE: tl.constexpr = tl.constexpr(-1)
_CASTING_LLAMA: tl.constexpr = tl.constexpr(0)
_CASTING_GEMMA: tl.constexpr = tl.constexpr(1)


@triton.jit
def _rms_norm_forward_kernel(
    Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, W_row_stride, RSTD_ptr, RSTD_row_stride,
    n_cols, eps, offset,
    casting_mode: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols

    y_base = Y_ptr + row_idx * Y_row_stride
    x_base = X_ptr + row_idx * X_row_stride
    rstd_base = RSTD_ptr + row_idx * RSTD_row_stride

    X_row = tl.load(x_base + col_offsets, mask=mask, other=0)
    X_row_dtype = X_row.dtype
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)

    if casting_mode == _CASTING_LLAMA:
        X_row = X_row.to(tl.float32)
    if casting_mode == _CASTING_GEMMA:
        W_row = W_row.to(tl.float32)
        X_row = X_row.to(tl.float32)
    if casting_mode == _CASTING_NONE:
        eps = eps.to(X_row_dtype)
        offset = offset.to(X_row_dtype)

    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = rsqrt(mean_square + eps)
    tl.store(rstd_base, rstd)
    X_row = X_row * rstd
    if casting_mode == _CASTING_LLAMA:
        X_row = X_row.to(X_row_dtype)
    Y_row = X_row * (offset + W_row)
    if casting_mode == _CASTING_GEMMA:
        Y_row = Y_row.to(X_row_dtype)
    tl.store(y_base + col_offsets, Y_row, mask=mask)


@triton.jit
def _rms_norm_backward_kernel(
    dY_ptr, dY_row_stride, dX_ptr, dX_row_stride, X_ptr, X_row_stride, X_dtype: tl.constexpr,
    W_ptr, W_row_stride, RSTD_ptr, RSTD_row_stride, dW_ptr, dW_row_stride,
    n_rows, n_cols, offset, rows_per_program,
    casting_mode: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_block_id = tl.program_id(0).to(tl.int64)
    row_start = row_block_id * rows_per_program
    row_end = min((row_block_id + 1) * rows_per_program, n_rows)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0)
    W_row = W_row + offset

    for row_idx in range(row_start, row_end):
        dy_base = dY_ptr + row_idx * dY_row_stride
        dx_base = dX_ptr + row_idx * dX_row_stride
        x_base = X_ptr + row_idx * X_row_stride
        rstd_base = RSTD_ptr + row_idx * RSTD_row_stride
        dY_row = tl.load(dy_base + col_offsets, mask=mask, other=0.0)
        X_row = tl.load(x_base + col_offsets, mask=mask, other=0.0)
        rstd_row = tl.load(rstd_base)
        X_row = X_row.to(tl.float32)
        if casting_mode == _CASTING_LLAMA:
            m = (dY_row * W_row).to(tl.float32)
        elif casting_mode == _CASTING_GEMMA:
            dY_row = dY_row.to(tl.float32)
            m = dY_row * W_row
        else:
            m = dY_row * W_row
        dX_row = rstd_row * m
        dX_row += (rstd_row) * (
            -(1 / n_cols) * rstd_row * rstd_row * tl.sum(m * X_row, axis=0) * X_row
        )
        if casting_mode == _CASTING_LLAMA:
            dW_row += dY_row * (X_row * rstd_row).to(X_dtype)
        else:
            dW_row += dY_row * (X_row * rstd_row)
        tl.store(dx_base + col_offsets, dX_row.to(X_dtype), mask=mask)

    tl.store(dW_ptr + row_block_id * dW_row_stride + col_offsets, dW_row, mask=mask)


torch_to_triton_dtype = {
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
}


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode=0):
        n_rows, n_cols = X.shape
        BLOCK_SIZE = triton.next_power_of_2(n_cols)
        Y = torch.empty_like(X)
        RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
        _rms_norm_forward_kernel[(n_rows,)](
            Y, Y.stride(0), X, X.stride(0), W, W.stride(0), RSTD, RSTD.stride(0),
            n_cols, eps, offset, casting_mode, BLOCK_SIZE=BLOCK_SIZE, num_warps=8,
        )  # fmt: skip
        ctx.offset, ctx.casting_mode, ctx.BLOCK_SIZE = offset, casting_mode, BLOCK_SIZE
        ctx.save_for_backward(X, W, RSTD)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        n_rows, n_cols = dY.shape
        programs = 8
        _dW = torch.empty((programs, n_cols), dtype=torch.float32, device=W.device)
        dX = torch.empty_like(dY)
        _rms_norm_backward_kernel[(programs,)](
            dY, dY.stride(0), dX, dX.stride(0), X, X.stride(0), torch_to_triton_dtype[X.dtype],
            W, W.stride(0), RSTD, RSTD.stride(0), _dW, _dW.stride(0),
            n_rows, n_cols, ctx.offset, triton.cdiv(n_rows, programs), ctx.casting_mode,
            BLOCK_SIZE=ctx.BLOCK_SIZE, num_warps=8,
        )  # fmt: skip
        return dX, _dW.sum(dim=0).to(W.dtype), None, None, None


def check_rms_norm(device):
    torch.manual_seed(0)
    for dtype, mode, tol in ((torch.float32, 0, 1e-5), (torch.float32, -1, 1e-5),
                             (torch.bfloat16, 0, 3e-2), (torch.float16, 1, 4e-3)):  # fmt: skip
        x = torch.randn(37, 200, device=device, dtype=dtype, requires_grad=True)
        w = torch.randn(200, device=device, dtype=dtype, requires_grad=True)
        dy = torch.randn(37, 200, device=device, dtype=dtype)
        y = RMSNorm.apply(x, w, 1e-6, 0.0, mode)
        got = (y, *torch.autograd.grad(y, (x, w), dy))
        xd, wd = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
        yd = xd * torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + 1e-6) * wd
        want = (yd, *torch.autograd.grad(yd, (xd, wd), dy.double()))
        for g, r in zip(got, want):  # noqa: B905
            torch.testing.assert_close(g.double(), r, atol=tol * 10, rtol=tol)


@triton.heuristics({
    "HAS_RESIDUAL": lambda args: args["residual_ptr"] is not None,
    "BLOCK_N": lambda args: triton.next_power_of_2(args["N"]),
    "num_warps": lambda args: 4 if args["N"] < 1024 else 8,
})  # fmt: skip
@triton.jit(do_not_specialize=["eps"])
def _add_norm_kernel(
    x_ptr, residual_ptr, w_ptr, out_ptr, residual_out_ptr, stride, N, eps,
    HAS_RESIDUAL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < N, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        x += tl.load(residual_ptr + row * stride + cols, mask=cols < N, other=0.0).to(tl.float32)
    if residual_out_ptr is not None:
        tl.store(residual_out_ptr + row * stride + cols, x, mask=cols < N)
    xbar = tl.where(cols < N, x, 0.0)
    var = tl.sum(xbar * xbar, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    w = tl.load(w_ptr + cols, mask=cols < N).to(tl.float32)
    tl.store(out_ptr + row * stride + cols, x * rstd * w, mask=cols < N)


def check_add_norm(device):
    torch.manual_seed(0)
    x, r = torch.randn(2, 19, 300, device=device, dtype=torch.bfloat16)
    w = torch.randn(300, device=device)
    for residual in (None, r):
        out, res_out = torch.empty_like(x), None if residual is None else torch.empty_like(x)
        _add_norm_kernel[(19,)](x, residual, w, out, res_out, x.stride(0), 300, 1e-5)
        total = x.float() if residual is None else x.float() + residual.float()
        want = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-5) * w
        torch.testing.assert_close(out.float(), want, atol=2e-2, rtol=2e-2)
        if res_out is not None:
            torch.testing.assert_close(res_out, total.to(torch.bfloat16))


@triton.jit
def _welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * w2_over_w,
        m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w,
        new_weight,
    )


@triton.jit
def _group_norm_kernel(
    X, Y, W, B, Mean, Rstd, group_size, HxW, C, eps, num_groups: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    batch = pid // num_groups
    group = pid % num_groups
    n = group_size * HxW
    base = (batch * C + group * group_size) * HxW
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    weight = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        idx = start + tl.arange(0, BLOCK)
        m = idx < n
        x = tl.load(X + base + idx, mask=m, other=0.0).to(tl.float32)
        new_weight = weight + m.to(tl.float32)
        delta = x - mean
        new_mean = mean + tl.where(m, delta / tl.maximum(new_weight, 1.0), 0.0)
        m2 += tl.where(m, delta * (x - new_mean), 0.0)
        mean, weight = new_mean, new_weight
    mean_s, m2_s, weight_s = tl.reduce((mean, m2, weight), 0, _welford_combine)
    rstd = 1.0 / tl.sqrt(m2_s / weight_s + eps)
    tl.store(Mean + pid, mean_s)
    tl.store(Rstd + pid, rstd)
    for start in range(0, n, BLOCK):
        idx = start + tl.arange(0, BLOCK)
        m = idx < n
        channel = group * group_size + idx // HxW
        w = tl.load(W + channel, mask=m, other=0.0) if W is not None else 1.0
        b = tl.load(B + channel, mask=m, other=0.0) if B is not None else 0.0
        x = tl.load(X + base + idx, mask=m, other=0.0).to(tl.float32)
        tl.store(Y + base + idx, (x - mean_s) * rstd * w + b, mask=m)


def check_group_norm(device):
    torch.manual_seed(0)
    x = torch.randn(3, 12, 7, 5, device=device) * 3 + 10
    w, b = torch.randn(2, 12, device=device)
    for weight, bias in ((w, b), (None, None)):
        y = torch.empty_like(x)
        mean, rstd = torch.empty(2, 9, device=device)
        _group_norm_kernel[(9,)](x, y, weight, bias, mean, rstd, 4, 35, 12, 1e-5, 3, BLOCK=64)
        want = torch.nn.functional.group_norm(x, 3, weight, bias)
        torch.testing.assert_close(y, want, atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_rms_norm(device)
    check_add_norm(device)
    check_group_norm(device)
    print("norms: right")
