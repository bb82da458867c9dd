"""Passes under the reference's names: `passes.common.add_cse(pm)` for an `ir.pass_manager`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tritium.passes import ttgir
from tritium.passes import ttir as tile_passes
from tritium.passes.base import Pass
from tritium.target import processor_named

from .ir import pass_manager

_Maker = Callable[..., Pass]


def _convert(target: str, num_warps: int, threads_per_warp: int, num_ctas: int) -> Pass:
    try:
        built = threads_per_warp == processor_named(target).lanes
    except RuntimeError:  # no backend
        built = False
    if not built:
        raise NotImplementedError(
            f"add_convert_to_ttgpuir: {target!r} with {threads_per_warp} threads a warp is not "
            "built; 'cuda:90' with 32 is"
        )
    return ttgir.ConvertTTIRToTTGIR(num_warps=num_warps, num_ctas=num_ctas, target=target)


def _pipeline(num_stages: int, dump: bool = False) -> Pass:
    return ttgir.Pipeline(num_stages=num_stages)


_BUILT: dict[str, dict[str, _Maker]] = {
    "common": {
        "add_inliner": tile_passes.Inline, "add_canonicalizer": tile_passes.Canonicalize,
        "add_cse": tile_passes.CSE, "add_licm": tile_passes.LICM,
        "add_symbol_dce": tile_passes.SymbolDCE,
    },
    "ttir": {
        "add_combine": tile_passes.Combine, "add_loop_unroll": tile_passes.Unroll,
        "add_reorder_broadcast": tile_passes.ReorderBroadcast,
        "add_triton_licm": tile_passes.LICM, "add_loop_aware_cse": tile_passes.CSE,
        "add_rewrite_tensor_pointer": tile_passes.TensorPointers,
        "add_rewrite_tensor_descriptor_to_pointer": tile_passes.TensorPointers,
        "add_convert_to_ttgpuir": _convert,
    },
    "ttgpuir": {
        "add_coalesce": ttgir.Coalesce, "add_accelerate_matmul": ttgir.AccelerateMatmul,
        "add_remove_layout_conversions": ttgir.AssignLayouts,
        "add_optimize_thread_locality": ttgir.ThreadLocality,
        "add_fuse_nested_loops": ttgir.FuseNestedLoops,
        "add_pipeline": _pipeline,
    },
}  # fmt: skip
_NOT_BUILT = {
    "common": "add_sccp print_ir",
    "convert": """add_arith_to_llvmir add_cf_to_llvmir add_index_to_llvmir add_nvvm_to_llvm
        add_scf_to_cf""",
    "gluon": """add_canonicalizer add_infer_coalesced_encodings add_inliner
        add_resolve_auto_encodings""",
    "llvmir": "add_di_local_variable add_di_scope",
    "ttgpuir": """add_allocate_global_scratch_memory add_allocate_shared_memory
        add_allocate_warp_groups add_assign_latencies add_coalesce_async_copy
        add_combine_tensor_select_and_if add_concurrency_sanitizer add_f32_dot_tc
        add_hoist_tmem_alloc add_optimize_accumulator_init add_optimize_dot_operands
        add_optimize_partition_warps add_prefetch add_reduce_data_duplication
        add_reorder_instructions add_schedule_loops add_warp_specialize""",
}


def _adder(make: _Maker) -> Callable[..., None]:
    def add(pm: pass_manager, *args: Any, **kwargs: Any) -> None:
        pm.passes.append(make(*args, **kwargs))

    return add


def _missing(name: str) -> Callable[..., None]:
    def add(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"triton._C.libtriton.passes.{name}: Tritium has no pass of this kind; "
            "`tritium opt --list` shows those it has"
        )

    return add


def _group(name: str) -> SimpleNamespace:
    missing = _NOT_BUILT.get(name, "").split()
    functions: dict[str, Any] = {n: _missing(f"{name}.{n}") for n in missing}
    functions.update((n, _adder(make)) for n, make in _BUILT.get(name, {}).items())
    return SimpleNamespace(**functions)


common, convert, gluon = _group("common"), _group("convert"), _group("gluon")
llvmir, ttgpuir = _group("llvmir"), _group("ttgpuir")
ttir = _group("ttir")
