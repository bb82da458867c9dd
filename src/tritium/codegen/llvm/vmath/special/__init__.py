"""Special functions: Bessel, gamma, and the relatives of erf."""
