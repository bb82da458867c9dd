"""Parts of `tritium_kernels.tensor`: element types, bit matrices, ragged tensors."""
