"""The shape of the source tree: the direction of imports, and what no file may contain."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.sources import ALL_FILES, FILES, KERNELS, MODULES, PACKAGE, ROOT, source

#: From the bottom up; a module imports from its own layer and from those below it.
#: docs/architecture.md says what each is for.
LAYERS = (
    ("errors", "fingerprint", "forking", "hooks", "knobs", "cache", "reference_paths", "system",
     "target", "version"),
    ("ir",),
    ("ops",),
    ("language",),
    ("frontend",),
    ("analysis",),
    ("passes",),
    ("sanitize",),
    ("codegen",),
    ("native",),
    ("launch",),
    ("backends",),
    ("compiler",),
    ("runtime",),
    ("aot",),
    ("profiler", "tools", "testing", "compat"),
    ("experimental",),
    ("cli",),
    ("__main__",),
)
OF_OTHERS = {("tools", "triton_to_gluon_translator"): "experimental"}
"""The layer of packages that are not in that of the folder in which they must lie."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

KERNEL_LAYERS = (
    ("errors", "meta", "proton_opts", "moe_kernels"),
    ("launching", "numerics", "specialize", "roofline"),
    ("target_info", "numerics_details", "distributed_details"),
    ("tensor_details",),
    ("tensor",),
    ("compaction", "dense", "distributed", "matmul_details", "reduce", "swiglu", "topk"),
    ("arrays", "matmul", "routing", "testing"),
    ("matmul_ogs",),
)
"""Likewise for the library of kernels, all of which stands above the compiler."""
KERNEL_RANK = {name: rank for rank, names in enumerate(KERNEL_LAYERS) for name in names}

MAX_LINES = 800


def imports(file: Path) -> list[tuple[int, str]]:
    return source(file).imports


def layer(module: str) -> str | None:
    """The part of the package that a module's file is in; None for others' and `tritium` itself,
    and for the library of kernels."""
    if module not in MODULES or not MODULES[module].is_relative_to(PACKAGE):
        return None
    parts = MODULES[module].relative_to(PACKAGE).with_suffix("").parts
    return None if parts == ("__init__",) else OF_OTHERS.get(parts[:2], parts[0])


def test_every_part_of_the_package_has_a_layer():
    parts = {layer(m) for m in MODULES} - {None}
    assert parts <= RANK.keys(), f"add to LAYERS: {sorted(parts - RANK.keys())}"


def test_imports_go_down_only():
    wrong: list[str] = []
    for name, file in MODULES.items():
        mine = layer(name)
        if mine is None:
            continue  # tritium/__init__.py is above everything
        for line, imported in imports(file):
            theirs = layer(imported)
            unknown = imported.split(".")[0] == "tritium" and theirs is None
            if unknown or (theirs is not None and RANK[theirs] > RANK[mine]):
                wrong.append(f"{file.relative_to(ROOT)}:{line}: {name} imports {imported}")
    assert not wrong, "these imports go up:\n" + "\n".join(wrong)


def kernel_layer(module: str) -> str | None:
    """The part of the library of kernels that a module is in; None for others' and for itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == KERNELS.name and len(parts) > 1 else None


def test_imports_of_the_library_of_kernels_go_down_only():
    parts = {kernel_layer(m) for m in MODULES} - {None}
    assert parts == KERNEL_RANK.keys(), f"KERNEL_LAYERS: {sorted(parts ^ KERNEL_RANK.keys())}"
    wrong: list[str] = []
    for name, file in MODULES.items():
        mine = kernel_layer(name)
        for line, imported in imports(file):
            theirs = kernel_layer(imported)
            up = theirs and (mine is None or KERNEL_RANK[theirs] > KERNEL_RANK[mine])
            if up and name != KERNELS.name:
                wrong.append(f"{file.relative_to(ROOT)}:{line}: {name} imports {imported}")
    assert not wrong, "these imports go up:\n" + "\n".join(wrong)


def test_backends_do_not_import_each_other():
    """Code that several backends need stands below them: in `codegen`, `native`, `launch`."""
    folders = {f.name for f in (PACKAGE / "backends").iterdir() if (f / "__init__.py").exists()}
    wrong: list[str] = []
    for name, file in MODULES.items():
        parts = name.split(".")
        if parts[1:2] == ["backends"] and parts[2:3] and parts[2] in folders:
            others = {f"tritium.backends.{folder}" for folder in folders - {parts[2]}}
            wrong += [
                f"{file.relative_to(ROOT)}:{line}: {imported}"
                for line, imported in imports(file)
                if ".".join(imported.split(".")[:3]) in others
            ]
    assert not wrong, "\n".join(wrong)


def test_code_generation_knows_no_processor():
    """`codegen` asks a `Hardware`: it names no instruction, no width and no option of one."""
    text = re.compile(r"nvvm|nvptx|amdgcn|__nv_|\bptx|sm_\d|\b31\b|\.arch\b|capability", re.I)
    wrong: list[str] = []
    for file in sorted((PACKAGE / "codegen" / "gpu").rglob("*.py")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if text.search(line):
                wrong.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


PROCESSORS = re.compile(r"\b(capability|arch|sm)\b|cuda|hip|sm_|gfx")


def test_passes_know_no_processor():
    """Passes ask a `Processor`, a value: they name no processor, no version of one."""
    wrong: list[str] = []
    for folder in ("passes", "analysis", "codegen/gpu"):
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            content = file.read_text()
            if not PROCESSORS.search(content):
                continue  # most files are not worth parsing
            for node in ast.walk(ast.parse(content)):
                name = next(
                    (getattr(node, f) for f in ("id", "attr", "arg") if hasattr(node, f)), None
                )
                text = node.value if isinstance(node, ast.Constant) else None
                if name in ("capability", "arch", "sm") or (
                    isinstance(text, str) and re.match(r"(cuda|hip|sm_|gfx)\b|(sm_|gfx)\d", text)
                ):
                    line = getattr(node, "lineno", 0)
                    wrong.append(f"{file.relative_to(ROOT)}:{line}: {name or text}")
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_in_a_circle():
    """Layers cannot show a circle within one of them. Imports inside functions count as well, so
    that every module can be imported first, whatever was loaded before."""
    graph = {
        name: {m for _, m in imports(file) if m in MODULES} - {name}
        for name, file in MODULES.items()
    }
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        assert state.get(name) != 1, "cycle: " + " -> ".join([*trail[trail.index(name) :], name])
        state[name] = 1
        for other in sorted(graph[name]):
            # A package's own __init__ gathers its modules; that they name each other through it
            # is seen when the module that they mean is resolved.
            if not name.startswith(other + "."):
                visit(other, (*trail, name))
        state[name] = 2

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (r"os\.(environ|getenv|putenv)|from os import.*environ", {"knobs.py"}),
        (r"(?<!\w)(import|from) torch\b", None),
    ],
    ids=["environment", "torch"],
)
def test_what_only_some_files_may_do(wanted: str, allowed: set[str] | None):
    """The environment is read in knobs.py alone; torch is never imported at a module's top."""
    found: list[str] = []
    for file in FILES:
        if allowed is not None and str(file.relative_to(PACKAGE)) in allowed:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            at_top = allowed is not None or not line.startswith((" ", "\t"))
            if at_top and re.search(wanted, line) and not line.lstrip().startswith(("#", '"')):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


OP_NAME = re.compile(r"(tt|ttg|ttng|amdg|tile|arith|math|scf|cf)\.[a-z_.0-9]+")
QUOTED_OP = re.compile(rf"['\"}}]{OP_NAME.pattern}['\"{{]")
MOST_OP_NAMES = 0
"""Names of ops, and of attributes of their dialects, written outside `ops/`; the number may only
fall. Ask a trait, an effect or a hook of the op's class instead; names of attributes are in
`ops/attributes.py`."""


def definitions(tree: ast.Module) -> set[ast.expr]:
    """The strings that give a class (of a type, say) its name: `name = "tt.ptr"` in its body."""
    return {
        node.value
        for owner in ast.walk(tree) if isinstance(owner, ast.ClassDef)
        for node in owner.body if isinstance(node, ast.Assign)
        and [t.id for t in node.targets if isinstance(t, ast.Name)] == ["name"]
    }  # fmt: skip


def test_ops_are_named_on_their_classes():
    named: list[str] = []
    for file in FILES:
        if file.relative_to(PACKAGE).parts[0] == "ops":
            continue
        text = file.read_text()
        if not QUOTED_OP.search(text):
            continue  # most files are not worth parsing
        tree = ast.parse(text)
        allowed = definitions(tree)
        named += [
            f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and OP_NAME.fullmatch(node.value) and node not in allowed
        ]  # fmt: skip
    assert len(named) <= MOST_OP_NAMES, f"{len(named)}:\n" + "\n".join(named)


MOST_ANY = 280
"""`Any` in signatures of `language` and `passes`; the number may only fall."""


def test_signatures_say_their_types():
    found = 0
    for file in FILES:
        if file.relative_to(PACKAGE).parts[0] not in ("language", "passes"):
            continue
        text = file.read_text()
        for function in ast.walk(ast.parse(text)) if "Any" in text else ():
            if isinstance(function, ast.FunctionDef):
                a = function.args
                declared = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
                hints = [d.annotation for d in declared if d is not None]
                names = [n for h in (*hints, function.returns) if h for n in ast.walk(h)]
                found += sum(isinstance(n, ast.Name) and n.id == "Any" for n in names)
    assert found <= MOST_ANY


RIDDLES = re.compile('"""' + r"What\b")
FRAGMENTS = re.compile(
    '"""' + r"(As|Beside|By|How|Nothing|Of|That|Those|To|Until|What|Where|Whether|Which|Whose)\b"
)


ELLIPSES = re.compile(r"; whether\b|\bso many\b")


def test_prose_names_results_and_numbers():
    """A docstring says "returns whether", and names the parameter that a number is."""
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in tracked_text()
        if path.suffix == ".py" and path.parts[0] == "src"
        for match in ELLIPSES.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_docstrings_say_what_a_thing_is():
    """A docstring begins with the thing or with what it does, not with a question; in the package
    not with a part of a sentence that lacks the thing either."""
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        for path, text in tracked_text()
        if path.suffix == ".py"
        for match in (FRAGMENTS if path.parts[0] == "src" else RIDDLES).finditer(text)
    ]
    assert not found, "\n".join(found)


def test_what_is_not_built_is_named():
    bare = re.compile(r"raise NotImplementedError(\(\))?$")
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in ALL_FILES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert not found, "say what is not built:\n" + "\n".join(found)


@cache
def tracked_text() -> list[tuple[Path, str]]:
    """Every text file of the repository that is not ignored."""
    found: list[tuple[Path, str]] = []
    skipped = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis", ".pytest_cache"}
    for file in sorted(ROOT.rglob("*")):
        parts = file.relative_to(ROOT).parts
        ignored = any(p in skipped or p.startswith((".venv", ".ruff")) for p in parts)
        if not ignored and file.is_file():
            try:
                found.append((file.relative_to(ROOT), file.read_text()))
            except UnicodeDecodeError:
                continue
    return found


def test_files_stay_short():
    long = [
        f"{path}: {lines} lines"
        for path, text in tracked_text()
        if path.suffix == ".py" and (lines := text.count("\n")) > MAX_LINES
    ]
    assert not long, f"more than {MAX_LINES} lines; split by what they do:\n" + "\n".join(long)


def test_the_amd_backend_stays_small():
    """The parts shared with other GPUs are in `codegen/gpu`, `native` and `launch`."""
    files = [f for f in ALL_FILES if f.is_relative_to(PACKAGE / "backends" / "amd")]
    lines = sum(f.read_text().count("\n") for f in files)
    assert 1000 < lines <= 3000, f"{lines} lines; move what is not AMD's out"


def test_functions_stay_short():
    long = [
        f"{place}: {lines} lines, {most} at most"
        for file in ALL_FILES
        for lines, most, place in source(file).functions
        if lines > most
    ]
    assert not long, "split them by what they do:\n" + "\n".join(long)


MAX_FILES = 20


def test_folders_of_packages_and_tests_stay_small():
    """A folder's `__init__` aside: more files are more than one subject."""
    tests = (ROOT / "tests").rglob("*.py")
    counts = Counter(f.parent for f in (*ALL_FILES, *tests) if f.name != "__init__.py")
    large = [f"{d.relative_to(ROOT)}: {n} files" for d, n in counts.items() if n > MAX_FILES]
    assert not large, "\n".join(large)


def test_no_paths_of_one_machine():
    # Spelled so that this file does not contain what it looks for.
    places = re.compile("/" + "(ro" + "ot|wo" + "rk|ho" + "me|Us" + r"ers)/\w")
    found = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, text in tracked_text()
        for number, line in enumerate(text.splitlines(), 1)
        if places.search(line)
    ]
    assert not found, "\n".join(found)


def imported_afresh(names: list[str]) -> str:
    """Import each module with none of ours loaded; what failed, one a line.

    Whether a module imports must not rely on what another import happened to load before.
    """
    script = (
        "import importlib, sys\n"
        "bad = []\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [m for m in sys.modules if m.split('.')[0] == 'tritium']:\n"
        "        del sys.modules[loaded]\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except Exception as error:\n"
        "        bad.append(f'{name}: {type(error).__name__}: {error}')\n"
        "print('\\n'.join(bad))\n"
    )
    command = [sys.executable, "-c", script, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "src")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # what is found is mostly a circle, and those are found above
def test_every_part_imports_on_its_own():
    parts = [m for m in MODULES if m.count(".") < 2 and "__main__" not in m]
    assert imported_afresh(parts) == ""
