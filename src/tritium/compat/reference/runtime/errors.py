"""The reference's path of the errors that launching and tuning raise."""

from tritium.errors import AutotunerError, InterpreterError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
