"""Layouts of tensors in memory, one module for each kind."""
