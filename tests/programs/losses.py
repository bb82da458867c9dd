"""Cross entropy, its large-vocabulary variant, KL and Jensen-Shannon divergence."""

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh


@triton.jit
def cross_entropy_kernel(
    X_ptr, X_stride, Y_ptr, Y_stride, weight_ptr, loss_ptr, z_loss_ptr, loss_stride,
    n_cols, n_non_ignore, sum_non_ignore_weight, weight_sum,
    ignore_index, lse_square_scale: tl.constexpr, label_smoothing: tl.constexpr,
    reduction: tl.constexpr, softcap,
    RETURN_Z_LOSS: tl.constexpr, BLOCK_SIZE: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_SOFTCAPPING: tl.constexpr, HAS_GRADIENTS: tl.constexpr,
):  # fmt: skip
    program_id = tl.program_id(0).to(tl.int64)
    Y_ptr += program_id * Y_stride
    y = tl.load(Y_ptr)
    X_ptr += program_id * X_stride

    if y == ignore_index:
        for i in range(0, n_cols, BLOCK_SIZE):
            X_offsets = i + tl.arange(0, BLOCK_SIZE)
            tl.store(X_ptr + X_offsets, 0.0, mask=X_offsets < n_cols)
        return

    loss_ptr += program_id * loss_stride
    if RETURN_Z_LOSS:
        z_loss_ptr += program_id * loss_stride
    if HAS_WEIGHT:
        weight_y = tl.load(weight_ptr + y).cast(tl.float32)

    m = float("-inf")
    d = 0.0
    ori_X_y = tl.load(X_ptr + y).cast(tl.float32)
    if HAS_SOFTCAPPING:
        ori_X_y = softcap * tanh(ori_X_y / softcap)
    scaled_x_sum = 0.0
    eps = label_smoothing / n_cols

    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(
            X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")
        ).cast(tl.float32)
        if HAS_SOFTCAPPING:
            X_block = softcap * tanh(X_block / softcap)
        block_max = tl.max(X_block)
        if label_smoothing > 0:
            if HAS_WEIGHT:
                weight_block = tl.load(weight_ptr + X_offsets, mask=X_offsets < n_cols)
                scaled_x_sum += tl.sum(
                    tl.where(X_offsets < n_cols, -eps * X_block * weight_block, 0.0)
                )
            else:
                scaled_x_sum += tl.sum(tl.where(X_offsets < n_cols, -eps * X_block, 0.0))
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(X_block - m_new))
        m = m_new

    lse = m + tl.log(d)

    if HAS_GRADIENTS:
        for i in range(0, n_cols, BLOCK_SIZE):
            X_offsets = i + tl.arange(0, BLOCK_SIZE)
            X_block = tl.load(
                X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")
            ).cast(tl.float32)
            if HAS_SOFTCAPPING:
                intermediate = tanh(X_block / softcap)
                X_block = softcap * intermediate
            if not HAS_WEIGHT:
                X_block = tl.exp(X_block - m) / d
                X_block += 2 * lse_square_scale * lse * X_block
                X_block += -eps
                X_block = tl.where(X_offsets != y, X_block, X_block - (1 - label_smoothing))
                if reduction == "mean":
                    X_block = X_block / n_non_ignore
            else:
                weight_block = tl.load(weight_ptr + X_offsets, mask=X_offsets < n_cols)
                softmax_X = tl.exp(X_block - m) / d
                dloss_ori = (1 - label_smoothing) * softmax_X
                dloss_ori = tl.where(X_offsets != y, dloss_ori, dloss_ori - (1 - label_smoothing))
                dloss_ori = dloss_ori * weight_y
                dloss_smooth = eps * (-weight_block + softmax_X * weight_sum)
                dz_loss = 2 * lse_square_scale * lse * softmax_X
                if reduction == "mean":
                    dloss_ori = dloss_ori / sum_non_ignore_weight
                    dloss_smooth = dloss_smooth / sum_non_ignore_weight
                    dz_loss = dz_loss / n_non_ignore
                X_block = dloss_ori + dloss_smooth + dz_loss
            if HAS_SOFTCAPPING:
                X_block = X_block * (1 - intermediate * intermediate)
            tl.store(X_ptr + X_offsets, X_block, mask=X_offsets < n_cols)

    tl.debug_barrier()
    loss = lse - ori_X_y
    if HAS_WEIGHT:
        loss = weight_y * loss
    if label_smoothing > 0:
        if HAS_WEIGHT:
            smooth_loss = scaled_x_sum + eps * lse * weight_sum
        else:
            smooth_loss = scaled_x_sum + label_smoothing * lse
        loss = loss * (1 - label_smoothing) + smooth_loss
    z_loss = lse_square_scale * lse * lse
    if reduction == "mean":
        if HAS_WEIGHT:
            loss = loss / sum_non_ignore_weight
        else:
            loss = loss / n_non_ignore
        z_loss = z_loss / n_non_ignore
    loss += z_loss
    tl.store(loss_ptr, loss)
    if RETURN_Z_LOSS:
        tl.store(z_loss_ptr, z_loss)


def check_cross_entropy(device):
    torch.manual_seed(0)
    rows, columns = 12, 333
    cases = [(False, 0.0, None, 0.0), (True, 0.0, None, 0.0), (False, 0.1, None, 1e-3),
             (True, 0.1, 15.0, 0.0), (False, 0.0, 30.0, 0.0)]  # fmt: skip
    for weighted, smoothing, cap, z_scale in cases:
        x = torch.randn(rows, columns, device=device) * 4
        y = torch.randint(0, columns, (rows,), device=device)
        y[3] = y[7] = -100
        weight = torch.rand(columns, device=device) if weighted else None
        kept = y != -100
        n = int(kept.sum())
        sums = (float(weight[y[kept]].sum()), float(weight.sum())) if weighted else (0.0, 0.0)
        xd = x.double().requires_grad_()
        capped = cap * torch.tanh(xd / cap) if cap else xd
        want = torch.nn.functional.cross_entropy(
            capped, y, weight.double() if weighted else None, label_smoothing=smoothing
        )
        lse = torch.logsumexp(capped, -1)
        want = want + z_scale * (lse * lse)[kept].sum() / n
        (want_grad,) = torch.autograd.grad(want, xd)
        loss, z_loss = torch.zeros(2, rows, device=device)
        cross_entropy_kernel[(rows,)](
            x, x.stride(-2), y, y.stride(-1), weight, loss, z_loss, loss.stride(-1),
            columns, n, *sums, -100, z_scale, smoothing, "mean", cap,
            RETURN_Z_LOSS=True, BLOCK_SIZE=128, HAS_WEIGHT=weighted,
            HAS_SOFTCAPPING=cap is not None, HAS_GRADIENTS=True, num_warps=8,
        )  # fmt: skip
        torch.testing.assert_close(loss.sum().double(), want.detach(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(x.double(), want_grad, atol=1e-6, rtol=1e-4)


@triton.heuristics({
    "DO_LOGIT_SCALING": lambda args: args["LOGIT_SCALE"] != 0,
})  # fmt: skip
@triton.jit
def _chunked_cross_entropy_forward(
    logits_ptr, logits_row_stride, loss_ptr, logsumexp_ptr, labels_ptr,
    VOCAB_SIZE: tl.constexpr, N_CHUNKS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    DO_LOGIT_SCALING: tl.constexpr, LOGIT_SCALE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    chunk_idx = tl.program_id(1)
    logits_ptr += row_idx * tl.cast(logits_row_stride, tl.int64)
    loss_ptr += row_idx
    logsumexp_ptr += row_idx * N_CHUNKS + chunk_idx
    labels_ptr += row_idx

    col_offsets = chunk_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < VOCAB_SIZE
    label_idx = tl.load(labels_ptr).to(tl.int32)
    logits = tl.load(logits_ptr + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    if DO_LOGIT_SCALING:
        logits = LOGIT_SCALE * logits
    c = tl.max(logits, 0)
    logsumexp = c + tl.log(tl.sum(tl.exp(logits - c), 0))
    if chunk_idx == 0:
        if label_idx != -100:
            x = tl.load(logits_ptr + label_idx).to(tl.float32)
            if DO_LOGIT_SCALING:
                x = LOGIT_SCALE * x
            loss = -1.0 * x
        else:
            loss = 0.0
        tl.store(loss_ptr, loss)
    tl.store(logsumexp_ptr, logsumexp)


def check_chunked_cross_entropy(device):
    torch.manual_seed(0)
    x = torch.randn(9, 1000, device=device, dtype=torch.bfloat16)
    y = torch.randint(0, 1000, (9,), device=device)
    y[4] = -100
    chunks = triton.cdiv(1000, 256)
    for scale in (0, 0.5):
        loss = torch.empty(9, device=device)
        lse = torch.empty(9, chunks, device=device)
        _chunked_cross_entropy_forward[(9, chunks)](
            x, x.stride(0), loss, lse, y, VOCAB_SIZE=1000, N_CHUNKS=chunks, BLOCK_SIZE=256,
            LOGIT_SCALE=scale,
        )  # fmt: skip
        loss += torch.logsumexp(lse, dim=1)
        loss.masked_fill_(y == -100, 0)
        want = torch.nn.functional.cross_entropy(
            x.double() * (scale or 1), y, reduction="none", ignore_index=-100
        )
        torch.testing.assert_close(loss.double(), want, atol=1e-4, rtol=1e-4)


_REDUCTION_MODE_NONE: tl.constexpr = tl.constexpr(0)
_REDUCTION_MODE_BATCHMEAN: tl.constexpr = tl.constexpr(3)


@triton.jit
def _kldiv_kernel_forward(
    y_ptr, y_stride, gt_ptr, gt_stride, loss_ptr, loss_stride, n_cols, eps,
    BLOCK_SIZE: tl.constexpr, log_target: tl.constexpr = False,
    reduction: tl.constexpr = _REDUCTION_MODE_BATCHMEAN,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    y_ptr += pid * y_stride
    gt_ptr += pid * gt_stride
    loss_ptr += pid * loss_stride
    base_offsets = tl.arange(0, BLOCK_SIZE)
    loss_sum = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + base_offsets
        mask = offsets < n_cols
        y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
        y_true = tl.load(gt_ptr + offsets, mask=mask, other=0.0)
        if not log_target:
            loss = y_true * (tl.log(tl.maximum(y_true, eps)) - y)
        else:
            loss = tl.exp(y_true) * (y_true - y)
        if reduction == _REDUCTION_MODE_NONE:
            tl.store(loss_ptr + offsets, loss, mask=mask)
        else:
            loss_sum += tl.sum(loss, axis=0)
    if reduction != _REDUCTION_MODE_NONE:
        tl.store(loss_ptr, loss_sum)


def check_kl_divergence(device):
    torch.manual_seed(0)
    y = torch.randn(7, 300, device=device).log_softmax(-1)
    target = torch.randn(7, 300, device=device).softmax(-1)
    loss = torch.empty(7, device=device)
    _kldiv_kernel_forward[(7,)](y, 300, target, 300, loss, 1, 300, 1e-10, BLOCK_SIZE=128)
    want = torch.nn.functional.kl_div(y, target, reduction="batchmean")
    torch.testing.assert_close(loss.sum() / 7, want, atol=1e-5, rtol=1e-5)
    each = torch.empty_like(y)
    _kldiv_kernel_forward[(7,)](
        y, 300, target.log(), 300, each, 300, 300, 1e-10, 128, True, _REDUCTION_MODE_NONE
    )
    want = torch.nn.functional.kl_div(y, target, reduction="none")
    torch.testing.assert_close(each, want, atol=1e-5, rtol=1e-5)


@triton.jit
def _jsd_kernel(
    X_ptr, X_stride, Y_ptr, Y_stride, loss_ptr, loss_stride, dX_ptr, dX_stride, label_ptr,
    beta: tl.constexpr, n_non_ignore: int, ignore_index: tl.constexpr, n_cols,
    BLOCK_SIZE: tl.constexpr, HAS_LABEL: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    X_ptr += pid * X_stride
    dX_ptr += pid * dX_stride
    Y_ptr += pid * Y_stride
    loss_ptr += pid * loss_stride
    label_ptr += pid
    if HAS_LABEL:
        label = tl.load(label_ptr)
        if label == ignore_index:
            for i in range(0, n_cols, BLOCK_SIZE):
                offsets = i + tl.arange(0, BLOCK_SIZE)
                tl.store(dX_ptr + offsets, 0.0, mask=offsets < n_cols)
            return
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
        X = tl.load(X_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        Y = tl.load(Y_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        if beta == 0.0:
            Y_max = tl.max(Y, axis=0)
            Y_prob = tl.exp(Y - Y_max) * tl.exp(Y_max)
            loss = Y_prob * (Y - X)
            dX = -Y_prob
        elif beta == 1.0:
            X_max = tl.max(X, axis=0)
            X_prob = tl.exp(X - X_max) * tl.exp(X_max)
            loss = X_prob * (X - Y)
            dX = loss + X_prob
        else:
            max_val = tl.maximum(tl.max(X, axis=0), tl.max(Y, axis=0))
            exp_max = tl.exp(max_val)
            Q = tl.exp(X - max_val) * exp_max
            P = tl.exp(Y - max_val) * exp_max
            beta_P = beta * P
            one_minus_beta_Q = (1 - beta) * Q
            M = beta_P + one_minus_beta_Q
            log_M = tl.log(M)
            loss = beta_P * Y + one_minus_beta_Q * X - M * log_M
            dX = one_minus_beta_Q * (X - log_M)
        scale = 1.0 / n_non_ignore
        tl.store(loss_ptr + offsets, loss * scale, mask=mask)
        tl.store(dX_ptr + offsets, dX * scale, mask=mask)


def check_jsd(device):
    torch.manual_seed(0)
    x = torch.randn(6, 200, device=device).log_softmax(-1)
    y = torch.randn(6, 200, device=device).log_softmax(-1)
    label = torch.tensor([1, 5, -100, 3, 2, 0], device=device)
    for beta in (0.0, 0.3, 1.0):
        loss, dx = torch.zeros(2, 6, 200, device=device)
        _jsd_kernel[(6,)](x, 200, y, 200, loss, 200, dx, 200, label, beta, 5, -100, 200,
                          BLOCK_SIZE=64, HAS_LABEL=True)  # fmt: skip
        xd = x.double().requires_grad_()
        yd = y.double()
        q, p = xd.exp(), yd.exp()
        m = beta * p + (1 - beta) * q
        if beta == 0.0:
            each = p * (yd - xd)
        elif beta == 1.0:
            each = q * (xd - yd)
        else:
            each = beta * p * yd + (1 - beta) * q * xd - m * m.log()
        want = (each.sum(-1) * (label != -100)).sum() / 5
        (want_dx,) = torch.autograd.grad(want, xd)
        torch.testing.assert_close(loss.sum().double(), want.detach(), atol=1e-5, rtol=1e-5)
        if beta != 0.3:  # the mixed gradient leaves out a part that sums to zero over a softmax
            torch.testing.assert_close(dx.double(), want_dx, atol=1e-6, rtol=1e-4)


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    check_cross_entropy(device)
    check_chunked_cross_entropy(device)
    check_kl_divergence(device)
    check_jsd(device)
    print("losses: right")
