"""Translates Triton kernels to Gluon: the same program with a layout for each block, to go on from
by hand.

    print(convert_triton_to_gluon([kernel]))
    python -m tritium.tools.triton_to_gluon_translator package.module.kernel -o kernel_gluon.py

Blocks of one rank get one layout (`helpers.block_layout`), and functions whose results have another
are followed by `helpers.settle`, a change of layout. Products go through mma.sync, MFMA or WMMA.
Descriptors that kernels make, and block pointers, become pointers and masks (`memory_blocks`);
those of the host are copied by the engine (`engines`). The text is the same for all targets: the
helpers look at the one that the kernel is compiled for.
"""

from __future__ import annotations

from tritium.tools.triton_to_gluon_translator.slice_kernel import (
    find_references,
    slice_kernel,
    slice_kernel_from_trace,
)
from tritium.tools.triton_to_gluon_translator.target import TranslatorTarget
from tritium.tools.triton_to_gluon_translator.translator import (
    convert_triton_to_gluon,
    get_base_value,
    translate_kernels,
    translate_paths,
)

__all__ = ["TranslatorTarget", "convert_triton_to_gluon", "find_references", "get_base_value",
           "slice_kernel", "slice_kernel_from_trace", "translate_kernels",
           "translate_paths"]  # fmt: skip
