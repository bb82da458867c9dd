"""Autotuning: configurations, measuring them, keeping what was found."""
