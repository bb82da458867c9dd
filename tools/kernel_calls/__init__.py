"""Random calls of `tritium_kernels`, and what they give in NumPy's float64."""
