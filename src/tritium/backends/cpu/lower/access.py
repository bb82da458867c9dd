"""Loads and stores of one chunk, by what is known of its addresses.

    one address for all lanes       a scalar access
    consecutive addresses           a (masked) vector access
    descending addresses            the same, reversed
    every second, third, fourth     loads of the vectors between, from the first element to the last
    at other steps                  each lane by itself, unless gathers are instructions
    anything else                   gather and scatter

Lanes that are masked off never touch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.moves.transpose import blocked
from tritium.backends.cpu.lower.types import memory_type, value_type
from tritium.backends.cpu.lower.values import At, Index, Kind, Lanes, Linear, Origin, Uniform, Vec
from tritium.backends.cpu.tiles.ir import Nest
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const, lanes, mangle, scalar, vector
from tritium.ir import types as ir
from tritium.ops.tile import BufferOp, CopyOp

ZEROS_BYTES = 512
"""Size of the block of zeros that loads whose mask is false read instead."""


def buffer_pointer(e: Emitter, buffer: BufferOp, at: tuple[Index, ...]) -> Lanes:
    """The addresses of elements of a buffer."""
    size = buffer.element_bytes
    strides, step = [0] * len(at), size
    for dim in reversed(range(len(at))):
        strides[dim] = step
        step *= buffer.shape[dim]
    base, level = e.context.address(buffer), 0
    spread: Value | None = None
    progress: tuple[Index, int] | None = None
    for index, stride in zip(at, strides, strict=False):
        if index.kind == Kind.LANES:
            assert progress is None, "two dimensions run over the lanes"
            progress = (index, stride)
        elif index.kind == Kind.VECTOR:
            level = max(level, index.level)
            place = e.position(index)
            assert isinstance(place, Vec)
            scaled = e.f.op("mul", place.value, const(place.value.type, stride))
            spread = scaled if spread is None else e.f.op("add", spread, scaled)
        else:
            level = max(level, index.level)
            line = Linear(base, stride, index.value, index.shift, level, index.level)
            base = e.moved(line)
    if spread is not None:
        if progress is not None:
            index, stride = progress
            base_vec = e.vec(Linear(base, stride, index.value, index.shift, level, index.level))
            return Vec(e.f.gep("i8", base_vec, spread), e.depth)
        offsets = e.f.cast("trunc", spread, vector("i32", lanes(spread.type)))
        return Vec(e.f.gep("i8", base, spread), level, origin=Origin(base, offsets, 1))
    if progress is not None:
        index, stride = progress
        return Linear(base, stride, index.value, index.shift, level, index.level)
    return Uniform(base, level)


PIECE = 16
"""Bytes that tiles which are stored past the caches are aligned to: as much as NumPy's arrays."""


def load_buffer(e: Emitter, buffer: BufferOp, at: tuple[Index, ...]) -> Lanes:
    """Elements of a buffer."""
    size = buffer.element_bytes

    def read(at: tuple[Index, ...], run: bool = True) -> Lanes | None:
        pointer = buffer_pointer(e, buffer, at)
        if run and (not isinstance(pointer, Linear) or pointer.stride != size):
            return None
        align = min(64, size * e.width) if _aligned(e, pointer, size) else size
        return load(e, pointer, buffer.element, None, None, align, near=True)

    last = at[-1] if at else None
    if last is not None and last.kind == Kind.SCALAR and last.value is not None:
        found = blocked(e, id(buffer), at, read)
        if found is not None:
            return found
    found = read(at, False)
    assert found is not None
    return found


def store_buffer(e: Emitter, buffer: BufferOp, at: tuple[Index, ...], value: Lanes) -> None:
    """Write elements of a buffer."""
    pointer = buffer_pointer(e, buffer, at)
    size = buffer.element_bytes
    align = min(64, size * e.width) if _aligned(e, pointer, size) else size
    store(e, pointer, value, buffer.element, None, align)


def inlined(nest: Nest) -> frozenset[SSAValue]:
    """The values whose buffers a nest fills: to be computed, not read."""
    return frozenset(copy.value for copy in nest.copies if copy.keeps)


def copy(e: Emitter, copies: Sequence[CopyOp], at: At) -> None:
    """Copies to buffers, for one chunk."""
    named = e.context.function.named
    values = [
        load_buffer(e, named[r.source], at) if r.source else e.emit(r.value, at) for r in copies
    ]
    for root, value in zip(copies, values, strict=True):
        store_buffer(e, named[root.target], at, value)


def _aligned(e: Emitter, pointer: Lanes, size: int) -> bool:
    if not e.aligned or not isinstance(pointer, Linear) or pointer.stride != size:
        return False
    return pointer.shift % e.width == 0


def load(
    e: Emitter,
    pointer: Lanes,
    type: ir.Type,
    mask: Lanes | None,
    other: Lanes | None,
    align: int,
    volatile: bool = False,
    near: bool = False,
) -> Lanes:
    """The elements at the addresses; `other` (or zero) where the mask is false. `near`: they are
    in the first cache."""
    if mask is not None and isinstance(mask, Uniform) and mask.value.ref == "true":
        mask = None
    pinned = pointer.pinned or (mask is not None and mask.pinned)
    pinned = pinned or (other is not None and other.pinned)
    args = (mask, other, align, volatile)
    size = memory_bytes(type)
    if isinstance(pointer, Linear) and pointer.stride == 0:
        pointer = Uniform(pointer.base, pointer.level, pointer.pinned)
    if isinstance(pointer, Uniform):
        result = _load_one(e, pointer, type, *args)
    elif isinstance(pointer, Linear) and pointer.stride in (size, -size):
        result = _load_run(e, pointer, type, *args)
    elif isinstance(pointer, Linear) and mask is None and not volatile and (
        step := _few_vectors(e, pointer, size)
    ):
        result = _load_strided(e, pointer, type, align, step)
    else:
        result = _gather(e, pointer, type, mask, other, align, near)
    return result._replace(pinned=pinned)


def from_memory(f: Function, value: Value, type: ir.Type) -> Value:
    """An element as loaded, as a value (i1 are bytes in memory)."""
    if value_type(type) == "i1":
        return f.icmp("ne", value, const(value.type, 0))
    return value


def to_memory(f: Function, value: Value, type: ir.Type) -> Value:
    """A value as it is stored."""
    if value_type(type) == "i1":
        return f.cast("zext", value, vector("i8", lanes(value.type)))
    return value


def _level(*values: Lanes | None) -> int:
    level = 0
    for value in values:
        if isinstance(value, Linear):
            level = max(level, value.level, value.index_level)
        elif value is not None:
            level = max(level, value.level)
    return level


def zeros(f: Function) -> Value:
    """The memory that loads read whose mask is false."""
    return f.module.constant(f"[{ZEROS_BYTES} x i8]", "zeroinitializer", prefix="zeros")


def _zero(type: str) -> Value:
    if lanes(type) > 1:
        return Value(type, "zeroinitializer")
    return const(type, 0)


def _load_one(
    e: Emitter,
    pointer: Uniform,
    type: ir.Type,
    mask: Lanes | None,
    other: Lanes | None,
    align: int,
    volatile: bool,
) -> Lanes:
    f, held = e.f, memory_type(type)
    note = "volatile " if volatile else ""
    if isinstance(mask, Vec):
        return _load_splat(e, pointer, type, mask, other, align)
    level = _level(pointer, mask) if other is None or isinstance(other, Uniform) else e.depth

    def write() -> Value:
        address = pointer.value
        if mask is not None:
            assert isinstance(mask, Uniform)
            address = f.select(mask.value, address, zeros(e.f))
        loaded = f.emit(held, f"load {note}{held}, {address}, align {align}")
        return from_memory(f, loaded, type)

    loaded = e.at_level(level, write)
    if mask is None or other is None:
        return Uniform(loaded, level)
    assert isinstance(mask, Uniform)
    if isinstance(other, Uniform):
        level = _level(pointer, mask, other)
        chosen = e.at_level(level, f.select, mask.value, loaded, other.value)
        return Uniform(chosen, level)
    wide = e.vec(Uniform(loaded, level))
    chosen = f.select(mask.value, wide, e.vec(other))
    return Vec(chosen, e.depth)


def _load_splat(
    e: Emitter, pointer: Uniform, type: ir.Type, mask: Vec, other: Lanes | None, align: int
) -> Lanes:
    """One address, a mask that differs between the lanes: load if any lane wants it."""
    f, level = e.f, _level(pointer, mask, other)

    def write() -> Value:
        wanted = f.call("i1", f"llvm.vector.reduce.or.{mangle(mask.value.type)}", mask.value)
        address = f.select(wanted, pointer.value, zeros(e.f))
        loaded = from_memory(f, f.load(memory_type(type), address, align), type)
        wide = f.splat(loaded, e.width)
        rest = _zero(wide.type) if other is None else e.vec(other)
        return f.select(mask.value, wide, rest)

    if other is not None:
        e.vec(other)
    return Vec(e.at_level(level, write), level)


def _run_start(e: Emitter, pointer: Linear) -> Value:
    """The lowest address of a run; for a descending one that of the last lane."""
    if pointer.stride == 0 or (isinstance(pointer.stride, int) and pointer.stride > 0):
        return e.moved(pointer)
    return e.moved(pointer._replace(shift=pointer.shift + e.width - 1))


def mirrored(e: Emitter, value: Value) -> Value:
    """A vector with its lanes in reverse order."""
    return e.f.shuffle(value, None, list(range(e.width - 1, -1, -1)))


def _load_run(
    e: Emitter,
    pointer: Linear,
    type: ir.Type,
    mask: Lanes | None,
    other: Lanes | None,
    align: int,
    volatile: bool,
) -> Lanes:
    f = e.f
    held = vector(memory_type(type), e.width)
    level = _level(pointer, mask, other)
    descending = pointer.stride != memory_bytes(type)
    start = _run_start(e, pointer)
    if mask is None:
        note = "volatile " if volatile else ""

        def plain() -> Value:
            loaded = f.emit(held, f"load {note}{held}, {start}, align {align}")
            return from_memory(f, mirrored(e, loaded) if descending else loaded, type)

        return Vec(e.at_level(level, plain), level)
    whole = mask.value if isinstance(mask, Uniform) else None
    wanted = e.vec(mask)
    rest = None if other is None else e.vec(other)

    def masked() -> Value:
        passed = _zero(held) if rest is None else to_memory(f, rest, type)
        on = wanted
        if descending:
            on = mirrored(e, on)
            passed = passed if rest is None else mirrored(e, passed)
        if _masks_runs(e, memory_bytes(type)):
            name = f"llvm.masked.load.{mangle(held)}.p0"
            loaded = f.call(held, name, start, const("i32", align), on, passed)
        else:
            loaded = _load_asked(f, start, type, on, whole, align)
            loaded = loaded if rest is None else f.select(on, loaded, passed)
        return from_memory(f, mirrored(e, loaded) if descending else loaded, type)

    return Vec(e.at_level(level, masked), level)


def _masks_runs(e: Emitter, size: int) -> bool:
    """True if the processor has loads and stores under a mask of runs of elements of `size` bytes.
    In place of others LLVM branches for each lane, and its pass that does so takes time that grows
    with the square of their number."""
    features = e.context.features
    if e.context.host.arm:
        return "sve" in features and size * e.width == 16
    return "avx512bw" in features or ("avx" in features and size >= 4)


def _load_asked(
    f: Function, start: Value, type: ir.Type, on: Value, whole: Value | None, align: int
) -> Value:
    """A run of elements of which those that are not asked for are read as zeros. `whole` is the
    mask if it is the same for all lanes; others are asked for in a function, so that what LLVM
    compiles does not grow with the lanes of each load."""
    element, size = memory_type(type), memory_bytes(type)
    held = vector(element, lanes(on.type))
    if whole is not None:
        return f.load(held, f.select(whole, start, zeros(f)), align)
    bits = _bits(f, on)

    def body(g: Function, start: Value, bits: Value) -> None:
        full, part = g.new_label("full"), g.new_label("part")
        g.branch_if(g.icmp("eq", bits, const(bits.type, -1)), full, part)
        g.label(full)
        g.ret(g.load(held, start, align))
        g.label(part)
        found = Value(held, "poison")
        for lane in range(lanes(held)):
            place = g.select(_bit(g, bits, lane), g.offset(start, lane * size), zeros(g))
            found = g.insert(found, g.load(element, place, min(align, size)), lane)
        g.ret(found)

    name = _outlined(f, f"load.{mangle(held)}.{align}", held, (start, bits), body)
    return f.call(held, name, start, bits)


def _outlined(
    f: Function, name: str, result: str, arguments: Sequence[Value], body: Callable[..., None]
) -> str:
    """The name of a function of the module, which is written once."""
    if all(other.name != name for other in f.module.functions):
        types = [(value.type, f"a{i}", "") for i, value in enumerate(arguments)]
        attributes = f"nounwind {f.module.outlined}"
        g = Function(f.module, name, types, result, linkage="internal", attributes=attributes)
        body(g, *g.arguments)
    return name


def _bits(f: Function, mask: Value) -> Value:
    """A mask as an integer: LLVM extracts lanes of vectors of i1 one by one from bytes."""
    return f.cast("bitcast", mask, f"i{lanes(mask.type)}")


def _bit(f: Function, bits: Value, lane: int) -> Value:
    return f.icmp("ne", f.op("and", bits, const(bits.type, 1 << lane)), const(bits.type, 0))


def _few_vectors(e: Emitter, pointer: Linear, size: int) -> int:
    """The stride in elements, if loads of all vectors up to the last lane's element cost less than
    a load for each lane; else 0. A processor must have shuffles of such elements."""
    c = e.context
    shuffled = size >= 4 or c.host.arm or "ssse3" in c.features
    if not shuffled or not isinstance(pointer.stride, int) or e.width < 4:
        return 0
    step, rest = divmod(pointer.stride, size)
    most = 4 if size >= 4 else 8  # words of two bytes and bytes are not gathered by one instruction
    return step if rest == 0 and 2 <= step <= most else 0


def _load_strided(e: Emitter, pointer: Linear, type: ir.Type, align: int, step: int) -> Lanes:
    """Each `step`-th element, of the vectors that they lie in. The last vector ends with the last
    element: what is read beside elements is less than a page from two of them, and so in a page of
    one of them."""
    f, width, size = e.f, e.width, memory_bytes(type)
    held, level, start = vector(memory_type(type), width), _level(pointer), e.moved(pointer)
    last = (width - 1) * step

    def write() -> Value:
        found, count = _zero(held), 0
        for number in range(step):
            first = min(number * width, last - width + 1)
            loaded = f.load(held, f.offset(start, first * size), align)
            wanted = [i - first for i in range(count * step, first + width, step)]
            order = [*range(count), *(i + width for i in wanted)]
            count = len(order)
            found = f.shuffle(found, loaded, [*order, *[-1] * (width - count)])
        return from_memory(f, found, type)

    return Vec(e.at_level(level, write), level)


def _gather_parts(f: Function, addresses: Value, on: Value, held: str, bits: int) -> Value:
    """Elements of 8 or 16 bits, for which x86 has no gather, as parts of words that reach into no
    page that the element is not in, even where it is not aligned. Loads of one after the other
    take three times as long from the second cache."""
    count = lanes(held)
    wide, word = vector("i64", count), vector("i32", count)
    low = f.cast("trunc", f.cast("ptrtoint", addresses, wide), word)
    before = f.op("and", low, const(word, 3))
    if bits == 16:
        before = f.intrinsic("umin", before, const(word, 2))
    back = f.op("sub", const(wide, 0), f.cast("zext", before, wide))
    name = f"llvm.masked.gather.{mangle(word)}.{mangle(addresses.type)}"
    words = f.gep("i8", addresses, back, flags="")
    found = f.call(word, name, words, const("i32", 1), on, _zero(word))
    found = f.op("lshr", found, f.op("shl", before, const(word, 3)))
    return f.cast("bitcast", f.cast("trunc", found, vector(f"i{bits}", count)), held)


def _lane_addresses(e: Emitter, pointer: Lanes, mask: Lanes | None) -> Iterator[Value] | None:
    """The address of each lane, of accesses that are done lane by lane: LLVM does so without
    AVX-512, but computes the addresses as vectors and moves them one by one."""
    features = e.context.features
    if mask is not None or e.width < 2 or "avx512f" in features:
        return None
    if isinstance(pointer, Linear):
        return _at_steps(e.f, e.moved(pointer), pointer.stride, e.width)
    if isinstance(pointer, Vec) and pointer.origin is not None and not e.context.host.arm:
        return _at_offsets(e.f, pointer.origin)
    return None


def _at_steps(f: Function, start: Value, step: Value | int, count: int) -> Iterator[Value]:
    """Addresses that are equally far from each other, in bytes."""
    for lane in range(count):
        if isinstance(step, int):
            yield f.offset(start, lane * step)
        else:
            yield start
            start = f.gep("i8", start, step)


def _at_offsets(f: Function, origin: Origin) -> Iterator[Value]:
    """The addresses of lanes at offsets of 32 bits. Two of them move to a scalar register at once
    (Zen 3, gathers from rows of 1024 floats: .69 ns an element, .94 by LLVM's code)."""
    pairs = lanes(origin.offsets.type) // 2
    halves, half = f.cast("bitcast", origin.offsets, vector("i64", pairs)), const("i64", 32)
    unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[origin.size]
    for pair in range(pairs):
        both = halves if pairs == 1 else f.extract(halves, pair)
        # An empty assembly text keeps LLVM 22 from knowing that the lower offset is not negative:
        # it would extend it by a move of 32 bits, and then drop that move.
        both = f.emit("i64", f'call i64 asm "", "=r,0"({both})')
        for offset in (f.op("shl", both, half), both):
            yield f.gep(unit, origin.base, f.op("ashr", offset, half), flags="")


def _load_lanes(
    f: Function, addresses: Iterator[Value], type: ir.Type, width: int, align: int
) -> Value:
    """The elements at each lane's address, one after the other."""
    held = vector(memory_type(type), width)
    found = Value(held, "poison")
    for lane, address in enumerate(addresses):
        found = f.insert(found, f.load(scalar(held), address, align), lane)
    return from_memory(f, found, type)


def _gather(
    e: Emitter,
    pointer: Lanes,
    type: ir.Type,
    mask: Lanes | None,
    other: Lanes | None,
    align: int,
    near: bool,
) -> Lanes:
    f, held = e.f, vector(memory_type(type), e.width)
    level = _level(pointer, mask, other)
    by_lanes = _lane_addresses(e, pointer, mask)
    if by_lanes is not None:
        return Vec(e.at_level(level, _load_lanes, f, by_lanes, type, e.width, align), level)
    addresses = e.vec(pointer)
    on = const(vector("i1", e.width), True) if mask is None else e.vec(mask)
    rest = None if other is None else e.vec(other)

    def write() -> Value:
        passed = _zero(held) if rest is None else to_memory(f, rest, type)
        places, asked, chosen = addresses, on, rest is not None
        parts = not near and memory_bytes(type) < 4 and "avx2" in e.context.features
        if mask is not None and not _masks_lanes(e, 4 if parts else memory_bytes(type)):
            # Without masked gathers LLVM branches for each lane: read zeros instead.
            places = f.select(on, addresses, f.splat(zeros(f), e.width))
            asked = const(vector("i1", e.width), True)
        if parts:
            found = _gather_parts(f, places, asked, held, 8 * memory_bytes(type))
        else:
            name = f"llvm.masked.gather.{mangle(held)}.{mangle(places.type)}"
            found = f.call(held, name, places, const("i32", align), asked, passed)
            chosen = chosen and asked is not on
        return from_memory(f, f.select(on, found, passed) if chosen else found, type)

    return Vec(e.at_level(level, write), level)


def store(
    e: Emitter, pointer: Lanes, value: Lanes, type: ir.Type, mask: Lanes | None, align: int
) -> None:
    """Write the elements whose mask is true; the last lane wins where addresses are equal."""
    f, size = e.f, memory_bytes(type)
    if isinstance(mask, Uniform) and mask.value.ref == "true":
        mask = None
    if e.width == 1:
        _store_scalar(e, pointer, value, type, mask, align)
        return
    data = to_memory(f, e.vec(value), type)
    if isinstance(pointer, Linear) and pointer.stride in (size, -size):
        descending = pointer.stride != size
        start = _run_start(e, pointer)
        data = mirrored(e, data) if descending else data
        if e.streams and not descending:
            _stream(e, data, start, size, mask)
            return
        if mask is None:
            f.store(data, start, align)
            return
        if not _masks_runs(e, size):
            _store_run_asked(e, data, start, size, mask, align, descending)
            return
        on = e.vec(mask)
        on = mirrored(e, on) if descending else on
        _use(f, data)
        name = f"llvm.masked.store.{mangle(data.type)}.p0"
        f.call("void", name, data, start, const("i32", align), on)
        return
    by_lanes = _lane_addresses(e, pointer, mask)
    if by_lanes is not None:
        for lane, address in enumerate(by_lanes):
            f.store(f.extract(data, lane), address, align)
        return
    addresses = e.vec(pointer)
    if mask is not None and not _masks_lanes(e, size):
        _scatter_asked(f, data, addresses, e.vec(mask), align)
        return
    on = const(vector("i1", e.width), True) if mask is None else e.vec(mask)
    name = f"llvm.masked.scatter.{mangle(data.type)}.{mangle(addresses.type)}"
    f.call("void", name, data, addresses, const("i32", align), on)


def _masks_lanes(e: Emitter, size: int) -> bool:
    """True if the processor has gathers and scatters, under a mask, of elements of `size` bytes
    (`_masks_runs` says why it matters)."""
    return "avx512f" in e.context.features and size >= 4 and e.width > 2


def _store_run_asked(
    e: Emitter, data: Value, start: Value, size: int, mask: Lanes, align: int, descending: bool
) -> None:
    """A run of elements, in the order of memory, under a mask that no instruction takes."""
    f = e.f
    if isinstance(mask, Uniform):
        with f.when(mask.value, "store", "stored"):
            f.store(data, start, align)
        return
    bits = _bits(f, mirrored(e, e.vec(mask)) if descending else e.vec(mask))

    def body(g: Function, data: Value, start: Value, bits: Value) -> None:
        full, part = g.new_label("full"), g.new_label("part")
        g.branch_if(g.icmp("eq", bits, const(bits.type, -1)), full, part)
        g.label(full)
        g.store(data, start, align)
        g.ret()
        g.label(part)
        for lane in range(lanes(data.type)):
            with g.when(_bit(g, bits, lane), "store", "stored"):
                g.store(g.extract(data, lane), g.offset(start, lane * size), min(align, size))
        g.ret()

    name = _outlined(f, f"store.{mangle(data.type)}.{align}", "void", (data, start, bits), body)
    f.call("void", name, data, start, bits)


def _scatter_asked(f: Function, data: Value, addresses: Value, mask: Value, align: int) -> None:
    """Lanes of a vector, one after the other, where the mask is true. In a function, to which the
    addresses go through memory, they take a tenth to a third longer (Zen 3)."""
    bits = _bits(f, mask)
    for lane in range(lanes(data.type)):
        with f.when(_bit(f, bits, lane), "store", "stored"):
            f.store(f.extract(data, lane), f.extract(addresses, lane), align)


def _use(f: Function, data: Value) -> None:
    """A use of integers (also those that are the bits of 16-bit floats) that are stored under a
    mask, which keeps LLVM from making one of the store and of the truncation that they may come
    from: with AVX-512, where one lane of a constant mask is on, LLVM 22 stores that lane as wide as
    it was before."""
    if scalar(data.type) not in ("i64", "float", "double"):
        f.module.declare("llvm.fake.use", "void", ["..."])
        f.line(f"call void (...) @llvm.fake.use({data})")


def _stream(e: Emitter, data: Value, start: Value, size: int, mask: Lanes | None) -> None:
    """A store past the caches, of part of a line; under a mask, of those pieces of 16 bytes whose
    first lane is on."""
    f, note = e.f, f", !nontemporal {e.context.streaming_note()}"
    if mask is None:
        f.store(data, start, min(64, e.width * size), note)
        return
    piece, on = PIECE // size, e.vec(mask)
    for first in range(0, e.width, piece):
        with f.when(f.extract(on, first), "store", "stored"):
            part = f.shuffle(data, None, range(first, min(first + piece, e.width)))
            f.store(part, f.offset(start, first * size), min(PIECE, e.width * size), note)


def _store_scalar(
    e: Emitter, pointer: Lanes, value: Lanes, type: ir.Type, mask: Lanes | None, align: int
) -> None:
    f = e.f
    assert isinstance(pointer, Uniform) and isinstance(value, Uniform)
    data = to_memory(f, value.value, type)
    if mask is None:
        f.store(data, pointer.value, align)
        return
    assert isinstance(mask, Uniform)
    with f.when(mask.value, "store", "stored"):
        f.store(data, pointer.value, align)
