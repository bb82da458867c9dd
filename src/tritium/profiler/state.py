"""States: names under which launches are recorded, inside of the scopes around."""

from __future__ import annotations

from tritium.profiler.flags import flags
from tritium.profiler.registry import states
from tritium.profiler.scope import Around

COMPUTE_METADATA_SCOPE_NAME = "__proton_launch_metadata"
"""The state in which `launch_metadata` is computed; the viewer leaves it out."""
COMPUTE_METADATA_SCOPE_PREFIX = f"{COMPUTE_METADATA_SCOPE_NAME}:"
"""The beginning of its name where the kernel's follows."""


def get_metadata_state_name(kernel_name: str | None = None) -> str:
    """The name of the state in which a kernel's `launch_metadata` is computed."""
    return f"{COMPUTE_METADATA_SCOPE_PREFIX}{kernel_name}" if kernel_name else (
        COMPUTE_METADATA_SCOPE_NAME
    )


def enter_state(name: str) -> None:
    """Begin a state: launches are recorded under its name, inside of the scopes around."""
    states.set((*states.get(), name))


def exit_state() -> None:
    """End the innermost state. Raises `ValueError` if there is none."""
    if not states.get():
        raise ValueError("exit_state: there is no state")
    states.set(states.get()[:-1])


class state(Around):
    """A state of the program: a context manager, or a decorator of a function."""

    def __init__(self, name: str):
        self.name = name
        self._inside = False

    def _copy(self) -> state:
        return state(self.name)

    def __enter__(self) -> state:
        self._inside = flags.profiling_on
        if self._inside:
            enter_state(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        if self._inside:
            exit_state()


class metadata_state(state):
    """The state in which a kernel's `launch_metadata` is computed."""

    def __init__(self, kernel_name: str | None = None):
        super().__init__(get_metadata_state_name(kernel_name))
