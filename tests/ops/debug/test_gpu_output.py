"""Output and failed assertions of kernels on a GPU, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap

import pytest

pytestmark = pytest.mark.gpu


def in_process(text: str) -> subprocess.CompletedProcess[str]:
    """A program of its own: it may lose the device, and its output is seen."""
    head = "import torch, tritium, tritium.language as tl\n"
    # From a file, because kernels are compiled from their source.
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(head + textwrap.dedent(text))
    return subprocess.run([sys.executable, file.name], capture_output=True, text=True, check=False)


def test_failed_assertion_is_an_error():
    done = in_process("""
        @tritium.jit
        def k(x):
            v = tl.load(x + tl.arange(0, 64))
            tl.device_assert(v > 0, "all must be positive")

        k[(1,)](torch.ones(64, device="cuda"), debug=True)
        torch.cuda.synchronize()
        print("holds")
        k[(1,)](torch.zeros(64, device="cuda"), debug=False)
        torch.cuda.synchronize()
        print("not looked at")
        k[(1,)](torch.zeros(64, device="cuda"), debug=True)
        try:
            torch.cuda.synchronize()
        except Exception as error:
            print("caught", error)
        try:
            k[(1,)](torch.ones(64, device="cuda"), debug=True)
        except Exception as error:
            print("later", type(error).__name__)
    """)
    assert "holds" in done.stdout and "not looked at" in done.stdout, done.stderr
    assert "caught" in done.stdout and "device-side assert" in done.stdout
    assert "all must be positive" in done.stderr
    assert "later" in done.stdout, "a lost device is reported by the next launch too"


def test_printing_from_a_grid():
    done = in_process("""
        @tritium.jit
        def k(x, n):
            i = tl.arange(0, 2)
            tl.device_print("row", i[:, None] * 2 + i[None, :], tl.load(x + i))
            tl.device_print("n ", n.to(tl.uint64) << 40, hex=True)
            tl.device_print("done")
            tl.device_print("pointer", x)

        t = torch.tensor([0.5, -2.0], device="cuda", dtype=torch.bfloat16)
        k[(2, 1, 1)](t, 3)
        print("pointer is", hex(t.data_ptr()))
        torch.cuda.synchronize()
    """)
    lines = [line.strip() for line in done.stdout.splitlines()]
    for program in (0, 1):
        for value in range(4):
            text = f"pid ({program}, 0, 0) idx ({value // 2}, {value % 2}) row: (operand 0) {value}"
            assert lines.count(text) == 1, (text, done)
        assert lines.count(f"pid ({program}, 0, 0) idx (1) row: (operand 1) -2.000000") == 1
        assert lines.count(f"pid ({program}, 0, 0) done") == 1, done
        (pointer,) = (line[11:] for line in lines if line.startswith("pointer is "))
        assert lines.count(f"pid ({program}, 0, 0) idx () pointer: {pointer}") == 1, done
    assert sum("0x0000030000000000" in line for line in lines) == 2, done
