"""Write C functions that choose among kernels compiled ahead of time:
`python -m tritium.tools.link *.h -o OUT`.

The headers are those that `tritium.tools.compile` has written, of one kernel. OUT.h and OUT.c have,
for a kernel `add`,

    add_ALGORITHM(stream, ...)         the version whose hints the arguments meet, most hints first
    add(stream, ..., algo_id)          one of the algorithms, by number; add_default: the first
    add_get_num_algos()                how many there are
    load_add(), unload_add()           for CUDA: the modules of all

where an algorithm is the set of constants and options. Arguments that no version is compiled for
give `CUDA_ERROR_INVALID_VALUE`; on the CPU, -1.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritium.errors import TritonError

_LINE = re.compile(r"^// tt-linker: (\w+):(.*):(\S*)$", re.MULTILINE)
_HINTS = re.compile(r"^// tt-hints: (.*)$", re.MULTILINE)
_PARAMETER = re.compile(r"(.*?)(\w+)$")


class LinkerError(TritonError):
    """Headers do not fit together, or were not written by the compiler."""


@dataclass(frozen=True)
class Version:
    """One compiled function.

    Attributes:
        function: its name, `add_0123abcd_0d1d2`.
        parameters: (C type, name), those that a hint of 1 fixes included.
        algorithm: the constants and options.
        hints: by name what it takes for granted.
        cuda: whether it is a CUDA kernel.
        header: the file.
    """

    function: str
    parameters: tuple[tuple[str, str], ...]
    algorithm: str
    hints: dict[str, int]
    cuda: bool
    header: str

    @property
    def kernel(self) -> str:
        """What functions of all versions are called."""
        return self.function.rsplit("_", 2)[0]

    @property
    def condition(self) -> str:
        """When the arguments meet the hints, in C."""
        tests: list[str] = []
        for type, name in self.parameters:
            hint = self.hints.get(name)
            value = f"(uintptr_t){name}" if type.endswith("*") else name
            if hint == 1:
                tests.append(f"{value} == 1")
            elif hint:
                tests.append(f"{value} % {hint} == 0")
        return " && ".join(tests) or "1"

    @property
    def passed(self) -> str:
        """The arguments that the function takes."""
        return "".join(f", {n}" for _, n in self.parameters if self.hints.get(n) != 1)


def read_header(file: Path) -> Version:
    """The version that a header declares. Raises `LinkerError`."""
    text = file.read_text(encoding="utf-8", errors="replace")
    line, hints = _LINE.search(text), _HINTS.search(text)
    if line is None or hints is None:
        raise LinkerError(f"{file} has no lines '// tt-linker:' and '// tt-hints:'; a header that "
                          "tritium.tools.compile has written is required")  # fmt: skip
    parameters: list[tuple[str, str]] = []
    for part in filter(None, line[2].split(", ")):
        match = _PARAMETER.match(part)
        if match is None:
            raise LinkerError(f"{file}: {part!r} is no parameter")
        parameters.append((match[1].strip(), match[2]))
    given = (item.split("=") for item in filter(None, hints[1].split(", ")))
    return Version(
        line[1], tuple(parameters), line[3], {name: int(hint) for name, hint in given},
        f"CUresult {line[1]}(" in text, file.name,
    )  # fmt: skip


def link(versions: Sequence[Version], prefix: str = "") -> tuple[str, str]:
    """The header's text, and the source's but for its first line. Raises `LinkerError`."""
    first = versions[0]
    for other in versions:
        if (other.kernel, other.parameters) != (first.kernel, first.parameters):
            raise LinkerError(
                f"{other.header} declares {other.kernel}({_declared(other)}); {first.header} "
                f"{first.kernel}({_declared(first)}): versions of one kernel are required"
            )
    algorithms: dict[str, list[Version]] = {}
    for version in versions:
        algorithms.setdefault(version.algorithm, []).append(version)
    writer = _Writer(prefix + first.kernel, first, algorithms)
    return writer.header(), writer.source()


def _declared(version: Version) -> str:
    return ", ".join(f"{type} {name}" for type, name in version.parameters)


class _Writer:
    def __init__(self, name: str, first: Version, algorithms: dict[str, list[Version]]):
        self.name, self.algorithms, self.cuda = name, algorithms, first.cuda
        self.result = "CUresult" if first.cuda else "int32_t"
        self.stream = "CUstream stream" if first.cuda else "void *stream"
        self.parameters = "".join(f", {type} {name}" for type, name in first.parameters)
        self.arguments = "".join(f", {name}" for _, name in first.parameters)
        self.functions = {a: f"{name}_{re.sub(r'[^0-9A-Za-z_]', '_', a)}" for a in algorithms}

    def header(self) -> str:
        declared = [
            f"{self.result} {function}({self.stream}{self.parameters});"
            for function in (*self.functions.values(), f"{self.name}_default")
        ]
        declared += [
            f"{self.result} {self.name}({self.stream}{self.parameters}, int algo_id);",
            f"int {self.name}_get_num_algos(void);",
        ]
        if self.cuda:
            declared += [f"void load_{self.name}(void);", f"void unload_{self.name}(void);"]
        names = dict.fromkeys(v.header for several in self.algorithms.values() for v in several)
        return "\n".join([
            f"#ifndef {self.name}_LINKED_H", f"#define {self.name}_LINKED_H",
            *(f'#include "{name}"' for name in names),
            "#ifdef __cplusplus", 'extern "C" {', "#endif", *declared,
            "#ifdef __cplusplus", "}", "#endif", "#endif", "",
        ])  # fmt: skip

    def source(self) -> str:
        count, lines = len(self.algorithms), list[str]()
        for algorithm, versions in self.algorithms.items():
            lines += self._dispatcher(self.functions[algorithm], versions)
        lines += [
            f"typedef {self.result} (*{self.name}_function)({self.stream}{self.parameters});",
            f"static const {self.name}_function {self.name}_functions[] = {{",
            f"  {', '.join(self.functions.values())}", "};", "",
            f"int {self.name}_get_num_algos(void) {{ return {count}; }}", "",
            f"{self.result} {self.name}({self.stream}{self.parameters}, int algo_id) {{",
            f"  if (algo_id < 0 || algo_id >= {count})", f"    return {self._no_version};",
            f"  return {self.name}_functions[algo_id](stream{self.arguments});", "}", "",
            f"{self.result} {self.name}_default({self.stream}{self.parameters}) {{",
            f"  return {self.name}(stream{self.arguments}, 0);", "}", "",
        ]  # fmt: skip
        for action in ("load", "unload") if self.cuda else ():
            every = [v for versions in self.algorithms.values() for v in versions]
            calls = [f"  {action}_{v.function}();" for v in every]
            lines += [f"void {action}_{self.name}(void) {{", *calls, "}", ""]
        return "\n".join(lines)

    @property
    def _no_version(self) -> str:
        return "CUDA_ERROR_INVALID_VALUE" if self.cuda else "-1"

    def _dispatcher(self, function: str, versions: Sequence[Version]) -> list[str]:
        lines = [f"{self.result} {function}({self.stream}{self.parameters}) {{"]
        for version in sorted(versions, key=lambda v: -len(v.hints)):
            lines += [
                f"  if ({version.condition})",
                f"    return {version.function}(stream{version.passed});",
            ]
        return [*lines, f"  return {self._no_version};", "}", ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m tritium.tools.link", description=__doc__)
    parser.add_argument("headers", nargs="+", type=Path, help="headers of compiled kernels")
    parser.add_argument("--out", "-o", type=Path, required=True, help="OUT.h and OUT.c are written")
    parser.add_argument("--prefix", default="", help="put before the functions' names")
    args = parser.parse_args(arguments)
    try:
        header, source = link([read_header(file) for file in args.headers], args.prefix)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.with_suffix(".h").write_text(header, encoding="utf-8")
        include = f'#include "{args.out.with_suffix(".h").name}"\n\n'
        args.out.with_suffix(".c").write_text(include + source, encoding="utf-8")
    except (TritonError, OSError) as error:
        sys.exit(f"tritium.tools.link: error: {error}")


if __name__ == "__main__":
    main()
