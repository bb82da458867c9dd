"""`tl.multiple_of` and its like on values that no single op defines: loop-carried ones, arguments,
results of several."""

import numpy as np

import tritium.language as tl
from tests.language.support import both
from tests.support.frontend import compile_kernel
from tritium.analysis.axis_info import AxisAnalysis
from tritium.language.jit.function import device_function as jit
from tritium.ops.ttir import FuncOp, LoadOp, StoreOp
from tritium.passes import pipelines
from tritium.passes.base import PassManager


@jit
def in_a_loop(a, out, start, n):
    p = a + start + tl.arange(0, 16)
    total = tl.zeros([16], tl.float32)
    for _ in range(n):
        tl.multiple_of(p, 16)
        total += tl.load(p)
        p += 16
    tl.store(out + tl.arange(0, 16), total)


@jit
def of_one_half(a, out):
    i = tl.arange(0, 16)
    left, right = tl.split(tl.join(tl.load(a + i), tl.load(a + i + 3)))
    tl.multiple_of(left, 16)
    tl.store(out + right, left)


def known_of(kernel, kind, **args):
    """Facts about the pointers that the kernel's ops of a kind access, as it is written and as
    it is optimized."""
    for passes in ([], pipelines.ttir()):
        module = compile_kernel(kernel, **args)
        PassManager(passes).run(module)
        function = next(op for op in module.walk() if isinstance(op, FuncOp))
        analysis = AxisAnalysis(function)
        yield [analysis.of(op.operands[0]) for op in function.walk() if isinstance(op, kind)]


def test_a_loop_variable_keeps_what_is_stated():
    a, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    for (info,) in known_of(in_a_loop, LoadOp, a=a, out=out, start=16, n=3):
        assert info.divisibility[0] == 16 and info.contiguity[0] == 16
    both(in_a_loop, a=a, out=out, start=16, n=3)
    assert out.tolist() == a[16:].reshape(3, 16).sum(0).tolist()


def test_a_statement_is_about_one_of_several_results():
    a, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    for (info,) in known_of(of_one_half, StoreOp, a=a, out=out):
        assert info.divisibility[0] < 16
    a[:] = np.arange(32) % 19
    both(of_one_half, a=a, out=out)


def test_a_statement_in_a_branch_is_about_the_branch():
    """A value of the block around it stays what it is; the kernel is valid."""

    @jit
    def kernel(a, out, n):
        p = a + n + tl.arange(0, 4)
        for i in range(2):
            if n > 1:
                tl.multiple_of(p, 4)
                tl.multiple_of(i, 2)
                tl.store(out + i, tl.sum(tl.load(p)))
            p += 4
            tl.max_contiguous(p, 4)
        tl.store(out + 2, tl.sum(tl.load(p)))

    a, out = np.arange(16, dtype=np.int32), np.zeros(3, np.int32)
    both(kernel, a=a, out=out, n=4)
    assert out.tolist() == [22, 38, 54]


@jit
def while_it_lasts(a, out, start, n):
    p = a + start + tl.arange(0, 16)
    total = tl.zeros([16], tl.float32)
    while n > 0:
        p = tl.multiple_of(p, 16)
        total += tl.load(p)
        p += 16
        n -= 1
    tl.store(out + tl.arange(0, 16), total)


@jit
def in_branches(a, out, start, n):
    a, i = tl.multiple_of(a, 64), tl.arange(0, 16)
    for k in range(n):
        if k > 0:
            tl.store(out + i, tl.load(a + tl.multiple_of(start, 16) + i))
        else:
            tl.store(out + i, tl.load(a + start + i))


def test_a_while_loop_keeps_what_is_known():
    a, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    for (info,) in known_of(while_it_lasts, LoadOp, a=a, out=out, start=16, n=3):
        assert info.divisibility[0] == 16 and info.contiguity[0] == 16
    both(while_it_lasts, a=a, out=out, start=16, n=3)
    assert out.tolist() == a[16:].reshape(3, 16).sum(0).tolist()


def test_a_statement_about_an_argument_holds_in_its_branch():
    a, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    for stated, other in known_of(in_branches, LoadOp, a=a, out=out, start=5, n=3):
        assert stated.divisibility[0] == 64 > other.divisibility[0]
    both(in_branches, a=a, out=out, start=16, n=3)
    assert out.tolist() == a[16:32].tolist()
