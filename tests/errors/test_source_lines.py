"""Errors of passes and lowerings show the source line of the op, never the text of a location."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.errors import UnsupportedOpError
from tritium.ir.locations import file_line
from tritium.ir.source_errors import unsupported_at
from tritium.target import GPUTarget


@tritium.jit
def pads_in_two_ways(x, o, n, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [n], [1], [BLOCK])
    if n > 5:
        d = tl.make_tensor_descriptor(o, [n], [1], [BLOCK], padding_option="nan")
    tl.store(o + tl.arange(0, BLOCK), d.load([0]))


def test_a_pass_shows_the_line() -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(NotImplementedError) as caught:
        pads_in_two_ways[(1,)](x, x.copy(), 16, BLOCK=16)
    text = str(caught.value)
    assert isinstance(caught.value, UnsupportedOpError)
    assert f"{__file__}:{pads_in_two_ways.starting_line_number + 4}: one variable holds" in text
    assert "(o, [n], [1], [BLOCK], padding_option=\"nan\")\n            ^\n" in text
    assert "give both the same padding_option" in text and "loc(" not in text


def test_a_pass_shows_the_line_of_a_kernel_given_as_text(tmp_path: Path) -> None:
    path = tmp_path / "pads.ttir"
    path.write_text("""#b = loc("b"("model.py":6:4))
module {
tt.func public @pads(%x: !tt.ptr<f32>, %c: i1) attributes {noinline = false} {
  %n = arith.constant 16 : i32
  %s = arith.constant 1 : i64
  %a = tt.make_tensor_descriptor %x, [%n], [%s] : <f32>, <16xf32>
  %b = tt.make_tensor_descriptor %x, [%n], [%s] {padding = 2 : i32} : <f32>, <16xf32> loc(#b)
  %d = arith.select %c, %a, %b : !tt.tensordesc<16xf32>
  %z = arith.constant 0 : i32
  %v = tt.descriptor_load %d[%z] : !tt.tensordesc<16xf32> -> tensor<16xf32>
  tt.descriptor_store %a[%z], %v : !tt.tensordesc<16xf32>, tensor<16xf32>
  tt.return
}
}
""")
    with pytest.raises(NotImplementedError, match="one variable holds") as caught:
        tritium.compile(str(path), target=GPUTarget("cpu", "native", 0))
    assert "\nmodel.py:6: one variable" in str(caught.value) and "loc(" not in str(caught.value)


def test_an_unknown_place_leaves_the_message() -> None:
    assert str(unsupported_at(None, "a cat")) == "a cat"
    assert str(unsupported_at(file_line("nowhere.py", 3, 5), "a cat")) == (
        "at 3:4: <source unavailable>\nnowhere.py:3: a cat"
    )
