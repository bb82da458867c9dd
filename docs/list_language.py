"""Writes docs/language.md: every public name of `tritium.language`, from its signature, its
docstring and what is said here of differences from the reference.

    python docs/list_language.py

A test compares the file with what this would write.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "language.md"

GROUPS: dict[str, str] = {
    "Programs": "program_id num_programs",
    "Making blocks": "arange full zeros zeros_like to_tensor full_like_type",
    "Types": """dtype int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16
        float32 float64 float8e5 float8e4nv float8e4b8 float8e5b16 float8e4b15 void pi32_t
        pointer_type block_type tensor_descriptor_type tuple_type constexpr_type const str_to_ty
        TRITON_MAX_TENSOR_NUMEL""",
    "Values": """tensor tensor_descriptor tuple constexpr constexpr_function slice PropagateNan
        aggregate_replace""",
    "Conversions": "cast",
    "Arithmetic and comparison": """add sub mul fma fdiv div_rn cdiv umulhi minimum maximum clamp
        where logical_and logical_or logical_not abs""",
    "Mathematics": "exp exp2 log log2 sin cos sqrt sqrt_rn rsqrt erf ceil floor sigmoid softmax",
    "Shapes": """reshape view ravel trans permute squeeze unsqueeze expand_dims broadcast
        broadcast_to join split interleave cat flip swizzle2d""",
    "Memory": """load store make_block_ptr advance make_tensor_descriptor load_tensor_descriptor
        store_tensor_descriptor""",
    "Atomics": """atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg
        atomic_cas atomic_load atomic_store atomic_poll""",
    "Matrix products": "dot dot_scaled",
    "Reductions": "reduce sum max min argmax argmin xor_sum reduce_or",
    "Scans": "associative_scan cumsum cumprod",
    "Sorting, gathering, counting": "sort topk bitonic_merge gather histogram",
    "Functions of the user's": "map_elementwise inline_asm_elementwise",
    "Random numbers": """rand randn randint rand4x randn4x randint4x philox philox_impl
        uint_to_uniform_float pair_uniform_to_normal""",
    "Loops": "range static_range condition common_integer_type",
    "Hints": "multiple_of max_contiguous max_constancy assume debug_barrier",
    "Checks and printing": """static_assert static_print device_assert device_print
        expect_zero""",
}

MODULES = ("core", "math", "random", "standard", "extra")
"""Submodules that programs name."""

_NAN = "NaN counts as the largest number, whatever its sign, and -0 sorts before +0; the reference \
leaves both to the order of comparisons. On the CPU and in the interpreter it is one op, `tt.sort`."
_NAN_INDEX = (
    "With indices NaN loses against every number too; the reference leaves it to the order of "
    "comparisons."
)
_HINT = "accepted; has no effect on the CPU beyond what the promise lets it simplify"
_ATOMIC = (
    "`\"cta\"` takes no locked instruction, as a program runs on one thread; `\"gpu\"` is this "
    "process; other processes that share the memory need `\"sys\"`"
)
DIFFERENCES: dict[str, str] = {
    "cast": "Conversions to 8-bit floats saturate, infinities included, as the reference compiles \
them for sm_90. All fp8 types can be converted on every target.",
    "fma": "Fused on the CPU too: rounded once.",
    "fdiv": "Correctly rounded on the CPU, with `approx` too; on a GPU `div.approx.f32` then.",
    "sqrt": "Correctly rounded on the CPU.",
    "exp": "Polynomials in vector registers on the CPU, with error bounds that tests enforce.",
    "cat": "Keeps the order on the CPU, with `can_reorder` too.",
    "view": "Keeps the row-major order on the CPU.",
    "load": "Without `other`, masked elements are 0 (the reference leaves them undefined). \
`cache_modifier` and `eviction_policy` are checked and have no effect on the CPU.",
    "store": "Where addresses are equal, the last element in row-major order wins on the CPU. \
`cache_modifier` and `eviction_policy` are checked and have no effect there.",
    "make_tensor_descriptor": "Needs no allocator on the CPU; the restrictions of the reference \
(strides, bytes of the innermost axis) are kept.",
    "atomic_add": f"Floats are added by a compare-exchange loop on the CPU, and {_ATOMIC}.",
    "atomic_max": f"On the CPU {_ATOMIC}.",
    "atomic_min": f"On the CPU {_ATOMIC}.", "atomic_and": f"On the CPU {_ATOMIC}.",
    "atomic_or": f"On the CPU {_ATOMIC}.", "atomic_xor": f"On the CPU {_ATOMIC}.",
    "atomic_xchg": f"On the CPU {_ATOMIC}.",
    "atomic_cas": f"Numbers are of the element type, and the result is (there both are of the \
number's own type, and most element types refused). On the CPU {_ATOMIC}.",
    "dot": "On the CPU any M, N and K of at least 1 are allowed, `input_precision` is ieee unless \
said otherwise, and `max_num_imprecise_acc` has no effect: sums are float32 throughout.",
    "reduce": "The function is taken to be commutative as well as associative.",
    "max": _NAN_INDEX, "min": _NAN_INDEX, "argmax": _NAN_INDEX, "argmin": _NAN_INDEX,
    "sort": _NAN, "topk": _NAN,
    "gather": "Indices are taken modulo the size of the axis on the CPU (the reference leaves \
those outside undefined).",
    "histogram": "Values outside of 0 to `num_bins` - 1 are not counted (undefined there).",
    "inline_asm_elementwise": "The assembly is that of the target: PTX for NVIDIA, the host's on \
the CPU. The interpreter cannot run it.",
    "range": "`disallow_acc_multi_buffer` has an effect on Blackwell, where the sums of a fused \
loop of tiles (`flatten`) have two places in turn, `warp_specialize` one on Hopper and Blackwell \
for loads by descriptors, `num_stages` \
and `flatten` none on the CPU. On GPUs loads of a product's operands, with `num_stages` all loads, \
may pass stores to other arguments; none passes a store to its own, or a barrier. Counts as \
Python's does up to the ends of its type, unsigned bounds as such; on NVIDIA \
GPUs only while the bounds are less than 2**31 (of int64 2**63) apart, beyond which ptxas takes \
wrong numbers of turns.",
    "debug_barrier": "Nothing to wait for on the CPU: a program is one thread's work.",
    "multiple_of": f"A hint: {_HINT}.", "max_contiguous": f"A hint: {_HINT}.",
    "max_constancy": f"A hint: {_HINT}.",
    "device_print": "On the CPU the lines go to the process's standard output.",
    "device_assert": "On the CPU and in the interpreter it raises, with the source line and the \
program's id.",
}

HEAD = """# The language

Every public name of `tritium.language` (`tl`), and what differs from the reference, Triton 3.9, if
anything: where the last column is empty, nothing does. Written by `python docs/list_language.py`
from docstrings; a test compares. `tl.extra.libdevice` has the reference's {libdevice} functions.

What holds everywhere:

- Results have the types that Triton 3.9 gives them. Programs for 3.6 see this: minima, maxima,
  `clamp`, `cumsum` and `cumprod` of bfloat16 stay bfloat16; a number that is compared, or an
  operand of `minimum`, `clamp` or `fma`, takes the tensor's type and must fit in it, so that an
  int8 `x < 300` is an error. What 3.9 dropped (block pointers, `softmax(x, 0, True)`, more indices
  than axes) is there still.
- One definition for all backends: an op's `evaluate` in `src/tritium/ops/`. The CPU's native code,
  the interpreter (`TRITON_INTERPRET=1`) and ttir before and after each pass are compared on random
  kernels (`make fuzz MINUTES=10`).
- Integer arithmetic wraps around. What the reference leaves undefined is defined on the CPU: a
  division by zero gives 0, shifts by the width or more give 0 (or the sign).
- A float that an integer type cannot hold becomes, on the CPU, the smallest signed integer. For
  unsigned types, negative numbers and NaN are converted to the signed type of that width, and a
  number that is too large becomes 0. Results of 8 and 16 bits are the low bits of that of 32 bits.
  (So does NumPy on x86-64. GPUs saturate, and NaN becomes 0.)
- A number that a kernel assigns to a name (one not declared `tl.constexpr`) promotes with the dtype
  that it has alone, as the scalar tensor that it is in the reference; but its value stays known at
  compile time, so that it may be a shape or a condition, and is exact in float64.
  An argument that is compiled in because it is 1 likewise: it computes, and has the attributes, as
  any other number given for that parameter.
- Arithmetic and comparisons of 8-bit floats are done in float32; results are rounded to the type as
  conversions are.
- An aggregate with several names is one, as in Python. Where a loop or a condition known at run
  time makes it uncertain which one a name stands for, assigning a field is an error.
- A kernel is compiled with the values of the globals that it reads, of attributes of modules,
  classes and objects in a `constexpr`, and of what functions that it calls at compile time read.
  Where one has changed, the next launch raises; the reference notices globals alone.
- The interpreter runs a kernel as Python: of branches and returns it sees the ones that are taken,
  and so accepts different types in those that are not, and code there that does not compile.
- `num_warps`, `num_stages`, `num_ctas` and `maxnreg` are accepted on the CPU and have no effect.
"""

CUDA = """
## What only NVIDIA GPUs have: `tl.extra.cuda`

On the CPU `num_warps` and `num_threads` say what the launch asked for, and `gdc_wait` and
`gdc_launch_dependents` do nothing there and in the interpreter: a grid starts when those before it
have ended. The others, which are PTX, are errors in both.

| | |
|---|---|
"""

SPEED = """
## Speed on the CPU

`python -m benchmarks.ops_cpu` measures each kind of op against NumPy and torch on one thread
([figures](../benchmarks/results/ops_cpu.json)). What bounds them:

- Reductions, casts, flips and interleaving read and write as fast as the caches give: bytes divided
  by bandwidth, 80 to 95 GB/s out of the third-level cache of a Zen 4, as for all libraries.
- Scans take the latency of one combination for each vector (`log2(lanes)` steps within it).
- A sort is a bitonic network: `log2(n) (log2(n) + 1) / 2` comparators for each pair of elements,
  one minimum and one maximum of a vector each; below a vector's length, two shuffles more.
- Histograms, and gathers from long rows, are one load (and store) for each element. Gathers along
  the last axis from rows of up to 256 floats (with AVX-512) are permutations of registers.
- Transpositions move squares of vectors through registers: `log2(lanes)` shuffles a vector.
- An atomic operation is one locked instruction: about 2.3 ns each (2.5 to 4 where the memory is not
  in the first-level cache), unless nothing else runs in the process: then it is a load and a store.
  The loops of NumPy and torch that it is measured against are not atomic.
"""


def public_names() -> list[str]:
    """Public names of `tritium.language`, modules left out."""
    tl = importlib.import_module("tritium.language")
    return sorted(
        n for n in dir(tl)
        if not n.startswith("_") and n != "annotations"
        and not isinstance(getattr(tl, n), types.ModuleType)
    )  # fmt: skip


def listed() -> dict[str, list[str]]:
    """The names of each group."""
    return {title: names.split() for title, names in GROUPS.items()}


def cuda_rows() -> str:
    """The functions of `tl.extra.cuda`."""
    cuda = importlib.import_module("tritium.language.extra.cuda")
    names = [n for n in cuda.__all__ if n != "libdevice"]
    found = ((n, getattr(cuda, n)) for n in names)
    return "".join(f"| `extra.cuda.{n}{parameters(f)}` | {summary(n, f)} |\n" for n, f in found)


def row(name: str) -> str:
    """A line of the table."""
    tl = importlib.import_module("tritium.language")
    found = getattr(tl, name)
    difference = " ".join(DIFFERENCES.get(name, "").split())
    return f"| `{name}{parameters(found)}` | {summary(name, found)} | {difference} |"


def parameters(found: Any) -> str:
    """The parameters' names."""
    function = getattr(found, "fn", found)
    if inspect.isclass(function) or not callable(function) or isinstance(found, int):
        return ""
    try:
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        names = [
            stars.get(p.kind, "") + p.name
            for p in inspect.signature(function).parameters.values()
            if not p.name.startswith("_")
        ]
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(names)})"


def summary(name: str, found: Any) -> str:
    """The first sentence of the docstring."""
    tl = importlib.import_module("tritium.language")
    if isinstance(found, tl.dtype):
        return f"The type `{found.name}`."
    if isinstance(found, int):
        return f"The largest number of elements of a block: {int(found)}."
    if isinstance(found, tl.pointer_type):
        return "Pointers to int32."
    text = inspect.getdoc(getattr(found, "fn", found)) or inspect.getdoc(found) or ""
    text = " ".join(text.split("\n\n")[0].split())
    first = re.split(r"(?<=[.:;])\s(?=[A-Z])", text)[0]
    return first.replace("|", "\\|").rstrip(":")


def text() -> str:
    """The whole file."""
    libdevice = importlib.import_module("tritium.language.extra.libdevice")
    count = len([n for n in dir(libdevice) if not n.startswith("_")])
    parts = [HEAD.format(libdevice=count)]
    for title, names in listed().items():
        parts.append(f"\n## {title}\n\n| | | differs |\n|---|---|---|\n")
        parts.append("".join(row(name) + "\n" for name in names))
    return "".join(parts) + CUDA + cuda_rows() + SPEED


if __name__ == "__main__":
    PATH.write_text(text())
