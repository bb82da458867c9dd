"""Details of failed checks, as numbers that native code passes, and the mode of exact numbers."""

INFINITE, NAN = 1, 2
"""Kinds of findings of a check of floats; NaN goes before."""

EXACT = "exact"
"""The mode that replaces floats by exact numbers, in order to compare kernels."""
