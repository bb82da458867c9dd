"""Tensors whose addresses native code reads from torch's structs."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.native import tensor_struct
from tritium.native.pyobjects import TYPES, _exported, known_types
from tritium.native.tensor_struct import PLAIN, flag, plain_struct

torch: Any = pytest.importorskip("torch")


@tritium.jit
def address(x, out):
    tl.store(out, x.to(tl.int64))


@tritium.jit
def put(x):
    tl.store(x, 5.0)


@pytest.fixture(autouse=True, params=["structs", "asked"])
def plain(request: pytest.FixtureRequest):
    out = torch.zeros(1, dtype=torch.int64)
    address[(1,)](out, out)
    found = TYPES.read(known_types().address, "plain")
    if request.param == "asked":
        TYPES.write(known_types().address, plain=0)
    yield found
    TYPES.write(known_types().address, plain=found)


def told(x: Any) -> int:
    """The address that a launch finds, once known and once more natively."""
    out = torch.zeros(1, dtype=torch.int64)
    for _ in range(2):
        out.zero_()
        address[(1,)](x, out)
    return int(out)


def test_places_are_found(plain: int) -> None:
    assert plain and PLAIN.read(plain, "mask") and PLAIN.read(plain, "data")


def fakes() -> Any:
    """The mode of torch.compile, the machinery of which is loaded with it."""
    return importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()


@pytest.mark.parametrize("mode", [partial(torch.device, "meta"), torch.inference_mode, fakes])
def test_places_are_found_in_any_mode(plain: int, mode: Any) -> None:
    tensor_struct.tensor_struct.cache_clear()
    with mode():
        found = plain_struct(torch, partial(_exported, TYPES.read(known_types().address, "export")))
    assert found is not None
    for name in PLAIN.fields:
        assert PLAIN.read(found[0], name) == PLAIN.read(plain, name), name


def test_addresses_are_no_flags() -> None:
    """The function that frees the memory changes, too; where the library is loaded decides which
    bits of the two addresses differ."""
    flags = (0x0000000001000100, 0x0000000000000100)
    for base in range(0x7F0000000000, 0x7F0000000000 + (1 << 18), 1 << 12):
        before = [[base + 0x4E2A0, 0x5591CC9E80 + 64 * i, flags[0]] for i in range(3)]
        after = [[base + 0x0EF0, 0x5591CD30C0 + 64 * i, flags[1]] for i in range(3)]
        assert flag(before, after, after) == (16, 0x01000000)
    assert flag(before, before, after) is None


def test_addresses() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        whole = torch.zeros((6, 40), dtype=dtype)
        views = [whole, whole[3], whole[2:, 7:], whole.t()[5:], whole[::2, ::3][1:], whole[1, 3]]
        for x in views:
            assert told(x) == x.data_ptr()
    base = torch.zeros(64)
    array: Any = torch.zeros(9).numpy()
    other = torch.nn.Parameter(base[3:]), torch.from_numpy(array)[2:], base[5:].requires_grad_()
    for x in (*other, base.expand(2, 64)[1], base.double()[1:].detach()):
        assert told(x) == x.data_ptr()
    with torch.inference_mode():
        x = torch.zeros(64)[3:]
        assert told(x) == x.data_ptr()


def test_memory_that_changes() -> None:
    x, y = torch.zeros(8), torch.zeros(100)[50:]
    assert told(x) == x.data_ptr()
    x.set_(y)
    assert told(x) == y.data_ptr()
    x.untyped_storage().resize_(1 << 20)
    assert told(x) == x.data_ptr()
    x.data = torch.zeros(16)[8:]
    assert told(x) == x.data_ptr()


def test_memory_that_is_copied_when_it_is_written() -> None:
    x = torch.zeros(8)
    put[(1,)](x)
    clone = torch._lazy_clone(x)
    for _ in range(2):
        x.fill_(1.0)
        clone = torch._lazy_clone(x)
        put[(1,)](clone)
        assert (float(clone[0]), float(x[0])) == (5.0, 1.0)


def test_what_is_no_plain_tensor() -> None:
    assert told(torch.zeros(8)[3:]) > 0
    for wrong in (torch.zeros(8, device="meta"), torch.zeros(4, 4).to_sparse()):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            told(wrong)
