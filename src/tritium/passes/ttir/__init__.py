"""Passes over ttir, one a file."""

from tritium.passes.base import Pass
from tritium.passes.ttir.call_facts import CallFacts
from tritium.passes.ttir.canonicalize import Canonicalize
from tritium.passes.ttir.combine import Combine
from tritium.passes.ttir.cse import CSE
from tritium.passes.ttir.dce import DCE
from tritium.passes.ttir.dot_precision import DotPrecision
from tritium.passes.ttir.inline import Inline
from tritium.passes.ttir.licm import LICM
from tritium.passes.ttir.narrow_reductions import NarrowReductions
from tritium.passes.ttir.reorder_broadcast import ReorderBroadcast
from tritium.passes.ttir.reshape_accesses import ReshapeAccesses
from tritium.passes.ttir.scaled_dot import ScaledDot
from tritium.passes.ttir.structure import Structure
from tritium.passes.ttir.symbol_dce import SymbolDCE
from tritium.passes.ttir.tensor_pointers import TensorPointers
from tritium.passes.ttir.transpose_products import TransposeProducts
from tritium.passes.ttir.uniform_advance import UniformAdvance
from tritium.passes.ttir.uniform_atomics import UniformAtomics
from tritium.passes.ttir.unroll import Unroll

PASSES: tuple[type[Pass], ...] = (
    CallFacts, Canonicalize, Combine, CSE, DCE, DotPrecision, Inline, LICM, NarrowReductions,
    ReorderBroadcast, ReshapeAccesses, ScaledDot, Structure, SymbolDCE, TensorPointers,
    TransposeProducts, UniformAdvance, UniformAtomics, Unroll,
)  # fmt: skip
