"""The reference's annotations of loops, which it writes as attributes of LLVM."""

import pytest

from tritium.ops.parsing import ParseError, parse_module

KERNEL = """{aliases}
module {{
  tt.func public @kernel(%n: i32, %out: !tt.ptr<i32>) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {{
      tt.store %out, %i : !tt.ptr<i32>
    }} {{llvm.loop_annotation = {annotation}, tt.num_stages = 2 : i32}}
    tt.return{wrong}
  }}
}}
"""
OFF = "#llvm.loop_licm<disable = true, versioningDisable = true>"
ON = "#llvm.loop_licm<disable = false>"


def text(aliases="", annotation="#loop_annotation", wrong=""):
    return KERNEL.format(aliases=aliases, annotation=annotation, wrong=wrong)


def of_aliases(licm, wrong="", names=("loop_licm", "loop_annotation")):
    part, whole = names
    parts = [f"#{part} = {licm}", f"#{whole} = #llvm.loop_annotation<licm = #{part}>"]
    return text("\n".join(parts), f"#{whole}", wrong=wrong)


@pytest.mark.parametrize(
    ("source", "disabled"),
    [
        (of_aliases(OFF), True),
        (of_aliases(ON), False),
        (of_aliases(OFF, names=("off", "no.motion")), True),
        (of_aliases(ON, names=("off", "no.motion")), False),
        (text(annotation=f"#llvm.loop_annotation<licm = {OFF[10:]}>"), True),
        (text(annotation="#llvm.loop_annotation<licm = <disable = true>>"), True),
        (text(annotation="#llvm.loop_annotation<mustProgress = true>"), False),
    ],
)
def test_licm(source, disabled):
    (loop,) = (op for op in parse_module(source).walk() if op.name == "scf.for")
    assert ("tt.disable_licm" in loop.attributes) == disabled
    assert "tt.num_stages" in loop.attributes


def test_places_in_messages_stay():
    source = of_aliases(OFF, wrong=" oops")
    with pytest.raises(ParseError) as caught:
        parse_module(source)
    line = source.split("\n")[caught.value.line - 1]
    assert "oops" in line or line.strip() == "}"
