"""Compare what torch.compile makes with eager torch (in float64 for modules of half precision):
outputs, gradients and buffers."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.graph import GraphLowering


@dataclass
class Case:
    """A module or function with its inputs, and how it is compiled.

    Attributes:
        make: device -> (module or function, lists of inputs; each list is one call).
        tolerance: of each tensor, relative to its largest element (at least 1).
        options: settings of `torch._inductor.config` by name.
        how: keywords of `torch.compile`.
        devices: where it can run; torch generates no Triton elsewhere.
        source: text that the generated code must contain.
    """

    make: Callable[[torch.device], tuple[Any, list[tuple[Any, ...]]]]
    tolerance: float = 1e-4
    options: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu", "cuda")
    source: str = "triton_heuristics."


class Parts:
    """The results of several functions, each compiled by itself: torch 2.11 fails to plan graphs of
    several reductions for a GPU, whatever compiles the kernels."""

    def __init__(self, *functions: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.functions = functions

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(x) for function in self.functions)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    members = value.values() if isinstance(value, dict) else value
    return [t for v in members for t in tensors_of(v)] if isinstance(value, (tuple, list, dict)) \
        else []  # fmt: skip


def run(function: Any, module: Any, arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    """Outputs, gradients of inputs and parameters, buffers afterwards."""
    torch.manual_seed(7)
    inputs = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor)
              else a for a in arguments]  # fmt: skip
    outputs = tensors_of(function(*inputs))
    # Graphs replay into the same memory: what is to be compared is copied.
    found = [t.detach().clone() for t in outputs]
    loss = sum(
        (t * torch.linspace(-1, 1, t.numel(), device=t.device).reshape(t.shape)).sum()
        for t in outputs if t.requires_grad
    )  # fmt: skip
    if isinstance(loss, torch.Tensor):
        loss.backward()
    held = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    floats = [a for a in inputs if isinstance(a, torch.Tensor)]
    found += [t.grad.clone() for t in [*floats, *held] if t.grad is not None]
    for t in held:
        t.grad = None
    if isinstance(module, torch.nn.Module):
        found += [b.clone() for b in module.buffers()]
    return found


def compare(got: list[torch.Tensor], want: list[torch.Tensor], tolerance: float) -> None:
    """Raise `AssertionError` where tensors differ by more than the tolerance."""
    assert len(got) == len(want), f"{len(got)} tensors for {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        scale = 1.0
        if w.is_floating_point() and w.numel():
            scale = max(1.0, w.nan_to_num(0, 0, 0).abs().max().item())
        torch.testing.assert_close(
            g, w, atol=tolerance * scale, rtol=tolerance, equal_nan=True,
            msg=lambda text, i=i: f"tensor {i} of {len(want)}: {text}",
        )  # fmt: skip


def doubled(value: Any) -> Any:
    """A tensor of floats as float64."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def check(case: Case, device: torch.device) -> None:
    """Run a case both ways; raise `AssertionError` where they differ."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, calls = case.make(device)
    twin = copy.deepcopy(module) if isinstance(module, torch.nn.Module) else module
    half = isinstance(module, torch.nn.Module) and any(
        p.dtype in (torch.float16, torch.bfloat16) for p in module.parameters()
    )
    if half:  # whose sums eager torch rounds more often than compiled code
        twin = twin.double()
    with config.patch(case.options):
        codes: list[str] = []
        if isinstance(module, Parts):
            parts = (torch.compile(function, **case.how) for function in module.functions)
            compiled = Parts(*parts)
        else:
            compiled = torch.compile(module, **case.how)
        with mock.patch.object(GraphLowering, "save_output_code", codes.append):
            for arguments in calls:
                exact = tuple(doubled(a) for a in arguments) if half else arguments
                want = run(twin, twin, exact)
                got = run(compiled, module, arguments)
                if half:
                    got, want = [doubled(t) for t in got], [doubled(t) for t in want]
                compare(got, want, case.tolerance)
    written = "\n".join(codes)
    assert "cpp_fused" not in written, "kernels in C++"
    assert case.source in written, f"the generated code has no {case.source!r}"


def chosen(names: list[str], arguments: list[str]) -> list[str]:
    """The names that arguments NAME or FIRST:LAST ask for; all, where there are none."""
    found: list[str] = []
    for argument in arguments or [":"]:
        first, colon, last = argument.partition(":")
        found += names[int(first or 0) : int(last or len(names))] if colon else [argument]
    return found


def main(cases: dict[str, Case | Callable[[torch.device], None]]) -> None:
    """`program DEVICE [NAME|FIRST:LAST]...`: print "right NAME", "wrong NAME why" or "elsewhere
    NAME" (where torch generates no Triton for it on this device) for each case."""
    assert "/tritium/" in str(sys.modules["triton"].__file__), "this is not Tritium's triton"
    device = torch.device(sys.argv[1])
    config.cpu_backend = "triton"
    config.compile_threads = 1
    config.fx_graph_cache = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name in chosen([*cases], sys.argv[2:]):
        case = cases[name]
        if device.type not in getattr(case, "devices", [device.type]):
            print("elsewhere", name)
            continue
        try:
            check(case, device) if isinstance(case, Case) else case(device)
            print("right", name, flush=True)
        except Exception as error:
            print("wrong", name, repr(error)[:1000].replace("\\n", " | "), flush=True)
            traceback.print_exc(limit=-3)
