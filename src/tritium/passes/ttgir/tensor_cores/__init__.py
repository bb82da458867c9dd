"""Products of tensor cores that keep their sums in tensor memory."""
