"""Ways in which torch.compile writes, tunes and launches kernels, one setting a case:
`tritium run ways.py DEVICE [NAME]...`."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.nn.functional as F
from comparing import Case, compare, main, run
from modules import MLP, ORDERED, Attention, Norms, long, one, reductions, scans, sizes_of_rows
from torch import nn
from torch._inductor import config

R = torch.randn
CUDA = ("cuda",)


def mixed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Elementwise work on transposed inputs, and reductions over either axis."""
    z = (x + y.T).sin() * x.exp()
    return z, z.T.contiguous(), z.sum(0), z.sum(1), F.layer_norm(z, z.shape[-1:]), z.softmax(0)


def several(*shapes: tuple[int, ...]) -> Any:
    """Independent kernels that can be launched as one."""

    def function(*inputs: torch.Tensor) -> list[torch.Tensor]:
        return [f(x) for x in inputs for f in (torch.sin, lambda x: x.sum(-1), torch.relu)]

    return one(function, *shapes)


def products(dtype: torch.dtype) -> Any:
    """Matrix products with epilogues, in one dtype."""

    def function(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, c: torch.Tensor) -> Any:
        return (torch.relu(a @ b + 1), torch.addmm(bias, a, b), F.gelu(F.linear(a, b.T, bias)),
                torch.bmm(c, c.mT).sigmoid(), a.T @ a)  # fmt: skip

    return one(function, (136, 72), (72, 200), (200,), (4, 40, 64), dtype=dtype, grad=False)


def deep(dtype: torch.dtype) -> Any:
    """A product with few rows and columns, and many terms."""
    return one(lambda a, b: (a @ b) * 2, (32, 16384), (16384, 64), dtype=dtype, grad=False)


def big(dtype: torch.dtype) -> Any:
    return one(lambda a, b: F.relu(a @ b), (512, 256), (256, 384), dtype=dtype, grad=False)


def int8_product(device: torch.device) -> Any:
    a, b = (torch.randint(-9, 9, (64, 64), dtype=torch.int8, device=device) for _ in range(2))
    return (lambda a, b: torch._int_mm(a, b) * 3), [(a, b)]


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(32, 16, 1), nn.SiLU())  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def graphs(device: torch.device) -> Any:
    return MLP().to(device), [(R(17, 48, device=device, requires_grad=True),) for _ in range(5)]


def flexible(kind: str, dtype: torch.dtype, length: int = 200, queries: int | None = None) -> Any:
    """Flex attention with a changed score, a mask of blocks, or grouped queries."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def make(device: torch.device) -> Any:
        rows, heads = queries or length, 4
        slopes = torch.linspace(0.1, 1, heads, device=device)

        def score(value: Any, _batch: Any, head: Any, row: Any, column: Any) -> Any:
            return value + slopes[head] * (column - row) / 64

        def visible(_batch: Any, _head: Any, row: Any, column: Any) -> Any:
            row = row + (length - rows)
            return (row >= column) & (row - column < 90)

        mask = None
        if kind != "score":
            mask = create_block_mask(visible, None, None, rows, length, device=str(device))

        def attend(q: Any, k: Any, v: Any) -> Any:
            return flex_attention(
                q, k, v, score_mod=None if kind == "mask" else score, block_mask=mask,
                enable_gqa=kind == "groups",
            )  # fmt: skip

        kv = heads // 2 if kind == "groups" else heads
        shapes = ((2, heads, rows, 64), (2, kv, length, 64), (2, kv, length, 64))
        grad = queries is None
        inputs = tuple(R(s, device=device, dtype=dtype).requires_grad_(grad) for s in shapes)
        return attend, [inputs]

    return make


def scanned(device: torch.device) -> Any:
    """A scan with a function of two values."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def step(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    def function(decay: torch.Tensor, x: torch.Tensor) -> Any:
        return associative_scan(step, (decay, x), dim=0, combine_mode="pointwise")

    # Eager torch has no pointwise mode: the loop written out is what it must equal.
    def loop(decay: torch.Tensor, x: torch.Tensor) -> Any:
        product, state, found = decay[0], x[0], [(decay[0], x[0])]
        for d, y in zip(decay[1:], x[1:], strict=True):
            product, state = product * d, state * d + y
            found.append((product, state))
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True))

    decay, x = torch.rand(100, 7, device=device), R(100, 7, device=device)
    torch._dynamo.reset()
    got = torch.compile(function, fullgraph=True)(decay, x)
    compare(list(got), list(loop(decay, x)), 1e-4)


scanned.devices = CUDA


def workers(device: torch.device) -> None:
    """Kernels that other processes compile."""
    from torch._inductor.async_compile import AsyncCompile

    torch._dynamo.reset()
    with config.patch(compile_threads=2, worker_start_method="subprocess"):
        if hasattr(AsyncCompile, "warm_pool"):
            AsyncCompile.warm_pool()
        end = time.monotonic() + 100
        while not AsyncCompile.use_process_pool():
            assert time.monotonic() < end, "the workers have not started"
            time.sleep(0.1)
        x = R(33, 77, device=device, requires_grad=True)
        compare(run(torch.compile(soft_sum), None, (x,)), run(soft_sum, None, (x,)), 1e-4)


def soft_sum(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.softmax(-1), x.cos().sum(0)


def padded(device: torch.device) -> Any:
    """Two calls whose launches differ in what is known of sizes and addresses."""
    base = R(4, 1001, device=device)
    calls = [(base[:, :n].requires_grad_(),) for n in (1000, 999, 1, 64)]
    return (lambda x: (x * 2, x.sum(-1), x.flatten())), calls


def triton(**settings: Any) -> dict[str, Any]:
    return {f"triton.{name}": value for name, value in settings.items()}


TUNED = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON",
         "max_autotune_conv_backends": "TRITON", "autotune_in_subproc": False}  # fmt: skip
F16, BF16 = torch.float16, torch.bfloat16
MIXED = one(mixed, (65, 130), (130, 65))
cases: Any = {
    "looped": Case(one(Norms, (5, 12, 100)), 5e-4, triton(persistent_reductions=False)),
    # Not backward: torch 2.13 writes a store through a block pointer that it does not make.
    "block_pointers": Case(
        one(mixed, (65, 130), (130, 65), grad=False), 1e-3,
        triton(use_block_ptr=True, prefer_nd_tiling=True)),
    "workers": workers,
    "padded": Case(padded),
    "tiled": Case(MIXED, 1e-3, triton(prefer_nd_tiling=True, tile_reductions=True)),
    "descriptors": Case(
        MIXED, 1e-3, triton(use_tensor_descriptor=True, prefer_nd_tiling=True)
        | {"assume_aligned_inputs": True}),
    "multi_kernel": Case(MIXED, 1e-3, triton(multi_kernel=1)),
    "descent": Case(MIXED, 1e-3, {"coordinate_descent_tuning": True}),
    "tuned_pointwise": Case(MIXED, 1e-3, {"max_autotune_pointwise": True}),
    "combined": Case(several((33, 40), (7, 100), (1000,)), options={"combo_kernels": True}),
    "combined_by_size": Case(
        several((33, 40), (7, 100), (64, 64)),
        options={"combo_kernels": True, "combo_kernel_allow_mixed_sizes": 2}),
    "rounded": Case(
        one(Attention, (3, 17, 48), dtype=BF16), 6e-2, {"emulate_precision_casts": True}),
    "kept_half": Case(
        one(Attention, (3, 17, 48), dtype=BF16), 6e-2, triton(codegen_upcast_to_fp32=False)),
    "long_indices": Case(sizes_of_rows, options=triton(divisible_by_16=False),
                         how={"dynamic": True}),
    "scalar_sizes": Case(sizes_of_rows, how={"dynamic": None}),
    "cooperative": Case(
        one(long, (300003,)), 1e-3, triton(force_cooperative_reductions=True), devices=CUDA),
    "cooperative_rows": Case(
        one(reductions, (5, 33000)), 1e-3,
        triton(force_cooperative_reductions=True) | ORDERED, devices=CUDA),
    "split_scan": Case(one(scans, (3, 70000), grad=False), 2e-3, ORDERED, devices=CUDA),
    "static_launcher": Case(
        MIXED, 1e-3, {"strict_static_triton_launcher": True, "use_static_triton_launcher": True},
        devices=CUDA),
    "python_launcher": Case(MIXED, 1e-3, triton(store_cubin=True), devices=CUDA),
    "cpp_wrapper": Case(MIXED, 1e-3, {"cpp_wrapper": True}, devices=CUDA, source="cuLaunchKernel"),
    "scanned": scanned,
    "products": Case(products(torch.float32), 1e-3, TUNED, devices=CUDA),
    "products_fp16": Case(products(F16), 2e-2, TUNED, devices=CUDA),
    "products_bf16": Case(products(BF16), 6e-2, TUNED, devices=CUDA),
    "products_dynamic": Case(
        products(F16), 2e-2, TUNED, how={"dynamic": True}, devices=CUDA),
    "product_int8": Case(int8_product, 0, TUNED, devices=CUDA),
    "product_deep": Case(deep(F16), 3e-2, TUNED, devices=CUDA),
    "product_persistent": Case(
        big(BF16), 6e-2, TUNED | triton(enable_persistent_tma_matmul=True), devices=CUDA),
    "product_native": Case(
        big(F16), 2e-2, triton(native_matmul=True), devices=CUDA, source="tl.dot("),
    "images": Case(one(Images, (2, 16, 20, 20), dtype=F16), 2e-2, TUNED, devices=CUDA),
    "max_autotune": Case(
        one(MLP, (64, 48), dtype=F16), 2e-2, how={"mode": "max-autotune-no-cudagraphs"},
        devices=CUDA),
    "graphs": Case(graphs, how={"mode": "reduce-overhead"}, devices=CUDA),
    "graphs_tuned": Case(graphs, how={"mode": "max-autotune"}, devices=CUDA),
    "flex_score": Case(flexible("score", torch.float32), 2e-3, devices=CUDA),
    "flex_mask": Case(flexible("mask", torch.float32), 2e-3, devices=CUDA),
    "flex_both_bf16": Case(flexible("both", BF16, 384), 6e-2, devices=CUDA),
    "flex_groups": Case(flexible("groups", F16), 2e-2, devices=CUDA),
    "flex_decoding": Case(flexible("both", F16, 1024, 1), 2e-2, devices=CUDA),
    "flex_tuned": Case(
        flexible("both", F16, 256), 2e-2, how={"mode": "max-autotune-no-cudagraphs"},
        devices=CUDA),
}  # fmt: skip

if __name__ == "__main__":
    main(cases)
