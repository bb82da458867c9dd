"""Comparison of results with a reference, and inputs for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.numerics import compute_actual_scale as compute_actual_scale


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

    An element's error is relative to its magnitude, but at least to a hundredth of the largest
    magnitude or of 1, whichever is less: elements near 0 do not count too much. NaN and infinities
    must be the same in both. Limits that are not given are 2e-2 and 4e-3.
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
    rms = x.square().mean().sqrt()
    error = (x - y).abs() / torch.maximum(x.abs(), x.abs().max().clamp(max=1.0) * 1e-2 + 1e-30)
    error_rms = (x - y).square().mean().sqrt() / (rms + 1e-30)
    worst = error.max()
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
