"""Write docs/nvidia-matmul-walkthrough.md: every stage of a matmul, as the compiler makes it now.

    python docs/nvidia_walkthrough.py            # write the page
    python docs/nvidia_walkthrough.py --check    # exit with 1 if it is not what would be written

No GPU is needed.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "nvidia-matmul-walkthrough.md"
sys.path[:0] = [str(ROOT / "src")]

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.target import GPUTarget


@tritium.jit
def matmul(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16))


def stages() -> dict[str, str]:
    """The text of each stage, for sm_90, 4 warps, 3 stages; the PTX version is fixed, so that the
    page does not depend on the installed ptxas."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | {"N": "i32", "K": "i32"}
    tiles = {"BM": 64, "BN": 64, "BK": 64}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = tritium.compiler.ASTSource(
        matmul, types | dict.fromkeys(tiles, "constexpr"), tiles, aligned
    )
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        knobs.compilation.always_compile = True
        kernel = tritium.compile(
            source, target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 4, "num_stages": 3, "ptx_version": 87},
        )  # fmt: skip
    return {name: text for name, text in kernel.asm.items() if isinstance(text, str)}


def part(text: str, first: str, last: str = "", *, drop: str = "") -> str:
    """The lines from the first that matches `first` to the first after it that matches `last` (that
    line alone by default), without those that match `drop`; indentation is kept relative."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.search(first, line))
    end = start
    if last:
        end = next(i for i in range(start + 1, len(lines)) if re.search(last, lines[i]))
    chosen = [x for x in lines[start : end + 1] if not (drop and re.search(drop, x))]
    margin = min(len(x) - len(x.lstrip()) for x in chosen if x.strip())
    return "\n".join(x[margin:].expandtabs(4).rstrip() for x in chosen)


def shortened(text: str, width: int = 150) -> str:
    """Long lines cut, with an ellipsis."""
    return "\n".join(x if len(x) <= width else x[: width - 2] + " …" for x in text.splitlines())


def wgmma_of(ptx: str) -> str:
    """The product's assembly, one instruction a line, the accumulators shortened."""
    line = next(x for x in ptx.splitlines() if "wgmma.mma_async" in x)
    text = re.sub(r"\{(%f?r?\d+)(, %f?r?\d+)*, (%f?r?\d+)\}", r"{\1, …, \3}", line.strip())
    inner = text.strip("{} ").replace("; ", ";\n")
    return inner


PROSE = """# What becomes of a matmul on Hopper

*Written by `docs/nvidia_walkthrough.py` from what the compiler makes; a test compares.*

The kernel multiplies tiles of 64x64 by 4 warps, with copies two iterations ahead (`num_stages=3`):

```python
{source}```

See any of this for a kernel of your own: `kernel.asm["ttgir"]` of what a launch or
`tritium.compile` returns, or the files that `TRITON_KERNEL_DUMP=1` leaves.

## ttir: what is computed

Tiles are values without a place. The loop carries the accumulator and two tiles of pointers.

```mlir
{ttir_loop}
```

## ttgir: where and when

Tiles got layouts.

```mlir
{layouts}
```

- `coalesce` saw that the addresses of both operands run along the second axis and are aligned to
  16 bytes: `#blocked` gives a thread 8 neighbours, and 8 threads a row of 128 bytes.
- `accelerate-matmul` made the product a `warp_group_dot` of operands in shared memory: `#mma` is
  where wgmma leaves its result, `#shared` (rows of 128 bytes whose 16-byte groups are permuted)
  what it reads.
- `assign-layouts` computes pointers in `#blocked` from the start, so that the only conversion left
  is that of the result.
- `pipeline` made rings of 3 buffers, started the copies of the first two iterations before the
  loop, and those of the iteration after the next in it. The product of one iteration ends in the
  next (`pendings = 1`).

```mlir
{ttgir_loop}
```

## llir: one thread

From here on the code is that of one thread. A tile is as many LLVM values as the thread has
registers of it: 32 of the accumulator. A thread copies 4 pieces of 16 bytes of each operand, and
needs the address of the first element of each piece alone. So the loop has {pointers} phis of
pointers, not 2 x 32: what nothing uses is not computed (`codegen/gpu/demand.py`).

A copy takes the place in shared memory, the address, and a predicate: if it is set the source is
ignored and zeros are written.

```llvm
{llir_copy}
```

## ptx: the loop

`bar.sync` stands where `analysis/barriers.py` found that bytes which one thread's copy brought are
read by others (the first), and that a copy would overwrite what other warps still read (the
second).

```
{ptx_loop}
```

The product and the wait for the one before it are one piece of assembly; `da` and `db` are matrix
descriptors (address, distance between groups of 8 rows, the kind of swizzle), moved on by 16
elements of k from instruction to instruction:

```
{wgmma}
```

## The result's way out

`#mma` is no layout to store from: a thread has pairs of neighbours in many rows. Converting to
`#blocked` goes through shared memory. `ir/layouts/swizzle.py` finds where each element goes, so
that `stmatrix` can write 8x8 pieces, `ld.shared.v4` can read 16 bytes, and neither meets a bank
conflict: {write} writes and {read} reads a thread, of 8 elements each.

```
{epilogue}
```

`ptxas` makes a cubin of this; the driver loads it, and the launcher passes the five arguments.
"""


def page() -> str:
    """The page's text."""
    texts = stages()
    ttir, ttgir, llir, ptx = (texts[n] for n in ("ttir", "ttgir", "llir", "ptx"))
    source = inspect.getsource(matmul.fn)
    loop = part(ttgir, r"scf\.for", r"scf\.yield")
    llir_loop = part(llir, r"^loop\d+:", r"^exit\d+:")
    ptx_loop = part(ptx, r"%loop1$", r"bra\s+\$L__BB0_\d+;")
    ptx_loop = re.sub(r"\{ \.reg \.pred use.*", "{ the product: see below }", ptx_loop)
    ptx_loop = "\n".join(x for x in ptx_loop.splitlines() if "inline asm" not in x)
    rest = ptx[ptx.index("wgmma.wait_group.sync.aligned 0") :]
    moves = [x.strip().expandtabs(4) for x in rest.splitlines()
             if re.search(r"stmatrix|ld\.shared|st\.shared|bar\.sync|st\.global", x)]  # fmt: skip
    write = sum("stmatrix" in x or "st.shared" in x for x in moves)
    read = sum("ld.shared" in x or "ldmatrix" in x for x in moves)
    values: dict[str, Any] = {
        "source": source,
        "ttir_loop": shortened(part(ttir, r"scf\.for", r"^ {4}\}")),
        "layouts": part(ttgir, "^#blocked", "^#shared"),
        "ttgir_loop": shortened(loop),
        "pointers": len(re.findall(r"= phi ptr addrspace\(1\)", llir_loop)),
        "llir_copy": shortened(part(llir_loop, r"xor i1", r"cp\.async")),
        "ptx_loop": shortened(ptx_loop),
        "wgmma": shortened(wgmma_of(ptx)),
        "write": write, "read": read,
        "epilogue": "\n".join(moves),
    }  # fmt: skip
    return PROSE.format(**values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = page()
    if parser.parse_args().check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else 1)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
