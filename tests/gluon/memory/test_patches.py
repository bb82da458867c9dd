"""Patches of convolutions (im2col copies): their descriptors, maps, copies, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import compiled, launcher
from tests.nvidia.support import in_order
from tritium.backends.base import BaseBackend
from tritium.backends.nvidia import tensormap
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
from tritium.runtime.specialize import native_specialize_impl

LAYOUT = block_layout([16, 64])
TEXT = f"tensordesc_im2col<fp16[16, 64],input_rank=4,{LAYOUT!r}>"


def described(shape: tuple[int, ...] = (2, 6, 8, 64), **changes: Any) -> TensorDescriptorIm2Col:
    given: dict[str, Any] = {
        "pixel_box_lower_corner": [-1] * (len(shape) - 2),
        "pixel_box_upper_corner": [-1] * (len(shape) - 2), **changes,
    }  # fmt: skip
    size, layout = given.pop("block_shape", [16, 64]), given.pop("layout", LAYOUT)
    return TensorDescriptorIm2Col.from_tensor(np.zeros(shape, np.float16), size, layout, **given)


@gluon.jit
def copy_kernel(x, out, image, row, column, right: gl.constexpr, down: gl.constexpr):
    memory = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x.block_type.nbytes)
    tma.async_load_im2col(x, [image, row, column, 0], [down, right], bar, memory)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(out, [0, 0], memory)
    tma.store_wait(0)


@gluon.jit
def start_kernel(x):
    memory = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x.nbytes_per_cta)
    tma.async_load_im2col(x, [0, 0, 0, 0], [0, 0], bar, memory)
    mbarrier.wait(bar, 0)


def copied(x: np.ndarray, start: tuple[int, int, int], right: int, down: int, **box: Any) -> Any:
    out = np.zeros((16, 64), x.dtype)
    made = TensorDescriptorIm2Col.from_tensor(x, [16, 64], LAYOUT, **box)
    launcher("interpreted")(copy_kernel, (1,), made, TensorDescriptor.from_tensor(
        out, [16, 64], LAYOUT), *start, right=right, down=down)  # fmt: skip
    return out


def test_pixels_go_on_in_the_next_row_and_image() -> None:
    x = np.arange(2 * 3 * 4 * 64).reshape(2, 3, 4, 64).astype(np.float16)
    found = copied(x, (0, 1, -1), 2, 1, pixel_box_lower_corner=[-1, -1],
                   pixel_box_upper_corner=[-1, 0], padding="nan")  # fmt: skip
    places = [(n, r, c) for n in range(2) for r in (-1, 0, 1) for c in range(-1, 4)][10:26]
    expected = np.full((16, 64), np.nan, np.float16)
    for i, (n, r, c) in enumerate(places):
        if r + 1 < 3 and c + 2 < 4:
            expected[i] = x[n, r + 1, c + 2]
    np.testing.assert_array_equal(found, expected)


def test_a_start_where_no_filter_begins_is_an_error() -> None:
    with pytest.raises(InterpreterError, match="filters begin at -1 to 6 along axis 2") as raised:
        copied(np.zeros((2, 6, 8, 64), np.float16), (0, 0, 7), 0, 0,
               pixel_box_lower_corner=[-1, -1], pixel_box_upper_corner=[-1, -1])  # fmt: skip
    assert "async_load_im2col" in str(raised.value)


def test_the_types_of_descriptors_say_how_many_axes_there_are() -> None:
    found = native_specialize_impl(BaseBackend, described((2, 4, 6, 8, 64)), False, True, True)
    assert found == (TEXT.replace("rank=4", "rank=5", 1), "")


def test_copies_in_the_ir_and_the_ptx() -> None:
    out = f"tensordesc<fp16[16, 64],{LAYOUT!r}>"
    kernel = compiled(copy_kernel, f"{TEXT} {out} i32 i32 i32", {"right": 1, "down": 2})
    in_order(kernel.asm["ttgir"], "!ttng.tensordesc_im2col<tensor<16x64xf16, #shared>, 4>",
             r"async_tma_copy_global_to_local .*\] offsets = \[")  # fmt: skip
    in_order(kernel.asm["ptx"], r"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier"
             r".*\{%r\d+, %r\d+, %r\d+, %r\d+\}.*\{%rs\d+, %rs\d+\};")  # fmt: skip
    meta = kernel.metadata.tensordesc_meta[0]
    assert meta["is_im2col"] and meta["rank"] == 4 and meta["block_size"] == [16, 64]


SHARED = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[1, 0]])


def test_types_say_where_filters_begin_if_blocks_share_the_positions() -> None:
    every = [described(layout=SHARED, **changes)
             for changes in ({}, {"element_strides": [1, 2, 1, 1]}, {"padding": "nan"})]
    found = {native_specialize_impl(BaseBackend, x, False, True, True)[0] for x in every}
    kind, corners = "tensordesc_im2col<fp16[16, 64],input_rank=4", "((-1, -1), (-1, -1)"
    assert found == {f"{kind},{corners}, (1, {step}, 1, 1)),{SHARED!r}>" for step in (1, 2)}
    kernel = compiled(start_kernel, min(found), num_ctas=2)
    in_order(kernel.asm["ttgir"], r"tensordesc_im2col<tensor<16x64xf16, #shared>, 4, "
             r"\[\[-1, -1\], \[-1, -1\], \[1, 1, 1, 1\]\]>",
             r"offsets = \[.*\] shape = \[%\w+, %\w+, %\w+, %\w+\]")  # fmt: skip
    assert kernel.metadata.tensordesc_meta[0]["block_size"] == [8, 64]


def test_positions_that_blocks_share_need_the_filters() -> None:
    text = TEXT.replace(repr(LAYOUT), repr(SHARED))
    with pytest.raises(CompilationError, match="the corners and steps of filters, are required"):
        compiled(start_kernel, text, num_ctas=2)


def test_the_driver_is_asked_for_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Driver:
        def __getattr__(self, name: str) -> Any:
            if name == "cuTensorMapEncodeIm2col":
                return lambda *args: asked.extend(args) or (0, "map")
            return int if name.startswith("cuuint") else Enumeration()

    class Enumeration:
        def __getattr__(self, name: str) -> str:
            return name

        def __call__(self, number: int) -> int:
            return number

    monkeypatch.setattr(tensormap, "library", Driver)
    monkeypatch.setattr(tensormap, "check", lambda found: found[1])
    meta = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [16, 64], "rank": 4,
            "is_im2col": True, "fp4_padded": False}  # fmt: skip
    made = described(element_strides=[1, 2, 3, 1], pixel_box_lower_corner=[-2, -1])
    assert tensormap.make(4096, made, meta) == "map"
    assert asked[1:10] == [
        4, 4096, [64, 8, 6, 2], [128, 1024, 6144], [-1, -2], [-1, -1], 64, 16, [1, 3, 2, 1],
    ]  # fmt: skip


WRONG: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "3 to 5 axes are required": ((8, 64), {}),
    r"\(positions, channels\) is required": ((2, 6, 8, 64), {"block_shape": [4, 4, 64]}),
    "pixel_box_lower_corner is None; 2 integers": (
        (2, 6, 8, 64), {"pixel_box_lower_corner": None}),
    "2 integers from -128 to 127": ((2, 6, 8, 64), {"pixel_box_upper_corner": [0, 200]}),
    "4 integers from 1 to 8 are required": ((2, 6, 8, 64), {"element_strides": [1, 9, 1, 1]}),
    "1 for channels": ((2, 6, 8, 64), {"element_strides": [1, 1, 1, 2]}),
    "must be 16-byte aligned": ((2, 6, 8, 63), {}),
    r"each thread block has \[16, 4\], of 16 bits .*, 8 elements": (
        (2, 6, 8, 64), {"block_shape": [16, 8],
                        "layout": gl.NVMMASharedLayout(0, 16, 2, cga_layout=[[0, 1]])}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_the_copy_engine_does_not_take(message: str) -> None:
    shape, changes = WRONG[message]
    with pytest.raises(ValueError, match=message):
        described(shape, **changes)


@gluon.jit
def tiled_kernel(x):
    memory = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    tma.async_load(x, [0, 0], mbarrier.allocate_mbarrier(), memory)


@gluon.jit
def offsets_kernel(x):
    memory = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tma.async_load_im2col(x, [0, 0, 0, 0], [0], bar, memory)


@pytest.mark.parametrize(("kernel", "message"), [
    (tiled_kernel, "a TensorDescriptor is required"),
    (offsets_kernel, "4 of i32 and 2 of i16 are required"),
])  # fmt: skip
def test_other_copies_are_refused(kernel: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, TEXT)
