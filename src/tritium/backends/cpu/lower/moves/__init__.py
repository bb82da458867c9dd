"""Ops that move the elements of tiles."""
