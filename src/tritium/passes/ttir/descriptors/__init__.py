"""Tensor descriptors and block pointers as values of the IR: flow, memory, parts."""
