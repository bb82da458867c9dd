"""Execution of the AMD backend's own LLVM IR on the CPU, wave by wave.

The IR is what the stage `llir` gives, before LLVM's code generator. `parse` reads it, `wave` runs
it for all lanes of a wave at once (a NumPy array for each value, a mask of the lanes that take
part), `workgroup` runs the waves of a workgroup in turn from barrier to barrier. The intrinsics of
AMD GPUs follow the documents of the instruction sets (`lanes`, `buffers`, `matrix`,
`conversions`), not the backend's lowering. `backend` makes this a device for the runtime.
"""
