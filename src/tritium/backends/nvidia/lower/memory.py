"""Loads and stores by inline PTX: predicates, cache operators, shared memory of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tritium.backends.nvidia.lower.hints import Hints
from tritium.codegen.gpu.emitter import Emitter, bits_of, word_type
from tritium.codegen.gpu.hardware import Caching, Unsupported
from tritium.codegen.llvm.writer import Value, const
from tritium.ops.ttir import CacheModifier, EvictionPolicy

_CONSTRAINT = {"i8": "c", "i16": "h", "i32": "r", "i64": "l"}

_LOAD_CACHE = {
    CacheModifier.NONE: "", CacheModifier.CA: ".ca", CacheModifier.CG: ".cg",
    CacheModifier.CS: ".cs", CacheModifier.CV: ".cv",
}  # fmt: skip
_STORE_CACHE = {
    CacheModifier.NONE: "", CacheModifier.WB: ".wb", CacheModifier.CG: ".cg",
    CacheModifier.CS: ".cs", CacheModifier.WT: ".wt",
}  # fmt: skip
_EVICTION = {
    EvictionPolicy.EVICT_NORMAL: "", EvictionPolicy.EVICT_FIRST: ".L1::evict_first",
    EvictionPolicy.EVICT_LAST: ".L1::evict_last",
}  # fmt: skip


def _suffix(count: int, word: str) -> str:
    return (f".v{count}" if count > 1 else "") + f".b{bits_of(word)}"


def braced(names: Sequence[str]) -> str:
    return f"{{ {', '.join(names)} }}" if len(names) > 1 else names[0]


def _modifiers(known: Mapping[CacheModifier, str], caching: Caching, hints: Hints) -> str:
    """The suffix of an instruction: PTX does not combine a modifier and a priority."""
    if caching.modifier not in known:
        raise Unsupported(f"cache modifier {caching.modifier.name.lower()}")
    return (known[caching.modifier] or hints.first or _EVICTION[caching.eviction]) + hints.second


class PtxGlobalMemory:
    """`ld.global` and `st.global`."""

    def load(
        self, e: Emitter, pointer: Value, element: str, count: int, mask: Value | None,
        others: Sequence[Value] | None, caching: Caching,
    ) -> list[Value]:  # fmt: skip
        hints = Hints.of(caching.hints)
        modifiers = _modifiers(_LOAD_CACHE, caching, hints)
        if mask is None and not modifiers and not caching.volatile:
            return e.load_neighbours(pointer, element, count)
        word = word_type(element, count)
        words = bits_of(element) * count // bits_of(word)
        held = word if word != "i8" else "i16"
        code = _CONSTRAINT[held]
        outputs = [f"${i}" for i in range(words)]
        arguments, text = [pointer], ""
        constraints = [f"={code}"] * words + ["l"]
        if mask is not None:
            arguments.append(mask)
            constraints.append("b")
            if others is None:
                start: list[Value] = [const(held, 0)] * words
            else:
                packed = e.pack(others, word)
                start = [e.f.cast("zext", w, held) if held != word else w for w in packed]
            arguments += start
            constraints += [str(i) for i in range(words)]  # tied: they start as `other`
            text = f"@${words + 1} "
        further = ""
        if hints.policy is not None and not caching.volatile:
            further = f", ${words + len(arguments)}"
            arguments.append(hints.policy(e))
            constraints.append("l")
        volatile = ".volatile" if caching.volatile else ""
        text += (
            f"ld{volatile}.global{'' if volatile else modifiers}{_suffix(words, word)} "
            f"{braced(outputs)}, [ ${words} ]{further};"
        )
        struct = held if words == 1 else "{ " + ", ".join([held] * words) + " }"
        loaded = e.asm(struct, text, ",".join(constraints), *arguments)
        parts = e.members(loaded, [held] * words)
        if held != word:
            parts = [e.f.cast("trunc", p, word) for p in parts]
        return e.unpack(parts, element)

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
        caching: Caching,
    ) -> None:  # fmt: skip
        hints = Hints.of(caching.hints)
        modifiers = _modifiers(_STORE_CACHE, caching, hints)
        _store(e, pointer, parts, condition, f"st.global{modifiers}", "l", hints.policy)


class PtxSharedMemory:
    """`st.shared`, and the shared memory of other blocks of a cluster."""

    def read_metadata(self, e: Emitter) -> str:
        return ""

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None
    ) -> None:
        address, offset = e.immediate(pointer)
        _store(e, address, parts, condition, "st.shared", "r", offset=offset)

    def add(self, e: Emitter, pointer: Value, number: Value, condition: Value) -> None:
        text = "@$2 red.shared.add.u32 [$0], $1;"
        e.asm("void", text, "r,r,b,~{memory}", e.address(pointer), number, condition)

    def load_remote(
        self, e: Emitter, place: Value, block: Value, element: str, count: int
    ) -> list[Value]:
        address = _mapped(e, place if place.type == "i32" else e.address(place), block)
        word = word_type(element, count)
        held = word if word != "i8" else "i16"
        n = bits_of(element) * count // bits_of(word)
        results = braced([f"${i}" for i in range(n)])
        text = f"ld.shared::cluster{_suffix(n, word)} {results}, [ ${n} ];"
        struct = held if n == 1 else "{ " + ", ".join([held] * n) + " }"
        constraints = [*[f"={_CONSTRAINT[held]}"] * n, "r", "~{memory}"]
        parts = e.members(e.asm(struct, text, ",".join(constraints), address), [held] * n)
        if held != word:
            parts = [e.f.cast("trunc", p, word) for p in parts]
        return e.unpack(parts, element)

    def store_remote(
        self, e: Emitter, place: Value, block: Value, parts: Sequence[Value],
        condition: Value | None,
    ) -> None:  # fmt: skip
        _store(e, _mapped(e, place, block), parts, condition, "st.shared::cluster", "r")

    def remote(self, e: Emitter, place: Value, block: Value) -> Value:
        address = e.f.cast("zext", _mapped(e, place, block), "i64")
        return e.asm("ptr", "cvta.shared::cluster.u64 $0, $1;", "=l,l", address, effects=False)


def _mapped(e: Emitter, place: Value, block: Value) -> Value:
    """The address in the cluster's window of an address in a block's shared memory."""
    text = "mapa.shared::cluster.u32 $0, $1, $2;"
    return e.asm("i32", text, "=r,r,r", place, block, effects=False)


def _store(
    e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
    instruction: str, address: str, policy: Callable[[Emitter], Value] | None = None,
    offset: str = "",
) -> None:  # fmt: skip
    """Store neighbouring elements (as they are in memory) with one instruction, by inline asm.
    `offset`: see `Emitter.immediate`."""
    word = word_type(parts[0].type, len(parts))
    words = e.pack(parts, word)
    held = word if word != "i8" else "i16"
    if held != word:
        words = [e.f.cast("zext", w, held) for w in words]
    n = len(words)
    stored = braced([f"${i + 1}" for i in range(n)])
    text = f"{instruction}{_suffix(n, word)} [ $0{offset} ], {stored};"
    constraints, arguments = [address, *[_CONSTRAINT[held]] * n], [pointer, *words]
    if policy is not None:
        text = f"{text[:-1]}, ${n + 1};"
        constraints.append("l")
        arguments.append(policy(e))
    if condition is not None:
        text = f"@${len(arguments)} {text}"
        constraints.append("b")
        arguments.append(condition)
    e.asm("void", text, ",".join([*constraints, "~{memory}"]), *arguments)
