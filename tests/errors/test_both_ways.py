"""Errors of a launch, or of a call in a kernel, read the same compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tritium.errors import TritonError
from tritium.language.jit.function import device_function
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.parametrize("make", [JITFunction, InterpretedFunction])


def annotated(out, n: tl.int8, m: tl.uint64 = 0, flag: tl.int1 = True, x: tl.float16 = 0.0):  # pyright: ignore
    tl.store(out, n.to(tl.int64) + m.to(tl.int64) + flag.to(tl.int64) + x.to(tl.int64))


def test_a_number_that_its_annotation_cannot_hold(make: Any) -> None:
    kernel, out = make(annotated), np.zeros(1, np.int64)
    for given, message in (
        ({"n": 128}, r"argument 'n' \(number 1\) is 128, out of range for i8 \(-128 to 127\)"),
        ({"n": np.int64(-129)}, r"argument 'n' .* is -129, out of range for i8"),
        ({"n": 0, "m": -1}, r"argument 'm' \(number 2\) is -1, out of range for u64"),
        ({"n": 0, "m": 2**64}, r"argument 'm' .* is 18446744073709551616, out of range for u64"),
        ({"n": 0, "flag": 2}, r"argument 'flag' .* is 2, out of range for u1 \(0 to 1\)"),
    ):
        with pytest.raises(OverflowError, match=message):
            kernel[(1,)](out, **given)
    with pytest.raises(TypeError, match=r"argument 'n' .* is 1.5 of type float; .*of type i8"):
        kernel[(1,)](out, 1.5)
    kernel[(1,)](out, -128, 2**63, False, 2**70)  # an fp16 becomes infinite
    kernel[(1,)](out, True, 5, 1, 2.0)
    assert out[0] == 1 + 5 + 1 + 2


def plain(out, n):
    tl.store(out, n)


def test_an_integer_of_more_than_64_bits(make: Any) -> None:
    for value in (2**64, -(2**63) - 1, (2**70,)):
        with pytest.raises(OverflowError, match=r"argument 'n.*': integer .* does not fit in 64"):
            make(plain)[(1,)](np.zeros(1), value)


def first_of(out, pair: tl.int8):
    tl.store(out, pair[0].to(tl.int32) * 1000)


def test_an_annotation_holds_for_the_members_of_a_tuple(make: Any) -> None:
    out = np.zeros(1, np.int64)
    make(first_of)[(1,)](out, (-100, 5))
    assert out[0] == -100_000
    with pytest.raises(OverflowError, match=r"argument 'pair\[1\]' .* is 300, out of range for i8"):
        make(first_of)[(1,)](out, (1, 300))


def loading(out, n):
    tl.store(out, tl.load(n))


def test_what_no_kernel_takes(make: Any) -> None:
    for value, message in (
        (object(), r"argument 'n' has type object; a kernel takes tensors, numbers, None"),
        (np.zeros(2, np.complex64), r"argument 'n': no kernel type matches dtype complex64"),
        (np.zeros(2, ">f4"), r"argument 'n' .*is not in this machine's byte order \(dtype >f4\)"),
    ):
        with pytest.raises(TypeError, match=message):
            make(loading)[(1,)](np.zeros(1), value)


def test_counts_of_warps_stages_and_clusters(make: Any) -> None:
    kernel, out = make(plain), np.zeros(1)
    for option, error, message in (
        ({"num_warps": 3}, AssertionError, "num_warps must be a power of 2; got 3"),
        ({"num_warps": 0}, ValueError, "num_warps is 0; an int from 1 on is required"),
        ({"num_warps": "4"}, ValueError, "num_warps is '4'; an int from 1 on is required"),
        ({"num_ctas": 0}, ValueError, "num_ctas is 0; an int from 1 on is required"),
        ({"num_stages": -1}, ValueError, "num_stages is -1; an int from 0 on is required"),
    ):
        with pytest.raises(error, match=message):
            kernel[(1,)](out, 2, **option)
    kernel[(1,)](out, 2, num_warps=None, num_stages=0, num_ctas=None)
    assert out[0] == 2


def hinted(out, n):
    for i in tl.range(0, 4, num_stages=n):
        tl.store(out, i)


def unrolled(out, n):
    for i in tl.range(0, 4, loop_unroll_factor=n + 1):
        tl.store(out, i)


def flattened(out, n):
    for i in tl.range(0, 4, flatten=n > 2):
        tl.store(out, i)


def test_hints_of_a_loop_are_known_at_compile_time(make: Any) -> None:
    for kernel, hint in (
        (hinted, "num_stages"),
        (unrolled, "loop_unroll_factor"),
        (flattened, "flatten"),
    ):
        with pytest.raises(
            TritonError, match=rf"{hint}=(.|\n)*\^(.|\n)*range: {hint} is .*; a compile-time int"
        ):
            make(kernel)[(1,)](np.zeros(1, np.int32), 3)


def test_arguments_that_do_not_match_the_parameters(make: Any) -> None:
    kernel, out = make(plain), np.zeros(1)
    for args, kwargs, message in (
        ((), {}, r"plain\(\) missing 2 required positional arguments: 'out' and 'n'"),
        ((out,), {"N": 3}, r"plain\(\) missing 1 required positional argument: 'n'"),
        ((out, 1, 2), {}, r"plain\(\) takes 2 positional arguments but 3 were given"),
        ((out, 1), {"n": 2}, r"plain\(\) got multiple values for argument 'n'"),
    ):
        with pytest.raises(TypeError, match=message):
            kernel[(1,)](*args, **kwargs)
    for name in ("N", "stream", "grids"):
        with pytest.raises(KeyError, match=f"argument {name} .*; the parameters of plain are out"):
            kernel[(1,)](out, 1, **{name: 2})


@device_function
def add(x, y, *, scale=1):
    return x + y * scale


def missing(out):
    tl.store(out, add(1))


def too_many(out):
    tl.store(out, add(1, 2, 3))


def unexpected(out):
    tl.store(out, add(1, 2, z=3))


def twice(out):
    tl.store(out, add(1, 2, y=3))


def of_a_builtin(out):
    tl.store(out)


def unknown_to_a_builtin(out):
    tl.store(out, 1, masks=True)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (missing, r"add\(\) missing a required argument: 'y'"),
        (too_many, r"add\(\) too many positional arguments"),
        (unexpected, r"add\(\) got an unexpected keyword argument 'z'"),
        (twice, r"add\(\) multiple values for argument 'y'"),
        (of_a_builtin, r"store\(\) missing 1 required positional argument: 'value'"),
        (unknown_to_a_builtin, r"store\(\) got an unexpected keyword argument 'masks'"),
    ],
)
def test_calls_in_a_kernel(make: Any, kernel: Any, message: str) -> None:
    with pytest.raises(TritonError, match=rf"\^(.|\n)*{message}"):
        make(kernel)[(1,)](np.zeros(1))


def test_a_kernel_launches_no_other(make: Any) -> None:
    callee = make(plain)

    def launching(out):
        callee[(1,)](out, 1)

    def running(out):
        callee.run(out, 1, grid=(1,), warmup=False)

    def kept(out):
        launch = callee[(1,)]
        launch(out, 1)

    for kernel in (launching, running, kept):
        with pytest.raises(
            TritonError,
            match=r"\^(.|\n)*a kernel cannot launch another; call it: `plain\(...\)`",
        ):
            make(kernel)[(1,)](np.zeros(1))


def scaled(out, x, scales, K: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    s = tl.load(scales + m[:, None])
    product = tl.dot_scaled(a, s, "e5m2", a.T, None, "e5m2")
    tl.store(out + m[:, None] * 16 + m[None, :], product)


def test_dot_scaled_of_less_than_a_run_of_scales(make: Any) -> None:
    out, x = np.zeros((16, 16), np.float32), np.zeros((16, 32), np.uint8)
    with pytest.raises(
        TritonError,
        match=r"\^(.|\n)*dot_scaled: scale factor must be 16 or 32. Got 8: lhs_scale has .* K is 8",
    ):
        make(scaled)[(1,)](out, x, np.zeros(16, np.uint8), K=8)
    for k in (16, 32):
        make(scaled)[(1,)](out, x, np.zeros(16, np.uint8), K=k)


def range_of_four(out):
    for i in range(0, 1, 2, 3):  # pyright: ignore
        tl.store(out, i)


def hinted_range(out):
    for i in range(0, 8, 3, num_stages=2):  # pyright: ignore
        tl.store(out, i)


def masked_range(out):
    for i in range(0, 8, mask=True):  # pyright: ignore
        tl.store(out, i)


def numbered_attribute(out):
    tl.store(out, hasattr(out, 5))  # pyright: ignore


@pytest.mark.parametrize(("kernel", "message"), [
    (masked_range, "unexpected keyword argument 'mask'; its hints are num_stages, "),
    (numbered_attribute, "(hasattr: 5 is no name of an attribute|attribute name must be string)"),
])  # fmt: skip
def test_arguments_that_builtins_do_not_take(make: Any, kernel: Any, message: str) -> None:
    with pytest.raises(TritonError, match=r"\^(.|\n)*" + message):
        make(kernel)[(1,)](np.zeros(1, np.int32))


def test_range_takes_what_that_of_python_takes_and_hints(make: Any) -> None:
    out = np.zeros(1, np.int32)
    with pytest.raises(TritonError, match=r"\^(.|\n)*range takes 1 to 3 arguments; got 4"):
        make(range_of_four)[(1,)](out)
    make(hinted_range)[(1,)](out)
    assert out[0] == 6


def constant(out, N: tl.constexpr):
    tl.store(out, N)


@pytest.mark.parametrize("option", ["do_not_specialize", "do_not_specialize_on_alignment"])
def test_a_constant_is_always_specialized_for(make: Any, option: str) -> None:
    listed = make(constant, **{option: [1]})

    def calls_it(out):
        listed(out, 3)

    for kernel, given in ((listed, (3,)), (make(calls_it), ())):
        with pytest.raises(TritonError, match="N marked as constexpr and listed in") as caught:
            kernel[(1,)](np.zeros(1, np.int32), *given)
        assert "at 1:18:\ndef constant(out, N: tl.constexpr)" in str(
            caught.value.__cause__ or caught.value
        )


def sort_of_a_scalar(out):
    tl.store(out, tl.sort(tl.load(out)))


def index_past_the_end(out):
    pair = (out, 1)
    tl.store(out, pair[2])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (sort_of_a_scalar, "a scalar has no axes; a block is required"),
        (index_past_the_end, "tuple index 2 is out of range: it has 2 elements"),
    ],
)
def test_a_position_that_is_not_there(make: Any, function: Any, message: str) -> None:
    with pytest.raises(TritonError, match=message):
        make(function)[(1,)](np.zeros(1, np.float32))


def wrong_seed(out):
    tl.store(out, tl.philox(1.5, 2, 3, 4, 5)[0])


def test_a_message_names_the_function_once(make: Any) -> None:
    with pytest.raises(TritonError, match="philox: the seed must be") as caught:
        make(wrong_seed)[(1,)](np.zeros(1, np.uint32))
    assert "philox: philox:" not in str(caught.value)
