"""PTX rewritten around two faults of ptxas.

**One shifted product is mistaken for another.** ptxas (12.8 to 13.5, from -O2 on) turns
(a * b << k) + c into a * (b << k) + c where b << k is useful more than once. In doing so it has
used b << 4 for a product that is shifted by 2:

    mul.lo.s32 %r32, %r22, %r24;    shl.b32 %r33, %r32, 2;
    mul.lo.s32 %r37, %r24, %r29;    shl.b32 %r38, %r37, 4;
    mul.lo.s32 %r42, %r24, %r28;    shl.b32 %r43, %r42, 4;

Here a factor that products with different shifts share is shifted before it is multiplied, which
leaves nothing to exchange:

    shl.b32 %r32, %r24, 2;    mul.lo.s32 %r33, %r22, %r32;

**Values are spilled while most registers are free.** ptxas keeps so few registers a thread that
the most programs fit a multiprocessor, and does not give that up where thousands of bytes must be
spilled for it: 32 registers and 8,020 bytes for 128 atomic operations of a thread on a tile that
stays live. The code is slow, and it can be wrong: where values are computed again in place of
being loaded, ptxas 13.5 has used one register for two of them at once (a thread's `(tid & 1) * 64`
became `(tid >> 5) * 64`). Such a kernel is assembled again for one program a multiprocessor.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import NamedTuple

_FUNCTION = re.compile(r"^(?=(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b)", re.M)
_PRODUCT = re.compile(
    r"^\tmul\.lo\.[su](?P<bits>32|64) \t(?P<to>%rd?\d+), (?P<a>%rd?\d+), (?P<b>%rd?\d+);$", re.M
)
_SHIFT = re.compile(
    r"^\tshl\.b(?P<bits>32|64) \t(?P<to>%rd?\d+), (?P<of>%rd?\d+), (?P<k>\d+);$", re.M
)
_THREADS = re.compile(r"^\.reqntid (\d+)[^\n]*$", re.M)
_BOUNDED = re.compile(r"^\.(maxnreg|minnctapersm) ", re.M)
_REGISTERS, _FEW_BYTES = 1 << 16, 1024
"""Registers of a multiprocessor; bytes that a thread may spill for a higher occupancy."""
_REGISTER = re.compile(r"%rd?\d+")
_WRITTEN = re.compile(r"^\s*(?:@\S+\s+)?[a-z][\w.:]*\s+(\{[^}]*|%rd?\d+)", re.M)


class _Shifted(NamedTuple):
    """A product and the shift that alone uses it."""

    product: re.Match[str]
    shift: re.Match[str]


def with_all_registers(ptx: str, used: int, spilled: int) -> str | None:
    """The PTX for one program a multiprocessor, if ptxas left registers unused though it spilled
    much; else None.

    Args:
        used: registers a thread has.
        spilled: bytes that a thread spills.
    """
    threads = _THREADS.search(ptx)
    if spilled <= _FEW_BYTES or threads is None or _BOUNDED.search(ptx):
        return None
    if used + 8 >= min(255, _REGISTERS // int(threads[1]) // 8 * 8):
        return None
    return f"{ptx[: threads.end()]}\n.minnctapersm 1{ptx[threads.end() :]}"


def shift_factors(ptx: str) -> str:
    """The PTX with factors shifted that are shared by products with different shifts."""
    return "".join(map(_in_function, _FUNCTION.split(ptx)))


def _in_function(text: str) -> str:
    found = _shifted_products(text)
    amounts: defaultdict[str, set[str]] = defaultdict(set)
    for product, shift in found:
        amounts[product["a"]].add(shift["k"])
        amounts[product["b"]].add(shift["k"])
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
    parts, at = list[str](), 0
    for start, end, lines in sorted(edits):
        parts += text[at:start], lines
        at = end
    return "".join([*parts, text[at:]])


def _shifted_products(text: str) -> list[_Shifted]:
    """Products of which nothing but a shift is used, whose result nothing else writes."""
    shifts = {shift["of"]: shift for shift in _SHIFT.finditer(text)}
    products = [p for p in _PRODUCT.finditer(text) if p["to"] in shifts]
    if len(products) < 2:
        return []
    named = Counter(_REGISTER.findall(text))
    written = Counter(r for to in _WRITTEN.findall(text) for r in _REGISTER.findall(to))
    pairs = [_Shifted(p, shifts[p["to"]]) for p in products if named[p["to"]] == 2]
    return [
        pair for pair in pairs
        if written[pair.shift["to"]] == 1 and pair.product["bits"] == pair.shift["bits"]
    ]  # fmt: skip
