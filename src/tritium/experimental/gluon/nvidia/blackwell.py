"""Descriptors of tensors made on the host: those for Hopper."""

from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor as TensorDescriptor
