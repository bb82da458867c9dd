"""The reference's path of FileCheck on kernels: `# CHECK:` comments in a kernel's body are matched
against the IR that the frontend makes of it. Needs the package `filecheck` (extra `dev`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritium.backends.base import BaseBackend
from tritium.compiler import ASTSource
from tritium.frontend.module import compile_function
from tritium.frontend.visitor import FrontendOptions
from tritium.language.emitter import TargetFeatures
from tritium.ops import view as ir
from tritium.runtime import JITFunction
from tritium.runtime.specialize import Specializer, attributes_of, constants_of
from tritium.target import GPUTarget

#: The target that kernels are taken to be for. Only the frontend runs: no backend is needed.
stub_target = GPUTarget("cuda", 100, 32)


class MatchError(ValueError):
    """The IR does not have what the CHECK lines ask for.

    Attributes:
        module_str: the IR.
    """

    def __init__(self, message: str, module_str: str):
        super().__init__(message)
        self.module_str = module_str

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.module_str}"


def run_filecheck(name: str, module_str: str, check_template: str) -> None:
    """Match `module_str` against the CHECK lines of `check_template`; `name` is for messages.

    Raises:
        MatchError: something is missing, or stands where it must not.
        ImportError: the package `filecheck` is not installed.
    """
    try:
        # Only tests need it, and it is not among the packages that Tritium requires.
        from filecheck.matcher import Matcher
        from filecheck.options import parse_argv_options
    except ImportError:
        raise ImportError("needs the package filecheck: pip install filecheck") from None
    with tempfile.TemporaryDirectory() as folder:
        checks, module = Path(folder, "checks"), Path(folder, "module.mlir")
        checks.write_text(check_template, encoding="utf-8")
        module.write_text(module_str, encoding="utf-8")
        options = parse_argv_options(["filecheck", str(checks), "--input-file", str(module)])
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            failed = Matcher.from_opts(options).run()
    if failed:
        raise MatchError(f"{name}: {output.getvalue().strip()}", module_str)


def run_parser(
    kernel_fn: JITFunction[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    target: GPUTarget = stub_target,
) -> ir.module:
    """The IR that the frontend makes of a kernel launched with these arguments.

    Arguments are as for a launch; `MockTensor(dtype)` stands for a tensor. No pass has run.
    """
    bound = inspect.signature(kernel_fn.fn).bind(*args, **(kwargs or {}))
    bound.apply_defaults()
    values = list(bound.args)
    pairs = [Specializer(p, BaseBackend)(v) for p, v in zip(kernel_fn.params, values, strict=True)]
    types, specializations = [p[0] for p in pairs], [p[1] for p in pairs]
    source = ASTSource(
        kernel_fn,
        dict(zip(kernel_fn.arg_names, types, strict=True)),
        constants_of(values, types, specializations),
        attributes_of(types, specializations, BaseBackend),
    )
    module = compile_function(
        source.fn,
        source.signature,
        source.constants,
        source.attrs,
        TargetFeatures(name=target.backend, target=target),
        FrontendOptions(),
    )
    return ir.module(module)


def run_filecheck_test(
    kernel_fn: JITFunction[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    target: GPUTarget = stub_target,
) -> None:
    """Match a kernel, made for these arguments, against the CHECK lines in its source.

    Raises:
        MatchError: they do not match.
        ValueError: there are none.
    """
    if not isinstance(kernel_fn, JITFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a function decorated with @jit is required; got {kernel_fn!r}")
    template = inspect.getsource(kernel_fn.fn)
    if "CHECK" not in template:
        raise ValueError(f"kernel {kernel_fn.__name__} has no CHECK lines")
    module = run_parser(kernel_fn, args, kwargs, target)
    run_filecheck(kernel_fn.__name__, module.str_nodebug(), template)


def filecheck_test(fn: JITFunction[Any]) -> Callable[..., None]:
    """Decorate a kernel without parameters: the result is a test that runs `run_filecheck_test`."""

    @functools.wraps(fn.fn)
    def test() -> None:
        run_filecheck_test(fn)

    del test.__wrapped__  # or pytest would read the kernel's signature
    return test
