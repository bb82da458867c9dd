"""The kernels of `tritium_kernels` beside torch's, on the CPU or a GPU.

    python -m benchmarks.kernels [--device cuda] [--only softmax attention] [--quick] [--out FILE]

For each kernel, forward and backward: its rate, torch's, the ratio, the share of the floor: the
bandwidth of a copy of 256 MB for kernels that memory limits, torch's product of large matrices for
the others; products with experts are limited by both, their roofline. On GPUs attention's peer is
that of cuDNN, where it takes the problem. Kernels of Liger and FLA are further peers where they are
installed (`benchmarks.published`). `--quick`: fewer and shorter samples. Each figure is the
median of rounds that alternate between the two. On the CPU both use the same number of threads.
Results are compared with torch's in float64 first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before torch and Tritium are loaded
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of kernels")
    parser.add_argument("--dtypes", nargs="*", default=[], help="float32, bfloat16, float16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds of 15 ms a sample")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    OPTIONS = parser.parse_args()
    for variable in ("TRITIUM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(OPTIONS.threads)

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import tritium
from benchmarks.common import machine as processor
from benchmarks.published import fla_linear_attention, liger
from tritium.runtime import driver
from tritium_kernels import dense
from tritium_kernels.matmul import PrecisionConfig
from tritium_kernels.matmul import matmul as experts_matmul
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp
from tritium_kernels.tensor import convert_layout, make_ragged_tensor_metadata, wrap_torch_tensor
from tritium_kernels.tensor_details import layout
from tritium_kernels.tensor_details.dtype import FP4

TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass
class Case:
    """One kernel on one problem.

    Attributes:
        work: of the forward and of the backward pass: bytes moved at least, or operations.
        unit: "GB/s" or "TFLOP/s".
        ours, peer: functions of the inputs.
        inputs: those that want a gradient come first.
        wanting: how many do; 0: only the forward pass is run.
        moved: bytes moved at least by products that memory may limit.
        is_exact: the peer takes float64, with which ours is compared.
    """

    name: str
    work: tuple[float, float]
    unit: str
    ours: Callable[..., Any]
    peer: Callable[..., Any]
    inputs: list[torch.Tensor]
    wanting: int
    moved: float = 0.0
    is_exact: bool = True


def random(*shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.randn(shape, device=device).to(dtype)


def rows_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    """Kernels of rows: each element is read once and written once, backward read twice."""
    many = 16384 if device == "cuda" else 1024
    for columns in (1024, 4096, 8192):
        x, w, b = (
            random(*s, dtype=dtype, device=device)
            for s in ((many, columns), (columns,), (columns,))
        )
        size = x.numel() * x.element_size()
        moved, name = (2 * size, 3 * size), f"{many}x{columns}"
        yield Case(f"softmax {name}", moved, "GB/s", dense.softmax,
                   lambda x: torch.softmax(x, -1), [x], 1)  # fmt: skip
        yield Case(f"layer_norm {name}", moved, "GB/s", dense.layer_norm,
                   lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), [x, w, b], 3)  # fmt: skip
        yield Case(f"rms_norm {name}", moved, "GB/s", dense.rms_norm,
                   lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), [x, w], 2)  # fmt: skip
    rows, columns = (8192, 32768) if device == "cuda" else (256, 32768)
    x = random(rows, columns, dtype=dtype, device=device)
    target = torch.randint(0, columns, (rows,), device=device)
    size = x.numel() * x.element_size()
    yield Case(f"cross_entropy {rows}x{columns}", (size, 2 * size), "GB/s",
               lambda x: dense.cross_entropy(x, target), lambda x: F.cross_entropy(x, target),
               [x], 1)  # fmt: skip


def element_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    rows = 8192 if device == "cuda" else 1024
    gate, up = (random(rows, 4096, dtype=dtype, device=device) for _ in range(2))
    size = gate.numel() * gate.element_size()
    moved = 3 * size, 5 * size
    yield Case("swiglu", moved, "GB/s", dense.swiglu, lambda g, u: F.silu(g) * u, [gate, up], 2)
    yield Case("geglu", moved, "GB/s", dense.geglu, lambda g, u: F.gelu(g) * u, [gate, up], 2)
    batch = 8 if device == "cuda" else 1
    q = random(batch, 32, 2048, 128, dtype=dtype, device=device)
    angle = torch.randn(2048, 64, device=device)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    size = q.numel() * q.element_size()

    def turn(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    yield Case("rope", (2 * size, 2 * size), "GB/s", lambda x: dense.rope(x, cos, sin), turn, [q],
               1)  # fmt: skip
    for images in (8, 64) if device == "cuda" else (8,):
        x = random(images, 256, 64, 64, dtype=dtype, device=device)
        w, b = (random(256, dtype=dtype, device=device) for _ in range(2))
        size = x.numel() * x.element_size()
        yield Case(f"group_norm {images}x256x64x64", (2 * size, 3 * size), "GB/s",
                   lambda x, w, b: dense.group_norm(x, 32, w, b),
                   lambda x, w, b: F.group_norm(x, 32, w, b), [x, w, b], 3)  # fmt: skip
    index = torch.randint(0, 32000, (8192,), device=device)
    table = random(32000, 1024, dtype=dtype, device=device)
    size = 8192 * 1024 * table.element_size()
    whole = table.numel() * table.element_size()
    yield Case("embedding", (2 * size, size + whole), "GB/s", lambda t: dense.embedding(index, t),
               lambda t: F.embedding(index, t), [table], 1)  # fmt: skip
    p, g, m, v = (random(1 << 24, dtype=dtype, device=device) for _ in range(4))
    v = v.abs()
    state = torch.tensor(1.0, device=device)

    def peer(p: torch.Tensor) -> torch.Tensor:
        torch._fused_adamw_(
            [p], [g], [m], [v], [], [state], lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=1e-2,
            eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        return p

    def step(p: torch.Tensor) -> torch.Tensor:
        dense.adamw_(p, g, m, v, 1)
        return p

    moved = 7 * p.numel() * p.element_size()
    yield Case("adamw, fused", (moved, 0), "GB/s", step, peer, [p], 0)
    yield many_tensors(device, dtype)
    yield optimizers(device, dtype)
    yield from order_cases(device, dtype)


def many_tensors(device: str, dtype: torch.dtype) -> Case:
    """A step of AdamW on parameters that are small: of 100 layers."""
    count, size = 100, 4096
    ours, theirs = (
        [[random(size, dtype=dtype, device=device).abs() for _ in range(count)] for _ in range(4)]
        for _ in range(2)
    )
    for one, other in zip(ours, theirs, strict=True):
        for x, y in zip(one, other, strict=True):
            y.copy_(x)
    steps = [torch.tensor(1.0, device=device)] * count

    def step(p: torch.Tensor) -> torch.Tensor:
        dense.adamw_foreach_(*ours, 1)
        return ours[0][0]

    def peer(p: torch.Tensor) -> torch.Tensor:
        torch._fused_adamw_(
            *theirs, [], steps, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=1e-2, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip
        return theirs[0][0]

    moved = 7 * count * size * ours[0][0].element_size()
    name = f"adamw, {count} tensors of {size}"
    return Case(name, (moved, 0), "GB/s", step, peer, [ours[0][0]], 0)


def optimizers(device: str, dtype: torch.dtype) -> Case:
    """The same by optimizers, which look for gradients and count steps."""
    count, size = 100, 4096
    steps = list[Callable[[], Any]]()
    for kind, options in ((dense.AdamW, {}), (torch.optim.AdamW, {"fused": True})):
        parameters = [
            torch.nn.Parameter(random(size, dtype=dtype, device=device)) for _ in range(count)
        ]
        for parameter in parameters:
            parameter.grad = random(size, dtype=dtype, device=device)
        steps.append(kind(parameters, lr=1e-3, **options).step)
    p = torch.zeros(size, dtype=dtype, device=device)
    moved = 7 * count * p.numel() * p.element_size()
    ours, theirs = (lambda _, step=step: step() for step in steps)
    return Case(f"adamw, optimizer of {count} tensors", (moved, 0), "GB/s", ours, theirs, [p], 0)


def order_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    """Functions of rows without a gradient, as torch's functions compute them, and cumsum."""
    rows, columns = (8192, 4096) if device == "cuda" else (512, 1024)
    x = random(rows, columns, dtype=dtype, device=device)
    size = x.numel() * x.element_size()
    name = f"{rows}x{columns}"
    yield Case(f"sort {name}", (size + x.numel() * (x.element_size() + 8), 0), "GB/s",
               lambda x: dense.sort(x)[0], lambda x: torch.sort(x, stable=True)[0], [x], 0)
    yield Case(f"cumsum {name}", (2 * size, 2 * size), "GB/s", dense.cumsum,
               lambda x: torch.cumsum(x, -1), [x / columns**0.5], 1)
    yield Case(f"quantize {name} int8", (size + x.numel(), 0), "GB/s",
               lambda x: dense.dequantize(*dense.quantize(x)), rounded, [x], 0)
    rows, columns = (256, 128256) if device == "cuda" else (16, 32000)
    x = random(rows, columns, dtype=dtype, device=device)
    size = x.numel() * x.element_size()
    yield Case(f"sample {rows}x{columns}", (size, 0), "GB/s", dense.sample, drawn, [x], 0)
    yield Case(f"sample {rows}x{columns}, top-k 50, top-p .9", (size, 0), "GB/s",
               lambda x: dense.sample(x, top_k=50, top_p=0.9),
               lambda x: drawn(x, 50, 0.9), [x], 0)  # fmt: skip


def rounded(x: torch.Tensor) -> torch.Tensor:
    """int8 numbers with a scale for each row, as float32 again."""
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return torch.round(x.float() / scale).clamp(-127, 127).to(torch.int8).float() * scale


def drawn(x: torch.Tensor, top_k: int | None = None, top_p: float | None = None) -> torch.Tensor:
    """A column of each row, by torch's functions."""
    if top_k is None or top_p is None:
        return torch.multinomial(torch.softmax(x.float(), -1), 1)[:, 0]
    values, index = torch.topk(x.float(), top_k)
    p = torch.softmax(values, -1)
    p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0.0)
    return index.gather(1, torch.multinomial(p, 1))[:, 0]


def product_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    sizes = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16, 8192, 8192),
             (1280, 1792, 8192))  # fmt: skip
    for m, n, k in sizes if device == "cuda" else ((512, 512, 512), (1024, 1024, 1024)):
        a, b = random(m, k, dtype=dtype, device=device), random(k, n, dtype=dtype, device=device)
        work = 2.0 * m * n * k
        yield Case(f"matmul {m}x{n}x{k}", (work, 2 * work), "TFLOP/s", dense.matmul, torch.matmul,
                   [a, b / k**0.5], 2)  # fmt: skip
    heads, length = (64, 4096) if device == "cuda" else (8, 1024)
    for d in (64, 128):
        for causal in (False, True):
            q, k, v = (random(1, heads, length, d, dtype=dtype, device=device) for _ in range(3))
            work = 4.0 * heads * length * length * d / (2 if causal else 1)
            yield Case(
                f"attention {length}, d={d}{', causal' if causal else ''}", (work, 2.5 * work),
                "TFLOP/s", lambda q, k, v, c=causal: dense.attention(q, k, v, causal=c),
                lambda q, k, v, c=causal: peer_attention(q, k, v, is_causal=c), [q, k, v], 3,
            )  # fmt: skip
    yield from fused_cases(device, dtype)
    yield from decode_cases(device, dtype)


def peer_attention(*qkv: torch.Tensor, **options: Any) -> torch.Tensor:
    """torch's attention, of cuDNN for what cuDNN takes."""
    if qkv[0].device.type == "cpu":
        return F.scaled_dot_product_attention(*qkv, **options)
    others = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, *others], set_priority=True):
        return F.scaled_dot_product_attention(*qkv, **options)


def fused_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    """Cross entropy of a linear layer: three products; linear attention by its recurrence's sums in
    chunks, beside torch's causal attention of the same shapes."""
    rows, features, columns = (8192, 4096, 32768) if device == "cuda" else (128, 256, 2048)
    x, w = random(rows, features, dtype=dtype, device=device), random(
        columns, features, dtype=dtype, device=device
    )  # fmt: skip
    target = torch.randint(0, columns, (rows,), device=device)
    work = 2.0 * rows * features * columns
    yield Case(
        f"linear_cross_entropy {rows}x{features}x{columns}, with gradients", (3 * work, 0),
        "TFLOP/s", lambda x, w: with_gradients(dense.linear_cross_entropy, x, w, target),
        lambda x, w: with_gradients(lambda x, w, t: F.cross_entropy(x @ w.T, t), x, w, target),
        [x, w / features**0.5], 0,
    )  # fmt: skip
    heads, length, d = (32, 8192, 128) if device == "cuda" else (4, 512, 64)
    q, k, v = (random(1, heads, length, d, dtype=dtype, device=device) for _ in range(3))
    # A chunk of 64 rows: scores and their product with v; the state by k and v, and by q.
    work = 4.0 * heads * length * d * (64 + d)
    yield Case(f"linear_attention {length}, d={d}", (work, 0), "TFLOP/s",
               lambda q: dense.linear_attention(q, k, v), lambda q: torch_linear_attention(q, k, v),
               [q], 0)  # fmt: skip
    theirs = fla_linear_attention()
    if theirs is not None:
        # Both take them with heads inside of rows, as FLA wants them.
        rows = [random(1, length, heads, d, dtype=dtype, device=device) for _ in range(3)]
        yield Case(f"linear_attention {length}, d={d}, FLA", (work, 0), "TFLOP/s",
                   lambda *x: dense.linear_attention(*(t.transpose(1, 2) for t in x)),
                   lambda *x: theirs(*x).transpose(1, 2), rows, 0)  # fmt: skip


def torch_linear_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chunk: int = 64
) -> torch.Tensor:
    """Sums over earlier keys in chunks, by torch's products."""
    dtype, q = q.dtype, q * q.shape[-1] ** -0.5
    q, k, v = (t.unflatten(2, (-1, chunk)).float() for t in (q, k, v))
    states = (k.mT @ v).cumsum(2)
    states = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    return ((q @ k.mT).tril() @ v + q @ states).flatten(2, 3).to(dtype)


def with_gradients(
    loss: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """The gradient of w; that of x is computed too."""
    given = [t.detach().requires_grad_() for t in (x, w)]
    return torch.autograd.grad(loss(*given, target), given)[1]


def decode_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    """Decoding reads all keys and values once. The peer has them without pages."""
    batch, length = (64, 8192) if device == "cuda" else (4, 1024)
    pages = torch.randperm(batch * length // 16, device=device).view(batch, -1).int()
    k, v = (random(pages.numel(), 16, 8, 128, dtype=dtype, device=device) for _ in range(2))
    q = random(batch, 32, 128, dtype=dtype, device=device)
    lengths = torch.full((batch,), length, dtype=torch.int32, device=device)
    plain = [t[pages.long()].reshape(batch, length, 8, 128).transpose(1, 2) for t in (k, v)]
    yield Case(
        f"paged decode, {batch} x {length}", (2 * k.numel() * k.element_size(), 0), "GB/s",
        lambda q: dense.paged_attention(q, k, v, pages, lengths),
        lambda q: peer_attention(q[:, :, None], *plain, enable_gqa=True)[:, :, 0],
        [q], 0,
    )  # fmt: skip


def experts_cases(device: str, dtype: torch.dtype) -> Iterator[Case]:
    """The first product of a layer of experts: 4 of 128 for each token, rows gathered from the
    tokens, weights as they are or in MXFP4. The peer has a product for each expert, or one for all
    where torch has that, with rows gathered before and weights of the tokens' type."""
    experts, k, n = (128, 2880, 5760) if device == "cuda" else (8, 256, 512)
    w = random(experts, k, n, dtype=dtype, device=device) / k**0.5
    values, scales = downcast_to_mxfp(w, torch.uint8, 1)
    formats = [(str(dtype).removeprefix("torch."), w, w, PrecisionConfig())]
    if dtype == torch.bfloat16:
        found = layout.make_default_matmul_mxfp4_w_layout(-2)
        packed = convert_layout(wrap_torch_tensor(values, FP4), found)
        found = layout.make_default_matmul_mxfp4_w_scale_layout(-2)
        b_scale = convert_layout(wrap_torch_tensor(scales), found)
        rounded = upcast_from_mxfp(values, scales, dtype, 1)
        formats.append(("mxfp4", packed, rounded, PrecisionConfig(b_mx_scale=b_scale)))
    for tokens in (1024, 2048, 4096, 8192) if device == "cuda" else (128, 512):
        x = random(tokens, k, dtype=dtype, device=device)
        chosen = torch.rand(tokens, experts, device=device).topk(4, 1).indices.flatten()
        sizes = torch.bincount(chosen, minlength=experts).int()
        gather = (torch.argsort(chosen, stable=True) // 4).int()
        ragged = make_ragged_tensor_metadata(sizes, 4 * tokens)
        ends, each = sizes.cumsum(0).int(), sizes.tolist()

        def peer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            rows = x[gather]
            if device == "cuda":
                return torch._grouped_mm(rows, w, offs=ends)
            return torch.cat([part @ one for part, one in zip(rows.split(each), w, strict=True)])

        for name, weights, plain, config in formats:
            width = 4.25 if name == "mxfp4" else 8 * w.element_size()
            moved = (x.numel() + 4 * tokens * n) * x.element_size()
            moved += sum(size > 0 for size in each) * k * n * width / 8
            yield Case(
                f"experts {name}, {tokens}x{k}x{n}", (2.0 * 4 * tokens * n * k, 0), "TFLOP/s",
                lambda x, w=weights, c=config, r=ragged, g=gather: experts_matmul(
                    x, w, None, r, gather_indx=g, precision_config=c
                ),
                lambda x, w=plain, f=peer: f(x, w), [x], 0, moved,
            )  # fmt: skip


def published(case: Case) -> Iterator[Case]:
    """The same beside a kernel in Triton that others have published."""
    peer, has_gradient = liger().get(case.name.split()[0], (None, False))
    if peer is not None:
        wanting = case.wanting if has_gradient else 0
        name = f"{case.name}, Liger"
        yield replace(case, name=name, peer=peer, wanting=wanting, is_exact=False)


def error(found: torch.Tensor, right: torch.Tensor) -> float:
    """Relative, of the Frobenius norms."""
    right = right.double()
    return float((found.double() - right).norm() / right.norm().clamp(min=1e-30))


def passes(case: Case) -> Iterator[tuple[str, float, Callable[[], Any], Callable[[], Any]]]:
    """(name, work, ours, peer's) of the passes, after they are compared with float64."""
    exact = [x.double() for x in case.inputs]
    tolerance = TOLERANCE[case.inputs[0].dtype]
    if case.wanting == 0 and case.name.startswith(("adamw", "sample")):
        yield "step", case.work[0], *(lambda f=f: f(*case.inputs) for f in (case.ours, case.peer))
        return
    is_large = case.unit == "TFLOP/s" and case.inputs[0].numel() > 1 << 24
    plain = is_large or case.wanting == 0 or not case.is_exact
    right = case.peer(*(case.inputs if plain else exact))
    worst = error(case.ours(*case.inputs), right)
    assert worst < tolerance, f"{case.name}: forward differs by {worst}"
    yield "forward", case.work[0], *(lambda f=f: f(*case.inputs) for f in (case.ours, case.peer))
    if not case.wanting:
        return
    calls = []
    for fn in (case.ours, case.peer):
        inputs = [x.detach().requires_grad_() for x in case.inputs]
        y = fn(*inputs)
        dy = torch.ones_like(y) if not y.ndim else 0.5 - torch.rand_like(y)
        if calls:
            dy = calls[0][2]
        calls.append((y, inputs, dy))
    gradients = [torch.autograd.grad(y, i, dy, retain_graph=True) for y, i, dy in calls]
    for ours, theirs in zip(*gradients, strict=True):
        worst = error(ours, theirs)
        assert worst < 4 * tolerance, f"{case.name}: a gradient differs by {worst}"
    yield "backward", case.work[1], *(
        lambda y=y, i=i, dy=dy: torch.autograd.grad(y, i, dy, retain_graph=True)
        for y, i, dy in calls
    )


def seconds(call: Callable[[], Any], device: str, quick: bool = False) -> float:
    """One sample: on a GPU with a cold second-level cache."""
    if device == "cuda":
        warmup, rep = (3, 15) if quick else (10, 50)
        time_ms = tritium.testing.do_bench(call, warmup=warmup, rep=rep, return_mode="median")
        return time_ms / 1e3
    start = time.perf_counter()
    count = 0
    while time.perf_counter() - start < 0.05 or count < 3:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def floors(device: str, dtype: torch.dtype) -> dict[str, float]:
    """The rates that this machine reaches: bytes copied, operations of a large product."""
    x = torch.empty(1 << 28, dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    copy = min(seconds(lambda: y.copy_(x), device) for _ in range(3))
    n = 8192 if device == "cuda" else 1024
    a, b = (random(n, n, dtype=dtype, device=device) for _ in range(2))
    product = min(seconds(lambda: a @ b, device) for _ in range(3))
    return {"GB/s": 2 * x.numel() / copy / 1e9, "TFLOP/s": 2 * n**3 / product / 1e12}


@dataclass
class Row:
    """One figure: rates of ours and of torch, their ratio, the share of the floor."""

    kernel: str
    phase: str
    dtype: str
    unit: str
    rate: float
    peer: float
    ratio: float
    floor: float


def measure(case: Case, dtype: torch.dtype, limits: dict[str, float], options: Any) -> list[Row]:
    rows = []
    for phase, work, ours, peer in passes(case):
        quick = options.quick
        samples = {call: [seconds(call, options.device, quick)] for call in (ours, peer)}  # warm
        for call in samples:
            samples[call].clear()
        for _ in range(options.rounds):
            for call, found in samples.items():
                found.append(seconds(call, options.device, quick))
        scale = 1e9 if case.unit == "GB/s" else 1e12
        rates = [work / statistics.median(s) / scale for s in samples.values()]
        name = str(dtype).removeprefix("torch.")
        least = max(work / limits[case.unit] / scale, case.moved / limits["GB/s"] / 1e9)
        share = least * rates[0] * scale / work
        rows.append(Row(case.name, phase, name, case.unit, *rates, rates[0] / rates[1], share))
        row = rows[-1]
        print(
            f"{row.kernel:34} {row.phase:9} {row.dtype:9} {row.rate:9.2f} {row.unit:8} "
            f"peer {row.peer:9.2f}  ratio {row.ratio:6.2f}  of the floor {row.floor:5.2f}",
            flush=True,
        )  # fmt: skip
    return rows


def made_with(device: str) -> dict[str, str]:
    """The device, the versions and the commit that the figures are of."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=Path(__file__).parent,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if device == "cuda":
        name = torch.cuda.get_device_name()
    else:
        name = f"{processor()['model']}, {torch.get_num_threads()} threads"
    return {
        "device": name, "torch": torch.__version__, "tritium": tritium.__version__,
        "commit": told.stdout.strip() or "unknown",
    }  # fmt: skip


def main(options: Any) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    if options.device == "cpu":
        driver.set_active_to_cpu()
    if options.quick:
        options.rounds = 2
    machine = made_with(options.device)
    print(*(f"{name} {value}" for name, value in machine.items()), sep="\n", flush=True)
    default = ["bfloat16", "float32"] if options.device == "cpu" else ["bfloat16"]
    rows: list[Row] = []
    for name in options.dtypes or default:
        dtype = getattr(torch, name)
        limits = floors(options.device, dtype)
        for family in (rows_cases, element_cases, product_cases, experts_cases):
            for case in family(options.device, dtype):
                if not options.only or any(part in case.name for part in options.only):
                    for peer in (case, *published(case)):
                        rows += measure(peer, dtype, limits, options)
    if options.out:
        command = " ".join(["python -m benchmarks.kernels", *sys.argv[1:]])
        made = [asdict(row) for row in rows]
        record = {"machine": machine, "command": command, "rows": made}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(OPTIONS)
