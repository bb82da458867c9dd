"""Kernels that a program defines itself, inside torch.compile, on the CPU through Triton:
`tritium run user_kernels.py` prints a line for each case that is right."""

import torch
import triton
import triton.language as tl
from torch._higher_order_ops.triton_kernel_wrap import identify_accessed_tensors
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.library import triton_op, wrap_triton
from triton import cdiv
from triton.language import arange, int64, load, program_id
from triton.language import store as put

config.cpu_backend = "triton"
config.compile_threads = 1
config.fx_graph_cache = False
torch.manual_seed(0)

FACTOR = tl.constexpr(3)


@triton.constexpr_function
def twice(n):
    return 2 * n


@triton.jit
def scaled(x):
    return x * FACTOR


@triton.jit
def combine(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    blocks = cdiv(BLOCK, 16)
    value = scaled(tl.load(x + i, inside)) + twice(blocks) * tl.load(y + i, inside)
    tl.store(out + i, value, inside)


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


@triton.jit
def unqualified(x, out, n, BLOCK: tl.constexpr):
    i = program_id(0).to(int64) * BLOCK + arange(0, BLOCK)
    put(out + i, tl.sum(load(x + i, i < n, 0.0)[None, :], 0) + 1, i < n)


@triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=["n"])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@triton.jit
def add_into(total, value):
    tl.atomic_add(total, value)


@triton.jit
def sums(x, total, largest, unused, n, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], tl.float32)
    p = x + tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        acc += tl.load(p, start + tl.arange(0, BLOCK) < n, 0.0)
        p += BLOCK
    add_into(total, tl.sum(acc))
    if n > 5:
        tl.store(largest, tl.max(acc))


@triton.jit
def either(a, b, which, BLOCK: tl.constexpr):
    p = a
    if which > 0:
        p = b
    tl.store(p + tl.arange(0, BLOCK), 1.0)


@triton.jit
def described(a, b, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [n], [1], [BLOCK])
    target = tl.make_tensor_descriptor(b, [n], [1], [BLOCK])
    target.store([0], source.load([0]))


def launch_combine(x, y):
    x = x.sin()
    out = torch.empty_like(x)
    n = x.numel()
    combine[(triton.cdiv(n, 64),)](x, y, out, n, BLOCK=64)
    return out.cos() + x


def launch_with_computed_block(x, y):
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[0] // 2)
    combine[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), block)
    return out


def launch_in_place(x, y):
    z = x + 1
    double[(triton.cdiv(z.numel(), 64),)](z, z.numel(), 64)
    double[(triton.cdiv(y.numel(), 64),)](y, y.numel(), 64)
    return z * y


def launch_unqualified(x, y):
    out = torch.empty_like(x)
    unqualified[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out * y


def launch_tuned(x, y):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out * y


@triton_op("tritium_test::combined", mutates_args={})
def combined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    wrap_triton(combine)[(triton.cdiv(n, 64),)](x, y, out, n, 64)
    return out


@triton_op("tritium_test::doubled_", mutates_args={"x"})
def doubled_(x: torch.Tensor) -> None:
    wrap_triton(double)[(triton.cdiv(x.numel(), 64),)](x, x.numel(), 64)


def call_ops(x, y):
    z = x + 1
    doubled_(z)
    return combined(z, y).relu()


def compare(function, dynamic, sizes):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for size in sizes:
        x, y = torch.randn(2, size)
        mine, theirs = y.clone(), y.clone()
        want, got = function(x, mine), compiled(x, theirs)
        torch.testing.assert_close(got, want)
        assert torch.equal(mine, theirs)
    print("right", function.__name__, flush=True)


def accesses(kernel, **arguments):
    """(names read, names written) by a kernel, as torch finds them."""
    found = identify_accessed_tensors(kernel, arguments, {}).read_writes
    return " ".join(d.name for d in found.reads), " ".join(d.name for d in found.writes)


def analyse():
    a, b, c, d = torch.randn(4, 64)
    assert accesses(combine, x=a, y=b, out=c, n=64, BLOCK=64) == ("x y", "out")
    assert accesses(double, x=a, n=64, BLOCK=64) == ("x", "x")
    assert accesses(tuned, x=a, out=b, n=64) == ("x", "out")
    found = accesses(sums, x=a, total=b, largest=c, unused=d, n=64, BLOCK=64)
    assert found == ("x", "total largest"), found
    assert accesses(either, a=a, b=b, which=1, BLOCK=64) == ("", "a b")
    assert accesses(described, a=a, b=b, n=64, BLOCK=64) == ("a", "b")
    print("right analysis", flush=True)


def inputs_are_not_copied():
    """Arguments that are only read are not copied, and computations are not fused."""
    torch._dynamo.reset()
    x, y = torch.randn(2, 100)
    _, (code,) = run_and_get_code(torch.compile(launch_with_computed_block, dynamic=False), x, y)
    # `empty_like` is all that is allocated; inputs taken for written would be cloned.
    assert code.count("empty_strided_cpu((100, ), (1, ), torch.float32)") == 1, code
    assert "triton_poi_fused" not in code, code
    print("right inputs_are_not_copied", flush=True)


if __name__ == "__main__":
    for function in (launch_combine, launch_in_place, launch_tuned, launch_unqualified, call_ops):
        compare(function, False, (100,))
    compare(launch_combine, True, (100, 333))
    compare(launch_with_computed_block, None, (100,))
    analyse()
    inputs_are_not_copied()
