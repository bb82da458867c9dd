"""Launches that CUDA graphs capture: what is replayed, from which threads, streams and callers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu
SIZE = 1000


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def scratch(torch: Any) -> Iterator[list[int]]:
    """Sizes of the memory that kernels ask for, which torch gives them."""
    sizes: list[int] = []

    def allocate(size: int, alignment: int, stream: Any) -> Any:
        sizes.append(size)
        return torch.empty(size, device="cuda", dtype=torch.int8)

    tritium.set_allocator(allocate)
    yield sizes
    tritium.set_allocator(None)


@tritium.jit
def scale(x, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@tritium.autotune(
    configs=[tritium.Config({"BLOCK": b}) for b in (128, 256)], key=["n"], restore_value=["x"]
)
@tritium.heuristics({"FACTOR": lambda nargs: 2})
@tritium.jit
def double(x, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * FACTOR, i < n)


@tritium.jit
def copy_twice(source, target, ROWS: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) * 2)


@tritium.jit
def copy_by_own_descriptors(x, out, rows, columns):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [16, 64])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [16, 64])
    target.store([0, 0], source.load([0, 0]) * 3)


def launch(x: Any, out: Any, factor: float) -> None:
    scale[(8,)](x, out, factor, SIZE, BLOCK=128)


def captured(torch: Any, work: Callable[[], None], warm: int = 3) -> Any:
    """A graph of `work`, which has been run before on a stream beside, as torch recommends."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


@pytest.mark.parametrize("warm", [1, 2, 5])
def test_a_replay_reads_what_is_there_then(torch: Any, warm: int) -> None:
    """The captured launch is the kernel's second in Python, or native."""
    x, out = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    graph = captured(torch, lambda: launch(x, out, 3.0), warm)
    for value in (2.0, 5.0):
        x.fill_(value)
        out.zero_()
        graph.replay()
        torch.testing.assert_close(out, 3 * x)


def test_a_capture_runs_nothing(torch: Any) -> None:
    x, out = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    launch(x, out, 1.0)
    graph = torch.cuda.CUDAGraph()
    out.zero_()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        launch(x, out, 7.0)
    torch.cuda.synchronize()
    assert not out.any()
    graph.replay()
    assert (out == 7).all()


def test_two_streams_of_one_capture(torch: Any) -> None:
    x = torch.rand(SIZE, device="cuda")
    left, right, out = (torch.zeros_like(x) for _ in range(3))
    beside = torch.cuda.Stream()

    def work() -> None:
        here = torch.cuda.current_stream()
        beside.wait_stream(here)
        launch(x, left, 2.0)
        with torch.cuda.stream(beside):
            launch(x, right, 3.0)
        here.wait_stream(beside)
        torch.add(left, right, out=out)

    graph = captured(torch, work)
    x.uniform_()
    graph.replay()
    torch.testing.assert_close(out, 5 * x)


def test_an_autotuned_kernel(torch: Any) -> None:
    """It is tuned before; its launches in the graph are exactly those asked for."""
    x = torch.ones(SIZE, device="cuda")
    launcher = double[lambda meta: (tritium.cdiv(SIZE, meta["BLOCK"]),)]
    graph = captured(torch, lambda: launcher(x, SIZE))
    x.fill_(1.0)
    for times in (2.0, 4.0, 8.0):
        graph.replay()
        assert (x == times).all()


def test_descriptors_of_the_host(torch: Any) -> None:
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs a GPU that has tensor maps")
    x, out = torch.rand(16, 64, device="cuda"), torch.zeros(16, 64, device="cuda")

    def work() -> None:  # whose descriptors are gone when the graph is replayed
        source, target = (TensorDescriptor.from_tensor(t, [16, 64]) for t in (x, out))
        copy_twice[(1,)](source, target, ROWS=16)

    graph = captured(torch, work)
    x.uniform_()
    graph.replay()
    torch.testing.assert_close(out, 2 * x)


def test_scratch_memory_belongs_to_the_graph(torch: Any, scratch: list[int]) -> None:
    """Other allocations between replays do not get the memory of the kernel's descriptors."""
    x, out = torch.rand(16, 64, device="cuda"), torch.zeros(16, 64, device="cuda")
    graph = captured(torch, lambda: copy_by_own_descriptors[(1,)](x, out, 16, 64))
    asked = len(scratch)
    for _ in range(3):
        others = [torch.full((n,), 255, dtype=torch.uint8, device="cuda") for n in (128, 256, 512)]
        x.uniform_()
        graph.replay()
        torch.testing.assert_close(out, 3 * x)
        del others
    assert len(scratch) == asked


@pytest.mark.parametrize("option", ["launch_cooperative_grid", "launch_pdl"])
def test_modes_of_launching(torch: Any, option: str) -> None:
    x, out = torch.rand(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    graph = captured(
        torch, lambda: scale[(8,)](x, out, 2.0, SIZE, BLOCK=128, **{option: True})
    )
    x.uniform_()
    graph.replay()
    torch.testing.assert_close(out, 2 * x)


def test_hooks_see_the_capture_and_no_replay(torch: Any) -> None:
    x, out = torch.rand(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    seen: list[str] = []

    def enter(data: Any) -> None:
        seen.append(data.get()["name"])

    launch(x, out, 1.0)
    knobs.runtime.launch_enter_hook.add(enter)
    try:
        graph = captured(torch, lambda: launch(x, out, 2.0), warm=1)
        assert seen == ["scale", "scale"]
        graph.replay()
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
    torch.testing.assert_close(out, 2 * x)
    assert seen == ["scale", "scale"]


def scaling(torch: Any) -> Any:
    """An autograd function whose two passes are launches."""

    class Scaling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = torch.empty_like(x)
            launch(x, out, 2.0)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            out = torch.empty_like(grad)
            launch(grad.contiguous(), out, 2.0)
            return out

    return Scaling


def test_a_forward_and_a_backward_pass(torch: Any) -> None:
    """autograd launches the second from a thread of its own, in the same capture."""
    function = scaling(torch)
    x = torch.rand(SIZE, device="cuda", requires_grad=True)
    weight = torch.rand(SIZE, device="cuda")

    def work() -> None:
        x.grad = None
        (function.apply(x) * weight).sum().backward()

    graph = captured(torch, work)
    with torch.no_grad():
        weight.uniform_()
    graph.replay()
    torch.testing.assert_close(x.grad, 2 * weight)


def test_graphed_callables(torch: Any) -> None:
    function = scaling(torch)

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function.apply(x).sin()

    sample = torch.rand(SIZE, device="cuda", requires_grad=True)
    module = torch.cuda.make_graphed_callables(Module(), (sample,))
    x = torch.rand(SIZE, device="cuda", requires_grad=True)
    out = module(x)
    out.sum().backward()
    torch.testing.assert_close(out, (2 * x).sin())
    torch.testing.assert_close(x.grad, 2 * (2 * x).cos())


def test_threads_launch_while_one_captures(torch: Any) -> None:
    """Their launches, on streams of their own, are not part of the graph and do not end it."""
    x, out = torch.rand(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    others = [torch.zeros(SIZE, device="cuda") for _ in range(2)]
    launch(x, out, 1.0)
    launch(x, out, 1.0)
    torch.cuda.synchronize()
    stop, errors = threading.Event(), list[BaseException]()

    def busy(target: Any) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not stop.is_set():
                    launch(x, target, 4.0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=busy, args=(target,)) for target in others]
    for thread in threads:
        thread.start()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(20):
                launch(x, out, 6.0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
    torch.cuda.synchronize()
    for target in others:
        torch.testing.assert_close(target, 4 * x)
        target.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, 6 * x)
    assert not any(target.any() for target in others)


def test_many_graphs_keep_their_own_arguments(torch: Any) -> None:
    x = torch.rand(SIZE, device="cuda")
    outs = [torch.zeros(SIZE, device="cuda") for _ in range(4)]
    graphs = [captured(torch, lambda o=o, f=f: launch(x, o, f))
              for f, o in enumerate(outs, start=2)]  # fmt: skip
    for out in outs:
        out.zero_()
    for graph in reversed(graphs):
        graph.replay()
    for factor, out in enumerate(outs, start=2):
        torch.testing.assert_close(out, factor * x)
