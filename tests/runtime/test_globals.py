"""Dependencies of a kernel beside its source: the functions it calls, the globals it reads."""

from __future__ import annotations

import importlib
import itertools
import linecache
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support import launching
from tests.support.launching import module_from


def _module(source: str, folder: Path) -> Any:
    return module_from(
        "import tritium\nimport tritium.language as tl\nimport math\n" + source, folder
    )


BASE = """
@tritium.jit
def inner(x):
    return x + 1

@tritium.jit
def middle(x):
    return inner(x)

@tritium.jit
def kernel(out):
    tl.store(out, middle(3))
"""


def _key(source: str, folder: Path) -> str:
    return _module(source, folder).kernel.cache_key


def test_the_key_covers_callees(tmp_path: Path) -> None:
    key = _key(BASE, tmp_path)
    assert _key(BASE, tmp_path) == key
    assert _key(BASE + "\n# after\n", tmp_path) == key
    assert _key(BASE.replace("x + 1", "x + 2"), tmp_path) != key
    assert _key(BASE.replace("return inner(x)", "return inner(x) + 0"), tmp_path) != key
    assert _key(BASE.replace("@tritium.jit\ndef inner", "@tritium.jit(noinline=True)\ndef inner"),
                tmp_path) != key  # fmt: skip
    assert _key("\n" + BASE, tmp_path) != key, "line numbers are in the code"
    assert _key(BASE.replace("def kernel(out)", "def kernel(out, y=1)"), tmp_path) != key


def test_the_key_covers_functions_as_constants(tmp_path: Path) -> None:
    source = (
        BASE
        + """
@tritium.jit
def apply(out, F: tl.constexpr):
    tl.store(out, F(3))
"""
    )
    keys = set()
    for text in ("x + 1", "x + 5"):
        module = _module(source.replace("x + 1", text), tmp_path)
        keys.add(module.apply.warmup(np.int32, module.inner, grid=(1,)).hash)
    assert len(keys) == 2


def test_the_key_covers_functions_in_tuples(tmp_path: Path) -> None:
    source = (
        BASE
        + """
@tritium.jit
def apply(out, FS: tl.constexpr):
    tl.store(out, FS[0](3))
"""
    )
    keys = set()
    for text in ("x + 1", "x + 5"):
        module = _module(source.replace("x + 1", text), tmp_path)
        keys.add(module.apply.warmup(np.int32, (module.inner, 3), grid=(1,)).hash)
    assert len(keys) == 2


def test_the_version_and_inlining_are_in_the_key() -> None:
    def kernel(out):
        tl.store(out, 1)

    hashes = {
        tritium.jit(**options)(kernel).warmup(np.int32, grid=(1,)).hash
        for options in ({}, {"version": 1}, {"version": 2}, {"noinline": True}, {"version": None})
    }
    assert len(hashes) == 4


def test_nested_functions(tmp_path: Path) -> None:
    source = """
def make(offset):
    @tritium.jit
    def called(x):
        return x + offset

    @tritium.jit
    def kernel(out):
        tl.store(out, called(2))

    return kernel
"""
    module = _module(source, tmp_path)
    out = np.zeros(1, np.int32)
    kernels = [module.make(tl.constexpr(n)) for n in (5, 7)]
    for kernel, value in zip(kernels, (7, 9), strict=True):
        kernel[(1,)](out)
        assert out[0] == value
    assert kernels[0].cache_key != kernels[1].cache_key


def test_recursion_has_a_key(tmp_path: Path) -> None:
    module = _module(
        """
@tritium.jit
def first(x):
    return second(x)

@tritium.jit
def second(x):
    return first(x)
""",
        tmp_path,
    )
    assert module.first.cache_key and module.second.cache_key


def test_the_source_cannot_be_set(tmp_path: Path) -> None:
    module = _module(BASE, tmp_path)
    kernel, inner = module.kernel, module.inner
    with pytest.raises(AttributeError, match=r"Cannot set attribute 'src' directly"):
        inner.src = "def inner(x):\n    return x\n"
    before = kernel.cache_key
    inner._unsafe_update_src(inner.src.replace("x + 1", "x + 100"))
    assert kernel.cache_key == before
    for function in (kernel, module.middle):
        function.hash = None
    assert kernel.cache_key != before
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 103


GLOBALS = """
VALUE = tl.constexpr(42)
OTHER: tl.constexpr = tl.constexpr(1)

@tritium.jit
def inner(x):
    return x + VALUE

@tritium.jit
def kernel(out):
    tl.store(out, inner(1))

@tritium.jit
def both(out):
    tl.store(out, VALUE + inner(1))

@tritium.jit
def inner_first(out):
    tl.store(out, inner(1) + VALUE)
"""


def test_a_changed_global(tmp_path: Path) -> None:
    module = _module(GLOBALS, tmp_path)
    out = np.zeros(1, np.int32)
    module.kernel[(1,)](out)
    assert out[0] == 43
    module.VALUE = tl.constexpr(42)
    module.kernel[(1,)](out)
    module.VALUE = tl.constexpr(7)
    message = "Global variable VALUE has changed since we compiled this kernel, from .*42.* to .*7"
    with pytest.raises(RuntimeError, match=message):
        module.kernel[(1,)](out)
    with pytest.raises(RuntimeError, match=message):
        module.kernel.warmup(np.int32, grid=(1,))
    module.VALUE = tl.constexpr(42)
    module.kernel[(1,)](out)
    del module.VALUE
    with pytest.raises(RuntimeError, match=r"changed .* to nothing \(it was deleted\)"):
        module.kernel[(1,)](out)


@pytest.mark.parametrize("name", ["both", "inner_first"])
def test_conflicting_values(tmp_path: Path, name: str) -> None:
    module = _module(GLOBALS, tmp_path)
    out = np.zeros(1, np.int32)
    module.kernel[(1,)](out)
    module.VALUE = tl.constexpr(7)
    message = (
        f"VALUE has value .*7.* compiling {name}, but inner kernel inner has conflicting value .*42"
    )
    with pytest.raises(RuntimeError, match=message):
        getattr(module, name)[(1,)](out)


def test_a_change_that_is_compiled_separately(tmp_path: Path) -> None:
    module = _module(GLOBALS, tmp_path)
    out = np.zeros(1, np.int32)
    module.kernel[(1,)](out)
    module.VALUE = tl.constexpr(7)
    for function in (module.inner, module.both):
        function.hash = None
    module.both[(1,)](out)
    assert out[0] == 15


def test_defaults_are_frozen(tmp_path: Path) -> None:
    module = _module(
        """
DEFAULT = 5

@tritium.jit
def kernel(out, value=DEFAULT):
    tl.store(out, value)
""",
        tmp_path,
    )
    out = np.zeros(1, np.int32)
    module.kernel[(1,)](out)
    module.DEFAULT = 6
    module.kernel[(1,)](out)
    assert out[0] == 5


def test_the_key_covers_defaults(tmp_path: Path) -> None:
    source = """
DEFAULT = 5

@tritium.jit
def inner(x, y=DEFAULT, z: tl.constexpr = tl.constexpr(3)):
    return x + y

@tritium.jit
def kernel(out):
    tl.store(out, inner(1))
"""
    keys = {
        _key(source.replace(old, new), tmp_path)
        for old, new in (("", ""), ("DEFAULT = 5", "DEFAULT = 6"), ("constexpr(3)", "constexpr(4)"))
    }
    assert len(keys) == 3


def test_what_is_tracked(tmp_path: Path) -> None:
    module = _module(
        """
A = tl.constexpr(1)
B = tl.constexpr(2)

def helper():
    return 3

@tritium.jit
def kernel(out, N: tl.constexpr):
    B = 5
    for i in tl.static_range(2):
        tl.store(out + i, A + B + tl.cdiv(N, 2))
""",
        tmp_path,
    )
    out = np.zeros(2, np.int32)
    module.kernel[(1,)](out, 4)
    assert out.tolist() == [8, 8]
    assert [name for name, _ in module.kernel.used_global_vals] == ["A"]
    module.helper = module.B = None
    module.kernel[(1,)](out, 4)


def test_globals_that_are_no_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(
        """
PLAIN = 42

@tritium.jit
def kernel(out):
    tl.store(out, PLAIN)
""",
        tmp_path,
    )
    out = np.zeros(1, np.int32)
    with pytest.raises(tritium.CompilationError, match=r"PLAIN"):
        module.kernel[(1,)](out)
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    module.kernel[(1,)](out)
    assert out[0] == 42
    module.PLAIN = 43
    with pytest.raises(RuntimeError, match=r"PLAIN has changed .*, from 42 to 43"):
        module.kernel[(1,)](out)


def test_a_changed_dtype(tmp_path: Path) -> None:
    module = _module(
        "DTYPE = tl.float16\n\n@tritium.jit\ndef kernel(out):\n"
        "    tl.store(out, tl.full([], 1.0001, DTYPE).to(tl.float32))\n",
        tmp_path,
    )
    out = np.zeros(1, np.float32)
    module.kernel[(1,)](out)
    assert out[0] == 1
    module.DTYPE = tl.float32
    with pytest.raises(RuntimeError, match="Global variable DTYPE has changed"):
        module.kernel[(1,)](out)


@pytest.mark.parametrize(
    "body",
    ["other(1)", "tl.sum(tl.full([2], N, tl.int32), 0)", "[other(i) for i in (1, 2)][0]"],
)
def test_names_in_the_body_are_followed(body: str, tmp_path: Path) -> None:
    """Where the code names more than the language, the source is looked through."""
    source = (
        "N = tl.constexpr(4)\n\n@tritium.jit\ndef other(x):\n    return x + 1\n\n"
        f"@tritium.jit\ndef kernel(out):\n    tl.store(out, {body})\n"
    )
    key = _key(source, tmp_path)
    assert _key(source.replace("x + 1", "x + 2").replace("constexpr(4)", "constexpr(5)"),
                tmp_path) != key  # fmt: skip


CONSTEXPR = """
STEP = 1

@tritium.constexpr_function
def inner(n):
    return n * 2

@tritium.constexpr_function
def outer(n):
    return inner(n) + STEP

@tritium.jit
def kernel(out):
    tl.store(out, outer(3))
"""


def test_the_key_covers_constexpr_functions(tmp_path: Path) -> None:
    keys = {
        _key(source, tmp_path)
        for source in (
            CONSTEXPR,
            CONSTEXPR.replace("n * 2", "n * 3"),
            CONSTEXPR.replace("+ STEP", "- STEP"),
            CONSTEXPR.replace("STEP = 1", "STEP = 2"),
        )
    }
    assert len(keys) == 4


def test_a_changed_constexpr_function_is_run_again(tmp_path: Path) -> None:
    out = np.zeros(1, np.int32)
    for source, expected in ((CONSTEXPR, 7), (CONSTEXPR.replace("n * 2", "n * 5"), 16)):
        _module(source, tmp_path).kernel[(1,)](out)
        assert out[0] == expected


def test_closures_of_constexpr_functions_and_functions_without_source() -> None:
    def kernel_with(n: int, hidden: str) -> Any:
        space: dict[str, Any] = {}
        exec(f"def hidden(x): return {hidden}", space)

        @tritium.constexpr_function
        def shifted(x):
            return x + n

        unseen = tritium.constexpr_function(space["hidden"])

        @tritium.jit
        def kernel(out):
            tl.store(out, shifted(1) + unseen(2))

        return kernel

    keys = {kernel_with(*how).cache_key for how in ((1, "x * 3"), (2, "x * 3"), (1, "x * 4"))}
    assert len(keys) == 3
    out = np.zeros(1, np.int32)
    kernel_with(1, "x * 3")[(1,)](out)
    assert out[0] == 8


ATTRIBUTES = """
import enum
import {config} as config

class Sizes:
    ROWS = tl.constexpr(3)

class Mode(enum.Enum):
    FAST = 1

@tritium.jit
def from_module(out):
    tl.store(out, config.SIZE)

@tritium.jit
def from_class(out):
    tl.store(out, Sizes.ROWS)

@tritium.jit
def from_enumeration(out):
    tl.store(out, Mode.FAST.value)

@tritium.jit
def calls(out):
    from_module(out)
"""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("from_module", "SIZE = 3", "SIZE = 4"),
        ("calls", "SIZE = 3", "SIZE = 4"),
        ("from_class", "ROWS = tl.constexpr(3)", "ROWS = tl.constexpr(4)"),
        ("from_enumeration", "FAST = 1", "FAST = 2"),
    ],
)
def test_values_of_modules_and_classes_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: str, after: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "config_of_kernels.py").write_text("SIZE = 3\nUNUSED = 1\n")

    def key(old: str, new: str) -> str:
        monkeypatch.delitem(sys.modules, "config_of_kernels", raising=False)
        importlib.invalidate_caches()
        config = tmp_path / "config_of_kernels.py"
        config.write_text(config.read_text().replace(old, new))
        source = ATTRIBUTES.format(config="config_of_kernels").replace(old, new)
        return getattr(_module(source, tmp_path), name).cache_key

    first = key("", "")
    assert key("UNUSED = 1", "UNUSED = 100") == first
    assert key(before, after + "  # another size") != first


def test_a_changed_value_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sizes_of_kernels.py").write_text("SIZE = 3\n")
    module = _module(ATTRIBUTES.format(config="sizes_of_kernels"), tmp_path)
    out = np.zeros(1, np.int32)
    for _ in range(4):
        module.from_module[(1,)](out)
    module.config.SIZE = 4
    with pytest.raises(RuntimeError, match=r"variable config\.SIZE has changed .* from 3 to 4"):
        module.from_module[(1,)](out)


AGGREGATE = """
@tl.core._aggregate
class Inner:
    value: tl.tensor

    def __init__(self, value):
        self.value = value

    @tritium.jit
    def get(self):
        return self.value + 1

@tl.core._aggregate
class Outer:
    inner: Inner

    def __init__(self, inner):
        self.inner = inner

    @tritium.jit
    def get(self):
        return self.inner.get()

@tritium.jit
def kernel(out):
    tl.store(out, Outer(Inner(tl.load(out))).get())
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("self.value + 1", "self.value + 2"), ("self.inner = inner", "self.inner = Inner(0)"),
     ("value: tl.tensor", "value: tl.constexpr")],
)  # fmt: skip
def test_the_key_covers_aggregates(tmp_path: Path, before: str, after: str) -> None:
    assert before in AGGREGATE
    assert _key(AGGREGATE, tmp_path) == _key(AGGREGATE, tmp_path)
    assert _key(AGGREGATE, tmp_path) != _key(AGGREGATE.replace(before, after), tmp_path)


def test_a_changed_method_is_compiled(tmp_path: Path) -> None:
    for step in (1, 5):
        out = np.zeros(1, np.int32)
        source = AGGREGATE.replace("value + 1", f"value + {step}")
        source = source.replace("self.inner.get()", "Outer(self.inner).inner.get()")
        _module(source, tmp_path).kernel[(1,)](out)
        assert out[0] == step


def test_functions_of_a_namespace_without_a_name() -> None:
    source = """
@tritium.jit
def inner(x):
    return x + 1

@tritium.jit
def kernel(out):
    tl.store(out, inner(2))
"""
    lines = source.splitlines(keepends=True)
    linecache.cache["<nameless>"] = (len(source), None, lines, "<nameless>")
    namespace: dict[str, Any] = {"tritium": tritium, "tl": tl}
    exec(compile(source, "<nameless>", "exec"), namespace)
    out = np.zeros(1, np.int32)
    namespace["kernel"][(1,)](out)
    assert out[0] == 3


WATCHED = """
import types
from dataclasses import dataclass

class Base:
    DEPTH = 3

class Cfg(Base):
    SIZE = tl.constexpr(3)

class Other:
    SIZE = 3

@dataclass
class Options:
    n: int

config = types.ModuleType("config")
config.Inner = Cfg
OPTIONS = tl.constexpr(Options(3))
SIZES = tl.constexpr([3, 4])
TABLE = {{"a": 3}}

@tritium.constexpr_function
def computed():
    return Cfg.SIZE.value

def helper():
    return Cfg.DEPTH

@tritium.constexpr_function
def looked_up():
    return TABLE["a"] + helper() - 3

class Sized:
    WIDTH = 3

    @tritium.jit
    def wide(self):
        return self.x * 0 + self.WIDTH

@tl.core._aggregate
class Pair(Sized):
    x: tl.tensor
    SIZE = 3

    def __init__(self, x):
        self.x = x

    @tritium.jit
    def get(self):
        return self.x * 0 + self.SIZE

@tritium.jit
def apply(F: tl.constexpr):
    return F()

@tritium.jit
def size():
    return Cfg.SIZE

@tritium.jit
def kernel(out, F: tl.constexpr = None):
    tl.store(out, {expression})
"""

CHANGES = [
    ("Cfg.SIZE", "Cfg.SIZE = tl.constexpr(4)", "Cfg.SIZE"),
    ("Cfg.DEPTH", "Base.DEPTH = 4", "Cfg.DEPTH"),
    ("Cfg.DEPTH", "Cfg.DEPTH = 4", "Cfg.DEPTH"),
    ("Cfg.DEPTH", "Cfg.DEPTH = 3.0", "Cfg.DEPTH"),
    ("Cfg.DEPTH", "del Base.DEPTH", "Cfg.DEPTH"),
    ("Other.SIZE", "Other = type('Other', (), {'SIZE': 4})", "Other.SIZE"),
    ("config.Inner.DEPTH", "Base.DEPTH = 4", "config.Inner.DEPTH"),
    ("config.Inner.DEPTH", "config.Inner = type('C', (), {'DEPTH': 4})", "config.Inner.DEPTH"),
    ("OPTIONS.n", "OPTIONS.value.n = 4", "OPTIONS.n"),
    ("OPTIONS.n", "OPTIONS = tl.constexpr(Options(4))", "OPTIONS.n"),
    ("SIZES[0]", "SIZES.value[0] = 4", "SIZES"),
    ("computed()", "Cfg.SIZE = tl.constexpr(4)", "Cfg.SIZE"),
    ("looked_up()", "TABLE['a'] = 4", "TABLE"),
    ("looked_up()", "Base.DEPTH = 4", "Cfg.DEPTH"),
    ("Pair(tl.load(out)).get()", "Pair.SIZE = 4", "SIZE"),
    ("Pair(tl.load(out)).wide()", "Sized.WIDTH = 4", "WIDTH"),
    ("apply(size)", "Cfg.SIZE = tl.constexpr(4)", "Cfg.SIZE"),
]


@pytest.mark.parametrize(("expression", "change", "name"), CHANGES)
def test_a_changed_attribute(tmp_path: Path, expression: str, change: str, name: str) -> None:
    module = _module(WATCHED.format(expression=expression), tmp_path)
    out = np.zeros(1, np.int32)
    for _ in range(4):
        module.kernel[(1,)](out)
    assert out[0] == 3
    exec(change, vars(module))
    with pytest.raises(RuntimeError, match=rf"Global variable {name} has changed since we comp"):
        module.kernel[(1,)](out)
    with pytest.raises(RuntimeError, match=rf"Global variable {name} has changed since we comp"):
        module.kernel[(1,)](np.zeros(1, np.float32))


@pytest.mark.parametrize(
    "change",
    ["Cfg.SIZE = tl.constexpr(3)", "Cfg = type('Cfg', (), {'SIZE': 3})", "Cfg.UNUSED = 1",
     "Base.SIZE = 5"],
)  # fmt: skip
def test_an_attribute_with_the_same_value(tmp_path: Path, change: str) -> None:
    module = _module(WATCHED.format(expression="Cfg.SIZE"), tmp_path)
    out = np.zeros(1, np.int32)
    for _ in range(4):
        module.kernel[(1,)](out)
        exec(change, vars(module))
    assert out[0] == 3


@pytest.mark.parametrize(
    "expression", ["Cfg.SIZE", "Cfg.DEPTH", "config.Inner.DEPTH", "OPTIONS.n", "computed()"]
)
def test_attributes_leave_launches_native(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    module = _module(WATCHED.format(expression=expression), tmp_path)
    out = np.zeros(1, np.int32)
    for _ in range(4):
        module.kernel[(1,)](out)
    monkeypatch.setattr(tritium.JITFunction, "launch_in_python", None)
    out[0] = 0
    module.kernel[(1,)](out)
    assert out[0] == 3


def test_a_changed_global_of_a_function_that_is_an_argument(tmp_path: Path) -> None:
    module = _module(WATCHED.format(expression="apply(F)"), tmp_path)
    out = np.zeros(1, np.int32)
    for function in (module.size, module.computed):
        for _ in range(4):
            module.kernel[(1,)](out, function)
        module.Cfg.SIZE = tl.constexpr(4)
        with pytest.raises(RuntimeError, match=r"Global variable Cfg\.SIZE"):
            module.kernel[(1,)](out, function)
        module.Cfg.SIZE = tl.constexpr(3)


def test_what_was_compiled_with_a_changed_global_is_not_kept(tmp_path: Path) -> None:
    """Neither in memory nor on disk, where it would be found under the digest of the old value."""
    module = _module(GLOBALS, tmp_path)
    out = np.zeros(1, np.int32)
    module.kernel[(1,)](out)
    module.VALUE = tl.constexpr(7)
    other = np.zeros(1, np.float32)
    with pytest.raises(RuntimeError, match="Global variable VALUE has changed"):
        module.kernel[(1,)](other)
    module.VALUE = tl.constexpr(42)
    module.kernel[(1,)](other)
    assert other[0] == 43


def test_a_captured_variable_hides_a_global(tmp_path: Path) -> None:
    module = _module(
        """
N = tl.constexpr(1)

def make():
    N = tl.constexpr(2)

    @tritium.jit
    def kernel(out):
        tl.store(out, N)

    return kernel
""",
        tmp_path,
    )
    kernel, out = module.make(), np.zeros(1, np.int32)
    for _ in range(3):
        kernel[(1,)](out)
    assert out[0] == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [('{{"a": 3}}', '{{"a": 5}}'), ("DEPTH = 3", "DEPTH = 5"), ("    return Cfg.DEPTH\n",
     "    return Cfg.DEPTH + 0\n")],
)  # fmt: skip
def test_the_key_covers_what_functions_read_at_compile_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    keys: list[str] = []
    for i, text in enumerate((WATCHED, WATCHED, WATCHED.replace(before, after))):
        (tmp_path / str(i)).mkdir()
        monkeypatch.setattr(launching, "_numbers", itertools.count())  # modules of one name
        keys.append(_key(text.format(expression="looked_up()"), tmp_path / str(i)))
    assert keys[0] == keys[1] != keys[2]


def test_the_key_tells_text_from_numbers(tmp_path: Path) -> None:
    source = "A = tl.constexpr(1)\n\n@tritium.jit\ndef kernel(out):\n    tl.store(out, A)\n"
    assert _key(source, tmp_path) != _key(source.replace("(1)", "('1')"), tmp_path)


def test_a_global_is_read_until_a_local_of_its_name_is_assigned(tmp_path: Path) -> None:
    """A local name means the global until it is assigned: the reference's rule, not Python's."""
    module = _module(
        """
SIZE, COUNT = tl.constexpr(3), tl.constexpr(5)

@tritium.jit
def first(out):
    tl.store(out, SIZE)
    SIZE = 4

@tritium.jit
def later(out):
    for COUNT in tl.static_range(COUNT - 4):
        tl.store(out, COUNT + 7)

@tritium.jit
def local(out):
    _, SIZE = 0, 8
    for COUNT in range(1):
        tl.store(out, SIZE + COUNT)
""",
        tmp_path,
    )
    out = np.zeros(1, np.int32)
    for kernel, expected in ((module.first, 3), (module.later, 7), (module.local, 8)):
        kernel[(1,)](out)
        assert out[0] == expected
    module.SIZE, module.COUNT = tl.constexpr(4), tl.constexpr(6)
    module.local[(1,)](out)
    for kernel, name in ((module.first, "SIZE"), (module.later, "COUNT")):
        with pytest.raises(RuntimeError, match=f"Global variable {name} has changed"):
            kernel[(1,)](out)


def test_a_constexpr_that_is_given_another_value() -> None:
    size = tl.constexpr(42)

    @tritium.jit
    def kernel(out):
        tl.store(out, size)

    out = np.zeros(1, np.int32)
    for _ in range(3):  # the last launches are native
        kernel[(1,)](out)
    size.value = 43
    with pytest.raises(RuntimeError, match=r"size has .*, from constexpr\[42\] to constexpr\[43\]"):
        kernel[(1,)](out)
    size.value = 42
    kernel[(1,)](out)
    assert out[0] == 42
