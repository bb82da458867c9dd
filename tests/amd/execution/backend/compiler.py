"""The AMD backend's compiler without LLVM's code generator: the stages ttir -> ttgir -> llir; the
last, `model`, is the text of the LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.amd.execution.backend import target
from tests.amd.execution.workgroup import Kernel
from tests.simt.backend.compiler import SmallArguments
from tritium.backends.amd import compiler as amd
from tritium.backends.amd import stages
from tritium.backends.amd.options import make_options
from tritium.backends.base import BaseBackend, Language, Stage
from tritium.passes import PassManager


class ModelBackend(amd.HIPBackend):
    """Compiles for a processor's model."""

    binary_ext, late_stages = "model", ()

    def hash(self) -> str:
        return f"model-{super().hash()}"

    def add_stages(
        self, made: dict[str, Stage], options: Any, language: Language = Language.TRITON
    ) -> None:
        super().add_stages(made, options, language)
        del made["amdgcn"], made["hsaco"]
        made["model"] = lambda text, facts: text.encode()

    def asm_views(self, metadata: Any) -> Mapping[str, Callable[[Mapping[str, Any]], str]]:
        return {}

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        """All arrays are small, as those of tests are, so that buffer instructions reach them."""
        return BaseBackend.get_tensor_specialization(arg, **kwargs) + "S"


def run_module(
    module: Any, arch: str, num_warps: int, slots: Sequence[int], grid: Sequence[int],
    ranges: Sequence[tuple[int, int]],
) -> None:  # fmt: skip
    """Compile the kernel of a ttir module, which is changed, without fused multiplication and
    addition, and run it."""
    options = make_options({"num_warps": num_warps, "enable_fp_fusion": False}, arch)
    facts: dict[str, Any] = {}
    PassManager([SmallArguments()]).run(module)
    module = stages.make_ttgir(stages.make_ttir(module, facts), facts, options)
    text = stages.make_llir(module, facts, options)
    lanes = target(arch).warp_size
    kernel = Kernel(text, arch, lanes, facts["num_warps"], facts["shared"],
                    last_first=lanes == 64)  # fmt: skip
    kernel(slots, grid, ranges)
