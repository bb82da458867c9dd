"""Memory that several processes see."""
