"""All that one kernel must agree on: the interpreter, its ttir by the reference semantics before
and after each pass, and native code at every level of LLVM's optimization.

Native code runs on copies of the arguments between guards, which must be as they were afterwards.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tests.conformance.support import build, copies, is_float
from tests.support import device
from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.backends.cpu.lower.module import lower_to_llvm
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.frontend.module import compile_function
from tritium.frontend.visitor import FrontendOptions
from tritium.ir.printing import print_module
from tritium.language.jit.function import JITCallable
from tritium.native import loader
from tritium.native.host import host
from tritium.native.loader import Opt, load_object
from tritium.native.pool import CONTEXT
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines
from tritium.runtime.interpreted import InterpretedFunction
from tritium.runtime.specialize import canonical_dtype, int_type
from tritium.target import GPUTarget

LEVELS: tuple[Opt, ...] = (None, 0, 1, 2, 3)
"""Choices of `compile_ir`: None, with which kernels are compiled, and LLVM's pipelines."""
GUARD = 256
"""Bytes before and after each array."""

Arrays = dict[str, np.ndarray]


def compile_unless(ir_text: str, opt: Opt, done: set[str]) -> bytes | None:
    """`loader.compile_ir`, or None where `done` has the IR that instructions would be selected for;
    it is added to it. Many levels leave the same."""
    with loader._prepared(ir_text, opt, None) as (machine, module):
        text = str(module)
        if text in done:
            return None
        done.add(text)
        return machine.emit_object(module)


@dataclass(frozen=True)
class View:
    """An argument that is a part of the array that another one is, from an element on."""

    of: str
    start: int


class Divergence(Exception):
    """Two ways that should agree do not."""


class Invalid(Exception):
    """The kernel is refused by all ways."""


class Check:
    """One kernel on one set of arguments.

    Args:
        source: a module's text, with a function `kernel`.
        args: arrays, views of these and numbers by parameter.
        inexact: the arrays that need to agree roughly only (native code against the rest).
        levels: of `LEVELS`, those to compile for.
        aligned: specialize on arrays that are aligned to 16 bytes, as launches do.
        round_trip: also print the final ttir, read it back, and compile that.

    `progress` is called with the name of each step that LLVM takes.
    """

    def __init__(
        self, source: str, args: Mapping[str, Any], grid: int, inexact: frozenset[str],
        levels: Sequence[Opt] = LEVELS, aligned: bool = True, round_trip: bool = False,
    ):  # fmt: skip
        self.source, self.args, self.grid, self.inexact = source, args, grid, inexact
        self.levels, self.aligned, self.round_trip = levels, aligned, round_trip
        self.progress: Callable[[str], None] = lambda step: None

    def run(self) -> None:
        """Raises `Divergence` or `Invalid`."""
        try:
            expected = self._interpreted()
            refused = None
        except Exception as error:
            expected, refused = {}, error
        try:
            module = self._frontend()
        except Exception as error:
            if refused is not None:
                raise Invalid(f"{_described(refused)}; {_described(error)}") from error
            raise Divergence(f"frontend: {_described(error)}") from error
        if refused is not None:
            raise Divergence(f"interpreter: {_described(refused)}") from refused
        found = self._guarded("evaluation", lambda: self._evaluated(module))
        self._compare("evaluation", found, "interpreter", expected)
        self._passes(module, found)
        self._native(module, found)

    @staticmethod
    def _guarded(name: str, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except Divergence:
            raise
        except Exception as error:
            raise Divergence(f"{name}: {_described(error)}") from error

    def _compare(self, name: str, found: Arrays, other: str, expected: Arrays) -> None:
        for key, array in found.items():
            exact = key not in self.inexact
            text = differing(array, expected[key], exact, (name, other))
            if text:
                raise Divergence(f"{name} against {other}: {key}: {text}")

    # The ways

    def _built(self) -> Callable[..., Any]:
        """The kernel; functions before it are made once for all programs that have them."""
        helpers, _, kernel = self.source.rpartition("def kernel(")
        return build(f"def kernel({kernel}", **_functions(helpers))

    def _given(self) -> dict[str, Any]:
        given = copies(self.args)
        for name, view in self.args.items():
            if isinstance(view, View):
                given[name] = given[view.of].reshape(-1)[view.start :]
        return given

    def _interpreted(self) -> Arrays:
        given = self._given()
        InterpretedFunction(self._built())[(self.grid,)](**given)
        return _arrays(given)

    def _frontend(self) -> Any:
        kernel = JITCallable(self._built())
        signature: dict[str, Any] = {}
        constants: dict[tuple[int, ...], Any] = {}
        attributes: dict[tuple[int, ...], Any] = {}
        for i, param in enumerate(kernel.params):
            value = self.args[param.name]
            if param.is_constexpr:
                signature[param.name] = "constexpr"
                constants[(i,)] = value
            elif isinstance(value, (np.ndarray, View)):
                start = value.start if isinstance(value, View) else 0
                dtype = (self.args[value.of] if isinstance(value, View) else value).dtype
                signature[param.name] = "*" + canonical_dtype(dtype)
                if self.aligned and start * dtype.itemsize % 16 == 0:
                    attributes[(i,)] = [["tt.divisibility", 16]]
            else:
                signature[param.name] = "fp32" if isinstance(value, float) else int_type(value)
        executed = device.device in device.EXECUTED
        target = driver.active.get_current_target() if executed else GPUTarget("cpu", "", 1)
        backend = make_backend(target)
        features = backend.target_features(backend.parse_options({"enable_fp_fusion": False}))
        module = compile_function(
            kernel, signature, constants, attributes, features, FrontendOptions()
        )
        module.verify()
        self.names = [p.name for p in kernel.params if not p.is_constexpr]
        return module

    def _evaluated(self, module: Any) -> Arrays:
        given = self._given()
        values: list[Any] = []
        ranges: list[tuple[int, int]] = []
        for name in self.names:
            value = given[name]
            if isinstance(value, np.ndarray):
                address = value.__array_interface__["data"][0]
                ranges.append((address, value.nbytes))
                values.append(np.uint64(address))
            elif isinstance(value, float):
                values.append(np.float32(value))
            else:
                values.append(np.int32(value) if int_type(value) == "i32" else np.int64(value))
        with np.errstate(all="ignore"):
            Evaluator(module, Memory(ranges)).launch("kernel", values, (self.grid,))
        return _arrays(given)

    def _passes(self, module: Any, found: Arrays) -> None:
        before = print_module(module, locations=False)
        for item in pipelines.ttir():
            manager = PassManager([item])
            changed = self._guarded(item.name, lambda m=manager: m.run(module))
            text = print_module(module, locations=False) if changed else before
            if text != before:
                name = f"after {item.name}"
                self._guarded(name, module.verify)
                after = self._guarded(name, lambda: self._evaluated(module))
                self._compare(name, after, "before", found)
                before = text
        # A pass that says it has changed nothing has not.
        self._guarded("after all passes", module.verify)
        if print_module(module, locations=False) != before:
            raise Divergence("a pass has changed what it says it has not")

    def _native(self, module: Any, expected: Arrays) -> None:
        if self.round_trip:
            text = print_module(module)
            module = self._guarded("parsing", lambda: parse_module(text))
            if print_module(module) != text:
                raise Divergence("printed, parsed and printed again: the text differs")
        if (name := device.device) in device.EXECUTED:
            found = self._guarded(name, lambda: self._executed(name, module))
            self._compare(name, found, "evaluation", expected)
            return
        program = self._guarded("tiles", lambda: lower_to_tiles(module, host()))
        llir, facts = self._guarded("llir", lambda: lower_to_llvm(program, host(), fuse=False))
        done: set[str] = set()
        for level in self.levels:
            name = "native code" if level is None else f"native code at -O{level}"
            self.progress(name)
            code = self._guarded(name, lambda o=level: compile_unless(llir, o, done))
            if code is None:  # another level has left the same
                continue
            for exclusive in (False, True) if level is None else (level % 2 == 1,):
                found = self._launch(name, code, facts, exclusive)
                self._compare(f"{name}{', exclusive' * exclusive}", found, "evaluation", expected)

    def _executed(self, name: str, module: Any) -> Arrays:
        """Result of code for the active device."""
        guarded, slots = self._slots()
        target, num_warps = driver.active.get_current_target(), 1 << len(self.source) % 4
        # Here, since other devices need none of it.
        if name == "simt":
            from tests.simt.backend.compiler import run_module

            run_module(module, target.warp_size, num_warps, slots, (self.grid,))
        else:
            from tests.amd.execution.backend.compiler import run_module as run_model

            ranges = [(v.array.ctypes.data, v.array.ctypes.data + v.array.nbytes)
                      for v in guarded.values()]  # fmt: skip
            run_model(module, str(target.arch), num_warps, slots[:-1].tolist(), (self.grid,),
                      ranges)  # fmt: skip
        for key, one in guarded.items():
            if not one.whole():
                raise Divergence(f"{name}: wrote outside of {key}")
        return {k: v.array for k, v in guarded.items()}

    def _slots(self) -> tuple[dict[str, _Guarded], np.ndarray]:
        """Copies of the arrays, and the arguments in slots of 8 bytes."""
        guarded = {k: _Guarded(v) for k, v in self.args.items() if isinstance(v, np.ndarray)}
        slots = np.zeros(len(self.names) + 1, np.uint64)
        for i, key in enumerate(self.names):
            value = self.args[key]
            if key in guarded:
                slots[i] = guarded[key].array.ctypes.data
            elif isinstance(value, View):
                slots[i] = guarded[value.of].array[value.start :].ctypes.data
            elif isinstance(value, float):
                slots[i] = np.float32(value).view(np.uint32)
            else:
                slots[i] = np.int64(value).view(np.uint64)
        return guarded, slots

    def _launch(self, name: str, code: bytes, facts: Mapping[str, Any], exclusive: bool) -> Arrays:
        """Run all programs, one after the other, by the kernel's native interface."""
        image = load_object(code, [facts["name"]])
        prototype = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        guarded, slots = self._slots()
        scratch = _Guarded(np.zeros(facts["scratch_bytes"] + 64, np.uint8))
        fault = np.zeros(8, np.int64)
        context = np.zeros(CONTEXT.size, np.uint8)
        CONTEXT.write(
            context.ctypes.data, nx=self.grid, ny=1, nz=1, scratch=scratch.array.ctypes.data,
            fault=fault.ctypes.data, exclusive=int(exclusive),
        )  # fmt: skip
        prototype(image[facts["name"]])(slots.ctypes.data, context.ctypes.data, 0, self.grid)
        for key, one in (*guarded.items(), ("scratch", scratch)):
            if not one.whole():
                raise Divergence(f"{name}: wrote outside of {key}")
        return {k: v.array for k, v in guarded.items()}


@lru_cache
def _functions(source: str) -> dict[str, Any]:
    """The functions of a module, by name."""
    names = re.findall(r"^def (\w+)", source, re.M)
    last = build(f"{source}\n\ndef last():\n    pass\n", "last")
    return {name: last.__globals__[name] for name in names}


class _Guarded:
    """A copy of an array, aligned to 64 bytes, with known bytes before and after it."""

    def __init__(self, array: np.ndarray):
        self._memory = np.full(array.nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        self._start = GUARD + -(self._memory.ctypes.data + GUARD) % 64
        self._end = self._start + array.nbytes
        self.array = self._memory[self._start : self._end].view(array.dtype)
        self.array[:] = array.reshape(-1)

    def whole(self) -> bool:
        """Whether the guards are as they were."""
        before, after = self._memory[: self._start], self._memory[self._end :]
        return bool((before == 0xA5).all() and (after == 0xA5).all())


def _arrays(given: Mapping[str, Any]) -> Arrays:
    return {k: v for k, v in given.items() if isinstance(v, np.ndarray)}


def _described(error: Exception) -> str:
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def differing(
    a: np.ndarray, b: np.ndarray, exact: bool, names: tuple[str, str] = ("native", "interpreted")
) -> str:
    """The first element that differs ("" for none); NaNs are equal, and zeros of both signs."""
    if not is_float(a.dtype):
        same = a == b
    else:
        with np.errstate(all="ignore"):
            # Sums in a dtype of few digits depend on the order, however many cancel.
            rough = 2e-2 if a.itemsize > 2 else 1e-1
            a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not exact:
            scale = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
            with np.errstate(all="ignore"):
                same |= np.abs(a - b) <= rough * scale
    if same.all():
        return ""
    at = int(np.nonzero(~same)[0][0])
    return f"[{at}] {names[0]} {a[at]!r}, {names[1]} {b[at]!r}"
