"""Choosing configurations."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver
from tritium import knobs
from tritium.errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from tritium.runtime import Autotuner, Config, JITFunction


@tritium.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


BLOCKS = [Config({"BLOCK": 32}), Config({"BLOCK": 128}), Config({"BLOCK": 64})]


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (tritium.cdiv(meta["n"], meta["BLOCK"]),)


class Bench:
    """Runs once; the time is that of `times[BLOCK]`, taken from the last launch."""

    def __init__(self, times: dict[int, float]):
        self.times, self.blocks = times, list[int]()

    def __call__(self, call: Callable[[], Any], quantiles: Any) -> list[float]:
        call()
        return [self.times[self.blocks[-1]]] * 3


def tuned(times: dict[int, float] | None = None, **options: Any) -> tuple[Any, Bench]:
    bench = Bench(times or {32: 3.0, 64: 2.0, 128: 1.0})
    configs = options.pop("configs", BLOCKS)
    options.setdefault("key", ["n"])
    kernel = tritium.jit(add_one.fn)
    original = kernel.run

    def run(*args: Any, **kwargs: Any) -> Any:
        bench.blocks.append(kwargs["BLOCK"])
        return original(*args, **kwargs)

    kernel.run = run
    return tritium.autotune(configs=configs, do_bench=bench, **options)(kernel), bench


def arrays(n: int = 200, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=dtype), np.zeros(n, dtype)


# Config


def test_config() -> None:
    config = Config({"BLOCK": 32}, num_warps=8, maxnreg=64)
    assert config.all_kwargs() == {
        "BLOCK": 32, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": 64
    }  # fmt: skip
    assert (
        str(config) == "BLOCK: 32, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: 64, "
        "ir_override: None"
    )
    same = Config({"BLOCK": 32}, num_warps=8, maxnreg=64)
    assert config == same and hash(config) == hash(same) and {config: 1}[same] == 1
    assert str(Config({"BLOCK": 64}, ir_override="k.ttir")).endswith("ir_override: k.ttir")
    assert str(Config({"ir_override": "k.ttir"})).startswith("ir_override: k.ttir, num_warps: 4")
    for other in (
        Config({"BLOCK": 64}, num_warps=8, maxnreg=64), Config({"BLOCK": 32}, maxnreg=64),
        Config({"BLOCK": 32}, num_warps=8, maxnreg=64, pre_hook=print),
        Config({"BLOCK": 32}, num_warps=8, maxnreg=64, ir_override="k.ttir"),
    ):  # fmt: skip
        assert config != other
    assert pickle.loads(pickle.dumps(config)) == config
    config.found_by = "a search"  # pyright: ignore[reportAttributeAccessIssue]
    assert pickle.loads(pickle.dumps(config)).found_by == "a search"
    assert "maxnreg" not in Config({}).all_kwargs()
    assert Config({"A": [1, 2]}) == Config({"A": [1, 2]}) and hash(Config({"A": [1, 2]}))
    assert Config({"A": 1}) != Config({"A": True})


# Choosing


def test_the_fastest_is_chosen_for_each_key() -> None:
    kernel, bench = tuned()
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert (out == x + 1).all()
    assert kernel.best_config is BLOCKS[1] and bench.blocks == [32, 128, 64, 128]
    assert {c.kwargs["BLOCK"]: t[0] for c, t in kernel.configs_timings.items()} == bench.times
    kernel[grid](x, out, 200)
    assert bench.blocks[4:] == [128] and len(kernel.cache) == 1
    bench.times[32] = 0.5
    kernel[grid](x, out, n=100)
    assert kernel.best_config is BLOCKS[0] and len(kernel.cache) == 2
    kernel[grid](*arrays(dtype=np.float64), 200)
    assert len(kernel.cache) == 3, "dtypes are part of the key"
    kernel[grid](n=200, out=out, x=x)
    assert len(kernel.cache) == 3, "the order of keywords is not"


def test_one_configuration_is_not_measured() -> None:
    kernel, bench = tuned(configs=BLOCKS[:1])
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert bench.blocks == [32] and kernel.best_config is BLOCKS[0] and (out == x + 1).all()


def test_no_configuration() -> None:
    @tritium.autotune(configs=[], key=[])
    @tritium.jit
    def kernel(out, B: tl.constexpr = 4):
        tl.store(out + tl.arange(0, B), 1)

    out = np.zeros(4)
    assert kernel[(1,)](out).metadata.num_warps == 4
    assert out.sum() == 4


def test_options_reach_the_kernel() -> None:
    config = Config({"BLOCK": 256}, num_warps=8, num_stages=2)
    kernel, _ = tuned(configs=[config])
    compiled = kernel[grid](*arrays(), 200)
    assert (compiled.metadata.num_warps, compiled.metadata.num_stages) == (8, 2)


def test_really_measured() -> None:
    kernel = tritium.autotune(configs=BLOCKS, key=["n"])(tritium.jit(add_one.fn))
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert (out == x + 1).all() and kernel.best_config in BLOCKS and kernel.bench_time > 0
    assert all(0 < t[0] < 1e3 for t in kernel.configs_timings.values())


@pytest.mark.parametrize("name", ["pre_hook", "post_hook", "do_bench"])
def test_what_is_no_function(name: str) -> None:
    with pytest.raises(TypeError, match=f"autotune: {name} is 3; a function is required"):
        tritium.autotune(configs=BLOCKS, key=[], **{name: 3})(tritium.jit(add_one.fn))  # pyright: ignore
    with pytest.raises(TypeError, match="Config: pre_hook is 3; a function is required"):
        Config({}, pre_hook=3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("option", ["warmup", "rep", "use_cuda_graph"])
def test_deprecated_options(option: str) -> None:
    with pytest.warns(DeprecationWarning, match=r"deprecated") as seen:
        kernel = tritium.autotune(configs=BLOCKS, key=["n"], **{option: 1})(tritium.jit(add_one.fn))
    assert seen[0].filename == __file__
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert (out == x + 1).all()


@pytest.mark.parametrize(
    "options",
    [{"key": [], "reset_to_zero": ["m"]}, {"key": [], "restore_value": "m"}],
)
def test_names_are_checked(options: Any) -> None:
    with pytest.raises(
        ValueError, match=r"names 'm'; the kernel's parameters are x, out, n, BLOCK"
    ):
        tritium.autotune(configs=BLOCKS, **options)(add_one)


def test_a_key_of_another_kernel_is_passed_over() -> None:
    with pytest.warns(UserWarning, match=r"key names 'm'; .* it is left out"):
        kernel, _ = tuned(key=["n", "m"])
    kernel[grid](*arrays(), 200)
    assert kernel.cache == {(200, "float32", "float32"): BLOCKS[1]}


def test_values_that_are_no_key() -> None:
    kernel, _ = tuned(key="n")
    with pytest.raises(TypeError, match=r"the key's values \(n\): unhashable type: 'list'"):
        kernel[(1,)](*arrays(), [200])


def test_only_kernels_are_tuned() -> None:
    with pytest.raises(
        TypeError, match="@autotune goes above @jit: a kernel is required; got <fun"
    ):
        tritium.autotune(configs=BLOCKS, key=[])(add_one.fn)
    with pytest.raises(TypeError, match="@heuristics goes above @jit"):
        tritium.heuristics({"BLOCK": lambda args: 32})(add_one.fn)
    with pytest.raises(TypeError, match="heuristics: 'BLOCK' is 32; a function"):
        tritium.heuristics({"BLOCK": 32})


def test_a_tuned_kernel_in_a_copied_object() -> None:
    kernel, measured = tuned()
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    kernel[lambda meta: (tritium.cdiv(64, meta["BLOCK"]),)](x, out, 64)
    count = len(measured.blocks)
    copied = copy.deepcopy({"kernel": kernel})["kernel"]
    assert copied is not kernel and copied.fn is kernel.fn
    copied[lambda meta: (tritium.cdiv(64, meta["BLOCK"]),)](x, out, 64)
    assert len(measured.blocks) == count + 1, "it knows what the other has found"
    copied.fn = None
    kernel[lambda meta: (tritium.cdiv(64, meta["BLOCK"]),)](x, out, 64)
    assert copied.pre_hook.__self__ is copied and copied.cache is not kernel.cache


def test_a_copied_heuristic_has_a_kernel_of_its_own() -> None:
    kernel = tritium.heuristics({"BLOCK": lambda args: 64})(add_one)
    copied = copy.deepcopy(kernel)
    copied.fn = None
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    kernel[(1,)](x, out, 64)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize(
    "measured", [1.5, np.float32(1.5), np.array(1.5), (1.5, 1.0, 2.0), np.full(3, 1.5)], ids=repr
)
def test_a_benchmark_may_return_one_time_or_several(measured: Any) -> None:
    kernel = tritium.autotune(
        configs=BLOCKS, key=["n"], do_bench=lambda call, quantiles: measured
    )(add_one)  # fmt: skip
    kernel[grid](*arrays(), 200)
    assert [times[0] for times in kernel.configs_timings.values()] == [1.5] * 3


@pytest.mark.parametrize("measured", [None, float("nan"), [], "fast", [None]], ids=repr)
def test_what_is_no_time(measured: Any) -> None:
    kernel = tritium.autotune(
        configs=BLOCKS, key=["n"], do_bench=lambda call, quantiles: measured
    )(add_one)  # fmt: skip
    with pytest.raises(TypeError, match=r"do_bench returned .*; milliseconds"):
        kernel[grid](*arrays(), 200)


# Failing configurations


@pytest.mark.parametrize(
    "error",
    [OutOfResources(2, 1, "shared memory"), CompileTimeAssertionFailure(None, None, "no"),
     PTXASError("no")],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_failing_configurations_lose(error: Exception) -> None:
    failures: list[Any] = []

    def post_hook(args: Any, exception: Any) -> None:
        failures.append(exception)

    kernel, _bench = tuned(post_hook=post_hook)
    run = kernel.fn.run

    def failing(*args: Any, **kwargs: Any) -> Any:
        if kwargs["BLOCK"] == 128:
            raise error
        return run(*args, **kwargs)

    kernel.fn.run = failing
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert kernel.best_config is BLOCKS[2]
    assert kernel.configs_timings[BLOCKS[1]] == [float("inf")] * 3
    assert failures == [None, error, None]


def test_all_configurations_fail() -> None:
    @tritium.autotune(configs=BLOCKS, key=[], do_bench=lambda call, quantiles: call())
    @tritium.jit
    def kernel(out, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK < 32, "too large")

    with pytest.raises(
        AutotunerError, match=r"(?s)none of the 3 configurations of kernel works.*too large"
    ):
        kernel[(1,)](np.zeros(1))


def test_other_errors_are_raised() -> None:
    kernel, _ = tuned()
    with pytest.raises(ValueError, match=r"grid"):
        kernel[(-1,)](*arrays(), 200)
    assert kernel.nargs is None


def test_conflicting_meta_parameters() -> None:
    kernel, _ = tuned()
    message = "Conflicting meta-parameters: BLOCK. Make sure that you don't re-define auto-tuned"
    with pytest.raises(ValueError, match=message):
        kernel[grid](*arrays(), 200, BLOCK=64)
    single, _ = tuned(configs=BLOCKS[:1])
    with pytest.raises(ValueError, match=message):
        single[grid](*arrays(), 200, BLOCK=64)
    with pytest.raises(ValueError, match=r"Conflicting meta-parameters: num_warps"):
        kernel[grid](*arrays(), 200, num_warps=8)


# Hooks, zeroing, restoring


def test_hooks_are_balanced() -> None:
    events: list[Any] = []
    configs = [Config({"BLOCK": b}, pre_hook=lambda a: events.append("config")) for b in (32, 64)]
    kernel, _ = tuned(
        configs=configs,
        pre_hook=lambda args, reset_only=False: events.append(("pre", reset_only, args["BLOCK"])),
        post_hook=lambda args, exception: events.append(("post", exception, args["BLOCK"])),
    )
    kernel[grid](*arrays(), 200)
    measured = ["config", ("pre", False, 32), ("post", None, 32)]
    measured += ["config", ("pre", False, 64), ("post", None, 64)]
    assert events == [*measured, ("pre", True, 64), "config"]
    events.clear()
    kernel[grid](*arrays(), 200)
    assert events == ["config"], "the configuration's own hook runs before every launch"


def test_a_configurations_hook_sees_the_arguments() -> None:
    seen: list[dict[str, Any]] = []
    kernel, _ = tuned(configs=[Config({"BLOCK": 32}, pre_hook=seen.append)])  # pyright: ignore
    x, out = arrays()
    kernel[grid](x, out, n=200)
    assert seen[0]["x"] is x and seen[0]["n"] == 200 and seen[0]["BLOCK"] == 32


@tritium.jit
def increment(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + 1, i < n)


@pytest.mark.covering(1)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("options", "expected"), [({"restore_value": ["x"]}, 6), ({"reset_to_zero": ["x"]}, 1)]
)
def test_kernels_that_work_in_place(library: str, options: Any, expected: int) -> None:
    module: Any = np if library == "numpy" else pytest.importorskip("torch")
    kernel = tritium.autotune(configs=BLOCKS, key=["n"], **options)(tritium.jit(increment.fn))
    x = module.full((100,), 5.0, dtype=module.float32)
    kernel[grid](x, 100)
    assert x.tolist() == [expected] * 100
    kernel[grid](x, 100)
    assert x.tolist() == [expected + 1] * 100


def test_values_are_restored_after_a_failure() -> None:
    kernel = tritium.autotune(configs=BLOCKS, key=["n"], restore_value=["x"])(
        tritium.jit(increment.fn)
    )
    run = kernel.fn.run

    def failing(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        if kwargs["BLOCK"] == 128:
            raise OutOfResources(2, 1, "shared memory")
        return result

    kernel.fn.run = failing
    x = np.full(100, 5, np.float32)
    kernel[grid](x, 100)
    assert (x == 6).all()


# Pruning


def test_arguments_that_are_no_tensors() -> None:
    kernel, _ = tuned(reset_to_zero=["n"])
    with pytest.raises(TypeError, match="reset_to_zero names 'n', which is 200, and no tensor"):
        kernel[grid](*arrays(), 200)
    kernel, _ = tuned(restore_value=["n", "BLOCK"], key=[])
    with pytest.raises(TypeError, match="restore_value names 'n', which is 200, and no tensor"):
        kernel[grid](*arrays(), 200)


def test_an_optional_tensor_need_not_be_given() -> None:
    @tritium.jit
    def fill(out, extra, n, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), n)

    kernel = tritium.autotune(
        BLOCKS[:2], ["n"], reset_to_zero=["extra"], restore_value=["extra"],
        do_bench=lambda call, quantiles: call() or 1.0,
    )(fill)  # fmt: skip
    out = np.zeros(128, np.int32)
    kernel[(1,)](out, None, 7)
    assert out[0] == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"early_config_prune": 3}, "early_config_prune is 3; a function is required"),
        (lambda configs: configs, "prune_configs_by is <function .*; a dict is required"),
    ],
)
def test_bad_pruning(options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tuned(prune_configs_by=options)


def test_pruning_that_gives_no_configurations() -> None:
    kernel, _ = tuned(prune_configs_by={"early_config_prune": lambda c, n, **k: [32]})
    with pytest.raises(
        TypeError, match=r"early_config_prune returned \[32\]; Configs are required"
    ):
        kernel[grid](*arrays(), 200)
    with pytest.warns(UserWarning, match="prune_configs_by has 'top'"):
        tuned(prune_configs_by={"top": 3})


def test_early_pruning() -> None:
    seen: list[Any] = []

    def prune(configs: list[Config], named: dict[str, Any], **kwargs: Any) -> list[Config]:
        seen.append((configs, set(named), kwargs["n"]))
        return configs[:2]

    kernel, bench = tuned(prune_configs_by={"early_config_prune": prune})
    kernel[grid](*arrays(), n=200)
    assert bench.blocks == [32, 128, 128]
    assert seen[0][0] == BLOCKS and seen[0][1] == {"x", "out"} and seen[0][2] == 200
    kernel, _ = tuned(prune_configs_by={"early_config_prune": lambda *a, **k: []})
    with pytest.raises(
        AutotunerError, match=r"^Autotuner error: No valid autotuner configs after pruning"
    ):
        kernel[grid](*arrays(), 200)


def test_one_configuration_that_is_left_is_not_measured() -> None:
    told: list[Any] = []
    prune: dict[str, Any] = {
        "early_config_prune": lambda configs, *_, **__: configs[:2],
        "perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 0.5,
    }  # fmt: skip
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda **what: told.append(what)
        kernel, bench = tuned(prune_configs_by=prune)
        x, out = arrays()
        kernel[grid](x, out, 200)
    assert bench.blocks == [128] and bench.times and not told, "half of the two that were left"
    assert kernel.best_config is BLOCKS[1] and (out == x + 1).all()


@pytest.mark.parametrize(
    ("top_k", "blocks"), [(1, [64]), (2, [64, 128]), (0.7, [64, 128]), (5, None)]
)
def test_a_performance_model(top_k: Any, blocks: list[int] | None) -> None:
    seen: list[Any] = []

    def model(BLOCK: int, n: int, num_warps: int, **_: Any) -> float:
        seen.append((BLOCK, n, num_warps))
        return abs(BLOCK - 90)

    kernel, bench = tuned(prune_configs_by={"perf_model": model, "top_k": top_k})
    kernel[grid](*arrays(), 200)
    assert sorted(set(bench.blocks)) == (blocks or [32, 64, 128])
    assert seen == ([(b, 200, 4) for b in (32, 128, 64)] if blocks else [])


@pytest.mark.parametrize("top_k", [1.5, "2", None, 0, -1])
def test_bad_top_k(top_k: Any) -> None:
    kernel, _ = tuned(prune_configs_by={"perf_model": lambda **_: 1, "top_k": top_k})
    with pytest.raises((TypeError, ValueError), match=r"top_k must be"):
        kernel[grid](*arrays(), 200)


# Results on disk


def test_results_are_kept(fresh_cache: Path) -> None:
    kernel, bench = tuned(cache_results=True)
    kernel[grid](*arrays(), 200)
    assert len(bench.blocks) == 4
    (path,) = fresh_cache.glob("*/add_one.autotune.json")
    data = json.loads(path.read_text())
    assert data["key"] == ["200", "float32", "float32"] and len(data["configs_timings"]) == 3
    again, bench = tuned(cache_results=True)
    again[grid](*arrays(), 200)
    assert bench.blocks == [128] and again.best_config == BLOCKS[1]
    other, bench = tuned(cache_results=True, configs=BLOCKS[:2])
    other[grid](*arrays(), 200)
    assert len(bench.blocks) == 3, "other configurations are measured"


def test_results_of_configurations_that_json_does_not_know(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITIUM_AUTOTUNE_WORKERS", "0")  # measured in their order

    @tritium.jit
    def fill(out, n, BLOCK: tl.constexpr, T: tl.constexpr, S: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), tl.full((BLOCK,), S[0], T))

    blocks = [Config({"BLOCK": 8, "T": tl.int32, "S": (1, 2)}),
              Config({"BLOCK": 8, "T": tl.float32, "S": (3,)})]  # fmt: skip
    for count in (2, 0):
        times = iter([1.0, 2.0])
        kernel = tritium.autotune(
            blocks, ["n"], cache_results=True,
            do_bench=lambda call, quantiles, times=times: next(times),
        )(fill)  # fmt: skip
        kernel[(1,)](np.zeros(8, np.float32), 8)
        assert len(list(times)) == 2 - count and kernel.best_config is blocks[0]
        assert list(kernel.configs_timings) == blocks


def test_results_are_not_those_of_another_override(fresh_cache: Path, tmp_path: Path) -> None:
    text = add_one[(1,)](*arrays(), 20, BLOCK=64).asm["ttir"]
    for name in ("a.ttir", "b.ttir"):
        (tmp_path / name).write_text(text)
        configs = [Config({"BLOCK": b}, ir_override=str(tmp_path / name)) for b in (32, 64)]
        kernel, bench = tuned(cache_results=True, configs=configs)
        kernel[(1,)](*arrays(), 20)
        assert len(bench.blocks) == 3, "these have not been measured"


def test_results_are_kept_by_the_knob(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    for count in (4, 1):
        kernel, bench = tuned()
        kernel[grid](*arrays(), 200)
        assert len(bench.blocks) == count


def test_results_with_hooks_are_not_kept(fresh_cache: Path) -> None:
    configs = [Config({"BLOCK": b}, pre_hook=lambda args: None) for b in (32, 64)]
    for _ in range(2):
        kernel, bench = tuned(cache_results=True, configs=configs)
        kernel[grid](*arrays(), 200)
        assert len(bench.blocks) == 3


@pytest.mark.parametrize("content", ["", "{}", '{"configs_timings": [[{"kwargs": 5}, 3]]}'])
def test_damaged_results(fresh_cache: Path, content: str) -> None:
    kernel, _ = tuned(cache_results=True)
    kernel[grid](*arrays(), 200)
    next(fresh_cache.glob("*/add_one.autotune.json")).write_text(content)
    kernel, bench = tuned(cache_results=True)
    with pytest.warns(RuntimeWarning, match=r"damaged"):
        kernel[grid](*arrays(), 200)
    assert len(bench.blocks) == 4


def test_printing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel, _ = tuned()
    kernel[grid](*arrays(), 200)
    text = capsys.readouterr().out
    assert "Autotuning kernel add_one with config BLOCK: 32, num_warps: 4" in text
    assert "Triton autotuning for function add_one,\nwith key as (200," in text
    assert "\nfinished after " in text and "s,\nbest config selected: BLOCK: 128, " in text
    kernel[grid](*arrays(), 200)
    assert capsys.readouterr().out == ""


# Heuristics, nesting, subclassing


def test_heuristics() -> None:
    @tritium.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @tritium.heuristics({"BLOCK": lambda args: 16 if args["n"] < 100 else 64})
    @tritium.jit
    def kernel(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        tl.store(out, BLOCK + EVEN)

    out = np.zeros(1, np.int32)
    with pytest.raises(KeyError, match=r"BLOCK"):
        kernel[(1,)](out, 64)

    @tritium.heuristics({"BLOCK": lambda args: 16 if args["n"] < 100 else 64})
    @tritium.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @tritium.jit
    def other(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        tl.store(out, BLOCK + EVEN)

    for n, value in ((64, 17), (65, 16), (128, 65)):
        other[(1,)](out, n=n)
        assert out[0] == value
    assert isinstance(other.base_fn, JITFunction) and other.base_fn.__name__ == "other"
    assert other.warmup(np.int32, 64, grid=(1,)) is not None


def test_heuristics_below_autotuning() -> None:
    @tritium.autotune(configs=BLOCKS, key=["n"], do_bench=Nothing())
    @tritium.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @tritium.jit
    def kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) + EVEN, i < n)

    x, out = arrays(256)
    kernel[grid](x, out, 256)
    assert (out == x + 1).all()
    assert kernel.base_fn.__name__ == "kernel" and isinstance(kernel.fn.fn, JITFunction)
    compiled = kernel.warmup(np.float32, np.float32, 256, grid=grid)
    assert [k.name for k in compiled] == ["kernel"] * 3 and len({k.hash for k in compiled}) == 3


class Nothing:
    """Measures nothing; the first configuration wins."""

    def __call__(self, call: Any, quantiles: Any) -> list[float]:
        call()
        return [1.0, 1.0, 1.0]


def test_subclassing() -> None:
    class Fixed(Autotuner):
        def _bench(self, *args: Any, config: Config, **meta: Any) -> list[float]:
            return [float(config.kwargs["BLOCK"])] * 3

    kernel = Fixed(tritium.jit(add_one.fn), add_one.arg_names, BLOCKS, ["n"], None, None)
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert kernel.best_config is BLOCKS[0] and (out == x + 1).all()


def test_pre_run_hooks_of_the_kernel_run(stub: StubDriver) -> None:
    kernel, _ = tuned(configs=BLOCKS[:1])

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("refused")

    kernel.base_fn.add_pre_run_hook(refuse)
    with pytest.raises(ValueError, match=r"refused"):
        kernel[grid](*arrays(), 200)


def test_ir_override(tmp_path: Path) -> None:
    x, out = arrays()
    text = add_one[grid](x, out, 200, BLOCK=64).asm["ttir"]
    path = tmp_path / "changed.ttir"
    path.write_text(text.replace("dense<1.000000e+00>", "dense<1.000000e+01>"))
    configs = [Config({"BLOCK": 64}, ir_override=str(path))]
    kernel, _ = tuned(configs=configs)
    kernel[grid](x, out, 200)
    assert (out == x + 10).all()
    add_one[grid](x, out, 200, BLOCK=64)
    assert (out == x + 1).all()


@pytest.mark.parametrize("cache_results", [False, True])
def test_interpreted_kernels_are_not_measured(
    cache_results: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    decorated = tritium.autotune(configs=BLOCKS, key=["n"], cache_results=cache_results)
    kernel = decorated(tritium.jit(add_one.fn))
    x, out = arrays()
    kernel[grid](x, out, 200)
    assert (out == x + 1).all()


def test_a_failed_static_assert_leaves_out_an_interpreted_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def kernel(out, wrong, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK >= 64)
        if wrong > 0:
            tl.static_assert(tl.arange(0, 4).dtype == tl.int8, "never")
        tl.store(out, BLOCK)

    tuned_kernel = tritium.autotune(configs=BLOCKS, key=["wrong"])(tritium.jit(kernel))
    out = np.zeros(1, np.int32)
    tuned_kernel[(1,)](out, 0)
    good = [config.kwargs["BLOCK"] for config in BLOCKS if config.kwargs["BLOCK"] >= 64]
    assert out[0] in good
    with pytest.raises(AutotunerError, match=r"none of the 3 configurations .* works"):
        tuned_kernel[(1,)](out, 1)


def test_a_listener_is_told_what_was_chosen(fresh_cache: Path) -> None:
    told: list[dict[str, Any]] = []
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda **what: told.append(what)
        kernel, _ = tuned(cache_results=True)
        for _ in range(2):
            kernel[grid](*arrays(), 200)
        again, _ = tuned(cache_results=True)
        again[grid](*arrays(), 200)
    assert [t["cache_hit"] for t in told] == [False, True], "once for each key"
    assert all(t["best_config"] == BLOCKS[1] and t["fn"].__name__ == "add_one" for t in told)
    assert all(len(t["configs_timings"]) == 3 and t["key"][0] == 200 for t in told)
    assert told[0]["duration"] > 0 and told[1]["duration"] is None
