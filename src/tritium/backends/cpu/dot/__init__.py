"""`tt.dot` on a tile as LLVM IR: register blocks, packing, and every element type.

    plan = make_plan(host, a, b, "float", (64, 64, 32))
    emit_dot(f, plan, a, b, acc, (64, 64, 32), scratch_alloc=alloc)

`a` and `b` are `View` (base pointer and two strides) or `Chunks` (addresses from a callback);
`acc` is a dense row-major tile in scratch. `emit_dot_loop` is a whole `for k` loop around a dot,
with the accumulators kept in registers over many iterations. Code is appended at the current
position of the `Function`, which afterwards is in another block. No IR pass is needed: values that
loops carry are phis and nothing is on the stack. For a batched dot see `emit_batched_dot`.

Modules, from the bottom: `operand` (where things are), `plan` (choices), `convert` and `multiply`
(one vector), `pack` (copies), `kernels` (loops).
"""

from tritium.backends.cpu.dot.kernels import emit_batched_dot, emit_dot, emit_dot_loop
from tritium.backends.cpu.dot.operand import Chunks, View
from tritium.backends.cpu.dot.pack import ScratchAlloc
from tritium.backends.cpu.dot.plan import Host, Method, Plan, make_plan

__all__ = [
    "Chunks", "Host", "Method", "Plan", "ScratchAlloc", "View",
    "emit_batched_dot", "emit_dot", "emit_dot_loop", "make_plan",
]  # fmt: skip
