"""Names, methods, hints, assertions, assembly, aggregates."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, both, eager
from tests.support.frontend import text_of
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import CompilationError
from tritium.language.jit.function import JITCallable, device_function
from tritium.language.jit.function import device_function as jit
from tritium.language.values.base import is_builtin

MEMBERS = (
    "abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max "
    "atomic_min atomic_or atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos cumprod cumsum "
    "erf exp exp2 expand_dims flip floor gather histogram item log log2 logical_and logical_or max "
    "min permute ravel reduce reduce_or reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn "
    "store sum to trans view xor_sum"
)


def test_every_function_that_is_a_method():
    for name in MEMBERS.split():
        assert is_builtin(getattr(tl.tensor, name)), name
        free = getattr(tl, name, None)
        assert free is None or is_builtin(free) or isinstance(free, JITCallable), name


def test_methods_are_the_functions():
    with eager():
        x = block([4.0, 1.0, 2.0, 8.0], tl.float32)
        for name in ("exp", "sqrt", "sigmoid", "sum", "max", "argmin", "cumsum", "sort", "flip",
                     "softmax", "ravel", "abs", "floor"):  # fmt: skip
            arguments = (0,) if name == "argmin" else ()
            method = getattr(x, name)(*arguments).value
            np.testing.assert_array_equal(method, getattr(tl, name)(x, *arguments).value)


def test_hints():
    @jit
    def kernel(x):
        i = tl.max_constancy(tl.max_contiguous(tl.multiple_of(tl.arange(0, 8), 8), [8]), (1,))
        tl.assume(tl.program_id(0) >= 0)
        tl.store(x + i, i)
        tl.debug_barrier()

    text = text_of(kernel, x=np.zeros(8, np.int32))
    for part in ("tt.divisibility = dense<8>", "tt.contiguity = dense<8>",
                 "tt.constancy = dense<1>", "llvm.intr.assume", "gpu.barrier"):  # fmt: skip
        assert part in text
    x = np.zeros(8, np.int32)
    InterpretedKernel(kernel.fn)[(1,)](x)
    assert x.tolist() == list(range(8))
    with eager():
        with pytest.raises(ValueError, match="multiple_of does not match the length of values"):
            tl.multiple_of(block([1, 2]), [2, 2])
        with pytest.raises(TypeError, match="values element 0 must have type"):
            tl.max_contiguous(block([1, 2]), [2.0])


def test_unused_results():
    @tl.core.must_use_result("assign it")
    @jit
    def cube(x):
        return x * x * x

    @jit
    def drops(x):
        cube(tl.load(x))

    @jit
    def advances(x):
        p = tl.make_block_ptr(x, (8,), (1,), (0,), (8,), (0,))
        tl.advance(p, (4,))

    x = np.zeros(8, np.float32)
    with pytest.raises(CompilationError, match=r"The result of cube is not being used. assign it"):
        text_of(drops, x=x)
    with pytest.raises(CompilationError, match=r"result of tl.advance is not being used"):
        text_of(advances, x=x)


@tl.core._aggregate
class Counter:
    """A block, a constant, and a way to count."""

    data: tl.tensor
    step: tl.constexpr
    extra: tl.tuple

    def __init__(self, data, step, extra=()):
        self.data = data
        self.step = step
        self.extra = tl.tuple(extra)

    @device_function
    def advanced(self, times):
        return Counter(self.data + times * self.step, self.step, self.extra)

    def total(self):
        return tl.sum(self.data)


@device_function
def bump(counter):
    counter.data += 1
    return counter


def test_aggregates():
    @jit
    def kernel(x, out, n):
        i = tl.arange(0, 4)
        c = Counter(tl.load(x + i), 10, (n,))
        d = c.advanced(2)
        if n > 2:
            d.data = d.data + 100
        for _ in range(2):
            d = bump(d)
        tl.store(out + i, d.data)
        tl.store(out + 4, c.total() + d.step + d.extra[0])

    x, out = np.arange(4, dtype=np.int32), np.zeros(5, np.int32)
    for n, added in ((3, 100), (1, 0)):
        both(kernel, x=x, out=out, n=n)
        assert out.tolist() == [*(x + 22 + added), 6 + 10 + n]


def test_aggregate_types():
    with eager():
        c = Counter(block([1, 2]), 3, (block(5),))
        handles = c.flatten()
        again, cursor = c.type.unflatten(handles, 0)
        assert cursor == 2 == len(c.type.flatten_types()) and again.type == c.type
        assert again.step.value == 3 and again.extra[0].value == 5
        assert c.type != Counter(block([1, 2]), 4, (block(5),)).type
        assert c.type.mangle().startswith(f"{__name__}.Counter<i32S2S")


def test_aggregate_messages():
    @tl.core._aggregate
    class Half:
        a: tl.tensor
        b: tl.tensor

        def __init__(self, a):
            self.a = a

    with eager():
        with pytest.raises(AttributeError, match="Half did not initialize attribute 'b'"):
            Half(block(1))
        with pytest.raises(TypeError, match="Expected tensor for attribute 'a' of Half, got const"):
            Half(3)
        with pytest.raises(TypeError, match="Expected constexpr for attribute 'step' of Counter"):
            Counter(block(1), block(2))
        with pytest.raises(AttributeError, match="Counter has no field 'other'"):
            Counter(block(1), 2).other = 3
    with pytest.raises(TypeError, match=r"__init__ cannot be a @triton.jit function"):

        @tl.core._aggregate
        class Jitted:
            a: tl.tensor

            @device_function
            def __init__(self, a):
                pass
