"""The `arith` dialect: arithmetic on integers and floating-point numbers, elementwise on tiles."""
