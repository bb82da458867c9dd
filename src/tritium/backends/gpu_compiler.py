"""The part of compilers for GPUs that backends have in common: their first stages, and the form of
their last."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, cast

from tritium.backends.base import BaseBackend, Language, Stage, stage_method, unchanged


@cache
def llvmlite_version() -> str:
    """The version of the package with LLVM, which is not imported for it; to read its metadata
    takes as long as to link a small kernel."""
    return importlib.metadata.version("llvmlite")


class GPUBackend(BaseBackend):
    """Compiles for GPUs, by ttgir, to an ELF file; no GPU is needed for that."""

    binary_title: ClassVar[str]
    """The last stage's result in error messages."""
    make_ttgir = stage_method("ttgir")

    def add_first_stages(
        self, stages: dict[str, Stage], language: Language, options: Any,
        make_ttgir: Callable[..., Any], **facts: Any,
    ) -> None:  # fmt: skip
        """Fill in the stages up to ttgir. `make_ttgir`: makes it of ttir and the metadata; `facts`:
        as `pipelines.gluon` takes them."""
        # Here, because a process that finds its kernels in the cache never needs passes.
        from tritium.backends.pipeline import make_ttgir_of_gluon, make_ttir

        if language is Language.GLUON:
            stages["glir"] = unchanged
            stages["ttgir"] = lambda module, metadata: make_ttgir_of_gluon(
                module, metadata, options.instrumentation_mode, **facts
            )
        else:
            stages["ttir"], stages["ttgir"] = make_ttir, make_ttgir

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Products may be of any size: those that matrix units do not take are computed without."""

        def any_size(lhs: Any, rhs: Any) -> tuple[int, int, int]:
            return 1, 1, 1

        return {"min_dot_size": any_size}

    def parse_stage(self, stage: str, text: str, options: Any) -> Any:
        if stage == self.binary_ext and not cast("bytes", text).startswith(b"\x7fELF"):
            raise ValueError(f"this is no {self.binary_title}, which begins as all ELF files do")
        return super().parse_stage(stage, text, options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared
