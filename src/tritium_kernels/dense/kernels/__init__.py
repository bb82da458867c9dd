"""The kernels of the dense layers; `tritium_kernels.dense` launches them."""
