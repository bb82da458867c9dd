"""Native launches do what launches in Python do: the same kernels, slots, grids and errors."""

from __future__ import annotations

import ctypes
import gc
import math
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium import knobs
from tritium.launch.arguments import Param, extract_pointer
from tritium.launch.ends import End, Slot
from tritium.launch.scalars import extract_scalar
from tritium.runtime import driver

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch

END = ctypes.CFUNCTYPE(
    ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64 * 3), ctypes.c_int64,
    ctypes.POINTER(ctypes.c_uint64),
)  # fmt: skip


class Recorder(StubDriver):
    """A device whose kernels are never compiled. Launches are recorded as (path, grid, slots)."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[int, ...], list[int]]] = []

    def native_device(self) -> Callable[[], int]:
        return self.get_current_device


class Kernel:
    """In place of a compiled kernel."""

    function = packed_metadata = None

    def __init__(self, source: Any, active: Recorder):
        self.src, self.active = source, active
        signature = source.signature.items()
        self.params: list[Param] = []
        for i, (name, kind) in enumerate(signature):
            self.add(name, kind, (i,))
        self.slots = [Slot(p.type, p.writes) for p in self.params if p.type != "constexpr"]
        self.callback = END(self.end)
        self.run = Launcher(self)

    def add(self, name: str, kind: Any, path: tuple[int, ...]) -> None:
        if isinstance(kind, tuple):
            for i, member in enumerate(kind):  # pyright: ignore
                self.add(f"{name}[{i}]", member, (*path, i))
        else:
            constant = kind == "constexpr" or path in self.src.constants
            self.params.append(Param(name, "constexpr" if constant else kind, name == "out"))

    def end(self, state: int, grid: Any, total: int, slots: Any) -> bool:
        assert math.prod(grid.contents) == total
        found = ("native", tuple(grid.contents), slots[: len(self.slots)])
        self.active.seen.append(found)
        return True

    def launch_metadata(self, *args: Any) -> None:
        return None

    @property
    def meaning(self) -> Any:
        return self.src.signature, self.src.constants, self.src.attrs


class Launcher:
    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def __call__(self, gx: int, gy: int, gz: int, *rest: Any) -> None:
        kernel, slots = self.kernel, []
        arguments = list(_leaves(rest[6:]))
        for i, (param, value) in enumerate(zip(kernel.params, arguments, strict=True)):
            if param.is_pointer:
                slot = extract_pointer(value, i, param.name, param.element, param.writes)
            elif param.type != "constexpr":
                slot = extract_scalar(value, i, param.name, param.type)
            else:
                continue
            slots.append(slot)
        kernel.active.seen.append(("python", (gx, gy, gz), slots))

    def native_end(self, link: Any) -> End:
        address = ctypes.cast(self.kernel.callback, ctypes.c_void_p).value or 0
        return End(address, 0, self.kernel.slots, self.kernel)


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if type(value) is tuple:
            yield from _leaves(value)
        else:
            yield value


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder()
    driver.set_active(recorder)
    compile_ = lambda source, **_: Kernel(source, recorder)  # noqa: E731
    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["tritium.runtime.jit"], "compile", compile_)
    try:
        yield recorder
    finally:
        driver.reset_active()


def plain(x, out, n, s, MODE: tl.constexpr, BLOCK: tl.constexpr = 64, *, last=3):
    pass


def annotated(x, out, n: tl.int64, s: tl.float32, MODE: tl.constexpr, BLOCK=64, *, last: tl.int8):
    pass


class Index:
    def __index__(self) -> int:
        return 5


def _arrays() -> list[Any]:
    room = np.zeros(4096, np.uint8)
    aligned = room[-room.ctypes.data % 16 :]
    found: list[Any] = [
        aligned[skip : skip + 64].view(dtype)
        for dtype in (np.float32, np.int8, np.float64, ">f4", ml_dtypes.bfloat16, np.complex64)
        for skip in (0, 8)
    ]
    found += [np.zeros((0, 3), np.float32), np.float32(2), memoryview(b"abc")]
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    found.append(frozen)
    if torch is not None:
        base = torch.zeros(64)
        found += [
            base, base[1:], base.double(), base.to(torch.bfloat16), torch.nn.Parameter(base),
            base[4:], torch.zeros(0), torch.zeros(3, dtype=torch.bool), base.to("meta"),
            torch.zeros(3, dtype=torch.complex64), base.to_sparse(), base.view(8, 8).t(),
        ]  # fmt: skip
    return found


NUMBERS = [
    0, 1, 2, 16, 17, -1, -16, 127, 128, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**63 + 17,
    2**64 - 16, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1,
    True, False, 0.0, -0.0, 1.0, 2.5, 1e300, float("nan"), float("inf"), None, "text", np.int32(16),
    np.float32(1.5), np.bool_(True), (1, 2.0), (), (16, (3, None)), 10**30, [1], object(), Index(),
]  # fmt: skip
CONSTANTS = [
    1, True, 1.0, 0.0, -0.0, "a", "b", None, tl.float32, tl.float16, (1, 2), (1, [2]), [3],
    -1, 2**63, 2**64 - 1, 2**64,
    {"k": 1}, tl.constexpr(4), 2**70, float("nan"), np.float32(1), {1, 2}, lambda: 0,
]  # fmt: skip
GRIDS = [
    (1,), (2, 3), (4, 5, 6), 7, [8], (0,), (2**31 - 1, 2**31 - 1, 4), (2**31,), (-1,), (1, 2, 3, 4),
    (), (np.int64(3),), (2.5,), "text", lambda meta: (meta["BLOCK"],), lambda meta: meta["n"],
    lambda meta: (np.int32(2), 3), lambda meta: "bad", lambda meta: 1 // 0,
    lambda meta: (len(meta), True), (True,),
]  # fmt: skip


OPTIONS: dict[str, list[Any]] = {
    "num_warps": [1, 2, 3, "x"], "num_stages": [2], "nonsense": [1], "debug": [True, False, None],
    "x": [1], "extern_libs": [{}, None],
}  # fmt: skip


class Cases:
    """Random launches: (grid, args, kwargs). Values come from small pools, so that many repeat."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.arrays = _arrays()

    def pick(self, usual: Any, pool: list[Any], odd: float = 0.12) -> Any:
        return self.random.choice(pool) if self.random.random() < odd else usual

    def case(self) -> tuple[Any, list[Any], dict[str, Any]]:
        r = self.random
        arrays = self.arrays if r.random() < 0.5 else self.arrays[:1]
        values = {
            "x": self.pick(r.choice(arrays), NUMBERS, 0.05),
            "out": self.pick(r.choice(arrays), NUMBERS, 0.02),
            "n": self.pick(r.choice([16, 17]), NUMBERS),
            "s": self.pick(r.choice([0.5, 3]), [*NUMBERS, self.arrays[0]]),
            "MODE": self.pick("a", CONSTANTS),
            "BLOCK": self.pick(64, CONSTANTS),
        }
        count = r.randint(2, 6)
        args = list(values.values())[:count]
        kwargs = dict(list(values.items())[count:])
        kwargs["last"] = self.pick(3, NUMBERS)
        for name in list(kwargs):
            if r.random() < 0.04:
                del kwargs[name]
        for name, pool in OPTIONS.items():
            if r.random() < 0.03:
                kwargs[name] = r.choice(pool)
        names = list(kwargs)
        if r.random() < 0.3:
            r.shuffle(names)
        if r.random() < 0.03:
            args.append(5)
            args.append(6)
        return self.pick((4,), GRIDS, 0.3), args, {name: kwargs[name] for name in names}


def outcome(call: Callable[[], Any], recorder: Recorder) -> Any:
    """Effect of a launch, and its path."""
    recorder.seen.clear()
    try:
        kernel = call()
    except Exception as error:
        return "error", (type(error), str(error))
    path = recorder.seen[0][0] if recorder.seen else ""
    return path, (kernel.meaning, [s[1:] for s in recorder.seen])


@pytest.mark.covering(1)
@pytest.mark.parametrize("fn", [plain, annotated])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"do_not_specialize": ["n"], "debug": True},
        {"do_not_specialize_on_alignment": ["x", "n"]},
    ],
    ids=["", "values", "alignment"],
)
def test_random_launches(fn: Any, options: dict[str, Any], recorder: Recorder) -> None:
    native, careful = tritium.jit(**options)(fn), tritium.jit(**options)(fn)
    careful._teacher = None
    cases = Cases(len(options) + (fn is plain))
    paths: dict[str, int] = {}
    for _ in range(700):
        grid, args, kwargs = case = cases.case()
        _, expected = outcome(partial(careful.launch_in_python, grid, *args, **kwargs), recorder)
        path, found = outcome(partial(native[grid], *args, **kwargs), recorder)
        assert repr(found) == repr(expected), case
        paths[path] = paths.get(path, 0) + 1
    assert min(paths["native"], paths["python"], paths["error"]) > 70, paths


@tritium.jit
def many(a, b, c, d, e, f, g, h, i, j, k, m, n, o,
         P: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, S: tl.constexpr, T: tl.constexpr):
    pass


@tritium.jit
def unsigned(out, n: tl.uint64, m: tl.uint32):
    pass


def test_large_integers_stay_native(recorder: Recorder) -> None:
    """Beside None, a bool, a tuple, and constants as large."""
    x = np.zeros(16, np.float32)
    values = (x, x, 2**64 - 1, None, True, (1, 2.5, 2**63), 7, 8, 9, 1.5, x, 2**40, -1, 2**63 + 16)
    constants = (64, "text", 2**64 - 1, None, 1.25)
    for _ in range(4):
        recorder.seen.clear()
        many[(3,)](*values, *constants)
    ((path, grid, slots),) = recorder.seen
    assert (path, grid) == ("native", (3, 1, 1))
    unsigned_slots = [s % 2**64 for s in slots if s % 2**64 >= 2**63]
    assert unsigned_slots == [2**64 - 1, 2**63, 2**64 - 1, 2**63 + 16]
    assert len(slots) == 14 - 2 + 2, "no None, and a tuple whose 1 is a constant"
    # Two constants of the same 64 bits are two kernels.
    kernels = {id(many[(3,)](*values, 64, "text", c, None, 1.25)) for c in (2**64 - 1, -1) * 4}
    assert len(kernels) == 2


def test_large_integers_for_annotated_parameters(recorder: Recorder) -> None:
    x = np.zeros(16, np.float32)
    for _ in range(4):
        recorder.seen.clear()
        unsigned[(1,)](x, 2**64 - 2, 5)
    assert recorder.seen[0][0] == "native" and recorder.seen[0][2][1] == 2**64 - 2
    with pytest.raises(Exception, match="m"):
        unsigned[(1,)](x, 5, 2**64 - 2)


def test_attributes_that_change(recorder: Recorder) -> None:
    kernel = tritium.jit(plain)
    x = np.zeros(4, np.float32)

    def launch() -> str:
        return outcome(lambda: kernel[(1,)](x, x, 1, 2, "m", last=2), recorder)[0]

    assert [launch() for _ in range(3)] == ["python", "python", "native"]
    kernel.debug = True
    assert launch() == "python", "an attribute was assigned to"
    assert kernel[(1,)](x, x, 1, 2, "m", last=2).meaning
    kernel.debug = False
    launch(), launch()
    assert launch() == "native"
    kernel.add_pre_run_hook(lambda *a, **k: None)
    assert launch() == "python"
    kernel.pre_run_hooks.clear()
    assert launch() == "native"
    kernel.device_caches.clear()
    assert [launch() for _ in range(2)] == ["python", "native"]
    next(iter(kernel.device_caches.values())).kernels.clear()
    assert launch() == "python"
    kernel.run = lambda *args, grid, warmup, **kwargs: SimpleNamespace(meaning="own")  # pyright: ignore
    assert kernel[(1,)](x).meaning == "own"


@pytest.mark.parametrize("where", ["environment", "knob"])
def test_debug_is_looked_up_at_each_launch(
    where: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)

    def launch() -> tuple[str, Any]:
        recorder.seen.clear()
        compiled = kernel[(1,)](x, x, 1, 2, "m", last=2)
        return recorder.seen[0][0], compiled

    plain_ = [launch() for _ in range(3)][-1]
    assert plain_[0] == "native"
    if where == "environment":
        monkeypatch.setenv("TRITON_DEBUG", "1")
    else:
        knobs.runtime.debug = True
    path, other = launch()
    assert path == "python" and other is not plain_[1]
    assert launch() == ("native", other)
    if where == "environment":
        monkeypatch.delenv("TRITON_DEBUG")
    else:
        del knobs.runtime.debug
        monkeypatch.delenv("TRITON_DEBUG", raising=False)
    assert launch()[1] is plain_[1]
    assert launch() == plain_


def test_launch_hooks_are_called(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)

    def launch() -> str:
        return outcome(lambda: kernel[(1,)](x, x, 1, 2, "m", last=2), recorder)[0]

    for hook in (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook):
        launch(), launch()
        assert launch() == "native"
        hook.add(print)  # pyright: ignore
        assert launch() == "python"
        hook.remove(print)  # pyright: ignore
        assert launch() == "native"
    knobs.runtime.launch_enter_hook = lambda data: None
    assert launch() == "python"


OFFSET = tl.constexpr(3)


@tritium.jit
def reads_a_global(out):
    tl.store(out, OFFSET)


def test_globals_are_checked_at_each_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(1, np.int32)
    for _ in range(4):
        reads_a_global[(1,)](out)
    monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(3))
    reads_a_global[(1,)](out)  # equal
    monkeypatch.setitem(globals(), "OFFSET", tl.constexpr(4))
    with pytest.raises(RuntimeError, match="Global variable OFFSET has changed"):
        reads_a_global[(1,)](out)


def test_a_mutable_constant_is_read_each_time(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)
    mode = [1]
    for value in (1, 1, 1, 2, 2, 3):
        mode[0] = value
        assert kernel[(1,)](x, x, 1, 2, mode, last=2).meaning[1][(4,)] == [value]


def test_a_launcher_kept_from_before_the_first_launch_becomes_native(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)
    kept = kernel[(3,)]
    for _ in range(4):
        kept(x, x, 1, 2, 3, last=2)
    assert [path for path, *_ in recorder.seen] == ["python", "python", "native", "native"]
    kernel.fn = kernel.fn  # a change: everything is looked at anew
    kept(x, x, 1, 2, 3, last=2)
    assert recorder.seen[-1][0] == "python"


def test_many_constants_do_not_grow_the_table(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)
    for i in range(1200):
        assert kernel[(1,)](x, x, 2, 2, f"mode {i % 3}", last=2).meaning[1][(4,)] == f"mode {i % 3}"
    assert len(kernel._teacher._native._entries) <= 1024


def test_a_grid_function_may_change_everything(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        kernel.debug = not kernel.debug
        gc.collect()
        return (2,)

    for _ in range(6):
        assert kernel[grid](x, x, 2, 2, "m", last=2).meaning
    assert kernel[lambda meta: kernel[(3,)](x, x, 2, 2, "m", last=2) and (2,)](
        x, x, 2, 2, "m", last=2
    ).meaning


def test_kernels_are_collected(recorder: Recorder) -> None:
    kernel, x = tritium.jit(plain), np.zeros(4, np.float32)
    for _ in range(5):
        kernel[(1,)](x, x, 2, 2, "m", last=2)
    launch, gone = kernel[(1,)], weakref.ref(kernel)
    del kernel
    gc.collect()
    launch(x, x, 2, 2, "m", last=2)  # a launcher that is kept works on
    del launch
    recorder.seen.clear()
    gc.collect()
    assert gone() is None


@tritium.jit
def empty(x, y, out, n, BLOCK: tl.constexpr):
    pass


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="reads /proc")
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_launches_need_no_memory(library: str) -> None:
    if library == "torch" and torch is None:
        pytest.skip("torch is not installed")
    from benchmarks.launch_overhead import resident

    x = np.zeros(64, np.float32) if library == "numpy" else torch.zeros(64)

    def run(count: int) -> None:
        for i in range(count):
            empty[(1,)](x, x, x, 1000 + i, BLOCK=64)
            empty[lambda meta: (meta["n"] & 1,)](x, x, x, n=2**40 + i, BLOCK=64, num_warps=2)

    run(1000)
    gc.collect()
    before = resident()
    run(5000)
    assert resident() - before < 1024


def test_threads_learn_at_once(recorder: Recorder) -> None:
    x = np.zeros(64, np.float32)
    failures: list[BaseException] = []

    def work(kernel: Any, seed: int) -> None:
        try:
            for i in range(150):
                mode = f"mode {(i * seed) % 23}"
                found = kernel[(1,)](x, x, 16 + i % 3, 2, mode, last=2)
                assert found.meaning[1][(4,)] == mode
                if i % 40 == seed:
                    kernel.device_caches.clear()
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(3):
            kernel = tritium.jit(plain)
            threads = [threading.Thread(target=work, args=(kernel, n)) for n in range(1, 7)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
