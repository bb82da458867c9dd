"""Samples of the program counter, over a library that stands for CUPTI's."""

from __future__ import annotations

import ctypes
import json
from ctypes import sizeof
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
from tritium import knobs
from tritium.profiler.sampling import hook, library
from tritium.target import GPUTarget

REASONS = {
    7: "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
    9: "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
    4: "smsp__pcsamp_warps_issue_stalled_selected",
}
SIZES = {
    "Enable": 24, "Disable": 24, "Start": 24, "Stop": 24, "GetData": 32, "GetNumStallReasons": 32,
    "GetStallReasons": 48, "SetConfigurationAttribute": 40,
}  # fmt: skip
"""Sizes in bytes, as a C compiler has them for NVIDIA's header."""
_libc = ctypes.CDLL(None)
_libc.strdup.restype = ctypes.c_void_p


class Fake:
    """CUPTI as far as sampling needs it. `ready` are the samples that come with the next range:
    function, offset and counts by reason.

    Args:
        refuse: the result of `cuptiPCSamplingEnable`.
    """

    def __init__(self, refuse: int = 0):
        self.refuse, self.calls = refuse, list[str]()
        self.ready: list[tuple[bytes, int, dict[int, int]]] = []
        self.range: list[tuple[bytes, int, dict[int, int]]] = []
        self.dropped = 0
        self.attributes: dict[int, int] = {}
        self.alive: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        word = name.removeprefix("cuptiPCSampling")

        def call(reference: Any) -> int:
            params = reference._obj
            assert params.size == sizeof(params) == SIZES[word]
            assert params.context == 77
            self.calls.append(word)
            act = vars(Fake).get(f"_{word}")
            return 0 if act is None else act(self, params)

        return call

    def _Enable(self, params: Any) -> int:
        return self.refuse

    def _GetNumStallReasons(self, params: Any) -> int:
        params.count[0] = len(REASONS)
        return 0

    def _GetStallReasons(self, params: Any) -> int:
        for place, (number, name) in enumerate(REASONS.items()):
            params.indices[place] = number
            ctypes.memmove(params.names[place], name.encode() + b"\0", len(name) + 1)
        return 0

    def _SetConfigurationAttribute(self, params: Any) -> int:
        self.attributes = {a.kind: a.value[0] for a in params.attributes[: params.count]}
        return 0

    def _Start(self, params: Any) -> int:
        self.range, self.ready = self.ready, []
        return 0

    def _GetData(self, params: Any) -> int:
        """Two places at a time, of those that there is room for."""
        data = params.data.contents
        assert data.size == sizeof(library.Data) == 80 and data.collect >= 2
        assert sizeof(library.PCData) == 64 and library.PCData.correlation.offset == 56
        now, self.range = self.range[:2], self.range[2:]
        data.total_pcs, data.remaining_pcs = len(now), len(self.range)
        data.dropped_samples, self.dropped = self.dropped, 0
        for place, (function, offset, counts) in zip(data.pcs, now, strict=False):
            assert place.size == 64 and place.reason_count == len(REASONS)
            self.alive.append(function)
            place.function_name, place.pc_offset = function, offset
            place.reason_count = len(counts)
            for at, (number, samples) in enumerate(counts.items()):
                place.reasons[at] = library.StallReason(number, samples)
        return 0

    def cuptiGetSassToSourceCorrelation(self, reference: Any) -> int:
        params = reference._obj
        assert params.size == sizeof(params) == 64 and library.LineParams.folder.offset == 56
        assert params.cubin == b"cubin"[: params.cubin_size]
        if params.pc_offset >= 0x100:
            return 999
        params.line = params.pc_offset // 16
        params.folder, params.file = _libc.strdup(b"/programs"), _libc.strdup(b"k.py")
        return 0

    def cuptiGetResultString(self, status: int, reference: Any) -> int:
        reference._obj.value = b"CUPTI_ERROR_%d" % status
        return 0


@tritium.jit
def kernel(x):
    tl.store(x, 1.0)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made = Fake()
    monkeypatch.setattr(hook, "library", lambda: library.Library(made))
    monkeypatch.setattr(hook, "current_context", lambda: 77)
    monkeypatch.setattr(hook, "_cubin", lambda function: b"cubin")
    active = hook.driver.active
    target = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_device_interface=active.get_device_interface,
    )
    monkeypatch.setattr(hook, "driver", SimpleNamespace(active=target))
    hook.sampling.cache_clear()
    yield made
    proton.finalize()
    hook.sampling.cache_clear()


def children(node: Any) -> dict[str, Any]:
    return {child["frame"]["name"]: child for child in node["children"]}


def launch() -> None:
    kernel[(1,)](np.zeros(1, np.float32))


def test_samples_stand_below_the_kernel_by_line(fake: Fake) -> None:
    launch()
    proton.start("out", backend="cupti", mode="pcsampling:interval=4000")
    assert fake.attributes.pop(8), "the address of a buffer"
    assert fake.attributes == {5: 1, 1: 12, 6: 1, 7: 1}
    fake.ready = [
        (b"kernel", 0x10, {7: 5, 9: 3, 4: 1}), (b"kernel", 0x18, {4: 2}), (b"gemm", 0x10, {7: 50}),
        (b"kernel", 0x20, {7: 4}), (b"kernel", 0x100, {4: 8}),
    ]  # fmt: skip
    with proton.scope("s"):
        launch()
    launch()
    proton.finalize()
    assert fake.calls == [
        "Enable", "GetNumStallReasons", "GetStallReasons", "SetConfigurationAttribute",
        "Start", "Stop", "GetData", "GetData", "GetData", "Start", "Stop", "GetData", "Disable",
    ]  # fmt: skip
    root = json.loads(Path("out.hatchet").read_text())[0]
    found = children(root)["kernel"]
    assert found["metrics"]["count"] == 1 and not found["children"]
    found = children(children(root)["s"])["kernel"]
    assert found["metrics"]["count"] == 1
    metrics = {name: node["metrics"] for name, node in children(found).items()}
    assert metrics == {
        "/programs/k.py:1@kernel": {
            "num_samples": 8, "num_stalled_samples": 3, "stalled_long_scoreboard": 5,
            "stalled_selected": 3,
        },
        "/programs/k.py:2@kernel": {
            "num_samples": 4, "num_stalled_samples": 0, "stalled_long_scoreboard": 4,
        },
        "kernel+0x100": {"num_samples": 8, "num_stalled_samples": 0, "stalled_selected": 8},
    }  # fmt: skip


def test_dropped_samples_are_told(fake: Fake) -> None:
    session = proton.start("out", mode=proton.mode.PCSampling(interval=32))
    fake.dropped = 5
    with pytest.warns(UserWarning, match="5 samples of kernel were dropped; PCSampling"):
        launch()
    root = proton.data.get(session)[0]
    assert children(root)["kernel"]["metrics"]["dropped_samples"] == 5


@pytest.mark.parametrize(("status", "message"), [
    (35, r"cuptiPCSamplingEnable failed: CUPTI_ERROR_35 \(35\); .*run as root.*ERR_NVGPUCTRPERM"),
    (27, "capability 7.0 and higher"), (1, r"CUPTI_ERROR_1 \(1\)$"),
])  # fmt: skip
def test_a_device_that_does_not_sample(fake: Fake, status: int, message: str) -> None:
    fake.refuse = status
    with pytest.raises(RuntimeError, match=message):
        proton.start("out", backend="cupti", mode="pcsampling")
    fake.refuse = 0
    assert proton.start("out", backend="cupti", mode="pcsampling") is not None


@pytest.mark.parametrize(("options", "message"), [
    ({"mode": "pcsampling:period=3"}, "pcsampling:interval=CYCLES is required"),
    ({"mode": "pcsampling:interval=9"}, "interval=9; 32 to 2147483648 cycles"),
    ({"mode": "pcsampling", "data": "trace"}, "needs backend='cupti' and data='tree'; got 'cupti'"),
    ({"mode": "pcsampling", "backend": "events"}, "got 'events' and 'tree'"),
])  # fmt: skip
def test_wrong_arguments(fake: Fake, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        proton.start("out", **options)
    assert not fake.calls


def test_one_interval_at_a_time(fake: Fake) -> None:
    proton.start("out", mode="pcsampling:interval=64")
    with pytest.raises(ValueError, match="another session samples each 64 cycles"):
        proton.start("other", mode="pcsampling:interval=128")
    proton.start("third", mode="pcsampling:interval=64")
    assert fake.calls.count("Enable") == 1


def test_without_a_gpu_or_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="samples NVIDIA GPUs; the active device is of 'cpu'"):
        proton.start(str(tmp_path / "out"), mode="pcsampling")
    library.library.cache_clear()
    with knobs.proton.scope():
        knobs.proton.cupti_lib_dir = str(tmp_path)
        message = r"needs CUPTI's library, and none of libcupti.so.13, .* in TRITON_CUPTI_LIB_PATH="
        with pytest.raises(RuntimeError, match=message):
            library.library()


def test_a_loaded_kernel_is_found_by_its_handle() -> None:
    compiled = kernel[(1,)](np.zeros(1, np.float32))
    assert hook._cubin(compiled.function) == compiled.kernel
    assert hook._cubin(object()) is None
