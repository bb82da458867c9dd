"""The HTML page: data for its template, and highlighted lines."""

from __future__ import annotations

import base64
import gzip
import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from jinja2 import Environment
from pygments import highlight
from pygments.formatters import HtmlFormatter

from tritium.backends.nvidia.occupancy import Occupancy, occupancy
from tritium.backends.nvidia.sass import instruction_places, live_registers
from tritium.tools.explore.highlight import lexer_for
from tritium.tools.explore.layouts import layouts_of
from tritium.tools.explore.lines import STAGES, Line, Place, placed, sass_lines
from tritium.tools.explore.loops import STAGES as CODE
from tritium.tools.explore.loops import machine_loops, pipelined_loops
from tritium.tools.explore.profile import measured
from tritium.tools.explore.record import KernelRecord, PassRecord
from tritium.tools.explore.shared import shared_layouts_of
from tritium.tools.instruction_mix import instruction_mix
from tritium.version import __version__

_TEMPLATE = Path(__file__).with_name("page.html")
_FILE_LINES = 1500
"""Lines of a file that is shown as a whole."""
_DIFF_LINES = 400
"""Lines of one pass's diff that are shown."""


FORMAT = 2
"""The version of the form of files with what a page shows of a run."""


def key_of(place: Place | None) -> str:
    """The key that links lines of all stages, and of other runs; empty for no place."""
    if place is None or not place[0]:
        return ""
    return f"{crc32(Path(place[0]).name.encode())}-{place[1]}"


def render(
    kernels: Sequence[dict[str, Any]], title: str, *, profile: dict[str, Any] | None = None,
    others: Sequence[dict[str, Any]] = (), other: str = "",
) -> str:  # fmt: skip
    """The page of some kernels (`kernel_data`); it needs no other file.

    Args:
        profile: as `profile_of` gives it.
        others, other: the kernels of another run beside which they are shown, and its title.
    """
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": False}
    styles = cast(Any, HtmlFormatter)(style="default")
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    shown = [dict(kernel) for kernel in kernels]
    by_label = {kernel["label"]: kernel for kernel in others}
    if len(kernels) == len(others) == 1:
        by_label = {kernels[0]["label"]: others[0]}
    for kernel in shown:
        if (found := by_label.pop(kernel["label"], None)) is not None:
            kernel["other"] = _pair(kernel, found, other)
        if profile is not None:
            kernel["facts"] = [*measured(profile["points"], kernel["name"]), *kernel["facts"]]
    shown += [{**kernel, "label": f"{other}: {kernel['label']}"} for kernel in by_label.values()]
    return template.render(
        title=title, version=__version__, css=styles.get_style_defs(".c"), profile=profile,
        kernels=[{**kernel, "id": number} for number, kernel in enumerate(shown)],
    )


def kernel_data(record: KernelRecord) -> dict[str, Any]:
    """The kernel's part of a page, as JSON holds it."""
    asm = record.kernel.asm
    names = [name for name in (*asm, "asm", "sass") if name in STAGES]
    stages: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        text = _text(asm, name)
        if text is None:
            continue
        language = STAGES[name][1]
        lines = _lines(asm, name, text)
        stages.append({
            "name": name, "packed": _packed(_highlighted(lines, language)),
            "linked": any(line.place for line in lines), "seconds": record.stages.get(name),
            "lines": [line.text for line in lines],
        })  # fmt: skip
    ttgir = _text(asm, "ttgir")
    return {
        "label": record.label, "name": record.kernel.name, "stages": stages,
        "source": _source(record), "passes": [_pass(p) for p in record.passes],
        "facts": facts(record),
        "layouts": [*layouts_of(ttgir), *shared_layouts_of(ttgir)] if ttgir else [],
        "loops": _loops(asm, ttgir, record.kernel.metadata),
    }  # fmt: skip


def _loops(asm: Any, ttgir: str | None, data: Any) -> dict[str, Any]:
    """The loops of the stage that is closest to the machine, and those of ttgir; of each how many
    warps a multiprocessor would hold if the kernel needed no more registers (no more shared memory)
    than the loop does."""
    texts = ((name, text) for name in CODE if (text := _text(asm, name)))
    name, text = next(texts, ("", ""))
    found = machine_loops(name, _lines(asm, name, text)) if name else []
    machine = [
        {**asdict(loop), "occupancy": _share(_blocks_of(data, registers=loop.registers))}
        for loop in found
    ]
    tiles = [
        {**loop, "occupancy": _share(_blocks_of(data, shared=loop["bytes"]))}
        for loop in (pipelined_loops(ttgir) if ttgir else [])
    ]
    return {"stage": name, "machine": machine, "tiles": tiles}


def _lines(asm: Any, name: str, text: str) -> list[Line]:
    """The lines of a stage with their places."""
    if name == "sass":
        cubin = asm["cubin"]
        return sass_lines(text, instruction_places(cubin), live_registers(cubin))
    read = STAGES[name][0]
    located = _text(asm, f"{name}_lines")
    return read(text) if located is None else placed(read(text), read(located))


def _pair(kernel: dict[str, Any], other: dict[str, Any], title: str) -> dict[str, Any]:
    """A kernel of another run beside this one: stages that both have, with the ranges of lines
    (from 0) that only one has, and figures."""
    found = {stage["name"]: stage for stage in other["stages"]}
    stages: list[dict[str, Any]] = []
    for index, stage in enumerate(kernel["stages"]):
        if (theirs := found.get(stage["name"])) is not None:
            matcher = SequenceMatcher(None, stage["lines"], theirs["lines"])
            changes = [c[1:] for c in matcher.get_opcodes() if c[0] != "equal"]
            stages.append({
                "name": stage["name"], "index": index, "packed": theirs["packed"],
                "gone": [c[:2] for c in changes], "new": [c[2:] for c in changes],
            })  # fmt: skip
    before, after = dict(kernel["facts"]), dict(other["facts"])
    rows = [(name, before.get(name, ""), after.get(name, "")) for name in {**before, **after}]
    ranges = [(stage["index"], stage["gone"], stage["new"]) for stage in stages]
    return {"title": title, "label": other["label"], "stages": stages, "ranges": ranges,
            "facts": rows}  # fmt: skip


def _text(asm: Any, name: str) -> str | None:
    """A stage's text; None where it has none, or the tool that makes it is missing."""
    try:
        text = asm.get(name)
    except (OSError, RuntimeError):  # no disassembler
        return None
    return text if isinstance(text, str) else None


def _source(record: KernelRecord) -> dict[str, Any]:
    """The kernel's function, or the file of IR that it was compiled from."""
    source = record.kernel.src
    function = getattr(source, "fn", None)
    if function is None:
        lines = [Line(text, None) for text in source.src.splitlines()]
        return {"name": source.path.name, "first": 1, "kernel": 1,
                "lines": _highlighted(lines, "llvm")}  # fmt: skip
    file, first = function.fn.__code__.co_filename, function.starting_line_number
    texts = [text.rstrip("\n") for text in function.raw_src]
    whole = [text.rstrip("\n") for text in linecache.getlines(file)]
    if len(texts) < len(whole) <= _FILE_LINES:  # with the functions that the kernel calls
        first, texts = 1, whole
    lines = [Line(text, (file, first + i)) for i, text in enumerate(texts)]
    return {
        "name": Path(file).name, "first": first, "kernel": function.starting_line_number,
        "lines": _highlighted(lines, "python"),
    }  # fmt: skip


def _highlighted(lines: Sequence[Line], language: str) -> list[tuple[str, str]]:
    """(the place's number, HTML) of each line."""
    lexer = lexer_for(language)
    text = "\n".join(line.text for line in lines)
    formatter = cast(Any, HtmlFormatter)(nowrap=True)
    made: str = highlight(text, lexer, formatter)
    rows = made.split("\n")
    rows += [""] * (len(lines) - len(rows))
    return [(key_of(line.place), row) for line, row in zip(lines, rows, strict=False)]


def _packed(rows: Sequence[tuple[str, str]]) -> str:
    """The lines as elements of HTML, compressed: assembly has ten thousands of them."""
    text = "".join(
        f'<div data-n="{number}"{f" data-l={key!r}" if key else ""}>{row}</div>'
        for number, (key, row) in enumerate(rows, 1)
    )
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _pass(record: PassRecord) -> dict[str, Any]:
    shown = record.diff[:_DIFF_LINES]
    rows = [(line[:1], line) for line in shown]
    changes = ", ".join(f"{name} {count:+}" for name, count in record.changes.items())
    return {
        "stage": record.stage, "name": record.name, "ms": f"{record.seconds * 1e3:.2f}",
        "ops": record.ops, "changes": changes, "diff": rows,
        "left_out": len(record.diff) - len(shown),
    }  # fmt: skip


_SHOWN = (
    "num_warps", "num_stages", "num_ctas", "shared", "n_regs", "n_spills", "scratch_bytes",
    "global_scratch_size",
)  # fmt: skip


def _blocks_of(data: Any, **other: int | None) -> Occupancy | None:
    """The occupancy of a kernel, or with other `registers` or `shared` bytes; None where it is not
    for CUDA, the GPU's limits are not known, or these numbers are not."""
    if data.target.backend != "cuda" or None in other.values():
        return None
    given: dict[str, Any] = {"registers": getattr(data, "n_regs", 0), "shared": data.shared}
    given.update(other)
    return occupancy(data.target.arch, data.num_warps, **given)


def _share(found: Occupancy | None) -> str:
    return "" if found is None else f"{found.warps} of {found.most_warps} warps"


def _occupancy(data: Any) -> list[tuple[str, str]]:
    """The rows on the occupancy of a kernel for CUDA; none if the GPU's limits are not known."""
    found = _blocks_of(data)
    if found is None:
        return []
    text = f"{_share(found)} a multiprocessor: {found.blocks} blocks, limited by {found.limit}"
    return [("occupancy", text)]


def facts(record: KernelRecord) -> list[tuple[str, str]]:
    """(name, value) of what is known about a kernel beside its texts."""
    data, source = record.kernel.metadata, record.kernel.src
    target = data.target
    found = [("target", f"{target.backend} {getattr(data, 'arch', '') or target.arch}")]
    names, values = list(source.signature), getattr(source, "constants", {})
    signature = (
        f"{name}: {type}" + (f" {values[i,]!r}" if (i,) in values else "")
        for i, (name, type) in enumerate(source.signature.items())
    )
    found.append(("arguments", ", ".join(signature)))
    attributes = getattr(source, "attrs", {})
    divisible = [str(names[path[0]]) for path, given in attributes.items() if given]
    if divisible:
        found.append(("multiples of 16", ", ".join(divisible)))
    found += [(name, str(getattr(data, name))) for name in _SHOWN if hasattr(data, name)]
    found += _occupancy(data)
    found.append(("binary", f"{len(record.kernel.kernel)} bytes"))
    for stage in ("sass", "ptx", "asm"):
        text = _text(record.kernel.asm, stage)
        if text:
            mix: Counter[str] = instruction_mix(text)
            common = ", ".join(f"{name} {count}" for name, count in mix.most_common(12))
            found.append((f"{stage} instructions", f"{mix.total()}: {common}"))
            break
    total = sum(record.stages.values())
    found.append(("compiled in", f"{total * 1e3:.0f} ms"))
    return found
