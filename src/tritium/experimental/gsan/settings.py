"""The process's settings of pools: checked when given, until an allocation or `freeze_config` fixes
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from tritium import knobs

MAX_DEVICES = 64


class ShareableHandleType(IntEnum):
    """The kind of handle by which other processes may map an allocation; the driver's numbers."""

    POSIX_FILE_DESCRIPTOR = 0x1
    FABRIC = 0x8


@dataclass(frozen=True)
class Settings:
    """The settings.

    Attributes:
        ranks: the number among all processes' devices of each device that may have allocations;
            None for any device.
        handle_type: None where nobody has chosen.
    """

    ranks: Mapping[int, int] | None = None
    handle_type: ShareableHandleType | None = None

    @property
    def handles(self) -> ShareableHandleType:
        """The kind of handle of new allocations: the chosen one, or that of torch's allocator."""
        if self.handle_type is not None:
            return self.handle_type
        options = (knobs.getenv("PYTORCH_CUDA_ALLOC_CONF") or "").replace(" ", "").split(",")
        fabric = "fabric_handles:True" in options
        return ShareableHandleType.FABRIC if fabric else ShareableHandleType.POSIX_FILE_DESCRIPTOR

    @property
    def devices(self) -> int:
        """The devices that may have allocations, as bits."""
        if self.ranks is None:
            return (1 << MAX_DEVICES) - 1
        return sum(1 << device for device in self.ranks)


class State:
    """The current settings.

    Attributes:
        changed: told of new settings, and raises where they cannot be used.
        in_use: tells whether an allocation was made with them.
    """

    def __init__(self) -> None:
        self.settings, self._frozen = Settings(), False
        self.changed: Callable[[Settings], None] | None = None
        self.in_use: Callable[[], bool] | None = None

    @property
    def frozen(self) -> bool:
        """True if the settings stay as they are."""
        return self._frozen or (self.in_use is not None and self.in_use())

    def freeze(self) -> None:
        """Let the settings stay as they are."""
        self._frozen = True

    def set(self, settings: Settings) -> None:
        """Replace the settings."""
        if self.changed is not None:
            self.changed(settings)
        self.settings = settings


state = State()


def configure(
    *,
    device_ranks: dict[int, int] | None = None,
    num_devices: int | None = None,
    rng_seed: int | None = None,
    clock_buffer_size: int | None = None,
    handle_type: ShareableHandleType | None = None,
) -> None:
    """Change the settings of pools; None leaves one as it is.

    Args:
        device_ranks: the number among all processes' devices, below `num_devices`, of each of this
            process's devices. Pools give memory of these devices alone.
        num_devices: the number of all processes' devices; given with `device_ranks`.
        rng_seed, clock_buffer_size: of the reference's samples of reads and of its history of
            atomic operations. They are checked and change nothing: here nothing is drawn at random,
            and there is no history.
        handle_type: the kind of handle that allocations can be shared by. By default the file
            descriptor, or the fabric's where `PYTORCH_CUDA_ALLOC_CONF` has `fabric_handles:True`.

    Raises:
        RuntimeError: after the first allocation, or `freeze_config`.
        TypeError, ValueError: for an argument that is none of these.
    """
    ranks = state.settings.ranks
    if (device_ranks is None) != (num_devices is None):
        given, other = ("device_ranks", "num_devices")[:: 1 if num_devices is None else -1]
        raise ValueError(f"configure: {given} is given without {other}; they go together")
    if num_devices is not None:
        count = _integer("num_devices", num_devices, 1, MAX_DEVICES + 1)
        ranks = _ranks(device_ranks, count)
    if rng_seed is not None:
        _integer("rng_seed", rng_seed, 0, 1 << 32)
    if clock_buffer_size is not None:
        _integer("clock_buffer_size", clock_buffer_size, 1, 1 << 31)
    if handle_type is not None:
        numbers = [kind.value for kind in ShareableHandleType]
        if _integer("handle_type", handle_type, 0, 1 << 31) not in numbers:
            names = " or ".join(f"ShareableHandleType.{kind.name}" for kind in ShareableHandleType)
            raise ValueError(f"configure: handle_type is {handle_type!r}; expected {names}")
        handle_type = ShareableHandleType(handle_type)
    if state.frozen:
        raise RuntimeError("configure: the settings of pools are frozen: by freeze_config, or by "
                           "an allocation")  # fmt: skip
    chosen = state.settings.handle_type if handle_type is None else handle_type
    state.set(replace(state.settings, ranks=ranks, handle_type=chosen))


def freeze_config() -> None:
    """Let the settings of pools stay as they are: `configure` raises `RuntimeError` from now on."""
    state.freeze()


def _integer(name: str, value: Any, least: int, end: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"configure: {name} is {value!r}; expected an int")
    if not least <= value < end:
        raise ValueError(f"configure: {name} is {value}; expected {least} to {end - 1}")
    return value


def _ranks(given: Any, count: int) -> dict[int, int]:
    if not isinstance(given, dict) or not given:
        raise (TypeError if not isinstance(given, dict) else ValueError)(
            f"configure: device_ranks is {given!r}; expected a dict from devices to their numbers"
        )
    ranks: dict[int, int] = {}
    for device, rank in given.items():  # pyright: ignore[reportUnknownVariableType]
        device = _integer("a device of device_ranks", device, 0, MAX_DEVICES)
        rank = _integer(f"device_ranks[{device}]", rank, 0, count)
        if rank in ranks.values():
            raise ValueError(f"configure: device_ranks has two devices of number {rank}")
        ranks[device] = rank
    return ranks
