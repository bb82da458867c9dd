"""The reference's path of cuBLAS."""

from tritium.testing.cublas import CublasLt

__all__ = ["CublasLt"]
