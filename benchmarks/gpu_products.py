"""Products: matmul in fp16, fp8 and fp32, attention."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import tritium
from benchmarks.gpu_measure import KERNELS, both, compare

# (BM, BN, BK, warps, stages)
TILES = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (64, 256, 32, 4, 4))
BYTE_TILES = ((128, 256, 128, 8, 3), (128, 128, 128, 8, 3))
ODD = (1000, 1111, 1333)
"""Sizes that no tile divides, in elements whose rows are not aligned."""


def _grid(m: int, n: int, bm: int, bn: int) -> tuple[int]:
    return (tritium.cdiv(m, bm) * tritium.cdiv(n, bn),)


def matmul() -> None:
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
        _product(f"matmul fp16 {size}", a, b, a @ b, TILES, 2e-3)


def matmul_fp8() -> None:
    for size in (4096, 8192):
        a, b = (
            torch.randn(size, size, device="cuda").to(torch.float8_e5m2) for _ in range(2)
        )
        b = b.T
        want = (a.half() @ b.half()).float()
        _product(f"matmul fp8 {size}", a, b, want, BYTE_TILES, 2e-3)


def matmul_odd() -> None:
    """Sizes that fit nothing: rows not even aligned to 4 bytes."""
    m, n, k = ODD
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    _product(f"matmul fp16 {m}x{n}x{k}", a, b, a @ b, ((128, 128, 64, 8, 3),), 2e-3)


def matmul_mma() -> None:
    """The instructions of Ampere (`mma.sync`), on this GPU by `arch="sm80"`."""
    for size in (2048, 4096):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
        tiles = ((128, 128, 32, 4, 4), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3))
        _product(f"matmul mma.sync {size}", a, b, a @ b, tiles, 2e-3, arch="sm80")


def matmul_ieee() -> None:
    """fp32 as it is, which the tensor cores do not multiply."""
    size = 2048
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    tiles = ((128, 128, 32, 8, 3), (128, 128, 32, 4, 3), (128, 128, 64, 8, 2), (128, 64, 32, 4, 3),
             (64, 64, 32, 4, 3))  # fmt: skip
    _product(f"matmul fp32 ieee {size}", a, b, a @ b, tiles, 1e-5, PRECISION="ieee")


def _product(
    name: str, a: torch.Tensor, b: torch.Tensor, want: torch.Tensor,
    tiles: tuple[tuple[int, ...], ...], tolerance: float, **more: str,
) -> None:  # fmt: skip
    (m, k), n = a.shape, b.shape[1]
    kind = torch.float32 if a.dtype == torch.float32 else torch.float16
    out = torch.empty(m, n, device="cuda", dtype=kind)
    flops = 2.0 * m * n * k
    arguments = (a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride())
    for index, (bm, bn, bk, warps, stages) in enumerate(tiles):
        calls = both(
            "matmul", _grid(m, n, bm, bn), *arguments, BM=bm, BN=bn, BK=bk, GROUP=8,
            num_warps=warps, num_stages=stages, **more,
        )  # fmt: skip
        if index == 0 and a.dtype == kind:
            calls["torch"] = partial(torch.matmul, a, b, out=out)
        title = f"{name}, {bm}x{bn}x{bk} w{warps} s{stages}"
        compare(title, "TFLOP/s", flops, calls, out, want, tolerance)


def persistent() -> None:
    """Persistent products with descriptors of the host, and with such that the kernel makes."""
    for package in (tritium, triton):
        package.set_allocator(lambda size, alignment, stream: torch.empty(
            size, dtype=torch.int8, device="cuda"
        ))  # fmt: skip
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    out, want, flops = torch.empty_like(a), a @ b.T, 2.0 * n**3
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    tiles = ((128, 256, 64, 8, 3, True), (128, 128, 64, 8, 4, False))
    for bm, bn, bk, warps, stages, half in tiles:
        meta = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "SUBTILE": half, "num_warps": warps,
                "num_stages": stages}  # fmt: skip
        blocks = ([bm, bk], [bn, bk], [bm, bn // (1 + half)])
        made = [TensorDescriptor.from_tensor(*p) for p in zip((a, b, out), blocks, strict=True)]
        for kernel, arguments in (("persistent", made), ("persistent_made", (a, b, out))):
            calls = both(kernel, (programs,), *arguments, n, n, n, **meta)
            name = f"{kernel.replace('_', ' ')} fp16 {n}, {bm}x{bn}x{bk} s{stages}"
            compare(name, "TFLOP/s", flops, calls, out, want, 2e-3)


def from_ir() -> None:
    """ttgir that Triton wrote (with TMA and without): the lowering alone."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    out, want, flops = torch.empty_like(a), a @ b, 2.0 * n**3
    plain, bulk = (tritium.compile(KERNELS / f"matmul_{x}.ttgir") for x in ("wgmma", "tma"))
    call = partial(plain[(n // 128) * (n // 256), 1, 1], a, b, out, *[n] * 6)
    name = f"matmul fp16 {n}"
    compare(f"{name}, 128x256x64", "TFLOP/s", flops, {"tritium, ttgir": call}, out, want, 2e-3)
    b_t = b.T.contiguous()
    make = TensorDescriptor.from_tensor
    descriptors = make(a, [128, 64]), make(b_t, [128, 64]), make(out, [128, 128])
    call = partial(bulk[(n // 128) ** 2, 1, 1], *descriptors, n, n, n)
    name += ", 128x128x64, TMA"
    compare(name, "TFLOP/s", flops, {"tritium, ttgir": call}, out, want, 2e-3)


def attention() -> None:
    """Forward, for 4 batches of 32 heads."""
    heads, length = 4 * 32, 4096
    for depth, tiles in ((64, ((128, 64, 4, 3), (128, 128, 8, 3))), (128, ((128, 64, 8, 3),
                         (128, 128, 8, 3)))):  # fmt: skip
        q, k, v = (
            torch.randn(heads * length, depth, device="cuda", dtype=torch.float16)
            for _ in range(3)
        )
        out = torch.empty_like(q)
        top = torch.empty(heads * length, device="cuda")
        scale = depth**-0.5
        for causal in (False, True):
            parts = [t.view(1, heads, length, depth) for t in (q, k, v)]
            torch_call = partial(
                F.scaled_dot_product_attention, *parts, is_causal=causal, scale=scale
            )
            want = torch_call().reshape(heads * length, depth)
            flops = 4.0 * heads * length * length * depth * (0.5 if causal else 1)
            for bm, bn, warps, stages in tiles:
                make = TensorDescriptor.from_tensor
                descriptors = [make(q, [bm, depth]), make(k, [bn, depth]), make(v, [bn, depth]),
                               make(out, [bm, depth])]  # fmt: skip
                calls = both(
                    "attention", (length // bm, heads), *descriptors, top, length, scale,
                    D=depth, BM=bm, BN=bn, CAUSAL=causal, num_warps=warps, num_stages=stages,
                )  # fmt: skip
                kind = "causal" if causal else "full"
                name = f"attention {kind} D={depth}, {bm}x{bn} w{warps} s{stages}"
                compare(name, "TFLOP/s", flops, calls, out, want, 3e-3)
