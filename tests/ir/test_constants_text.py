"""Constants keep their bits through their text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritium.ir import types as ir
from tritium.ir.printing import IRPrinter, decimal_text, float_text, print_module
from tritium.ops.arith import ConstantOp, attr_value
from tritium.ops.parsing import ParseError, parse_module

FLOATS = (ir.f16, ir.bf16, ir.f32, ir.f64, ir.f8e5m2, ir.f8e4m3fn, ir.f8e4m3fnuz, ir.f8e5m2fnuz)


def reread(value: Any, type: Any) -> Any:
    """`value` as a constant that was printed and parsed."""
    text = f"module {{\n  %0 = arith.constant {text_of(value, type)}\n}}"
    module = parse_module(text)
    (op,) = module.body.block.ops
    op.verify()
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed
    return attr_value(op.properties["value"])


def text_of(value: Any, type: Any) -> str:
    printer = IRPrinter()
    printer.print_attribute(ConstantOp.of(value, type).value)
    return printer.text()


@pytest.mark.parametrize("type", FLOATS, ids=str)
@given(st.data())
@settings(max_examples=8, deadline=None, derandomize=True)
def test_floats_keep_their_bits(type: Any, data: st.DataObject) -> None:
    dtype = ir.numpy_dtype(type)
    bits = data.draw(
        st.lists(st.integers(0, 2 ** (8 * dtype.itemsize) - 1), min_size=1, max_size=4)
    )
    values = np.array(bits, f"u{dtype.itemsize}").view(dtype)
    real = ~np.isnan(values.astype(np.float64))
    scalar = reread(values[0], type)
    assert scalar.tobytes() == values[0].tobytes() or not real[0]
    tile = reread(values, ir.tensor_of(values.shape, type))
    assert (tile.view(f"u{dtype.itemsize}") == values.view(f"u{dtype.itemsize}"))[real].all()
    assert np.isnan(tile.astype(np.float64)[~real]).all()


def test_large_tiles_are_written_in_hexadecimal() -> None:
    values = np.arange(200, dtype=np.int32)
    np.testing.assert_array_equal(reread(values, ir.tensor_of((200,), ir.i32)), values)
    assert text_of(values, ir.tensor_of((200,), ir.i32)).startswith('dense<"0x00000000010000')


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (1.0, ir.f32, "1.000000e+00"), (-0.0, ir.f64, "-0.000000e+00"),
        (1.44269504, ir.f32, "1.44269502"), (2.0**-31, ir.f32, "4.65661287E-10"),
        (float("inf"), ir.f32, "0x7F800000"), (float("-inf"), ir.f16, "0xFC00"),
        (0.1, ir.f64, "1.000000e-01"), (1 / 3, ir.f64, "0.33333333333333331"),
        (16777215.0, ir.f32, "0x4B7FFFFF"), (65504.0, ir.f16, "6.550400e+04"),
    ],
)  # fmt: skip
def test_the_form_of_numbers_is_mlirs(value: float, type: Any, text: str) -> None:
    assert float_text(value, type) == text


def test_decimal_text_of_zero() -> None:
    assert decimal_text(0.0, 6, 0, False) == "0.000000e+00"


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("tensor<4x!tt.ptr<f32>>", "must be a tensor of integers or floats"),
        ("f32", "must be a tensor of integers or floats"),
        ("tensor<?xf32>", "must have a static shape"),
    ],
)
def test_types_without_literals(type: str, message: str) -> None:
    for _ in range(2):  # also where the type is known from before
        with pytest.raises(ParseError, match=message) as raised:
            parse_module(f"module {{\n  %0 = arith.constant dense<1> : {type}\n}}")
        assert (raised.value.line, raised.value.column) == (2, 34)


def test_a_type_stands_for_the_same_wherever_it_is_read() -> None:
    lines = [f"  %{i} = arith.constant dense<{i}> : tensor<2x3xi{w}>"
             for i, w in enumerate((32, 8, 32))]  # fmt: skip
    module = parse_module("\n".join(["module {", *lines, "}"]))
    types = [str(op.results[0].type) for op in module.body.block.ops]
    assert types == ["tensor<2x3xi32>", "tensor<2x3xi8>", "tensor<2x3xi32>"]
