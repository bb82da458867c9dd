"""Modes of `profiler.start(backend=..., mode=...)`: what is measured, and how it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


class _Choice(Enum):
    def __str__(self) -> str:
        return self.value


METRIC_TYPE = _Choice("METRIC_TYPE", {"CYCLE": "cycle"})
BUFFER_STRATEGY = _Choice("BUFFER_STRATEGY", {"CIRCULAR": "circular", "FLUSH": "flush"})
BUFFER_TYPE = _Choice("BUFFER_TYPE", {"SHARED": "shared", "GLOBAL": "global"})
SAMPLING_STRATEGY = _Choice("SAMPLING_STRATEGY", {"NONE": "none", "SELECTIVE": "selective"})


class GRANULARITY(_Choice):
    """The unit that records together."""

    CTA = "cta"
    WARP = "warp"
    WARP_2 = "warp_2"
    WARP_4 = "warp_4"
    WARP_8 = "warp_8"
    WARP_GROUP = "warp_group"
    WARP_GROUP_2 = "warp_group_2"
    WARP_GROUP_4 = "warp_group_4"
    WARP_GROUP_8 = "warp_group_8"


class Optimize(_Choice):
    """The ways in which the instrumentation's own cost is lowered."""

    TIMESHIFT = "time_shift"
    SCHED_STORES = "sched_stores"
    SCHED_BARRIERS = "sched_barriers"
    CLOCK32 = "clock32"


def _by_name(choices: Any) -> dict[str, Any]:
    return {choice.value: choice for choice in choices}


metric_types, buffer_strategies = _by_name(METRIC_TYPE), _by_name(BUFFER_STRATEGY)
buffer_types, sampling_strategies = _by_name(BUFFER_TYPE), _by_name(SAMPLING_STRATEGY)
granularities, optimizations = _by_name(GRANULARITY), _by_name(Optimize)


@dataclass(frozen=True)
class BaseMode:
    """A mode by its name."""

    name: str


@dataclass(frozen=True)
class PCSampling(BaseMode):
    """Samples of the program counter, at intervals of a number of cycles."""

    name: str = field(default="pcsampling", init=False)
    interval: int = 1000

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError(f"PCSampling: interval is {self.interval}; more than 0 is required")

    @staticmethod
    def parse(text: Any) -> PCSampling:
        """The mode of a text, `pcsampling:interval=1000`. Raises `ValueError` for another."""
        if isinstance(text, PCSampling):
            return text
        _, colon, option = str(text).partition(":")
        key, _, value = option.partition("=")
        if colon and (key != "interval" or not value.isdecimal()):
            raise ValueError(f"mode is {text!r}; pcsampling or pcsampling:interval=CYCLES is "
                             "required")  # fmt: skip
        return PCSampling(interval=int(value)) if colon else PCSampling()

    def __str__(self) -> str:
        return f"{self.name}:interval={self.interval}"


@dataclass(frozen=True)
class InstrumentationMode(BaseMode):
    """Instrumentation of kernels. Words stand for their choices; `optimizations` may be words
    between commas. Raises `ValueError` for others."""

    metric_type: Any = METRIC_TYPE.CYCLE
    sampling_strategy: Any = SAMPLING_STRATEGY.NONE
    sampling_options: str = ""
    granularity: Any = GRANULARITY.WARP
    buffer_strategy: Any = BUFFER_STRATEGY.CIRCULAR
    buffer_type: Any = BUFFER_TYPE.SHARED
    buffer_size: int = 0
    optimizations: Any = field(default_factory=list[Optimize])

    def __post_init__(self) -> None:
        for name, known in (
            ("metric_type", metric_types), ("sampling_strategy", sampling_strategies),
            ("granularity", granularities), ("buffer_strategy", buffer_strategies),
            ("buffer_type", buffer_types),
        ):  # fmt: skip
            object.__setattr__(self, name, _chosen(name, getattr(self, name), known))
        words: Any = self.optimizations
        if isinstance(words, str):
            words = [word.strip() for word in words.split(",") if word.strip()]
        chosen = [_chosen("optimization", word, optimizations) for word in words]
        object.__setattr__(self, "optimizations", chosen)

    @staticmethod
    def parse(text: Any) -> InstrumentationMode:
        """The mode of a text, `default:granularity=cta:buffer_size=4096`. Raises `ValueError` for
        another."""
        if isinstance(text, InstrumentationMode):
            return text
        name, *options = (text or "default").split(":")
        if name not in ("default", "mma"):
            raise ValueError(f"mode is {text!r}; it begins with 'default' or 'mma'")
        given: dict[str, Any] = {}
        known = [f.name for f in fields(InstrumentationMode) if f.name != "name"]
        for option in options:
            key, equal, value = option.partition("=")
            if not equal or key not in known:
                raise ValueError(
                    f"mode is {text!r}: {option!r} is no option; NAME=VALUE with one of "
                    f"{', '.join(known)} is required"
                )
            given[key] = value
        size = str(given.get("buffer_size", "0"))
        if not size.isdecimal():
            raise ValueError(f"mode is {text!r}: buffer_size is {size!r}; bytes are required")
        given["buffer_size"] = int(size)
        return (Default if name == "default" else MMA)(**given)

    def __str__(self) -> str:
        joined = ",".join(map(str, self.optimizations))
        names = ("metric_type", "sampling_strategy", "sampling_options", "granularity",
                 "buffer_strategy", "buffer_type", "buffer_size")  # fmt: skip
        parts = [self.name, *(f"{name}={getattr(self, name)}" for name in names)]
        return ":".join([*parts, f"optimizations={joined}"])


def _chosen(name: str, value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; one of {', '.join(known)} is required")
        return known[value]
    return value


@dataclass(frozen=True)
class Default(InstrumentationMode):
    """Scopes that kernels state (`profiler.language`)."""

    name: str = field(default="default", init=False)


@dataclass(frozen=True)
class MMA(InstrumentationMode):
    """Matrix instructions."""

    name: str = field(default="mma", init=False)
