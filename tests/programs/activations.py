"""SwiGLU, GEGLU and rotary embeddings: forward and backward, as training libraries write them."""

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.libdevice import tanh
except ModuleNotFoundError:
    from triton.language.extra.cuda.libdevice import tanh


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _swiglu_forward_kernel(a_ptr, b_ptr, c_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):  # fmt: skip # noqa: E501
    program_id = tl.program_id(0).to(tl.int64)
    a_ptr += program_id * stride
    b_ptr += program_id * stride
    c_ptr += program_id * stride
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    a_row = tl.load(a_ptr + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + col_offsets, mask=mask, other=0)
    c_row = silu(a_row).cast(b_row.dtype) * b_row
    tl.store(c_ptr + col_offsets, c_row, mask=mask)


@triton.jit
def _swiglu_backward_kernel(
    dc_ptr, a_ptr, b_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    program_id = tl.program_id(0).to(tl.int64)
    dc_ptr += program_id * stride
    a_ptr += program_id * stride
    b_ptr += program_id * stride
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dc_row = tl.load(dc_ptr + col_offsets, mask=mask, other=0)
    a_row = tl.load(a_ptr + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + col_offsets, mask=mask, other=0)
    sig_a = tl.sigmoid(a_row)
    silu_a = a_row * sig_a
    db_row = dc_row * silu_a
    da_row = dc_row * (silu_a * (1 - sig_a) + sig_a) * b_row
    tl.store(a_ptr + col_offsets, da_row, mask=mask)
    tl.store(b_ptr + col_offsets, db_row, mask=mask)


def check_swiglu(device):
    torch.manual_seed(0)
    for dtype, tol in ((torch.float32, 1e-5), (torch.bfloat16, 4e-2)):
        a, b, dc = torch.randn(3, 23, 130, device=device, dtype=dtype)
        c = torch.empty_like(a)
        _swiglu_forward_kernel[(23,)](a, b, c, c.stride(-2), n_cols=130, BLOCK_SIZE=256)
        ad, bd = a.double().requires_grad_(), b.double().requires_grad_()
        want = torch.nn.functional.silu(ad) * bd
        torch.testing.assert_close(c.double(), want, atol=tol, rtol=tol)
        da, db = torch.autograd.grad(want, (ad, bd), dc.double())
        _swiglu_backward_kernel[(23,)](dc, a, b, c.stride(-2), n_cols=130, BLOCK_SIZE=256)
        torch.testing.assert_close(a.double(), da, atol=tol, rtol=tol)
        torch.testing.assert_close(b.double(), db, atol=tol, rtol=tol)


@triton.jit
def _geglu_kernel(a, b, c, dc, stride, n_cols: tl.constexpr, BACKWARD: tl.constexpr, BLOCK_SIZE: tl.constexpr):  # fmt: skip # noqa: E501
    program_id = tl.program_id(0).to(tl.int64)
    offsets = program_id * stride + tl.arange(0, BLOCK_SIZE)
    mask = tl.arange(0, BLOCK_SIZE) < n_cols
    a_row = tl.load(a + offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + offsets, mask=mask, other=0)
    sqrt_2_over_pi = 0.7978845608028654
    a_cubed = a_row * a_row * a_row
    tanh_arg = sqrt_2_over_pi * (a_row + 0.044715 * a_cubed)
    tanh_result = tanh(tanh_arg)
    geglu_a = 0.5 * a_row * (1 + tanh_result)
    if not BACKWARD:
        tl.store(c + offsets, geglu_a.cast(b_row.dtype) * b_row, mask=mask)
    else:
        dc_row = tl.load(dc + offsets, mask=mask, other=0)
        db_row = dc_row * geglu_a
        term1 = 0.5 * (1 + tanh_result)
        tanh_sq = tanh_result * tanh_result
        term2 = 0.5 * a_row * (1 - tanh_sq) * (sqrt_2_over_pi * (1 + 3 * 0.044715 * a_row * a_row))
        tl.store(a + offsets, dc_row * b_row * (term1 + term2), mask=mask)
        tl.store(b + offsets, db_row, mask=mask)


def check_geglu(device):
    torch.manual_seed(0)
    a, b, dc = torch.randn(3, 23, 130, device=device)
    c = torch.empty_like(a)
    _geglu_kernel[(23,)](a, b, c, None, c.stride(-2), n_cols=130, BACKWARD=False, BLOCK_SIZE=256)
    ad, bd = a.double().requires_grad_(), b.double().requires_grad_()
    want = torch.nn.functional.gelu(ad, approximate="tanh") * bd
    torch.testing.assert_close(c.double(), want, atol=1e-5, rtol=1e-5)
    da, db = torch.autograd.grad(want, (ad, bd), dc.double())
    _geglu_kernel[(23,)](a, b, c, dc, c.stride(-2), n_cols=130, BACKWARD=True, BLOCK_SIZE=256)
    torch.testing.assert_close(a.double(), da, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(b.double(), db, atol=1e-5, rtol=1e-5)


@triton.jit
def _turn(x1, x2, cos, sin, BACKWARD: tl.constexpr):
    """Rotate pairs by an angle, or by its negative."""
    if BACKWARD:
        sin = -sin
    return x1 * cos - x2 * sin, x2 * cos + x1 * sin


@triton.jit
def _rope_kernel(
    q_ptr, q_stride, k_ptr, k_stride, cos_ptr, sin_ptr, table_stride, length,
    COS_BATCHES: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, DIM: tl.constexpr,
    Q_PAD: tl.constexpr, K_PAD: tl.constexpr, DIM_PAD: tl.constexpr,
    BACKWARD: tl.constexpr = False,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    q_ptr = q_ptr + token * q_stride
    k_ptr = k_ptr + token * k_stride
    place = token % length
    row = tl.where(COS_BATCHES == 1, place, (token // length) * length + place) * table_stride
    half = tl.arange(0, DIM_PAD // 2)
    cos = tl.load(cos_ptr + row + half, mask=half < DIM // 2, other=0)
    sin = tl.load(sin_ptr + row + half, mask=half < DIM // 2, other=0)
    first = tl.arange(0, Q_PAD)[:, None] * DIM + half[None, :]
    mask = (tl.arange(0, Q_PAD)[:, None] < Q_HEADS) & (half[None, :] < DIM // 2)
    x1 = tl.load(q_ptr + first, mask=mask, other=0).to(sin.dtype)
    x2 = tl.load(q_ptr + (first + DIM // 2), mask=mask, other=0).to(sin.dtype)
    y1, y2 = _turn(x1, x2, cos, sin, BACKWARD)
    tl.store(q_ptr + first, y1, mask=mask)
    tl.store(q_ptr + (first + DIM // 2), y2, mask=mask)
    first = tl.arange(0, K_PAD)[:, None] * DIM + half[None, :]
    mask = (tl.arange(0, K_PAD)[:, None] < K_HEADS) & (half[None, :] < DIM // 2)
    x1 = tl.load(k_ptr + first, mask=mask, other=0).to(sin.dtype)
    x2 = tl.load(k_ptr + (first + DIM // 2), mask=mask, other=0).to(sin.dtype)
    y1, y2 = _turn(x1, x2, cos, sin, BACKWARD)
    tl.store(k_ptr + first, y1, mask=mask)
    tl.store(k_ptr + (first + DIM // 2), y2, mask=mask)


def rope(q, k, cos, sin, backward=False):
    q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
    batch, seq, n_qh, hd = q.shape
    n_kh = k.shape[2]
    pad = triton.next_power_of_2
    _rope_kernel[(batch * seq,)](
        q, q.stride(1), k, k.stride(1), cos, sin, cos.stride(-2), seq, cos.shape[0],
        n_qh, n_kh, hd, pad(n_qh), pad(n_kh), pad(hd), BACKWARD=backward,
    )  # fmt: skip
    return q.transpose(1, 2), k.transpose(1, 2)


def check_rope(device):
    torch.manual_seed(0)
    for dtype, tol in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2)):
        q = torch.randn(2, 6, 5, 24, device=device, dtype=dtype)
        k = torch.randn(2, 2, 5, 24, device=device, dtype=dtype)
        angle = torch.outer(torch.arange(5.0), 1.0 / 10000 ** (torch.arange(0, 24, 2) / 24))
        emb = torch.cat((angle, angle), dim=-1)[None].to(device)
        cos, sin = emb.cos().to(dtype), emb.sin().to(dtype)
        rotate = lambda x: torch.cat((-x[..., 12:], x[..., :12]), dim=-1)  # noqa: E731
        got_q, got_k = rope(q, k, cos, sin)
        for got, x in ((got_q, q), (got_k, k)):
            want = x * cos[:, None] + rotate(x) * sin[:, None]
            torch.testing.assert_close(got, want, atol=tol, rtol=tol)
        back_q, _ = rope(got_q, got_k, cos, sin, backward=True)
        torch.testing.assert_close(back_q, q, atol=tol, rtol=tol)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_swiglu(device)
    check_geglu(device)
    check_rope(device)
    print("activations: right")
