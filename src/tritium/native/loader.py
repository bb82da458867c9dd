"""LLVM IR text to object code, for any processor, to callable addresses, on the host.

On Linux `elf` links objects; elsewhere, and where it meets what it does not know, one LLJIT that
lives as long as the process does, in which each is a library of its own; on Windows MCJIT. When an
`Image` is collected, its memory is released.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

import llvmlite.binding as llvm

from tritium import forking, knobs
from tritium.native import elf
from tritium.native.host import CPU, host, is_macos


class ObjectStore(Protocol):
    """Object code kept by key (a SHA-256 in hexadecimal) from one process to the next."""

    def load(self, key: str) -> bytes | None:
        """The object code stored under `key`, or None."""
        ...

    def save(self, key: str, code: bytes) -> None:
        """Store object code under `key`."""
        ...


Opt = int | Literal["light"] | None
"""The choice of IR passes that run: see `compile_ir`."""

lock = forking.held_while_forking(threading.RLock())
"""Held while LLVM compiles, for any backend: its options are those of the process."""
_names = itertools.count()
_NO_REDUCTION, _NO_SCHEDULING = "disable-lsr", "disable-post-ra"
"""Options that turn off what makes code for x86-64 no faster (`docs/decisions.md`): the strength
reduction of loops, unless these address rows, and the second scheduling, behind register
allocation, as the processors order instructions themselves."""


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for inline assembly


@functools.cache
def initialize_all() -> None:
    """Let LLVM know all targets that it is built for."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _machine(processor: CPU | None = None) -> Any:
    """LLVM's target machine; the host's by default."""
    own = host()
    if processor is None:
        processor = own
    if processor.triple == own.triple:
        _initialize()
    else:
        initialize_all()
    # Far functions (libc) get stubs from the linker, but for Mach-O.
    model = "large" if is_macos(processor.triple) else "small"
    return llvm.Target.from_triple(processor.triple).create_target_machine(
        cpu=processor.cpu, features=processor.feature_string, opt=3, reloc="pic",
        codemodel=model, jit=True,
    )  # fmt: skip


@functools.cache
def _linker() -> Any:
    _initialize()
    linker = llvm.create_lljit_compiler(suppress_errors=True)
    # Never disposed of: worker threads may still sleep inside its code when the process ends.
    _never_collect(linker)
    return linker


def _never_collect(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def llvm_version() -> str:
    """The version of LLVM that compiles (`22.1.0`)."""
    return ".".join(str(part) for part in llvm.llvm_version_info)  # pyright: ignore


def parse(text: str, context: Any) -> Any:
    """The module of a text. Raises `RuntimeError`, without a module that outlives its context."""
    module = None
    try:
        module = llvm.parse_assembly(text, context=context)
        module.verify()
    except RuntimeError as error:
        if module is not None:
            module.close()
        raise RuntimeError(f"invalid LLVM IR: {error}") from error
    return module


def _optimize(module: Any, level: Opt, machine: Any) -> None:
    if level not in ("light", 0, 1, 2, 3):
        raise ValueError(f"compile_ir: opt is {level!r}; expected None, 'light' or 0 to 3")
    tuning = llvm.create_pipeline_tuning_options(0 if level == "light" else level)
    # Vectors are explicit in what we generate, and so is unrolling.
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    if level == "light":
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)


def _prepare(ir_text: str, opt: Opt, machine: Any) -> Any:
    module = parse(ir_text, llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if opt is not None:
        _optimize(module, opt, machine)
    return module


@contextmanager
def _prepared(ir_text: str, opt: Opt, processor: CPU | None) -> Generator[tuple[Any, Any]]:
    """A target machine, and the module that it compiles, for x86-64 without what is of no use."""
    with lock:
        machine = _machine(processor)
        module = _prepare(ir_text, opt, machine)
        x86 = machine.triple.startswith("x86_64")
        _leave_out(x86 and not _addresses_rows(ir_text), x86)
        try:
            yield machine, module
        finally:
            _leave_out(False, False)


def _leave_out(reduction: bool, scheduling: bool) -> None:
    llvm.set_option("", f"-{_NO_REDUCTION}={int(reduction)}")
    llvm.set_option("", f"-{_NO_SCHEDULING}={int(scheduling)}")


def _addresses_rows(ir_text: str) -> bool:
    """True if an innermost loop widens an index in each turn, as for the address of a row, which
    the strength reduction of loops has it carry instead."""
    label, widens = "", False
    for line in ir_text.splitlines():
        if line.endswith(":"):
            label, widens = line[:-1], False
        elif " = sext i32 %" in line:
            widens = True
        elif widens and line.startswith("  br i1 ") and f"label %{label}," in line:
            return True
    return False


def compile_ir(ir_text: str, *, opt: Opt = None, processor: CPU | None = None) -> bytes:
    """Compile a module for a processor, by default the host.

    Args:
        ir_text: LLVM IR; triple and data layout are set to the processor's.
        opt: None runs no IR passes (for text without allocas that could be registers), "light"
            only makes registers of stack slots and tidies up, 0 to 3 run LLVM's pipeline of that
            level. Instruction selection is always at its highest level.

    Returns:
        Object code, for `load_object`.

    Raises:
        RuntimeError: the text is not valid IR; the message is LLVM's.
    """
    with _prepared(ir_text, opt, processor) as (machine, module):
        return machine.emit_object(module)


def assembly(ir_text: str, *, opt: Opt = None, processor: CPU | None = None) -> str:
    """The assembly text of what `compile_ir` generates."""
    with _prepared(ir_text, opt, processor) as (machine, module):
        return machine.emit_assembly(module)


def object_key(ir_text: str, opt: Opt = None) -> str:
    """A SHA-256 (hexadecimal) of all that `compile_ir`'s result depends on."""
    parts = (ir_text, str(opt), host().cpu, host().feature_string, llvm_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def cached_object(key: str, store: ObjectStore | None, make: Callable[[], bytes]) -> bytes:
    """The object code under `key` in `store`; made and stored there if it is missing."""
    if store is not None and (code := store.load(key)) is not None:
        return code
    code = make()
    if store is not None:
        store.save(key, code)
    return code


_MAGIC = {
    "darwin": b"\xcf\xfa\xed\xfe",  # Mach-O of 64 bits
    "win32": (b"\x64\x86", b"\x64\xaa"),  # COFF for x86-64 and AArch64
}


def check_object(code: bytes) -> None:
    """Raise `RuntimeError` if this is not object code for the host, as far as can be told."""
    if not code.startswith(_MAGIC.get(sys.platform, elf.MAGIC)):
        raise RuntimeError("this is no object code for this machine")
    with suppress(elf.Unsupported):
        elf.check(code)


class Image:
    """Object code in memory. Its addresses are valid as long as the object lives."""

    def __init__(
        self, addresses: dict[str, int], memory: object, region: tuple[int, int] | None = None
    ):
        self.addresses, self._memory = addresses, memory
        self.region = region
        """The address of the code and its size in bytes, if that is known."""

    def __getitem__(self, symbol: str) -> int:
        """The address of an exported symbol."""
        return self.addresses[symbol]

    def keep(self) -> None:
        """Never release the memory (for code in which threads sleep)."""
        _never_collect(self._memory)


def load_object(
    code: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
) -> Image:
    """Link object code and look up `symbols`.

    Undefined symbols are looked up in `imports` (addresses by name), then in the process (libc,
    libm).

    Raises:
        RuntimeError: a symbol is missing, or this is not object code for the host.
    """
    system = knobs.system()
    imports = {**system.native_functions(), **(imports or {})}
    if system.own_linker:
        with suppress(elf.Unsupported):
            linked = elf.link(code, symbols, imports)
            return Image(linked.addresses, linked, linked.region)
    return _load_by_llvm(code, symbols, imports)


def _load_by_llvm(code: bytes, symbols: Sequence[str], imports: Mapping[str, int]) -> Image:
    check_object(code)  # LLVM ends the process where it meets others
    if sys.platform == "win32":
        return _load_coff(code, symbols, imports)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in symbols:
        builder.export_symbol(name)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    with lock:
        tracker: Any = builder.link(_linker(), f"tritium.{next(_names)}")
    return Image({name: tracker[name] for name in symbols}, tracker)


def _load_coff(code: bytes, symbols: Sequence[str], imports: Mapping[str, int]) -> Image:
    """Load an object by MCJIT, an engine of its own: of LLVM's loaders the only one that links
    COFF's calls of far functions, and its constants that several objects may have."""
    with lock:
        _initialize()
        machine = llvm.Target.from_triple(host().triple).create_target_machine(jit=True)
        module = llvm.parse_assembly(f'target triple = "{host().triple}"\n')
        engine: Any = llvm.create_mcjit_compiler(module, machine, use_lmm=True)
        for name, address in imports.items():
            llvm.add_symbol(name, address)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        addresses: dict[str, int] = {name: engine.get_function_address(name) for name in symbols}
    missing = [name for name, address in addresses.items() if not address]
    if missing:
        raise RuntimeError(f"symbol not found in the object: {', '.join(missing)}")
    return Image(addresses, engine)
