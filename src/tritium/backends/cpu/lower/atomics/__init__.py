"""Atomic operations of tiles and scalars, and programs that wait for each other."""
