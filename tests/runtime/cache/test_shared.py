"""One cache directory for different versions, processors and GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.support.launching import add_kernel
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu import compiler as cpu
from tritium.backends.cpu import driver, processors
from tritium.compiler import ASTSource, key
from tritium.compiler.compile import prepare
from tritium.native.host import host

TYPES = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
CPU = GPUTarget("cpu", "", 1)


def job_key(target: GPUTarget = CPU, **options: Any) -> str:
    return prepare(ASTSource(add_kernel, TYPES, {"BLOCK": 16}), target, options).key


def other_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key, "compiler_key", lambda: "another version")


def other_cpu(patch: pytest.MonkeyPatch) -> None:
    generic = dataclasses.replace(host(), cpu="generic")
    for module in (processors, driver):
        patch.setattr(module, "host", lambda: generic)


def other_features(patch: pytest.MonkeyPatch) -> None:
    without = host().feature_string + ",-avx2"
    patch.setattr(processors, "host", lambda: dataclasses.replace(host(), feature_string=without))


def other_caches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(processors, "host", lambda: dataclasses.replace(host(), l2=host().l2 // 2))


def other_llvm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cpu, "llvm_version", lambda: "99.0.0")


CHANGES = [other_version, other_cpu, other_features, other_caches, other_llvm]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_what_makes_another_entry(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]
) -> None:
    """Whoever differs compiles anew, into an entry of its own, and both stay usable."""
    hits: list[bool] = []
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)

    def launch() -> str:
        kernel = tritium.jit(add_kernel.fn)[(1,)](x, x, out, 16, BLOCK=16)
        assert (out == 2 * x).all()
        return kernel.hash

    with knobs.compilation.scope():
        knobs.compilation.listener = lambda cache_hit, **_: hits.append(cache_hit)  # pyright: ignore
        ours = launch()
        with monkeypatch.context() as patch:
            change(patch)
            theirs = launch()
            assert launch() == theirs
        assert launch() == ours != theirs
    assert hits == [False, False, True, True]


def test_every_target_has_its_own() -> None:
    targets = [CPU, *(GPUTarget("cuda", arch, 32) for arch in (80, 86, 89, 90, 100))]
    assert len({job_key(t) for t in targets}) == len(targets)


def test_another_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: set[str] = set()
    with knobs.nvidia.scope():
        for version in ("12.8", "12.9"):
            knobs.nvidia.mock_ptx_version = version
            keys.add(job_key(GPUTarget("cuda", 90, 32)))
    assert len(keys) == 2


def test_a_binary_of_another_key_is_not_taken(fresh_cache: Path) -> None:
    """Files that were copied from another entry have the wrong digest, and are refused."""
    jobs = [prepare(ASTSource(add_kernel, TYPES, {"BLOCK": b}), CPU) for b in (16, 32)]
    first, second = (job.store(job.run()) for job in jobs)
    source, target = (Path(k.metadata_group["add_kernel.obj"]) for k in (first, second))
    assert source.read_bytes() != target.read_bytes()
    target.write_bytes(source.read_bytes())
    with pytest.warns(RuntimeWarning, match=r"add_kernel.obj: its content is not what was stored"):
        assert jobs[1].find() is None
