"""Kernels for torch tensors, written in Tritium's language: dense layers and mixtures of experts.

`tritium_kernels.dense` has the layers of a network (norms, softmax, losses, products, attention)
with their gradients. Needs torch (`pip install tritium[torch]`). Nothing is imported here: a
program loads the modules that it uses.
"""
