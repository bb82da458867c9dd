"""Process state that a native launch relies on and checks each time: the active driver,
hooks, `debug`. It is written down as guards; where one fails, the launch goes through Python."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any

from tritium import knobs
from tritium.forking import ForkSafeLock
from tritium.launch.records import CONTEXT
from tritium.native.guards import Guard, holds, item_guard, write_guards
from tritium.native.records import Record, allocate

_numbers = itertools.count(1)

_POINTER = Record(("to", "ptr"))


class Context:
    """The current state of the process, for all kernels.

    `slot` is the address of a pointer to the `CONTEXT` record. Keys begin with the record's epoch,
    so that kernels found under one state are not found under another.
    """

    def __init__(self) -> None:
        self.slot, self._memory = allocate(_POINTER.size)
        self._epochs: dict[Any, int] = {}
        self._keep: Any = None
        self._guards: list[Guard] = []
        self._changing = ForkSafeLock()

    def refresh(self, drivers: Any, device: Callable[[], int] | None) -> None:
        """Take the state as it is now. `drivers` is the `DriverConfig`, `device` tells the active
        driver's current device."""
        with self._changing:
            self._refresh(drivers, device)

    def _refresh(self, drivers: Any, device: Callable[[], int] | None) -> None:
        if self._guards and all(map(holds, self._guards)):
            return
        state: dict[str, Any] = drivers.__dict__
        guards = [item_guard(state, "_active"), *_knob_guards()]
        # After the guards: what changes meanwhile breaks them.
        active, settings = drivers.active, knobs.runtime
        kind = (active, settings.debug, settings.add_stages_inspection_hook)
        if device is not None:
            guards.append(item_guard(sys.modules, "torch"))  # which knows the device and stream
        if len(self._epochs) > 64:
            self._epochs.clear()
        epoch = self._epochs.setdefault(kind, next(_numbers))
        where, memory = write_guards(guards)
        small = getattr(active, "tensor_is_small", None)
        record, own = allocate(CONTEXT.size)
        CONTEXT.write(
            record, epoch=epoch, device=0 if device is None else id(device), count=len(guards),
            guards=where, small=0 if small is None else id(small),
        )  # fmt: skip
        before = self._keep
        self._keep, self._guards = (memory, own, device, small, active), guards
        _POINTER.write(self.slot, to=record)
        del before


def _knob_guards() -> list[Guard]:
    """Guards on all settings that each launch asks for: `debug`, the hook of the stages and the
    two launch hooks."""
    group = knobs.runtime
    guards = [item_guard(*place) for place in knobs.places(group, "debug")]
    guards.append(item_guard(vars(group), "add_stages_inspection_hook"))
    for name in ("launch_enter_hook", "launch_exit_hook"):
        guards.append(item_guard(vars(group), name))
        hook = getattr(group, name)
        if isinstance(hook, knobs.HookChain):
            guards += [item_guard(vars(hook), "calls"), (hook.calls, None, None)]
    return guards


@functools.cache
def context() -> Context:
    """The process's."""
    return Context()
