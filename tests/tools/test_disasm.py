"""Machine code as text: what `cuobjdump` prints, with schedules and labels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.nvidia import sass
from tritium.compiler import ASTSource
from tritium.target import GPUTarget
from tritium.tools import disasm

PRINTED = """
\t\tFunction : other
        /*0000*/                   EXIT ;                              /* 0x000000000000794d */
                                                                       /* 0x000fea0003800000 */
\t\tFunction : kernel
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R0, c[0x0][0x218] ;             /* 0x00008600ff007b82 */
                                                                       /* 0x000e220000000800 */
        /*0010*/                   ISETP.GE.AND P0, PT, R0, 0x1, PT ;  /* 0x000000010000780c */
                                                                       /* 0x001fe20003f06270 */
        /*0020*/              @!P0 BRA 0x40 ;                          /* 0x0000000000008947 */
                                                                       /* 0x000fea0003800000 */
        /*0030*/                   STG.E desc[UR4][R2.64], R5 ;        /* 0x0000000502007986 */
                                                                       /* 0x0041e8000c101904 */
        /*0040*/                   EXIT ;                              /* 0x000000000000794d */
                                                                       /* 0x000fea0003800000 */
        /*0050*/                   BRA 0x50;                           /* 0xfffffffc00fc7947 */
                                                                       /* 0x000fc0000383ffff */
\t\t..........
"""
KERNEL = """Function:kernel
--:-:0:-:1\tLDC R0, c[0x0][0x218];
01:-:-:-:1\tISETP.GE.AND P0, PT, R0, 0x1, PT;
--:-:-:-:5\t@!P0 BRA LBB0;
04:0:-:-:4\tSTG.E desc[UR4][R2.64], R5;
LBB0:
--:-:-:-:5\tEXIT;
LBB1:
--:-:-:Y:0\tBRA LBB1;

"""


@pytest.fixture
def cuobjdump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in its place that prints the above for a file of the right content."""
    program = tmp_path / "cuobjdump"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "if '--version' in sys.argv: print('release 13.0, V13.0'); sys.exit()\n"
        "if not open(sys.argv[-1], 'rb').read().startswith(b'\\x7fELF'):\n"
        "    sys.exit('cuobjdump fatal: no ELF')\n"
        f"text = {PRINTED!r}\n"
        "name = sys.argv[sys.argv.index('-fun') + 1] if '-fun' in sys.argv else None\n"
        "parts = text.split('\\t\\tFunction : ')[1:]\n"
        "for part in parts:\n"
        "    if name in (None, part.split()[0]): print('\\t\\tFunction : ' + part, end='')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("TRITON_CUOBJDUMP_PATH", str(program))
    disasm.get_sass.cache_clear()
    return program


def test_one_function_and_all(cuobjdump: Path, tmp_path: Path):
    assert disasm.path_to_cuobjdump() == str(cuobjdump)
    assert disasm.get_sass(b"\x7fELF", "kernel") == KERNEL
    both = disasm.get_sass(b"\x7fELF")
    assert both == f"Function:other\n--:-:-:-:5\tEXIT;\n\n\n{KERNEL}"
    assert disasm.get_sass(b"\x7fELF", fun="nothing") == ""
    (tmp_path / "file").write_bytes(b"\x7fELF")
    assert disasm.extract(str(tmp_path / "file"), "kernel") == KERNEL


def test_what_is_no_cubin(cuobjdump: Path):
    with pytest.raises(RuntimeError, match=r"cuobjdump failed \(exit status 1\).*no ELF"):
        disasm.get_sass(b"PTX")


def test_without_the_tool():
    with knobs.nvidia.scope():
        knobs.nvidia.cuobjdump = None
        message = r"needs cuobjdump, .*TRITON_CUOBJDUMP_PATH names one"
        with pytest.raises(RuntimeError, match=message):
            sass.path_to_cuobjdump()


@pytest.mark.parametrize(
    ("word", "text"),
    [(0x000FE400078E00FF, "--:-:-:-:2"), (0x004FCC0000000000, "04:-:-:Y:6"),
     (0x000EA8000C1E1900, "--:-:2:-:4"), (0x001FDA0003F06070, "01:-:-:Y:d")],
)  # fmt: skip
def test_schedules(word: int, text: str):
    line = f"     /* 0x{word:016x} */"
    assert disasm.parseCtrl(line) == text
    labels = {0x10: 0}
    first = "  /*00e0*/   @P1 BRA 0x460 ;   /* 0x00000000000c8947 */"
    assert disasm.processSassLines(first, line, labels) == (text, "@P1 BRA 0x460;")
    assert labels == {0x10: 0, 0x460: 1}


def test_other_lines():
    with pytest.raises(ValueError, match=r"no second half of an instruction: 'x'"):
        disasm.parseCtrl("x")
    with pytest.raises(ValueError, match=r"no instruction: 'x'"):
        disasm.processSassLines("x", "y", {})


def test_of_a_kernel(cuobjdump: Path, monkeypatch: pytest.MonkeyPatch):
    @tritium.jit
    def kernel(x):
        tl.store(x, 1.0)

    compiled = tritium.compile(ASTSource(kernel, {"x": "*fp32"}), target=GPUTarget("cuda", 90, 32))
    assert "sass" not in list(compiled.asm), "made when it is asked for"
    asked: list[bytes] = []
    monkeypatch.setattr(sass, "get_sass", lambda cubin: asked.append(cubin) or "text")
    assert compiled.asm["sass"] == "text" and asked == [compiled.asm["cubin"]]
