"""Inputs on the chosen device, and comparison with the same computation in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support import device
from tests.support.needs_torch import torch
from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels.launching import descriptors

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def place() -> str:
    return "cuda" if device.device == "cuda" else "cpu"


def normal(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return values.to(place(), dtype)


def integers(high: int, *shape: int, dtype: Any = torch.int64) -> Any:
    generator = torch.Generator().manual_seed(high + sum(shape))
    return torch.randint(0, high, shape, generator=generator, dtype=dtype).to(place())


def close(found: Any, right: Any, scale: float = 1.0) -> None:
    """`found` differs by no more than its type's tolerance, relative to the largest element."""
    assert found.shape == right.shape, (found.shape, right.shape)
    assert torch.equal(found.isnan(), right.isnan())
    if right.numel() == 0:
        return
    found, right, dtype = found.double().nan_to_num(), right.double().nan_to_num(), found.dtype
    bound = scale * TOLERANCE[dtype] * max(1.0, right.abs().max().item())
    worst = (found - right).abs().max().item()
    assert worst <= bound, f"differs by {worst}, allowed is {bound}"


def compare(
    fn: Callable[..., Any], exact: Callable[..., Any], inputs: Sequence[Any], scale: float = 1.0
) -> None:
    """`fn` and its gradients agree with `exact` in float64, on the same inputs and dy."""
    ours = [x.detach().requires_grad_() for x in inputs]
    theirs = [x.detach().double().requires_grad_() for x in inputs]
    y, z = fn(*ours), exact(*theirs)
    close(y, z, scale)
    dy = normal(*y.shape, dtype=y.dtype, seed=1)
    y.backward(dy)
    z.backward(dy.double())
    for x, right in zip(ours, theirs, strict=True):
        assert x.grad.dtype == x.dtype
        close(x.grad, right.grad, 4 * scale)


def is_op(op: Any, *args: Any) -> None:
    """torch's own checks of an op: schema, fake tensors, gradients under torch.compile."""
    torch.library.opcheck(op, args)


def with_copy_engine(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """Let the CPU count as a device that copies blocks of tensors. Returns the list to which each
    launch of a module's kernel adds the number of its descriptors."""
    kernel, taken = getattr(module, name), list[int]()

    class Launches:
        def __getitem__(self, grid: Any) -> Callable[..., Any]:
            def launch(*args: Any, **options: Any) -> Any:
                taken.append(sum(isinstance(a, TensorDescriptor) for a in args))
                return kernel[grid](*args, **options)

            return launch

    monkeypatch.setattr(module, name, Launches())
    monkeypatch.setattr(descriptors, "COPY_ENGINES", {"cpu", "hopper"})
    return taken
