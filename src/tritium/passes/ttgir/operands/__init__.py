"""Passes that put operands of products into shared memory."""
