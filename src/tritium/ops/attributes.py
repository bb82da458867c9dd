"""Names of the attributes that modules, functions, arguments, loops and stated facts carry beside
those that op classes declare; the reference's text has the same."""

from __future__ import annotations

# Modules
NUM_CTAS = "ttg.num-ctas"
NUM_WARPS = "ttg.num-warps"
THREADS_PER_WARP = "ttg.threads-per-warp"
TARGET = "ttg.target"
"""The processor: `cuda:90`."""

# Functions, and arguments of kernels
PADDING = "tt.padding"
"""On a descriptor that reads NaN outside of its bounds."""
PLAIN_DESCRIPTORS = "tt.plain_descriptors"
"""The arguments of a kernel that stand for descriptors."""

# Facts about values, along each axis: on arguments and on ops
DIVISIBILITY = "tt.divisibility"
CONTIGUITY = "tt.contiguity"
CONSTANCY = "tt.constancy"
POINTER_RANGE = "tt.pointer_range"
"""On a pointer argument: 32 where the memory that it leads to has less than 2**31 bytes."""

# Changes of layout
PARTS = "ttg.parts"
"""On a change of layout: the parts of its tile, a power of two, that go through shared memory one
after the other, where the layouts allow it; each needs a part of the memory."""

# Products
CD_REGCLASS = "amdg.cd_regclass"
"""On a product by MFMA: the class of registers of its sums, "a" (AGPRs) or "v" (VGPRs)."""

# Loops
NUM_STAGES = "tt.num_stages"
UNROLL_FACTOR = "tt.loop_unroll_factor"
FLATTEN = "tt.flatten"
DISABLE_LICM = "tt.disable_licm"
DISALLOW_ACC_MULTI_BUFFER = "tt.disallow_acc_multi_buffer"
WARP_SPECIALIZE = "tt.warp_specialize"
NOT_WARP_SPECIALIZED = "tt.not_warp_specialized"
"""Why a loop runs unsplit that asks for `tt.warp_specialize`."""
