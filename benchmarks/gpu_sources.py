"""The kernels of `gpu_kernels` with signatures and constants, to be compiled without a GPU."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from benchmarks import gpu_kernels


@dataclass(frozen=True)
class Case:
    """A kernel as it is launched with aligned pointers and sizes divisible by 16.

    Attributes:
        kernel: its name in `gpu_kernels`.
        signature: the types of its runtime parameters, separated by blanks; `1` is an integer that
            is 1; with a colon after it not divisible by 16.
        constants: of the others.
        options: num_warps and num_stages.
    """

    kernel: str
    signature: str
    constants: dict[str, Any]
    options: dict[str, int] = field(default_factory=dict[str, int])


def _matmul(kind: str, bm: int, bn: int, bk: int, warps: int, stages: int) -> Case:
    # fp8's right operand is stored transposed, as tutorial 03 has it.
    strides = " i32 i32 i32 i32 1 i32 1 i32 1" if "16" in kind else " i32 i32 i32 i32 1 1 i32 i32 1"
    return Case(
        "matmul", f"*{kind} *{kind} *fp16{strides}",
        {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, {"num_warps": warps, "num_stages": stages},
    )  # fmt: skip


def _attention(depth: int, bn: int, warps: int, stages: int, causal: bool) -> Case:
    q, k = f"tensordesc<fp16[128,{depth}]>", f"tensordesc<fp16[{bn},{depth}]>"
    return Case(
        "attention", f"{q} {k} {k} {q} *fp32 i32 fp32",
        {"D": depth, "BM": 128, "BN": bn, "CAUSAL": causal},
        {"num_warps": warps, "num_stages": stages},
    )  # fmt: skip


def _softmax(columns: int, block: int, warps: int) -> Case:
    return Case("softmax", "*fp32 *fp32 i32 i32 i32 i32", {"BLOCK": block}, {"num_warps": warps})


CASES: dict[str, Case] = {
    "add": Case("add", "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}),
    "softmax 1024": _softmax(1024, 1024, 4),
    "softmax 4096": _softmax(4096, 4096, 8),
    "softmax 12544": _softmax(12544, 16384, 16),
    "dropout": Case("dropout", "*fp32 *fp32 i32 fp32 i32:", {"BLOCK": 1024}),
    "layer norm": Case(
        "layer_norm", "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 i32 i32 fp32", {"BLOCK": 4096},
        {"num_warps": 8},
    ),
    "layer norm, rows": Case(
        "layer_norm_rows", "*fp16 *fp16 *fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *i32 i32 i32",
        {"GROUPS": 128, "BLOCK": 4096}, {"num_warps": 8},
    ),
    "layer norm, sums": Case(
        "layer_norm_sums", "*fp16 *fp16 *fp16 *fp16 i32 i32", {"BM": 32, "BN": 128},
    ),
    "matmul 128x256x64": _matmul("fp16", 128, 256, 64, 8, 3),
    "matmul 128x128x64": _matmul("fp16", 128, 128, 64, 8, 4),
    "matmul 64x256x32": _matmul("fp16", 64, 256, 32, 4, 4),
    "matmul fp8 128x256x128": _matmul("fp8e5", 128, 256, 128, 8, 3),
    "matmul fp8 128x128x128": _matmul("fp8e5", 128, 128, 128, 8, 3),
    "attention 64": _attention(64, 64, 4, 3, False),
    "attention 128": _attention(128, 64, 8, 3, False),
    "attention 64 causal": _attention(64, 64, 4, 3, True),
    "attention 128 causal": _attention(128, 64, 8, 3, True),
}  # fmt: skip


def compiled(name: str, package: str = "tritium", arch: int | str = 90) -> Any:
    """Compile a case with `tritium` or `triton` for a compute capability, or an AMD GPU."""
    case = CASES[name]
    fn = getattr(gpu_kernels.load(package), case.kernel)
    compiler = importlib.import_module(f"{package}.compiler")
    amd, lanes = isinstance(arch, str), 64 if str(arch).startswith("gfx9") else 32
    kind = importlib.import_module(f"{package}.backends.compiler").GPUTarget
    target = kind("hip" if amd else "cuda", arch, lanes)
    types, constants, attrs = dict[str, str](), dict(case.constants), dict[Any, Any]()
    for index, (parameter, kind) in enumerate(
        zip(fn.arg_names, case.signature.split(), strict=False)
    ):
        plain = kind.removesuffix(":")
        types[parameter] = "constexpr" if kind == "1" else plain
        if kind == "1":
            constants[parameter] = 1
        elif plain == kind and kind[0] in "*i":
            attrs[(index,)] = [["tt.divisibility", 16]]
            if amd and kind[0] == "*":
                attrs[(index,)].append(["tt.pointer_range", 32])
    constants = {p.name: p.default for p in fn.params if p.has_default} | constants
    types |= dict.fromkeys(constants, "constexpr")
    source = compiler.ASTSource(fn, types, constants, attrs)
    compile = importlib.import_module(package).compile
    return compile(source, target=target, options=dict(case.options))
