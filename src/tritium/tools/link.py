"""Write C functions that choose among kernels compiled ahead of time:
`python -m tritium.tools.link *.h -o OUT`.

The headers are those that `tritium.tools.compile` has written, of one kernel. OUT.h and OUT.c have,
for a kernel `add`,

    add_ALGORITHM(stream, ...)         the version whose hints the arguments meet, most hints first
    add(stream, ..., algo_id)          one of the algorithms, by number; add_default: the first
    add_get_num_algos()                how many there are
    load_add(), unload_add()           the modules of all; one algorithm's: load_add_ALGORITHM()

where an algorithm is the set of constants and options. Arguments that no version is compiled for
give `CUDA_ERROR_INVALID_VALUE`; on the CPU, -1.
"""

from __future__ import annotations

import itertools
import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritium.errors import TritonError, message_of

_BACKEND = re.compile(r"//\s*tt-linker-backend:\s*(\w+)")
_LINE = re.compile(r"//\s*tt-linker:\s*(\w+):(.*):(\S*)$")
_HINTS = re.compile(r"//\s*tt-hints:(.*)$")
_LINKED = "// tt-linked"
"""In headers that the linker writes: `*.h` may hold those of an earlier run."""
_NONE = ("has no line '// tt-linker:'; headers that tritium.tools.compile has written are "
         "required")  # fmt: skip
_FUNCTION = re.compile(r"(\w+)_([0-9a-zA-Z]+)_(\w*)")
_PARAMETER = re.compile(r"(.*?)(\w+)")
_HINTED = re.compile(r"(\d+)([cd])")
_HINT_OF = {"c": 1, "d": 16}
_PRELUDES = {
    "cuda": ("#include <cuda.h>", "CUstream", "CUresult", "CUDA_ERROR_INVALID_VALUE"),
    "cpu": ("", "void *", "int32_t", "(-1)"),
}
"""The include, the types of streams and results, and the result for arguments that no version is
compiled for, by backend."""


class LinkerError(TritonError):
    """Headers do not fit together, or were not written by the compiler."""


@dataclass
class KernelLinkerMeta:
    """One compiled function, `ORIG_KERNEL_NAME_SIG_HASH_SUFFIX`.

    Attributes:
        orig_kernel_name: the kernel.
        arg_names, arg_ctypes: its arguments, those that a hint of 1 fixes included.
        sizes: for each argument what the function takes for granted: 1, multiples of 16 or None.
        sig_hash: of the signature.
        triton_suffix, suffix: the positions of hints.
        num_specs: how many hints there are.
        prefix: before the names of the functions that are written.
    """

    orig_kernel_name: str
    arg_names: Sequence[str]
    arg_ctypes: Sequence[str]
    sizes: Sequence[int | None]
    sig_hash: str
    triton_suffix: str
    suffix: str
    num_specs: int
    prefix: str = ""

    @property
    def function(self) -> str:
        """The compiled function."""
        return f"{self.orig_kernel_name}_{self.sig_hash}_{self.suffix}"

    @property
    def linked(self) -> str:
        """The function that chooses among all."""
        return self.prefix + self.orig_kernel_name


class HeaderParser:
    """Reads headers of compiled kernels.

    Args:
        prefix: before the names of the functions that are written.

    Attributes:
        kernels: the functions of each algorithm, by the name of the one that chooses among them.
        backend_name: of the target.
    """

    def __init__(self, prefix: str = "") -> None:
        self.kernels: dict[str, list[KernelLinkerMeta]] = {}
        self.backend_name: str | None = None
        self._prefix = prefix

    def extract_linker_meta(self, header: str) -> None:
        """Add the functions that a header declares. Raises `LinkerError`."""
        last: KernelLinkerMeta | None = None
        for line in map(str.strip, header.splitlines()):
            if match := _BACKEND.match(line):
                if self.backend_name not in (None, match[1]):
                    raise LinkerError(f"kernels for {self.backend_name} and for {match[1]}; one "
                                      "backend is required")  # fmt: skip
                self.backend_name = match[1]
            elif match := _LINE.match(line):
                last = self._add(match[1], match[2], match[3])
            elif last is not None and (match := _HINTS.match(line)):
                given = (item.split("=") for item in filter(None, match[1].strip().split(", ")))
                hints = {name: int(hint) for name, hint in given}
                last.sizes = [hints.get(name) for name in last.arg_names]
                last.num_specs = len(hints)

    def _add(self, function: str, c_signature: str, algorithm: str) -> KernelLinkerMeta:
        match = _FUNCTION.fullmatch(function)
        if match is None:
            raise LinkerError(f"{function} is no name of a compiled kernel")
        types, names = _parameters(c_signature)
        sizes = _sizes(match[3], len(names))
        count = sum(size is not None for size in sizes)
        meta = KernelLinkerMeta(
            match[1], names, types, sizes, match[2], match[3], match[3], count, self._prefix
        )
        # A number's dot and signs are no characters of a C name.
        name = algorithm.replace(".", "p").replace("-", "m").replace("+", "")
        first = next((versions[0] for versions in self.kernels.values()), meta)
        if _declared(meta) != _declared(first):
            raise LinkerError(f"{_declared(meta)} beside {_declared(first)}; versions of one "
                              "kernel are required")  # fmt: skip
        versions = self.kernels.setdefault(f"{meta.linked}_{name}", [])
        if meta.function not in (version.function for version in versions):
            versions.append(meta)
        return meta


def _parameters(c_signature: str) -> tuple[list[str], list[str]]:
    types, names = list[str](), list[str]()
    for part in filter(None, map(str.strip, c_signature.split(","))):
        match = _PARAMETER.fullmatch(part)
        if match is None or not match[1]:
            raise LinkerError(f"{part!r} of ({c_signature}) is no parameter")
        types.append(match[1].strip())
        names.append(match[2])
    return types, names


def _sizes(suffix: str, count: int) -> list[int | None]:
    """The hints that a suffix has for this many arguments: it names their positions, or, as those
    of Triton 3.6, all positions."""
    sizes: list[int | None] = [None] * count
    hinted = [(int(n), _HINT_OF[mark]) for n, mark in _HINTED.findall(suffix)]
    at = [position for position, _ in hinted]
    said = "".join(f"{n}{'c' if hint == 1 else 'd'}" for n, hint in hinted)
    if said == suffix and all(a < b for a, b in itertools.pairwise([*at, count])):
        for position, hint in hinted:
            sizes[position] = hint
        return sizes
    for position in range(count):
        if suffix.startswith(str(position)):
            suffix = suffix[len(str(position)) :]
            if suffix[:1] in _HINT_OF:
                sizes[position], suffix = _HINT_OF[suffix[0]], suffix[1:]
    return sizes


def _declared(meta: KernelLinkerMeta) -> str:
    return f"{meta.orig_kernel_name}({gen_signature_with_full_args(meta)})"


def _list(m: KernelLinkerMeta, *, fixed: bool) -> str:
    pairs = zip(m.arg_ctypes, m.arg_names, m.sizes, strict=True)
    return ", ".join(
        f"{type} {name}".replace("* ", "*") for type, name, size in pairs if fixed or size != 1
    )


def gen_signature_with_full_args(m: KernelLinkerMeta) -> str:
    """The parameters in C of the functions that choose."""
    return _list(m, fixed=True)


def gen_signature(m: KernelLinkerMeta) -> str:
    """The parameters in C of a compiled function: without those that are fixed to 1."""
    return _list(m, fixed=False)


def _function(name: str, *parameters: str) -> str:
    listed = ", ".join(filter(None, ("TT_StreamTy stream", *parameters)))
    return f"TT_ResultTy {name}({listed})"


def _call(function: str, *arguments: str) -> str:
    return f"  return {function}({', '.join(('stream', *arguments))});"


def make_algo_decls(name: str, metas: Sequence[KernelLinkerMeta]) -> str:
    """The declarations of an algorithm's functions."""
    function = _function(name, gen_signature_with_full_args(metas[-1]))
    return f"{function};\nvoid load_{name}(void);\nvoid unload_{name}(void);\n"


def make_global_decl(meta: KernelLinkerMeta) -> str:
    """The declarations of the functions that choose an algorithm."""
    name, full = meta.linked, gen_signature_with_full_args(meta)
    return (f"{_function(f'{name}_default', full)};\n{_function(name, full, 'int algo_id')};\n"
            f"void load_{name}(void);\nvoid unload_{name}(void);\n")  # fmt: skip


def make_default_algo_kernel(meta: KernelLinkerMeta) -> str:
    """The function that takes the first algorithm."""
    head = _function(f"{meta.linked}_default", gen_signature_with_full_args(meta))
    return f"{head} {{\n{_call(meta.linked, *meta.arg_names, '0')}\n}}\n"


def make_kernel_hints_dispatcher(name: str, metas: Sequence[KernelLinkerMeta]) -> str:
    """An algorithm's functions: the one that chooses by the hints, and those that load and unload
    the modules."""
    ordered = sorted(metas, key=lambda meta: -meta.num_specs)
    lines = [f"{_function(meta.function, gen_signature(meta))};" for meta in ordered]
    lines += ["", f"{_function(name, gen_signature_with_full_args(metas[-1]))} {{"]
    for meta in ordered:
        pairs = [(n, s) for n, s in zip(meta.arg_names, meta.sizes, strict=True) if s is not None]
        tests = [f"{n} == 1" if s == 1 else f"(uintptr_t){n} % {s} == 0" for n, s in pairs]
        passed = [n for n, s in zip(meta.arg_names, meta.sizes, strict=True) if s != 1]
        lines += [f"  if ({' && '.join(tests) or '1'})", f"  {_call(meta.function, *passed)}"]
    lines += ["  return TT_ERROR_INVALID_VALUE;", "}", ""]
    for action in ("load", "unload"):
        lines += [f"void {action}_{meta.function}(void);" for meta in ordered]
        calls = [f"  {action}_{meta.function}();" for meta in ordered]
        lines += [f"void {action}_{name}(void) {{", *calls, "}", ""]
    return "\n".join(lines)


def make_kernel_meta_const_dispatcher(meta: KernelLinkerMeta) -> str:
    """The function that takes an algorithm by number."""
    name = meta.linked
    head = _function(name, gen_signature_with_full_args(meta), "int algo_id")
    return "\n".join([
        f"{head} {{", f"  if (algo_id < 0 || algo_id >= {name}_get_num_algos())",
        "    return TT_ERROR_INVALID_VALUE;",
        _call(f"{name}_kernels[algo_id]", *meta.arg_names), "}", "",
    ])  # fmt: skip


def make_func_pointers(names: Sequence[str], meta: KernelLinkerMeta) -> str:
    """The table of the algorithms."""
    type = f"{meta.linked}_function"
    pointer = _function(f"(*{type})", gen_signature_with_full_args(meta))
    rows = [f"  {name}," for name in names]
    table = f"static const {type} {meta.linked}_kernels[] = {{"
    return "\n".join([f"typedef {pointer};", table, *rows, "};", ""])


def make_kernel_load_def(names: Sequence[str], meta: KernelLinkerMeta) -> str:
    """The functions that load and unload the modules of all algorithms."""
    lines: list[str] = []
    for action in ("load", "unload"):
        calls = [f"  {action}_{name}();" for name in names]
        lines += [f"void {action}_{meta.linked}(void) {{", *calls, "}", ""]
    return "\n".join(lines)


def make_get_num_algos_decl(meta: KernelLinkerMeta) -> str:
    """The declaration of the function that tells how many algorithms there are."""
    return f"int {meta.linked}_get_num_algos(void);\n"


def make_get_num_algos_def(meta: KernelLinkerMeta) -> str:
    """The function that tells how many algorithms there are."""
    table = f"{meta.linked}_kernels"
    body = f"return (int)(sizeof({table}) / sizeof({table}[0]));"
    return f"int {meta.linked}_get_num_algos(void) {{ {body} }}\n"


def linked(parser: HeaderParser, include: str) -> tuple[str, str]:
    """The text of the header, and of the source that includes it by this name. Raises
    `LinkerError` where the parser has read no kernel, or one of another backend."""
    if not parser.kernels:
        raise LinkerError(f"what was read {_NONE}")
    backend = parser.backend_name or "none"
    if backend not in _PRELUDES:
        raise LinkerError(f"kernels for the backend {backend}; linked are {', '.join(_PRELUDES)}")
    driver, stream, result, invalid = _PRELUDES[backend]
    names, meta = list(parser.kernels), next(iter(parser.kernels.values()))[0]
    if not meta.linked.isidentifier() or not meta.linked.isascii():
        raise LinkerError(f"{meta.linked!r} is no name of a C function; another prefix is required")
    header = "\n".join(filter(None, [
        _LINKED, f"#ifndef {meta.linked}_LINKED_H", f"#define {meta.linked}_LINKED_H",
        "#include <stdint.h>", driver,
        f"typedef {stream} TT_StreamTy;", f"typedef {result} TT_ResultTy;",
        f"#define TT_ERROR_INVALID_VALUE {invalid}",
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        *(make_algo_decls(name, metas) for name, metas in parser.kernels.items()),
        make_get_num_algos_decl(meta), make_global_decl(meta),
        "#ifdef __cplusplus", "}", "#endif", "#endif\n",
    ]))  # fmt: skip
    source = "\n".join([
        f'#include "{include}"\n',
        *(make_kernel_hints_dispatcher(name, metas) for name, metas in parser.kernels.items()),
        make_func_pointers(names, meta), make_get_num_algos_def(meta),
        make_kernel_meta_const_dispatcher(meta), make_kernel_load_def(names, meta),
        make_default_algo_kernel(meta),
    ])  # fmt: skip
    return header, source


def link(headers: Sequence[Path], out: Path, prefix: str = "") -> None:
    """Write OUT.h and OUT.c. Raises `LinkerError`, `OSError`."""
    parser = HeaderParser(prefix)
    for file in headers:
        text = file.read_text(encoding="utf-8", errors="replace")
        if _LINKED in text:
            continue
        if "tt-linker:" not in text:
            raise LinkerError(f"{file} {_NONE}")
        try:
            parser.extract_linker_meta(text)
        except LinkerError as error:
            raise LinkerError(f"{file}: {error}") from None
    name = out.name.removesuffix(".h").removesuffix(".c")
    header, source = linked(parser, f"{name}.h")
    out.parent.mkdir(parents=True, exist_ok=True)
    for text, ending in ((header, "h"), (source, "c")):
        out.with_name(f"{name}.{ending}").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m tritium.tools.link", description=__doc__)
    parser.add_argument("headers", nargs="+", type=Path, help="headers of compiled kernels")
    parser.add_argument("--out", "-o", type=Path, required=True, help="OUT.h and OUT.c are written")
    parser.add_argument("--prefix", default="", help="put before the functions' names")
    args = parser.parse_args(arguments)
    try:
        link(args.headers, args.out, args.prefix)
    except (TritonError, OSError) as error:
        sys.exit(f"tritium.tools.link: error: {message_of(error)}")


if __name__ == "__main__":
    main()
