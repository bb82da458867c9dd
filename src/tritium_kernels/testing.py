"""Comparison of results with a reference, and inputs for tests."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.numerics import compute_actual_scale as compute_actual_scale
from tritium_kernels.numerics_details.mxfp import MXFP_BLOCK_SIZE, downcast_to_mxfp
from tritium_kernels.tensor_details.dtype import FP4, DataType
from tritium_kernels.tensor_details.ragged_tensor import (
    RaggedTensorMetadata,
    make_ragged_tensor_metadata,
)
from tritium_kernels.tensor_details.storage import (
    convert_layout,
    dtype_to_torch_dtype,
    wrap_torch_tensor,
)


def assert_equal(ref: Any, tri: Any) -> None:
    """Both have the same shape and elements; NaN equals NaN."""
    if not isinstance(ref, Tensor):
        assert ref == tri, f"{ref} is not {tri}"
        return
    assert ref.shape == tri.shape, f"shapes {tuple(ref.shape)} and {tuple(tri.shape)}"
    same = (ref == tri) | ((ref != ref) & (tri != tri))
    wrong = int((~same).sum())
    assert not wrong, f"{wrong} of {ref.numel()} elements differ"


def assert_close(
    ref: Tensor, tri: Tensor, maxtol: float | None = None, rmstol: float | None = None,
    description: str = "--", verbose: bool = True,
) -> None:  # fmt: skip
    """The relative errors of `tri`, the largest and the root of their mean square, are small.

    An element's error is relative to its magnitude, but at least to the root of the mean square of
    all: elements near 0 do not count too much. NaN and infinities must be the same in both. Limits
    that are not given are 2e-2 and 4e-3.
    """
    maxtol = 2e-2 if maxtol is None else maxtol
    rmstol = 4e-3 if rmstol is None else rmstol
    assert ref.shape == tri.shape, f"{description}: {tuple(ref.shape)} and {tuple(tri.shape)}"
    if not ref.numel():
        return
    x, y = ref.detach().double(), tri.detach().double()
    special = ~x.isfinite() | ~y.isfinite()
    assert_equal(x[special], y[special])
    x, y = x[~special], y[~special]
    if not x.numel():
        return
    most = x.abs().max().clamp(min=1e-30)  # squares of what it divides do not overflow
    x, y = x / most, y / most
    error = (x - y).abs() / torch.maximum(x.abs(), x.square().mean().sqrt() + 1e-30)
    error_rms, worst = error.square().mean().sqrt(), error.max()
    if verbose:
        print(f"{description}: largest relative error {worst:.3e}, rms {error_rms:.3e}")
    assert worst <= maxtol, f"{description}: largest relative error {worst:.3e} > {maxtol}"
    assert error_rms <= rmstol, f"{description}: rms {error_rms:.3e} > {rmstol}"


def alloc_rand(
    shape: tuple[int, ...], device: str | torch.device, dtype: torch.dtype,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal numbers; for types of 8 bits, powers of two that they hold exactly."""
    if dtype.itemsize == 1:
        powers = 2 ** -torch.randint(4, 8, shape, device=device, dtype=torch.float32)
        return powers.to(dtype).requires_grad_(requires_grad)
    return torch.randn(shape, device=device, dtype=dtype, requires_grad=requires_grad)


def make_slice_sizes(n_slices: int, total_size: int, device: str = "cuda") -> Tensor:
    """Random sizes of slices, int32, that sum to `total_size`; some are likely empty."""
    if n_slices <= 0 or total_size < 0:
        raise refuse("make_slice_sizes", "n_slices", f"is {n_slices}", "1 or more")
    if total_size == 0:
        return torch.zeros(n_slices, dtype=torch.int32, device=device)
    weights = torch.softmax(torch.randn(n_slices, device=device), 0)
    slices = torch.multinomial(weights, total_size, replacement=True)
    return torch.bincount(slices, minlength=n_slices).to(torch.int32)


class ComputeSanitizerTool(Enum):
    """Tools of compute-sanitizer: bad addresses, races, barriers, memory never written."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    SYNCCHECK = "synccheck"
    INITCHECK = "initcheck"


def _sanitizer_command(tool: ComputeSanitizerTool, test: str) -> list[str]:
    """The command that runs one test under a tool; it fails where something is found."""
    return [
        "compute-sanitizer", "--target-processes=application-only",
        "--destroy-on-device-error=context", f"--tool={tool.value}", "--error-exitcode=1",
        sys.executable, "-m", "pytest", "-vsx", test,
    ]  # fmt: skip


def compute_sanitizer(**target_kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a test that has a parameter `request`: run it under compute-sanitizer.

    The test runs in a process for each tool, and passes if these do. `SKIP_COMPUTE_SANITIZER=1`
    runs it as it is, and is set in these processes.

    Args:
        clear_torch_cache: free torch's memory on the GPU before.
        tools_to_check: `ComputeSanitizerTool`s; `MEMCHECK` alone if not given.
        target_kwargs: others are values of the test's arguments: only calls with these run so.
    """
    tools = target_kwargs.pop("tools_to_check", [ComputeSanitizerTool.MEMCHECK])
    clear = target_kwargs.pop("clear_torch_cache", False)

    def decorator(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            wanted = all(kwargs.get(name) == value for name, value in target_kwargs.items())
            if os.environ.get("SKIP_COMPUTE_SANITIZER") == "1" or not wanted:
                test(*args, **kwargs)
                return
            if clear and torch.cuda.is_available():
                torch.cuda.empty_cache()
            node = kwargs["request"].node.nodeid
            for tool in tools:
                done = subprocess.run(
                    _sanitizer_command(tool, node), capture_output=True, text=True,
                    env={**os.environ, "SKIP_COMPUTE_SANITIZER": "1",
                         "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
                )  # fmt: skip
                found = f"{tool.value}:\n{done.stdout}{done.stderr}"
                assert done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout, found

        return wrapper

    return decorator


def pad_rows_to_multiples(
    A: Tensor, indices: Sequence[int], multiple: int = 128, pad_value: float = float("nan")
) -> Tensor:
    """The slices of A's rows that begin at `indices`, each filled up to a multiple of rows."""
    ends = [*list(indices)[1:], A.shape[0]]
    parts: list[Tensor] = []
    for first, last in zip(indices, ends, strict=True):
        part = A[first:last]
        missing = -part.shape[0] % multiple
        parts += [part, A.new_full((missing, *A.shape[1:]), pad_value)]
    return torch.cat(parts) if parts else A[:0]


def normalize_blocks(x: Tensor, BLOCK_SIZE: int | None = None) -> Tensor:
    """Divide blocks of columns by their largest magnitude (in place): no block of an MX tensor is
    much smaller than the others. `BLOCK_SIZE`: 32 if not given."""
    size = BLOCK_SIZE or MXFP_BLOCK_SIZE.value
    for first in range(0, x.shape[-1], size):
        block = x[..., first : first + size]
        most = block.abs().amax(-1, keepdim=True)
        block /= torch.where(most > 0, most, 1.0)
    return x


def _slices_of(n_slices: int, rows: int, device: Any) -> RaggedTensorMetadata:
    return make_ragged_tensor_metadata(make_slice_sizes(n_slices, rows, device), rows)


def pad_ragged_tensor(
    x: Tensor, x_ragged_metadata: RaggedTensorMetadata, hbm_swizzling: bool, transpose: bool
) -> tuple[Tensor, RaggedTensorMetadata]:
    """Slices of rows (`transpose`: of columns), each filled up with zeros to a multiple of 128
    (with `hbm_swizzling`) or 64, and their metadata."""
    multiple = 128 if hbm_swizzling else 64
    y = x.mT if transpose else x
    sizes = x_ragged_metadata.slice_sizes
    filled = (sizes + multiple - 1) // multiple * multiple
    firsts = x_ragged_metadata.slice_offs[:-1].tolist()
    end = int(x_ragged_metadata.slice_offs[-1])
    y = pad_rows_to_multiples(y[:end], firsts, multiple, 0.0)
    metadata = make_ragged_tensor_metadata(filled, y.shape[0])
    metadata = replace(metadata, slice_sizes_divisibility=multiple)
    return (y.mT if transpose else y).contiguous(), metadata


def make_random_tensor(
    shape: Sequence[int], n_slices: int, ragged_dim: int | None, ragged_padding: bool,
    device: str | torch.device, dtype: DataType, mxfp_dim: int | None, transpose: bool,
    squeeze_batch_dim: bool, is_mx_rowmajor: bool = False, value_hbm_swizzling: Any = None,
    scale_hbm_swizzling: Any = None,
) -> tuple[Any, Any, RaggedTensorMetadata | None]:  # fmt: skip
    """(a random tensor, its MX scales or None, metadata of its slices or None).

    Args:
        shape: of two dimensions where there are slices; else batches, `n_slices`, precede it.
        ragged_dim: the dimension in slices; None: none is. `ragged_padding`: slices are filled up
            with zeros, to multiples of what tiles have.
        dtype: of `tritium_kernels.tensor_details.dtype`; FP4 needs `mxfp_dim`.
        mxfp_dim: the dimension along which 32 elements share a scale; None: there are no scales.
        transpose: the dimension before the last is the adjacent one.
        squeeze_batch_dim: one batch is no dimension.
        is_mx_rowmajor: with scales the last dimension is adjacent; else that of the blocks.
        value_hbm_swizzling, scale_hbm_swizzling: layouts; the results are `Tensor`s then.
    """
    batches = () if ragged_dim is not None else (n_slices,)
    sizes = (*batches, *shape)
    metadata = None
    x = torch.randn(sizes, device=device)
    if ragged_dim is not None:
        metadata = _slices_of(n_slices, shape[ragged_dim], device)
        if ragged_padding:
            swizzled = value_hbm_swizzling is not None or scale_hbm_swizzling is not None
            x, metadata = pad_ragged_tensor(x, metadata, swizzled, ragged_dim % 2 == 1)
    if squeeze_batch_dim and batches == (1,):
        x = x[0]
    if mxfp_dim is None:
        if dtype == FP4:
            raise refuse("make_random_tensor", "mxfp_dim", "is None", "a dimension, for FP4")
        plain = x.to(dtype_to_torch_dtype(dtype))
        return (plain.mT.contiguous().mT if transpose else plain), None, metadata
    normalize_blocks(x.movedim(mxfp_dim, -1))
    word = torch.uint8 if dtype == FP4 else dtype_to_torch_dtype(dtype)
    values, scales = downcast_to_mxfp(x, word, mxfp_dim)
    if is_mx_rowmajor and mxfp_dim % x.ndim != x.ndim - 1 and dtype != FP4:
        values = values.contiguous()
    values, scales = (
        t if layout is None else convert_layout(wrapped, layout)
        for t, layout, wrapped in (
            (values, value_hbm_swizzling, wrap_torch_tensor(values, dtype, tuple(x.shape))),
            (scales, scale_hbm_swizzling, wrap_torch_tensor(scales)),
        )
    )
    return values, scales, metadata
