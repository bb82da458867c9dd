"""A small attention kernel as a program of its own: it knows nothing of Tritium."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * length * D
    rows = block * M + tl.arange(0, M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0)
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, (block + 1) * M, N):
        columns = start + tl.arange(0, N)
        inside = columns[:, None] < length
        k = tl.load(k_ptr + base + columns[:, None] * D + d[None, :], mask=inside, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(rows[:, None] >= columns[None, :], s, -float("inf"))
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp(s - now[:, None])
        shrink = tl.exp(largest - now)
        v = tl.load(v_ptr + base + columns[:, None] * D + d[None, :], mask=inside, other=0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(p, 1)
        largest = now
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + base + rows[:, None] * D + d[None, :], out, mask=rows[:, None] < length)


def attention(q, k, v):
    heads, length, d = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(length, 32), heads)
    attention_kernel[grid](q, k, v, out, d**-0.5, length, D=d, M=32, N=32)
    return out


def check_attention(device):
    torch.manual_seed(0)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 3e-3)):
        q, k, v = torch.randn(3, 2, 90, 32, device=device, dtype=dtype)
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(attention(q, k, v), want, atol=tolerance, rtol=tolerance)


if __name__ == "__main__":
    check_attention(triton.runtime.driver.active.get_active_torch_device())
    print("attention: right")
