"""Arguments of a launch on a GPU: which the kernel takes, and their bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritium.launch.packing import leaves, packer, parameters


def test_a_constant_tuple_beside_a_tuple() -> None:
    """The members of the constant are no arguments."""
    source = SimpleNamespace(
        fn=None, constants={(0, 1): None, (1,): (1, (2.5, 3))},
        signature={"pair": ("i32", "constexpr"), "SIZES": "constexpr", "n": "i64"},
    )  # fmt: skip
    kinds, types = parameters(source, None)
    assert kinds == [("pair[0]", "i32"), None, None, ("n", "i64")]
    assert leaves([(5, None), (1, (2.5, 3)), 7], types) == [5, None, (1, (2.5, 3)), 7]


@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_truth_values(kind: str) -> None:
    pack = packer(kind, "flag")
    for value, byte in [(True, 1), (False, 0), (np.True_, 1), (1, 1), (np.int8(0), 0)]:
        buffer = bytearray(b"\7")
        pack(buffer, 0, value)
        assert buffer[0] == byte
    wrong: list[Any] = [0.5, 0.0, 2, -1, None, "yes", np.float32(1)]
    for value in wrong:
        with pytest.raises(ValueError, match="a truth value is required"):
            pack(bytearray(1), 0, value)
