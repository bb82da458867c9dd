"""Launches on a CUDA driver that only records: the layout of a kernel's parameters."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.runtime.launch.test_cuda import FakeCuda
from tools.launch_programs.arguments import Arguments
from tools.launch_programs.launches import Call, Live, Mismatch, describe, random_call
from tritium.launch.packing import leaves, packer, parameters
from tritium.runtime import driver


def check_layout(source: random.Random, live: Live, arguments: Arguments) -> None:
    """Launch a kernel with random arguments until it is launched natively, and read what the
    driver was given."""
    call = random_call(source, live, arguments)
    if any(kind == "fp16" and abs(float(value)) == 1e30 for kind, value in call.facts.slots):
        return  # a GPU's launcher refuses what overflows, as Triton's does
    out, counts = call.buffers("cpu")
    wanted = [out.data_ptr().to_bytes(8, "little"), counts.data_ptr().to_bytes(8, "little")]
    for kind, value in call.facts.slots:
        wanted += bytes_of(kind, value)
    device = FakeCuda()
    device.sizes = [len(parameter) for parameter in wanted]
    args, kwargs = call.arguments(live.kernel.parameters)
    driver.set_active(device)
    try:
        for _ in range(4):
            compiled = live.function[(3, 2)](out, counts, *args, **kwargs)
    finally:
        driver.reset_active()
    _check_packed(live, call, compiled)
    for recorded in device.recorded:
        found = recorded["parameters"]
        pairs = list(zip(found, wanted, strict=True))
        if [f for f, w in pairs if w != MAP] != [w for _, w in pairs if w != MAP]:
            raise Mismatch(f"{describe(live, call)}: parameters {found}, wanted {wanted}")
        if (recorded["x"], recorded["y"], recorded["z"]) != (3, 2, 1):
            raise Mismatch(f"{describe(live, call)}: the grid is {recorded}")


def _check_packed(live: Live, call: Call, compiled: Any) -> None:
    """Compare the numbers that the launcher in Python packs for a kernel."""
    kinds, types = parameters(compiled.src, compiled.metadata)
    values = [None, None, *call.values()]
    flat = leaves(values, types) if types else values
    taken = [(kind, v) for kind, v in zip(kinds, flat, strict=True) if kind is not None][2:]
    for (param, value), (kind, wanted) in zip(taken, call.facts.slots, strict=True):
        if kind != param[1]:
            raise Mismatch(f"{describe(live, call)}: the type of {param} is {kind}")
        if kind[0] in "*t":
            continue
        buffer = bytearray(8)
        packer(kind, param[0])(buffer, 0, value)
        found, expected = bytes(buffer), bytes_of(kind, wanted)[0].ljust(8, b"\0")
        if found != expected:
            raise Mismatch(f"{describe(live, call)}: {param} is {found}, wanted {expected}")


MAP = bytes(128)
"""Stands for a tensor map, whose bytes are the driver's."""


def bytes_of(kind: str, value: Any) -> list[bytes]:
    """The kernel's parameters for one value."""
    if kind.startswith("tensordesc"):
        sizes = [int(size).to_bytes(4, "little") for size in value.shape]
        return [MAP, *sizes, *(int(s).to_bytes(8, "little") for s in value.strides)]
    if kind.startswith("*"):
        return [value.to_bytes(8, "little")]
    if kind.startswith("fp"):
        return [np.dtype(f"f{int(kind[2:]) // 8}").type(float(value)).tobytes()]
    size = max(int(kind[1:]) // 8, 1)
    return [int(value).to_bytes(size, "little", signed=kind[0] == "i")]
