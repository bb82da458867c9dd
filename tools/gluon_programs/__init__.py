"""Random Gluon kernels with their results, computed with NumPy alone (`tools/fuzz_gluon.py`)."""
