"""Arrays where the kernels run: NumPy's own on a CPU, tensors of torch on a GPU.

What the tutorials share, so that each of them runs on both.
"""

from __future__ import annotations

import numpy as np

import tritium as triton


def on_gpu() -> bool:
    """Whether kernels run on a GPU."""
    return triton.runtime.driver.active.get_current_target().backend != "cpu"


def place(array):
    """An array of NumPy as a kernel takes it: itself, or a copy on the GPU."""
    if not on_gpu():
        return array
    import torch

    name = array.dtype.name
    if hasattr(np, name):
        return torch.from_numpy(np.ascontiguousarray(array)).cuda()
    # bfloat16 and fp8 exist in both libraries, but only their bits can be handed over.
    bits = torch.from_numpy(np.ascontiguousarray(array).view(f"i{array.itemsize}")).cuda()
    return bits.view(getattr(torch, name))


def fetch(x):
    """The contents as an array of NumPy: `place` undone. float64 where NumPy lacks the dtype."""
    if isinstance(x, np.ndarray):
        return x
    return (x if x.dtype.itemsize > 2 else x.float()).cpu().numpy()


def empty(shape, like):
    """Uninitialized memory of `like`'s kind and dtype."""
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def zeros(shape, like, dtype: str):
    """Zeros of `like`'s kind; `dtype` by name, such as "float32"."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype)
    import torch

    return torch.zeros(shape, dtype=getattr(torch, dtype), device=like.device)


def strides(x):
    """Strides in elements (NumPy counts them in bytes)."""
    return [s // x.itemsize for s in x.strides] if isinstance(x, np.ndarray) else x.stride()


def provide_scratch() -> None:
    """Memory for the descriptors that kernels make on a GPU: torch's, where there is a GPU."""
    if on_gpu():
        import torch

        triton.set_allocator(
            lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
