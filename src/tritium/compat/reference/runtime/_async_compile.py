"""The reference's path of compiling in other threads."""

from tritium.runtime.workers.async_compile import AsyncCompileMode, FutureKernel, active_mode

__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]
