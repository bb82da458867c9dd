"""Configurations that a program prescribes, in place of those that a front would choose."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tritium_kernels.errors import refuse

Flags = TypeVar("Flags")


class InapplicableConstraint(ValueError):
    """A prescribed property that a launch cannot have."""


def all_constraints_satisfied(opt_flags: Any, constraints: Mapping[str, Any]) -> bool:
    """True if the configuration has the prescribed properties; None prescribes nothing."""
    return all(v is None or getattr(opt_flags, name) == v for name, v in constraints.items())


class Overrides(Generic[Flags]):
    """Properties that every configuration is to have, or the whole configuration.

    Attributes:
        constraints: property -> its value.
        flags: the configuration; None: fronts choose one that has these properties.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.constraints: dict[str, Any] = {}
        self.flags: Flags | None = None

    def update_opt_flags_constraints(self, constraints: Mapping[str, Any]) -> None:
        """Prescribe further properties."""
        for name in constraints:
            if name not in self.names:
                accepted = ", ".join(self.names)
                op = "update_opt_flags_constraints"
                raise refuse(op, "constraints", f"names {name!r}", accepted)
        self.constraints.update(constraints)

    def reset_opt_flags_constraints(self) -> None:
        """Prescribe no properties any more."""
        self.constraints.clear()

    def set_opt_flags(self, opt_flags: Flags) -> None:
        """Prescribe the whole configuration."""
        if self.constraints:
            accepted = "reset_opt_flags_constraints() before"
            found = f"is given beside the constraints {self.constraints}"
            raise refuse("set_opt_flags", "opt_flags", found, accepted)
        if self.flags is not None:
            found = f"is given, and {self.flags} was"
            raise refuse("set_opt_flags", "opt_flags", found, "reset_opt_flags() before")
        self.flags = opt_flags

    def reset_opt_flags(self) -> None:
        """Prescribe no configuration any more."""
        self.flags = None

    @contextmanager
    def scoped_opt_flags_constraints(self, constraints: Mapping[str, Any]) -> Generator[None]:
        """Prescribe further properties inside of a `with` block."""
        before = dict(self.constraints)
        self.update_opt_flags_constraints(constraints)
        try:
            yield
        finally:
            self.constraints.clear()
            self.constraints.update(before)

    @contextmanager
    def scoped_opt_flags(self, opt_flags: Flags) -> Generator[None]:
        """Prescribe the whole configuration inside of a `with` block."""
        before, self.flags = self.flags, None
        self.set_opt_flags(opt_flags)
        try:
            yield
        finally:
            self.flags = before
