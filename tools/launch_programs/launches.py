"""One launch: its arguments, what is expected of it, and the comparison."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tools.launch_programs.arguments import Arguments
from tools.launch_programs.facts import Facts, Parameter, note, raw
from tools.launch_programs.kernels import Kernel, default_of


class Mismatch(Exception):
    """The runtime did another thing than the oracle says."""


@dataclass
class Live:
    """A kernel's function with what the oracle knows of it.

    Attributes:
        known: the keys of the kernels that are compiled.
        preloaded: keys that are found without the hook being asked, always.
        data: specialization data by key, as the hooks were given it.
    """

    kernel: Kernel
    function: Any
    version: int
    known: set[Any] = field(default_factory=set)
    preloaded: set[Any] = field(default_factory=set)
    data: dict[Any, str] = field(default_factory=dict)
    calls: dict[Any, Call] = field(default_factory=dict)


@dataclass
class Call:
    """The arguments of a launch of one kernel; `out` and `counts` are added by `launch`."""

    given: list[Any]
    positional: int
    omitted: set[int]
    order: list[int]
    options: dict[str, Any]
    facts: Facts

    @property
    def key(self) -> Any:
        return repr(self.facts.key), tuple(self.options.items())

    def buffers(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """`out` and `counts`."""
        size = max([1, *self.facts.seen]) + 1
        counts = torch.zeros(size, dtype=torch.int64)
        for at, count in self.facts.counts.items():
            counts[at] = count
        return torch.zeros(2 * size, dtype=torch.int64, device=device), counts.to(device)

    def arguments(self, parameters: list[Parameter]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments behind `out` and `counts`."""
        values = [raw(value) for value in self.given]
        named = {parameters[i].name: values[i] for i in self.order if i not in self.omitted}
        return values[: self.positional], {**named, **self.options}

    def values(self) -> list[Any]:
        """All arguments, in order."""
        return [raw(value) for value in self.given]


def random_call(source: random.Random, live: Live, arguments: Arguments) -> Call:
    """A good call of a kernel, or one that was made before with other values of the same kinds."""
    parameters = live.kernel.parameters
    given = [arguments.good(parameter) for parameter in parameters]
    return make_call(source, parameters, given)


OPTIONS = (("num_warps", (1, 2, 4, 8)), ("num_stages", (1, 2, 3)), ("num_ctas", (1,)))


def make_call(source: random.Random, parameters: list[Parameter], given: list[Any]) -> Call:
    """A call with these arguments, some by keyword, some left to their defaults."""
    free = [i for i, p in enumerate(parameters) if not p.keyword_only]
    positional = source.randrange(len(free) + 1) if source.random() < 0.6 else len(free)
    rest = list(range(positional, len(parameters)))
    omitted = {i for i in rest if parameters[i].default and source.random() < 0.5}
    for i in omitted:
        given[i] = default_of(parameters[i])
    if source.random() < 0.5:
        source.shuffle(rest)
    options: dict[str, Any] = {}
    if source.random() < 0.2:
        name, values = source.choice(OPTIONS)
        options[name] = source.choice(values)
    facts = Facts()
    for i, (parameter, value) in enumerate(zip(parameters, given, strict=True)):
        facts.key.append(i)
        facts.signature.append(note(facts, parameter, value, (i + 2,), i + 1))
    return Call(given, positional, omitted, rest, options, facts)


def in_threads(function: Callable[[Any], None], each: Sequence[Any]) -> None:
    """Call a function in a thread for each argument, all at once. Raises what the first one did."""
    errors: list[BaseException] = []

    def run(argument: Any) -> None:
        try:
            function(argument)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(argument,)) for argument in each]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def random_grid(source: random.Random) -> tuple[Any, int]:
    """A grid and its number of programs."""
    sizes = [source.choice((1, 1, 1, 2, 3, 0 if source.random() < 0.2 else 4))
             for _ in range(source.choice((1, 1, 2, 3)))]  # fmt: skip
    total = int(np.prod(sizes))
    grids = (
        tuple(sizes), lambda meta: tuple(sizes), list(sizes), lambda meta: list(sizes),
        tuple(map(np.int64, sizes)), sizes[0] if len(sizes) == 1 else tuple(sizes),
    )  # fmt: skip
    return source.choice(grids), total


def check_values(live: Live, call: Call, out: torch.Tensor, programs: int) -> None:
    """Compare what the kernel recorded with what it was given."""
    found = out.cpu().numpy()
    wanted = np.zeros_like(found)
    wanted[0] = programs
    if programs:
        wanted[1] = 3 * live.version
        for at, (code, bits) in call.facts.seen.items():
            wanted[2 * at] = code
            wanted[2 * at + 1] = bits
    if not np.array_equal(found, wanted):
        places = np.flatnonzero(found != wanted)
        raise Mismatch(
            f"{describe(live, call)}: words {places.tolist()} are {found[places].tolist()}, wanted "
            f"{wanted[places].tolist()}"
        )


def check_kernel(live: Live, call: Call, compiled: Any) -> None:
    """The compiled kernel that served a launch must be one for its arguments."""
    source, facts = compiled.src, call.facts
    signature = [source.signature[p.name] for p in live.kernel.parameters]
    divisible = {path for path, attributes in source.attrs.items()
                 if path[0] > 1 and ["tt.divisibility", 16] in attributes}  # fmt: skip
    constants = {tuple(path): value for path, value in source.constants.items()}
    for what, found, wanted in (
        ("signature", repr(signature), repr(facts.signature)),
        ("divisible", divisible, facts.divisible),
        ("constants", _texts(constants), _texts(facts.constants)),
    ):
        if found != wanted:
            raise Mismatch(f"{describe(live, call)}: its kernel's {what}: {found}; wanted {wanted}")


def _texts(constants: dict[tuple[int, ...], Any]) -> dict[tuple[int, ...], str]:
    # A constexpr and its value are the same constant.
    texts = {path: f"{type(v).__name__} {v!r}" for path, v in constants.items()}
    return {path: re.sub(r"constexpr\[([^]]*)\]", r"\1", text) for path, text in texts.items()}


def describe(live: Live, call: Call) -> str:
    """A launch in words."""
    pairs = zip(live.kernel.parameters, call.given, strict=True)
    shown = [f"{parameter.text()} <- {given!r}" for parameter, given in pairs]
    return (
        f"{live.kernel.name}({'; '.join(shown)}) positional={call.positional} "
        f"order={call.order} omitted={sorted(call.omitted)} options={call.options}"
    )
