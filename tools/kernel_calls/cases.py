"""All kinds of random calls."""

from __future__ import annotations

from tools.kernel_calls import others, processes, products, rows, scaled

CASES = (*rows.CASES, *products.CASES, *others.CASES, *scaled.CASES, *processes.CASES)
