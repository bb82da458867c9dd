"""One random call: made several times in several states of the program, its results and gradients
beside NumPy's, its operands and the memory beside them unchanged."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tools.kernel_calls.bounded import Array, Bounded, difference
from tools.kernel_calls.operands import Operand, Source, exact, format_of

Values = dict[str, Array]


@dataclass
class Trial:
    """A random call.

    Attributes:
        function: takes the operands by name.
        options: what else it is given, for the report.
        forward: the results that the numbers give.
        backward: the gradients of operands, by name, for gradients of the results; None: there
            are none.
        judge: in place of `forward`: what is wrong with results; "" if nothing is.
        written: names of the operands that it writes to, which are its results.
        compiles: `torch.compile` takes it whole.
        casts: operands that `torch.autocast` casts.
    """

    name: str
    function: Callable[..., Any]
    operands: dict[str, Operand]
    forward: Callable[[Values], Sequence[Bounded]] | None = None
    backward: Callable[[Values, list[Array]], dict[str, Bounded]] | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    judge: Callable[[Values, list[Array]], str] | None = None
    written: tuple[str, ...] = ()
    compiles: bool = True
    casts: tuple[str, ...] = ()

    def text(self) -> str:
        """The call, for the report."""
        given = [
            f"{name}: {str(o.dtype)[6:]}{list(o.shape)} {o.layout} {o.values}"
            for name, o in self.operands.items()
        ]
        return f"{self.name}({', '.join(given)}; {self.options})"


class Wrong(Exception):
    """A call did not give what it should."""


def check(trial: Trial, source: Source) -> None:
    """Make the call in random states; raises `Wrong` where it gives something else than NumPy."""
    random_ = np.random.default_rng(source.getrandbits(32))
    ways: list[Callable[[Trial, Source, Any], None]] = [_plain, _plain, _plain]
    if trial.backward is not None:
        ways += [_differentiated, _differentiated, _differentiated, _without_gradient, _twice]
    if _equal_operands(trial):
        ways.append(_aliased)
    if trial.forward is not None and not trial.written and source.maybe(0.3):
        ways.append(_autocast)
    source.shuffle(ways)
    if source.maybe(0.1):
        ways.append(_threads)
    if trial.compiles and not trial.written and source.maybe(0.2):
        ways.append(_faked)
    if trial.compiles and source.maybe(0.02):
        ways.append(_compiled)
    for way in ways:
        try:
            with np.errstate(all="ignore"):
                way(trial, source, random_)
        except Wrong as wrong:
            raise Wrong(f"{way.__name__}: {wrong}") from None


def _make(trial: Trial, source: Source, random_: Any) -> dict[str, Tensor]:
    return {name: o.make(random_, source.device) for name, o in trial.operands.items()}


def _results(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else [t for t in found or () if t is not None]


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The memory of tensors, also what lies beside their elements."""
    return {
        n: t.detach().new_empty(0).set_(t.detach().untyped_storage()).clone()
        for n, t in tensors.items()
    }


def _check_unchanged(
    trial: Trial, tensors: dict[str, Tensor], before: dict[str, Tensor], memory: dict[str, Tensor]
) -> None:
    for name, t in tensors.items():
        if name not in trial.written:
            after = t.detach().new_empty(0).set_(t.detach().untyped_storage())
            if not torch.equal(after.view(torch.uint8), memory[name].view(torch.uint8)):
                raise Wrong(f"{name} has changed")
        elif not t.is_contiguous() and not t._is_view():
            raise Wrong(f"{name} has another layout than {before[name].stride()}")


def _judge(trial: Trial, values: Values, found: list[Tensor]) -> None:
    given = [exact(t) for t in found]
    if trial.judge is not None:
        text = trial.judge(values, given)
        if text:
            raise Wrong(text)
        return
    assert trial.forward is not None
    for i, (right, t, x) in enumerate(zip(trial.forward(values), found, given, strict=True)):
        text = difference(x, right, format_of(t.dtype))
        if text:
            raise Wrong(f"result {i} {text}")


def _run(trial: Trial, source: Source, random_: Any) -> None:
    tensors = _make(trial, source, random_)
    values, memory = {n: exact(t) for n, t in tensors.items()}, _copies(tensors)
    found = trial.function(**tensors)
    results = [tensors[n] for n in trial.written] or _results(found)
    _judge(trial, values, results)
    _check_unchanged(trial, tensors, tensors, memory)


def _plain(trial: Trial, source: Source, random_: Any) -> None:
    _run(trial, source, random_)


def _without_gradient(trial: Trial, source: Source, random_: Any) -> None:
    """Operands require a gradient, and none is recorded."""
    tensors = _make(trial, source, random_)
    for name, o in trial.operands.items():
        if o.gradient and o.dtype.is_floating_point:
            tensors[name] = tensors[name].detach().requires_grad_()
    with source.choice([torch.no_grad, torch.inference_mode])():
        found = _results(trial.function(**tensors))
    if any(t.requires_grad for t in found):
        raise Wrong("a result requires grad")
    _judge(trial, {n: exact(t) for n, t in tensors.items()}, found)


def _leaves(trial: Trial, source: Source, random_: Any) -> tuple[dict[str, Tensor], list[str]]:
    """Operands of which some require a gradient, and the names of these."""
    tensors = _make(trial, source, random_)
    able = [n for n, o in trial.operands.items() if o.gradient and o.dtype.is_floating_point]
    wanted = [n for n in able if source.maybe(0.8)] or able[:1]
    for name in wanted:
        tensors[name] = tensors[name].detach().requires_grad_()
    return tensors, wanted


def _differentiated(trial: Trial, source: Source, random_: Any) -> None:
    """Results with gradients; the gradients themselves."""
    tensors, wanted = _leaves(trial, source, random_)
    values, memory = {n: exact(t) for n, t in tensors.items()}, _copies(tensors)
    found = _results(trial.function(**tensors))
    _judge(trial, values, found)
    outs = [t for t in found if t.requires_grad]
    if not outs:
        raise Wrong("no result requires grad")
    given = [
        Operand(tuple(t.shape), t.dtype, source.choice(("plain", "plain", "expanded", "transposed",
                "padded", "negative"))).make(random_, source.device)
        for t in outs
    ]  # fmt: skip
    gradients = torch.autograd.grad(outs, [tensors[n] for n in wanted], given)
    assert trial.backward is not None
    right = trial.backward(values, [exact(t) for t in given])
    for name, gradient in zip(wanted, gradients, strict=True):
        if gradient.dtype != tensors[name].dtype:
            raise Wrong(f"the gradient of {name} has the type {gradient.dtype}")
        text = difference(exact(gradient), right[name], format_of(gradient.dtype))
        if text:
            raise Wrong(f"the gradient of {name} {text}")
    _check_unchanged(trial, tensors, tensors, memory)


def _equal_operands(trial: Trial) -> list[tuple[str, str]]:
    """Pairs of operands that may be the same tensor."""
    able = [(n, o) for n, o in trial.operands.items() if o.gradient and n not in trial.written]
    return [
        (a, b) for (a, x), (b, y) in itertools.combinations(able, 2)
        if x.shape == y.shape and x.dtype == y.dtype and x.dtype.is_floating_point
    ]  # fmt: skip


def _aliased(trial: Trial, source: Source, random_: Any) -> None:
    """One tensor for two operands: its gradient is the sum of theirs."""
    first, second = source.choice(_equal_operands(trial))
    tensors = _make(trial, source, random_)
    leaf = tensors[first].detach()
    if trial.backward is not None:
        leaf = leaf.requires_grad_()
    tensors[first] = tensors[second] = leaf
    values = {n: exact(t) for n, t in tensors.items()}
    found = _results(trial.function(**tensors))
    _judge(trial, values, found)
    if trial.backward is None:
        return
    dy = Operand(tuple(found[0].shape), found[0].dtype).make(random_, source.device)
    (gradient,) = torch.autograd.grad(found[0], leaf, dy)
    right, to = trial.backward(values, [exact(dy)]), format_of(leaf.dtype)
    both = right[first].rounded(to, to) + right[second].rounded(to, to)
    if text := difference(exact(gradient), both, to):
        raise Wrong(f"the gradient of {first}, which is {second}, {text}")


def _autocast(trial: Trial, source: Source, random_: Any) -> None:
    """`torch.autocast` gives what operands that are cast before give."""
    device = source.device
    if device != "cpu" and not trial.casts:
        return  # some of these are computed in float32
    tensors = _make(trial, source, random_)
    narrow = (torch.float16, torch.float32)
    cast = {
        n: t.bfloat16() if n in trial.casts and t.dtype in narrow else t for n, t in tensors.items()
    }
    with torch.autocast(device, dtype=torch.bfloat16):
        found = _results(trial.function(**tensors))
    for i, (ours, right) in enumerate(zip(found, _results(trial.function(**cast)), strict=True)):
        if ours.dtype != right.dtype or not torch.allclose(ours, right, 0, 0, equal_nan=True):
            raise Wrong(f"result {i} is not that of operands that are cast")


def _twice(trial: Trial, source: Source, random_: Any) -> None:
    """The gradient of a gradient is right or refused, but not wrong: those of the square of results
    by the operands are twice the product of results and derivatives."""
    tensors, wanted = _leaves(trial, source, random_)
    if any(not t.numel() for t in tensors.values()):
        return
    found = [t for t in _results(trial.function(**tensors)) if t.requires_grad][:1]
    inputs = [tensors[n] for n in wanted]
    first = torch.autograd.grad(found[0].double().square().sum(), inputs, create_graph=True)
    if not all(g.requires_grad for g in first):
        raise Wrong("torch takes a gradient for a constant")
    scalar = torch.stack([g.double().square().sum() for g in first]).sum()
    try:
        second = torch.autograd.grad(scalar, inputs, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return
    _check_second(trial, tensors, wanted, second)


def _check_second(
    trial: Trial, tensors: dict[str, Tensor], wanted: list[str], second: Sequence[Tensor | None]
) -> None:
    """Beside differences of first gradients, along a random direction, in the same library."""
    if tensors[wanted[0]].dtype != torch.float64:
        return  # differences need digits
    step = 1e-6
    generator = torch.Generator().manual_seed(0)
    direction = {
        n: torch.randn(tensors[n].shape, generator=generator, dtype=torch.float64)
        .to(tensors[n].device, tensors[n].dtype) for n in wanted
    }  # fmt: skip

    def scalar(sign: float) -> float:
        moved = {
            n: (t.detach() + sign * step * direction[n]).requires_grad_() if n in wanted else t
            for n, t in tensors.items()
        }
        inputs = [moved[n] for n in wanted]
        y = next(t for t in _results(trial.function(**moved)) if t.requires_grad)
        first = torch.autograd.grad(y.double().square().sum(), inputs)
        return float(sum(g.double().square().sum() for g in first))

    high, low = scalar(1.0), scalar(-1.0)
    slope = (high - low) / (2 * step)
    found = sum(
        float((g.double() * direction[n].double()).sum())
        for n, g in zip(wanted, second, strict=True) if g is not None
    )  # fmt: skip
    slack = 1e-4 * (abs(high) + abs(slope)) + 1e-6
    if np.isfinite(slope) and not abs(found - slope) <= slack:
        raise Wrong(f"the second derivative is {found}, not {slope} within {slack}")


def _threads(trial: Trial, source: Source, random_: Any) -> None:
    """The same call in several threads at once."""
    seeds = [int(s) for s in random_.integers(0, 1 << 30, 4)]
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with np.errstate(all="ignore"):
                for _ in range(3):
                    _run(trial, source, np.random.default_rng(seed))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def _faked(trial: Trial, source: Source, random_: Any) -> None:
    """torch's tracers see results of the shapes, types and strides that there are."""
    tensors = _make(trial, source, random_)
    if any(t.is_neg() for t in tensors.values()):
        return
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = {name: mode.from_tensor(t) for name, t in tensors.items()}
        seen = _results(trial.function(**fakes))
    found = _results(trial.function(**tensors))
    for i, (fake, real) in enumerate(zip(seen, found, strict=True)):
        ours = (fake.shape, fake.dtype, fake.device)
        if ours != (real.shape, real.dtype, real.device):
            raise Wrong(f"a tracer sees result {i} as {ours}, it is {real.shape}, {real.dtype}")
        strides = zip(fake.stride(), real.stride(), real.shape, strict=True)
        if real.numel() and any(a != b and size > 1 for a, b, size in strides):
            raise Wrong(f"a tracer sees strides {fake.stride()} of result {i}, {real.stride()} are")


def _compiled(trial: Trial, source: Source, random_: Any) -> None:
    """`torch.compile` gives the same."""
    torch._dynamo.reset()
    compiled = torch.compile(trial.function, backend="aot_eager", dynamic=source.maybe())
    tensors = _make(trial, source, random_)
    values = {n: exact(t) for n, t in tensors.items()}
    found = compiled(**tensors)
    _judge(trial, values, [tensors[n] for n in trial.written] or _results(found))
