"""Random sequences of host actions on small kernels, with an oracle in plain Python and NumPy."""
