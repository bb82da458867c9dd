"""`@jit`: what a kernel object offers, and how it is launched."""

from __future__ import annotations

import linecache
import re
import threading
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver, add_kernel, module_from
from tritium.compiler import ASTSource
from tritium.language.jit import dependencies
from tritium.runtime import Autotuner, JITFunction, KernelInterface, driver
from tritium.target import GPUTarget


@tritium.jit
def store_kernel(out, value, BLOCK: tl.constexpr = 4):
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), value)


def test_forms_and_attributes() -> None:
    @tritium.jit(
        version=3, do_not_specialize=["n"], do_not_specialize_on_alignment=[0],
        debug=True, noinline=True, repr=lambda s: "renamed", launch_metadata=lambda g, m, a: {},
    )  # fmt: skip
    def kernel(x, n: int, B: tl.constexpr = 8):
        """Text."""
        pass

    assert isinstance(kernel, JITFunction)
    assert kernel.module == __name__ and kernel.version == 3 and kernel.noinline and kernel.debug
    assert kernel.arg_names == ["x", "n", "B"]
    assert [p.num for p in kernel.params] == [0, 1, 2]
    assert [p.is_constexpr for p in kernel.params] == [False, False, True]
    assert [p.do_not_specialize for p in kernel.params] == [False, True, False]
    assert [p.do_not_specialize_on_alignment for p in kernel.params] == [True, False, False]
    assert kernel.params[2].default == 8 and kernel.params[2].name == "B"
    assert kernel.__name__ == "kernel" and kernel.__doc__ == "Text."
    assert kernel.__module__ == __name__ and kernel.__globals__ is globals()
    assert kernel.src.startswith("def kernel(x, n: int")
    assert kernel.fn.__name__ == "kernel" and kernel.base_fn is kernel
    assert list(kernel.signature.parameters) == kernel.arg_names


def test_kernels_are_not_called() -> None:
    message = (
        "Cannot call @triton.jit'd outside of the scope of a kernel: 'store_kernel'; a kernel is "
        "launched as kernel[grid](...)"
    )
    with pytest.raises(RuntimeError, match=re.escape(message)):
        store_kernel(np.zeros(4), 1)


def test_only_functions_are_kernels() -> None:
    with pytest.raises(TypeError, match=r"@jit can only be applied to a function; got 5"):
        tritium.jit(5)  # pyright: ignore
    with pytest.raises(ValueError, match=r"a `def`"):
        tritium.jit(lambda x: x)


def test_below_a_decorator_that_says_def(tmp_path: Path) -> None:
    module = module_from(
        '''
        import tritium
        import tritium.language as tl

        def named(text):
            return lambda kernel: kernel

        @named("def other(x):")
        @named(
            """
            def another(x):
            """
        )
        @tritium.jit
        def fill(out):
            tl.store(out, 7)
        ''',
        tmp_path,
    )
    assert module.fill.src.startswith("def fill(out):")
    out = np.zeros(1, np.int32)
    module.fill[(1,)](out)
    assert out[0] == 7


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((3,), (3, 1, 1)),
        ((3, 2), (3, 2, 1)),
        ([3, 2, 5], (3, 2, 5)),
        (4, (4, 1, 1)),
        (lambda meta: (meta["n"] // meta["BLOCK"], 2), (8, 2, 1)),
        (lambda meta: 6, (6, 1, 1)),
        ((np.int64(3), tl.constexpr(2)), (3, 2, 1)),
        ((True,), (1, 1, 1)),
    ],
)
def test_grids(stub: StubDriver, grid: Any, sizes: tuple[int, int, int]) -> None:
    x = np.zeros(64, np.float32)
    kernel = add_kernel[grid](x, x, x, 64, BLOCK=8)
    assert kernel.name == "add_kernel"
    assert stub.launches[0].grid == sizes
    assert stub.launches[0].stream == 100


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((), TypeError, r"1 to 3 ints or a function; got \(\)"),
        ((1, 2, 3, 4), TypeError, r"1 to 3 ints"),
        ("ab", TypeError, "got 'ab'"),
        ((1.5,), TypeError, r"grid\[0\] is 1.5; an int is required"),
        ((1, None), TypeError, r"grid\[1\] is None"),
        ((-1,), ValueError, r"grid\[0\] is -1; it must be in 0 .. 2\*\*31-1"),
        ((1, 2**31), ValueError, r"grid\[1\] is 2147483648"),
        (lambda meta: None, TypeError, "got None"),
    ],
)
def test_bad_grids(grid: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        store_kernel[grid](np.zeros(4, np.int32), 1)


@pytest.mark.parametrize("grid", [(0,), (3, 0), (0, 0, 0), (2, 2, 0)])
def test_an_empty_grid_runs_nothing(grid: tuple[int, ...]) -> None:
    out = np.zeros(4, np.int32)
    kernel = store_kernel[grid](out, 5)
    assert kernel is not None and not out.any()


def test_an_empty_grid_calls_no_launcher(stub: StubDriver) -> None:
    assert store_kernel[(0,)](np.zeros(4, np.int32), 5) is not None
    assert not stub.launches


def test_the_grid_function_sees_everything(stub: StubDriver) -> None:
    seen: dict[str, Any] = {}

    def grid(meta: dict[str, Any]) -> tuple[int]:
        seen.update(meta)
        return (1,)

    out = np.zeros(4, np.int32)
    store_kernel[grid](out, value=5, num_warps=2)
    assert seen["out"] is out and seen["value"] == 5 and seen["BLOCK"] == 4
    assert "num_warps" not in seen  # an option, not an argument


def test_run_again_finds_the_kernel(stub: StubDriver) -> None:
    out = np.zeros(4, np.int32)
    first = store_kernel[(1,)](out, 5)
    assert store_kernel[(2,)](out, 6) is first
    assert store_kernel[(2,)](out, 1) is not first


def test_a_cache_for_each_device(stub: StubDriver) -> None:
    @tritium.jit
    def fill(out):
        tl.store(out, 7)

    out = np.zeros(4, np.int32)
    first = fill[(1,)](out)
    stub.device = 1
    second = fill[(1,)](out)
    assert first is not second
    assert [launch.stream for launch in stub.launches] == [100, 101]
    assert sorted(fill.device_caches) == [0, 1]
    assert len(fill.device_caches[0][0]) == len(fill.device_caches[1][0]) == 1


def test_a_cache_for_each_driver() -> None:
    out = np.zeros(4, np.int32)
    store_kernel[(1,)](out, 33)
    stub = StubDriver()
    driver.set_active(stub)
    try:
        store_kernel[(1,)](out, 44)
        assert len(stub.launches) == 1 and (out == 33).all()
    finally:
        driver.reset_active()
    store_kernel[(1,)](out, 55)
    assert len(stub.launches) == 1 and (out == 55).all()


def test_repr_names_the_kernel() -> None:
    def name(specialization: Any) -> str:
        return f"fill_{specialization.constants['BLOCK']}_{specialization.signature['out'][1:]}"

    @tritium.jit(repr=name)
    def fill(out, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), 3)

    out = np.zeros(4, np.int32)
    kernel = fill[(1,)](out, 4)
    assert kernel.name == kernel.metadata.name == "fill_4_i32"
    assert "@fill_4_i32" in kernel.asm["ttir"]
    assert (out == 3).all()
    out8 = np.zeros(8, np.int32)
    assert fill[(1,)](out8, 8).name == "fill_8_i32"
    assert (out8 == 3).all()


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("a b", "a_b"), ("../x/y", "___x_y"), ("f<int>(x)", "f_int__x_"), ("m.f", "m_f"), ("7", "_7"),
     ("_", "__"), ("llvm", "llvm_"), ("\N{GREEK SMALL LETTER SIGMA}", "_3c3"), ("", "fill"),
     ("$a_B9", "$a_B9")],
)  # fmt: skip
def test_names_that_no_assembler_knows(name: str, symbol: str) -> None:
    @tritium.jit(repr=lambda specialization: name)
    def fill(out):
        tl.store(out, 3)

    out = np.zeros(1, np.int32)
    assert fill[(1,)](out).name == symbol and out[0] == 3
    cuda = tritium.compile(ASTSource(fill, {"out": "*i32"}), target=GPUTarget("cuda", 90, 32))
    assert cuda.name == symbol and f".entry {symbol}(" in cuda.asm["ptx"]


def test_a_name_is_text() -> None:
    @tritium.jit(repr=lambda specialization: 3)  # pyright: ignore[reportArgumentType]
    def fill(out):
        tl.store(out, 3)

    with pytest.raises(TypeError, match=r"fill: repr returned 3; a str, its name, is required"):
        fill[(1,)](np.zeros(1, np.int32))


@tritium.jit(noinline=True)
def größer(x):
    return x + 1


def test_a_tensor_without_memory() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="argument 'out': Cannot access data pointer"):
        store_kernel[(1,)](torch.zeros(4).to_sparse(), 1)


def test_an_address_without_a_type() -> None:
    class Address:
        def data_ptr(self) -> int:
            return 0

    with pytest.raises(TypeError, match="argument 'out': 'Address' object has no attribute"):
        store_kernel[(1,)](Address(), 1)


def test_functions_with_letters_of_other_alphabets() -> None:
    @tritium.jit
    def fill(out):
        tl.store(out, größer(tl.load(out)))

    out = np.zeros(1, np.int32)
    fill[(1,)](out)
    assert out[0] == 1
    tritium.compile(ASTSource(fill, {"out": "*i32"}), target=GPUTarget("cuda", 90, 32))


def test_defaults_keywords_and_annotations() -> None:
    @tritium.jit
    def fill(out, a=2, b: tl.float32 = 3, C: tl.constexpr = 4):
        tl.store(out, a + b + C)

    out = np.zeros(1, np.float32)
    fill[(1,)](out)
    assert out[0] == 9
    fill[(1,)](b=10, out=out)
    assert out[0] == 16
    kernel = fill[(1,)](out, 1, 2, 3)
    assert out[0] == 6
    assert list(kernel.src.signature.values()) == ["*fp32", "constexpr", "fp32", "constexpr"]


def test_exec_with_linecache() -> None:
    source = (
        "@jit\ndef generated(out, value):\n    tl.store(out, value * 2)\n"
    )  # fmt: skip
    name = "<generated kernel>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"jit": tritium.jit, "tl": tl, "__name__": "somewhere"}
    exec(compile(source, name, "exec"), scope)
    out = np.zeros(1, np.int32)
    scope["generated"][(1,)](out, 21)
    assert out[0] == 42


def test_exec_without_a_source() -> None:
    scope: dict[str, Any] = {"jit": tritium.jit, "__name__": "somewhere"}
    with pytest.raises(ValueError, match=r"should be defined in a Python file"):
        exec(compile("@jit\ndef hidden(x):\n    pass\n", "<hidden>", "exec"), scope)


def test_a_module_that_imports_no_language(tmp_path: Path) -> None:
    module = module_from(
        """
        import tritium

        @tritium.jit
        def nothing(x, y):
            pass

        @tritium.jit
        def called(x):
            return x + 1

        @tritium.jit
        def calls(x):
            y = called(x)
        """,
        tmp_path,
    )
    assert module.nothing[(2,)](np.zeros(1), 3).name == "nothing"
    assert module.calls[(1,)](5) is not None


def test_tensor_like_objects_and_negative_strides() -> None:
    class Pointer:
        dtype = np.dtype(np.float32)

        def __init__(self, address: int):
            self.address = address

        def data_ptr(self) -> int:
            return self.address

    x = np.arange(4, dtype=np.float32)
    out = np.zeros(4, np.float32)

    @tritium.jit
    def copy(src, dst, stride, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(dst + i, tl.load(src + i * stride))

    copy[(1,)](Pointer(x.ctypes.data + 12), Pointer(out.ctypes.data), -1, 4)
    assert (out == x[::-1]).all()
    copy[(1,)](x[::-1], out, -1, 4)
    assert (out == x[::-1]).all()


def test_tuples_and_named_tuples() -> None:
    Pair = namedtuple("Pair", ["first", "second"])

    @tritium.jit
    def kernel(out, values, pair, nested):
        tl.store(out + 0, values[0] + values[1])
        tl.store(out + 1, pair.first - pair.second)
        tl.store(out + 2, nested[0][1] * nested[1])

    out = np.zeros(3, np.float32)
    kernel[(1,)](out, (3, 4.5), Pair(10, 1), ((None, 7), 3))
    assert out.tolist() == [7.5, 9, 21]
    kernel[(1,)](out, (1, 4.5), Pair(1, 1), ((None, 1), 16))
    assert out.tolist() == [5.5, 0, 16]


def test_scalars_behave_as_tensors_and_constexprs_have_values() -> None:
    @tritium.jit
    def kernel(out, f, n, N: tl.constexpr):
        total = f.to(tl.float32)
        for i in range(n):
            total += i.to(tl.float32)
        tl.store(out, total + tl.program_id(0).to(tl.float32) + N.value)

    out = np.zeros(1, np.float32)
    kernel[(1,)](out, 0.5, 4, 2)
    assert out[0] == 8.5


def test_subclasses() -> None:
    class Mine(JITFunction[Any]):
        launches = 0

        def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            type(self).launches += 1
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    kernel = Mine(store_kernel.fn)
    out = np.zeros(4, np.int32)
    kernel[(1,)](out, 9)
    assert Mine.launches == 1 and (out == 9).all()

    class Wrapper(KernelInterface[Any]):
        def __init__(self, fn: Any):
            self.fn = fn

        def run(self, *args: Any, **kwargs: Any) -> Any:
            return self.fn.run(*args, **kwargs)

    fn: Any = Wrapper(Autotuner(kernel, kernel.arg_names, [], [], None, None))
    fn[(1,)](out, 8)
    assert (out == 8).all()
    while not isinstance(fn, JITFunction):
        fn = fn.fn
    assert fn is kernel
    with pytest.raises(TypeError, match=r"abstract method '?run"):
        KernelInterface()  # pyright: ignore[reportAbstractUsage]


def test_interpret_set_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = """
    import tritium
    import tritium.language as tl

    @tritium.jit
    def double(x):
        return x + x

    @tritium.jit
    def kernel(out, x):
        tl.store(out, double(x))
    """
    compiled = module_from(source, tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreted = module_from(source, tmp_path)
    out = np.zeros(1, np.int32)
    assert compiled.kernel[(1,)](out, 4) is not None and out[0] == 8
    assert interpreted.kernel[(1,)](out, 5) is None and out[0] == 10
    monkeypatch.delenv("TRITON_INTERPRET")
    # Each may call the other's functions.
    compiled.kernel.fn.__globals__["double"] = interpreted.double
    mixed = tritium.jit(compiled.kernel.fn)
    assert mixed[(1,)](out, 6) is not None and out[0] == 12
    interpreted.kernel.fn.__globals__["double"] = compiled.double
    assert interpreted.kernel[(1,)](out, 7) is None and out[0] == 14


def test_the_kernel_after_a_launch() -> None:
    out = np.zeros(4, np.int32)
    kernel = store_kernel[(1,)](out, 3)
    kernel._init_handles()
    # Programs divide by these, and take what results as a number of programs.
    device = driver.active.utils.get_device_properties(0)
    assert 1 <= 32 * kernel.n_regs <= device["max_num_regs"]
    assert 1 <= kernel.metadata.shared <= device["max_shared_mem"]
    assert kernel.n_spills >= 0 and kernel.n_max_threads >= 1
    kernel[(1, 1, 1)](out, 4, 4)
    assert (out == 4).all()


def test_fake_and_meta_tensors_warm_up() -> None:
    torch = pytest.importorskip("torch")
    out = torch.empty(4, dtype=torch.int32, device="meta")
    assert store_kernel.warmup(out, 3, grid=(1,)) is not None
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.empty(4, dtype=torch.int32)
    assert store_kernel.warmup(fake, 3, grid=(1,)) is not None


def test_tensor_subclasses_and_parameters() -> None:
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    for out in (torch.zeros(4).as_subclass(Mine), torch.nn.Parameter(torch.zeros(4))):
        store_kernel[(1,)](out, 2.0)
        assert out.tolist() == [2.0] * 4


def test_autograd_function() -> None:
    torch = pytest.importorskip("torch")

    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            out = torch.empty_like(x)
            add_kernel[(1,)](x, y, out, x.numel(), BLOCK=16)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            grad = grad.contiguous()
            out = torch.empty_like(grad)
            add_kernel[(1,)](grad, grad, out, grad.numel(), BLOCK=16)
            return out, out

    x = torch.randn(10, requires_grad=True)
    y = torch.randn(10, requires_grad=True)
    Add.apply(x, y).sum().backward()
    assert (x.grad == 2).all()


def test_inside_torch_compile() -> None:
    torch = pytest.importorskip("torch")
    kernel = tritium.jit(add_kernel.fn)

    def function(x: Any, y: Any) -> Any:
        out = torch.empty_like(x)
        kernel[(1,)](x, y, out, x.numel(), BLOCK=16)
        return out * 2

    compiled = torch.compile(function, backend="eager")
    for i in range(2):
        x = torch.arange(10.0) + i
        assert torch.equal(compiled(x, x), 4 * x)


def test_keys_that_threads_ask_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees the mark that stands for a cycle of calls while a digest is computed."""
    begun, asked = threading.Event(), threading.Event()
    digest = dependencies.digest

    def slow(function: Any) -> Any:
        begun.set()
        asked.wait(5)
        return digest(function)

    @tritium.jit
    def kernel(out):
        tl.store(out, 1)

    monkeypatch.setattr(dependencies, "digest", slow)
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(kernel.cache_key)) for _ in range(2)]
    threads[0].start()
    begun.wait(5)
    threads[1].start()
    threads[1].join(0.1)
    asked.set()
    for thread in threads:
        thread.join()
    assert keys[0] == keys[1] == digest(kernel)[0]
