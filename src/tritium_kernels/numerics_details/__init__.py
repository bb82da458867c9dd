"""Number formats that blocks of elements share a scale in."""
