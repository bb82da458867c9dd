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
from tritium.tools.explore.lines import sass_lines
from tritium.tools.explore.loops import machine_loops

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
LOCATED = """
.text.other:
        /*0000*/                   EXIT ;
//--------------------- .text.kernel
.text.kernel:
	//## File "/tmp/k.py", line 6
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
	//## File "/tmp/k.py", line 8
.L_x_1:
        /*0020*/                   EXIT ;
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
    with pytest.raises(TypeError, match=r"get_sass: cubin_asm is 'kernel.cubin'; the bytes of"):
        disasm.get_sass(*["kernel.cubin"])


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


def test_places_of_instructions() -> None:
    places = sass.parse_places(LOCATED)
    assert places == {
        "other": [None], "kernel": [("/tmp/k.py", 6), ("/tmp/k.py", 6), ("/tmp/k.py", 8)]
    }  # fmt: skip
    text = ("Function:kernel\n--:-:0:-:1\tLDC R1, c[0x0][0x28];\n--:-:-:Y:5\t@!P0 BRA LBB0;\n"
            "LBB0:\n--:-:-:Y:5\tEXIT;\n\nFunction:missing\n--:-:-:Y:5\tEXIT;\n")  # fmt: skip
    found = [line.place and line.place[1] for line in sass_lines(text, places)]
    assert found == [None, 6, 6, None, 8, None, None, None]


def test_live_registers_of_instructions() -> None:
    printed = (".text.k:  // |       |        |\n"
               "        /*0000*/  LDC R1, c[0x0][0x28] ;  // |    1  |        |\n"
               ".L_x_0:  // |       |        |\n"
               "        /*0010*/  @P0 EXIT ;  // |       |   1    |\n")  # fmt: skip
    assert sass.parse_live(printed) == {"k": [1, 0]}


def test_without_nvdisasm_nothing_is_known_of_places_and_registers() -> None:
    sass.instruction_places.cache_clear()
    sass.live_registers.cache_clear()
    with knobs.nvidia.scope():
        knobs.nvidia.nvdisasm = None
        assert sass.instruction_places(b"no cubin") == sass.live_registers(b"no cubin") == {}


@tritium.jit
def scale(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(x + i, v * 2)


@pytest.mark.ptxas
@pytest.mark.cuobjdump
def test_machine_code_is_linked_to_its_lines() -> None:
    source = ASTSource(scale, {"x": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 128})
    kernel = tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    lines = sass_lines(kernel.asm["sass"], sass.instruction_places(kernel.asm["cubin"]))
    first = scale.fn.__code__.co_firstlineno
    for word, line in (("LDG", 3), ("STG", 4)):
        (place,) = {found.place for found in lines if word in found.text}
        assert place == (__file__, first + line)


@tritium.jit
def multiply(x, out, n, BLOCK: tl.constexpr):
    m, k = tl.arange(0, BLOCK)[:, None], tl.arange(0, 64)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(n):
        total = tl.dot(tl.load(x + m * 64 + k), tl.load(x + k[:, None] + m.trans(1, 0) * 64), total)
    tl.store(out + m * BLOCK + m.trans(1, 0), total)


@pytest.mark.ptxas
@pytest.mark.cuobjdump
@pytest.mark.parametrize(("arch", "product"), [(80, "HMMA"), (90, "HGMMA")])
def test_registers_of_a_loop_hold_whole_operands(
    arch: int, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instruction names the first register of its accumulator, of 128 here."""
    assert knobs.nvidia.nvdisasm is not None
    beside = Path(knobs.nvidia.nvdisasm.path).with_name("ptxas")  # both of one version
    if beside.exists():
        monkeypatch.setenv("TRITON_PTXAS_PATH", str(beside))
    source = ASTSource(multiply, {"x": "*fp16", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
                       {"BLOCK": 128})  # fmt: skip
    kernel = tritium.compile(source, target=GPUTarget("cuda", arch, 32))
    live = sass.live_registers(kernel.asm["cubin"])
    assert live, "nvdisasm is older than ptxas"
    lines = sass_lines(kernel.asm["sass"], {}, live)
    loops = [loop for loop in machine_loops("sass", lines) if product in dict(loop.mix)]
    assert loops and 128 < (loops[0].registers or 0) <= 255
