"""The kernels of mixtures of experts; modules of `tritium_kernels` launch them."""
