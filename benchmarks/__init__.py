"""Measurements; see README.md."""
