"""Names below the reference's public ones that programs import."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium._C import libtriton
from tritium._C.libtriton import ir, native_specialize_impl
from tritium.backends.base import BaseBackend

TEXT = """
module {
  tt.func public @kernel(%x: i32, %p: !tt.ptr<i32>) {
    %0 = tt.call @callee(%x) : (i32) -> i32
    tt.store %p, %0 : !tt.ptr<i32>
    tt.return
  }
  tt.func private @callee(%x: i32) -> i32 {
    tt.return %x : i32
  }
}
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "kernel.ttir"
    file.write_text(TEXT)
    context = ir.context()
    ir.load_dialects(context)
    return ir.parse_mlir_module(str(file), context)


def test_walking_a_module(module):
    seen = []
    module.walk(seen.append)
    names = [op.get_name() for op in seen]
    assert names == [
        *("tt.call", "tt.store", "tt.return", "tt.func", "tt.return", "tt.func"),
        "builtin.module",
    ]
    functions = [op.get_str_attr("sym_name") for op in seen if op.get_name() == "tt.func"]
    assert functions == ["kernel", "callee"]
    call, store = seen[0], seen[1]
    assert call.get_flat_symbol_ref_attr("callee") == "callee"
    assert call.get_str_attr("callee") is None and store.get_str_attr("sym_name") is None
    assert call.get_num_results() == 1 and store.get_num_results() == 0
    assert store.get_operand(1).id() == call.get_result(0).id()
    assert call.get_block().id() == store.get_block().id()
    assert seen[3].get_region(0).size() == 1 and seen[-1].get_block() is None


def test_text_and_verification(module):
    assert module.verify()
    assert "tt.call @callee" in module.str_nodebug() and "loc(" not in module.str_nodebug()
    assert "loc(" in str(module)


@pytest.mark.parametrize(
    ("arg", "is_const", "specialize", "align", "expected"),
    [
        (5, False, True, True, ("i32", "")),
        (32, False, True, True, ("i32", "D")),
        (32, False, True, False, ("i32", "")),
        (1, False, True, True, ("constexpr", 1)),
        (1, False, False, False, ("i32", "")),
        (2**40, False, True, True, ("i64", "D")),
        (1.5, False, True, True, ("fp32", "")),
        (True, False, True, True, ("u1", "")),
    ],
)
def test_specialization_of_an_argument(arg, is_const, specialize, align, expected):
    assert native_specialize_impl(BaseBackend, arg, is_const, specialize, align) == expected


def test_specialization_of_an_array():
    x = np.zeros(64, np.float16)
    aligned = x[(-x.ctypes.data % 16) // 2 :]
    assert native_specialize_impl(BaseBackend, aligned, False, True, True) == ("*fp16", "D")
    assert native_specialize_impl(BaseBackend, aligned[1:], True, True, True) == ("*kfp16", "")


def test_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_SWITCH", " On ")
    assert libtriton.getenv("SOME_SWITCH") == "On" and libtriton.getenv("NO_SWITCH", "x") == "x"
    assert libtriton.getenv_bool("SOME_SWITCH", False) and libtriton.getenv_bool("NO_SWITCH", True)
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert libtriton.get_cache_invalidating_env_vars()["DISABLE_LLVM_OPT"] == "1"


def test_products_to_compare_with():
    torch = pytest.importorskip("torch")
    libtriton.nvidia.load_dialects(ir.context())
    cublas = libtriton.nvidia.cublas.CublasLt(torch.empty(8, dtype=torch.uint8))
    a, b, c = torch.randn(3, 5), torch.randn(4, 5), torch.randn(3, 4)
    out = torch.empty(3, 4)
    cublas.matmul(a, b, out)
    assert torch.allclose(out, a @ b.T)
    cublas.gemm(a, b, c, out, 2.0, 0.5)
    assert torch.allclose(out, 2 * a @ b.T + c / 2, atol=1e-5)
    with pytest.raises(ValueError, match=r"b \(4, 5\) and the result \(3, 3\) do not fit"):
        cublas.matmul(a, b, torch.empty(3, 3))


@pytest.mark.parametrize(
    "path",
    ["backends.nvidia.compiler.CUDABackend", "backends.nvidia.driver.CudaLauncher",
     "runtime._async_compile.AsyncCompileMode", "runtime._allocation._allocator",
     "knobs.JITHookCompileInfo", "_utils.canonicalize_dtype", "_utils.type_canonicalisation_dict",
     "_internal_testing._fresh_knobs_impl", "language.standard.zeros_like",
     "testing._summarize_statistics", "runtime.jit.find_paths_if", "runtime.jit.get_iterable_path",
     "compiler.compiler.driver", "compiler.compiler.get_cache_key",
     "compiler.compiler.get_cache_manager", "runtime.autotuner.get_cache_manager",
     "backends.nvidia.compiler.min_dot_size"],
)  # fmt: skip
def test_names_below(path):
    module, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(f"tritium.{module}"), name)
    assert not hasattr(importlib.import_module(f"tritium.{module}"), "no_such_name")


def test_names_of_tools_and_folders(tmp_path, monkeypatch):
    from tritium.backends.nvidia import compiler, driver
    from tritium.runtime.jit import get_full_name

    assert get_full_name(len) == "builtins.len"
    assert compiler.sm_arch_from_capability(80) == "sm_80"
    assert compiler.sm_arch_from_capability(90) == "sm_90a"
    assert compiler.ptx_get_version("12.4") == 84
    with knobs.nvidia.scope():
        knobs.nvidia.mock_ptx_version = "12.4"
        assert compiler.get_ptxas_version(90) == "12.4"
        knobs.nvidia.libcuda_path = str(tmp_path)
        assert driver.libcuda_dirs() == [str(tmp_path)] == driver.library_dirs()[-1:]
    with knobs.nvidia.scope():
        del knobs.nvidia.libcuda_path
        monkeypatch.delenv("TRITON_LIBCUDA_PATH", raising=False)
        (tmp_path / "libcuda.so.1").touch()
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
        assert driver.libcuda_dirs()[0] == str(tmp_path)


def test_linear_layouts():
    from tritium._C.libtriton.linear_layout import LinearLayout

    bases = [("register", [[1, 0], [2, 0]]), ("lane", [[0, 1], [4, 0], [0, 2]])]
    layout = LinearLayout.from_bases(bases, ["d0", "d1"])
    assert layout.bases == bases and layout.out_dims == [("d0", 8), ("d1", 4)]
    assert layout.is_invertible() and layout.num_in_dims == layout.num_out_dims == 2
    assert layout.apply({"register": 3, "lane": 5}) == {"d0": 3, "d1": 3}
    for register in range(4):
        for lane in range(8):
            there = layout.apply({"register": register, "lane": lane})
            assert layout.invert().apply(there) == {"register": register, "lane": lane}
    flat = LinearLayout.from_bases([("d0", [[1], [2], [4]]), ("d1", [[8], [16]])], ["off"])
    assert layout.compose(flat).apply({"register": 2, "lane": 1}) == {"off": 10}
    twice = LinearLayout.identity_1d(4, "x", "y") * LinearLayout.identity_1d(2, "x", "y")
    assert twice == LinearLayout.identity_1d(8, "x", "y")
    strided = LinearLayout.strided_1d(4, 2, "x", "y")
    assert strided.bases == [("x", [[2], [4]])] and strided.out_dims == [("y", 8)]
    assert not strided.is_surjective() and strided.is_injective()
    assert strided.get_matrix_view() == [[0, 0], [1, 0], [0, 1]]
    doubled = LinearLayout.from_bases([("r", [[1], [1]]), ("l", [[3]])], ["o"])
    assert doubled.get_matrix_view() == [[1, 1, 1], [0, 0, 1]]
    for out in range(4):
        assert doubled.apply(doubled.pseudoinvert().apply({"o": out})) == {"o": out}
    with pytest.raises(ValueError, match="each needs a number for each of the output dimensions"):
        LinearLayout.from_bases([("r", [[1, 0], [1]])], ["a", "b"])
    zeros = LinearLayout.zeros_1d(4, "x", "y")
    assert zeros.apply({"x": 3}) == {"y": 0} and not zeros.is_injective()
    for wrong in (
        lambda: LinearLayout.from_bases([("r", [[1], [1]])], ["o"], [4]),
        lambda: LinearLayout.identity_1d(3, "a", "b"),
        lambda: LinearLayout.strided_1d(4, 3, "a", "b"),
        zeros.invert,
    ):
        with pytest.raises(ValueError):
            wrong()


def test_views_of_linear_layouts():
    from tritium._C.libtriton.linear_layout import LinearLayout

    bases = [("register", [[0, 8]]), ("lane", [[0, 1], [0, 2], [0, 4]]), ("warp", [[1, 0]])]
    layout = LinearLayout.from_bases([*bases, ("block", [])], ["d0", "d1"])
    rows = [[f"T{8 * r + c % 8}:{c // 8}".rjust(5) for c in range(16)] for r in range(2)]
    assert layout.get_distributed_view(False) == (
        f"[[{', '.join(rows[0])}]\n[ {', '.join(rows[1])}]]\n"
    )
    there = [", ".join(f"({row},{c:2})" for c in range(8)) for row in range(2)]
    then = [", ".join(f"({row},{c:2})" for c in range(8, 16)) for row in range(2)]
    assert layout.get_distributed_view(True) == (
        f"Warp0:\n{there[0]}\n{then[0]}\nWarp1:\n{there[1]}\n{then[1]}\n"
    )
    one = [("register", [[1]]), ("lane", [[0]]), ("warp", []), ("block", [[2]])]
    assert LinearLayout.from_bases(one, ["d0"]).get_distributed_view(False) == (
        "[B0:T0:0|B0:T1:0, B0:T0:1|B0:T1:1, B1:T0:0|B1:T1:0, B1:T0:1|B1:T1:1]\n"
    )
    shared = LinearLayout.from_bases(
        [("offset", [[0, 0, 1], [0, 1, 1], [1, 0, 0]]), ("block", [])], ["d0", "d1", "d2"]
    )
    assert shared.get_shared_view(False) == (
        "[[[(0:0:0),(0:0:1)]\n[  (0:1:1),(0:1:0)]]\n[[ (1:0:0),(1:0:1)]\n[  (1:1:1),(1:1:0)]]]\n"
    )
    flat = LinearLayout.from_bases([("offset", [[2]]), ("block", [[1]])], ["d0"])
    assert flat.get_shared_view(True) == (
        "Block: 0:\nOffset: 0 -> (0)\nOffset: 1 -> (2)\n"
        "Block: 1:\nOffset: 0 -> (1)\nOffset: 1 -> (3)\n"
    )
    assert str(flat) == (
        "\n - offset=1 -> (2)\n - block=1 -> (1)\nwhere out dims are: [d0 (size 4)]"
    )
    with pytest.raises(ValueError, match="this view needs register, lane, warp, too"):
        flat.get_distributed_view(False)
    with pytest.raises(ValueError, match="this view needs offset, too"):
        layout.get_shared_view(True)


def test_memory_accesses_of_interpreters():
    from tritium._C.libtriton import interpreter

    def places(array: np.ndarray) -> np.ndarray:
        start = np.uint64(array.ctypes.data)
        return (start + np.arange(array.size, dtype=np.uint64) * 4).reshape(array.shape)

    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    mask = data % 3 == 0
    loaded = interpreter.load(places(data)[:, ::2], mask[:, ::2], data[:, ::2] + 100, np.int32)
    assert (loaded == np.where(mask, data, data + 100)[:, ::2]).all()
    interpreter.store(places(data)[1:], data[1:] * 10, mask[1:])
    assert data.reshape(-1).tolist() == [0, 1, 2, 3, 4, 5, 60, 7, 8, 90, 10, 11]
    kinds, relaxed = interpreter.RMW_OP, interpreter.MEM_SEMANTIC.RELAXED
    one, values = np.zeros(1, np.int32), np.arange(1, 5, dtype=np.int32)
    found = interpreter.atomic_rmw(
        kinds.ADD, np.repeat(places(one), 4), values, np.array([1, 1, 0, 1], bool), relaxed
    )
    assert found.tolist() == [0, 1, 0, 3] and one == 7
    assert interpreter.atomic_cas(places(one), one + 1, one, relaxed) == 7 and one == 7
    assert interpreter.atomic_cas(places(one), one.copy(), one - 9, relaxed) == 7 and one == -2
    third = np.float32([1 / 3])
    assert interpreter.fma_fp32(third, third, -third * third) == np.float32(
        np.float64(third) ** 2 - np.float64(third * third)
    )
    with pytest.raises(ValueError, match="atomic_rmw FADD of int32"):
        interpreter.atomic_rmw(kinds.FADD, places(values), values, values > 0, relaxed)
    with pytest.raises(ValueError, match=r"float64.* float32 of one shape is required"):
        interpreter.fma_fp32(third, third.astype(np.float64), third)
    with pytest.raises(ValueError, match="addresses are uint64"):
        interpreter.load(values, mask, data, np.int32)


def test_a_pipeline_of_passes_by_their_names(module):
    from tritium._C.libtriton import passes

    pm = ir.pass_manager(ir.context())
    pm.enable_debug()
    passes.common.add_inliner(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttir.add_combine(pm)
    passes.common.add_symbol_dce(pm)
    pm.run(module, "make_ttir")
    text = module.str_nodebug()
    assert "callee" not in text and "tt.store %arg1, %arg0" in text
    passes.ttir.add_convert_to_ttgpuir(pm, "cuda:90", 4, 32, 1)
    passes.ttgpuir.add_coalesce(pm)
    passes.ttgpuir.add_pipeline(pm, 3, False)
    pm.run(module, "make_ttgir")
    assert '"ttg.num-warps" = 4' in module.str_nodebug()


def test_what_is_not_built_names_itself():
    from tritium._C.libtriton import llvm, passes

    llvm.init_targets()
    assert llvm.OPTIMIZE_O3 == 3 and not hasattr(llvm, "nothing")
    with pytest.raises(NotImplementedError, match=r"llvm\.translate_to_mir"):
        llvm.translate_to_mir("", "", "", "", [], True, "")
    with pytest.raises(NotImplementedError, match="to_module of ModuleOp: LLVM IR text is"):
        llvm.to_module(ModuleOp([]), llvm.context())
    with pytest.raises(NotImplementedError, match=r"translate_to_asm: flags \['fast'\]"):
        llvm.translate_to_asm("", "", "", "", ["fast"], True, False)
    pm = ir.pass_manager(ir.context())
    with pytest.raises(NotImplementedError, match=r"passes\.ttgpuir\.add_warp_specialize"):
        passes.ttgpuir.add_warp_specialize(pm, 3)
    with pytest.raises(NotImplementedError, match="'hip:gfx942' with 32 threads"):
        passes.ttir.add_convert_to_ttgpuir(pm, "hip:gfx942", 4, 32, 1)


CALLER = """
declare i32 @twice(i32)
define i32 @more(i32 %x) {
  %y = call i32 @twice(i32 %x)
  %z = add i32 %y, 1
  ret i32 %z
}
"""
LIBRARY = "define i32 @twice(i32 %x) {\n  %y = mul i32 %x, 2\n  ret i32 %y\n}"


def test_modules_of_llvm(tmp_path: Path) -> None:
    from tritium._C.libtriton import llvm

    triple, arch, features = "nvptx64-nvidia-cuda", "sm_90a", "+ptx87"
    mod = llvm.to_module(CALLER, llvm.context())
    declared = {f.name: f.is_declaration() for f in mod.get_functions()}
    assert declared == {"twice": True, "more": False}
    llvm.attach_datalayout(mod, triple, arch, features)
    assert f'target triple = "{triple}"' in str(mod) and "target datalayout" in str(mod)
    (tmp_path / "library.bc").write_bytes(llvm.to_bitcode(LIBRARY))
    llvm.link_extern_libs(mod, [str(tmp_path / "library.bc")])
    assert {f.name: f.is_external_linkage() for f in mod.get_functions()} == {
        "twice": False, "more": True,
    }  # fmt: skip
    llvm.optimize_module(mod, llvm.OPTIMIZE_O3, arch, features)
    assert [f.name for f in mod.get_functions()] == ["more"]
    with pytest.raises(NotImplementedError, match="levels of size"):
        llvm.optimize_module(mod, llvm.OPTIMIZE_Oz, arch, features)
    assembly = llvm.translate_to_asm(str(mod), triple, arch, features, [], True, False)
    assert ".visible .func" in assembly and "shl.b32" in assembly
    host = llvm.translate_to_asm(str(CALLER), "x86_64-unknown-linux-gnu", "", "", [], True, True)
    assert host.startswith(b"\x7fELF")


def test_the_host_is_found_where_programs_import_it() -> None:
    from tritium.backends.cpu import host as imported
    from tritium.native.host import host

    assert imported.host is host and imported.host().vector_bits >= 128
