"""All kinds of random calls."""

from __future__ import annotations

from tools.kernel_calls import others, products, rows, scaled

CASES = (*rows.CASES, *products.CASES, *others.CASES, *scaled.CASES)
