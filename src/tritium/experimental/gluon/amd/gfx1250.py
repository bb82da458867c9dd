"""The name of `cdna5` in release 3.6."""

from tritium.experimental.gluon.amd.cdna5 import TensorDescriptor

__all__ = ["TensorDescriptor"]
