"""Tensor maps that a kernel makes itself, in memory that the launcher supplies, and sums by the
bulk copy engine.

A map's place is written again whenever its op runs. The value of a descriptor made of it is a
`MapPlace`, so that reference semantics see what the place holds when a copy starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.tensor_maps import BYTES
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, opaque, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_attr, operand, variadic
from tritium.ops.memory import Context, EvaluationError
from tritium.ops.ttir.memory import PaddingOption, Tile

_PLACE = ir.pointer_to(ir.i8)
_FIRST = 1 << 60
"""The first of the addresses that reference semantics give to places, which no array has."""


@dataclass
class Maps:
    """The maps of one program: what each place holds, and the places that were fenced since."""

    places: dict[int, int] = field(default_factory=dict[int, int])
    contents: dict[int, Tile] = field(default_factory=dict[int, Tile])
    visible: set[int] = field(default_factory=set[int])

    def place_of(self, op: Op) -> int:
        """The address that an allocation has, always the same."""
        return self.places.setdefault(id(op), _FIRST + BYTES * len(self.places))


@dataclass(frozen=True)
class MapPlace:
    """A descriptor by the place of its map; the strides of `Tile` are in elements."""

    maps: Maps
    address: int

    def at(self, offsets: Any) -> Tile:
        """The tile that starts at `offsets`."""
        return self.tile.at(offsets)

    @property
    def padding(self) -> PaddingOption:
        """The padding value that loads return beyond the bounds."""
        return self.tile.padding

    @property
    def tile(self) -> Tile:
        """The current contents of the place."""
        if self.address not in self.maps.visible:
            raise EvaluationError("a tensor map is used without a fence after it was written")
        return self.maps.contents[self.address]


class GlobalScratchAllocOp(Op):
    """Memory of this program alone, from what the launcher supplies: the same at each execution."""

    name = "ttg.global_scratch_alloc"
    effects = (opaque(GLOBAL),)
    syntax = "attrs : type(result)"
    nbytes = i32_attr()
    alignment = i32_attr()

    @classmethod
    def infer(cls, *, nbytes: int, alignment: int, result: ir.Type | None = None) -> ir.Type:
        if nbytes < 1 or alignment < 1 or alignment & (alignment - 1):
            raise OpError(
                f"{cls.name}: {nbytes} bytes aligned to {alignment}; at least one byte, and a "
                "power of two are required"
            )
        return _PLACE if result is None else result

    def evaluate(self, context: Context) -> int:
        return context.state(Maps).place_of(self)


class TensormapCreateOp(Op):
    """Write the map of a tensor at `global_address` to `desc_ptr`. All lists have the fastest axis
    first; `global_stride` is in bytes and leaves that axis out. What the numbers mean is said in
    `tritium.ir.tensor_maps`; `fill_mode` is 1 for NaN beyond the bounds."""

    name = "ttng.tensormap_create"
    capabilities = 90, 999
    effects = (writes(GLOBAL, "desc_ptr"), opaque(GLOBAL))
    syntax = (
        "$desc_ptr, $global_address, '[' $box_dim ']', '[' $global_dim ']', "
        "'[' $global_stride ']', '[' $element_stride ']' attrs : functional"
    )
    desc_ptr = operand()
    global_address = operand()
    box_dim = variadic()
    global_dim = variadic()
    global_stride = variadic()
    element_stride = variadic()
    elem_type = i32_attr()
    interleave_layout = i32_attr()
    swizzle_mode = i32_attr()
    fill_mode = i32_attr()

    @classmethod
    def infer(
        cls, desc_ptr: ir.Type, global_address: ir.Type, box_dim: Sequence[ir.Type],
        global_dim: Sequence[ir.Type], global_stride: Sequence[ir.Type],
        element_stride: Sequence[ir.Type], **attrs: Any,
    ) -> None:  # fmt: skip
        rank = len(box_dim)
        lists = [*box_dim, *global_dim, *element_stride]
        if not 1 <= rank <= 5 or lists != [ir.i32] * (3 * rank):
            raise OpError(
                f"{cls.name}: box, shape and steps are ({describe(*lists)}); for each of 1 to 5 "
                "axes one i32 is required"
            )
        if [*global_stride] != [ir.i64] * (rank - 1):
            raise OpError(
                f"{cls.name}: strides are ({describe(*global_stride)}); {rank - 1} of i64 needed"
            )
        if not ir.is_pointer(desc_ptr) or not ir.is_pointer(global_address):
            raise OpError(
                f"{cls.name}: {describe(desc_ptr, global_address)}; two pointers are required"
            )

    def evaluate(
        self, context: Context, desc_ptr: Any, global_address: Any, box_dim: tuple[Any, ...],
        global_dim: tuple[Any, ...], global_stride: tuple[Any, ...], element_stride: Any,
    ) -> None:  # fmt: skip
        maps, address = context.state(Maps), int(desc_ptr)
        size = SIZES[self.elem_type]
        if any(int(stride) % 16 for stride in global_stride) or int(global_address) % 16:
            raise EvaluationError(
                f"a tensor map of address {int(global_address):#x} and strides of "
                f"{[int(s) for s in global_stride]} bytes; multiples of 16 are required"
            )
        strides = tuple(int(s) // size for s in reversed(global_stride))
        padding = PaddingOption.PAD_NAN if self.fill_mode else PaddingOption.PAD_ZERO
        shape = tuple(int(s) for s in reversed(global_dim))
        maps.contents[address] = Tile(int(global_address), shape, (*strides, 1), padding=padding)
        maps.visible.discard(address)


SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 9: 8, 10: 2}
"""Bytes of an element, by the number of its type."""


class TensormapFenceproxyAcquireOp(Op):
    """Fence: later copies see what was written to `desc_ptr`."""

    name = "ttng.tensormap_fenceproxy_acquire"
    capabilities = 90, 999
    effects = (writes(GLOBAL, "desc_ptr"), opaque(GLOBAL))
    syntax = "$desc_ptr attrs : type(desc_ptr)"
    desc_ptr = operand()

    @classmethod
    def infer(cls, desc_ptr: ir.Type) -> None:
        if not ir.is_pointer(desc_ptr):
            raise OpError(f"{cls.name}: {describe(desc_ptr)}; a pointer is required")

    def evaluate(self, context: Context, desc_ptr: Any) -> None:
        context.state(Maps).visible.add(int(desc_ptr))


class ReinterpretTensorDescOp(Op):
    """The descriptor whose map is at `rawDesc`."""

    name = "ttng.reinterpret_tensor_descriptor"
    syntax = "$rawDesc attrs : type(rawDesc) 'to' type(result)"
    rawDesc = operand()

    @classmethod
    def infer(cls, rawDesc: ir.Type, *, result: ir.Type) -> ir.Type:
        if not ir.is_pointer(rawDesc) or not isinstance(result, ir.TensorDescType):
            raise OpError(
                f"{cls.name}: from {describe(rawDesc)} to {describe(result)}; from a pointer to a "
                "descriptor is required"
            )
        return result

    def evaluate(self, context: Context, rawDesc: Any) -> MapPlace:
        return MapPlace(context.state(Maps), int(rawDesc))
