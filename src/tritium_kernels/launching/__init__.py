"""Launches of the library's kernels: the device, configurations and tables of them, tensor
descriptors, and ops of `torch.library`."""
