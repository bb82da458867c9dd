"""Facts about index arithmetic: bounds, strides, overflow, backward slices."""
