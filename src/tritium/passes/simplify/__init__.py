"""The peephole patterns of `canonicalize`, by kind of op.

Every pattern keeps the value that `Op.evaluate` gives, bit for bit (of NaN, only that it is one).
"""
