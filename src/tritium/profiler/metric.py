"""Metrics as programs give them: numbers, arrays and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any, cast

_INTEGRAL = ("bytes",)
FLOPS_WIDTHS = (8, 16, 32, 64)
_REAL = ("flops", *(f"flops{width}" for width in FLOPS_WIDTHS))


def metrics_of(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Metrics as numbers or lists of numbers; text that says a number and tensors are read (which
    waits for them). `bytes` is an integer. Raises `TypeError` for another value."""
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{where}: metrics is {given!r:.80}; a dict of numbers is required")
    return {str(name): _value(name, value, where) for name, value in given.items()}


def transform_tensor_metrics(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics that are known, and those that a device adds later: none, as tensors are read at
    once. Raises as `metrics_of`."""
    return metrics_of(metrics, "transform_tensor_metrics"), {}


def set_metric_kernels() -> None:
    """Choose the kernels that write metrics of tensors to the profiler's memory: it has none, as
    `transform_tensor_metrics` reads tensors at once."""


def is_metric(value: Any) -> bool:
    """True if a value of `launch_metadata` is a metric and no other fact."""
    return isinstance(value, Number) or hasattr(value, "tolist")


def _value(name: str, value: Any, where: str) -> Any:
    if hasattr(value, "tolist"):  # a tensor or an array
        value = value.reshape(-1).tolist()
        value = value[0] if len(value) == 1 else value
    if isinstance(value, str):
        value = _number(value)
    if isinstance(value, (list, tuple)):
        items = [_value(name, item, where) for item in cast("list[Any]", value)]
        return [*map(float, items)] if any(isinstance(n, float) for n in items) else items
    if not isinstance(value, Number) or isinstance(value, complex):
        raise TypeError(f"{where}: metrics[{name!r}] is {value!r:.80}; a number is required")
    number: Any = value
    if name in _INTEGRAL or isinstance(number, bool):
        return int(number)
    return float(number) if name in _REAL or not isinstance(number, int) else number


def _number(text: str) -> Any:
    """The number that a text says; the text where it says none."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text
