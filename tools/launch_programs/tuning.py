"""Random actions on an autotuned kernel that works in place, with heuristics above or below."""

from __future__ import annotations

import random
from typing import Any

import torch

import tritium
import tritium.language as tl
from tools.launch_programs.launches import Mismatch, in_threads


@tritium.jit
def accumulate(x, y, n, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr, FACTOR: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x + i, tl.load(x + i) + FACTOR * scale * tl.load(y + i))
    else:
        tl.store(x + i, tl.load(x + i, i < n) + FACTOR * scale * tl.load(y + i, i < n), i < n)


SIZES = (16, 32, 48, 64, 100)


class Tuned:
    """An autotuned kernel, and what the oracle knows of it.

    Args:
        source: of all that is random.
        device: torch's name of the device.
        interpreted: kernels are interpreted, and nothing is measured.
    """

    def __init__(self, source: random.Random, device: str, interpreted: bool):
        self.source, self.device, self.interpreted = source, device, interpreted
        self.in_place = source.choice(("restore_value", "reset_to_zero", "hooks"))
        self.keys = source.choice((["n"], ["scale"], ["n", "scale"], []))
        self.counts = dict.fromkeys(("measured", "before", "after", "own", "pruned"), 0)
        self.saved: Any = None
        self.known: set[Any] = set()
        self.stored: set[Any] = set()
        self.cached = source.random() < 0.4 and not interpreted
        self.blocks = source.sample((16, 32, 64, 128), source.choice((2, 3)))
        self.own_hook = source.random() < 0.3
        self.prune = source.choice((None, None, "early", "model"))
        self.upside_down = source.random() < 0.5
        self.kernel = self.make()

    def make(self) -> Any:
        """A new autotuner, which has measured nothing."""
        self.known = set()
        options: dict[str, Any] = {}
        if self.in_place == "hooks":
            options |= {"pre_hook": self._before, "post_hook": self._after}
        else:
            options[self.in_place] = ["x"]
        if self.prune == "early":
            options["prune_configs_by"] = {"early_config_prune": self._early}
        elif self.prune == "model":
            options["prune_configs_by"] = {"perf_model": self._model, "top_k": 2}
        hook = self._own if self.own_hook else None
        configs = [tritium.Config({"BLOCK": block}, pre_hook=hook) for block in self.blocks]
        tune = tritium.autotune(
            configs, key=self.keys, do_bench=self._measure, cache_results=self.cached, **options
        )
        factor = tritium.heuristics({"FACTOR": lambda nargs: 2})
        if self.upside_down:
            return tritium.heuristics({"EVEN": lambda nargs: False})(tune(factor(accumulate)))
        even = tritium.heuristics({"EVEN": lambda nargs: nargs["n"] % nargs["BLOCK"] == 0})
        return tune(even(factor(accumulate)))

    @property
    def tuner(self) -> Any:
        """The autotuner among the decorators."""
        return self.kernel.fn if self.upside_down else self.kernel

    def _measure(self, call: Any, quantiles: Any) -> list[float]:
        self.counts["measured"] += 1
        for _ in range(2):
            call()
        return [float(self.counts["measured"] * 7919 % 13 + 1)] * 3

    def _own(self, nargs: dict[str, Any]) -> None:
        self.counts["own"] += 1

    def _before(self, args: dict[str, Any], reset_only: bool = False) -> None:
        if not reset_only:
            self.counts["before"] += 1
            self.saved = args["x"].clone()

    def _after(self, args: dict[str, Any], exception: Any) -> None:
        self.counts["after"] += 1
        args["x"].copy_(self.saved)

    def _early(self, configs: list[Any], named: Any, **kwargs: Any) -> list[Any]:
        self.counts["pruned"] += 1
        return configs[1:]

    def _model(self, BLOCK: int, **kwargs: Any) -> float:
        self.counts["pruned"] += 1
        return BLOCK

    def expected_configs(self) -> list[int]:
        """The blocks that are measured."""
        if self.prune == "early":
            return self.blocks[1:]
        if self.prune == "model":
            return sorted(self.blocks)[:2]
        return self.blocks

    def choices(self) -> int:
        """Configurations that are measured for a new key: one alone is taken as it is."""
        count = len(self.expected_configs())
        return count if count > 1 else 0

    def arguments(self) -> tuple[torch.Tensor, torch.Tensor, int, float]:
        """x, y, n, scale."""
        n = self.source.choice(SIZES)
        kind = self.source.choice((torch.float32, torch.float32, torch.float64))
        x = torch.arange(n).to(kind).to(self.device)
        if self.in_place == "reset_to_zero":
            x.zero_()
        y = torch.arange(n).to(kind).to(self.device) % 7
        return x, y, n, float(self.source.choice((1, 2, 0.5)))

    def key(self, arguments: tuple[Any, ...]) -> Any:
        """The arguments that call for a new choice."""
        x, _, n, scale = arguments
        return tuple(v for k, v in (("n", n), ("scale", scale)) if k in self.keys), x.dtype

    def launch(self, arguments: tuple[Any, ...], by_keyword: bool) -> None:
        """Launch, and compare x with what it must be."""
        x, y, n, scale = arguments
        x = x.clone()
        start = torch.zeros_like(x) if self.in_place == "reset_to_zero" else x.clone()
        wanted = start + 2 * scale * y
        launcher = self.kernel[lambda meta: (-(-meta["n"] // meta["BLOCK"]),)]
        if by_keyword:
            launcher(x, y=y, scale=scale, n=n)
        else:
            launcher(x, y, n, scale)
        if not torch.equal(x, wanted):
            raise Mismatch(f"{self}: x is {x.tolist()}, wanted {wanted.tolist()}")

    def act(self) -> None:
        """Some launches, one after another."""
        for _ in range(3):
            arguments = self.arguments()
            key, before = self.key(arguments), dict(self.counts)
            self.launch(arguments, self.source.random() < 0.5)
            self.check(key, before)

    def check(self, key: Any, before: dict[str, int]) -> None:
        """Compare what was measured since with what a key calls for."""
        configs = self.expected_configs()
        new = key not in self.known and len(self.blocks) > 1
        from_disk = self.cached and key in self.stored and not self.own_hook
        wanted = self.choices() if new and not from_disk else 0
        measured = self.counts["measured"] - before["measured"]
        if measured != wanted and not self.interpreted:
            raise Mismatch(f"{self}: {measured} configurations measured for {key}, wanted {wanted}")
        self.known.add(key)
        self.stored.add(key)
        if self.counts["before"] != self.counts["after"] and self.in_place == "hooks":
            raise Mismatch(f"{self}: hooks are not balanced: {self.counts}")
        if self.own_hook and self.counts["own"] == before["own"]:
            raise Mismatch(f"{self}: the configuration's hook was not called")
        if not self.interpreted and self.tuner.best_config.kwargs["BLOCK"] not in configs:
            raise Mismatch(f"{self}: {self.tuner.best_config} was pruned")

    def again(self) -> None:
        """Another autotuner of the same kernel: results are those on disk, if they are kept."""
        self.kernel = self.make()
        self.act()

    def threads(self) -> None:
        """Threads launch at once: each key is measured once."""
        work = [self.arguments() for _ in range(4)]
        before = dict(self.counts)
        in_threads(lambda arguments: self.launch(arguments, arguments[2] % 3 == 1), work)
        keys = {self.key(arguments) for arguments in work} - self.known
        if self.cached and not self.own_hook:
            keys -= self.stored
        wanted = self.choices() * len(keys)
        measured = self.counts["measured"] - before["measured"]
        if measured != wanted and not self.interpreted:
            raise Mismatch(f"{self}: threads: {measured} measured, wanted {wanted}")
        for arguments in work:
            self.known.add(self.key(arguments))
            self.stored.add(self.key(arguments))

    def __str__(self) -> str:
        return (
            f"autotuned by {self.keys}, {self.in_place}, blocks {self.blocks}, prune {self.prune}, "
            f"cached {self.cached}, own hook {self.own_hook}, upside down {self.upside_down}"
        )
