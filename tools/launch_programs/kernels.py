"""Random kernels that record what they see of their arguments."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tools.launch_programs.facts import WIDTH, Parameter

HEAD = '''\
import zlib
import tritium as triton
import tritium.language as tl

SCALE = tl.constexpr(3)


@triton.jit
def double(x):
    return 2 * x


@triton.jit
def triple(x):
    return 3 * x


@triton.constexpr_function
def text_of(x):
    return zlib.crc32((f"function {x.__name__}" if hasattr(x, "fn") else repr(x)).encode())


@triton.constexpr_function
def name_of(x):
    return zlib.crc32(str(x).encode())


@triton.jit
def put(out, at: tl.constexpr, code, bits):
    tl.store(out + 2 * at, code)
    tl.store(out + 2 * at + 1, bits)


@triton.jit
def record(out, counts, at: tl.constexpr, x):
    if isinstance(x, tl.tuple):
        tl.store(out + 2 * at, 7)
        for k in tl.static_range(len(x)):
            record(out, counts, at * WIDTH + k + 1, x[k])
    elif isinstance(x, tl.tensor_descriptor):
        put(out, at, name_of(x.dtype), tl.sum(x.load([0] * len(x.shape)).to(tl.int64)))
    elif not isinstance(x, tl.tensor):
        put(out, at, 3, text_of(x))
    elif x.dtype.is_ptr():
        n = tl.load(counts + at)
        i = tl.arange(0, 32)
        v = tl.load(x + i, mask=i < n, other=0).to(tl.float32)
        put(out, at, name_of(x.dtype), tl.sum(v.to(tl.int64)))
    elif x.dtype.is_floating():
        put(out, at, name_of(x.dtype), x.to(tl.float64).to(tl.int64, bitcast=True))
    else:
        put(out, at, name_of(x.dtype), x.to(tl.int64))
'''.replace("WIDTH", str(WIDTH))

BODY = '''

@triton.jit({options})
def {name}(out, counts, {parameters}):
    tl.atomic_add(out, 1)
    if tl.program_id(0) + tl.program_id(1) + tl.program_id(2) == 0:
        tl.store(out + 1, SCALE * {version})
{records}
'''

ANNOTATIONS = (
    *[""] * 8, *["tl.constexpr"] * 3, "tl.int32", '"i64"', '"u64"', '"fp32"', '"fp64"', '"fp16"',
    '"u8"', '"i16"', '"u1"',
)  # fmt: skip


class Kernel(NamedTuple):
    """A generated kernel: its name in the module, its parameters behind `out` and `counts`."""

    name: str
    parameters: list[Parameter]


def random_kernel(source: random.Random, name: str) -> Kernel:
    """A kernel with one to six parameters of random kinds."""
    made: list[Parameter] = []
    keyword_only = defaulted = False
    for i in range(source.randrange(1, 7)):
        keyword_only |= source.random() < 0.08
        annotation = source.choice(ANNOTATIONS)
        defaulted = (defaulted and not keyword_only) or source.random() < 0.15
        by_value = bool(annotation == "tl.constexpr") or source.random() < 0.8
        by_alignment = annotation == "tl.constexpr" or source.random() < 0.85
        default = _default(source, annotation) if defaulted else ""
        made.append(Parameter(f"a{i}", annotation, default, keyword_only, by_value, by_alignment))
    return Kernel(name, made)


def _default(source: random.Random, annotation: str) -> str:
    if annotation == '"u1"':
        return "False"
    if annotation and annotation != "tl.constexpr":
        return source.choice(("1", "16", "7"))
    return source.choice(("1", "16", "7", "None", "2**63", "0.5", "True", "(1, 2.5)", "'text'"))


def text_of(kernels: list[Kernel], version: int) -> str:
    """The module's source."""
    return HEAD + "".join(_kernel_text(kernel, version) for kernel in kernels)


def _kernel_text(kernel: Kernel, version: int) -> str:
    named, listed = kernel.parameters, list[str]()
    source = random.Random(kernel.name)
    for i, parameter in enumerate(named):
        if parameter.keyword_only and not (i and named[i - 1].keyword_only):
            listed.append("*")
        listed.append(parameter.text())
    options = [
        f"{option}={[p.name if source.random() < 0.5 else i + 2 for i, p in chosen]!r}"
        for option, chosen in (
            ("do_not_specialize", [(i, p) for i, p in enumerate(named) if not p.by_value]),
            ("do_not_specialize_on_alignment",
             [(i, p) for i, p in enumerate(named) if not p.by_alignment]),
        )
        if chosen
    ]  # fmt: skip
    records = "\n".join(
        f"        record(out, counts, {i + 1}, {p.name})" for i, p in enumerate(named)
    )
    return BODY.format(
        name=kernel.name, options=", ".join(options), parameters=", ".join(listed),
        records=records, version=version,
    )  # fmt: skip


def load(name: str, path: Path) -> ModuleType:
    """The module of a file, imported anew."""
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def default_of(parameter: Parameter) -> Any:
    """The value of a parameter's default."""
    return eval(parameter.default)
