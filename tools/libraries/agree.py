"""Run what `find` found, natively and interpreted, on the same numbers.

    python -m tools.libraries.agree FOLDER FOUND.jsonl [--results RESULTS.jsonl]

Prints a line for each launch that differs, and at the end how many launches were the same, how many
the interpreter refused (accesses outside of the arguments, mostly) and how many did not compile.
Programs that write where others do may differ with reason; so may 16-bit floats where "in float32:
same" stands behind the arguments (sums in another order). Exits with 1 if any differed.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tools.libraries import loading

_SIZE = 1 << 17
_BEFORE = 1 << 15  # elements that an argument's memory has before its first one
_TYPES = {
    "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i1": "bool", "u8": "uint8",
    "i8": "int8", "i32": "int32", "i64": "int64", "fp8e4nv": "float8_e4m3fn",
}  # fmt: skip
_TOLERANCE = {"float16": 2e-2, "bfloat16": 6e-2, "float32": 2e-3}
_SECONDS = 10


def values(fn: Any, arguments: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Arguments of a kernel's launch: random numbers, always the same, in its tensors."""
    import torch
    import triton.language as tl

    rng, found = np.random.default_rng(0), dict[str, Any]()
    for name in fn.arg_names:
        kind, value = arguments[name]
        if kind in ("pointer", "descriptor"):
            dtype = getattr(torch, _TYPES[value if kind == "pointer" else value[0]])
            real = dtype.is_floating_point
            numbers = rng.standard_normal(_SIZE) if real else rng.integers(0, 5, _SIZE)
            memory = torch.from_numpy(numbers).to(dtype).to(device)
            found[name] = memory[_BEFORE:]
            if kind == "descriptor":
                found[name] = _described(found[name], value[1])
        else:
            found[name] = getattr(tl, value["dtype"]) if isinstance(value, dict) else value
    return found


def _described(memory: Any, block: list[int]) -> Any:
    """A descriptor of a tensor with an extent of 64 in each dimension but the outer ones."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    shape = [2] * len(block[:-2]) + [64] * len(block[-2:])
    tensor = memory[: int(np.prod(shape))].reshape(shape)
    return TensorDescriptor(tensor, shape, list(tensor.stride()), block)


def _memory(value: Any) -> tuple[Any, int]:
    """All of an argument's memory, of which programs may write what is before its first element
    too, and the place of that element."""
    value = getattr(value, "base", value)
    base = getattr(value, "_base", None)
    return (value, 0) if base is None else (base, value.storage_offset())


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """Which tensors differ by more than roundings explain, and by how much; "" if none does."""
    import torch

    said = list[str]()
    for name, value in wanted.items():
        a, first = _memory(value)
        if not isinstance(a, torch.Tensor):
            continue
        tolerance = _TOLERANCE.get(str(a.dtype).split(".")[1], 0.0)
        x, y = a.double(), _memory(found[name])[0].double()
        near = (x - y).abs() <= tolerance * (0.1 + x.abs())
        wrong = ~((x == y) | near | (x.isnan() & y.isnan()))
        if count := int(wrong.sum()):
            at = int(wrong.nonzero()[0])
            said.append(f"{name} in {count} places (at {at - first}: {x[at]:.6g}, {y[at]:.6g})")
    return ", ".join(said)


def _compare(fn: Any, arguments: dict[str, Any]) -> tuple[str, str]:
    from tritium.runtime.interpreted import InterpretedFunction

    wanted, found = values(fn, arguments), values(fn, arguments)
    try:
        with loading.limited(_SECONDS):
            InterpretedFunction(fn.fn, fn.debug)[2, 2](**wanted)
    except Exception as error:
        return "refused", str(error)[-200:]
    try:
        with loading.limited(_SECONDS):
            fn[2, 2](**found)
    except Exception as error:
        return "did not compile or run", str(error)[-300:]
    wrong = difference(wanted, found)
    if not wrong:
        return "same", ""
    if (wider := in_float32(arguments)) == arguments:
        return "different", wrong
    return "different", f"{wrong}; in float32: {_compare(fn, wider)[0]}"


def in_float32(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with float32 for 16-bit floats: where both ways agree then, they differed by
    the roundings of another order."""
    text = re.sub(r'"(?:bfloat|float)16"', '"float32"', json.dumps(arguments))
    return json.loads(re.sub(r'"(?:bf|fp)16"', '"fp32"', text))


def _module(name: str, lines: list[dict[str, Any]], results: Path) -> None:
    known = {kernel.name: kernel.fn for kernel in loading.kernels(name)}
    with results.open("a") as out:
        for line in lines:
            for number, arguments in enumerate(line["arguments"]):
                outcome, why = _compare(known[line["kernel"]], arguments)
                row = [f"{name}.{line['kernel']} ({number})", outcome, why]
                print(json.dumps(row), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("found", type=Path)
    parser.add_argument("--results", type=Path, help="append a line for each launch to this file")
    options = parser.parse_args()
    from tritium.compat import alias

    alias.install()
    loading.import_what_all_use()
    loading.install(options.folder.resolve())
    by_module = collections.defaultdict[str, list[dict[str, Any]]](list)
    for line in map(json.loads, options.found.read_text().splitlines()):
        by_module[line["module"]].append(line)
    counts = collections.Counter[str]()
    with tempfile.NamedTemporaryFile() as kept:
        results = options.results or Path(kept.name)
        for name, lines in by_module.items():
            if status := loading.in_child(partial(_module, name, lines, results)):
                counts["crashed"] += 1
                print(f"crashed: {name}: exit status {status}")
        for kernel, outcome, why in map(json.loads, results.read_text().splitlines()):
            counts[outcome] += 1
            if outcome != "same":
                print(f"{outcome}: {kernel}: {why}")
    print(dict(counts))
    sys.exit(1 if counts["different"] or counts["crashed"] else 0)


if __name__ == "__main__":
    main()
