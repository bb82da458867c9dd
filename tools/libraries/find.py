"""Find, for each kernel of libraries, arguments that it compiles for.

    python -m tools.libraries.find FOLDER FOUND.jsonl [--with triton] [--tries 40]

One line of JSON for each kernel: `module`, `kernel`, `arguments` (a list of what was found, at most
two) and, where nothing was, the last `error`. With `--with triton` the reference makes its ttir.
"""

from __future__ import annotations

import argparse
import json
import random
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tools.libraries import guessing, loading


def signature(fn: Any, arguments: dict[str, guessing.Argument]) -> tuple[Any, Any, Any]:
    """Signature, constants and attributes, as `ASTSource` takes them."""
    import triton.language as tl

    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned: dict[tuple[int], Any] = {}
    for i, name in enumerate(fn.arg_names):
        kind, value = arguments[name]
        if kind == "pointer":
            types[name] = "*" + value
        elif kind == "descriptor":
            types[name] = f"tensordesc<{value[0]}{value[1]}>".replace(" ", "")
        elif kind == "constexpr" or value == 1:
            types[name] = "constexpr"
            constants[name] = getattr(tl, value["dtype"]) if isinstance(value, dict) else value
        else:
            types[name] = "fp32" if isinstance(value, float) else "i32"
        if kind == "pointer" or (types[name] == "i32" and value % 16 == 0):
            aligned[i,] = [["tt.divisibility", 16]]
    return types, constants, aligned


def compile_for(target: Any, fn: Any, arguments: dict[str, guessing.Argument]) -> None:
    """Compile a kernel as far as the target goes, for `None` that of this machine's driver."""
    import triton
    from triton.compiler import ASTSource

    target = target or triton.runtime.driver.active.get_current_target()
    triton.compile(ASTSource(fn, *signature(fn, arguments)), target=target)


def _make_ttir(fn: Any, arguments: dict[str, guessing.Argument]) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(fn, *signature(fn, arguments))
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)
    backend, context = make_backend(target), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({})
    functions = backend.get_codegen_implementation(options)
    source.make_ir(target, options, functions, backend.get_module_map(), context)


def search(kernel: loading.Kernel, tries: int, reference: bool) -> dict[str, Any]:
    """Arguments that the kernel compiles for, at most two, or the last error."""
    rng, found, error, late = random.Random(kernel.name), list[Any](), "", 0
    facts = guessing.facts_of(kernel.fn)
    for _ in range(tries):
        arguments = guessing.guess(facts, kernel.configs, rng)
        try:
            with loading.limited(20):
                if reference:
                    _make_ttir(kernel.fn, arguments)
                else:
                    compile_for(None, kernel.fn, arguments)
            found.append(arguments)
        except Exception as raised:
            error = str(raised)[-400:]
            late += isinstance(raised, TimeoutError)
        if len(found) == 2 or late == 2:
            break
    return {"arguments": found} if found else {"arguments": [], "error": error}


def _module(module: str, tries: int, reference: bool, out: TextIO) -> None:
    for kernel in loading.kernels(module):
        if not guessing.returns_a_value(kernel.fn):
            found = search(kernel, tries, reference)
            line = {"module": module, "kernel": kernel.name, **found}
            print(json.dumps(line), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("found", type=Path)
    parser.add_argument("--with", dest="compiler", choices=("tritium", "triton"), default="tritium")
    parser.add_argument("--tries", type=int, default=40)
    options = parser.parse_args()
    reference = options.compiler == "triton"
    if not reference:
        from tritium.compat import alias

        alias.install()
    loading.import_what_all_use()
    loading.install(options.folder.resolve())
    with options.found.open("a") as out:
        for module in loading.modules(options.folder):
            loading.in_child(partial(_module, module, options.tries, reference, out))


if __name__ == "__main__":
    main()
