"""Kernels in the form that code generators emit: flat indices, odd names, helpers in tuples."""
# ruff: noqa: E501, F841, RUF059, B008  (written as generators write)

import torch
import triton
import triton.language as tl
from triton.language import math as tl_math
from triton.language.extra import libdevice


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def promote_to_tensor(x):
    # Addition promotes to tensor for us
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def minimum(a, b):
    mask = a < b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def maximum(a, b):
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def max2(a, dim):
    return tl.reduce(a, dim, maximum)


@triton.jit
def maximum_with_index(a_value, a_index, b_value, b_index):
    mask = a_value > b_value
    equal = a_value == b_value
    if is_floating(a_value):
        a_isnan = a_value != a_value
        b_isnan = b_value != b_value
        mask |= a_isnan and not b_isnan
        equal |= a_isnan and b_isnan
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)


@triton.jit
def max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * w2_over_w,
        m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w,
        new_weight,
    )


@triton.jit
def welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def div_floor_integer(a, b):
    quot = a // b
    remainder = a % b
    fixed = tl.where(remainder != 0, quot - 1, quot)
    return tl.where((a < 0) != (b < 0), fixed, quot)


@triton.jit
def _any_combine(a, b):
    return a | b


@triton.jit
def any(a, dim):
    return tl.reduce(a, dim, _any_combine)


@triton.jit
def triton_poi_fused_gelu_add_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 3000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 60)
    x1 = xindex // 60
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last')
    tmp2 = tmp0 + tmp1
    tmp3 = 0.5
    tmp4 = tmp2 * tmp3
    tmp5 = 0.7071067811865476
    tmp6 = tmp2 * tmp5
    tmp7 = libdevice.erf(tmp6)
    tmp8 = 1.0
    tmp9 = tmp7 + tmp8
    tmp10 = tmp4 * tmp9
    tmp11 = tl.full([1], 0, tl.int32)
    tmp12 = maximum(tmp11, tmp10)
    tl.store(out_ptr0 + (x0 + 64*x1), tmp12, xmask)


def check_pointwise(device):
    torch.manual_seed(0)
    x, b = torch.randn(50, 60, device=device), torch.randn(60, device=device)
    x[3, 4] = float("nan")
    out = torch.zeros(50, 64, device=device)
    triton_poi_fused_gelu_add_0[(triton.cdiv(3000, 256),)](x, b, out, 3000, XBLOCK=256)
    want = torch.nn.functional.gelu(x + b).relu()
    torch.testing.assert_close(out[:, :60], want, equal_nan=True, atol=1e-6, rtol=1e-5)
    assert float(out[:, 60:].abs().max()) == 0


@triton.jit
def triton_red_fused_native_layer_norm_1(
    in_out_ptr0, in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr
):
    xnumel = 37
    r0_numel = 1000
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp2_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    _tmp9 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    _tmp9_index = tl.full([XBLOCK, R0_BLOCK], 9223372036854775807, tl.int64)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 1000*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp2_mean_next, tmp2_m2_next, tmp2_weight_next = welford_reduce(
            tmp1, tmp2_mean, tmp2_m2, tmp2_weight, roffset == 0
        )
        tmp2_mean = tl.where(r0_mask & xmask, tmp2_mean_next, tmp2_mean)
        tmp2_m2 = tl.where(r0_mask & xmask, tmp2_m2_next, tmp2_m2)
        tmp2_weight = tl.where(r0_mask & xmask, tmp2_weight_next, tmp2_weight)
        _tmp9_next, _tmp9_index_next = maximum_with_index(_tmp9, _tmp9_index, tmp1, r0_index.to(tl.int64))
        _tmp9 = tl.where(r0_mask & xmask, _tmp9_next, _tmp9)
        _tmp9_index = tl.where(r0_mask & xmask, _tmp9_index_next, _tmp9_index)
    tmp5, tmp6, tmp7 = welford(tmp2_mean, tmp2_m2, tmp2_weight, 1)
    tmp2 = tmp5[:, None]
    tmp3 = tmp6[:, None]
    tmp9_val, tmp9_idx = max_with_index(_tmp9, _tmp9_index, 1)
    tmp9 = tmp9_idx[:, None]
    tmp10 = 1000.0
    tmp11 = (tmp3 / tmp10)
    tmp12 = 1e-05
    tmp13 = tmp11 + tmp12
    tmp14 = libdevice.rsqrt(tmp13)
    tl.debug_barrier()
    tl.store(in_out_ptr0 + (x0), tmp14, xmask)
    tl.store(out_ptr0 + (x0), tmp2, xmask)
    tl.store(out_ptr1 + (x0), tmp9, xmask)


def check_looped_reduction(device):
    torch.manual_seed(0)
    x = torch.randn(37, 1000, device=device)
    x[5, 17] = x[5, 400] = float("nan")
    x[6, 3] = x[6, 900] = 50.0
    rstd, mean = torch.empty(2, 37, device=device)
    where = torch.empty(37, device=device, dtype=torch.int64)
    triton_red_fused_native_layer_norm_1[(triton.cdiv(37, 8),)](
        rstd, x, mean, where, 37, 1000, XBLOCK=8, R0_BLOCK=256
    )
    torch.testing.assert_close(where, x.argmax(1))
    keep = torch.arange(37) != 5
    torch.testing.assert_close(mean[keep], x.mean(1)[keep], atol=1e-5, rtol=1e-5)
    want = torch.rsqrt(x.var(1, correction=0) + 1e-5)
    torch.testing.assert_close(rstd[keep], want[keep], atol=1e-5, rtol=1e-5)


@triton.jit
def triton_per_fused__log_softmax_2(in_ptr0, out_ptr2, out_ptr3, load_seed_offset, xnumel, r0_numel, XBLOCK: tl.constexpr):
    xnumel = 21
    r0_numel = 50
    R0_BLOCK: tl.constexpr = 64
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 50*x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = max2(tmp3, 1)[:, None].to(tl.float32)
    tmp5 = tmp0 - tmp4
    tmp6 = tl_math.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = tl_math.log(tmp10)
    tmp12 = tmp5 - tmp11
    tmp13 = tmp12.to(tl.float32)
    tmp14 = (libdevice.isinf(tmp0).to(tl.int1)) | (libdevice.isnan(tmp0).to(tl.int1))
    tmp15 = tl.where(r0_mask & xmask, tl.broadcast_to(tmp14.to(tl.int8), [XBLOCK, R0_BLOCK]), 0)
    tmp16 = any(tmp15, 1)[:, None]
    tl.store(out_ptr2 + (r0_1 + 50*x0), tmp13, r0_mask & xmask)
    tl.store(out_ptr3 + (x0), tmp16, xmask)


def check_persistent_reduction(device):
    torch.manual_seed(0)
    x = torch.randn(21, 50, device=device, dtype=torch.bfloat16)
    x[4, 7] = float("inf")
    out = torch.empty(21, 50, device=device)
    bad = torch.empty(21, device=device, dtype=torch.bool)
    triton_per_fused__log_softmax_2[(triton.cdiv(21, 4),)](x, out, bad, 0, 21, 50, XBLOCK=4)
    torch.testing.assert_close(out, x.float().log_softmax(1), equal_nan=True)
    assert bad.tolist() == [i == 4 for i in range(21)]


@triton.jit
def triton_for_fused_3(in_ptr0, out_ptr0, in_ptr1, out_ptr1, in_ptr2, out_ptr2):
    pid = tl.program_id(0)
    XBLOCK: tl.constexpr = 64
    num_xblocks_0 = tl.cdiv(100, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(40, XBLOCK)
    num_xblocks_2 = num_xblocks_1 + tl.cdiv(130, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 100
        xindex = pid_offset * XBLOCK + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        tl.store(out_ptr0 + xindex, tl.load(in_ptr0 + xindex, xmask) * 2.0, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 40
        xindex = pid_offset * XBLOCK + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        tl.store(out_ptr1 + xindex, tl.load(in_ptr1 + xindex, xmask) + 1, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 130
        xindex = pid_offset * XBLOCK + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        tmp0 = tl.load(in_ptr2 + xindex, xmask)
        tl.store(out_ptr2 + xindex, tl.sigmoid(tmp0.to(tl.float32)), xmask)
    else:
        pass


def check_foreach(device):
    torch.manual_seed(0)
    a, c = torch.randn(100, device=device), torch.randn(130, device=device, dtype=torch.float64)
    b = torch.randint(0, 100, (40,), device=device)
    oa, ob, oc = torch.empty_like(a), torch.empty_like(b), torch.empty_like(c)
    triton_for_fused_3[(2 + 1 + 3 + 1,)](a, oa, b, ob, c, oc)
    torch.testing.assert_close(oa, a * 2)
    torch.testing.assert_close(ob, b + 1)
    torch.testing.assert_close(oc, c.float().sigmoid().double())


@triton.jit
def triton_poi_fused_embedding_4(in_ptr0, in_ptr1, in_ptr2, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // ks0
    x0 = (xindex % ks0)
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tmp1 = ks0
    tmp2 = tmp0 + tl.full(xindex.shape, 30, tl.int32)
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((tmp4 >= 0) & (tmp4 < 30)) | ~(xmask), "index out of bounds: 0 <= tmp4 < 30")
    tmp6 = tl.load(in_ptr1 + (x0 + ks0*tmp4), xmask, eviction_policy='evict_last')
    tmp7 = div_floor_integer(tmp4 - 17, 5)
    tmp8 = tl.load(in_ptr2 + (tl.broadcast_to(x0, [XBLOCK])), xmask & (x0 < tmp1 // 2), other=-1.0)
    tl.store(out_ptr0 + (x2), tmp6 + tmp7.to(tl.float32) + tmp8, xmask)


def check_indirect_load(device):
    torch.manual_seed(0)
    index = torch.randint(-30, 30, (13,), device=device)
    table = torch.randn(30, 20, device=device)
    row = torch.randn(20, device=device)
    out = torch.empty(13, 20, device=device)
    triton_poi_fused_embedding_4[(triton.cdiv(260, 128),)](index, table, row, out, 20, 260, XBLOCK=128)
    picked = torch.where(index < 0, index + 30, index)
    extra = torch.where(torch.arange(20, device=device) < 10, row, -1.0)
    want = table[picked] + ((picked - 17) // 5)[:, None] + extra
    torch.testing.assert_close(out, want)


@triton.jit
def bucketize_binary_search(values, boundaries_ptr, BOUNDARIES_SIZE, indexing_dtype, right, sorter_ptr):
    low = tl.zeros(values.shape, dtype=indexing_dtype)
    high = tl.full(values.shape, BOUNDARIES_SIZE, dtype=indexing_dtype)
    full_range = BOUNDARIES_SIZE + 1
    while full_range > 1:
        mid = (high + low) // 2
        mask = mid < BOUNDARIES_SIZE
        mid_indices = mid if sorter_ptr is None else tl.load(sorter_ptr + mid, mask=mask, other=0)
        bucket_upper_bound = tl.load(boundaries_ptr + mid_indices, mask=mask, other=0.0)
        if right:
            is_above = values >= bucket_upper_bound
        else:
            is_above = values > bucket_upper_bound
        low = tl.where(is_above & mask, mid + 1, low)
        high = tl.where(is_above, high, mid)
        full_range = (full_range + 1) // 2
    return low


@triton.jit
def triton_bucketize_5(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, BOUNDS, RIGHT: tl.constexpr, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tmp1 = bucketize_binary_search(tmp0, in_ptr1, BOUNDS, tl.int32, RIGHT, in_ptr2)
    tl.store(out_ptr0 + xindex, tmp1.to(tl.int64), xmask)


def check_bucketize(device):
    torch.manual_seed(0)
    x, bounds = torch.randn(300, device=device), torch.randn(37, device=device)
    x[:37] = bounds
    order = bounds.argsort()
    for right in (False, True):
        for sorter in (None, order):
            out = torch.empty(300, device=device, dtype=torch.int64)
            table = bounds if sorter is not None else bounds[order]
            triton_bucketize_5[(triton.cdiv(300, 128),)](x, table, sorter, out, 300, 37, right, XBLOCK=128)
            torch.testing.assert_close(out, torch.bucketize(x, bounds[order], right=right))


@triton.jit
def _compare_and_swap_with_index(x, idxs, rnumel, flip, i: tl.constexpr, n_dims: tl.constexpr, stable: tl.constexpr, descending: tl.constexpr):
    n_outer: tl.constexpr = x.numel >> n_dims
    shape: tl.constexpr = [n_outer * 2**i, 2, 2 ** (n_dims - i - 1)]
    idtype = tl.core.get_int_dtype(bitwidth=x.dtype.primitive_bitwidth, signed=True)
    y = tl.reshape(x, shape)
    iy = y.to(idtype, bitcast=True)
    right_mask = tl.arange(0, 2)[None, :, None].to(idtype)
    left_mask = (1 - right_mask).to(idtype)
    ileft = tl.broadcast_to(tl.sum(iy * left_mask, 1).to(idtype)[:, None, :], shape)
    iright = tl.broadcast_to(tl.sum(iy * right_mask, 1).to(idtype)[:, None, :], shape)
    ileft = tl.reshape(ileft, x.shape)
    iright = tl.reshape(iright, x.shape)
    left = ileft.to(x.dtype, bitcast=True)
    right = iright.to(x.dtype, bitcast=True)
    y_idx = tl.reshape(idxs, shape)
    left_idx = tl.broadcast_to(tl.sum(y_idx * left_mask.to(y_idx.dtype), 1)[:, None, :], shape)
    right_idx = tl.broadcast_to(tl.sum(y_idx * right_mask.to(y_idx.dtype), 1)[:, None, :], shape)
    left_idx = tl.reshape(left_idx, x.shape)
    right_idx = tl.reshape(right_idx, x.shape)
    if rnumel is None:
        left_valid_mask = tl.full(x.shape, True, tl.int1)
        right_valid_mask = tl.full(x.shape, True, tl.int1)
    else:
        left_valid_mask = left_idx < rnumel
        right_valid_mask = right_idx < rnumel
    ix = x.to(idtype, bitcast=True)
    if descending:
        cond = (right_valid_mask > left_valid_mask) | ((right_valid_mask == left_valid_mask) & (left < right))
    else:
        cond = (right_valid_mask > left_valid_mask) | ((right_valid_mask == left_valid_mask) & (left > right))
    if stable:
        cond = cond | ((right_valid_mask == left_valid_mask) & (left == right) & (left_idx > right_idx))
    cond = (cond != flip).to(tl.int1)
    zeros = tl.zeros_like(ix)
    ret = ix ^ tl.where(cond, ileft ^ iright, zeros)
    new_idxs = idxs ^ tl.where(cond, left_idx ^ right_idx, tl.zeros_like(idxs))
    return ret.to(x.dtype, bitcast=True), new_idxs


@triton.jit
def _bitonic_merge_with_index(x, idxs, rnumel, stage: tl.constexpr, alternating: tl.constexpr, n_dims: tl.constexpr, stable: tl.constexpr, descending: tl.constexpr):
    n_outer: tl.constexpr = x.numel >> n_dims
    tl.static_assert(stage <= n_dims)
    if alternating:
        shape: tl.constexpr = [n_outer * 2 ** (n_dims - 1 - stage), 2, 2**stage]
        flip = tl.reshape(tl.broadcast_to(tl.arange(0, 2)[None, :, None], shape), x.shape)
    else:
        flip = False
    for i in tl.static_range(stage):
        x, idxs = _compare_and_swap_with_index(x, idxs, rnumel, flip, i + (n_dims - stage), n_dims, stable, descending)
    return x, idxs


@triton.jit
def sort_with_index(x, idxs, rnumel, dim: tl.constexpr = None, stable: tl.constexpr = tl.constexpr(False), descending: tl.constexpr = tl.constexpr(False)):
    x, idxs = tl.broadcast(x, idxs)
    _dim: tl.constexpr = len(x.shape) - 1 if dim is None else dim
    tl.static_assert(_dim == len(x.shape) - 1, "only minor dimension is currently supported")
    n_dims: tl.constexpr = _log2(x.shape[_dim])
    for i in tl.static_range(1, n_dims + 1):
        x, idxs = _bitonic_merge_with_index(x, idxs, rnumel, i, alternating=i < n_dims, n_dims=n_dims, stable=stable, descending=descending)
    return x, idxs


@triton.constexpr_function
def _log2(x):
    n = 0
    while x > 1:
        x //= 2
        n += 1
    return n


@triton.jit
def triton_per_sort_6(in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, DESCENDING: tl.constexpr, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel*xindex), r0_mask & xmask, other=0.0)
    tmp1 = r0_index
    tmp2 = tmp1.to(tl.int16)
    tmp3 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp4 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5, tmp6 = sort_with_index(tmp3, tmp4, r0_numel, 1, stable=True, descending=DESCENDING)
    tl.store(out_ptr0 + (r0_index + r0_numel*xindex), tmp5, r0_mask & xmask)
    tl.store(out_ptr1 + (r0_index + r0_numel*xindex), tmp6.to(tl.int64), r0_mask & xmask)


def check_sort_with_index(device):
    torch.manual_seed(0)
    x = torch.randint(0, 9, (5, 27), device=device).float()
    for descending in (False, True):
        values, index = torch.empty_like(x), torch.empty(5, 27, device=device, dtype=torch.int64)
        triton_per_sort_6[(3,)](x, values, index, 5, 27, descending, XBLOCK=2, R0_BLOCK=32)
        want = x.sort(dim=1, stable=True, descending=descending)
        torch.testing.assert_close(values, want.values)
        torch.testing.assert_close(index, want.indices)


@triton.jit
def _add2(arg0_0, arg1_0):
    return arg0_0 + arg1_0


@triton.jit
def _logcumsumexp(a, b):
    lo = minimum(a, b)
    hi = maximum(a, b)
    mask = (lo != hi) | (~libdevice.isinf(lo).to(tl.int1))
    return tl.where(mask, libdevice.log1p(tl_math.exp(lo - hi)) + hi, a)


@triton.jit
def triton_spl_scan_7(in_ptr0, out_ptr0, out_ptr1, r0_numel, R0_BLOCK: tl.constexpr):
    r0 = tl.arange(0, R0_BLOCK)[None, :]
    x0 = tl.program_id(0)
    carry = tl.full([1, 1], 0, tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0
        r0_mask = r0_index < r0_numel
        tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel*x0), r0_mask, other=0.0)
        tmp1, = tl.associative_scan((tmp0.to(tl.float32),), 1, _add2)
        tmp2 = carry + tmp1
        carry = carry + tl.sum(tmp0, 1)[:, None]
        tmp3 = tl.associative_scan(tl.where(r0_mask, tmp0, float("-inf")), 1, _logcumsumexp)
        tl.store(out_ptr0 + (r0_index + r0_numel*x0), tmp2, r0_mask)
        if r0_offset == 0:
            tl.store(out_ptr1 + (r0_index + R0_BLOCK*x0), tmp3, r0_mask)


def check_scans(device):
    torch.manual_seed(0)
    x = torch.randn(6, 150, device=device)
    sums, logs = torch.empty_like(x), torch.empty(6, 64, device=device)
    triton_spl_scan_7[(6,)](x, sums, logs, 150, R0_BLOCK=64)
    torch.testing.assert_close(sums, x.cumsum(1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logs, x[:, :64].logcumsumexp(1), atol=1e-5, rtol=1e-5)


@triton.jit
def triton_tem_fused_mm_8(arg_A, arg_B, in_ptr2, out_ptr0, ks0):
    EVEN_K: tl.constexpr = False
    ALLOW_TF32: tl.constexpr = False
    USE_FAST_ACCUM: tl.constexpr = False
    ACC_TYPE: tl.constexpr = tl.float32
    BLOCK_M: tl.constexpr = 32
    BLOCK_N: tl.constexpr = 32
    BLOCK_K: tl.constexpr = 16
    GROUP_M: tl.constexpr = 8
    A = arg_A
    B = arg_B
    M = ks0
    N = 70
    K = 50
    if M * N == 0:
        # early exit due to zero-size input(s)
        return
    stride_am = 50
    stride_ak = 1
    stride_bk = 1
    stride_bn = 50
    pid = tl.program_id(0).to(tl.int64)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group_id = pid // width
    group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
    pid_m = group_id * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // (group_size)
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if ((stride_am == 1 and stride_ak == M) or (stride_am == K and stride_ak == 1)) and (M >= BLOCK_M and K > 1):
        offs_a_m = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    else:
        offs_a_m = rm % M
    if ((stride_bk == 1 and stride_bn == K) or (stride_bk == N and stride_bn == 1)) and (N >= BLOCK_N and K > 1):
        offs_b_n = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    else:
        offs_b_n = rn % N
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
    for k_idx in range(0, tl.cdiv(K, BLOCK_K)):
        a_k_idx_vals = offs_k[None, :] + (k_idx * BLOCK_K)
        b_k_idx_vals = offs_k[:, None] + (k_idx * BLOCK_K)
        idx_m = offs_a_m[:, None]
        idx_n = a_k_idx_vals
        xindex = idx_n + 50*idx_m
        a_mask = offs_k[None, :] < (K - k_idx * BLOCK_K)
        a = tl.load(A + (xindex), mask=a_mask, other=0.0)
        idx_m = b_k_idx_vals
        idx_n = offs_b_n[None, :]
        xindex = idx_m + 50*idx_n
        b_mask = offs_k[:, None] < (K - k_idx * BLOCK_K)
        b = tl.load(B + (xindex), mask=b_mask, other=0.0)
        acc += tl.dot(a, b, allow_tf32=ALLOW_TF32, out_dtype=ACC_TYPE)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    xindex = idx_n + 70*idx_m
    tmp0 = tl.load(in_ptr2 + (tl.broadcast_to(idx_n, [BLOCK_M, BLOCK_N])), mask, eviction_policy='evict_last').to(tl.float32)
    tmp1 = acc + tmp0
    tmp2 = tl.full([1], 0, tl.int32)
    tmp3 = maximum(tmp2, tmp1)
    tl.store(out_ptr0 + (tl.broadcast_to(xindex, [BLOCK_M, BLOCK_N])), tmp3, mask)


def check_matmul_template(device):
    torch.manual_seed(0)
    for m in (65, 20):
        a, b, bias = torch.randn(m, 50), torch.randn(70, 50), torch.randn(70)
        a, b, bias = a.to(device), b.to(device), bias.to(device)
        out = torch.empty(m, 70, device=device)
        triton_tem_fused_mm_8[(triton.cdiv(m, 32) * 3, 1, 1)](a, b, bias, out, m)
        torch.testing.assert_close(out, (a @ b.T + bias).relu(), atol=1e-4, rtol=1e-4)


@triton.jit
def triton_poi_fused_dropout_9(in_ptr0, in_ptr1, out_ptr0, out_ptr1, load_seed_offset, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + load_seed_offset)
    tmp1 = xindex
    tmp2 = tl.rand(tmp0, (tmp1).to(tl.uint32))
    tmp3 = tl.full([1], 0.25, tl.float32)
    tmp4 = tmp2 > tmp3
    tmp5 = tmp4.to(tl.float32)
    tmp6 = tl.load(in_ptr1 + xindex, xmask)
    tl.store(out_ptr0 + xindex, tmp5 * tmp6 * 1.3333333333333333, xmask)
    r0, r1, _r2, _r3 = tl.randint4x(tmp0, (tmp1).to(tl.uint32))
    result = r0.to(tl.uint64) | (r1.to(tl.uint64) << 32)
    size = tl.full([1], 1000, tl.int64).to(tl.uint64)
    tl.store(out_ptr1 + xindex, (result % size).to(tl.int64), xmask)


def check_dropout(device):
    x = torch.ones(5000, device=device)
    seeds = torch.tensor([3, 2**40 + 7], device=device)
    outs = []
    for offset in (0, 1, 1):
        out, ints = torch.empty_like(x), torch.empty(5000, device=device, dtype=torch.int64)
        triton_poi_fused_dropout_9[(triton.cdiv(5000, 512),)](seeds, x, out, ints, offset, 5000, XBLOCK=512)
        assert abs(float((out == 0).double().mean()) - 0.25) < 0.03
        assert int(ints.min()) >= 0 and int(ints.max()) < 1000
        assert abs(float(ints.double().mean()) - 500) < 20
        outs.append((out, ints))
    assert not torch.equal(outs[0][0], outs[1][0])
    assert torch.equal(outs[1][0], outs[2][0]) and torch.equal(outs[1][1], outs[2][1])


if __name__ == "__main__":
    device = triton.runtime.driver.active.get_active_torch_device()
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            function(device)
    print("generated kernels: right")
