"""Runs kernels as the Python functions that they are, on NumPy arrays."""
