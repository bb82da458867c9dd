"""Exact comparison of kernels: floats are replaced by elements of a ring of integers, in which sums
and products do not depend on the order of operations."""
