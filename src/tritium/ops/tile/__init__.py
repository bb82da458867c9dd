"""The `tile` dialect: where, when and in which loops the tiles of a ttir function are computed.

    tile.buffer @y.0 : tensor<64xf32>
    tile.nest [64] {
      tile.copy %y to @y.0 {keeps} : tensor<64xf32>
      tt.store %q, %y : tensor<64x!tt.ptr<f32>>
    }

What is computed stays stated by the ttir ops. Those that must be executed, the roots, are in the
bodies of nests. An op on tiles that is in no nest has no place of its own: each nest computes the
elements that it needs, unless the value is kept in a buffer. Ops that are neither (products, sorts,
calls, control flow) name their buffers in the attribute `tile.buffers`, as nests' roots do. How a
product is computed is its attribute `tile.plan`.
"""

from tritium.ops.tile.nests import BUFFERS as BUFFERS
from tritium.ops.tile.nests import BufferOp as BufferOp
from tritium.ops.tile.nests import CopyOp as CopyOp
from tritium.ops.tile.nests import NestOp as NestOp
from tritium.ops.tile.nests import PrefetchOp as PrefetchOp
from tritium.ops.tile.plan import OPERANDS as OPERANDS
from tritium.ops.tile.plan import PLAN as PLAN
from tritium.ops.tile.plan import PlanAttr as PlanAttr
from tritium.ops.tile.plan import ProductPlan as ProductPlan

ATTRIBUTES = (PlanAttr,)
