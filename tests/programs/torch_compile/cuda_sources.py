"""Kernels that torch.compile would write for an NVIDIA GPU that is not here, compiled to cubins:
`tritium run cuda_sources.py modules|ways [NAME]...`.

torch traces a case with CPU tensors, forward and backward; each graph is put onto a device whose
properties are those below, and its code generated. Instead of loading it, each kernel in it is
compiled for each of its configurations, by what torch itself calls for that. Of the templates for
a product, which cannot be measured, some are compiled.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import modules
import torch
import ways
from comparing import Case, chosen, run
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import compile_fx, config, select_algorithm
from torch._inductor.codecache import PyCodeCache
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_heuristics import StaticTritonCompileResult
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_map

H100 = SimpleNamespace(
    name="NVIDIA H100", major=9, minor=0, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
    max_threads_per_block=1024, total_memory=80 << 30, L2_cache_size=50 << 20,
    shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10, gcnArchName="",
)  # fmt: skip
LONG = 150
"""Letters of a kernel's name that names of files have; torch finds no file of a longer name."""
UNTRACED = ("flex", "scanned")
"""Cases that torch does not trace with CPU tensors."""
TOGETHER = 6
"""Choices of one product that are compiled."""


class Worker:
    current_device = staticmethod(lambda: 0)
    get_device_properties = staticmethod(lambda device=None: H100)


INTERFACE = {
    "is_available": lambda: True, "get_compute_capability": lambda device=None: 90,
    "get_device_properties": lambda device=None: H100, "current_device": lambda: 0,
    "device_count": lambda: 1, "is_triton_capable": lambda device=None: True,
    "is_bf16_supported": lambda including_emulation=False: True,
    "synchronize": lambda device=None: None,
    "raise_if_triton_unavailable": lambda device=None: None,
}  # fmt: skip


@contextlib.contextmanager
def pretended(take: Callable[[str], None]) -> Iterator[None]:
    """A GPU that torch generates code for; `take` is given the code of each graph."""

    def compile_to_module(graph: Any) -> Any:
        code, *_ = graph.codegen()
        take(getattr(code, "value", code))
        return SimpleNamespace(call=None, __file__="none.py", recursively_apply_fns=None)

    with contextlib.ExitStack() as stack:
        def put(*place: Any) -> None:
            stack.enter_context(mock.patch.object(*place))

        for name, value in INTERFACE.items():
            put(CudaInterface, name, staticmethod(value))
        put(CudaInterface, "Worker", Worker)
        put(GraphLowering, "compile_to_module", compile_to_module)
        put(joint_graph, "lazy_init", lambda *_: None)  # it would run its patterns on the device
        put(post_grad, "lazy_init", lambda *_: None)
        put(triton_helpers, "set_driver_to_gpu", lambda: None)
        put(select_algorithm.AlgorithmSelectorCache, "do_autotuning", choose(take))
        put(select_algorithm.AlgorithmSelectorCache, "make_precompile_fn", lambda *_, **__: None)
        stack.enter_context(mock.patch.object(
            torch._C, "_cuda_getCurrentRawStream", lambda _: 0, create=True))  # fmt: skip
        for name in ("get_device_capability", "get_device_properties", "current_device"):
            value: Any = {"get_device_capability": (9, 0), "current_device": 0}.get(name, H100)
            put(torch.cuda, name, lambda *_, value=value: value)
        for name, module in list(sys.modules.items()):
            if name.startswith("torch.") and "has_triton" in vars(module):
                put(module, "has_triton", lambda *_: True)
        yield


def moved(graph: Any, inputs: list[Any]) -> list[Any]:
    """Put a graph that was traced with CPU tensors onto the GPU; its inputs there."""
    there = torch.device("cuda", 0)

    def on_device(value: Any) -> Any:
        return there if isinstance(value, torch.device) else value

    mode = next((t.fake_mode for t in inputs if isinstance(t, FakeTensor)), None)
    mode = mode or FakeTensorMode()
    made: list[Any] = []
    with mode:
        for value in inputs:
            if isinstance(value, torch.Tensor):
                value = torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device=there
                )
            made.append(value)
    for part in graph.modules():
        for node in part.graph.nodes if hasattr(part, "graph") else ():
            node.args = tree_map(on_device, node.args)
            node.kwargs = tree_map(on_device, node.kwargs)
    FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*made)
    return made


def have_guard() -> None:
    """Let a torch that has no code for CUDA trace with tensors that say they are there: its guard
    of the current device for CPUs, which does nothing, serves for GPUs too."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    name = "_ZN3c104impl26device_guard_impl_registryE"
    guards = (ctypes.c_void_p * 2).in_dll(library, name)
    guards[1] = guards[1] or guards[0]


def choose(take: Callable[[str], None]) -> Any:
    """In place of measuring the choices for a product: give the code of some to `take`; the first
    template is the fastest."""

    def do_autotuning(_self: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
        choices = next(a for a in args if isinstance(a, list) and a and hasattr(a[0], "call_name"))
        templates = [c for c in choices if isinstance(c, select_algorithm.TritonTemplateCaller)]
        for template in templates[:: max(len(templates) // TOGETHER, 1)]:
            take(Path(template.bmreq.module_path).read_text())
        return {choice: float(i) for i, choice in enumerate(templates or choices)}

    return do_autotuning


KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str='cuda'", re.DOTALL)


def compile_kernels(code: str, seen: set[str]) -> int:
    """Compile each kernel of some generated code to cubins; how many were made."""
    found = KERNEL.findall(code)
    if not found and "@triton.jit" in code:
        found = [(re.findall(r"^def (triton_\w+)", code, re.MULTILINE)[-1], code)]
    made = 0
    for name, source in found:
        if source in seen:
            continue
        seen.add(source)
        tuner = getattr(PyCodeCache.load(source), name)
        for option in tuner.configs:
            result = tuner._precompile_config(option)
            kernel = result.kernel
            if isinstance(result, StaticTritonCompileResult):
                binary = kernel.cubin_raw
            else:  # which is right only for what torch's launcher does not launch
                waits = kernel.metadata.launch_cooperative_grid
                stores = tuner.inductor_meta.get("store_cubin")
                elsewhere = waits or stores or config.cpp_wrapper  # or launched by C++
                assert elsewhere or len(name) > LONG, f"{name} is not for torch's launcher"
                binary = kernel.asm["cubin"]
            assert binary[:4] == b"\x7fELF", name
            made += 1
    return made


def check(case: Any, seen: set[str]) -> int:
    """Generate and compile a case's kernels; how many cubins were made."""
    codes: list[str] = []
    torch._dynamo.reset()
    options = case.options if isinstance(case, Case) else {}

    def generate(graph: Any, inputs: list[Any], backward: bool) -> Any:
        twin = copy.deepcopy(graph)
        there = moved(twin, list(inputs))
        settings = {**options, "fx_graph_cache": False, "compile_threads": 1,
                    "pattern_matcher": False, "comprehensive_padding": False,
                    "benchmark_epilogue_fusion": False}  # fmt: skip
        with pretended(codes.append), config.patch(settings), V.set_fake_mode(
            next(t.fake_mode for t in there if isinstance(t, FakeTensor))
        ):
            replace_random_passes(twin)
            compile_fx.compile_fx_inner(twin, there, is_backward=backward)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=partial(generate, backward=False), bw_compiler=partial(generate, backward=True),
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
    )  # fmt: skip
    real = torch.compile

    def compiled(function: Any, **how: Any) -> Any:
        return real(function, backend=backend, dynamic=how.get("dynamic"))

    cpu = torch.device("cpu")
    with mock.patch.object(torch, "compile", compiled):
        if isinstance(case, Case):
            module, calls = case.make(cpu)
            function = compiled(module, **case.how)
            for arguments in calls:
                run(function, module, arguments)
        else:
            case(cpu)
    assert codes, "no code was generated"
    driver = mock.patch.object(triton_helpers, "set_driver_to_gpu", lambda: None)
    with driver, config.patch(options):
        return sum(compile_kernels(code, seen) for code in codes)


def main() -> None:
    have_guard()
    every = {"modules": modules.cases, "ways": ways.cases}[sys.argv[1]]
    seen: set[str] = set()
    for name in chosen([*every], sys.argv[2:]):
        case = every[name]
        if name.startswith(UNTRACED):
            print("elsewhere", name, flush=True)
            continue
        start = time.monotonic()
        try:
            made = check(case, seen)
            print("right", name, made, "cubins", f"{time.monotonic() - start:.1f} s", flush=True)
        except Exception as error:
            print("wrong", name, repr(error)[:1000].replace("\\n", " | "), flush=True)
            traceback.print_exc(limit=-4)


if __name__ == "__main__":
    main()
