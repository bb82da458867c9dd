"""Slices of packages: kernels and what uses them in one file."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.tools.triton_to_gluon_translator import (
    find_references,
    get_base_value,
    slice_kernel,
    slice_kernel_from_trace,
)
from tritium.tools.triton_to_gluon_translator.slice_kernel import RewriteSpec, get_reference

FILES = {
    "numbers.py": """
        import math

        try:
            from .missing import factor
        except ImportError:
            from .more import factor

        def size(): return math.prod([2, 4])

        class Sizes:
            block = size() * 2
            def __init__(self): self.kept = self.block + size()
    """,
    "more.py": """
        import tritium.language as tl
        FACTOR = tl.constexpr(3)
        OFFSETS = [k + 1 for k in range(4)]
        def factor(): return 5
        def size(): return 7
    """,
    "kernels.py": """
        import numpy
        import tritium
        import tritium.language as tl
        from tritium import cdiv
        from . import more
        from .more import FACTOR as BY, size
        from .numbers import Sizes, factor as found_factor
        limit = 4
        if BY.value == 3:
            limit *= 2
            def least(a): return min(a, hasattr(numpy, "no_such_thing"))
        else:
            def least(a): return -1

        def marked(**options): return lambda fn: fn

        @tritium.jit
        def scaled(x): return x * BY

        def configs(): return [tritium.Config({"B": Sizes.block})]

        @marked(note=configs())
        @tritium.autotune(configs(), key=[])
        @tritium.jit
        def kernel(x, out, n, B: tl.constexpr):
            at = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(out + at, scaled(tl.load(x + at, mask=at < n)), mask=at < n)

        def launch(x):
            from .more import OFFSETS, factor
            size_of = lambda factor: size() + factor
            out = numpy.zeros_like(x)
            kernel[lambda meta: (cdiv(x.size, meta["B"]),)](x, out, x.size)
            try:
                import math as m
                import no_such_package
            except ImportError:
                missing = [getattr(numpy, "inf"), __name__.count("sliced") >= 0, least(limit)]
            numbers = [size_of(more.size()), found_factor(), Sizes().kept, OFFSETS[1]]
            numbers = [*missing, *numbers, m.floor(2.5)]
            return out, numbers, factor()

        whole = more
        first, second = 1, 2
        def bad_module(): return whole
        if BY.value: either = {1: found_factor}
        else: either = 2
        def bad_either(): return either
        def bad_pair(): return first
    """,
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of these files, by its name."""
    name = "sliced_package"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    for file, text in FILES.items():
        lines = text.splitlines()
        (tmp_path / name / file).write_text("\n".join(line[8:] for line in lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield name
    for module in [m for m in sys.modules if m.split(".")[0] in (name, "a_slice")]:
        del sys.modules[module]


def loaded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The slice as a module, where its package is not."""
    (folder / "alone").mkdir()
    (folder / "alone" / "a_slice.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(folder / "alone"), *sys.path[1:]])
    return importlib.import_module("a_slice")


@pytest.mark.cpu
def test_a_slice_does_what_its_package_does(package, tmp_path, monkeypatch):
    text = slice_kernel([f"{package}.kernels:launch"], ["tritium", "numpy"], target="generic")
    x = np.arange(40, dtype=np.float32)
    wanted = importlib.import_module(f"{package}.kernels").launch(x)
    found = loaded(text, tmp_path, monkeypatch).launch(x)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[0], x * 3)
    assert found[1:] == wanted[1:] == ([np.inf, True, 0, 14, 5, 24, 2, 2], 5)
    assert package not in text and "bad_" not in text


def test_leaves_are_imported_and_decorators_left_out(package):
    kernels = importlib.import_module(f"{package}.kernels")

    def matches(context, module, decorator):
        found = get_reference(context, module, getattr(decorator, "func", decorator))
        return found is not None and found[0] in (kernels.marked, kernels.tritium.autotune)

    text = slice_kernel(
        [f"{package}.kernels:kernel"], ["triton", f"{package}.more"],
        leaf_paths=[f"{package}.kernels:scaled"], target="generic",
        rewrite_spec=RewriteSpec(ignored_decorator_matchers=[matches]),
    )  # fmt: skip
    head, body = text.split("\n\n\n")
    package_name = "triton" if "triton" in sys.modules else "tritium"
    assert head.splitlines() == sorted([f"import {package}.kernels", f"import {package_name}",
                                        f"import {package_name}.language as tl"])  # fmt: skip
    assert body.startswith(f"@{package_name}.jit\ndef kernel(")
    assert f"{package}.kernels.scaled(tl.load" in body


@pytest.mark.cpu
def test_slices_in_gluon(package, tmp_path, monkeypatch):
    path = f"{package}.kernels:kernel"
    text = slice_kernel([path], ["triton"], translate_to_gluon=True, target="sm90")
    module = loaded(text, tmp_path, monkeypatch)
    assert [c.kwargs for c in module.kernel.configs] == [{"B": 16}] and "@gluon.jit" in text
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    InterpretedKernel(module.kernel.fn.fn)[(1,)](x, out, 12, B=16)
    np.testing.assert_array_equal(out, np.where(x < 12, x * 3, 0))


def test_slices_of_traces(package, tmp_path):
    extra = tmp_path / "an_extra.py"
    extra.write_text("class Kind: pass\n")
    trace = [{"type_names": ["an_extra:Kind"], "jit_fn_names": [f"{package}.kernels:scaled"]}]
    text = slice_kernel_from_trace(
        f"{package}.kernels:kernel", trace, False, {"an_extra": str(extra)}, target="generic"
    )
    assert text.endswith("kernel.__jit_fn_remap__ = {\n    'scaled': scaled,\n}\n")


def test_references_and_errors(package):
    value = get_base_value(f"{package}.numbers:factor")
    references, graph = find_references([value], lambda _: False, {})
    assert [(v.name, v.module.__name__) for v in references.values()] == [
        ("factor", f"{package}.more")]  # fmt: skip
    assert list(graph.values()) == [[]]
    for name, message in (
        ("bad_module", "used as a value"), ("bad_pair", "first, second = "),
        ("bad_either", "either is defined by several"),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=message):
            slice_kernel([f"{package}.kernels:{name}"], ["triton"], target="generic")
    for path, message in ((f"{package}.more:nothing", "has no 'nothing'"), ("x:1", "not the path")):
        with pytest.raises(ValueError, match=message):
            get_base_value(path)
