"""Products: their tiles, their launches and their operands."""
