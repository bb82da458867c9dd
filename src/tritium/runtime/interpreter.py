"""The reference's path of kernels under `TRITON_INTERPRET=1`."""

from tritium.runtime.interpreted import InterpretedFunction

__all__ = ["InterpretedFunction"]
