"""Products of a grid whose programs share operands, with work before and after; two in turn."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tools.tile_programs.program import (
    BFLOAT16,
    E4M3,
    E5M2,
    LANGUAGE,
    Pointer,
    Program,
    Tile,
    is_float,
)

F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
I8, I32 = np.dtype(np.int8), np.dtype(np.int32)
_TYPES = (F32, F32, F16, BFLOAT16, BFLOAT16, I8, I8, F64, E4M3, E5M2)
_WIDENED = (F32, F16, BFLOAT16)
"""Types that a matrix of int8 or of pairs of 4 bits is converted to before the product."""
_SIZES = (16, 16, 32, 64)
_WORDS = re.compile(
    r"\b(row|column|total|[abtrc]|[ab]_(block|at|k|ptrs)|bias|bias_at|rows|columns|depth|limit|"
    r"query|scores|legal|new|weights|factor|value)\b"
)
"""Names of the kernel that statements of this module give."""


@dataclass
class _Lines:
    """Lines of a program whose names no other statement has.

    Attributes:
        number: what names end with.
    """

    p: Program
    number: str = field(init=False)

    def __post_init__(self) -> None:
        self.number = self.p.name("_")

    def named(self, text: str) -> str:
        """A text with this statement's names."""
        return _WORDS.sub(rf"\1{self.number}", text)

    def add(self, *lines: str) -> None:
        """Write lines."""
        for line in lines:
            self.p.line(self.named(line))


def _result_of(dtype: np.dtype) -> np.dtype:
    """The type of the sums of a product."""
    return I32 if dtype.kind in "iu" else (F64 if dtype == F64 else F32)


@dataclass(frozen=True)
class _Grid:
    """The tiles of C that programs compute.

    Attributes:
        block: rows, columns and depth of a tile.
        size: rows, columns and depth of the whole.
        row, column: the numbers of each program's tile.
        way: how operands are read, by preference: through `pointers` that move, a `block` pointer,
            or by an `index`; as they are if `plain`.
    """

    block: tuple[int, int, int]
    size: tuple[int, int, int]
    row: np.ndarray
    column: np.ndarray
    way: str
    plain: bool

    def way_of_operand(self, p: Program) -> str:
        """The way in which one operand is read: mostly as the other."""
        others = ("pointers", "block", "index")
        return self.way if p.source.random() < 0.9 else p.source.choice(others)


def _grid(p: Program, lines: _Lines) -> _Grid:
    """Write the numbers of a program's tile, in groups of rows or row by row."""
    s = p.source
    block = s.choice(_SIZES), s.choice(_SIZES), s.choice((16, 32, 32, 64))
    columns = s.choice((1, 2, 3))
    rows, trips = -(-p.programs // columns), s.choice((1, 2, 3, 4))
    ragged = [s.choice((0, 0, 0, 1, 5, 15)) for _ in range(3)]
    size = (rows * block[0] - ragged[0], columns * block[1] - ragged[1],
            trips * block[2] - ragged[2])  # fmt: skip
    group, number = s.choice((1, 2, 4)), np.arange(p.programs)
    first = number // (group * columns) * group
    height = np.minimum(rows - first, group)
    within = number % (group * columns)
    row, column = first + within % height, within // height
    lines.add(f"row, column = tl.swizzle2d(pid // {columns}, pid % {columns}, {rows}, {columns}, "
              f"{group})")  # fmt: skip
    way = s.choice(("pointers", "pointers", "block", "index"))
    return _Grid(block, size, row, column, way, s.random() < 0.6)


@dataclass(frozen=True)
class _Operand:
    """A matrix that all programs read.

    Attributes:
        before: the lines before the loop over K.
        load: the lines that load a tile in iteration `t`.
        after: the lines that move pointers.
        data: its numbers in the programs' tiles, (programs, K, the other axis).
    """

    before: list[str]
    load: list[str]
    after: list[str]
    data: np.ndarray


def _places(p: Program, g: _Grid, is_b: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Indices along the axis that is not K in each program, which of them are inside, and True if
    indices wrap around instead of being masked."""
    axis = 1 if is_b else 0
    at = (g.column if is_b else g.row)[:, None] * g.block[axis] + np.arange(g.block[axis])
    wraps = p.source.random() < 0.4
    inside = at < g.size[axis]
    return (at % g.size[axis] if wraps else at), inside | wraps, wraps


def _operand(p: Program, g: _Grid, is_b: bool, dtype: np.dtype, packed: int = 1) -> _Operand:
    """A matrix in either order, read by pointers that move or by indices, or through a block
    pointer. `packed`: the neighbours along K that share an element."""
    s, letter = p.source, "b" if is_b else "a"
    axis = 1 if is_b else 0
    depth, other = g.size[2], g.size[axis]
    height = -(-depth // packed)
    turned = s.random() < 0.4  # K is the last axis in memory
    spare = s.choice((0, 0, 0, 3, 16))
    step_k, step = (1, height + spare) if turned else (other + spare, 1)
    pointer = p.pointer(dtype, (height - 1) * step_k + (other - 1) * step + 1)
    trips = -(-depth // g.block[2])
    k = np.arange(trips * g.block[2])
    at, inside, wraps = _places(p, g, is_b)
    active = (k < depth)[None, :, None] & inside[:, None, :]
    places = (k // packed)[None, :, None] * step_k + at[:, None, :] * step
    data = pointer.base.read(np.where(active, places, 0), active)
    assert data is not None  # the array is new
    way = g.way_of_operand(p)
    make = _through_block if way == "block" and not wraps and packed == 1 else _by_pointers
    place = _Place(pointer, letter, (step_k, step), bool(active.all()), wraps, packed, way)
    lines = make(p, g, place)
    return _Operand(*lines, data)


@dataclass(frozen=True)
class _Place:
    """The place of an operand in memory.

    Attributes:
        letter: its name.
        steps: between neighbours along K and along the other axis.
        inside: True if no tile has places beside the matrix.
        wraps: True if indices along the other axis wrap around.
        packed: as of `_operand`.
        way: as of `_Grid`.
    """

    pointer: Pointer
    letter: str
    steps: tuple[int, int]
    inside: bool
    wraps: bool
    packed: int
    way: str

    @property
    def axis(self) -> int:
        """The axis of the product that is not K."""
        return 1 if self.letter == "b" else 0

    @property
    def tile(self) -> str:
        """The number of the program's tile along that axis."""
        return "column" if self.letter == "b" else "row"


_Texts = tuple[list[str], list[str], list[str]]


def _through_block(p: Program, g: _Grid, of: _Place) -> _Texts:
    block = g.block[of.axis]
    shape, start = [g.size[2], g.size[of.axis]], ["0", f"{of.tile} * {block}"]
    size, stride, ahead = [g.block[2], block], list(of.steps), [str(g.block[2]), "0"]
    order = [1, 0] if of.steps[1] == 1 else [0, 1]
    if of.letter == "a":
        shape, start, size, stride, ahead = (x[::-1] for x in (shape, start, size, stride, ahead))
        order = [1 - x for x in order]
    texts = [p.scalar(x) if p.source.random() < 0.3 else str(x) for x in shape]
    check = "" if of.inside else ", boundary_check=(0, 1), padding_option='zero'"
    name = f"{of.letter}_block"
    before = f"{name} = tl.make_block_ptr({of.pointer.name}, ({', '.join(texts)}), "
    before += f"{tuple(stride)}, ({', '.join(start)}), {tuple(size)}, {tuple(order)})"
    return ([before], [f"{of.letter} = tl.load({name}{check})"],
            [f"{name} = tl.advance({name}, ({', '.join(ahead)}))"])  # fmt: skip


def _by_pointers(p: Program, g: _Grid, of: _Place) -> _Texts:
    s, depth, letter = p.source, g.block[2], of.letter
    down, across = (":, None", "None, :") if letter == "b" else ("None, :", ":, None")
    held = [p.scalar(x) if s.random() < 0.4 else str(x) for x in of.steps]
    wrapped = f" % {p.scalar(g.size[of.axis])}" if of.wraps else ""
    at, k = f"{letter}_at", f"{letter}_k"
    numbers = f"tl.arange(0, {g.block[of.axis]})"
    before = [f"{at} = ({of.tile} * {g.block[of.axis]} + {numbers}){wrapped}",
              f"{k} = tl.arange(0, {depth})"]  # fmt: skip
    masks = list[str]()
    if not of.inside or s.random() < 0.2:
        limit = p.scalar(g.size[2])
        masks.append(s.choice((f"(t * {depth} + {k}[{down}] < {limit})",
                               f"({k}[{down}] < {limit} - t * {depth})")))  # fmt: skip
        masks += [] if of.wraps else [f"({at}[{across}] < {p.scalar(g.size[of.axis])})"]
    masked = f", mask={' & '.join(masks)}, other=0" if masks else ""
    unpacked = "" if of.packed == 1 else f" // {of.packed}"
    along = f"{at}[{across}] * {held[1]}"
    if of.way == "pointers":
        name = f"{letter}_ptrs"
        start = f"{k}[{down}]{unpacked} * {held[0]} + {along}"
        before.append(f"{name} = {of.pointer.name} + ({start})")
        after = [f"{name} += {depth // of.packed} * {held[0]}"]
        return before, [f"{letter} = tl.load({name}{masked})"], after
    index = f"(t * {depth} + {k}[{down}]){unpacked}"
    place = f"{of.pointer.name} + {index} * {held[0]} + {along}"
    return before, [f"{letter} = tl.load({place}{masked})"], []


def _before(
    p: Program, g: _Grid, is_b: bool, dtype: np.dtype
) -> tuple[_Operand, list[str], np.ndarray]:  # fmt: skip
    """An operand, lines that change its tile before the product, and the tile's numbers then."""
    s, name = p.source, "b" if is_b else "a"
    kind = "plain" if g.plain else s.choice(("plain", "changed", "widened", "pairs"))
    if kind == "widened" and dtype in _WIDENED:
        operand = _operand(p, g, is_b, s.choice((I8, I8, np.dtype(np.uint8))))
        numbers = operand.data.astype(np.int64) & 7
        return operand, [f"{name} = ({name} & 7).to({LANGUAGE[dtype]})"], numbers
    if kind == "pairs" and dtype in (*_WIDENED, I8):
        operand = _operand(p, g, is_b, np.dtype(np.uint8), 2)
        k = np.arange(operand.data.shape[1])
        shift = (k % 2 * 4)[None, :, None]
        # Elements behind the end of K are 0 in one operand at least, as loaded or after this.
        nibbles = (operand.data.astype(np.int64) >> shift & 15) - 8
        inside = operand.data.astype(np.int64) * 0 + (k < g.size[2])[None, :, None]
        axes = "[:, None]" if is_b else "[None, :]"
        lines = [
            f"{name} = (({name} >> ((tl.arange(0, {g.block[2]}) % 2 * 4){axes}).to(tl.uint8)) & 15)"
            f".to(tl.int8) - 8",
            f"{name} = tl.where((t * {g.block[2]} + tl.arange(0, {g.block[2]})){axes} "
            f"< {p.scalar(g.size[2])}, {name}, 0).to({LANGUAGE[dtype]})",
        ]
        return operand, lines, nibbles * inside
    operand = _operand(p, g, is_b, dtype)
    data = operand.data.astype(np.int64 if dtype.kind == "i" else np.float64)
    if kind == "changed" and dtype not in (E4M3, E5M2, I8):
        text, data = s.choice((
            (f"{name} * 2", data * 2), (f"tl.where({name} > 0, {name}, 0)", np.maximum(data, 0)),
            (f"tl.minimum({name}, 2)", np.minimum(data, 2)),
        ))  # fmt: skip
        return operand, [f"{name} = ({text}).to({LANGUAGE[dtype]})"], data
    return operand, [], data


def grouped(p: Program) -> bool:
    """A product of two matrices that all programs share, and what is computed of it."""
    s, dtype = p.source, p.source.choice(_TYPES)
    lines = _Lines(p)
    g, result = _grid(p, lines), _result_of(dtype)
    sides = [_before(p, g, is_b, dtype) for is_b in (False, True)]
    (_, _, x), (_, _, y) = sides
    total = (x.transpose(0, 2, 1) @ y).astype(result)
    if not p.exact(total):
        return False
    trips = -(-g.size[2] // g.block[2])
    for operand, _, _ in sides:
        lines.add(*operand.before)
    lines.add(f"total = tl.zeros(({g.block[0]}, {g.block[1]}), {LANGUAGE[result]})")
    lines.add(f"for t in range({p.scalar(trips) if s.random() < 0.7 else trips}):")
    for operand, changes, _ in sides:
        lines.add(*(f"    {line}" for line in (*operand.load, *changes)))
    adds = s.random() < 0.2
    lines.add(f"    total {'+=' if adds else '='} tl.dot(a, b, {'' if adds else 'total, '}"
              f"out_dtype={LANGUAGE[result]}, input_precision='ieee')")  # fmt: skip
    for operand, _, _ in sides:
        lines.add(*(f"    {line}" for line in operand.after))
    total = _changed(lines, g, total)
    _keep(lines, g, total, result if s.random() < 0.5 else dtype)
    if s.random() < 0.5:
        p.new(lines.named("total"), total)
    return True


def _changed(lines: _Lines, g: _Grid, total: np.ndarray) -> np.ndarray:
    """Write what is computed of a product; the result."""
    p = lines.p
    s = p.source
    for _ in range(s.choice((0, 0, 1, 1, 2))):
        kind = s.choice(("bias", "relu", "leaky", "twice", "rows"))
        if kind == "bias":
            narrow = F16 if is_float(total.dtype) else I8
            bias = p.pointer(s.choice((total.dtype, narrow)), g.size[1])
            at = g.column[:, None] * g.block[1] + np.arange(g.block[1])
            held = bias.base.read(np.where(at < g.size[1], at, 0), at < g.size[1])
            assert held is not None
            found, text = total + held[:, None, :].astype(total.dtype), "total + bias[None, :]"
            before = [f"bias_at = column * {g.block[1]} + tl.arange(0, {g.block[1]})",
                     f"bias = tl.load({bias.name} + bias_at, mask=bias_at < {p.scalar(g.size[1])}, "
                     "other=0)"]  # fmt: skip
        else:
            before = list[str]()
            text, found = {
                "relu": ("tl.maximum(total, 0)", np.maximum(total, 0)),
                "leaky": ("tl.where(total > 0, total, total * 3)",
                          np.where(total > 0, total, total * total.dtype.type(3))),
                "twice": ("total + total", total + total),
                "rows": ("total - tl.max(total, 1)[:, None]",
                         total - total.max(2, keepdims=True)),
            }[kind]  # fmt: skip
        if not p.exact(found):
            continue
        lines.add(*before, f"total = {text}")
        total = found
    return total


def _keep(lines: _Lines, g: _Grid, total: np.ndarray, dtype: np.dtype) -> None:
    """Store the tiles of C, rounded to a type, in either order, without what is outside."""
    p = lines.p
    s = p.source
    held = total
    if dtype in (E4M3, E5M2):
        dtype = F16
    with np.errstate(over="ignore"):
        held = total.astype(dtype)
    rows, columns, _ = g.size
    turned, spare = s.random() < 0.2, s.choice((0, 0, 2))
    steps = (1, rows + spare) if turned else (columns + spare, 1)
    length = (rows - 1) * steps[0] + (columns - 1) * steps[1] + 1
    pointer = p.pointer(dtype, length, np.zeros(length, dtype))
    r = g.row[:, None] * g.block[0] + np.arange(g.block[0])
    c = g.column[:, None] * g.block[1] + np.arange(g.block[1])
    inside = (r < rows)[:, :, None] & (c < columns)[:, None, :]
    places = r[:, :, None] * steps[0] + c[:, None, :] * steps[1]
    done = pointer.base.write(np.where(inside, places, 0), p.among_active(inside), held)
    assert done
    lines.add(f"r = row * {g.block[0]} + tl.arange(0, {g.block[0]})")
    lines.add(f"c = column * {g.block[1]} + tl.arange(0, {g.block[1]})")
    mask = "" if inside.all() else (f", mask=(r[:, None] < {p.scalar(rows)}) & "
                                    f"(c[None, :] < {p.scalar(columns)})")  # fmt: skip
    texts = [p.scalar(x) if s.random() < 0.4 else str(x) for x in steps]
    lines.add(f"tl.store({pointer.name} + r[:, None] * {texts[0]} + c[None, :] * {texts[1]}, "
              f"total.to({LANGUAGE[dtype]}){mask})")  # fmt: skip


@dataclass(frozen=True)
class _Chain:
    """The sizes of two products in turn.

    Attributes:
        rows, columns, depth: of a tile of weights, and of the other operands.
        most: iterations of the program with most.
        trips: iterations of each program.
        length: columns in memory.
        least: what stands for no score.
    """

    rows: int
    columns: int
    depth: int
    most: int
    trips: np.ndarray
    length: int
    causal: bool
    least: int = -1000

    def results(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
        """The second product, the sums and the maxima of rows."""
        programs, m, _ = x.shape
        total = np.zeros((programs, m, self.depth), x.dtype)
        best, sums = np.full((programs, m), self.least, x.dtype), np.zeros((programs, m), x.dtype)
        for t in range(self.most):
            columns = t * self.columns + np.arange(self.columns)
            scores = x @ y[:, columns].transpose(0, 2, 1)
            legal = np.broadcast_to(columns < self.length, (m, self.columns))
            if self.causal:
                legal = legal & (np.arange(m)[:, None] >= columns)
            scores = np.where(legal, scores, self.least)
            new = np.maximum(best, scores.max(2))
            weights = np.where(legal, np.clip(scores - new[:, :, None] + 3, 0, 3), 0)
            factor = np.where(new > best, 2, 1)
            runs = (t < self.trips)[:, None]
            sums = np.where(runs, sums * factor + weights.sum(2), sums)
            added = total * factor[..., None] + weights @ z[:, columns]
            total = np.where(runs[..., None], added, total)
            best = np.where(runs, new, best)
        return [total, sums, best]


def chained(p: Program) -> bool:
    """A product of what is computed of another one, in a loop that scales its sums by rows, as
    attention does it."""
    s, dtype = p.source, p.source.choice((F32, F32, F16, BFLOAT16, I8, E5M2))
    m, n, d = s.choice((16, 32, 64)), s.choice((16, 32, 64)), s.choice((16, 32, 64))
    numbers = np.random.default_rng(s.getrandbits(32))
    most, differs = s.choice((1, 2, 3)), s.random() < 0.5
    trips = np.arange(p.programs) % most + 1 if differs else np.full(p.programs, most)
    chain = _Chain(m, n, d, most, trips, most * n - s.choice((0, 0, 1, 7)), s.random() < 0.4)
    held = [numbers.integers(-2, 3, (p.programs, size, d)).astype(dtype)
            for size in (m, chain.length, chain.length)]  # fmt: skip
    names = list[str]()
    for x in held:
        pointer = p.pointer(dtype, x.size, x.ravel())
        places = np.arange(x.size).reshape(p.programs, -1)
        pointer.base.read(places, np.ones(places.shape, bool))
        names.append(pointer.name)
    behind = ((0, 0), (0, most * n - chain.length), (0, 0))
    x, y, z = (h.astype(np.int64 if dtype == I8 else np.float64) for h in held)
    found = chain.results(x, np.pad(y, behind), np.pad(z, behind))
    results = [value.astype(_result_of(dtype)) for value in found]
    if not all(map(p.exact, results)):
        return False
    bound = f"pid % {most} + 1" if differs else p.scalar(most) if s.random() < 0.5 else str(most)
    tiles = [Tile(p.name("v"), data) for data in results]
    _write_chain(p, chain, dtype, bound, names, [tile.name for tile in tiles])
    p.tiles += tiles
    return True


def _write_chain(
    p: Program, chain: _Chain, dtype: np.dtype, bound: str, names: list[str], results: list[str]
) -> None:  # fmt: skip
    m, n, d = chain.rows, chain.columns, chain.depth
    to, (q, k, v), (total, sums, best) = LANGUAGE[_result_of(dtype)], names, results
    legal = "(columns[None, :] < limit)"
    legal += " & (rows[:, None] >= columns[None, :])" if chain.causal else ""
    base = f"pid * {chain.length * d} + columns"
    key = (
        f"tl.load({k} + {base}[None, :] * {d} + depth[:, None], mask=columns[None, :] < limit, "
        "other=0)" if p.source.random() < 0.4 else
        f"tl.trans(tl.load({k} + {base}[:, None] * {d} + depth[None, :], "
        "mask=columns[:, None] < limit, other=0))"
    )  # fmt: skip
    precision = f"out_dtype={to}, input_precision='ieee'"
    _Lines(p).add(
        f"rows, depth = tl.arange(0, {m}), tl.arange(0, {d})", f"limit = {p.scalar(chain.length)}",
        f"query = tl.load({q} + pid * {m * d} + rows[:, None] * {d} + depth[None, :])",
        f"{total} = tl.zeros(({m}, {d}), {to})", f"{sums} = tl.zeros(({m},), {to})",
        f"{best} = tl.full(({m},), {chain.least}, {to})",
        f"for t in range({bound}):",
        f"    columns = t * {n} + tl.arange(0, {n})",
        f"    legal = tl.broadcast_to({legal}, ({m}, {n}))",
        f"    scores = tl.where(legal, tl.dot(query, {key}, {precision}), {chain.least})",
        f"    new = tl.maximum({best}, tl.max(scores, 1))",
        "    weights = tl.where(legal, "
        "tl.minimum(tl.maximum(scores - new[:, None] + 3, 0), 3), 0)",
        f"    factor = tl.where(new > {best}, 2, 1).to({to})",
        f"    {sums} = {sums} * factor + tl.sum(weights, 1)",
        f"    value = tl.load({v} + {base}[:, None] * {d} + depth[None, :], "
        "mask=columns[:, None] < limit, other=0)",
        f"    {total} = tl.dot(weights.to({LANGUAGE[dtype]}), value, {total} * factor[:, None], "
        f"{precision})",
        f"    {best} = new",
    )  # fmt: skip
