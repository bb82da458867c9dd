"""Products of experts as they are compiled for Hopper, run by `simt` and compared with float64:
tiles with the ends of slices beside them, weights in MXFP4 that are widened in halves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

import tritium
from tests.kernels.support import close, integers, normal, torch
from tests.simt.backend.compiler import run_ttgir
from tests.simt.engine import descriptor
from tests.simt.hardware import Simt
from tests.support.launching import StubDriver, StubUtils
from tritium.experimental.gluon.nvidia import hopper as hopper_gluon
from tritium.ops.parsing import parse_module
from tritium.runtime import driver
from tritium.target import GPUTarget
from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels import matmul as products
from tritium_kernels import target_info
from tritium_kernels.matmul import PrecisionConfig, matmul
from tritium_kernels.matmul_details import apart, launch
from tritium_kernels.matmul_details.opt_flags import scoped_opt_flags_constraints
from tritium_kernels.moe_kernels import layouts as moe_layouts
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp_torch
from tritium_kernels.tensor import convert_layout, make_ragged_tensor_metadata, wrap_torch_tensor
from tritium_kernels.tensor_details import layout as layouts
from tritium_kernels.tensor_details.dtype import FP4

pytestmark = [pytest.mark.slow, pytest.mark.cpu]

@tritium.constexpr_function
def no() -> bool:
    """`is_cuda` for kernels that then have no text of the assembler, which `simt` does not run."""
    return False


H200 = target_info.Machine("cuda", 90, 132, 232448)
SIZES = 3, 64, 70, 80, 81, 0, 145
"""Rows of slices: of tiles of 64, and 16 beside them, some have all and some have too few."""


class Hopper(StubUtils):
    """A device that holds every program."""

    def load_binary(self, *_: Any) -> Any:
        return object(), object(), 255, 0, 1024

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        return {"max_shared_mem": H200.shared_bytes, "multiprocessor_count": H200.processors}


class HopperDriver(StubDriver):
    """A driver for Hopper whose launches `simt` runs (`runs`); `texts` has the ttgir of each."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = Hopper()
        self.texts: list[str] = []
        self.runs = True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def check_runs(self, metadata: Any) -> None:
        """Nothing: the code is not run by this machine's processor."""

    def _launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        def launched(gx: int, gy: int, gz: int, stream: Any, function: Any, packed: Any,
                     launch_metadata: Any, enter: Any, exit_: Any, *args: Any) -> None:  # fmt: skip
            self.texts.append(_text(src.fn))
            if not self.runs:
                return
            kept: list[Any] = []
            slots = list(_slots(args, (), src.constants, kept))
            own = re.search(r'"ttg.num-warps" = (\d+)', self.texts[-1])  # not those of partitions
            assert own is not None
            run_ttgir(
                parse_module(self.texts[-1]), int(own[1]), slots, (gx, gy, gz), Simt(32)
            )

        return launched


def _text(fn: Any) -> str:
    """The ttgir of the kernel that was compiled last."""
    caches = [cache for found in fn.device_caches.values() for cache in found[0].values()]
    return str(caches[-1].asm["ttgir"])


def _slots(value: Any, path: tuple[int, ...], constants: Any, kept: list[Any]) -> Iterator[int]:
    """The arguments of a kernel as machine words; `kept`: what they point to."""
    if path in constants:
        return
    if isinstance(value, hopper_gluon.TensorDescriptor):
        kept.append(descriptor(replace(value, base=value.base.view(torch.int16).numpy())))
        yield from (kept[-1].ctypes.data, *value.shape, *value.strides)
    elif isinstance(value, TensorDescriptor):
        array = value.base.view(torch.int16).numpy()
        kept.append(descriptor(array))
        yield from (kept[-1].ctypes.data, *value.shape, *value.strides)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _slots(item, (*path, index), constants, kept)
    elif isinstance(value, torch.Tensor):
        yield value.data_ptr()
    else:
        yield int(value) & 0xFFFFFFFF


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> Iterator[HopperDriver]:
    """The active driver, and a library that takes CPU tensors for those of an H200."""
    made = HopperDriver()
    monkeypatch.setattr(target_info, "machine", lambda: H200)
    monkeypatch.setattr(target_info, "cuda_capability_geq", lambda *v: tuple(v) <= (9, 0))
    monkeypatch.setattr(launch, "processors", lambda device: 3)
    for module in (launch, apart):
        monkeypatch.setattr(module, "on", lambda *_: nullcontext())
    monkeypatch.setattr(apart, "processors", lambda device: 3)
    monkeypatch.setattr(products, "clear_other_rows", lambda y, metadata: y.zero_())
    driver.set_active(made)
    try:
        yield made
    finally:
        driver.reset_active()


def _given(k: int) -> tuple[Any, Any, Any]:
    """Metadata of the slices, rows, their order (one of them is from nowhere)."""
    rows = sum(SIZES)
    ragged = make_ragged_tensor_metadata(torch.tensor(SIZES), rows)
    gather = integers(rows, rows).int()
    gather[5] = -1
    return ragged, normal(rows, k, dtype=torch.bfloat16), gather


def _right(x: Any, gather: Any, w: Any) -> Any:
    rows = x.double()
    if gather is not None:
        rows = torch.where((gather >= 0)[:, None], rows[gather.long()], 0.0)
    return torch.cat([a @ b for a, b in zip(rows.split(SIZES), w.double(), strict=True)])


@pytest.mark.parametrize(
    ("tail", "persistent"), [(16, False), (16, True), (64, False), (64, True)]
)
def test_ends_beside_tiles(request: pytest.FixtureRequest, tail: int, persistent: bool) -> None:
    """Ends of 16 rows are columns of the product, those of 64 its rows."""
    ragged, x, gather = _given(96)
    w = normal(len(SIZES), 96, 136, dtype=torch.bfloat16)
    hopper: HopperDriver = request.getfixturevalue("hopper")
    with scoped_opt_flags_constraints({
        "block_m": 64, "tail_m": tail, "block_n": 64, "block_k": 32, "num_warps": 4,
        "num_stages": 2, "is_persistent": persistent,
    }):  # fmt: skip
        y = matmul(x, w, None, ragged, gather_indx=gather)
    driver.reset_active()
    close(y, _right(x, gather, w))
    (text,) = hopper.texts
    assert text.count("ttng.warp_group_dot ") >= 3 and "async_tma_copy_global_to_local" in text


@pytest.mark.parametrize("tail", [16, 32])
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("gathers", [False, True])
def test_weights_widened_in_halves(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tail: int, runs: bool,
    gathers: bool,
) -> None:  # fmt: skip
    """Widened weights are not stored to shared memory where the assembler's text widens them; rows
    that are not gathered are copied by descriptors; the product of a half runs on while the other
    one is widened."""
    ragged, x, gather = _given(208)
    if not gathers:
        gather = None
    values, scales = downcast_to_mxfp(
        normal(len(SIZES), 208, 96, dtype=torch.bfloat16), torch.uint8, 1
    )
    scales[2, 1] = 0  # 2**-127
    w = upcast_from_mxfp_torch(values, scales, torch.float32, 1)
    packed = convert_layout(wrap_torch_tensor(values, FP4), layouts.HopperMXValueLayout(-2))
    scale = convert_layout(wrap_torch_tensor(scales), layouts.HopperMXScaleLayout(-2))
    hopper: HopperDriver = request.getfixturevalue("hopper")
    hopper.runs = runs
    if runs:
        monkeypatch.setattr(moe_layouts, "is_cuda", no)
    with scoped_opt_flags_constraints({
        "block_m": 64, "tail_m": tail, "block_n": 64 if runs else 128, "num_warps": 4,
        "num_stages": 2,
    }):  # fmt: skip
        y = matmul(x, packed, None, ragged, gather_indx=gather,
                   precision_config=PrecisionConfig(b_mx_scale=scale))  # fmt: skip
    driver.reset_active()
    (text,) = hopper.texts
    loops = [loop.split("scf.yield")[0] for loop in text.split("scf.for")[1:]]
    assert [loop.count("ttng.warp_group_dot ") for loop in loops] == [4, 2]
    assert gathers or all("async_tma_copy_global_to_local" in loop for loop in loops)
    assert runs or [re.findall(r"dot_wait .*pendings = (\d)", loop) for loop in loops] == [
        ["2", "2"], ["1", "1"]
    ]  # fmt: skip
    if runs:
        close(y, _right(x, gather, w))
    else:
        assert not any("local_alloc %" in loop for loop in loops)


@pytest.mark.parametrize("block_n", [128, 192])
@pytest.mark.parametrize("form", ["bfloat16", "mxfp4"])
@pytest.mark.parametrize("scatters", [False, True])
def test_warps_apart(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, form: str, block_n: int,
    scatters: bool,
) -> None:  # fmt: skip
    """One warp group copies for the others: with an odd number of steps or one that is no whole
    one, rows that are gathered or scattered, with bias and factors."""
    k, n = (192, 136) if form == "bfloat16" else (208 if scatters else 192, 200)
    ragged, x, gather = _given(k)
    rows = len(x)
    w: Any = normal(len(SIZES), k, n, dtype=torch.bfloat16)
    exact, given, config = w, w, PrecisionConfig()
    if form == "mxfp4":
        values, scales = downcast_to_mxfp(w, torch.uint8, 1)
        scales[2, 1] = 0  # 2**-127
        exact = upcast_from_mxfp_torch(values, scales, torch.float32, 1)
        given = convert_layout(wrap_torch_tensor(values, FP4), layouts.HopperMXValueLayout(-2))
        scale = convert_layout(wrap_torch_tensor(scales), layouts.HopperMXScaleLayout(-2))
        config = PrecisionConfig(b_mx_scale=scale)
        monkeypatch.setattr(moe_layouts, "is_cuda", no)
    more: dict[str, Any] = {"gather_indx": gather}
    want = _right(x, None if scatters else gather, exact)
    bias = None
    if scatters:
        bias = normal(len(SIZES), n)
        betas, gammas = normal(rows), normal(rows)
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).int()
        more = {"scatter_indx": order, "betas": betas, "gammas": gammas}
        of_rows = torch.repeat_interleave(bias.double(), torch.tensor(SIZES), dim=0)
        scattered = (want + of_rows * betas[:, None]) * gammas[:, None]
        want = torch.zeros_like(scattered).index_copy_(0, order.long(), scattered)
    hopper: HopperDriver = request.getfixturevalue("hopper")
    with scoped_opt_flags_constraints({
        "apart": True, "block_m": 64, "tail_m": 16, "block_n": block_n,
    }):  # fmt: skip
        y = matmul(x, given, bias, ragged, precision_config=config, **more)
    driver.reset_active()
    close(y, want)
    assert "ttg.warp_specialize" in hopper.texts[-1]
