"""Details of failed checks, as numbers that native code passes."""

INFINITE, NAN = 1, 2
"""Kinds of findings of a check of floats; NaN goes before."""
