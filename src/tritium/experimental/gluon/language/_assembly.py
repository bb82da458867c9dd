"""Assembly of the program's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit, typed
from tritium.language.builtins.external import elementwise_assembly
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tuples import tuple as tl_tuple
from tritium.language.values.types import dtype
from tritium.ops import ttgir
from tritium.ops.ttgir.inline_asm import registers


@builtin
def inline_asm_elementwise(
    asm: str, constraints: str, args: Any, dtype: Any, is_pure: bool, pack: int
) -> Any:
    """Run assembly for each element, as `tl.inline_asm_elementwise`. An argument may be shared
    memory: its address, an i32; what was written to it before is there, as it is for what follows.
    """
    memory = {i: a for i, a in enumerate(args) if isinstance(a, shared_memory_descriptor)}
    return elementwise_assembly(asm, constraints, args, memory, dtype, is_pure, pack)


@builtin
def inline_asm(
    asm: Any, constraints: Any = "", args: Any = (), result_types: Any = (), is_pure: bool = False
) -> Any:
    """Run a piece of assembly once in each thread.

    Args:
        asm: the text, with `$0`, `$1`, ... for the registers of results and then of arguments; or a
            `constexpr_function` that makes it from the names of these, `(outputs, inputs)`, both a
            tuple of tuples.
        constraints: LLVM's constraint string; or one constraint for each result and argument, of
            all of its registers.
        args: blocks (all registers of a thread, in the order of the layout, not packed), numbers,
            and shared memory (its address, an i32). Nothing is synchronized for memory.
        result_types: a dtype or the type of a block, or several.
        is_pure: whether it has no effect but its results.

    Returns a tensor, a tuple of them where `result_types` is one, or None without results.
    """
    several = not isinstance(result_types, dtype)
    types: list[Any] = [unwrap(t) for t in result_types] if several else [result_types]
    values = [a if isinstance(a, shared_memory_descriptor) else casts.to_tensor(a) for a in args]
    kinds = [t.to_ir() for t in types]
    groups = list(map(registers, (*kinds, *(v.handle.type for v in values))))
    text = asm if isinstance(asm, str) else _written(asm, groups, len(kinds))
    if not isinstance(constraints, str):
        constraints = _repeated([unwrap(c) for c in constraints], groups)
    handles = emit(
        ttgir.InlineAsmOp, values, result=kinds, asm_string=text, constraints=constraints,  # pyright: ignore
        pure=bool(is_pure),
    )  # fmt: skip
    results = [typed(h, t.scalar) for h, t in zip(handles, types, strict=True)]
    if not several:
        return results[0]
    return tl_tuple(results) if results else None


def _written(asm: Callable[..., Any], groups: Sequence[int], results: int) -> str:
    """The text that a function makes of the names of operands. Raises `TypeError` for others."""
    names, first = list[tuple[str, ...]](), 0
    for count in groups:
        names.append(tuple(f"${first + i}" for i in range(count)))
        first += count
    text = unwrap(asm(tuple(names[:results]), tuple(names[results:])))
    if not isinstance(text, str):
        raise TypeError(f"inline_asm: the function gives {text!r}; text is required")
    return text


def _repeated(constraints: Sequence[str], groups: Sequence[int]) -> str:
    """The constraint string with one constraint for each register."""
    if len(constraints) != len(groups):
        raise ValueError(
            f"inline_asm: {len(constraints)} constraints; one for each of {len(groups)} results "
            "and arguments is required"
        )
    pairs = zip(constraints, groups, strict=True)
    return ",".join(code for code, count in pairs for _ in range(count))
