"""Sizes of grids and blocks, for programs and for compile-time values in kernels."""

from tritium.language.values.constexpr import constexpr_function

# Their whole source is below each `def`: torch.compile writes it into the modules it makes.


@constexpr_function
def cdiv(x: int, y: int):
    """The quotient of `x` by `y`, rounded up: the number of blocks of `y` that cover `x`."""
    return (x + y - 1) // y


@constexpr_function
def next_power_of_2(n: int):
    """The smallest power of two that is at least `n`, for `n` of 1 or more; 0 for 0."""
    # `| 0`: integers of any kind, no floats.
    return 1 << int((n - 1) | 0).bit_length() if n > 0 else 0
