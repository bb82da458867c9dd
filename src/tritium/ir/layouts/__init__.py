"""Layouts: the algebra of linear maps (`linear`), and the encodings that construct them."""

from tritium.ir.layouts.linear import LinearLayout

__all__ = ["LinearLayout"]
