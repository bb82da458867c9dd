"""Python's constructs mean in an interpreted kernel what they mean in a compiled one.

Each case is the body of a kernel, run natively and interpreted: the same results, or the same
error. The arguments are `out` (int32), `x` (float32 0, 1, 2, ...), the number i = 5, and C = 4.
"""

# A kernel is looked at as one piece, so each is on one line.
# ruff: noqa: E501

import ast
import linecache
import re
import warnings

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.conformance.support import WAYS, build
from tritium.errors import CompilationError, InterpreterError
from tritium.runtime.interpreted import InterpretedFunction

HELPERS = """
import collections
import math

NUMBER = 3
CONSTANT = tl.constexpr(3)
Pair = collections.namedtuple("Pair", ["left", "right"])


@jit
def pair(a, b):
    return a + b, a - b


@jit
def converted(x):
    return x.to(tl.float32)


@jit
def cubed(a: tl.constexpr):
    b: tl.constexpr = a * a
    return a * b


@jit
def doubled(x, factor: tl.constexpr = 2):
    return x * factor


@tritium.must_use_result("use it")
@jit
def fresh(a):
    return a + 1


@jit
def endless(n):
    return n * endless(n - 1)


@tl.core._aggregate
class Counter:
    value: tl.tensor

    def __init__(self, value):
        self.value = value

    @jit
    def next(self):
        self.value += 1
        return self

    @tritium.must_use_result
    @jit
    def ahead(self):
        return self.value + 1


def plain(a, b=2):
    return a * b + (1 if isinstance(a, int) else 0)


"""

EQUAL = {
    "grids that overlap on GPUs": "tl.extra.cuda.gdc_wait()\ntl.store(out, i + 1)\ntl.extra.cuda.gdc_launch_dependents()",
    "loop variables are tensors": "t = 0\nfor k in range(4):\n    t += k.to(tl.int32)\ntl.store(out, t)",
    "range with run-time bounds": "t = 0\nfor k in range(i, 0, -2):\n    t = t * 10 + k\ntl.store(out, t)",
    "loops carry 32-bit numbers": "t = 0x7fffffff\nfor k in range(3):\n    t += 1\ntl.store(out, t)",
    "loops carry fp32": "t = 0.0\nfor k in range(10):\n    t += 0.1\ntl.store(out, (t * 1e9).to(tl.int32))",
    "while": "k = 0\nt = 1\nwhile k < i:\n    k += 1\n    t *= k\ntl.store(out, t)",
    "static_range": "t = 0\nfor k in tl.static_range(C):\n    t += k\ntl.store(out, t + tl.arange(0, C).numel)",
    "min and max of tensors": "a = tl.load(x + i)\ntl.store(out, min(a, 3.0).to(tl.int32) + max(i, 7, 6))",
    "min and max of constants": "tl.store(out, tl.zeros([max(C, 2)], tl.int32).numel + min(3, C))",
    "abs": "tl.store(out, abs(i - 9) + abs(-3))",
    "and, or": "tl.store(out, (i > 3 and i < 10).to(tl.int32) + (i > 7 or i < 2).to(tl.int32) * 2)",
    "and on blocks": "a = tl.arange(0, 4)\ntl.store(out + a, (a > 0 and a < 3).to(tl.int32))",
    "or on blocks": "a = tl.arange(0, 4)\ntl.store(out + a, (a < 1 or a > 2).to(tl.int32))",
    "not on blocks": "a = tl.arange(0, 4)\ntl.store(out + a, (not a).to(tl.int32))",
    "and short-circuits": "if C == 3 and undefined_thing:\n    tl.store(out, 1)\nelse:\n    tl.store(out, 2)",
    "or short-circuits": "if C == 4 or undefined_thing:\n    tl.store(out, 1)",
    "constants in and": "v = i > 2 and True\nw = i > 2 and C\ntl.store(out, v.to(tl.int32) + w.to(tl.int32))",
    "a constant decides": "v = i > 2 and False\ntl.static_assert(not v)\ntl.store(out, 3)",
    "chained not": "tl.store(out, (not i > 7).to(tl.int32) + (not C))",
    "is": "n = None\nif n is None and C is not None:\n    tl.store(out, 1 if tl.int32 is tl.int32 else 0)",
    "in": "if C in (3, 4) and 'a' not in ('b', 'c'):\n    tl.store(out, 7)",
    "numbers have methods": "t = 3\ntl.store(out, t.to(tl.float32).to(tl.int32) + converted(2).to(tl.int32))",
    "numbers have a value": "t = 3\ntl.store(out, t.value + C.value)",
    "ternary": "t = 3 if i > 2 else 4\ntl.store(out, t.to(tl.int32))",
    "ternary at compile time": "tl.store(out, tl.zeros([4 if C > 2 else 3], tl.int32).numel)",
    "a branch leaves a tensor": "t = 3\nif i > 2:\n    t = 4\ntl.store(out, t.to(tl.int8).to(tl.int32))",
    "a branch that is not taken": "t = 3\nif i < 2:\n    t = 4\ntl.store(out, t.to(tl.int8).to(tl.int32))",
    "tuples": "a, b = pair(i, 2)\nt = (a, (b, 3))\nc, (d, e) = t\nf, *g = (1, 2, 3)\ntl.store(out, c * 100 + d * 10 + e + f + g[1])",
    "tuples are compared": "if (C, 2) == (4, 2):\n    tl.store(out, len((1, 2)) + ((1,) + (2,) * 2)[2])",
    "chained assignment": "a = b, c = pair(i, 1)\ntl.store(out, a[0] + b * 10 + c)",
    "list comprehensions": "t = [k * 2 for k in range(4) if k != 1]\ntl.store(out, t[0] + t[1] + t[2])",
    "f-strings": "tl.static_assert(f'{C:>3}|{C!r}' == '  4|4')\ntl.store(out, 1)",
    "the number of warps": "tl.store(out, tl.extra.cuda.num_warps() + tl.zeros([tl.extra.cuda.num_threads()], tl.int32).numel)",
    "python functions": "tl.store(out, plain(C) + plain(2, b=5) + int(math.log2(C * 4)))",
    "named tuples": "p = Pair(i, 2)\ntl.store(out, p.left * p.right)",
    "isinstance": "tl.store(out, (1 if isinstance(C, int) else 2) + (10 if isinstance(i, tl.tensor) else 20))",
    "getattr": "tl.store(out, 1 if getattr(i, 'dtype') == tl.int32 and hasattr(i, 'to') else 2)",
    "constexpr arguments": "tl.store(out, cubed(C) + cubed(2))",
    "run-time values where a constexpr is declared": "tl.store(out, doubled(i, i) + doubled(3, factor=tl.load(out)))",
    "a run-time value that is declared constexpr": "t: tl.constexpr = i * 2\ntl.store(out, t + 1)",
    "a scalar is indexed": "tl.store(out + (i % 2)[:, None] + (i % 2)[None, :], i[None])",
    "no policy": "tl.store(out, tl.load(out, eviction_policy=False) + 1, cache_modifier=None)",
    "globals": "tl.store(out, CONSTANT + tl.zeros([2], tl.int32).numel)",
    "walrus": "tl.store(out, (t := i * 2) + t)",
    "assert": "assert C == 4, 'C'\ntl.store(out, 1)",
    "an assertion that does not hold, without debug": "assert C == 5, 'C must be 5'\ntl.store(out, 1)",
    "a loop's variable is the program's own after it": "k = 9\nfor k in range(3):\n    pass\ntl.store(out, k)",
    "item of a block in a condition": "if tl.zeros([1], tl.int32) + i:\n    tl.store(out, 1)",
    "strings": "tl.static_assert('%d-%s' % (C, 'a') == '4-a' or True)\ntl.store(out, 1)",
    "the type of a parameter": "tl.store(out, 1 if i.dtype == tl.int32 and i.type == tl.int32 else 0)",
    "nested": "t = 0\nfor a in range(i):\n    if a > 1 and not a > 3:\n        for b in range(a):\n            t += b if b > 0 else 10\ntl.store(out, t)",
    "a docstring": "'''text'''\ntl.store(out, 1)",
    "slices": "a = tl.arange(0, 4)[:, None] + tl.arange(0, 4)[None, :]\ntl.store(out + tl.arange(0, 4), a.sum(1))",
    "functions keep what they assign": "a = Counter(i)\nb = a.next()\ntl.store(out, a.value * 10 + b.value)",
    "fields are assigned": "a = Counter(i)\na.value, b = 3, 4\na.value += b\ntl.store(out, a.value)",
    "shapes": "a = tl.zeros([4, 8], tl.int32)\ntl.store(out, a.shape[0] * a.shape[1] + len(a.shape[1:]))",
}

ERRORS = {
    "for k in (1, 2):\n    pass": "Only `range` and `static_range` iterators are currently supported",
    "for k in range(2):\n    pass\nelse:\n    pass": "`else` after a loop is not supported",
    "for a, b in range(2):\n    pass": "the variable of a loop must be a single name",
    "for k in range(0, 3, 0):\n    pass": "the step of a loop cannot be 0",
    "for k in range(i):\n    return": "Cannot have `return` statements inside `while` or `for`",
    "for k in range(i):\n    break": "`break` is not supported",
    "t = 0\nfor k in range(i):\n    t = x\n": "Loop-carried variable t has initial type int32 but is re-assigned",
    "for k in range(i):\n    t = k\ntl.store(out, t)": "t is not defined here",
    "if i > 9:\n    t = 1\ntl.store(out, t)": "t is not defined here",
    "while True:\n    pass": "this condition is always true",
    "if 0 < i < 'a':\n    pass": "< of a tensor and 'a': tensors and numbers are needed",
    "v = i ** 2": "tensors have no \\*\\*; multiply, or use `libdevice.pow`",
    "v = 2 ** x": "tensors have no \\*\\*",
    "v = x @ x": "tensors have no @; use `tl.dot`",
    "v = None + i": "\\+ of a tensor and None: tensors and numbers are needed",
    "v = i < 'a'": "< of a tensor and 'a': tensors and numbers are needed",
    "v = tl.reduce(tl.arange(0, 4), 0, max)": "reduce: combine_fn is max; a @triton.jit function is needed",
    "v = tl.associative_scan(tl.arange(0, 4), 0, plain)": "combine_fn is plain; a @triton.jit function is needed",
    "v = tl.map_elementwise(min, tl.arange(0, 4), i)": "scalar_fn is min; a @triton.jit function is needed",
    "v = [*range(3)]": "only a tuple can be unpacked with `\\*`",
    "v = pair(*range(2))": "only a tuple can be unpacked with `\\*`",
    "if tl.arange(0, 4) > 2:\n    pass": "Boolean value of Tensor with more than one value is ambiguous",
    "if tl.load:\n    pass\nv = int(i)": "the Python function `int` cannot be called with values known only at run time",
    "v = plain(i)": "the Python function `plain` cannot be called",
    "try:\n    pass\nexcept ValueError:\n    pass": "exceptions do not exist on the device",
    "with i:\n    pass": "`with` has no meaning",
    "v = lambda a: a": "lambda is not supported",
    "def f():\n    pass": "nested function definition",
    "v = {}": "dictionaries are not supported",
    "del i": "`del` has no meaning",
    "v = tl.arange(0, 4)\nv[0] = 1": "values cannot be changed in place",
    "v = tl.arange(0, 4)\nv[0] += 1": "values cannot be changed in place",
    "a, v[0] = 1, 2": "values cannot be changed in place",
    "i.name = 1": "only the fields of an aggregate can be assigned",
    "v = pair(*(1, 2), **{})": "`\\*\\*kwargs` is not supported",
    "v = ...": "`...` has no meaning",
    "a, b = (1, 2, 3)": "too many values to unpack \\(expected 2, got 3\\)",
    "a, b = i": "cannot unpack .*; a tuple is required",
    "C: tl.constexpr = 3": "C is already defined. constexpr cannot be reassigned",
    "v = NUMBER": "Cannot access global variable NUMBER",
    "v = nothing_here": "nothing_here is not defined",
    "v = [a for a in range(i)]": "a comprehension can only run over a tuple or a constant range",
    "if i in (1, 2):\n    pass": "`in` is only supported for compile-time values",
    "fresh(i)": "The result of fresh is not being used. use it",
    "c = Counter(i)\nc.ahead()": "The result of c.ahead is not being used",
    "v = endless(i)": "endless calls itself",
    "return i": "a kernel cannot return a value",
    "v = C()": "is not callable",
    "v = (1, 2)[i]": "tuple index must be a compile-time integer",
}


def kernel_of(body):
    lines = "\n".join("    " + line for line in body.splitlines())
    return build(HELPERS + f"def kernel(out, x, i, C: tl.constexpr):\n{lines}\n")


def launch(fn, way):
    out = np.full(4, -99, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        WAYS[way](fn)[(1,)](out, np.arange(16, dtype=np.float32), 5, 4)
    return out.tolist()


@pytest.mark.parametrize("body", EQUAL.values(), ids=EQUAL)
@pytest.mark.every(2)
def test_the_same_results(body):
    fn = kernel_of(body)
    native = launch(fn, "native")
    assert launch(fn, "interpreted") == native and native != [-99] * 4


@pytest.mark.parametrize("body", ERRORS)
def test_the_same_errors(body):
    fn = kernel_of(body)
    messages = {}
    for way, kind in (("native", CompilationError), ("interpreted", InterpreterError)):
        with pytest.raises(kind) as caught:
            launch(fn, way)
        error = caught.value
        while isinstance(getattr(error.__cause__, "node", None), ast.AST):
            error = error.__cause__
        messages[way] = str(error)
        assert re.search(ERRORS[body], str(error)), str(error)
    # The same line of the same source; which of nested expressions is to blame may differ.
    places = {way: text.splitlines()[0].split(":")[0] for way, text in messages.items()}
    assert places["native"] == places["interpreted"], messages


def test_a_step_known_at_run_time_is_positive():
    fn = kernel_of("for k in range(i, 0, -i):\n    tl.store(out, k)")
    with pytest.raises(InterpreterError, match=r"(?s)at 2:.*the step of this loop is -5"):
        launch(fn, "interpreted")


def test_logical_operators_on_blocks_warn():
    fn = kernel_of("a = tl.arange(0, 8)\nb = a > 0 and a < 5")
    for way in WAYS.values():
        with pytest.warns(UserWarning, match="Logical operators 'and' and 'or' are deprecated"):
            way(fn)[(1,)](np.zeros(4, np.int32), np.zeros(16, np.float32), 5, 4)


def test_print_is_python_s(capfd):
    fn = kernel_of("""
v = tl.load(x + tl.arange(0, 2))
print(v)
print('shape', v.shape, v.dtype)
print(f"v is {v}, i is {i:03d}, C is {C!r}")
print("sum", tl.sum(v), "done", sep="-", end="!\\n")
print(type(v).__name__, (i, v > 0))
print()
""")
    x = np.array([1, 2], np.float32)
    WAYS["interpreted"](fn)[(1,)](None, x, 5, 4)
    assert capfd.readouterr().out.splitlines() == [
        "[1. 2.]", "shape (2,) fp32", "v is [1. 2.], i is 005, C is 4", "sum-3.0-done!",
        "tensor (5, array([ True,  True]))", "",
    ]  # fmt: skip


def test_the_users_function_stays_as_it_is():
    function = WAYS["interpreted"](kernel_of("if i > 3 and C:\n    tl.store(out, 1)"))
    assert launch(function.fn, "interpreted")[0] == 1
    rewritten = function.rewrite()
    assert rewritten.__globals__ is function.fn.__globals__
    assert rewritten.__code__.co_filename == function.fn.__code__.co_filename
    assert rewritten.__code__.co_firstlineno == function.fn.__code__.co_firstlineno
    assert function.rewriter.def_file_lineno == function.first_line


def test_imports_are_left_to_who_debugs():
    fn = kernel_of("import os.path\nfrom math import sqrt as root\ntl.store(out, root(9.0) + len(os.sep))")
    assert launch(fn, "interpreted")[0] == 4
    with pytest.raises(CompilationError, match="import modules outside of the kernel"):
        launch(fn, "native")


def test_a_change_of_the_source_is_seen():
    @tritium.jit
    def unused(out):
        tl.store(out, 1)

    function = WAYS["interpreted"](unused.fn)
    out = np.zeros(1, np.int32)
    function[(1,)](out)
    function._unsafe_update_src("def unused(out):\n    tl.store(out, 2)\n")
    function[(1,)](out)
    assert out[0] == 2


def test_an_error_in_a_function_of_no_module():
    """As `exec` makes it in a namespace without `__name__`."""
    source = "def half(x):\n    return x.no_such_attribute\n"
    namespace = {}
    file = "<a function of no module>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, "exec"), namespace)
    assert namespace["half"].__module__ is None
    half = tritium.jit(namespace["half"])

    def kernel(out):
        tl.store(out, half(tl.load(out)))

    with pytest.raises(InterpreterError, match="no_such_attribute"):
        InterpretedFunction(kernel)[(1,)](np.zeros(1, np.int32))
