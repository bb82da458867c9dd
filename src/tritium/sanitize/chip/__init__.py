"""Races in on-chip memory, of interpreted and of compiled programs."""
