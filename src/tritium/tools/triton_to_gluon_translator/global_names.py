"""Global names of functions: where they are defined, and visits of all that a function reads."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeAlias, cast

PACKAGE = __name__.split(".")[0]
_FUNCTIONS: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Statement: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign"


@dataclass(frozen=True)
class GlobalValue:
    """A name of a module, that a statement of the module defines."""

    name: str
    module: ModuleType

    @staticmethod
    def at(path: str) -> GlobalValue:
        """The value at `package.module:name` or `package.module.name`."""
        module, _, name = path.rpartition(":" if ":" in path else ".")
        if not module or not name.isidentifier():
            raise ValueError(f"{path!r} is not the path of an object, package.module:name")
        found = GlobalValue(name, importlib.import_module(module))
        if not hasattr(found.module, name):
            raise ValueError(f"module {module} has no {name!r}")
        return found

    def followed(self) -> GlobalValue:
        """The same value in the module that defines it. Raises `ValueError` if there is none."""
        found = origin(self.name, self.module, lambda _: False)
        if isinstance(found, ModuleType):
            raise ValueError(
                f"{self.module.__name__}:{self.name} is a module, no function or value"
            )
        return found

    @property
    def id(self) -> int:
        """A number that stands for the value."""
        return hash((self.module.__name__, self.name))

    @property
    def original_value(self) -> object:
        """The object."""
        return getattr(self.module, self.name, None)

    def statement(self, name: str | None = None) -> Statement:
        """A copy of the statement that defines the value, under another name if one is given."""
        found = _defining(self.module, self.name)
        if isinstance(found, _DEFINED):
            found = copy.deepcopy(found)
            found.name = name or self.name
            return found
        target = ast.Name(name or self.name, ast.Store())
        if found is None:
            return ast.Assign([target], self._literal())
        value: ast.expr | None = None
        if isinstance(found, ast.Assign | ast.AnnAssign):
            targets = found.targets if isinstance(found, ast.Assign) else [found.target]
            if any(isinstance(t, ast.Name) and t.id == self.name for t in targets):
                value = found.value
        if value is None:
            raise NotImplementedError(
                f"{self.module.__name__}:{self.name} is defined by `{ast.unparse(found)}`; "
                "slices are built of functions, classes and assignments to one name"
            )
        return ast.Assign([target], copy.deepcopy(value))

    def _literal(self) -> ast.expr:
        """The expression of the value that the name has now, if it is a plain one."""
        try:
            expression = ast.parse(repr(self.original_value), mode="eval").body
            if ast.literal_eval(expression) == self.original_value:
                return expression
        except (SyntaxError, ValueError):
            pass
        raise NotImplementedError(
            f"{self.module.__name__}:{self.name} is defined by several statements; slices are "
            "built of numbers, strings and what one statement defines"
        )


FilterFn: TypeAlias = Callable[[ModuleType | GlobalValue], bool]


@dataclass
class RewriteSpec:
    """Changes that slices make to functions.

    Attributes:
        ignored_decorator_matchers: `matcher(globals, module, decorator)` is true for a decorator
            that is left out with those above it.
        annotation_rewriters: `rewriter(globals, module, subscript)` is the expression to write for
            one with an index, or None to keep it.
    """

    ignored_decorator_matchers: Sequence[
        Callable[[dict[str, Any], ModuleType, ast.expr], bool]
    ] = ()
    annotation_rewriters: Sequence[
        Callable[[dict[str, Any], ModuleType, ast.Subscript], ast.expr | None]
    ] = ()

    def kept(self, decorators: list[ast.expr], module: ModuleType) -> list[ast.expr]:
        """The decorators of a function of the module that are not left out."""
        for index in range(len(decorators) - 1, -1, -1):
            given = vars(module), module, decorators[index]
            if any(matches(*given) for matches in self.ignored_decorator_matchers):
                return decorators[index + 1 :]
        return decorators


def is_submodule(name: str, packages: Sequence[str]) -> bool:
    """Tell whether a module is one of these or below one; `triton` is our own package."""
    own = [PACKAGE if p == "triton" else p.replace("triton.", f"{PACKAGE}.", 1)
           if p.startswith("triton.") else p for p in packages]  # fmt: skip
    return any(name == package or name.startswith(f"{package}.") for package in own)


def get_reference(
    context: Mapping[str, object], cur_module: ModuleType, node: ast.AST
) -> tuple[object, ModuleType, str] | None:
    """The value that a name, or a name of a module, has where `context` are the global names, with
    the module that it is read from and its name there."""
    if isinstance(node, ast.Name):
        return (context[node.id], cur_module, node.id) if node.id in context else None
    if isinstance(node, ast.Attribute):
        owner = get_reference(context, cur_module, node.value)
        if owner is not None and isinstance(owner[0], ModuleType):
            return getattr(owner[0], node.attr), owner[0], node.attr
    return None


def origin(name: str, module: ModuleType, is_leaf: FilterFn) -> GlobalValue | ModuleType:
    """The value behind a name: a module, or the value in the module that defines it, or in the
    first leaf module on the way there."""
    while not is_leaf(module):
        found = _defining(module, name)
        if isinstance(found, ast.Import):
            return getattr(module, name)
        if not isinstance(found, ast.ImportFrom):
            return GlobalValue(name, module)
        source = _imported_from(found, module)
        inner = next((a.name for a in found.names if (a.asname or a.name) == name), name)
        if isinstance(value := getattr(module, name), ModuleType):
            return value
        module, name = source, inner
    return GlobalValue(name, module)


def _imported_from(node: ast.ImportFrom, module: ModuleType) -> ModuleType:
    dots = "." * node.level + (node.module or "")
    package = module.__package__ or module.__name__
    return importlib.import_module(importlib.util.resolve_name(dots, package))


@lru_cache(maxsize=256)
def _statements(module: ModuleType) -> dict[str, list[ast.stmt]]:
    """The statements outside of functions that bind each name."""
    found: dict[str, list[ast.stmt]] = {}
    pending: list[ast.AST] = list(ast.parse(inspect.getsource(module)).body)
    for node in pending:
        for name in _bound(node):
            found.setdefault(name, []).append(cast(ast.stmt, node))
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler | ast.For | ast.While):
            inside = (getattr(node, part, ()) for part in ("body", "handlers", "orelse"))
            pending += [each for part in inside for each in part]
    return found


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that one statement binds."""
    if isinstance(node, _DEFINED):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


def _defining(module: ModuleType, name: str) -> ast.stmt | None:
    """The statement that gave a name of a module its value; None where one of several did, and
    which is not known. Raises `ValueError` where none did."""
    known = _statements(module)
    stars = [node for node in known.get("*", ()) if isinstance(node, ast.ImportFrom)
             and hasattr(_imported_from(node, module), name)]  # fmt: skip
    found = [*known.get(name, ()), *stars]
    if not found:
        raise ValueError(f"{module.__name__}: no statement that defines {name!r} was found")
    if len(found) == 1:
        return found[0]
    value: Any = getattr(module, name, None)
    function = value
    while hasattr(function, "fn"):  # of jit, autotune
        function = function.fn
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
    for node in found:  # of several, the one that was run
        if isinstance(node, ast.Import) and isinstance(value, ModuleType):
            return node
        if isinstance(node, ast.ImportFrom):
            inner = next((a.name for a in node.names if (a.asname or a.name) == name), name)
            try:
                if getattr(_imported_from(node, module), inner) is value:
                    return node
            except (ImportError, AttributeError):
                continue
        elif isinstance(node, _DEFINED):
            first = min(part.lineno for part in (node, *node.decorator_list))
            if first <= line <= node.lineno:
                return node
    return None


def local_names(statement: ast.stmt) -> set[str]:
    """The names that a statement's functions, classes and comprehensions have for themselves."""
    stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)
              and isinstance(n.ctx, ast.Store)}  # fmt: skip
    top = {t.id for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)}
    return (stored - top) | {n.arg for n in ast.walk(statement) if isinstance(n, ast.arg)}


class NameVisitor(ast.NodeTransformer):
    """Visits each global value, and leaf module, that a statement of a module reads, whatever its
    name there, and replaces it by what `read(node, value)` returns; calls of one by what `called`
    does.

    Imports inside of functions are taken out: their names are global values, too. Those of
    packages that are not installed stay.
    """

    def __init__(
        self, module: ModuleType, is_leaf: FilterFn, spec: RewriteSpec,
        read: Callable[[ast.expr, GlobalValue | ModuleType], ast.expr],
        called: Callable[[ast.Call, GlobalValue], ast.expr] | None = None,
    ):  # fmt: skip
        self.module, self.is_leaf, self.spec = module, is_leaf, spec
        self.read, self.called = read, called
        self.missing = set[ast.stmt]()
        self.scopes: list[tuple[ast.AST, dict[str, GlobalValue | ModuleType | None]]] = []

    def _resolved(self, node: ast.AST) -> GlobalValue | ModuleType | None:
        """The value of a name, or of an attribute of a module; None for local and built-in ones."""
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            if not isinstance(owner, ModuleType) or not hasattr(owner, node.attr):
                return None  # what another version of a package has is read from the module
            value = getattr(owner, node.attr)
            return value if isinstance(value, ModuleType) else self._origin(node.attr, owner)
        if not isinstance(node, ast.Name):
            return None
        for scope, names in reversed(self.scopes):
            outer_class = isinstance(scope, ast.ClassDef) and scope is not self.scopes[-1][0]
            if node.id in names and not outer_class:
                return names[node.id]
        if node.id not in vars(self.module) or node.id.startswith("__"):  # a module's own
            return None
        return self._origin(node.id, self.module)

    def _origin(self, name: str, module: ModuleType) -> GlobalValue | ModuleType:
        return origin(name, module, self.is_leaf)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._resolved(node) if isinstance(node.ctx, ast.Load) else None
        if isinstance(found, ModuleType) and not self.is_leaf(found):
            raise NotImplementedError(
                f"{self.module.__name__}: module {found.__name__} is used as a value; slices are "
                "built of what a module defines"
            )
        return node if found is None else self.read(node, found)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = self._resolved(node)
        is_module = isinstance(found, ModuleType) and self.is_leaf(found)
        if found is not None and (is_module or isinstance(found, GlobalValue)):
            return self.read(node, found)
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        for rewriter in self.spec.annotation_rewriters:
            replacement = rewriter(vars(self.module), self.module, node)
            if replacement is not None:
                return self.visit(replacement)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        callee: ast.AST = node.func
        found = self._resolved(callee)
        while found is None and isinstance(callee, ast.Attribute):  # a method of a class
            callee = callee.value
            found = self._resolved(callee)
        done = cast(ast.Call, self.generic_visit(node))
        if isinstance(found, GlobalValue) and self.called is not None:
            return self.called(done, found)
        return done

    def _visit_import(self, node: ast.stmt) -> ast.stmt | None:
        return None if self.scopes and node not in self.missing else node

    visit_Import = visit_ImportFrom = _visit_import

    def _visit_function(self, node: _FUNCTIONS) -> ast.AST:
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [
                self.visit(each) for each in self.spec.kept(node.decorator_list, self.module)
            ]
            node.returns = node.returns and self.visit(node.returns)
        node.args = self.visit(node.args)
        return self._visit_body(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = [
            self.visit(each) for each in self.spec.kept(node.decorator_list, self.module)
        ]
        node.bases = [self.visit(each) for each in node.bases]
        node.keywords = [self.visit(each) for each in node.keywords]
        return self._visit_body(node)

    def _visit_body(self, node: _FUNCTIONS | ast.ClassDef) -> ast.AST:
        with self._scope(node):
            if isinstance(node, ast.Lambda):
                node.body = self.visit(node.body)
                return node
            found = [self.visit(each) for each in node.body]
            node.body = [each for each in found if each is not None] or [ast.Pass()]
        for inner in ast.walk(node):  # where an import was all there was
            if getattr(inner, "body", None) == []:
                cast(Any, inner).body = [ast.Pass()]
        return node

    def _visit_comprehension(self, node: ast.AST) -> ast.AST:
        with self._scope(node):
            return self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    @contextmanager
    def _scope(self, node: ast.AST) -> Generator[None]:
        """The names of a function, class or comprehension."""
        names: dict[str, GlobalValue | ModuleType | None] = {}
        inner: list[ast.AST] = (
            list(ast.iter_child_nodes(node)) if not isinstance(node, _DEFINED) else [*node.body]
        )
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names.update(
                dict.fromkeys(a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))
            )
        for each in inner:
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                names[each.id] = None
            elif isinstance(each, _DEFINED | ast.ExceptHandler):
                names[each.name or ""] = None
            elif isinstance(each, ast.Import | ast.ImportFrom):
                try:
                    names.update(self._imported(each))
                except ImportError:
                    self.missing.add(each)
                    names.update(dict.fromkeys(_bound(each)))
            if not isinstance(each, (_DEFINED, ast.Lambda, _COMPREHENSIONS)):
                inner += ast.iter_child_nodes(each)
        self.scopes.append((node, names))
        yield
        self.scopes.pop()

    def _imported(self, node: ast.Import | ast.ImportFrom) -> dict[str, GlobalValue | ModuleType]:
        """The names that an import in a function binds, and their values."""
        if isinstance(node, ast.Import):
            modules = [(a.asname or a.name.split(".")[0], importlib.import_module(a.name), a)
                       for a in node.names]  # fmt: skip
            return {name: module if a.asname else importlib.import_module(name)
                    for name, module, a in modules}  # fmt: skip
        source, found = _imported_from(node, self.module), dict[str, GlobalValue | ModuleType]()
        for alias in node.names:
            if not hasattr(source, alias.name):
                importlib.import_module(f"{source.__name__}.{alias.name}")
            value = getattr(source, alias.name)
            is_module = isinstance(value, ModuleType)
            bound = value if is_module else self._origin(alias.name, source)
            found[alias.asname or alias.name] = bound
        return found
