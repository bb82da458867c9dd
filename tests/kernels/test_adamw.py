"""Adam and AdamW of many tensors by one launch, against NumPy in float64 and torch's optimizers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.kernels.support import close, is_op, normal, place, torch
from tritium_kernels.dense import Adam, AdamW, adam_, adam_foreach_, adamw_, adamw_foreach_
from tritium_kernels.dense import adamw_step as many
from tritium_kernels.errors import ArgumentError

SHAPES = ((1,), (300,), (0, 4), (17, 5), (9000,), (2, 3, 4), ())
NUMBERS: dict[str, Any] = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.2}


def tensors(dtype: Any, moments: Any = None, seed: int = 0) -> list[list[Any]]:
    """Lists of parameters, gradients, first and second moments."""
    p, g, m, v = (
        [normal(*shape, dtype=kind, seed=seed + 10 * i + j) for j, shape in enumerate(SHAPES)]
        for i, kind in enumerate((dtype, dtype, moments or dtype, moments or dtype))
    )
    return [p, g, m, [x.abs() for x in v]]


def exact(
    p: Any, g: Any, m: Any, v: Any, step: int, sign: float = 1.0, coupled: bool = False
) -> tuple[Any, Any, Any]:
    """The step in float64; `coupled`: Adam's."""
    p, g, m, v = (x.detach().cpu().double().numpy() for x in (p, g, m, v))
    (low, high), rate = NUMBERS["betas"], NUMBERS["lr"]
    decay = NUMBERS["weight_decay"]
    g = sign * g + (decay * p if coupled else 0)
    m, v = low * m + (1 - low) * g, high * v + (1 - high) * g * g
    p = p if coupled else p * (1 - rate * decay)
    root = np.sqrt(v / (1 - high**step)) + NUMBERS["eps"]
    return p - rate * m / (1 - low**step) / root, m, v


@pytest.mark.every(2)
@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("dtype", "moments"),
    [(torch.float32, None), (torch.float64, None), (torch.bfloat16, torch.float32),
     (torch.float16, torch.float32)],
)  # fmt: skip
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_one_step_of_many_tensors(
    dtype: Any, moments: Any, maximize: bool, coupled: bool, together: bool
) -> None:
    given = tensors(dtype, moments)
    sign = -1.0 if maximize else 1.0
    right = [exact(*one, 3, sign, coupled) for one in zip(*given, strict=True)]
    gradients = [g.clone() for g in given[1]]
    if together:
        step = adam_foreach_ if coupled else adamw_foreach_
        step(*given, 3, **NUMBERS, maximize=maximize)
    else:
        for one in zip(*given, strict=True):
            (adam_ if coupled else adamw_)(*one, 3, **NUMBERS, maximize=maximize)
    found = zip(given[0], given[2], given[3], strict=True)
    for one, wanted in zip(found, right, strict=True):
        for x, y in zip(one, wanted, strict=True):
            close(x.cpu(), torch.from_numpy(np.asarray(y)))
    assert all(map(torch.equal, given[1], gradients))


def test_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all of the same types, one more for other types; tensors in different orders of
    elements have one of their own."""
    kernel, launched = many.adamw_of_many, list[int]()

    class Launches:
        def __getitem__(self, grid: Any) -> Any:
            def launch(table: Any, count: int, *args: Any, **options: Any) -> None:
                launched.append(count)
                kernel[grid](table, count, *args, **options)

            return launch

    monkeypatch.setattr(many, "adamw_of_many", Launches())
    given = tensors(torch.float32)
    adamw_foreach_(*given, 1)
    assert launched == [len(SHAPES)]
    launched.clear()
    for some, more in zip(given, tensors(torch.bfloat16), strict=True):
        some += more
    given[1][3] = given[1][3].T.contiguous().T
    given[0][5], given[2][5], given[3][5] = (x[5].flip(0)[:, ::2] for x in (given[0], given[2],
                                                                            given[3]))  # fmt: skip
    given[1][5] = given[1][5][:, ::2]
    right = [exact(*one, 1) for one in zip(*given, strict=True)]
    adamw_foreach_(*given, 1, **NUMBERS)
    filled = sum(0 not in shape for shape in SHAPES)
    assert launched == [filled - 2, filled]
    for p, (wanted, _, _) in zip(given[0], right, strict=True):
        close(p.cpu(), torch.from_numpy(np.asarray(wanted)))


def test_unaligned_tensors() -> None:
    memory = [normal(64, seed=i).abs() for i in range(4)]
    one = [[x[1:30], x[31:40]] for x in memory]
    right = [exact(*each, 2) for each in zip(*one, strict=True)]
    before = [x.clone() for x in memory]
    adamw_foreach_(*one, 2, **NUMBERS)
    for p, (wanted, _, _) in zip(one[0], right, strict=True):
        close(p.cpu(), torch.from_numpy(np.asarray(wanted)))
    for x, y in zip(memory, before, strict=True):
        assert torch.equal(x[[0, 30]], y[[0, 30]]) and torch.equal(x[40:], y[40:])


def test_no_decay_of_infinite_parameters() -> None:
    """Adam without weight decay adds nothing to the gradient, as torch's; zero times infinity, NaN,
    would stay in the moments."""
    p, g, m, v = (normal(4, seed=i) for i in range(4))
    p[1], p[2] = torch.inf, torch.nan
    adam_(p, g, m, v.abs_(), 1)
    assert m.isfinite().all() and v.isfinite().all() and p.isfinite().tolist() == [1, 0, 0, 1]


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("foreach", [None, False])
def test_optimizer(foreach: bool | None, name: str) -> None:
    """Parameters without a gradient wait: their steps are others, as torch counts them."""
    starts = [normal(*shape) for shape in SHAPES]
    ours, theirs = ([torch.nn.Parameter(x) for x in xs]
                    for xs in ([s.clone() for s in starts], [s.double() for s in starts]))
    kinds = {"Adam": Adam, "AdamW": AdamW}[name], getattr(torch.optim, name)
    options = {"lr": 0.1, "weight_decay": 0.3}
    steps = kinds[0](ours, **options, foreach=foreach), kinds[1](theirs, **options)
    for number in range(4):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            if (i + number) % 3:
                p.grad = normal(*p.shape, seed=number)
                q.grad = p.grad.double()
            else:
                p.grad = q.grad = None
        for optimizer in steps:
            optimizer.step()
    for p, q in zip(ours, theirs, strict=True):
        close(p.detach(), q.detach(), 2)
    other = kinds[1]([torch.nn.Parameter(x) for x in starts], lr=0.1)
    other.load_state_dict(steps[0].state_dict())
    steps[0].load_state_dict(other.state_dict())
    steps[0].step()


@pytest.mark.parametrize("change", ["swapped", "emptied", "taken", "moments", "data", "copied"])
def test_states_that_a_program_changes(change: str) -> None:
    """A step knows states of the one before, but sees what a program has done to them."""
    parameters = [torch.nn.Parameter(normal(40, seed=i)) for i in range(3)]
    optimizer = AdamW(parameters, **NUMBERS)
    for number in range(3):
        for i, p in enumerate(parameters):
            p.grad = normal(40, seed=10 * number + i)
        if number == 2:
            break
        optimizer.step()
    state, (a, b, _) = optimizer.state, parameters
    if change == "swapped":
        state[a], state[b] = state[b], state[a]
    elif change == "emptied":
        state[a].clear()
    elif change == "taken":
        del state[a]
    elif change == "moments":
        state[a]["exp_avg"] = normal(40, seed=50)
    elif change == "data":
        a.data, a.grad = normal(40, seed=51), normal(40, seed=52)
    else:
        gradients = [p.grad for p in parameters]
        parameters, optimizer = copy.deepcopy((parameters, optimizer))
        state = optimizer.state
        for p, gradient in zip(parameters, gradients, strict=True):
            p.grad = gradient
    expected = []
    for p in parameters:
        own = state.get(p, {})
        zero = torch.zeros_like(p)
        moments = own.get("exp_avg", zero), own.get("exp_avg_sq", zero)
        expected.append(exact(p, p.grad, *moments, own.get("step", 0) + 1))
    optimizer.step()
    for p, right in zip(parameters, expected, strict=True):
        found = p.detach(), state[p]["exp_avg"], state[p]["exp_avg_sq"]
        for x, y in zip(found, right, strict=True):
            close(x, torch.from_numpy(y).to(x.device), 2)


def test_states_of_torch_go_on() -> None:
    """An optimizer of ours continues one of torch's: the kind of decay comes with its state."""
    for ours, theirs in ((Adam, torch.optim.AdamW), (AdamW, torch.optim.Adam)):
        p = torch.nn.Parameter(normal(40))
        q = torch.nn.Parameter(p.detach().double())
        before = theirs([q], lr=0.1, weight_decay=0.3)
        q.grad = normal(40, seed=1).double()
        before.step()
        with torch.no_grad():
            p.copy_(q)
        after = ours([p], lr=0.2)
        after.load_state_dict(copy.deepcopy(before.state_dict()))  # torch shares the step
        p.grad = normal(40, seed=2)
        q.grad = p.grad.double()
        before.step()
        after.step()
        close(p.detach(), q.detach(), 2)


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_options_that_are_not_built(kind: Any) -> None:
    parameters = [torch.nn.Parameter(normal(4))]
    with pytest.raises(NotImplementedError, match=f"{kind.__name__}: amsgrad is not built"):
        kind(parameters, amsgrad=True)
    with pytest.raises(ArgumentError, match=f"{kind.__name__}: amsgrad is 1; accepted: True or"):
        kind(parameters, amsgrad=1)
    state = getattr(torch.optim, kind.__name__)(parameters, amsgrad=True).state_dict()
    optimizer = kind(parameters)
    optimizer.load_state_dict(state)
    with pytest.raises(NotImplementedError, match="amsgrad is not built"):
        optimizer.step()


def test_writes_are_known_to_autograd() -> None:
    given = tensors(torch.float32)
    w = torch.ones_like(given[0][1]).requires_grad_()
    y = (w * given[0][1]).sum()
    adamw_foreach_(*given, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.slow
def test_many_tensors_are_arguments_of_an_op() -> None:
    given = [x[:2] for x in tensors(torch.float32)]
    op = torch.ops.tritium_kernels.adamw_foreach_.default
    is_op(op, *given, 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, False, True)
    step = torch.compile(lambda *xs: adamw_foreach_(*xs, 1), backend="aot_eager", fullgraph=True)
    right = [[x.clone() for x in xs] for xs in given]
    step(*given)
    adamw_foreach_(*right, 1)
    assert all(map(torch.equal, given[0], right[0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: adamw_foreach_(p, p[:1], p, p, 1), "gradients has 1 tensors; accepted: 2"),
        (lambda p: adamw_foreach_(p, p, p, [p[0], p[0]], 1),
         r"seconds\[1\] has shape \(3,\); accepted: \(2, 2\)"),
        (lambda p: adamw_foreach_(p, [p[0], p[1].int()], p, p, 1),
         r"gradients\[1\] has dtype int32; accepted: float16"),
        (lambda p: adamw_foreach_([p[0], 1.0], p, p, p, 1), r"parameters\[1\] is float; accepted"),
        (lambda p: adamw_foreach_([p[0], torch.nn.Parameter(p[1])], p, p, p, 1),
         r"parameters\[1\] requires grad; accepted: a call under"),
        (lambda p: adamw_foreach_(p, p, p, p, 0), "step is 0; accepted: step >= 1"),
        (lambda p: adamw_foreach_(p, p, p, p, 1, betas=(0.9, 1.0)), "betas is 1.0; accepted: 0 <="),
        (lambda p: adamw_foreach_(p, p, p, p, 1, betas=0.9), "betas is 0.9; accepted: two"),
        (lambda p: adamw_foreach_(p, p, p, p, 1, betas=(0.9,)), r"betas is \(0.9,\); accepted: t"),
        (lambda p: adamw_foreach_(p, p, p, p, 1, lr=p[0]), r"lr is tensor\(.*; accepted: 0 <= lr"),
        (lambda p: adamw_foreach_(p, p, p, p, 1, eps=p[0][:1]), "eps is tensor"),
    ],
)  # fmt: skip
def test_errors(call: Any, message: str) -> None:
    """Also of tensors whose launch is known from a good step."""
    given = [normal(3), normal(2, 2)]
    adamw_foreach_(given, given, given, given, 1)
    with pytest.raises(ArgumentError, match="(?s)adamw_foreach_: " + message):
        call(given)


def test_no_tensors() -> None:
    adamw_foreach_([], [], [], [], 1)
    adamw_(*(torch.empty(0, device=place()) for _ in range(4)), 1)
