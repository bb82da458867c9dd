"""The dot emitters against NumPy: shapes, strides, types, and hosts with fewer features."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from tests.support import amx_emulation
from tritium.backends.cpu.dot import (
    Chunks,
    Host,
    Kept,
    Method,
    Plan,
    View,
    emit_batched_dot,
    emit_dot,
    emit_dot_loop,
    make_plan,
)  # fmt: skip
from tritium.backends.cpu.dot.operand import BFLOAT16, FLOAT16
from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.native.host import host

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="compiles for restricted x86 features"
)

NUMPY = {
    "float": np.float32, "double": np.float64, FLOAT16: np.float16, BFLOAT16: ml_dtypes.bfloat16,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
BASELINE = ("64bit", "sse", "sse2", "x87", "fxsr", "cx8", "cmov", "mmx")
AVX2 = (*BASELINE, "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "f16c")


def host_features() -> dict[str, bool]:
    """The features of this machine by LLVM's names; AMX's where the process may use them, which
    `host()` asks for."""
    usable = host().features
    return {name: name in usable for name in llvm.get_host_cpu_features()}


def features_for(level: str) -> set[str]:
    """The features of this machine that a level of restriction leaves on."""
    have = {name for name, on in host_features().items() if on}
    if level in ("host", "amx"):
        return have
    kept = set(AVX2 if level == "avx2" else BASELINE) & have
    if level == "avx2" and "avx2" not in kept:
        pytest.skip("this machine has no AVX2")
    return kept


@dataclass
class Engine:
    """Compiles one module for a level of features and keeps the code alive."""

    level: str

    def __post_init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.features = features_for(self.level)
        amx = amx_emulation.FEATURES if self.level == "amx" else ()
        self.host = Host.of("x86_64", {*self.features, *amx})

    def build(self, body: Callable[[Function], None], arguments: int) -> Callable[..., None]:
        """A function of `arguments` pointers whose code `body` emits."""
        module = Module()
        names = [("ptr", f"p{i}", "") for i in range(arguments)]
        width = f'"prefer-vector-width"="{self.host.bits}"'
        f = Function(module, "dot", names, attributes=f"nounwind {width}")
        body(f)
        f.ret()
        text = module.text()
        parsed = llvm.parse_assembly(
            amx_emulation.calls(text) if self.level == "amx" else text
        )
        parsed.verify()
        flags = ",".join(
            ("+" if name in self.features else "-") + name for name in sorted(host_features())
        )
        cpu = llvm.get_host_cpu_name() if self.level in ("host", "amx") else "x86-64"
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu, features=flags, opt=3, reloc="pic", codemodel="jitdefault", jit=True
        )
        engine = llvm.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        address = engine.get_function_address("dot")
        function = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * arguments))(address)
        function.engine = engine  # type: ignore[attr-defined]
        return function


@pytest.fixture(scope="module", params=["host", "avx2", "sse2", "amx"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.param)


@pytest.fixture(scope="module")
def host_engine() -> Engine:
    return Engine("host")


def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """A zeroed array at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def sample(shape: tuple[int, ...], element: str, seed: int, unsigned: bool = False) -> np.ndarray:
    """Random elements: small normal floats, integers over the whole range of 8 bits."""
    rng = np.random.default_rng(seed)
    if element.startswith("i"):
        if unsigned:
            return rng.integers(0, 256, shape).astype(np.dtype(f"u{np.dtype(NUMPY[element])}"))
        return rng.integers(-128, 128, shape).astype(NUMPY[element])
    return rng.standard_normal(shape).astype(NUMPY[element])


def stored(matrix: np.ndarray, order: str) -> np.ndarray:
    """The same matrix as a view of memory that is row-major, transposed, padded or spread."""
    rows, columns = matrix.shape
    if order == "transposed":
        return np.ascontiguousarray(matrix.T).T
    if order == "spread":
        memory = np.zeros((2 * rows, 3 * columns), matrix.dtype)
        memory[::2, ::3] = matrix
        return memory[::2, ::3]
    memory = np.zeros((rows, columns + (5 if order == "padded" else 0)), matrix.dtype)
    memory[:, :columns] = matrix
    return memory[:, :columns]


def view(f: Function, argument: int, array: np.ndarray, element: str, **options: object) -> View:
    """The View of an array passed as an argument, strides as constants."""
    size = array.dtype.itemsize
    rows, columns = (stride // size for stride in array.strides[-2:])
    return View(element, f.arguments[argument], rows, columns, **options)  # type: ignore[arg-type]


class Scratch:
    """Hands out parts of a buffer passed as an argument."""

    def __init__(self, f: Function, argument: int, size: int = 1 << 20):
        self.f, self.base, self.used, self.size = f, f.arguments[argument], 0, size

    def __call__(self, count: int) -> Value:
        pointer = self.f.offset(self.base, self.used)
        self.used += -(-count // 64) * 64
        assert self.used <= self.size
        return pointer


def expected(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """acc + a @ b in the widest type."""
    wide = np.int64 if acc.dtype.kind in "iu" else np.float64
    return acc.astype(wide) + a.astype(wide) @ b.astype(wide)


def check(actual: np.ndarray, wanted: np.ndarray, depth: int) -> None:
    """Integers exactly (modulo their width); floats within the error of a sum of `depth`."""
    if actual.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, wanted.astype(actual.dtype))
        return
    eps = float(ml_dtypes.finfo(actual.dtype).eps)
    np.testing.assert_allclose(
        actual.astype(np.float64), wanted, rtol=2 * eps, atol=2 * eps * (depth + 8)
    )


def run_dot(
    engine: Engine,
    shape: tuple[int, int, int],
    elements: tuple[str, str, str] = ("float", "float", "float"),
    orders: tuple[str, str] = ("rows", "rows"),
    unsigned: bool = False,
    zero_init: bool = False,
) -> Plan:
    """One dot, checked against NumPy; returns the plan that was used."""
    m, n, k = shape
    a = stored(sample((m, k), elements[0], 1, unsigned), orders[0])
    b = stored(sample((k, n), elements[1], 2, unsigned), orders[1])
    acc = aligned((m, n), NUMPY[elements[2]])
    acc[:] = sample((m, n), elements[2], 3)
    wanted = expected(a, b, np.zeros_like(acc) if zero_init else acc)
    scratch = aligned((1 << 20,), np.uint8)
    plans: list[Plan] = []

    def body(f: Function) -> None:
        va = view(f, 0, a, elements[0], unsigned=unsigned)
        vb = view(f, 1, b, elements[1], unsigned=unsigned)
        plan = make_plan(engine.host, va, vb, elements[2], shape)
        plans.append(plan)
        emit_dot(
            f, plan, va, vb, f.arguments[2], shape,
            scratch_alloc=Scratch(f, 3), zero_init=zero_init,
        )  # fmt: skip

    engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
    check(acc, wanted, k)
    return plans[0]


SHAPES = [
    (64, 64, 64), (16, 16, 16), (32, 32, 32), (1, 1, 1), (1, 64, 32), (64, 1, 32), (2, 2, 2),
    (64, 1, 1), (2, 1, 64), (4, 8, 16), (128, 16, 8), (16, 128, 1), (1, 1, 64), (8, 4, 2),
    (32, 2, 4),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.every(3)
def test_fp32_shapes(engine: Engine, shape: tuple[int, int, int]) -> None:
    run_dot(engine, shape)


@pytest.mark.covering(2)
@pytest.mark.parametrize("order_b", ["rows", "transposed", "padded", "spread"])
@pytest.mark.parametrize("order_a", ["rows", "transposed", "spread"])
@pytest.mark.parametrize(
    "elements", [("float",) * 3, (BFLOAT16, BFLOAT16, "float"), ("i8", "i8", "i32")], ids=str
)
def test_strides(
    engine: Engine, elements: tuple[str, str, str], order_a: str, order_b: str
) -> None:
    run_dot(engine, (16, 32, 32), elements, (order_a, order_b))


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    "elements",
    [
        ("double",) * 3, (FLOAT16, FLOAT16, "float"), (FLOAT16, FLOAT16, FLOAT16),
        (BFLOAT16, BFLOAT16, FLOAT16), ("float", "float", FLOAT16), (FLOAT16, "float", "float"),
        ("i16", "i16", "i32"), ("i32",) * 3, ("i64",) * 3, ("i8", "i8", "i8"),
        ("float", "float", "double"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "shape", [(16, 16, 16), (4, 2, 8), (1, 32, 4), (64, 64, 2), (32, 1, 16)], ids=str
)
def test_types(
    engine: Engine, elements: tuple[str, str, str], shape: tuple[int, int, int]
) -> None:
    run_dot(engine, shape, elements, ("rows", "transposed"))


@pytest.mark.parametrize("shape", [(16, 16, 32), (16, 32, 2), (8, 8, 1), (2, 4, 4)], ids=str)
@pytest.mark.parametrize("element", ["i8", "i16"])
@pytest.mark.every(3)
def test_unsigned(engine: Engine, element: str, shape: tuple[int, int, int]) -> None:
    run_dot(engine, shape, (element, element, "i32"), unsigned=True)


@pytest.mark.parametrize("elements", [("float",) * 3, ("i8", "i8", "i32")], ids=str)
def test_zero_init_ignores_the_tile(engine: Engine, elements: tuple[str, str, str]) -> None:
    run_dot(engine, (16, 32, 16), elements, zero_init=True)


@pytest.mark.covering(2)
@pytest.mark.parametrize("order_b", ["rows", "padded"])
@pytest.mark.parametrize("order_a", ["rows", "transposed", "spread"])
@pytest.mark.parametrize(
    "elements", [("float",) * 3, (BFLOAT16, BFLOAT16, "float"), ("i8", "i8", "i32")], ids=str
)
def test_matrix_times_vector(
    engine: Engine, elements: tuple[str, str, str], order_a: str, order_b: str
) -> None:
    plan = run_dot(engine, (64, 1, 32), elements, (order_a, order_b))
    assert plan.swap and plan.lanes * 32 == engine.host.bits


def test_int8_extremes_wrap_correctly(engine: Engine) -> None:
    """-128 * -128 in every place: pairs of products reach the edge of int16 arithmetic."""
    shape = (16, 16, 64)
    a, b = np.full((16, 64), -128, np.int8), np.full((64, 16), -128, np.int8)
    acc, scratch = aligned((16, 16), np.int32), aligned((1 << 16,), np.uint8)

    def body(f: Function) -> None:
        va, vb = view(f, 0, a, "i8"), view(f, 1, b, "i8")
        plan = make_plan(engine.host, va, vb, "i32", shape)
        emit_dot(f, plan, va, vb, f.arguments[2], shape, scratch_alloc=Scratch(f, 3))

    engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
    assert (acc == 64 * 128 * 128).all()


def wrapped(
    argument: int, element: str, stride: int, modulus: int, along_columns: bool, contiguity: int,
    k_step: int | None,
) -> Callable[[Function], Chunks]:  # fmt: skip
    """A tile of a row-major matrix whose row (or column) numbers start at 16 and wrap around."""

    def make(f: Function) -> Chunks:
        size = np.dtype(NUMPY[element]).itemsize

        def address(f: Function, row: Value, col: Value) -> Value:
            place = f.op("add", col if along_columns else row, const("i64", 16))
            place = f.op("urem", place, const("i64", modulus))
            row, col = (row, place) if along_columns else (place, col)
            index = f.op("add", f.op("mul", row, const("i64", stride)), col)
            at = f.op("mul", index, const("i64", size))
            return f.gep("i8", f.arguments[argument], at)

        return Chunks(element, address, contiguity, k_step)

    return make


@pytest.mark.covering(2)
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("contiguity", [1, 4, 16])
@pytest.mark.parametrize("element", ["float", BFLOAT16])
def test_wrapped_rows_and_columns(
    engine: Engine, element: str, contiguity: int, linear: bool
) -> None:
    m, n, k = 32, 64, 16
    a = sample((48, k), element, 1)
    b = sample((k, 48), element, 2)
    acc, scratch = aligned((m, n), np.float32), aligned((1 << 20,), np.uint8)
    make_a = wrapped(0, element, k, 48, False, min(contiguity, k), 1 if linear else None)
    make_b = wrapped(1, element, 48, 48, True, contiguity, 48 if linear else None)

    def body(f: Function) -> None:
        va, vb = make_a(f), make_b(f)
        plan = make_plan(engine.host, va, vb, "float", (m, n, k))
        emit_dot(f, plan, va, vb, f.arguments[2], (m, n, k), scratch_alloc=Scratch(f, 3))

    engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
    rows, columns = (np.arange(m) + 16) % 48, (np.arange(n) + 16) % 48
    check(acc, expected(a[rows], b[:, columns], np.zeros((m, n), np.float32)), k)


@pytest.mark.parametrize("order_b", ["rows", "transposed"])
@pytest.mark.parametrize(
    "elements",
    [("float", "float"), (BFLOAT16, "float"), (FLOAT16, "float"), ("i8", "i32")],
    ids=str,
)
@pytest.mark.every(3)
def test_k_extent_stops_early(engine: Engine, elements: tuple[str, str], order_b: str) -> None:
    shape = (16, 32, 16)
    a, b = sample((16, 16), elements[0], 1), stored(sample((16, 32), elements[0], 2), order_b)
    scratch = aligned((1 << 16,), np.uint8)

    def body(f: Function) -> None:
        va, vb = view(f, 0, a, elements[0]), view(f, 1, b, elements[0])
        plan = make_plan(engine.host, va, vb, elements[1], shape)
        stop = f.load("i64", f.arguments[3], 8)
        emit_dot(
            f, plan, va, vb, f.arguments[2], shape, scratch_alloc=Scratch(f, 4), k_extent=stop
        )

    function = engine.build(body, 5)
    for extent in (16, 7, 1, 0):
        acc, limit = aligned((16, 32), NUMPY[elements[1]]), np.array([extent], np.int64)
        wanted = expected(a[:, :extent], b[:extent], acc)
        if elements[0] != "i8":
            a[:, extent:] = b[extent:] = np.nan
        function(*(x.ctypes.data for x in (a, b, acc, limit, scratch)))
        check(acc, wanted, 16)


def run_loop(
    engine: Engine, shape: tuple[int, int, int], limits: Sequence[tuple[int, int]], element: str,
    result: str, order_b: str = "rows", zero_init: bool = True, tail: bool = False,
) -> None:  # fmt: skip
    """One loop, run for each pair of full steps and elements beyond them."""
    m, n, k = shape
    a = stored(sample((m, k * 20), element, 1), "rows")
    b = stored(sample((k * 20, n), element, 2), order_b)
    scratch = aligned((1 << 20,), np.uint8)

    def body(f: Function) -> None:
        va, vb = view(f, 0, a, element), view(f, 1, b, element)
        emit_dot_loop(
            f, make_plan(engine.host, va, vb, result, shape), va, vb, f.arguments[2], shape,
            trips=f.load("i64", f.arguments[4], 8), a_advance=k * a.strides[1],
            b_advance=const("i64", k * b.strides[0]), scratch_alloc=Scratch(f, 3),
            zero_init=zero_init,
            tail=f.load("i64", f.offset(f.arguments[4], 8), 8) if tail else None,
        )  # fmt: skip

    function = engine.build(body, 5)
    for limit in limits:
        acc = aligned((m, n), NUMPY[result])
        acc[:] = sample((m, n), result, 3)
        used = limit[0] * k + limit[1]
        wanted = expected(a[:, :used], b[:used], np.zeros_like(acc) if zero_init else acc)
        steps = np.array(limit, np.int64)
        function(*(x.ctypes.data for x in (a, b, acc, scratch, steps)))
        check(acc, wanted, used)


@pytest.mark.parametrize(
    "elements",
    [("float", "float"), (BFLOAT16, "float"), ("i8", "i32"), (FLOAT16, "float")],
    ids=str,
)
def test_loop(engine: Engine, elements: tuple[str, str]) -> None:
    run_loop(engine, (16, 32, 32), [(trips, 0) for trips in (0, 1, 3, 19)], *elements)


@pytest.mark.parametrize("zero_init", [True, False])
@pytest.mark.parametrize("elements", [("float", "float"), (BFLOAT16, "float"), ("i8", "i32")])
@pytest.mark.every(5)
def test_loop_over_transposed_b(
    engine: Engine, elements: tuple[str, str], zero_init: bool
) -> None:
    shape = (64, 16, 16)
    run_loop(engine, shape, [(18, 0)], *elements, order_b="transposed", zero_init=zero_init)


@pytest.mark.parametrize("shape", [(64, 16, 16), (32, 1, 16)], ids=str)
@pytest.mark.parametrize("elements", [("float", "float"), (BFLOAT16, "float"), ("i8", "i32")])
@pytest.mark.every(5)
def test_loop_with_a_tail(
    engine: Engine, elements: tuple[str, str], shape: tuple[int, int, int]
) -> None:
    limits = [(trips, tail) for trips in (0, 2, 17) for tail in (0, 1, 15)]
    run_loop(engine, shape, limits, *elements, tail=True)


def test_loop_has_the_bits_of_single_dots(host_engine: Engine) -> None:
    shape, trips = (16, 32, 16), 40
    a, b = sample((16, 640), "float", 1), sample((640, 32), "float", 2)
    whole, single = aligned((16, 32), np.float32), aligned((16, 32), np.float32)

    def body(f: Function) -> None:
        va, vb = view(f, 0, a, "float"), view(f, 1, b, "float")
        plan = make_plan(host_engine.host, va, vb, "float", shape)
        none = Scratch(f, 2, 0)
        emit_dot_loop(
            f, plan, va, vb, f.arguments[2], shape, trips=const("i64", trips), a_advance=64,
            b_advance=16 * 32 * 4, scratch_alloc=none, zero_init=True,
        )  # fmt: skip
        with f.loop(const("i64", 0), const("i64", trips), const("i64", 1)) as i:
            pa = f.gep("i8", f.arguments[0], f.op("mul", i.index, const("i64", 64)))
            pb = f.gep("i8", f.arguments[1], f.op("mul", i.index, const("i64", 2048)))
            one_a, one_b = View("float", pa, 640, 1), View("float", pb, 32, 1)
            emit_dot(f, plan, one_a, one_b, f.arguments[3], shape, scratch_alloc=none)

    host_engine.build(body, 4)(*(x.ctypes.data for x in (a, b, whole, single)))
    np.testing.assert_array_equal(whole, single)


def test_batched(engine: Engine) -> None:
    batch, shape = 3, (16, 16, 32)
    a, b = sample((batch, 16, 32), "float", 1), sample((batch, 32, 16), "float", 2)
    acc = aligned((batch, 16, 16), np.float32)

    def body(f: Function) -> None:
        def operands(f: Function, i: Value) -> tuple[View, View]:
            skip = f.op("mul", i, const("i64", 16 * 32 * 4))
            return (
                View("float", f.gep("i8", f.arguments[0], skip), 32, 1),
                View("float", f.gep("i8", f.arguments[1], skip), 16, 1),
            )

        plan = make_plan(engine.host, view(f, 0, a, "float"), view(f, 1, b, "float"),
                         "float", shape)  # fmt: skip
        emit_batched_dot(
            f, plan, operands, f.arguments[2], batch, shape, scratch_alloc=Scratch(f, 2, 0)
        )

    engine.build(body, 3)(*(x.ctypes.data for x in (a, b, acc)))
    check(acc, expected(a, b, np.zeros_like(acc)), 32)


def test_fp8_by_a_conversion(engine: Engine) -> None:
    """e5m2 is the upper byte of an fp16."""
    shape = (16, 16, 32)
    dtype = ml_dtypes.float8_e5m2
    rng = np.random.default_rng(1)
    a = rng.standard_normal((16, 32)).astype(dtype)
    b = rng.standard_normal((32, 16)).astype(dtype)
    acc, scratch = aligned((16, 16), np.float32), aligned((1 << 16,), np.uint8)

    def convert(f: Function, value: Value) -> Value:
        from tritium.backends.cpu.dot.convert import half_to_float

        wide = value.type.replace("i8", "i16")
        bits = f.op("shl", f.cast("zext", value, wide), const(wide, 8))
        return half_to_float(f, f.cast("bitcast", bits, wide.replace("i16", FLOAT16)))

    def body(f: Function) -> None:
        va, vb = view(f, 0, a, "i8", convert=convert), view(f, 1, b, "i8", convert=convert)
        plan = make_plan(engine.host, va, vb, "float", shape)
        emit_dot(f, plan, va, vb, f.arguments[2], shape, scratch_alloc=Scratch(f, 3))

    engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
    check(acc, expected(a, b, np.zeros_like(acc)), 32)


def test_special_values_of_half(engine: Engine) -> None:
    """Subnormals, infinities, NaN, ties and overflow through 1 x 1 x 1 dots by one and by two."""
    specials = [0.0, -0.0, 6e-8, 5.96e-8, 6.1e-5, 65504.0, 40000.0, np.inf, -np.inf, np.nan,
                1.0, 2049.0 / 2048, 3.0 / 4096, 1e-7]  # fmt: skip
    for factor in (1.0, 2.0, 0.5):
        a = np.array(specials + [1.0] * 2, np.float16).reshape(16, 1)
        b = np.array([[factor, 0.75 * factor]], np.float16).repeat(8, 0).reshape(1, 16)
        acc = aligned((16, 16), np.float16)

        def body(f: Function, a: np.ndarray = a, b: np.ndarray = b) -> None:
            va, vb = view(f, 0, a, FLOAT16), view(f, 1, b, FLOAT16)
            plan = make_plan(engine.host, va, vb, FLOAT16, (16, 16, 1))
            scratch = Scratch(f, 3)
            emit_dot(f, plan, va, vb, f.arguments[2], (16, 16, 1), scratch_alloc=scratch,
                     zero_init=True)  # fmt: skip

        scratch = aligned((1 << 16,), np.uint8)
        engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
        with np.errstate(all="ignore"):
            wanted = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
        np.testing.assert_array_equal(acc, wanted)


X86 = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512bf16", "avx512vnni", "avx2", "fma"})


def tile(element: str, row: int = 64, col: int = 1) -> View:
    return View(element, Value("ptr", "%p"), row, col)


@pytest.mark.parametrize(
    ("arch", "features", "block"),
    [
        ("x86_64", X86, (16, 6, 4)),
        ("x86_64", {"avx2", "fma"}, (8, 6, 2)),
        ("x86_64", {"sse2"}, (4, 4, 2)),
        ("aarch64", {"neon"}, (4, 6, 4)),
        ("riscv64", set[str](), (4, 4, 2)),
    ],
)
def test_register_block_follows_the_host(
    arch: str, features: set[str], block: tuple[int, int, int]
) -> None:
    host = Host.of(arch, features)
    plan = make_plan(host, tile("float"), tile("float"), "float", (64, 64, 64))
    assert (plan.lanes, plan.block_rows, plan.block_vectors) == block


@pytest.mark.every(2)
@pytest.mark.parametrize("element", ["float", "double", FLOAT16, BFLOAT16, "i8"])
@pytest.mark.parametrize(
    ("triple", "cpu", "features"),
    [
        ("x86_64-unknown-linux-gnu", "znver4", X86),
        ("x86_64-unknown-linux-gnu", "haswell", {"avx2", "fma", "f16c"}),
        ("aarch64-unknown-linux-gnu", "neoverse-n1", {"neon"}),
        ("aarch64-unknown-linux-gnu", "cortex-a76", {"neon", "dotprod"}),
        ("aarch64-unknown-linux-gnu", "neoverse-v1", {"neon", "dotprod", "i8mm", "bf16"}),
        ("x86_64-unknown-linux-gnu", "graniterapids", X86 | frozenset(amx_emulation.FEATURES)),
    ],
    ids=["avx512", "avx2", "neon", "neon-dotprod", "neon-mmla", "amx"],
)
def test_accumulators_are_never_spilled(
    triple: str, cpu: str, features: set[str], element: str
) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arch = triple.split("-")[0]
    host = Host.of(arch, features)
    module = Module(triple)
    width = f'nounwind "prefer-vector-width"="{host.bits}"'
    f = Function(module, "dot", [("ptr", f"p{i}", "") for i in range(4)], attributes=width)
    shape, result = (64, 64, 64), {"double": "double", "i8": "i32"}.get(element, "float")
    a, b = (View(element, f.arguments[i], 1024, 1) for i in range(2))
    plan = make_plan(host, a, b, result, shape)
    emit_dot(f, plan, a, b, f.arguments[2], shape, scratch_alloc=Scratch(f, 3))
    if plan.method.in_tiles:  # LLVM gives each of these registers one shape in a function
        other = (16, 32, 128)
        small = make_plan(host, a, b, result, other)
        emit_dot(f, small, a, b, f.arguments[2], other, scratch_alloc=Scratch(f, 3))
    f.ret()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3, reloc="pic")
    assembly = machine.emit_assembly(llvm.parse_assembly(module.text()))
    registers = r"[xyzt]mm\d+" if arch == "x86_64" else r"\bq\d+"
    multiply = r"vfmadd|vdpbf16ps|vpdpbusd|vpmaddwd|fmla|\bmla|sdot|mmla|tdp"
    mnemonics = {"bfmmla", "smmla", "sdot", "tdpbf16ps", "tdpfp16ps", "tdpbssd"}
    for name in mnemonics & set(plan.instruction.split(".")):
        assert name in assembly
    stack = r"%rsp" if arch == "x86_64" else r"\[sp"
    loop = re.split(r"\n\.LBB\d+_\d+:", assembly)
    innermost = [block for block in loop if re.search(multiply, block)]
    assert len(innermost) >= 2, "one block of rows and the rest"
    for line in "\n".join(innermost).splitlines():
        assert not (re.search(stack, line) and re.search(registers, line)), line


@pytest.mark.parametrize(
    ("elements", "method", "packs"),
    [
        (("float", "float", "float"), Method.FMA, (False, False)),
        ((FLOAT16, FLOAT16, "float"), Method.FMA, (True, True)),
        ((BFLOAT16, BFLOAT16, "float"), Method.BF16, (False, True)),
        (("i8", "i8", "i32"), Method.VNNI, (False, True)),
        (("i16", "i16", "i32"), Method.MADD, (False, True)),
        (("i32", "i32", "i32"), Method.FMA, (False, False)),
    ],
)
def test_method_and_packing(
    elements: tuple[str, str, str], method: Method, packs: tuple[bool, bool]
) -> None:
    host = Host.of("x86_64", X86)
    plan = make_plan(host, tile(elements[0]), tile(elements[1]), elements[2], (64, 64, 64))
    assert (plan.method, (plan.pack_a, plan.pack_b)) == (method, packs)


def test_transposed_operands_pack_b_only() -> None:
    host = Host.of("x86_64", X86)
    shape = (64, 64, 64)
    plan = make_plan(host, tile("float", 1, 64), tile("float", 1, 64), "float", shape)
    assert (plan.pack_a, plan.pack_b) == (False, True)


def test_refusals() -> None:
    host = Host.of("x86_64", X86)
    a, shape = tile("float"), (16, 16, 16)
    with pytest.raises(ValueError, match="input_precision 'tf16'; allowed are ieee"):
        make_plan(host, a, a, "float", shape, "tf16")
    with pytest.raises(ValueError, match="16x24x16; each must be a power of two"):
        make_plan(host, a, a, "float", (16, 24, 16))
    with pytest.raises(NotImplementedError, match="float x float -> %bfloat16"):
        make_plan(host, a, a, BFLOAT16, shape)
    with pytest.raises(NotImplementedError, match="i8 x i8 -> float; give the views a `convert`"):
        make_plan(host, tile("i8"), tile("i8"), "float", shape)


AMX = X86 | frozenset(amx_emulation.FEATURES)


@pytest.mark.parametrize(
    ("element", "result", "instruction"),
    [(BFLOAT16, "float", "tdpbf16ps"), (FLOAT16, "float", "tdpfp16ps"), ("i8", "i32", "tdpbssd")],
)
def test_amx_where_the_processor_has_it(element: str, result: str, instruction: str) -> None:
    a = tile(element)
    plan = make_plan(Host.of("x86_64", AMX), a, a, result, (64, 64, 64))
    assert (plan.method.in_tiles, plan.instruction) == (True, f"x86.{instruction}.internal")
    assert (plan.block_rows, plan.block_vectors, plan.pack_a, plan.pack_b) == (32, 2, False, True)
    far = tile(element, 4096)
    assert make_plan(Host.of("x86_64", AMX), far, far, result, (64, 64, 64)).pack_a
    for without in ({"amx-tile"}, {f"amx-{x}" for x in ("bf16", "fp16", "int8")}):
        plan = make_plan(Host.of("x86_64", AMX - without), a, a, result, (64, 64, 64))
        assert not plan.method.in_tiles


@pytest.mark.parametrize("signs", [(False, True), (True, False), (True, True)], ids=str)
def test_amx_takes_each_operand_signed_or_unsigned(signs: tuple[bool, bool]) -> None:
    engine, shape = Engine("amx"), (32, 32, 64)
    m, n, k = shape
    a, b = sample((m, k), "i8", 1, signs[0]), sample((k, n), "i8", 2, signs[1])
    acc, scratch = aligned((m, n), np.int32), aligned((1 << 16,), np.uint8)

    def body(f: Function) -> None:
        va, vb = (
            view(f, i, array, "i8", unsigned=unsigned)
            for i, (array, unsigned) in enumerate(zip((a, b), signs, strict=True))
        )
        plan = make_plan(engine.host, va, vb, "i32", shape)
        assert plan.method is Method.AMX_INT8
        emit_dot(f, plan, va, vb, f.arguments[2], shape, scratch_alloc=Scratch(f, 3))

    engine.build(body, 4)(*(x.ctypes.data for x in (a, b, acc, scratch)))
    check(acc, expected(a, b, np.zeros_like(acc)), k)


AMX_SHAPES = [(64, 64, 64), (16, 16, 64), (32, 64, 128), (128, 16, 64), (16, 128, 256)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("order_a", ["rows", "transposed", "padded", "spread"])
@pytest.mark.parametrize("shape", AMX_SHAPES, ids=str)
@pytest.mark.parametrize("elements", [(BFLOAT16, "float"), (FLOAT16, "float"), ("i8", "i32")])
def test_amx_shapes(elements: tuple[str, str], shape: tuple[int, int, int], order_a: str) -> None:
    kinds = elements[0], elements[0], elements[1]
    plan = run_dot(Engine("amx"), shape, kinds, (order_a, "transposed"))
    assert plan.method.in_tiles


@pytest.mark.covering(1)
@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("room", [8 << 10, 1 << 18])
@pytest.mark.parametrize(
    "elements", [(FLOAT16, "float"), (BFLOAT16, "float"), ("i8", "i32"), ("float", "float")]
)
def test_packed_operands_are_used_by_the_next_program(
    engine: Engine, elements: tuple[str, str], room: int, chunks: bool
) -> None:
    """Ten programs, then ten more after the operands were changed in place. So many programs have
    the same A, and so many the same B: from the second B on, the first of them packs it for the
    others. Floats are read in place where the B before came once, or copied in parts where rows are
    apart by a power of two; of 520 iterations the copies never fit."""
    (m, n, k), most, programs = (16, 32, 16), 40, 10
    if elements[0] == "float":
        (m, n, k), most, programs = (32, 32, 16), 520, 8
    a = sample((programs * m, most * k), elements[0], 1)
    b = sample((most * k, programs * n), elements[0], 2)
    scratch = aligned((1 << 22,), np.uint8)

    def body(f: Function) -> None:
        alloc, heads = Scratch(f, 3, 1 << 22), list[int]()

        def keep(size: int) -> Value:
            heads.append(alloc.used)
            return alloc(size)

        clear, size = f.new_label("clear"), a.itemsize
        start, run = f.new_label("start"), f.new_label("run")
        f.branch(clear)
        f.label(start)
        with f.loop(const("i64", 0), const("i64", programs), const("i64", 1)) as p:
            counts = (f.load("i64", f.offset(f.arguments[4], at), 8) for at in (8, 16))
            first, panel = (f.op("udiv", p.index, count) for count in counts)
            rows = f.op("mul", first, const("i64", m * most * k * size))
            columns = f.op("mul", panel, const("i64", n * size))
            pa, pb = f.gep("i8", f.arguments[0], rows), f.gep("i8", f.arguments[1], columns)
            va: View | Chunks = View(elements[0], pa, most * k, 1)
            vb: View | Chunks = View(elements[0], pb, programs * n, 1)
            if chunks:
                va = Chunks(elements[0], va.at, k, 1)
                vb = Chunks(elements[0], vb.at, 16, programs * n)
            place = f.gep("i8", f.arguments[2], f.op("mul", p.index, const("i64", 4 * m * n)))
            kept = Kept(keep, room)
            emit_dot_loop(
                f, make_plan(engine.host, va, vb, elements[1], (m, n, k)), va, vb, place, (m, n, k),
                trips=f.load("i64", f.arguments[4], 8), a_advance=k * size,
                b_advance=k * programs * n * size, scratch_alloc=alloc, zero_init=True,
                kept=(kept, kept),
            )  # fmt: skip
        f.branch(run)
        f.label(clear)
        for head in heads:
            f.store(const("i64", -1), f.offset(f.arguments[3], head), 8)
        f.branch(start)
        f.label(run)

    function = engine.build(body, 5)
    shared = [(1, programs), (programs, 1), (1, 1), (1, 3)]
    for of_a, of_b in (pair for pair in shared for _ in range(2)):
        trips = 40 if of_b == 3 else most
        limit = np.array([trips, of_a, of_b], np.int64)
        acc = aligned((programs, m, n), NUMPY[elements[1]])
        function(*(x.ctypes.data for x in (a, b, acc, scratch, limit)))
        for p in range(programs):
            rows, columns = p // of_a * m, p // of_b * n
            zero = np.zeros((m, n), acc.dtype)
            left, right = a[rows : rows + m, : trips * k], b[: trips * k, columns : columns + n]
            check(acc[p], expected(left, right, zero), trips * k)
        a[:], b[:] = -a, b[::-1].copy()


@pytest.mark.parametrize(
    ("rows", "columns", "step", "steps"),
    [
        (1, 64, 4096, 32), (32, 512, 4096, 32), (1, 1024, 4096, 0), (1, 4096, 4096, 0),
        (64, 64, 4096, 0), (1, 64, 64, 0), (1, 64, Value("i64", "%step"), 32),
    ],
)  # fmt: skip
def test_b_is_prefetched_where_memory_is_waited_for(
    rows: int, columns: int, step: int | Value, steps: int
) -> None:
    """Few rows read short pieces of B's rows that are apart; the hardware sees a stream in pieces
    of 4096 bytes, and in rows that follow each other."""
    wide = Host(512, 32, fma=True, half=True, bf16_dot=False, vnni=False, madd=True)
    a, b = View("float", Value("ptr", "%a"), 64, 1), View("float", Value("ptr", "%b"), step, 1)
    assert make_plan(wide, a, b, "float", (rows, columns, 64)).prefetch == steps
