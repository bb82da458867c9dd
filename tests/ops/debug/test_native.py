"""Printing and assertions natively."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.support import Kernel

PRINT = """
    tt.func public @kernel(%x: !tt.ptr<i32>) {
      %range = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
      %c3 = arith.constant -3 : i32
      %half = arith.constant 5.000000e-01 : f32
      tt.print " scalars: " {hex = false, isSigned = array<i32: 1, 0>} : %c3, %half : i32, f32
      tt.print " tile: " {hex = true, isSigned = array<i32: 1>} : %range : tensor<4xi32>
      tt.print " pointer: " {hex = false, isSigned = array<i32: 0>} : %x : !tt.ptr<i32>
      tt.print " done 100%" {hex = false, isSigned = array<i32>}
      tt.return
    }
"""


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(1, np.int32)
    Kernel(PRINT).run([x])
    lines = capfd.readouterr().out.splitlines()
    assert lines == [
        "pid (0, 0, 0) idx () scalars: (operand 0) -3",
        "pid (0, 0, 0) idx () scalars: (operand 1) 0.500000",
        *(f"pid (0, 0, 0) idx ({i}) tile: 0x{i:08x}" for i in range(4)),
        f"pid (0, 0, 0) idx () pointer: {x.ctypes.data:#x}",
        "pid (0, 0, 0) done 100%",
    ]


ASSERT = """
    tt.func public @kernel(%x: !tt.ptr<i32>, %limit: i32) {
      %pid = tt.get_program_id y : i32
      %range = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
      %pids = tt.splat %pid : i32 -> tensor<4xi32>
      %sum = arith.addi %range, %pids : tensor<4xi32>
      %limits = tt.splat %limit : i32 -> tensor<4xi32>
      %fine = arith.cmpi slt, %sum, %limits : tensor<4xi32>
      tt.assert %fine, "too large" : tensor<4xi1>
      %at = tt.addptr %x, %pid : !tt.ptr<i32>, i32
      %one = arith.constant 1 : i32
      tt.store %at, %one : !tt.ptr<i32>
      tt.return
    }
"""


def test_assert_reports_the_first_failure_and_leaves_the_program() -> None:
    kernel, x = Kernel(ASSERT), np.zeros(8, np.int32)
    assert not kernel.run([x, 100], (1, 8)).raised
    assert x.all()
    x[:] = 0
    fault = kernel.run([x, 8], (1, 8))
    assert (fault.raised, fault.x, fault.y, fault.z) == (1, 0, 5, 0)
    assert fault.message == b"too large"
    np.testing.assert_array_equal(x, [1] * 5 + [0] * 3)
