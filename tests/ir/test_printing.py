"""Texts of modules that share attributes, whose texts are kept from one to the next."""

from __future__ import annotations

from typing import Any

from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module

_LAYOUT = (
    "#ttg.blocked<{sizePerThread = [%d], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
)
_FIRST = "    %a = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32, #one>\n"
_TEXT = f"""
#one = {_LAYOUT % 1}
#two = {_LAYOUT % 2}
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32}} {{
  tt.func public @k() {{
{_FIRST}    %b = tt.make_range {{end = 256 : i32, start = 0 : i32}} : tensor<256xi32, #two>
    %c = tt.make_range {{end = 512 : i32, start = 0 : i32}} : tensor<512xi32, #two>
    tt.return
  }}
}}
"""


def test_aliases_are_those_of_each_text():
    module: Any = parse_module(_TEXT)
    assert "tensor<512xi32, #blocked1>" in print_module(module)
    block = module.body.block.first_op.regions[0].block
    block.erase_op(block.first_op)
    assert print_module(module) == print_module(parse_module(_TEXT.replace(_FIRST, "")))
