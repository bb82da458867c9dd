"""Comparisons of kernels in exact numbers: `compare_exactly` for functions that launch them, and
`Outputs` for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from tritium import knobs
from tritium.errors import TritonError
from tritium.sanitize.kinds import EXACT


class ExactDifference(TritonError, AssertionError):
    """Two kernels do not compute the same.

    Attributes:
        differences: what differs, in words, one for each array.
    """

    def __init__(self, title: str, differences: list[str]):
        super().__init__("\n".join([title, *(f"  {line}" for line in differences)]))
        self.title, self.differences = title, differences

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.title, self.differences)


@contextmanager
def exact_numbers() -> Generator[None]:
    """Launches compute with exact numbers: what kernels store means nothing but in comparisons with
    what others store that get the same."""
    settings = vars(knobs.compilation)
    missing = object()
    before = settings.get("instrumentation_mode", missing)
    settings["instrumentation_mode"] = EXACT
    try:
        yield
    finally:
        del settings["instrumentation_mode"]
        if before is not missing:
            settings["instrumentation_mode"] = before


def compare_exactly(first: Callable[..., Any], second: Callable[..., Any], *arguments: Any) -> None:
    """Check that two functions, which launch kernels, compute the same up to the order of sums and
    products: both get copies of the arguments, and what is in these afterwards, and what the
    functions return, must have the same bits. Raises `ExactDifference`.

    Args:
        first, second: called with the arguments.
        arguments: NumPy arrays and torch tensors are copied for each, others are passed on.
    """
    found: list[dict[str, Any]] = []
    with exact_numbers():
        for function in (first, second):
            own = [_copied(argument) for argument in arguments]
            result = function(*own)
            several = isinstance(result, tuple | list)
            results = cast("Sequence[Any]", result) if several else (result,)
            found.append({
                **{f"argument {i}": bits_of(a) for i, a in enumerate(own) if _is_array(a)},
                **{f"result {i}": bits_of(r) for i, r in enumerate(results) if _is_array(r)},
            })  # fmt: skip
    if not found[0] and not found[1]:
        raise TypeError(
            "compare_exactly: no argument and no result is an array; nothing is compared"
        )
    differences = list(differing(*found))
    if differences:
        names = " and ".join(f"'{getattr(f, '__name__', f)}'" for f in (first, second))
        raise ExactDifference(f"{names} do not compute the same", differences)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> Generator[str]:
    """The differences between arrays of bits by name."""
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            yield f"{name}: only the {'second' if a is None else 'first'} has it"
        elif a.shape != b.shape or a.dtype != b.dtype:
            yield f"{name}: {8 * a.itemsize} bits {a.shape}, and {8 * b.itemsize} bits {b.shape}"
        elif (wrong := a != b).any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            yield (f"{name}: {int(wrong.sum())} of {wrong.size} elements differ, the first at "
                   f"index {index}")  # fmt: skip


def bits_of(array: Any) -> np.ndarray[Any, Any]:
    """The elements of an array or a tensor as unsigned integers."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        held = array.detach().cpu().contiguous()
        raw = held.reshape(-1).view(torch.uint8).numpy().reshape(-1)
        return raw.view(f"u{array.element_size()}").reshape(tuple(array.shape)).copy()
    held = np.array(array)  # in C order
    return np.ascontiguousarray(held).view(f"u{held.dtype.itemsize}").reshape(held.shape)


def _is_array(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    tensor = torch is not None and isinstance(value, torch.Tensor)
    return tensor or (isinstance(value, np.ndarray) and value.dtype.itemsize in (1, 2, 4, 8))


def _copied(value: Any) -> Any:
    if not _is_array(value):
        return value
    return cast(Any, np.array(cast(Any, value)) if isinstance(value, np.ndarray)
                else value.detach().clone())  # fmt: skip


class Outputs:
    """The contents of the arguments of a program's launches, after the last launch that got one of
    that name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    @contextmanager
    def recording(self) -> Generator[None]:
        """Launches compute with exact numbers, and what they leave is noted."""
        chain = knobs.runtime.launch_exit_hook
        assert isinstance(chain, knobs.HookChain)
        chain.add(self._launched)
        try:
            with exact_numbers():
                yield
        finally:
            chain.remove(self._launched)

    def _launched(self, metadata: Any) -> None:
        self._note(metadata.arguments.items())

    def _note(self, arguments: Iterable[tuple[str, Any]]) -> None:
        for name, value in arguments:
            if isinstance(value, tuple | list):
                members = cast("Sequence[Any]", value)
                self._note((f"{name}[{i}]", member) for i, member in enumerate(members))
            elif _is_array(base := getattr(value, "base", None) if _is_described(value) else value):
                self.arrays[name] = bits_of(base)

    def save(self, file: Path) -> None:
        """Write the arrays."""
        with file.open("wb") as place:
            np.savez(place, **{f"={name}": array for name, array in self.arrays.items()})  # pyright: ignore

    @staticmethod
    def load(file: Path) -> dict[str, Any]:
        """Read them."""
        with np.load(file, allow_pickle=False) as found:
            return {name.removeprefix("="): found[name] for name in found.files}


def _is_described(value: Any) -> bool:
    return hasattr(value, "block_shape")
