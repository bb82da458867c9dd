"""Write a Python module of functions that call those of a library of LLVM bitcode:
`python -m tritium.tools.build_extern --lib-path libdevice.10.bc --lib-name libdevice --output DIR`.

DIR/libdevice.py has, for each function of the library whose arguments and result are numbers, one
that kernels call; those of several types (`__nv_sinf`, `__nv_sin`) are one of them. The bitcode is
read by llvmlite's LLVM: no `llvm-dis` is needed.
"""

from __future__ import annotations

import re
import sys
import tempfile
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritium.errors import TritonError, message_of
from tritium.language.extra.signatures import Overload, signatures

extern_libs = ["libdevice"]

_DTYPES = {
    "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "float": "fp32",
    "double": "fp64",
}  # fmt: skip
_EXTREMUM = re.compile(r"(u|ull|ll|f|)(max|min)f?")
_DEFINE = re.compile(r"^define (?:.*? )??(internal )?(\w+) @([\w.$]+)\((.*?)\)", re.MULTILINE)


class ExternError(TritonError):
    """A file is no library, or one that is not known."""


def convert_type(type_str: str) -> str | None:
    """The dtype of a type of LLVM IR; None for those that are no numbers."""
    return _DTYPES.get(type_str)


def to_unsigned(type_str: str) -> str:
    """The unsigned dtype of an integer's dtype; other dtypes as they are."""
    return f"u{type_str}" if type_str in ("int32", "int64") else type_str


@dataclass(slots=True)
class Symbol:
    """A function of a library: `name` there, `op_name` in Python."""

    name: str
    op_name: str
    ret_type: str
    arg_names: list[str]
    arg_types: list[str]


class ExternLibrary(ABC):
    """A library of functions.

    Args:
        name, path: of the library.
        format: taken as the reference does; the text needs no formatter.
        grouping: whether functions of several types are one function in Python.

    Attributes:
        symbols: the functions by their names in the library.
    """

    __slots__ = ("format", "grouping", "name", "path", "symbols")

    def __init__(self, name: str, path: str, format: bool = True, grouping: bool = True) -> None:
        self.name, self.path, self.format, self.grouping = name, path, format, grouping
        self.symbols: dict[str, Symbol] = {}

    @abstractmethod
    def parse_symbols(self, input_file: str) -> None:
        """Fill `symbols` from a file of LLVM IR."""

    @abstractmethod
    def _output_stubs(self) -> str:
        """The module's text."""

    def generate_stub_file(self, output_dir: str) -> None:
        """Write the module into a folder. Raises `ExternError` where there is no function."""
        text = self._output_stubs()
        if not text:
            raise ExternError(f"{self.path} defines no function of numbers")
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        Path(output_dir, f"{self.name}.py").write_text(text, encoding="utf-8")


class Libdevice(ExternLibrary):
    """NVIDIA's library of device functions."""

    def __init__(self, path: str) -> None:
        super().__init__("libdevice", path)

    def parse_symbols(self, input_file: str) -> None:
        known: dict[str, tuple[str, Overload]] = {
            overload.symbol: (name, overload)
            for name, signature in signatures().items() for overload in signature.overloads
        }  # fmt: skip
        text = Path(input_file).read_text(encoding="utf-8", errors="replace")
        for internal, result, name, parameters in _DEFINE.findall(text):
            types = [part.split()[0] for part in parameters.split(",") if part.strip()]
            found = [convert_type(type) for type in (result, *types)]
            if internal or not types or None in found or "ieee" in name:
                continue
            ret_type, *arg_types = [type for type in found if type is not None]
            op_name, unsigned = name.removeprefix("__nv_"), [False] * len(found)
            if name in known:  # LLVM IR does not tell signed integers from unsigned ones
                op_name, overload = known[name]
                unsigned = [t.startswith("u") for t in (*overload.arguments, overload.result)]
            elif match := _EXTREMUM.fullmatch(op_name):
                op_name, unsigned = match[2], [match[1].startswith("u")] * len(found)
            *arg_types, ret_type = [
                to_unsigned(type) if change else type
                for type, change in zip((*arg_types, ret_type), unsigned, strict=True)
            ]
            names = [f"arg{i}" for i in range(len(arg_types))]
            self.symbols[name] = Symbol(name, op_name, ret_type, names, arg_types)

    def _output_stubs(self) -> str:
        groups: dict[str, list[Symbol]] = {}
        for symbol in self.symbols.values():
            groups.setdefault(symbol.op_name if self.grouping else symbol.name, []).append(symbol)
        if not groups:
            return ""
        functions = [self._stub(name, symbols) for name, symbols in sorted(groups.items())]
        head = f"from tritium.language import core\n\nLIBRARY = {self.path!r}\n"
        return "\n\n".join([head, *functions])

    def _stub(self, name: str, symbols: Sequence[Symbol]) -> str:
        def dtypes(names: Sequence[str]) -> str:
            return "".join(f'core.dtype("{name}"), ' for name in names).rstrip()

        arguments = ", ".join(symbols[0].arg_names)
        rows = [
            f'        ({dtypes(s.arg_types)}): ("{s.name}", core.dtype("{s.ret_type}")),'
            for s in symbols
        ]
        return "\n".join([
            "@core.extern", f"def {name}({arguments}, _semantic=None):",
            f'    return core.extern_elementwise("{self.name}", LIBRARY, [{arguments}], {{', *rows,
            "    }, is_pure=True, _semantic=_semantic)", "",
        ])  # fmt: skip


class LLVMDisassembler:
    """Turns bitcode into text, in the file `ll_file`.

    Args:
        path: of `llvm-dis`, which is not run: llvmlite's LLVM reads the bitcode.
    """

    __slots__ = ("_folder", "ll_file", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = tempfile.TemporaryDirectory()
        self.ll_file = str(Path(self._folder.name, "extern_lib.ll"))

    def disasm(self, lib_path: str) -> None:
        """Write the text of a library. Raises `ExternError` for files that are no bitcode."""
        from llvmlite import binding as llvm  # large; not needed to import the module

        try:
            module = llvm.parse_bitcode(Path(lib_path).read_bytes())
        except RuntimeError as error:
            raise ExternError(f"{lib_path} is no LLVM bitcode: {error}") from None
        Path(self.ll_file).write_text(str(module), encoding="utf-8")


def build(llvm_dis_path: str, lib_path: str, lib_name: str, output_dir: str) -> None:
    """Write OUTPUT_DIR/LIB_NAME.py. Raises `ExternError`, `OSError`.

    Args:
        llvm_dis_path: taken as the reference does, and not used.
        lib_path: the file of bitcode.
        lib_name: one of `extern_libs`.
        output_dir: the folder.
    """
    if lib_name not in extern_libs:
        raise ExternError(f"Unknown extern library: {lib_name}; known: {', '.join(extern_libs)}")
    library, disassembler = Libdevice(lib_path), LLVMDisassembler(llvm_dis_path)
    disassembler.disasm(lib_path)
    library.parse_symbols(disassembler.ll_file)
    library.generate_stub_file(output_dir)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m tritium.tools.build_extern", description=__doc__)
    parser.add_argument("--llvm-dis", default="llvm-dis", help="not used: llvmlite reads bitcode")
    parser.add_argument("--lib-path", required=True, help="the library's bitcode")
    parser.add_argument("--lib-name", required=True, help=" or ".join(extern_libs))
    parser.add_argument("--output", "--output-dir", default=".", help="the folder of the module")
    args = parser.parse_args(arguments)
    try:
        build(args.llvm_dis, args.lib_path, args.lib_name, args.output)
    except (ExternError, OSError) as error:
        sys.exit(f"tritium.tools.build_extern: error: {message_of(error)}")


if __name__ == "__main__":
    main()
