"""Every message that the language's documentation quotes: raised at the right place, with a caret.

A case is the text of a kernel; the line and column that the message must name are those of the
marker `«` in it (which is taken out), and the text is searched for in the whole chain of causes.
"""

# A message is looked for by its text, so each is on one line.
# ruff: noqa: E501

import re
import sys

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.conformance.support import build
from tests.support.frontend import compile_kernel
from tritium.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    InterpreterError,
    TritonError,
    UnsupportedLanguageConstruct,
)
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.jit import JITFunction

X, N = np.zeros(64, np.float32), np.zeros(64, np.int32)
U, H = np.zeros(64, np.uint32), np.zeros(64, np.float16)
B = np.zeros(64, np.int8)


def texts(error):
    """The messages of an error and of all its causes."""
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__cause__
    return "\n".join(found)


ARGUMENTS = {"x": X, "n": N, "u": U, "h": H, "b": B, "i": 5, "f": 2.5}


def source_of(body):
    """The text of a kernel with these lines, with the marker."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"def kernel({', '.join(ARGUMENTS)}):\n{lines}"


def check_place(source, error):
    """The caret is where the marker is in the source (if it is)."""
    marked = [
        (at, line.index("«")) for at, line in enumerate(source.splitlines(), 1) if "«" in line
    ]
    if marked:
        line, column = marked[0]
        found = str(error).splitlines()
        assert found[0] == f"at {line}:{column}:", found[0]
        caret = next(k for k, text in enumerate(found) if text.strip() == "^")
        assert found[caret] == " " * column + "^"
        assert found[caret - 1] == source.replace("«", "").splitlines()[line - 1]


def compiles(body, prelude="", kind=CompilationError):
    """The error of compiling a kernel of these lines; checks the place of the caret."""
    source = source_of(body)
    fn = build(prelude + "\n\n" + source.replace("«", "") + "\n")
    with pytest.raises(kind) as caught:
        compile_kernel(JITFunction(fn), **ARGUMENTS)
    check_place(source, caught.value)
    return caught.value


def interpreted(body, prelude=""):
    """The error of interpreting it."""
    source = source_of(body)
    fn = build(prelude + "\n\n" + source.replace("«", "") + "\n")
    with pytest.raises(InterpreterError) as caught:
        InterpretedFunction(fn)[(1,)](**ARGUMENTS)
    if sys.version_info >= (3, 11):  # before, Python knows lines only
        check_place(source, caught.value)
    return caught.value


BLOCK = "v = tl.load(x + tl.arange(0, 16))\n"
TILE = "a = tl.zeros([16, 16], tl.float16)\n"

CASES = {
    # program ids, creation
    "«tl.program_id(3)": r"program_id axis must be 0, 1, or 2 but got 3",
    "«tl.program_id(i)": r"program_id axis must be 0, 1, or 2 but got ",
    "«tl.program_id(1.0)": r"program_id axis must be 0, 1, or 2 but got 1.0",
    "v = «tl.num_programs(-1)": r"num_programs axis must be 0, 1, or 2 but got -1",
    "v = «tl.arange(2, 7)": r"arange's range must be a power of 2",
    "v = «tl.arange(4, 4)": r"arange's end argument must be greater than the start",
    "v = «tl.full((33,), 0, tl.int32)": r"Shape element 0 must be a power of 2",
    "v = «tl.zeros((4, i), tl.int32)": r"Shape element 1 must have type `constexpr\[int\]`",
    "v = «tl.zeros((2048, 1024), tl.int8)": r"numel \(2097152\) exceeds triton maximum tensor numel \(1048576\)",
    "v = «tl.arange(0, i)": r"arange.*constexpr",
    # operators
    "v = «(n + tl.arange(0, 4)) + (n + tl.arange(0, 4))": r"cannot add pointers together",
    "v = «tl.zeros([4], tl.int8) + 300": r"Scalar 300 is out of range for type int8",
    "v = «tl.load(n) // tl.load(u)": r"Cannot use /, //, or % with .* because they have different signedness",
    "v = «tl.load(n) % tl.load(u)": r"have different signedness",
    "v = «tl.load(n) / tl.load(u)": r"have different signedness",
    "v = «tl.load(x) & tl.load(x)": r"invalid operands of type .*float32; bits are those of integers",
    "v = «tl.load(x) << 2": r"invalid operands of type",
    "v = «~tl.load(x)": r"wrong type argument to unary invert .*; integers have it",
    "v = «-x": r"wrong type argument to unary minus .*; numbers have it",
    "v = «x * 2": r"invalid operands of type pointer<fp32> .*; a pointer is moved by \+ or - of",
    "v = «float(n)": r"cannot be called with .*run time; convert with `.to\(tl.float32\)`",
    "v = «sum(n)": r"cannot be called with .*run time; use `tl.sum`",
    "v = «math.exp(n)": r"cannot be called with .*run time; use `tl.exp`",
    "v = «round(n)": r"cannot be called with .*run time; use functions of `tl`",
    "v = «tl.zeros([4], tl.int32) + tl.zeros([8], tl.int32)": r"incompatible dimensions at index 0: 4 and 8",
    # shapes
    BLOCK + "w = «tl.reshape(v, [8])": r"reshape\(\) cannot change total number of elements in tensor",
    TILE + "w = «tl.permute(a, (0, 0))": r"permute dims must be a permutation of 0, 1, \.\.\., n-1",
    TILE + "w = «tl.permute(a, (0,))": r"permute dims must have the same length as input shape",
    BLOCK + "w = «tl.split(v)": r"tt.split: operand has type tensor<16xf32>; two or more axes, the last of size 2, are required",
    TILE + "w = «a.sum(2)": r"invalid axis 2. Expected -2 <= axis < 2",
    TILE + "w = «tl.broadcast_to(a, [16, 32])": r"must match the existing size \(16\) at non-singleton",
    TILE + "w = «a[0]": r"unsupported tensor index",
    # casts
    "v = «tl.load(x).to(tl.int16, bitcast=True)": r"Cannot bitcast data-type of size 32 to data-type of size 16",
    "v = «tl.load(x).to(tl.float16, fp_downcast_rounding='up')": r"'rtne' .* and 'rtz'",
    "v = «tl.load(h).to(tl.float32, 'rtz')": r"should be set only for truncating fp conversions",
    "v = «tl.load(x).to(3)": r"no dtype",
    # memory
    "v = «tl.load(x, other=1.0)": r"`other` cannot be provided without `mask`",
    "v = «tl.load(i)": r"Unsupported ptr type .* in `tl.load`",
    "v = «tl.load(x, cache_modifier='.xx')": r"\.xx not supported",
    "v = «tl.load(x, eviction_policy='never')": r"never not supported",
    "«tl.store(x, 1.0, cache_modifier='.ca')": r"\.ca not supported",
    "v = «tl.load(x, tl.arange(0, 4) < 2)": r"cannot be block type if pointer argument is not a block",
    "v = «tl.load(x, boundary_check=(0,))": r"boundary_check|padding_option",
    "p = tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))\nv = «tl.load(p, mask=True)": r"`mask` and `other`|mask.*block pointer",
    "p = tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))\n«tl.store(p, 1.0, mask=True)": r"`mask` argument cannot be specified for storing block pointers",
    "p = tl.make_block_ptr(n, (8,), (1,), (0,), (4,), (0,))\nv = «tl.load(p, boundary_check=(0,), padding_option='nan')": r"`nan` is not supported for integer block pointers",
    "p = tl.make_block_ptr(n, (8,), (1,), (0,), (4,), (0,))\n«tl.advance(p, (1,))": r"The result of tl.advance is not being used",
    "p = «tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 1))": r"Expected a permutation of \(0, 1\)",
    "p = «tl.make_block_ptr(x, (8,), (8, 1), (0, 0), (4, 4), (1, 0))": r"to have the same length",
    "d = «tl.make_tensor_descriptor(x, [8, 8], [1, 8], [4, 4])": r"Tensor descriptor last dim must be 1 but got 8",
    "d = «tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 2])": r"8 bytes",
    "d = «tl.make_tensor_descriptor(x, [8] * 6, [8] * 6, [4] * 6)": r"Expected 1 <= ndim <= 5 but got 6",
    "d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 4])\nv = «d.load([0])": r"expected 2 offsets, but got 1",
    "d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 4])\n«d.atomic_and([0, 0], 1)": r"Unsupported dtype fp32 for descriptor atomic_and",
    "d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 4])\nv = «d.gather(tl.arange(0, 8), 0)": r"descriptor must be 2D with block \[1, BLOCK_Y\]",
    # atomics
    "«tl.atomic_max(h, 1.0)": r"atomic_max (does not support|not supported)",
    "«tl.atomic_and(x, 1)": r"atomic_and does not support",
    "«tl.atomic_cas(b, 0, 1)": r"atomic_cas only supports elements with width \{16, 32, 64\}",
    "«tl.atomic_add(x, 1.0, sem='strong')": r"strong not supported",
    "«tl.atomic_add(x, 1.0, scope='world')": r"world not supported",
    # reductions and their kin
    TILE + "w = «tl.sort(a, 0)": r"only minor dimension is currently supported",
    TILE + "w = «tl.topk(a, 2, 0)": r"only minor dimension is currently supported",
    BLOCK + "w = «v.xor_sum()": r"xor_sum only supported for integers",
    BLOCK + "w = «tl.gather(v, v, 0)": r"tt.gather: indices tensor<16xf32> into tensor<16xf32>; integers are required",
    BLOCK + "w = «tl.histogram(v, 4)": r"histogram only supports integer input",
    TILE + "w = «tl.gather(a, tl.arange(0, 16), 0)": r"source and index ranks must match",
    # math
    "v = «tl.exp(tl.load(h))": r"Expected dtype \['fp32', 'fp64'\] but got fp16",
    "v = «tl.sqrt_rn(tl.load(h))": r"Expected dtype \['fp32'\] but got fp16",
    "v = «tl.clamp(tl.load(n).to(tl.int8), 0, 300)": r"Scalar 300 is out of range for type int8",
    "v = «tl.load(n).to(tl.uint8) < -1": r"an unsigned tensor .* and a negative scalar",
    "v = «tl.maximum(i, 2, propagate_nan=3)": r"Unexpected propagate_nan 3",
    # dots
    TILE + "w = «tl.dot(a, a.to(tl.float32))": r"Both operands must be same dtype",
    TILE + "w = «tl.dot(a, a, out_dtype=tl.bfloat16)": r"out_dtype=bfloat16|bfloat16.*unsupported|out_dtype",
    TILE + "w = «tl.dot(a, a, input_precision='ieee', allow_tf32=True)": r"Only one of input_precision and allow_tf32 can be specified",
    TILE + "w = «tl.dot(a, a, input_precision='exact')": r"input_precision must be one of",
    TILE + "w = «tl.dot(a, tl.zeros([32, 16], tl.float16))": r"second index of first shape \(16\) must be equal to first index of second shape \(32\)",
    "e = tl.zeros([64, 64], tl.float8e5)\nw = «tl.dot(e, e, max_num_imprecise_acc=128)": r"max_num_imprecise_acc \(128\) must be <= K \(64\)",
    TILE + "w = «tl.dot_scaled(a, None, 'e9m9', a, None, 'fp16')": r"format 'e9m9' not supported",
    TILE + "w = «tl.dot_scaled(a, None, 'fp16', a, None, 'fp16', out_dtype=tl.float16)": r"only float32 is supported",
    # random numbers
    "v = «tl.rand(1.5, tl.arange(0, 4))": r"seed must be a scalar integer",
    "v = «tl.rand(n + tl.arange(0, 4), tl.arange(0, 4))": r"seed must be a scalar integer",
    "v = «tl.uint_to_uniform_float(tl.zeros([4], tl.float32))": r"must be integers of 32 or 64",
    # control flow
    "for k in «tl.arange(0, 4):\n    pass": r"Only `range` and `static_range` iterators are currently supported",
    "for k in «range(f):\n    pass": r"For loop bounds and step must all be ints, are \(int32, fp32, int32\)",
    BLOCK + "if «v > 0:\n    pass": r"Boolean value of Tensor with more than one value is ambiguous",
    BLOCK + "while «v > 0:\n    pass": r"Boolean value of Tensor with more than one value is ambiguous",
    "a = 1.0\n«if i > 3:\n    a = 2": r"Mismatched type for a between then block \(int32\) and else block \(fp32\)",
    "a = 1\n«for k in range(i):\n    a = a + 1.5": r"Loop-carried variable a has initial type int32 but is re-assigned to fp32 in loop",
    "if i > 3:\n    a = 2\ntl.store(n, «a)": r"a is not defined",
    "v = «nothing": r"nothing is not defined",
    "tl.store(n, «tl.nothing)": r"has no attribute 'nothing'",
    "a = «1 if i > 3 else 2.5": r"ternary expression with dynamic condition has inconsistent types",
    "«c, d = (1, 2, 3)": r"too many values to unpack \(expected 2, got 3\)",
    "«c, *d, e = (1,)": r"not enough values to unpack \(expected at least 2, got 1\)",
    "«c, d = 5": "cannot unpack non-iterable value",
    "v = «min(1.0, -0.0)": "depends on the order of the values",
    "«c, d, e = tl.split(tl.zeros([4, 2], tl.int32))": r"not enough values to unpack \(expected 3, got 2\)",
    # hints and debugging
    TILE + "w = «tl.multiple_of(a, 16)": r"Shape of input to multiple_of does not match the length of values",
    TILE + "w = «tl.max_contiguous(a, (1, 2, 3))": r"Shape of input to max_contiguous does not match",
    "w = «tl.max_constancy(i, [2.5])": r"values element 0 must have type `constexpr\[int\]`",
    "«tl.device_print('größe', i)": r"must be a string of printable ASCII",
    "«tl.static_assert(i > 3)": r"not known when the kernel is compiled",
    "assert f'{«i}' == ''": r"an f-string can only contain compile-time values",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", CASES, ids=lambda t: re.sub(r"\W+", " ", t.splitlines()[-1])[:50])
def test_message(body):
    assert re.search(CASES[body], texts(compiles(body))), texts(compiles(body))


# Both branches would have to run; an interpreted f-string shows the value.
ONLY_COMPILED = {"a = «1 if i > 3 else 2.5", "assert f'{«i}' == ''"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "body", [c for c in CASES if c not in ONLY_COMPILED], ids=lambda t: re.sub(r"\W+", " ", t.splitlines()[-1])[:50]
)
def test_message_of_the_interpreter(body):
    error = interpreted(body)
    assert re.search(CASES[body], str(error)), str(error)
    assert error.__cause__ is not None


UNSUPPORTED = {
    "for k in range(3):\n    «break": "Break",
    "for k in range(3):\n    «continue": "Continue",
    "«def inner():\n    pass": "nested function definition is not supported",
    "«try:\n    pass\nfinally:\n    pass": "Try",
    "«with tl:\n    pass": "With",
    "«raise ValueError()": "Raise",
    "«import math": "Import",
    "v = «lambda: 1": "lambda is not supported",
    "v = «{1: 2}": "Dict",
    "«del x": "Delete",
    "for k in range(3):\n    «return": "Cannot have `return` statements inside `while` or `for` statements",
    "while i < 9:\n    if i > 1:\n        «return\n    i += 1": "Cannot have `return` statements inside",
    "v = tl.zeros([4], tl.int32)\n«v[0] = 1": "values cannot be changed in place",
    "«for k in range(3):\n    pass\nelse:\n    pass": "`else` after a loop",
    "v = «...": "no meaning in a kernel",
}


@pytest.mark.parametrize("body", UNSUPPORTED, ids=lambda t: re.sub(r"\W+", " ", t)[:40])
def test_unsupported_python(body):
    error = compiles(body, kind=UnsupportedLanguageConstruct)
    assert UNSUPPORTED[body] in str(error)
    if "import" not in body:  # debugging is what the interpreter is for
        error = interpreted(body)
        assert UNSUPPORTED[body] in str(error)
        assert isinstance(error.__cause__, UnsupportedLanguageConstruct)


def test_constant_pointers():
    source = """
def kernel(x: tl.const):
    tl.store(x, 1.0)
"""
    with pytest.raises(CompilationError, match="Cannot store to a constant pointer") as caught:
        JITFunction(build(source))[(1,)](X.copy())
    assert "at 2:4:" in str(caught.value)


HELPERS = """
@jit
def inner(x):
    return tl.arange(0, 3) + x


@jit
def outer(x):
    y = inner(x)
    return y


@jit
def two(x):
    if x > 0:
        return 1
    return 2.5


@tritium.must_use_result("msg")
@jit
def cube(x):
    return x * x * x


@tritium.must_use_result
@jit
def square(x):
    return x * x


@jit
def never(x, N: tl.constexpr):
    tl.static_assert(N < 4, "N is too large")


@jit
def endless(x):
    return endless(x)

@jit
def counting(n: tl.constexpr):
    return counting(n + 1)


LIMIT = 42
ANNOTATED: tl.constexpr = 42
"""


def test_errors_in_called_functions_show_each_frame():
    error = compiles("v = «outer(i)", HELPERS)
    assert "y = inner(x)" in str(error.__cause__)
    assert "arange's range must be a power of 2" in str(error.__cause__.__cause__)
    assert isinstance(error.__cause__.__cause__.__cause__, ValueError)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("«cube(i)", "The result of cube is not being used. msg"),
        ("«square(i)", "The result of square is not being used."),
        ("v = «two(i)", r"Return type mismatch: one path returns int32 and another fp32"),
        ("v = «two()", r"missing a required argument: 'x'"),
        ("v = «endless(i)", r"calls itself"),
        ("v = «LIMIT", r"Cannot access global variable LIMIT from within @jit'ed function"),
        ("v = «ANNOTATED", r"Cannot access global variable ANNOTATED"),
        ("«never(i, 8)", r"N is too large"),
        ("X: tl.constexpr = 1\n«X: tl.constexpr = 2", r"X is already defined. constexpr cannot be reassigned"),
    ],
)  # fmt: skip
def test_messages_of_calls_and_globals(body, message):
    assert re.search(message, texts(compiles(body, HELPERS)))
    if "two(i)" not in body:  # one of its returns is not reached
        assert re.search(message, texts(interpreted(body.replace("«", ""), HELPERS)))


def test_calls_that_do_not_end():
    error = compiles("v = «counting(1)", HELPERS)
    assert re.search(r"counting has called itself \d+ times: Python's recursion", texts(error))


def test_static_assertions():
    error = compiles(
        "«tl.static_assert(1 == 2, 'two is not one')", kind=CompileTimeAssertionFailure
    )
    assert "two is not one" in str(error)


def test_captured_locals():
    def outer():
        size = 4

        def kernel(x):
            tl.store(x, size)

        return kernel

    with pytest.raises(CompilationError, match="size is not defined"):
        compile_kernel(JITFunction(outer()), x=X)


@pytest.mark.parametrize("kind", [tl.range, tl.static_range])
def test_loops_outside_of_kernels(kind):
    with pytest.raises(RuntimeError, match=r"can only be used in @triton.jit'd functions"):
        list(kind(3))


def test_kernels_called_as_functions():
    fn = JITFunction(build("def kernel(x):\n    pass\n"))
    with pytest.raises(
        RuntimeError, match=r"Cannot call @triton.jit'd outside of the scope of a kernel"
    ):
        fn(X)


def test_warnings():
    source = """
def kernel(x, n):
    v = tl.load(n + tl.arange(0, 4))
    tl.store(x + tl.arange(0, 4), tl.where(v, 1.0, 2.0))
"""
    with pytest.warns(UserWarning, match=r"tl.where with a non-boolean condition"):
        compile_kernel(JITFunction(build(source)), x=X, n=U)
    source = """
def kernel(x, n):
    v = tl.load(n + tl.arange(0, 4)) > 0
    tl.store(x + tl.arange(0, 4), (v and v).to(tl.float32))
"""
    with pytest.warns(
        UserWarning, match="Logical operators 'and' and 'or' are deprecated for non-scalar"
    ):
        compile_kernel(JITFunction(build(source)), x=X, n=N)


@pytest.mark.cpu
def test_inline_assembly_says_what_it_is_for():
    """PTX has no meaning on a CPU; the message names the target, not LLVM's parser."""
    source = """
def kernel(x):
    v = tl.load(x + tl.arange(0, 4))
    v = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [v], tl.float32, True, 1)
    tl.store(x + tl.arange(0, 4), v)
"""
    with pytest.raises(CompilationError, match="this is PTX, which a CPU cannot run") as caught:
        JITFunction(build(source))[(1,)](X.copy())
    assert ":4:" in str(caught.value)
    with pytest.raises(InterpreterError, match=r"inline assembly .* interpreted") as caught:
        InterpretedFunction(build(source))[(1,)](X.copy())
    assert isinstance(caught.value.__cause__, NotImplementedError)


def test_all_derive_from_one_class():
    for kind in (CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct):
        assert issubclass(kind, TritonError)
    assert tritium.TritonError is TritonError
