"""Modules, and their operations, blocks and values; see `tritium.ops.view`."""

from tritium.ops.view import (
    block,
    context,
    load_dialects,
    module,
    operation,
    parse_mlir_module,
    region,
    value,
)

__all__ = [
    "block",
    "context",
    "load_dialects",
    "module",
    "operation",
    "parse_mlir_module",
    "region",
    "value",
]
