"""Details of failed checks, as numbers that native code passes."""

INFINITE, NAN = 1, 2
"""What a check of floats has found; NaN goes before."""
