"""The functions of libdevice: what each takes and returns, the symbol for it, what it computes.

A line of `_TABLE` reads `name: overloads: description`. An overload is a letter for each argument,
`>` and the result's letter where it is not the first argument's, and `=symbol` where that is not
`name` (`namef` for fp32): `ff>i=ilogbf`. A result `b` is an int32 that is turned into a bool. A
name with `*` stands for four, in each rounding direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

_LETTERS = {
    "i": "int32",
    "u": "uint32",
    "l": "int64",
    "m": "uint64",
    "f": "float32",
    "d": "float64",
}
ROUNDINGS = {
    "rn": "to nearest, even in a tie", "rz": "toward zero", "ru": "upward", "rd": "downward",
}  # fmt: skip

_TABLE = """
abs: i=abs l=llabs f=fabsf d=fabs: the magnitude
acos: f d: the angle in [0, pi] with this cosine
acosh: f d: the nonnegative inverse of cosh
add_*: dd=dadd_* ff=fadd_*: x + y
asin: f d: the angle in [-pi/2, pi/2] with this sine
asinh: f d: the inverse of sinh
atan: f d: the angle in [-pi/2, pi/2] with this tangent
atan2: ff dd: the angle of the point with ordinate x and abscissa y
atanh: f d: the inverse of tanh
brev: i l=brevll: the bits in reverse order
byte_perm: iii: byte k of the result is one of the eight of (x, y), by bits 4k to 4k + 2 of z
cbrt: f d: the cube root
ceil: d f: the next integer upward
clz: i l>i=clzll: the number of leading zero bits
copysign: ff dd: x with the sign of y
cos: f d: the cosine
cosh: f d: the hyperbolic cosine
cospi: f d: cos(pi x)
cyl_bessel_i0: f d: the modified Bessel function of the first kind of order 0
cyl_bessel_i1: f d: the modified Bessel function of the first kind of order 1
div_*: ff=fdiv_* dd=ddiv_*: x / y
double2float_*: d>f=double2float_*: x as fp32
double2hiint: d>i: the upper 32 bits
double2int_*: d>i=double2int_*: x as int32
double2ll_*: d>l=double2ll_*: x as int64
double2loint: d>i: the lower 32 bits
double2uint_*: d>i=double2uint_*: x as the bits of a uint32
double2ull_*: d>l=double2ull_*: x as the bits of a uint64
double_as_longlong: d>l: the bits
erf: f d: the error function
erfc: f d: 1 - erf(x)
erfcinv: f d: the inverse of erfc
erfcx: f d: exp(x^2) erfc(x)
erfinv: f d: the inverse of erf
exp: f d: e to the power of x
exp10: f d: 10 to the power of x
exp2: f d: 2 to the power of x
expm1: f d: exp(x) - 1
fast_cosf: f=fast_cosf: the cosine, less accurately
fast_dividef: ff=fast_fdividef: x / y, less accurately
fast_exp10f: f=fast_exp10f: 10 to the power of x, less accurately
fast_expf: f=fast_expf: e to the power of x, less accurately
fast_log10f: f=fast_log10f: the logarithm to base 10, less accurately
fast_log2f: f=fast_log2f: the logarithm to base 2, less accurately
fast_logf: f=fast_logf: the natural logarithm, less accurately
fast_powf: ff=fast_powf: x to the power of y, less accurately
fast_sinf: f=fast_sinf: the sine, less accurately
fast_tanf: f=fast_tanf: the tangent, less accurately
fast_tanhf: f=fast_tanhf: the hyperbolic tangent, less accurately
fdim: ff dd: x - y, at least 0
ffs: i l>i=ffsll: the position, from 1, of the lowest one bit; 0 where there is none
finitef: f>b=finitef: whether it is neither infinite nor NaN
float2int_*: f>i=float2int_*: x as int32
float2ll_*: f>l=float2ll_*: x as int64
float2uint_*: f>i=float2uint_*: x as the bits of a uint32
float2ull_*: f>l=float2ull_*: x as the bits of a uint64
float_as_int: f>i=float_as_int: the bits
float_as_uint: f>i=float_as_uint: the bits
floor: f d: the next integer downward
fma: fff ddd: x * y + z, rounded once
fma_*: fff=fmaf_* ddd=fma_*: x * y + z
fmod: ff dd: the remainder of x / y with the sign of x
hadd: ii uu=uhadd: (x + y) / 2 rounded downward, without overflow
hiloint2double: ii>d: the double with the upper half x and the lower half y
hypot: ff dd: sqrt(x^2 + y^2)
ilogb: f>i d>i: the exponent, as an integer
int2double_rn: i>d: x as fp64
int2float_*: i>f=int2float_*: x as fp32
int_as_float: i>f=int_as_float: the number with these bits
isfinited: d>b=isfinited: whether it is neither infinite nor NaN
isinf: f>b=isinff d>b=isinfd: whether it is infinite
isnan: f>b=isnanf d>b=isnand: whether it is NaN
j0: f d: the Bessel function of the first kind of order 0
j1: f d: the Bessel function of the first kind of order 1
jn: if>f=jnf id>d=jn: the Bessel function of the first kind of order x >= 0, at y
ldexp: fi di: x * 2^y
lgamma: f d: the logarithm of the magnitude of the gamma function
ll2double_*: l>d=ll2double_*: x as fp64
ll2float_*: l>f=ll2float_*: x as fp32
llrint: f>l=llrintf d>l: the nearest integer, even in a tie
llround: f>l=llroundf d>l: the nearest integer, away from zero in a tie
log: f d: the natural logarithm
log10: f d: the logarithm to base 10
log1p: f d: log(1 + x)
log2: f d: the logarithm to base 2
logb: f d: the exponent
longlong_as_double: l>d: the number with these bits
mul24: ii uu=umul24: the lower 32 bits of the product of the lower 24 bits
mul_*: dd=dmul_* ff=fmul_*: x * y
mulhi: ii uu=umulhi ll=mul64hi mm=umul64hi: the upper half of the product
nearbyint: f d: the nearest integer, even in a tie
nextafter: ff dd: the next number after x in the direction of y
norm3d: fff ddd: sqrt(x^2 + y^2 + z^2)
norm4d: ffff dddd: sqrt(x^2 + y^2 + z^2 + w^2)
normcdf: f d: the cumulative distribution function of the normal distribution
normcdfinv: f d: the inverse of normcdf
popc: i l>i=popcll: the number of one bits
pow: fi=powif di=powi ff=powf dd=pow: x to the power of y
rcbrt: f d: 1 / cbrt(x)
rcp64h: d: 1 / x from and to the upper 32 bits
rcp_*: f=frcp_* d=drcp_*: 1 / x
remainder: ff dd: x less the nearest multiple of y
rhadd: ii uu=urhadd: (x + y) / 2 rounded upward, without overflow
rhypot: ff dd: 1 / sqrt(x^2 + y^2)
rint: f d: the nearest integer, even in a tie
rnorm3d: fff ddd: 1 / sqrt(x^2 + y^2 + z^2)
rnorm4d: ffff dddd: 1 / sqrt(x^2 + y^2 + z^2 + w^2)
round: f d: the nearest integer, away from zero in a tie
rsqrt: f d: 1 / sqrt(x)
rsqrt_rn: f=frsqrt_rn: 1 / sqrt(x) rounded to nearest
sad: iiu>i=sad uuu=usad: |x - y| + z
saturatef: f=saturatef: x clamped to [0, 1]; 0 for NaN
scalbn: fi di: x * 2^y
signbit: f>i=signbitf d>i=signbitd: 1 where the sign bit is set, else 0
sin: f d: the sine
sinh: f d: the hyperbolic sine
sinpi: f d: sin(pi x)
sqrt: f d: the square root
sqrt_*: f=fsqrt_* d=dsqrt_*: the square root
sub_*: ff=fsub_* dd=dsub_*: x - y
tan: f d: the tangent
tanh: f d: the hyperbolic tangent
tgamma: f d: the gamma function
trunc: d f: the next integer toward zero
uint2double_rn: u>d: x as fp64
uint2float_*: u>f=uint2float_*: x as fp32
uint_as_float: u>f=uint_as_float: the number with these bits
ull2double_*: m>d=ull2double_*: x as fp64
ull2float_*: m>f=ull2float_*: x as fp32
y0: f d: the Bessel function of the second kind of order 0
y1: f d: the Bessel function of the second kind of order 1
yn: if>f=ynf id>d=yn: the Bessel function of the second kind of order x >= 0, at y
"""


@dataclass(frozen=True)
class Overload:
    """Dtypes (their names in `tritium.language`) of arguments and result, and the symbol.

    With `as_bool` the result is an int32 that stands for a bool.
    """

    arguments: tuple[str, ...]
    result: str
    symbol: str
    as_bool: bool = False


@dataclass(frozen=True)
class Signature:
    """A function: its overloads, and what it computes of its arguments x, y, z, w."""

    name: str
    overloads: tuple[Overload, ...]
    description: str

    @property
    def arity(self) -> int:
        return len(self.overloads[0].arguments)


def _overload(name: str, text: str) -> Overload:
    types, _, symbol = text.partition("=")
    arguments, _, result = types.partition(">")
    result = result or arguments[0]
    symbol = symbol or (f"{name}f" if "f" in arguments else name)
    return Overload(
        tuple(_LETTERS[a] for a in arguments), "int32" if result == "b" else _LETTERS[result],
        f"__nv_{symbol}", result == "b",
    )  # fmt: skip


@cache
def signatures() -> dict[str, Signature]:
    """Every function by its name."""
    found: dict[str, Signature] = {}
    for line in _TABLE.strip().splitlines():
        pattern, overloads, description = line.split(": ")
        for rounding in ROUNDINGS if "*" in pattern else ("",):
            name = pattern.replace("*", rounding)
            how = f" rounded {ROUNDINGS[rounding]}" if rounding else ""
            found[name] = Signature(
                name,
                tuple(_overload(name, o.replace("*", rounding)) for o in overloads.split()),
                description + how,
            )
    return dict(sorted(found.items()))
