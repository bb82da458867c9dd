"""Many functions compiled by torch.compile: `tritium run program.py [first:last [device]]`
compiles those cases and compares them with torch's own results."""

import sys

import torch
import torch.nn.functional as F
from torch._inductor import config

config.cpu_backend = "triton"
config.compile_threads = 1
config.fx_graph_cache = False
torch.set_default_device(sys.argv[2] if len(sys.argv) > 2 else "cpu")
torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(0)
R = torch.randn

cases = {
    "gelu_ln": (
        lambda x, w: F.gelu(F.layer_norm(x, (x.shape[-1],)) * w).sum(-1),
        (R(37, 100), R(100)),
    ),
    "softmax": (lambda x: F.softmax(x, -1), (R(33, 777),)),
    "softmax_dim0": (lambda x: F.softmax(x, 0), (R(333, 77),)),
    "logsumexp": (lambda x: torch.logsumexp(x, (0, 1)), (R(33, 777),)),
    "argmax": (lambda x: (x.argmax(-1), x.argmin(0), x.max(-1).indices), (R(33, 301),)),
    "var_mean": (lambda x: torch.var_mean(x, -1), (R(33, 3001),)),
    "batchnorm": (lambda x: F.batch_norm(x, None, None, training=True), (R(8, 16, 9, 9),)),
    "groupnorm": (lambda x: F.group_norm(x, 4), (R(8, 16, 9, 9),)),
    "cumsum": (lambda x: x.cumsum(-1), (R(33, 301),)),
    "cumprod": (lambda x: x.cumprod(0), (R(33, 31),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), (R(33, 31),)),
    "cummax": (lambda x: torch.cummax(x, -1), (R(33, 31),)),
    "sort": (lambda x: torch.sort(x, -1), (R(33, 30),)),
    "sortstable": (
        lambda x: torch.sort(x, dim=-1, stable=True, descending=True),
        (torch.randint(0, 5, (33, 30)),),
    ),
    "topk": (lambda x: torch.topk(x, 5), (R(33, 30),)),
    "embedding": (lambda i, w: F.embedding(i, w), (torch.randint(0, 30, (7, 9)), R(30, 20))),
    "gather": (lambda x, i: torch.gather(x, 1, i), (R(9, 30), torch.randint(0, 30, (9, 5)))),
    "index_put": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        (R(9, 30), torch.randint(0, 9, (20,)), R(20, 30)),
    ),
    "scatter_add": (
        lambda x, i, v: x.scatter_add(0, i, v),
        (R(9, 30), torch.randint(0, 9, (20, 30)), R(20, 30)),
    ),
    "scatter_reduce": (
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax"),
        (R(9, 30), torch.randint(0, 9, (20, 30)), R(20, 30)),
    ),
    "bmm": (lambda a, b: torch.relu(a @ b + 1), (R(3, 33, 45), R(3, 45, 17))),
    "dropout": (
        lambda x: F.dropout(x, 0.5).ne(0).float().mean().sub(0.5).abs().lt(0.1),
        (torch.ones(5000),),
    ),
    "rand": (lambda x: torch.rand_like(x).mean().sub(0.5).abs().lt(0.1), (torch.ones(5000),)),
    "randn": (lambda x: torch.randn_like(x).std().sub(1).abs().lt(0.1), (torch.ones(5000),)),
    "trig": (
        lambda x: (x.sin() + x.cos() * x.tan()).tanh() + x.atan() + x.sinh() - x.cosh() + x.asinh(),
        (R(1001),),
    ),
    "acos": (lambda x: x.acos() + x.asin() + x.atanh(), (torch.rand(1001) * 1.8 - 0.9,)),
    "exps": (lambda x: x.exp() + x.expm1() + x.exp2(), (R(1001),)),
    "logs": (
        lambda x: x.abs().log() + x.abs().log1p() + x.abs().log2() + x.abs().log10(),
        (R(1001),),
    ),
    "erf": (lambda x: x.erf() + x.erfc() + torch.special.erfcx(x.abs()), (R(1001),)),
    "lgamma": (lambda x: x.abs().lgamma() + torch.digamma(x.abs() + 1), (R(1001),)),
    "bessel": (
        lambda x: (
            torch.special.bessel_j0(x)
            + torch.special.i0(x)
            + torch.special.i1(x)
            + torch.special.bessel_y0(x.abs() + 0.1)
        ),
        (R(1001),),
    ),
    "erfinv": (
        lambda x: torch.erfinv(x * 0.9) + torch.special.ndtri(x.abs() * 0.9 + 0.01),
        (torch.rand(1001),),
    ),
    "pow": (lambda x: x.abs() ** 2.5 + x**3 + x.abs() ** -0.5 + 2.0**x, (R(1001),)),
    "round": (lambda x: x.round() + x.floor() + x.ceil() + x.trunc() + x.frac(), (R(1001) * 10,)),
    "fmod": (
        lambda x, y: (
            torch.fmod(x, y) + torch.remainder(x, y) + torch.div(x, y, rounding_mode="floor")
        ),
        (R(1001) * 10, R(1001) + 3),
    ),
    "intdiv": (
        lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)),
        (
            torch.randint(-100, 100, (1001,)),
            torch.randint(1, 10, (1001,)) * torch.where(torch.rand(1001) > 0.5, 1, -1),
        ),
    ),
    "int8": (
        lambda x: (x + x, x * 3, x.float() / 2, x >> 1, x << 1, ~x, x & 3),
        (torch.randint(-128, 127, (1001,), dtype=torch.int8),),
    ),
    "uint8": (
        lambda x: (x + x, x.float() / 2, x >> 1, x // 3),
        (torch.randint(0, 255, (1001,), dtype=torch.uint8),),
    ),
    "bool": (
        lambda x, y: (x & y, x | y, x ^ y, ~x, x.sum(), x.any(), x.all(), x.float()),
        (R(1001) > 0, R(1001) > 0),
    ),
    "bf16": (
        lambda x, y: (x * y + x, x.softmax(-1), x.exp(), F.layer_norm(x, (64,)), x > y),
        (R(33, 64).bfloat16(), R(33, 64).bfloat16()),
    ),
    "fp16": (
        lambda x, y: (x * y + x, x.softmax(-1), x.exp(), x.sum(-1), x > y),
        (R(33, 64).half(), R(33, 64).half()),
    ),
    "f64": (lambda x: (x.exp() + x.sin(), x.sum(-1), x.std()), (R(33, 64, dtype=torch.float64),)),
    "fp8": (
        lambda x: (x.to(torch.float8_e4m3fn).float(), x.to(torch.float8_e5m2).float()),
        (R(33, 64),),
    ),
    "nan": (
        lambda x: (
            x.max(-1).values,
            x.amin(-1),
            torch.maximum(x, x.flip(0)),
            x.nan_to_num(),
            x.isnan(),
            x.isinf(),
            x.nansum(-1),
            x.clamp(-1, 1),
        ),
        (torch.where(R(33, 64) > 1.5, float("nan"), R(33, 64)),),
    ),
    "where": (
        lambda x: torch.where(x > 0, x, x * 2) + torch.where(x.isfinite(), 1, 0),
        (R(33, 64),),
    ),
    "cat": (lambda x, y: torch.cat([x, y.relu(), x[:, :5]], 1), (R(33, 64), R(33, 7))),
    "stack": (lambda x, y: torch.stack([x, y + 1], -1), (R(33, 64), R(33, 64))),
    "transpose": (lambda x: (x.t() + 1).contiguous(), (R(333, 64),)),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous() * 2, (R(33, 14, 5),)),
    "pad": (lambda x: (F.pad(x, (3, 4)), F.pad(x, (3, 4), mode="reflect")), (R(3, 33, 14),)),
    "flip": (lambda x: x.flip(-1) + x.roll(3, 0), (R(33, 14),)),
    "maxpool": (lambda x: F.max_pool2d(x, 3, 2, 1), (R(2, 3, 33, 14),)),
    "avgpool": (lambda x: F.avg_pool2d(x, 3, 2, 1), (R(2, 3, 33, 14),)),
    "adaptivepool": (lambda x: F.adaptive_avg_pool2d(x, (5, 4)), (R(2, 3, 33, 14),)),
    "upsample": (
        lambda x: (
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
        ),
        (R(2, 3, 9, 14),),
    ),
    "gridsample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (R(2, 3, 9, 14), torch.rand(2, 5, 6, 2) * 2 - 1),
    ),
    "bucketize": (lambda x, b: torch.bucketize(x, b), (R(333), R(40).sort().values)),
    "searchsorted": (lambda x, b: torch.searchsorted(b, x), (R(5, 33), R(5, 40).sort(-1).values)),
    "tril": (lambda x: x.tril(1) + x.triu(-1), (R(33, 34),)),
    "arange": (
        lambda x: (
            torch.arange(100, device=x.device) * x.sum()
            + torch.linspace(0, 1, 100, device=x.device)
        ),
        (R(34),),
    ),
    "crossentropy": (
        lambda x, y: F.cross_entropy(x, y),
        (R(33, 100), torch.randint(0, 100, (33,))),
    ),
    "ce_bwd": (
        lambda x, y: torch.autograd.grad(F.cross_entropy(x * 2, y), x),
        (R(33, 100, requires_grad=True), torch.randint(0, 100, (33,))),
    ),
    "nll": (
        lambda x, y: F.nll_loss(x.log_softmax(-1), y, ignore_index=3),
        (R(33, 100), torch.randint(0, 100, (33,))),
    ),
    "mse": (
        lambda x, y: (
            F.mse_loss(x, y),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y),
            F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        ),
        (R(33, 100), R(33, 100)),
    ),
    "activations": (
        lambda x: (
            F.silu(x)
            + F.mish(x)
            + F.hardswish(x)
            + F.elu(x)
            + F.selu(x)
            + F.softplus(x)
            + F.leaky_relu(x)
            + F.hardtanh(x)
            + F.logsigmoid(x)
        ),
        (R(33, 100),),
    ),
    "complex": (lambda x: torch.view_as_complex(x).abs(), (R(33, 100, 2),)),
    "sum_all": (
        lambda x: (x.sum(), x.mean(), x.prod(), x.norm(), x.amax(), x.std()),
        (R(333, 100),),
    ),
    "sum_mid": (lambda x: (x.sum(1), x.amax((0, 2))), (R(33, 40, 20),)),
    "sum_int": (lambda x: (x.sum(1), x.amax(0), x.prod(0)), (torch.randint(0, 5, (33, 40)),)),
    "any": (lambda x: ((x > 2).any(-1), (x > -2).all(0)), (R(33, 40),)),
    "xor_sum": (lambda x: (x.sum(-1),), (torch.randint(0, 2, (33, 40), dtype=torch.bool),)),
    "argmax_nan": (
        lambda x: x.argmax(-1),
        (torch.where(R(33, 64) > 1.5, float("nan"), R(33, 64)),),
    ),
    "histc": (lambda x: torch.bincount(x, minlength=20), (torch.randint(0, 20, (333,)),)),
    "nonzero_static": (lambda x: torch.masked_select(x, x > 0).sum(), (R(333),)),
    "attention": (lambda q, k, v: (q @ k.mT * 0.1).softmax(-1) @ v, tuple(R(3, 2, 2, 50, 16))),
    "rope": (
        lambda x, c, s: torch.cat(
            [x[..., :8] * c - x[..., 8:] * s, x[..., 8:] * c + x[..., :8] * s], -1
        ),
        (R(2, 5, 16), R(5, 8), R(5, 8)),
    ),
    "as_strided": (lambda x: x.unfold(0, 5, 2).sum(-1), (R(101),)),
    "repeat": (lambda x: x.repeat_interleave(3, 0) + 1, (R(11, 4),)),
    "mixed": (lambda x, y: x + y, (R(11, 4), torch.randint(0, 5, (4,)))),
    "copysign": (
        lambda x, y: (
            torch.copysign(x, y),
            torch.hypot(x, y),
            torch.atan2(x, y),
            torch.nextafter(x, y),
            torch.ldexp(x, torch.tensor(3, device=x.device)),
        ),
        (R(101), R(101)),
    ),
    "signbit": (
        lambda x: (
            x.signbit(),
            x.sign(),
            x.sgn(),
            x.reciprocal(),
            x.rsqrt(),
            x.square(),
            x.neg(),
            x.abs(),
        ),
        (R(101),),
    ),
    "sinc": (
        lambda x: (
            x.sinc(),
            x.logit(1e-3),
            torch.special.entr(x.abs()),
            torch.special.log_ndtr(x),
            torch.special.zeta(x.abs() + 2, torch.ones_like(x)),
            torch.special.polygamma(1, x.abs() + 1),
        ),
        (R(101),),
    ),
    "bitcast": (lambda x: x.view(torch.int32) + 1, (R(101),)),
    "lstm": (lambda x, w: torch.tanh(x @ w).sigmoid(), (R(11, 20), R(20, 20))),
    "adam": (
        lambda p, g, m, v: (
            p - 0.1 * (m * 0.9 + g * 0.1) / ((v * 0.99 + g * g * 0.01).sqrt() + 1e-8)
        ),
        (*R(3, 1001), R(1001).abs()),
    ),
    "randint": (
        lambda x: (
            torch.randint(0, 10, (1000,), device=x.device).float().mean().sub(4.5).abs().lt(1)
        ),
        (R(1),),
    ),
    "randperm": (
        lambda x: (
            torch.bernoulli(torch.full((1000,), 0.3, device=x.device)).mean().sub(0.3).abs().lt(0.1)
        ),
        (R(1),),
    ),
    "int_matmul": (
        lambda x: (x[:, :, None] * x[:, None, :]).sum(0),
        (torch.randint(-5, 5, (20, 9)),),
    ),
    "big_reduction": (lambda x: x.sum(), (R(1000003),)),
    "split_reduction": (lambda x: (x.var(), x.argmax()), (R(300003),)),
    "welford_bf16": (
        lambda x: F.layer_norm(x.float(), (x.shape[-1],)).bfloat16(),
        (R(33, 2000).bfloat16(),),
    ),
    "i64idx": (lambda x: x[torch.arange(9, -1, -1, device=x.device)], (R(10, 33),)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1).masked_fill_(x < -1, 7), (R(10, 33),)),
    "inplace": (lambda x: x.add(1).mul_(2).clamp_min_(0), (R(10, 33),)),
}


HALF = {"bf16", "fp16", "welford_bf16"}


def main(names):
    for name in names:
        function, arguments = cases[name]
        torch._dynamo.reset()
        tolerance = 4e-2 if name in HALF else 2e-4
        want = function(*[a.clone() if not a.requires_grad else a for a in arguments])
        got = torch.compile(function)(*arguments)
        torch.testing.assert_close(
            got,
            want,
            atol=tolerance,
            rtol=tolerance,
            equal_nan=True,
            msg=lambda m: f"{name}: {m}",  # noqa: B023
        )
        print("right", name, flush=True)


if __name__ == "__main__":
    first, _, last = (sys.argv[1] if len(sys.argv) > 1 else ":").partition(":")
    main([*cases][int(first or 0) : int(last or len(cases))])
