"""Slices of packages: kernels and the functions that use them, in one file of their own.

    slice_kernel(["package.module:launch"], leaf_modules=["triton", "torch"], target="sm90")
    python -m tritium.tools.triton_to_gluon_translator.slice_kernel package.module:launch \\
        --leaf-module triton --leaf-module torch --target sm90

Each global name that the roots read is followed through imports to the statement that defines it.
The file has these statements, each under a name that nothing else has, and imports of leaf modules:
those named, and Python's own. What else a module does when it is imported is left out.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from tritium.language.jit.function import JITCallable
from tritium.tools.triton_to_gluon_translator.global_names import (
    PACKAGE,
    FilterFn,
    GlobalValue,
    NameVisitor,
    RewriteSpec,
    get_reference,
    is_submodule,
    local_names,
)
from tritium.tools.triton_to_gluon_translator.target import TranslatorTarget
from tritium.tools.triton_to_gluon_translator.translator import (
    convert_triton_to_gluon,
    plain_function,
)

__all__ = ["GlobalValue", "RewriteSpec", "find_references", "get_reference", "slice_kernel",
           "slice_kernel_from_trace"]  # fmt: skip

_SHORT = {
    f"{PACKAGE}.experimental.gluon.language": "gl", f"{PACKAGE}.experimental.gluon": "gluon",
    f"{PACKAGE}.language": "tl", PACKAGE: PACKAGE,
}  # fmt: skip
"""The names under which slices import our modules."""
_DESCRIPTORS = {"TensorDescriptor", "create_ragged_descriptor"}
"""Names of our package that make descriptors of Triton's."""


def find_references(
    base_values: Sequence[GlobalValue],
    filter: FilterFn,
    value_remap: dict[int, GlobalValue],
    rewrite_spec: RewriteSpec | None = None,
) -> tuple[OrderedDict[int, GlobalValue], dict[int, list[int]]]:
    """The global values that these need, themselves first, by `id`; and the ids that each reads.

    Args:
        filter: true for modules and values that are not looked into.
        value_remap: values to use in place of others, by the others' `id`.
    """
    return _references(base_values, filter, value_remap, rewrite_spec, GlobalValue.statement)


def _references(
    base_values: Sequence[GlobalValue], filter: FilterFn, value_remap: dict[int, GlobalValue],
    rewrite_spec: RewriteSpec | None, statement: Callable[[GlobalValue], ast.AST],
) -> tuple[OrderedDict[int, GlobalValue], dict[int, list[int]]]:  # fmt: skip
    """`find_references` where `statement` says what defines a value."""
    followed = [value.followed() for value in base_values]
    queue = [value_remap.get(value.id, value) for value in followed]
    references = OrderedDict((value.id, value) for value in queue)
    graph: dict[int, list[int]] = {}
    for value in queue:
        edges = graph[value.id] = list[int]()
        if filter(value.module) or filter(value):
            continue

        def note(
            node: ast.expr, read: GlobalValue | ModuleType, edges: list[int] = edges
        ) -> ast.expr:
            if isinstance(read, ModuleType):  # a leaf
                return node
            read = value_remap.get(read.id, read)
            if read.id not in references:
                references[read.id] = read
                queue.append(read)
            edges.append(read.id)
            return node

        visitor = NameVisitor(value.module, filter, rewrite_spec or RewriteSpec(), note)
        visitor.visit(statement(value))
    return references, graph


def slice_kernel(
    root_paths: Sequence[str],
    leaf_modules: Sequence[str],
    include_below: Sequence[str] | None = None,
    leaf_paths: Sequence[str] | None = None,
    translate_to_gluon: bool = False,
    rewrite_spec: RewriteSpec | None = None,
    *,
    target: TranslatorTarget | str,
) -> str:
    """The text of a module with the objects at `package.module:name`, and all that they need.

    Args:
        root_paths: the objects.
        leaf_modules: modules that are imported, with those below them.
        include_below: modules below those that are sliced all the same.
        leaf_paths: further objects that are imported.
        translate_to_gluon: write kernels in Gluon, as `convert_triton_to_gluon` does, and hand them
            descriptors as they then take them. What a kernel reads is imported.
        target: the processor of the translation.

    Raises `ValueError` for a path or name that nothing defines, `NotImplementedError` for a
    definition that cannot be taken out of its module.
    """
    spec, target = rewrite_spec or RewriteSpec(), TranslatorTarget(target)
    roots = [GlobalValue.at(path).followed() for path in root_paths]
    leaves = {GlobalValue.at(path).followed().id for path in leaf_paths or ()}

    def is_leaf(value: ModuleType | GlobalValue) -> bool:
        if isinstance(value, GlobalValue):
            return value.id in leaves
        name = value.__name__
        if name.split(".")[0] in sys.stdlib_module_names:
            return True
        return is_submodule(name, leaf_modules) and not is_submodule(name, include_below or ())

    kernels = list[JITCallable]()
    defined: Callable[[GlobalValue], ast.AST] = GlobalValue.statement
    if translate_to_gluon:
        defined = partial(_around_kernel, spec=spec)
        found = _references(roots, is_leaf, {}, spec, defined)[0].values()
        known = [v for v in found if not is_leaf(v) and not is_leaf(v.module)]
        kernels = [kernel for kernel in map(_kernel, known) if kernel is not None]
    references, graph = _references(roots, is_leaf, {}, spec, defined)
    writer = _Writer(references, is_leaf, kernels, spec)
    parts = [convert_triton_to_gluon(kernels, target).rstrip()] if kernels else []
    parts += [text for id in _ordered(graph, roots) if (text := writer.text(references[id]))]
    return "\n\n\n".join(["\n".join(sorted(writer.imports)), *parts]).lstrip() + "\n"


def slice_kernel_from_trace(
    kernel_path: str,
    trace: Sequence[dict[str, list[str]]],
    translate_to_gluon: bool,
    extra_modules: dict[str, str],
    rewrite_spec: RewriteSpec | None = None,
    *,
    target: TranslatorTarget | str,
) -> str:
    """`slice_kernel` of a kernel with what launches of it were given.

    Args:
        trace: for each launch the paths of the types (`type_names`), which are imported, and of the
            functions (`jit_fn_names`) among its arguments, which `__jit_fn_remap__` of the kernel
            then has by their names.
        extra_modules: modules that are loaded from files first, by their names.
    """
    for name, path in extra_modules.items():
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path}: not a file of Python, which module {name} is loaded from")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    functions = sorted({path for launch in trace for path in launch["jit_fn_names"]})
    types = sorted({path for launch in trace for path in launch["type_names"]})
    ours = [path for path in types if path.split(":")[0].split(".")[0] not in ("triton", "torch")]
    text = slice_kernel(
        [kernel_path, *(path for path in functions if path != kernel_path)], ["triton", "torch"],
        None, ours, translate_to_gluon, rewrite_spec, target=target,
    )  # fmt: skip
    names = [path.split(":")[1] for path in functions if path != kernel_path]
    if not names:
        return text
    table = "".join(f"    {name!r}: {name},\n" for name in names)
    return f"{text}\n\n{kernel_path.split(':')[1]}.__jit_fn_remap__ = {{\n{table}}}\n"


def _kernel(value: GlobalValue) -> JITCallable | None:
    """The function of `jit` that a name has, under autotuners too; None for other values."""
    try:
        return plain_function(value.original_value)
    except TypeError:
        return None


def _around_kernel(value: GlobalValue, spec: RewriteSpec, name: str | None = None) -> ast.AST:
    """The statements that put the decorators of a kernel, but for `jit`, around its translation.
    Of other values the statement that defines them."""
    kernel, found = _kernel(value), value.statement(name)
    if kernel is None or not isinstance(found, ast.FunctionDef):
        return found
    written = ast.Module([], [])
    for decorator in reversed(spec.kept(found.decorator_list, value.module)[:-1]):
        call = ast.Call(decorator, [ast.Name(kernel.__name__, ast.Load())], [])
        written.body.append(ast.Assign([ast.Name(kernel.__name__, ast.Store())], call))
    return written


def _ordered(graph: dict[int, list[int]], roots: Sequence[GlobalValue]) -> list[int]:
    """All ids, each behind those that it reads unless they read it, too."""
    done: dict[int, None] = {}
    open = set[int]()

    def visit(id: int) -> None:
        if id not in open:
            open.add(id)
            for read in reversed(graph[id]):
                visit(read)
            done[id] = None

    for root in roots:
        visit(root.id)
    return list(done)


class _Writer:
    """Writes the statements of a slice.

    Attributes:
        imports: the lines by which leaf modules are imported.
    """

    def __init__(
        self, references: OrderedDict[int, GlobalValue], is_leaf: FilterFn,
        kernels: Sequence[JITCallable], spec: RewriteSpec,
    ):  # fmt: skip
        self.is_leaf, self.kernels, self.spec = is_leaf, kernels, spec
        self.imports = set[str]()
        # The alias is what the program's other files import, where it is there.
        self.package = "triton" if "triton" in sys.modules else PACKAGE
        taken = {*_SHORT.values(), "triton", "helpers", "engines"}
        taken |= {v.module.__name__.split(".")[0] for v in references.values()
                  if self._is_imported(v)}  # fmt: skip
        own = [value for value in references.values() if not self._is_imported(value)]
        taken |= {name for value in own for name in local_names(value.statement())}
        self.names: dict[int, str] = {}
        for value in own:
            self.names[value.id] = _free_name(value, taken)
            taken.add(self.names[value.id])

    def _is_imported(self, value: GlobalValue) -> bool:
        return self.is_leaf(value.module) or self.is_leaf(value)

    def text(self, value: GlobalValue) -> str:
        """The statements that define the value; none for what is imported."""
        if self._is_imported(value):
            return ""
        visitor = NameVisitor(value.module, self.is_leaf, self.spec, self._named, self._called)
        name = self.names[value.id]
        around = _around_kernel(value, self.spec, name) if self.kernels else value.statement(name)
        return ast.unparse(ast.fix_missing_locations(visitor.visit(around)))

    def _named(self, node: ast.expr, value: GlobalValue | ModuleType) -> ast.expr:
        """The expression for a global value or a leaf module."""
        if isinstance(value, ModuleType):
            return self._imported(value.__name__, _SHORT.get(value.__name__, value.__name__))
        if not self._is_imported(value):
            kernel = _kernel(value) if self.kernels else None
            return ast.Name(self.names[value.id] if kernel is None else kernel.__name__, ast.Load())
        module, found = value.module.__name__, value.original_value
        if module in _SHORT:
            return self._imported(module, _SHORT[module], value.name)
        for name, short in _SHORT.items():
            known = vars(sys.modules[name]).get(value.name) if name in sys.modules else None
            if is_submodule(module, [PACKAGE]) and known is found and found is not None:
                return self._imported(name, short, value.name)
        return self._imported(module, module, value.name)

    def _imported(self, module: str, short: str, name: str = "") -> ast.expr:
        """The expression for a name of a module that is imported, or the module."""
        if module.split(".")[0] == PACKAGE:
            module = self.package + module[len(PACKAGE) :]
            short = short if short in ("gl", "gluon", "tl") else module
        self.imports.add(f"import {module}" + (f" as {short}" if short != module else ""))
        return ast.parse(f"{short}.{name}" if name else short, mode="eval").body

    def _called(self, node: ast.Call, value: GlobalValue) -> ast.expr:
        """A call; of what makes a descriptor of Triton's with its conversion to one of Gluon's."""
        ours = is_submodule(value.module.__name__, [PACKAGE])
        if not (self.kernels and ours and value.name in _DESCRIPTORS):
            return node
        place = f"{self.package}.tools.triton_to_gluon_translator"
        self.imports.add(f"from {place} import engines")
        return ast.Call(ast.parse("engines.convert_host_descriptor", mode="eval").body, [node], [])


def _free_name(value: GlobalValue, taken: set[str]) -> str:
    """A name that nothing has: the value's own, or with names of modules before it."""
    name = value.name
    for part in (*reversed(value.module.__name__.split(".")), *("_" * 99)):
        if name not in taken:
            break
        name = f"{part}_{name}"
    return name


def main() -> None:
    """Write a slice to a file, or to the standard output."""
    parser = argparse.ArgumentParser(description="Slice kernels into a file of their own.")
    parser.add_argument("root_paths", nargs="+", help="package.module:name")
    parser.add_argument("--leaf-module", action="append", default=[], help="imported, not sliced")
    parser.add_argument("--include-below", action="append", default=[])
    parser.add_argument("--leaf-path", action="append", default=[], help="package.module:name")
    parser.add_argument("--translate-to-gluon", action="store_true")
    parser.add_argument("--output-path", type=Path)
    parser.add_argument("--target", type=TranslatorTarget, required=True)
    given = parser.parse_args()
    text = slice_kernel(
        given.root_paths, given.leaf_module, given.include_below, given.leaf_path,
        given.translate_to_gluon, target=given.target,
    )  # fmt: skip
    if given.output_path is None:
        print(text, end="")
    else:
        given.output_path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
