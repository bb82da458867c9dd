"""Elementwise ops, for scalars and vectors."""
