"""Sums of bit matrices."""
