"""Signatures of calls: what they tell apart, and what has none."""

from __future__ import annotations

from typing import Any

import pytest

from tritium.launch import call_signature
from tritium.launch.call_signature import make_signature
from tritium.native.tensor_struct import TensorStruct, tensor_struct

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(params=["read", "asked"], autouse=True)
def properties(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties of tensors are read from torch's structs, or torch is asked for them."""
    if request.param == "asked":
        monkeypatch.setattr(call_signature, "tensor_struct", TensorStruct)


def test_properties_that_change_in_place() -> None:
    signature, x = make_signature(), torch.zeros(4)
    before = signature(x)
    x.requires_grad_()
    wanting = signature(x)
    x.requires_grad_(False)
    assert wanting != before == signature(x)
    x.data = torch._neg_view(torch.zeros(4))
    assert signature(x) is None
    x.data = torch.zeros(4)
    assert signature(x) is not None
    parameter = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    kept = signature(parameter)
    assert signature(parameter.requires_grad_()) != kept


def test_equal_calls_have_equal_signatures() -> None:
    signature, x = make_signature(), torch.zeros(4, 8)
    key = signature(x, 3, 0.5, None, (1, 2.0), log=True)
    assert key is not None
    assert key == signature(torch.ones(4, 8), 3, 0.5, None, (1, 2.0), log=True)


def test_differences() -> None:
    signature, x = make_signature(), torch.zeros(4, 8)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}), ((x[:2],), {}), ((x.view(8, 4),), {}), ((x.view(8, 4).T,), {}),
        ((x.double(),), {}), ((x.clone().requires_grad_(),), {}), ((x.flatten()[1:],), {}),
        ((x, x), {}), ((x,), {"y": x}), ((x,), {"z": x}), ((x, 1), {}), ((x, True), {}),
        ((x, 1.0), {}), ((x, 0.0), {}), ((x, -0.0), {}), ((x, None), {}), ((x, (1,)), {}),
        ((x, (1, 2)), {}), ((x, (1, (2,))), {}), ((x, torch.float32), {}), ((), {}),
    ]  # fmt: skip
    keys = [signature(*args, **kwargs) for args, kwargs in calls]
    assert None not in keys and len(set(keys)) == len(calls)


def test_addresses_and_state() -> None:
    given = [0]
    signature = make_signature(lambda: given[0], addresses=True)
    x, y = torch.zeros(64), torch.zeros(64)
    assert signature(x) == signature(x) != signature(y)
    before, given[0] = signature(x), 1
    assert signature(x) != before


def test_what_has_no_signature() -> None:
    def fail() -> None:
        raise RuntimeError

    signature, x = make_signature(), torch.zeros(4)
    for args in (([x],), (1 << 70,), (x.to_sparse(),), (x.to("meta"),), (x,) * 4000,
                 (torch._neg_view(x),)):  # fmt: skip
        assert signature(*args) is None
    assert make_signature(fail)(x) is None
    assert signature(x) is not None  # no error is left behind


@pytest.mark.parametrize("properties", ["read"], indirect=True)
def test_places_in_torch_structs_are_found() -> None:
    assert all(tensor_struct())


def test_members_of_lists() -> None:
    signature, x, y = make_signature(addresses=True, lists=True), torch.zeros(4), torch.zeros(4)
    assert signature([x, y], [x]) == signature([x, y], [x]) is not None
    calls: list[list[Any]] = [[[x, y], [x]], [[x], [y, x]], [[y, x], [x]], [[x, y], []], [[x], x]]
    assert len({signature(*call) for call in calls}) == len(calls)
    endless: list[Any] = []
    endless.append(endless)
    for given in (endless, [x, 1 << 70], [x.to_sparse()], [[x.to("meta")]]):
        assert signature(given) is None


def test_as_many_tensors_as_an_optimizer_has() -> None:
    assert make_signature()(*[torch.zeros(2, 2)] * 4 * 400) is not None
