"""Launches in threads that have not called CUDA before: they have no current context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def scale(x, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@tritium.autotune(configs=[tritium.Config({"BLOCK": b}) for b in (128, 256)], key=["n"])
@tritium.jit
def tuned(x, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@tritium.jit
def copy(source, target, ROWS: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) * 2)


def in_a_thread(work: Callable[[], None]) -> None:
    """Run `work` in a new thread; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def scaled(torch: Any, kernel: Any, factor: float, **options: Any) -> Callable[[], None]:
    """A launch on tensors that exist before; the thread only launches."""
    x = torch.rand(1000, device="cuda")
    out = torch.full_like(x, float("nan"))

    def work() -> None:
        if "BLOCK" in options:
            kernel[(8,)](x, out, factor, 1000, **options)
        else:
            kernel[lambda meta: (tritium.cdiv(1000, meta["BLOCK"]),)](x, out, factor, 1000)

    def check() -> None:
        in_a_thread(work)
        torch.testing.assert_close(out, x * factor)

    return check


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("warm", [0, 1, 4])
def test_a_launch(torch: Any, warm: int, cooperative: bool) -> None:
    """The thread's launch is the kernel's first, in Python, or native."""
    options = {"BLOCK": 256 << warm, "launch_cooperative_grid": cooperative}
    x = torch.rand(1000, device="cuda")
    for _ in range(warm):
        scale[(8,)](x, torch.empty_like(x), 2.0, 1000, **options)
    for _ in range(3):
        scaled(torch, scale, 3.0, **options)()


def test_a_launch_with_hooks(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks keep launches in Python."""
    scaled(torch, scale, 2.0, BLOCK=128)()
    seen: list[Any] = []
    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", seen.append)
    scaled(torch, scale, 3.0, BLOCK=128)()
    assert len(seen) == 1


def test_an_autotuned_kernel(torch: Any) -> None:
    for _ in range(4):
        scaled(torch, tuned, 2.0)()


def test_tensor_maps(torch: Any) -> None:
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs a GPU that has tensor maps")
    x = torch.rand(16, 64, device="cuda")
    outs = [torch.empty_like(x) for _ in range(5)]
    descriptors = [TensorDescriptor.from_tensor(t, [16, 64]) for t in (x, *outs)]
    for target in descriptors[1:4]:
        copy[(1,)](descriptors[0], target, ROWS=16)
    for target in descriptors[4:]:
        in_a_thread(lambda to=target: copy[(1,)](descriptors[0], to, ROWS=16))
    for out in outs:
        torch.testing.assert_close(out, 2 * x)


def test_a_backward_pass(torch: Any) -> None:
    """autograd runs it in a thread of its own."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = torch.empty_like(x)
            scale[(8,)](x, out, 2.0, 1000, BLOCK=128)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            out = torch.empty_like(grad)
            scale[(8,)](grad, out, 2.0, 1000, BLOCK=128)
            tuned[lambda meta: (tritium.cdiv(1000, meta["BLOCK"]),)](out, out, 1.0, 1000)
            return out

    for _ in range(4):
        x = torch.rand(1000, device="cuda", requires_grad=True)
        Scale.apply(x).backward(torch.ones_like(x))
        torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_graph_capture_in_a_new_thread(torch: Any) -> None:
    x = torch.rand(1000, device="cuda")
    out = torch.zeros_like(x)
    for _ in range(3):
        scale[(8,)](x, out, 1.0, 1000, BLOCK=128)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    def capture() -> None:
        with torch.cuda.graph(graph):
            scale[(8,)](x, out, 5.0, 1000, BLOCK=128)
            scale[(8,)](out, out, 2.0, 1000, BLOCK=128)

    in_a_thread(capture)
    out.zero_()
    graph.replay()
    torch.testing.assert_close(out, x * 10)


def test_two_devices(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    xs = [torch.rand(1000, device=f"cuda:{d}") for d in (0, 1)]
    outs = [torch.empty_like(x) for x in xs]
    for device in (0, 1, 0, 1, 0, 1):
        with torch.cuda.device(device):
            scale[(8,)](xs[device], outs[device], 1.0, 1000, BLOCK=128)

    def work(device: int) -> None:
        torch.cuda.set_device(device)
        scale[(8,)](xs[device], outs[device], 4.0, 1000, BLOCK=128)
        assert torch.cuda.current_device() == device

    for device in (1, 0):
        in_a_thread(lambda d=device: work(d))
        torch.testing.assert_close(outs[device], xs[device] * 4)
    # A thread that has chosen no device works on the first.
    in_a_thread(lambda: scale[(8,)](xs[0], outs[0], 5.0, 1000, BLOCK=128))
    torch.testing.assert_close(outs[0], xs[0] * 5)
