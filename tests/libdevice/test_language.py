"""The functions in kernels: every one compiled, interpreted, overloaded, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.libdevice.support import LLVM, STORED, arguments, defined, label
from tritium.language.extra import libdevice
from tritium.language.extra.signatures import Overload, Signature, signatures

UNSIGNED: dict[str, Any] = {"uint32": np.uint32, "uint64": np.uint64}


def groups(size: int) -> Iterator[list[tuple[Signature, Overload]]]:
    cases = iter([(s, o) for s in signatures().values() for o in s.overloads])
    while group := list(islice(cases, size)):
        yield group


SOURCE = """
def kernel({parameters}, N: tl.constexpr):
    i = tl.arange(0, N)
{body}
"""


def _kernel(group: list[tuple[Signature, Overload]], folder: Any) -> Any:
    """One kernel that calls every function of the group."""
    parameters: list[str] = []
    body: list[str] = []
    for g, (signature, _) in enumerate(group):
        inputs = [f"x{g}_{k}" for k in range(signature.arity)]
        parameters += [*inputs, f"o{g}"]
        loads = ", ".join(f"tl.load({name} + i)" for name in inputs)
        body.append(f"    tl.store(o{g} + i, libdevice.{signature.name}({loads}))")
    text = SOURCE.format(parameters=", ".join(parameters), body="\n".join(body))
    path = folder / "kernel.py"
    path.write_text(text)
    scope: dict[str, Any] = {"tl": tl, "libdevice": libdevice, "__name__": "kernel"}
    exec(compile(text, str(path), "exec"), scope)
    return scope["kernel"]


@pytest.mark.covering(1)
@pytest.mark.parametrize("group", list(groups(24)), ids=lambda g: g[0][0].name)
@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
def test_every_function_in_kernels(
    group: Any, interpret: bool, tmp_path: Any, monkeypatch: Any
) -> None:
    """The compiled kernel's symbol is the overload's, and its results are as defined."""
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpret else "0")
    kernel = tritium.jit(_kernel(group, tmp_path))
    given: list[Any] = []
    outputs: list[tuple[Overload, Any, Any]] = []
    for signature, overload in group:
        arrays = [a[:16].copy() for a in arguments(signature.name, overload, 30)]
        given += [
            a.view(UNSIGNED[t]) if t in UNSIGNED else a
            for a, t in zip(arrays, overload.arguments, strict=True)
        ]
        stored: Any = np.bool_ if overload.as_bool else STORED[overload.result]
        out = np.zeros(16, stored)
        given.append(out.view(UNSIGNED.get(overload.result, stored)))
        outputs.append((overload, arrays, out))
    compiled = kernel[(1,)](*given, N=16)
    for overload, arrays, out in outputs:
        wanted = defined(overload, *arrays).astype(out.dtype)
        if out.dtype.kind == "f":
            np.testing.assert_allclose(
                out, wanted, rtol=64 * np.finfo(out.dtype).eps, atol=1e-13, err_msg=overload.symbol
            )
        else:
            np.testing.assert_array_equal(out, wanted, err_msg=overload.symbol)
        if not interpret:
            assert (
                f'{{libname = "", libpath = "", pure = true, symbol = "{overload.symbol}"}}'
                in compiled.asm["ttir"]
            )


@tritium.jit
def ways(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(o + i, tl.extra.libdevice.tanh(value))
    tl.store(o + N + i, libdevice.pow(value, 2.0))
    tl.store(o + 2 * N + i, libdevice.pow(value, 2))
    tl.store(o + 3 * N + i, tl.extra.cuda.libdevice.atan2(value, value * 2))
    tl.store(o + 4 * N + i, libdevice.ldexp(value, 3))


def test_the_ways_to_call() -> None:
    x, o = np.linspace(0.1, 1, 16, dtype=np.float32), np.zeros((5, 16), np.float32)
    text = ways[(1,)](x, o, N=16).asm["ttir"]
    expected = [np.tanh(x), x**2, x**2, np.full(16, np.arctan(0.5)), 8 * x]
    np.testing.assert_allclose(o, expected, rtol=1e-6)
    for symbol in ("__nv_tanhf", "__nv_powf", "__nv_powif", "__nv_atan2f", "__nv_ldexpf"):
        assert f'symbol = "{symbol}"' in text


def test_imports() -> None:
    from tritium.language.extra.cuda import libdevice as cuda
    from tritium.language.extra.cuda.libdevice import sinpi
    from tritium.language.extra.libdevice import erfcx

    assert cuda.j0 is libdevice.j0 and sinpi is libdevice.sinpi and erfcx.__name__ == "erfcx"
    assert len(dir(libdevice)) == len(libdevice.__all__) == 198
    assert "float32 -> float32" in libdevice.j0.__doc__
    with pytest.raises(AttributeError, match="has no function 'nonsense'"):
        _ = libdevice.nonsense
    with pytest.raises(AttributeError, match="has no attribute 'hip9'"):
        _ = tl.extra.hip9


@pytest.mark.parametrize(
    "call, kinds, message",
    [
        ("j0(v)", "fp16",
        r"libdevice.j0: arguments of dtype \(fp16\); it takes \(fp32\) or \(fp64\)"),
        ("popc(v)", "fp32",
        r"libdevice.popc: arguments of dtype \(fp32\); it takes \(int32\) or \(int64\)"),
        ("isnan(v)", "i32",
        r"libdevice.isnan: arguments of dtype \(int32\); it takes \(fp32\) or \(fp64\)"),
        ("ldexp(v, v)", "fp32",
        r"libdevice.ldexp: .*\(fp32, fp32\); it takes \(fp32, int32\) or \(fp64, int32\)"),
        ("atan2(v)", "fp32", "missing 1 required positional argument: 'arg1'"),
    ],
)  # fmt: skip
def test_what_is_refused(call: str, kinds: str, message: str, tmp_path: Any) -> None:
    store = f"    tl.store(x + tl.arange(0, 16), libdevice.{call})\n"
    text = "def kernel(x):\n    v = tl.load(x + tl.arange(0, 16))\n" + store
    path = tmp_path / "refused.py"
    path.write_text(text)
    scope: dict[str, Any] = {"tl": tl, "libdevice": libdevice, "__name__": "refused"}
    exec(compile(text, str(path), "exec"), scope)
    kernel = tritium.jit(scope["kernel"])
    array = np.zeros(16, {"fp16": np.float16, "fp32": np.float32, "i32": np.int32}[kinds])
    with pytest.raises(tritium.CompilationError, match=message):
        kernel[(1,)](array)


def test_a_kernel_without_them_does_not_load_them() -> None:
    code = """
import json, sys
import numpy as np, tritium, tritium.language as tl
from tests.libdevice import plain
plain.run()
print(json.dumps([m for m in sys.modules if "libdevice" in m or "vmath.special" in m]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout.splitlines()[-1])) <= {
        "tests.libdevice",
        "tests.libdevice.plain",
    }


def test_overload_letters() -> None:
    assert {a for s in signatures().values() for o in s.overloads for a in o.arguments} <= set(LLVM)
    assert label(signatures()["sad"].overloads[0]) == "int32,int32,uint32"
