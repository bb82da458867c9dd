"""Languages and interfaces that may still change."""
