"""Comparison of results with a reference, and inputs for tests."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from tritium_kernels.errors import (
    LONGEST,
    WORDS,
    check_flag,
    check_given,
    check_integer,
    check_sizes,
    refuse,
)
from tritium_kernels.numerics import compute_actual_scale as compute_actual_scale
from tritium_kernels.numerics_details.mxfp import BLOCK_SIZES, MXFP_BLOCK_SIZE, downcast_to_mxfp
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
    all, in which infinities are 0: elements near 0 do not count too much. NaN and infinities must
    be the same in both (in triton_kernels any NaN is an error, and signs of infinities are not). A
    reference for elements of one byte is rounded to their type; one of that type must be the same.
    Limits that are not given are 2e-2 and 4e-3.
    """
    maxtol = 2e-2 if maxtol is None else maxtol
    rmstol = 4e-3 if rmstol is None else rmstol
    assert ref.shape == tri.shape, f"{description}: {tuple(ref.shape)} and {tuple(tri.shape)}"
    if tri.dtype.itemsize == 1:
        if ref.dtype == tri.dtype:
            assert_equal(ref.float(), tri.float())
            return
        ref = ref.to(tri.dtype)
    if not ref.numel():
        return
    x, y = ref.detach().double(), tri.detach().double()
    special = ~x.isfinite() | ~y.isfinite()
    assert_equal(x[special], y[special])
    if special.all():
        return
    # Squares of what it divides do not overflow.
    most = x[~special].abs().max().clamp(min=1e-30)
    x, y = (t.masked_fill(special, 0) / most for t in (x, y))
    error = (x - y).abs() / torch.maximum(x.abs(), x.square().mean().sqrt() + 1e-30)
    error_rms, worst = error.square().mean().sqrt(), error.max()
    if verbose:
        print(f"{description}: largest relative error {worst:.3e}, rms {error_rms:.3e}")
    if worst > maxtol:
        _show_differences(ref, tri, error > maxtol)
    assert worst <= maxtol, f"{description}: largest relative error {worst:.3e} > {maxtol}"
    assert error_rms <= rmstol, f"{description}: rms {error_rms:.3e} > {rmstol}"


def _show_differences(ref: Tensor, tri: Tensor, wrong: Tensor, most: int = 1000) -> None:
    """Print where two tensors differ, and what is there in both."""
    places = wrong.nonzero()
    at = tuple(places[:most].unbind(-1))
    print(f"{len(places)} of {wrong.numel()} elements differ, at {places[:most].tolist()}:")
    print("reference:", ref.detach()[at].tolist())
    print("found:", tri.detach()[at].tolist())


def alloc_rand(
    shape: Sequence[int], device: str | torch.device, dtype: torch.dtype,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal numbers, `normalize_blocks` of them; for types of 8 bits, powers of two that they hold
    exactly."""
    check_sizes("alloc_rand", "shape", shape)
    check_given("alloc_rand", torch.dtype, dtype=dtype)
    check_flag("alloc_rand", requires_grad=requires_grad)
    sizes = tuple(shape)
    if dtype.itemsize == 1:
        powers = 2 ** -torch.randint(4, 8, sizes, device=device).float()
        return powers.to(dtype).requires_grad_(requires_grad)
    numbers = torch.randn(sizes, device=device, dtype=dtype)
    if len(sizes) in (2, 3):
        numbers = normalize_blocks(numbers)
    return numbers.requires_grad_(requires_grad)


def make_slice_sizes(n_slices: int, total_size: int, device: str | torch.device = "cuda") -> Tensor:
    """Random sizes of slices, int32, that sum to `total_size`, the same at each call; of several
    the second is empty."""
    check_integer("make_slice_sizes", "n_slices", n_slices, *WORDS)
    check_integer("make_slice_sizes", "total_size", total_size, 0, LONGEST)
    if n_slices <= 0 or total_size == 0:
        return torch.zeros(max(n_slices, 0), dtype=torch.int32, device=device)
    weights = torch.ones(n_slices)
    if n_slices > 1:
        weights[1] = 0
    draws = torch.multinomial(weights, total_size, replacement=True,
                              generator=torch.Generator().manual_seed(0))  # fmt: skip
    return torch.bincount(draws, minlength=n_slices).to(device, torch.int32)


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
    A: Tensor, indices: Sequence[int] | Tensor, multiple: int = 128,
    pad_value: float = float("nan"),
) -> Tensor:  # fmt: skip
    """The slices of A's rows, each filled up to a multiple of rows. `indices`: where each begins,
    and where the last one ends."""
    op = "pad_rows_to_multiples"
    check_given(op, Tensor, A=A)
    check_integer(op, "multiple", multiple, 1, LONGEST)
    bounds = cast("list[int]", indices.tolist() if isinstance(indices, Tensor) else [*indices])
    check_sizes(op, "indices", bounds)
    parts: list[Tensor] = []
    for first, last in pairwise(bounds):
        part = A[first:last]
        missing = -part.shape[0] % multiple
        parts += [part, A.new_full((missing, *A.shape[1:]), pad_value)]
    return torch.cat(parts) if parts else A[:0]


def normalize_blocks(x: Tensor, BLOCK_SIZE: int | None = None) -> Tensor:
    """Have each row and each column of a square block of `x` (in place) reach the largest magnitude
    of the block, so that blocks along either dimension have the same MX scales. `BLOCK_SIZE`: 32
    if not given; `x`: a matrix or several."""
    check_given("normalize_blocks", Tensor, x=x)
    if x.ndim < 2:
        raise refuse("normalize_blocks", "x", f"has {x.ndim} dimensions", "2 or more")
    size = MXFP_BLOCK_SIZE.value if BLOCK_SIZE is None else BLOCK_SIZE
    check_integer("normalize_blocks", "BLOCK_SIZE", size, 1)
    for i in range(0, x.shape[-2], size):
        for j in range(0, x.shape[-1], size):
            block = x[..., i : i + size, j : j + size]
            height, width = block.shape[-2:]
            longer = torch.arange(max(height, width), device=x.device)
            rows, columns = longer.clamp(max=height - 1), longer.clamp(max=width - 1)
            most = block.abs().amax((-2, -1))[..., None]
            block[..., rows, columns] = torch.where(torch.randn(
                (*block.shape[:-2], len(longer)), device=x.device
            ) < 0, -most, most).to(x.dtype)  # fmt: skip
    return x


def pad_ragged_tensor(
    x: Tensor, x_ragged_metadata: RaggedTensorMetadata, hbm_swizzling: bool, transpose: bool
) -> tuple[Tensor, RaggedTensorMetadata]:
    """Slices of rows (`transpose`: of columns), each filled up with zeros to a multiple of 128
    (with `hbm_swizzling`) or 64, and their metadata: their sizes are those before."""
    multiple = 128 if hbm_swizzling else 64
    rows = x.mT if transpose else x
    y = pad_rows_to_multiples(rows, x_ragged_metadata.slice_offs, multiple, 0.0)
    metadata = replace(
        x_ragged_metadata, slice_offs=x_ragged_metadata.block_offs(multiple) * multiple,
        slice_sizes_divisibility=multiple,
    )  # fmt: skip
    return (y.mT if transpose else y).contiguous(), metadata


@dataclass(frozen=True)
class _Kind:
    """Elements of a random tensor: of a torch type, with scales of blocks of some type or None."""

    word: torch.dtype
    scale: torch.dtype | None
    is_fp4: bool

    @staticmethod
    def of(dtype: Any, scaled: bool) -> _Kind:
        """Read one of our types, or what has the attributes `torch_dtype` and `has_mx_scale`,
        perhaps `is_mxfloat4` and `is_nvfp4`."""
        if isinstance(dtype, DataType):
            is_fp4 = dtype == FP4
            word = torch.uint8 if is_fp4 else dtype_to_torch_dtype(dtype)
            return _Kind(word, torch.uint8 if scaled else None, is_fp4)
        is_nvfp4 = getattr(dtype, "is_nvfp4", False)
        scale = torch.float8_e4m3fn if is_nvfp4 else torch.uint8
        is_fp4 = is_nvfp4 or getattr(dtype, "is_mxfloat4", False)
        return _Kind(dtype.torch_dtype, scale if dtype.has_mx_scale else None, is_fp4)


def make_random_tensor(
    shape: Sequence[int], n_slices: int, ragged_dim: int | None, ragged_padding: bool,
    device: str | torch.device, dtype: Any, mxfp_dim: int | None, transpose: bool,
    squeeze_batch_dim: bool, is_mx_rowmajor: bool = False, value_hbm_swizzling: Any = None,
    scale_hbm_swizzling: Any = None,
) -> tuple[Any, Any, RaggedTensorMetadata | None]:  # fmt: skip
    """(a random tensor, its MX scales or None, metadata of its slices or None).

    A tensor with scales and these are `Tensor`s, others are torch's.

    Args:
        shape: of two dimensions where there are slices; else batches, `n_slices`, precede it.
        ragged_dim: the dimension in slices; None: none is. `ragged_padding`: slices are filled up
            with zeros, to multiples of what tiles have.
        dtype: of `tritium_kernels.tensor_details.dtype` (FP4 needs `mxfp_dim`); or what has the
            attributes `torch_dtype` and `has_mx_scale`, perhaps `is_mxfloat4` and `is_nvfp4`.
        mxfp_dim: the dimension along which 32 elements share a scale; None: there are no scales.
        transpose: the dimension before the last is the adjacent one.
        squeeze_batch_dim: one batch is no dimension.
        is_mx_rowmajor: values are adjacent, FP4 packed, along the other dimension than blocks.
        value_hbm_swizzling, scale_hbm_swizzling: layouts; that of the scales may be a function of
            the metadata of slices of rows, or None.
    """
    kind = _Kind.of(dtype, mxfp_dim is not None)
    if (mxfp_dim is None) != (kind.scale is None):
        accepted = "a dimension with scales, else None"
        raise refuse("make_random_tensor", "mxfp_dim", f"is {mxfp_dim}", accepted)
    if mxfp_dim is None and kind.is_fp4:
        raise refuse("make_random_tensor", "mxfp_dim", "is None", "a dimension, for FP4")
    sizes = tuple(shape) if ragged_dim is not None else (n_slices, *shape)
    x = alloc_rand(sizes, device, kind.word if kind.scale is None else torch.bfloat16)
    if squeeze_batch_dim and ragged_dim is None and n_slices == 1:
        x = x[0]
    metadata = None
    if ragged_dim is not None:
        rows = shape[ragged_dim]
        metadata = make_ragged_tensor_metadata(make_slice_sizes(n_slices, rows, device), rows)
        if ragged_padding:
            swizzled = value_hbm_swizzling is not None or scale_hbm_swizzling is not None
            x, metadata = pad_ragged_tensor(x, metadata, swizzled, ragged_dim % 2 == 1)
    x = x.mT.contiguous().mT if transpose else x
    if mxfp_dim is None or kind.scale is None:
        return x, None, metadata
    if callable(scale_hbm_swizzling):
        scale_hbm_swizzling = scale_hbm_swizzling(metadata if ragged_dim == 0 else None)
    values, scales = _with_scales(x, kind.word, kind.scale, mxfp_dim, is_mx_rowmajor)
    wrapped = wrap_torch_tensor(values, FP4 if kind.is_fp4 else None, tuple(x.shape))
    made = wrap_torch_tensor(scales)
    if value_hbm_swizzling is not None:
        wrapped = convert_layout(wrapped, value_hbm_swizzling)
    if scale_hbm_swizzling is not None:
        made = convert_layout(made, scale_hbm_swizzling)
    return wrapped, made, metadata


def _with_scales(
    x: Tensor, word: torch.dtype, scale: torch.dtype, axis: int, across: bool
) -> tuple[Tensor, Tensor]:
    """(values, scales) of blocks along `axis`; `across`: values are adjacent along the other axis,
    rounded with the scales of blocks along it, which are the same for `normalize_blocks`."""
    block = BLOCK_SIZES[scale]
    values, scales = downcast_to_mxfp(x, word, axis, scale, block)
    if across:
        values = downcast_to_mxfp(x.mT.contiguous(), word, axis, scale, block)[0].mT
    return values, scales
