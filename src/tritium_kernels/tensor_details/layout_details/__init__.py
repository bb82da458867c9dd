"""How the memory of tensors is laid out, one module for each kind."""
