"""Gluon kernels of the benchmarks and the tutorials, compiled for sm_90 with `tritium` or with
`triton`, which needs release 3.9 for the tutorials' names."""

from __future__ import annotations

import atexit
import importlib
import importlib.abc
import importlib.util
import re
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

TUTORIALS = Path(__file__).parent.parent / "tutorials" / "gluon"


class Case(NamedTuple):
    """A kernel of a file.

    Attributes:
        blocks: of its descriptors of fp16, by argument.
        scalars: the types of other arguments.
    """

    file: str
    kernel: str
    blocks: dict[str, list[int]]
    scalars: dict[str, str]
    constants: dict[str, Any]
    num_warps: int = 4


_TILES = {"a": [128, 64], "b": [64, 128], "out": [128, 128]}
CASES: dict[str, Case] = {
    "gluon copy": Case("kernels", "copy_block", {"src": [64, 128], "out": [64, 128]}, {}, {}),
    "gluon matmul": Case("kernels", "matmul", {"a": [128, 64], "b": [64, 256], "out": [64, 128]},
                         {}, {"STAGES": 4, "GROUP": 8}),
    "gluon pipelined": Case("02_matmul_on_hopper.py", "pipelined", _TILES, {"K": "i32"},
                            {"STAGES": 4}),
    "gluon specialized": Case("02_matmul_on_hopper.py", "specialized",
                              {**_TILES, "out": [64, 128]}, {"K": "i32"}, {"STAGES": 4}),
    "gluon attention": Case("03_attention_on_hopper.py", "attention",
                            {n: [64 if n in ("q", "out") else 128, 128]
                             for n in ("q", "k", "v", "out")},
                            {"length": "i32", "scale": "fp32"}, {"STAGES": 2, "CAUSAL": True}),
    "gluon persistent": Case("04_persistent_matmul.py", "persistent",
                             {"a": [128, 64], "b": [64, 256], "out": [64, 128]},
                             {"M": "i32", "N": "i32", "K": "i32"}, {"STAGES": 4, "GROUP": 8}),
}  # fmt: skip


class _Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of `tritium` that Triton has, too."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("tritium."):
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec: Any) -> ModuleType:
        name = spec.name.removeprefix("tritium.")
        return importlib.import_module("triton." + {"target": "backends.compiler"}.get(name, name))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it is loaded."""


def load(file: str, package: str) -> Any:
    """The module with a case's kernel."""
    if package == "triton" and not any(isinstance(f, _Renamed) for f in sys.meta_path):
        sys.modules["tritium"] = importlib.import_module("triton")
        sys.meta_path.insert(0, _Renamed())
    if file == "kernels":
        return importlib.import_module("benchmarks.gluon_kernels")
    sys.modules.setdefault("arrays", SimpleNamespace(
        empty=None, fetch=None, on_gpu=lambda: False, place=None
    ))  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="gluon-sources-"))
    (folder / file).write_text(spelled_out((TUTORIALS / file).read_text()))
    spec = importlib.util.spec_from_file_location(file.removesuffix(".py"), folder / file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # the file stays: kernels read their source later
    atexit.register(shutil.rmtree, folder)
    return module


def spelled_out(text: str) -> str:
    """A tutorial without starred members of lists and tuples, which Triton does not take."""
    text = re.sub(r"\*(\w+\.block_shape)\b", r"\1[0], \1[1]", text)
    lines, members = list[str](), ""
    for line in text.splitlines():
        found = re.match(r"    shared = \((.*)\)$", line)
        members = found[1] if found else members
        lines.append(line.replace("*shared", members))
    return "\n".join(lines) + "\n"


def other_case(name: str) -> str:
    """Another case, that the same release of Triton takes."""
    old = [n for n, case in CASES.items() if case.file == "kernels"]
    return next(n for n in CASES if n != name and (n in old) == (name in old))


def compiled(name: str, package: str = "tritium") -> Any:
    """Compile a case."""
    case = CASES[name]
    fn = getattr(load(case.file, package), case.kernel)
    gl: Any = importlib.import_module(f"{package}.experimental.gluon.language")
    runtime: Any = importlib.import_module(f"{package}.experimental.gluon._runtime")
    kind: Any = importlib.import_module(f"{package}.backends.compiler").GPUTarget
    types = dict(case.scalars)
    for argument, block in case.blocks.items():
        layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
        types[argument] = f"tensordesc<fp16{block},{layout!r}>"
    signature = {
        n: "constexpr" if n in case.constants else types[n] for n in fn.arg_names
    }  # fmt: skip
    source = runtime.GluonASTSource(fn, signature, dict(case.constants))
    compile = importlib.import_module(package).compile
    return compile(source, target=kind("cuda", 90, 32), options={"num_warps": case.num_warps})
