"""What NVIDIA's GPUs have, by the generation that brought it."""
