"""Hooks around compiling and launching."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium import knobs
from tritium.compiler import LazyDict


@pytest.fixture
def kernel() -> Any:
    @tritium.jit
    def fill(out, n, BLOCK: tl.constexpr = 16):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, n, i < n)

    return fill


def test_compilation_hooks(kernel: Any) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def before(**info: Any) -> None:
        calls.append(("before", info))

    def after(**info: Any) -> None:
        calls.append(("after", info))

    knobs.runtime.jit_cache_hook = before
    knobs.runtime.jit_post_compile_hook = after
    out = np.zeros(16, np.int32)
    kernel[(1,)](out, 3, num_warps=2)
    kernel[(1,)](out, 5, num_warps=2)
    assert [name for name, _ in calls] == ["before", "after"]
    info = calls[0][1]
    assert set(info) == {
        "key", "repr", "fn", "compile", "is_manual_warmup", "already_compiled"
    }  # fmt: skip
    assert info["already_compiled"] is False and info["is_manual_warmup"] is False
    assert (info["fn"].module, info["fn"].name) == (__name__, "kernel.<locals>.fill")
    assert info["fn"].jit_function is kernel
    assert info["repr"].startswith(
        "kernel.<locals>.fill[num_warps=2, num_ctas=1, num_stages=3, enable_fp_fusion=True, "
        "launch_cooperative_grid=False](out: *i32, "
    )
    details = info["compile"]
    assert details["signature"] == {"out": "*i32", "n": "i32", "BLOCK": "constexpr"}
    assert details["constants"] == {(2,): 16} and details["device"] == 0
    assert details["num_warps"] == 2 and details["num_ctas"] == 1 and details["num_stages"] == 3
    assert details["is_warmup"] is False and details["key"] == info["key"]
    assert details["configs"][0].keys() <= {(0,)}
    assert "extern_libs" in details and "enable_fp_fusion" in details
    data = json.loads(details["specialization_data"])
    assert {"name", "signature", "constant_keys", "constant_vals", "attrs_keys", "attrs_vals",
            "options", "key"} == set(data)  # fmt: skip


def test_a_warmup_is_said_to_be_one(kernel: Any) -> None:
    seen: list[dict[str, Any]] = []
    knobs.runtime.jit_cache_hook = lambda **info: seen.append(info)  # pyright: ignore
    kernel.warmup(np.float32, 4, grid=(1,))
    assert seen[0]["is_manual_warmup"] and seen[0]["compile"]["is_warmup"]


def test_a_hook_cancels(kernel: Any, stub: StubDriver) -> None:
    knobs.runtime.jit_cache_hook = lambda **_: True
    assert kernel[(1,)](np.zeros(16), 3) is None
    assert kernel.warmup(np.float32, 3, grid=(1,)) is None
    knobs.runtime.jit_cache_hook = None
    assert not stub.launches
    assert kernel[(1,)](np.zeros(16), 3) is not None
    assert len(stub.launches) == 1


def test_a_hook_may_launch(kernel: Any) -> None:
    out, other = np.zeros(16, np.int32), np.zeros(16, np.float32)

    def hook(**info: Any) -> None:
        knobs.runtime.jit_cache_hook = None
        kernel[(1,)](other, 4)

    knobs.runtime.jit_cache_hook = hook
    kernel[(1,)](out, 3)
    assert out.sum() == 9 and other.sum() == 16


def test_pre_run_hooks(kernel: Any, stub: StubDriver) -> None:
    seen: list[Any] = []

    def hook(*args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs))

    kernel.add_pre_run_hook(hook)
    out = np.zeros(16)
    kernel[(1,)](out, n=3)
    kernel.warmup(np.float32, 3, grid=(1,))
    assert len(seen) == 2 and seen[0][0][0] is out and seen[0][1]["n"] == 3

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no subclasses here")

    kernel.add_pre_run_hook(refuse)
    with pytest.raises(ValueError, match=r"no subclasses here"):
        kernel[(1,)](out, 3)
    with pytest.raises(ValueError, match=r"no subclasses here"):
        kernel.warmup(np.float32, 3, grid=(1,))
    assert len(stub.launches) == 1
    with pytest.raises(TypeError, match=r"add_pre_run_hook: 5 is not callable"):
        kernel.add_pre_run_hook(5)


@pytest.mark.parametrize("faked", [False, True])
def test_launch_hooks(faked: bool, request: pytest.FixtureRequest) -> None:
    stub = request.getfixturevalue("stub") if faked else None
    computed: list[Any] = []

    def metadata(grid: Any, kernel: Any, args: dict[str, Any]) -> dict[str, Any]:
        computed.append((grid, kernel.name, args["x"]))
        return {"flops": 12}

    @tritium.jit(launch_metadata=metadata)
    def named(x, y):
        tl.store(x, y)

    out = np.zeros(1, np.int32)
    named[(1,)](out, 2)
    assert not computed, "computed without a hook"
    events: list[Any] = []

    def enter(data: LazyDict) -> None:
        events.append(("enter", int(out[0])))
        assert not computed, "computed before a hook asks"
        events.append(data.get())

    def leave(data: LazyDict) -> None:
        events.append(("exit", int(out[0])))
        events.append(data.get())

    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    kernel = named[(1, 3, 2)](out, 3)
    assert [e for e in events if isinstance(e, tuple)] == (
        [("enter", 0), ("exit", 0)] if faked else [("enter", 2), ("exit", 3)]
    )
    assert events[1] == events[3]
    assert events[1]["name"] == "named" and events[1]["flops"] == 12
    assert events[1]["function"] is kernel.function
    assert events[1]["stream"] == (100 if stub else 0)
    assert len(computed) == 1 and computed[0][:2] == ((1, 3, 2), "named") and computed[0][2] is out
    computed.clear()
    kernel[(1, 3, 2)](out, 4)
    assert len(events) == 8
    knobs.runtime.launch_enter_hook.remove(enter)
    named[(1,)](out, 5)
    assert len(events) == 10, "an exit hook alone is called too"


def test_launch_metadata_that_is_no_dict() -> None:
    @tritium.jit(launch_metadata=lambda grid, kernel, args: 3)  # pyright: ignore
    def named(x):
        tl.store(x, 1)

    knobs.runtime.launch_enter_hook.add(lambda data: data.get())
    with pytest.raises(TypeError, match="launch_metadata returned 3; a dict is required"):
        named[(1,)](np.zeros(1, np.int32))


def test_lazy_dict() -> None:
    data = LazyDict({"a": 1})
    calls: list[int] = []

    def more(n: int) -> dict[str, int]:
        calls.append(n)
        return {"b": n}

    data.add(more, (7,))
    assert not calls
    assert data.get() == {"a": 1, "b": 7} and data.get() == {"a": 1, "b": 7} and calls == [7]


def test_load_hooks(kernel: Any) -> None:
    seen: list[Any] = []

    def start(module: Any, function: Any, name: str, group: Any, hash: str) -> None:
        seen.append(("start", module, function, name, hash))

    def end(module: Any, function: Any, name: str, group: Any, hash: str) -> None:
        seen.append(("end", module is not None, function is not None, name, hash))

    knobs.runtime.kernel_load_start_hook.add(start)
    knobs.runtime.kernel_load_end_hook.add(end)
    out = np.zeros(16)
    compiled = kernel[(1,)](out, 3)
    kernel[(1,)](out, 3)
    assert seen == [
        ("start", None, None, "fill", compiled.hash), ("end", True, True, "fill", compiled.hash)
    ]  # fmt: skip


def test_load_hooks_may_be_switched_off() -> None:
    with knobs.runtime.scope():
        knobs.runtime.kernel_load_start_hook = knobs.runtime.kernel_load_end_hook = None
        out = np.zeros(1, np.int32)

        @tritium.jit
        def kernel(out):
            tl.store(out, 3)

        kernel[(1,)](out)
        assert out[0] == 3


def test_unload_hook(kernel: Any) -> None:
    seen: list[Any] = []

    def unloaded(module: Any, function: Any, name: str, group: Any, hash: str) -> None:
        seen.append((module is not None, function is not None, name, hash))

    knobs.runtime.kernel_unload_hook.add(unloaded)
    compiled = kernel[(1,)](np.zeros(16), 3)
    assert not seen
    compiled.close()
    compiled.close()  # it is not loaded any more
    assert seen == [(True, True, "fill", compiled.hash)]
