"""Products that are shifted, written so that ptxas does not mistake one for another.

ptxas (12.8 to 13.5, from -O2 on) turns (a * b << k) + c into a * (b << k) + c where b << k is
useful more than once. In doing so it has used b << 4 for a product that is shifted by 2:

    mul.lo.s32 %r32, %r22, %r24;    shl.b32 %r33, %r32, 2;
    mul.lo.s32 %r37, %r24, %r29;    shl.b32 %r38, %r37, 4;
    mul.lo.s32 %r42, %r24, %r28;    shl.b32 %r43, %r42, 4;

Here a factor that products with different shifts share is shifted before it is multiplied, which
leaves nothing to turn round:

    shl.b32 %r32, %r24, 2;    mul.lo.s32 %r33, %r22, %r32;
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

_FUNCTION = re.compile(r"^(?=(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b)", re.M)
_PRODUCT = re.compile(
    r"^\tmul\.lo\.[su](?P<bits>32|64) \t(?P<to>%rd?\d+), (?P<a>%rd?\d+), (?P<b>%rd?\d+);$", re.M
)


class _Shifted(NamedTuple):
    """A product and the shift that alone uses it."""

    product: re.Match[str]
    shift: re.Match[str]

    @property
    def factors(self) -> tuple[str, str]:
        return self.product["a"], self.product["b"]


def shift_factors(ptx: str) -> str:
    """The PTX with factors shifted that are shared by products with different shifts."""
    return "".join(map(_in_function, _FUNCTION.split(ptx)))


def _in_function(text: str) -> str:
    amounts: defaultdict[str, set[str]] = defaultdict(set)
    found = [s for p in _PRODUCT.finditer(text) if (s := _shifted(text, p)) is not None]
    for one in found:
        for factor in one.factors:
            amounts[factor].add(one.shift["k"])
    edits: list[tuple[int, int, str]] = []
    for product, shift in found:
        a, b = product["a"], product["b"]
        if len(amounts[a]) > len(amounts[b]):
            a, b = b, a
        if len(amounts[b]) < 2:
            continue
        bits, middle = product["bits"], product["to"]
        lines = (
            f"\tshl.b{bits} \t{middle}, {b}, {shift['k']};\n"
            f"\tmul.lo.s{bits} \t{shift['to']}, {a}, {middle};"
        )
        edits += [(*product.span(), lines), (*shift.span(), "")]
    for start, end, lines in sorted(edits, reverse=True):
        text = text[:start] + lines + text[end:]
    return text


def _shifted(text: str, product: re.Match[str]) -> _Shifted | None:
    """The product with its shift, if nothing else uses it and nothing else writes the result."""
    to, bits = re.escape(product["to"]), product["bits"]
    if len(re.findall(rf"{to}\b", text)) != 2:
        return None
    shift = re.compile(rf"^\tshl\.b{bits} \t(?P<to>%rd?\d+), {to}, (?P<k>\d+);$", re.M).search(text)
    if shift is None:
        return None
    result = re.escape(shift["to"])
    writes = re.findall(rf"^\s*(?:@\S+\s+)?[a-z][\w.:]*\s+(?:\{{[^}}]*)?{result}\b", text, re.M)
    return _Shifted(product, shift) if len(writes) == 1 else None
