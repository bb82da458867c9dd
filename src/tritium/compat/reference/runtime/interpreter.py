"""The reference's path of kernels under `TRITON_INTERPRET=1`."""

from __future__ import annotations

from typing import Any

from tritium.language import emitter
from tritium.runtime.interpreted import InterpretedFunction

__all__ = ["InterpretedFunction", "interpreter_builder"]


class _InterpreterBuilder:
    """State of the running interpreted program, for tools that inspect it."""

    @property
    def grid_idx(self) -> tuple[int, int, int]:
        """The program's place in the grid. Raises `ValueError` outside of an interpreted kernel."""
        return self._running().program_id

    @property
    def grid_dim(self) -> tuple[int, int, int]:
        """The grid's sizes. Raises `ValueError` outside of an interpreted kernel."""
        return self._running().num_programs

    @staticmethod
    def _running() -> Any:
        current: Any = emitter.current()
        if not hasattr(current, "program_id"):
            raise ValueError("interpreter_builder: no interpreted kernel is running")
        return current


interpreter_builder = _InterpreterBuilder()
