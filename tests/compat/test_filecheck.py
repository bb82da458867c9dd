"""CHECK comments in kernels."""

from __future__ import annotations

import pytest

import tritium
import tritium.language as tl
from tritium import MockTensor
from tritium._filecheck import MatchError, filecheck_test, run_filecheck_test, run_parser


@filecheck_test
@tritium.jit
def test_a_kernel_that_matches():
    # CHECK-LABEL: test_a_kernel_that_matches
    # CHECK: [[PID:%.*]] = tt.get_program_id x
    # CHECK-NEXT: tt.splat [[PID]]
    # CHECK-NOT: tt.store
    x = tl.full([16], tl.program_id(0), tl.int32)
    tl.device_assert(x == x)


@tritium.jit
def mismatched():
    # CHECK: tt.make_range
    # CHECK: tt.store
    tl.arange(0, 16)


@tritium.jit
def unchecked():
    tl.arange(0, 16)


@tritium.jit
def add(x, n, BLOCK: tl.constexpr = 64):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)


def test_a_mismatch_shows_the_module():
    with pytest.raises(MatchError, match=r"tt\.store") as error:
        run_filecheck_test(mismatched)
    assert "tt.make_range" in error.value.module_str and "tt.make_range" in str(error.value)


def test_a_kernel_without_check_lines():
    with pytest.raises(ValueError, match="unchecked has no CHECK lines"):
        run_filecheck_test(unchecked)


@tritium.jit
def shifted(x, BY: tl.constexpr):
    # CHECK: tt.func public @shifted(%arg0: !tt.ptr<f16>
    # CHECK: %[[BY:.*]] = arith.constant 3 : i32
    # CHECK: tt.addptr %arg0, %[[BY]]
    place = x + BY
    # CHECK: tt.store %{{[0-9]+}}, %cst : !tt.ptr<f16>
    tl.store(place, 0.0)


def test_arguments_and_numbered_values():
    """Values have no names of variables: `%place` is a number, `x` the first argument."""
    run_filecheck_test(shifted, args=(MockTensor(tl.float16), 3))
    with pytest.raises(MatchError):
        run_filecheck_test(shifted, args=(MockTensor(tl.float16),), kwargs={"BY": 4})


def test_the_parser_takes_arguments_as_a_launch_does():
    module = run_parser(add, args=(MockTensor(tl.float32), 32))
    text = module.str_nodebug()
    assert module.verify()
    assert "!tt.ptr<f32> {tt.divisibility = 16 : i32}" in text
    assert "tensor<64xi32>" in text and "tt.store" in text
    wider = run_parser(add, (MockTensor(tl.int8), 3), {"BLOCK": 128})
    assert "tensor<128xi32>" in wider.str_nodebug()
