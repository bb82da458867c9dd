"""Compiling and measuring in other threads and processes."""
