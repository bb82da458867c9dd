"""Random kernels with their results, computed with NumPy alone (`tools/fuzz_tiles.py`)."""
