"""The choice between computing a value again and converting it looks at each value once."""

from __future__ import annotations

import pytest

from tritium.ir.layouts.encodings import Encoding
from tritium.ops.arith.integer import MulIOp
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, parse_pipeline

PIPELINE = "convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce,assign-layouts"


def _squares(steps: int) -> str:
    """A function that squares a small tile again and again; it is needed in two encodings."""
    lines = [f"%v{n + 1} = arith.muli %v{n}, %v{n} : tensor<4xi32>" for n in range(steps)]
    squares = "\n      ".join(lines)
    return f"""
    tt.func public @squares(%o: !tt.ptr<i32>, %x: tensor<4x64x!tt.ptr<i32>>) {{
      %v0 = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
      {squares}
      %s = tt.splat %o : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
      %p = tt.addptr %s, %v0 : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
      tt.store %p, %v{steps} : tensor<4x!tt.ptr<i32>>
      %e = tt.expand_dims %v{steps} {{axis = 1 : i32}} : tensor<4xi32> -> tensor<4x1xi32>
      %b = tt.broadcast %e : tensor<4x1xi32> -> tensor<4x64xi32>
      tt.store %x, %b : tensor<4x64x!tt.ptr<i32>>
      tt.return
    }}
    """


def test_values_that_others_share_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0]
    operand_layouts = MulIOp.operand_layouts

    def counted(op: MulIOp, result: Encoding) -> list[Encoding | None]:
        asked[0] += 1
        return operand_layouts(op, result)

    monkeypatch.setattr(MulIOp, "operand_layouts", counted)
    PassManager(parse_pipeline(PIPELINE)).run(parse_module(_squares(24)))
    assert 24 <= asked[0] < 24 * 8, asked
