"""`tt.dot` on a tile as LLVM IR: register blocks, packing, and every element type.

    host = Host.of("x86_64", features)                    # LLVM's names of the features that are on
    a = View("float", pointer, row_stride, 1)             # strides in elements: int or i64 value
    b = Chunks("float", address, contiguity=16, k_step=stride)
    plan = make_plan(host, a, b, "float", (64, 64, 32))   # (M, N, K), powers of two from 1 on
    emit_dot(f, plan, a, b, acc, (64, 64, 32), scratch_alloc=alloc, zero_init=False)

What a caller has to know:
    operands   `View` is a strided tile in memory, a dense scratch tile too (strides (columns, 1)).
               `Chunks` takes addresses from a callback, `address(f, row, col)`; with a `k_step`,
               the step along k (columns of A, rows of B), it is only asked for k = 0, outside of
               the loops over k. The callback may emit instructions but must end in the block it
               began in or one that follows, and addresses must not depend on memory that changes.
    acc        a dense, row-major, 64-byte-aligned (M, N) tile of `plan.result`, apart from A and B.
    masks      along k, with other=0 and the same for A and B: `k_extent` (or `tail` in a loop).
               All other masks: copy the tile to scratch first.
    loops      `emit_dot_loop` is all of `for k in range(trips): acc += dot(a, b)` for operands that
               move on by a fixed number of bytes. Accumulators stay in registers over several
               iterations: 5 to 30 % faster than single dots, more for small tiles.
    scratch    `scratch_alloc(bytes)` is called while code is emitted, maybe inside a loop, and
               gives 64-byte-aligned memory that must stay valid until the end of the dot.
    result     `FLOAT16`, `float`, `double` for floats (FLOAT16 is accumulated in fp32), `i8` to
               `i64` for integers, which wrap. fp8 has no LLVM type: element `i8` and `convert`.
    position   code is appended at the current position; `f.block` is another one afterwards.

No IR pass is needed: values that loops carry are phis and nothing is on the stack. The function
wants the attribute `"prefer-vector-width"="512"` where `host.bits` is 512.

Modules, from the bottom: `operand` (where things are), `plan` (choices), `convert` and `multiply`
(one vector), `pack` (copies), `reuse` (copies for several programs), `sweep` and `amx` (loops over
register blocks), `kernels` (the whole).
"""

from tritium.backends.cpu.dot.kernels import emit_batched_dot, emit_dot, emit_dot_loop
from tritium.backends.cpu.dot.operand import Chunks, View
from tritium.backends.cpu.dot.pack import ScratchAlloc
from tritium.backends.cpu.dot.plan import Host, Method, Plan, make_plan
from tritium.backends.cpu.dot.reuse import Kept

__all__ = [
    "Chunks",
    "Host",
    "Kept",
    "Method",
    "Plan",
    "ScratchAlloc",
    "View",
    "emit_batched_dot",
    "emit_dot",
    "emit_dot_loop",
    "make_plan",
]
