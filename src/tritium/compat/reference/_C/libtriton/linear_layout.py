"""`LinearLayout` with the reference's method names, over `tritium.ir.layouts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritium.ir.layouts import linear

from . import layout_views

Bases = Sequence[tuple[str, Sequence[Sequence[int]]]]


class LinearLayout:
    """A linear map over bits from named input dimensions to named output dimensions."""

    def __init__(self, layout: linear.LinearLayout | None = None):
        self._layout = linear.LinearLayout.empty() if layout is None else layout

    @staticmethod
    def identity_1d(size: int, inDim: str, outDim: str) -> LinearLayout:
        """`outDim = inDim`, for `size` values (a power of two)."""
        return LinearLayout(linear.LinearLayout.identity(size, inDim, outDim))

    @staticmethod
    def strided_1d(size: int, stride: int, inDim: str, outDim: str) -> LinearLayout:
        """`outDim = stride * inDim`; both numbers are powers of two."""
        if stride < 1 or stride & (stride - 1) or size < 1 or size & (size - 1):
            raise ValueError(f"strided_1d: size {size} and stride {stride} must be powers of two")
        images = [(stride << bit,) for bit in range(size.bit_length() - 1)]
        layout = linear.LinearLayout.of({inDim: images}, {outDim: stride * size})
        return LinearLayout(layout)

    @staticmethod
    def zeros_1d(size: int, inDim: str, outDim: str, outDimSize: int = 1) -> LinearLayout:
        """`outDim = 0` for `size` values."""
        return LinearLayout(linear.LinearLayout.zeros(size, inDim, outDim, outDimSize))

    @staticmethod
    def from_bases(
        bases: Bases,
        out_dim_names: Sequence[str],
        out_dim_sizes: Sequence[int] | None = None,
        require_surjective: bool = True,
    ) -> LinearLayout:
        """From the images of 1, 2, 4, ... of each input dimension.

        Raises `ValueError` for bad sizes, images out of range, and (unless told otherwise) a layout
        that does not reach every output.
        """
        outs: Any = list(out_dim_names)
        for name, images in bases:
            if any(len(image) != len(outs) for image in images):
                raise ValueError(
                    f"from_bases: the images of {name} are {list(images)}; each needs a number for "
                    f"each of the output dimensions {', '.join(outs)}"
                )
        if out_dim_sizes is not None:
            outs = dict(zip(out_dim_names, out_dim_sizes, strict=True))
        layout = linear.LinearLayout.of(dict(bases), outs)
        if require_surjective and not layout.is_surjective:
            raise ValueError("from_bases: the layout does not reach every output "
                             "(require_surjective=False allows that)")  # fmt: skip
        return LinearLayout(layout)

    @property
    def bases(self) -> list[tuple[str, list[list[int]]]]:
        """Each input dimension with the images of 1, 2, 4, ...."""
        names = self._layout.in_names
        return [(n, [list(image) for image in self._layout.bases(n)]) for n in names]

    @property
    def out_dims(self) -> list[tuple[str, int]]:
        """The output dimensions with their sizes."""
        return [(name, self._layout.out_size(name)) for name in self._layout.out_names]

    @property
    def num_in_dims(self) -> int:
        """The number of input dimensions."""
        return len(self._layout.in_names)

    @property
    def num_out_dims(self) -> int:
        """The number of output dimensions."""
        return len(self._layout.out_names)

    def get_in_dim_names(self) -> list[str]:
        """The input dimensions' names."""
        return list(self._layout.in_names)

    def get_out_dim_names(self) -> list[str]:
        """The output dimensions' names."""
        return list(self._layout.out_names)

    def is_surjective(self) -> bool:
        """True if every output is reached."""
        return bool(self._layout.is_surjective)

    def is_injective(self) -> bool:
        """True if no two inputs have the same output."""
        return bool(self._layout.is_injective)

    def is_invertible(self) -> bool:
        """True if the layout is injective and surjective."""
        return bool(self._layout.is_invertible)

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """The outputs for an input of each dimension."""
        return {name: int(value) for name, value in self._layout.apply(inputs).items()}

    def compose(self, other: LinearLayout) -> LinearLayout:
        """`other` after this layout."""
        return LinearLayout(self._layout.compose(other._layout))

    def invert(self) -> LinearLayout:
        """The layout from outputs to inputs. Raises `ValueError` if there is none."""
        if not self.is_invertible():
            raise ValueError("invert: the layout is not invertible")
        return LinearLayout(self._layout.inverse())

    def pseudoinvert(self) -> LinearLayout:
        """A layout from outputs to inputs that have them. Raises `ValueError` if one has none."""
        outputs = linear.LinearLayout.empty()
        for name, size in self.out_dims:
            outputs = outputs * linear.LinearLayout.identity(size, name, name)
        return LinearLayout(outputs.invert_and_compose(self._layout))

    def get_matrix_view(self) -> list[list[int]]:
        """The matrix over bits: a row for each bit of the outputs, a column for each of the inputs,
        of each dimension the lowest first."""
        columns = [image for _, images in self.bases for image in images]
        return [
            [image[i] >> bit & 1 for image in columns]
            for i, (_, size) in enumerate(self.out_dims)
            for bit in range(size.bit_length() - 1)
        ]

    def get_distributed_view(self, use_hw_view: bool) -> str:
        """Text of a layout from `register`, `lane`, `warp` and `block` to a tensor: the tensor with
        who holds each element (`T3:1`, thread 3 in register 1), or, with `use_hw_view`, for each
        warp a row of its lanes' elements for each register. Raises `ValueError` for others."""
        return layout_views.distributed(self._layout, use_hw_view)

    def get_shared_view(self, use_hw_view: bool) -> str:
        """Text of a layout from `offset` and `block` to a tensor: the elements in the order of the
        offsets in the tensor's shape, or, with `use_hw_view`, a line for each offset. Raises
        `ValueError` for others."""
        return layout_views.shared(self._layout, use_hw_view)

    def invert_and_compose(self, other: LinearLayout) -> LinearLayout:
        """The layout from this one's inputs to the inputs of `other` with the same output."""
        return LinearLayout(self._layout.invert_and_compose(other._layout))

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        return LinearLayout(self._layout * other._layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearLayout) and self._layout == other._layout

    def __hash__(self) -> int:
        return hash(self._layout)

    def __repr__(self) -> str:
        lines: list[str] = [""]
        for name, images in self.bases:
            found = [f"{name}={1 << bit} -> ({', '.join(map(str, image))})"
                     for bit, image in enumerate(images)]  # fmt: skip
            lines.append(" - " + "\n   ".join(found or [f"{name} is a size 1 dimension"]))
        sizes = ", ".join(f"{name} (size {size})" for name, size in self.out_dims)
        return "\n".join([*lines, f"where out dims are: [{sizes}]"])
