"""The reference's path of helpers for test suites of kernels: data, targets, conversions.

torch and pytest are imported by the functions that need them; neither is required otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.random import RandomState

from tritium import knobs
from tritium import language as tl
from tritium.backends.active import driver
from tritium.runtime import TensorWrapper, reinterpret
from tritium.target import GPUTarget
from tritium.testing.device import default_alloc_fn as default_alloc_fn

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})


def is_interpreter() -> bool:
    """True if kernels run in Python (`TRITON_INTERPRET=1`)."""
    return knobs.runtime.interpret


def get_current_target() -> GPUTarget | None:
    """The target of the active driver; None under the interpreter."""
    return None if is_interpreter() else driver.active.get_current_target()


def _backend() -> str:
    target = get_current_target()
    return "" if target is None else target.backend


def _capability() -> int:
    """CUDA's compute capability, as 90 for 9.0; 0 elsewhere."""
    target = get_current_target()
    return int(target.arch) if target is not None and target.backend == "cuda" else 0


def _gfx() -> str:
    """AMD's name of the processor; empty elsewhere."""
    target = get_current_target()
    return str(target.arch) if target is not None and target.backend == "hip" else ""


def is_cuda() -> bool:
    return _backend() == "cuda"


def is_hip() -> bool:
    return _backend() == "hip"


def is_xpu() -> bool:
    return _backend() == "xpu"


def is_cpu() -> bool:
    """True if kernels run natively on the CPU (of our own)."""
    return _backend() == "cpu"


def is_ampere_or_newer() -> bool:
    return _capability() >= 80


def is_hopper() -> bool:
    return _capability() // 10 == 9


def is_hopper_or_newer() -> bool:
    return _capability() >= 90


def is_blackwell() -> bool:
    return _capability() // 10 == 10


def is_sm12x() -> bool:
    return _capability() // 10 == 12


def is_hip_cdna2() -> bool:
    return _gfx() == "gfx90a"


def is_hip_cdna3() -> bool:
    return _gfx() == "gfx942"


def is_hip_cdna4() -> bool:
    return _gfx() == "gfx950"


def is_hip_cdna() -> bool:
    return is_hip_cdna2() or is_hip_cdna3() or is_hip_cdna4()


def is_hip_gfx11() -> bool:
    return _gfx().startswith("gfx11")


def is_hip_gfx12() -> bool:
    return _gfx().startswith("gfx12") and not is_hip_gfx1250()


def is_hip_gfx1250() -> bool:
    return _gfx() == "gfx1250"


def get_hip_lds_size() -> int:
    """Bytes of shared memory of an AMD workgroup: 160 KiB on CDNA 4, else 64 KiB."""
    return 163840 if is_hip_cdna4() else 65536


def get_arch() -> str:
    """The processor as its backend names it; empty under the interpreter."""
    target = get_current_target()
    return "" if target is None else str(target.arch)


def numpy_random(
    shape: int | Sequence[int],
    dtype_str: str,
    rs: RandomState | None = None,
    low: int | None = None,
    high: int | None = None,
) -> npt.NDArray[Any]:
    """Random test data.

    Integers are uniform over [low, high) (by default the type's range) and never 0, so that they
    can be divided by; floats are normal; `bfloat16` is float32 with bfloat16's values; `float8...`
    are random finite bit patterns as int8; `bool`, `int1` and `bool_` are random truth values.
    """
    if isinstance(shape, int):
        shape = (shape,)
    rs = RandomState(17) if rs is None else rs
    if dtype_str in int_dtypes + uint_dtypes:
        info = np.iinfo(dtype_str)
        low = int(info.min) if low is None else max(low, int(info.min))
        high = int(info.max) if high is None else min(high, int(info.max))
        integers = cast(Any, rs).randint(low, high, shape, dtype=dtype_str)
        integers[integers == 0] = 1
        return integers
    if dtype_str.startswith("float8"):
        return rs.randint(20, 40, shape, dtype=np.int8)
    if dtype_str in float_dtypes:
        return rs.normal(0, 1, shape).astype(dtype_str)
    if dtype_str == "bfloat16":
        bits = rs.normal(0, 1, shape).astype(np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype_str in ("bool", "int1", "bool_"):
        return rs.normal(0, 1, shape) > 0.0
    raise RuntimeError(f"numpy_random: unknown dtype {dtype_str!r}")


def to_triton(x: npt.NDArray[Any], device: Any, dst_type: str | None = None) -> Any:
    """A torch tensor on `device` with the data of `x`.

    Unsigned types that torch lacks come wrapped (`TensorWrapper`). `dst_type` may name another type
    to read the data as: `bfloat16` for float32 data, `float8...` for int8 data.
    """
    import torch  # this function's result is a torch tensor; the module works without

    name: str = cast(Any, x.dtype).name
    if name in uint_dtypes:
        signed: Any = x.astype(name.removeprefix("u"))
        return reinterpret(torch.tensor(signed, device=device), getattr(tl, name))
    if dst_type is not None and "float8" in dst_type:
        return reinterpret(torch.tensor(x, device=device), getattr(tl, dst_type))
    tensor = torch.tensor(x, device=device)
    return tensor.bfloat16() if name == "float32" and dst_type == "bfloat16" else tensor


def str_to_triton_dtype(x: str) -> Any:
    """The dtype of the language with this name, as torch or the language spells it."""
    return getattr(tl, {"bool": "int1", "float8_e5m2": "float8e5"}.get(x, x))


def torch_dtype_name(dtype: Any) -> str:
    """`float32` for `tl.float32` and for `torch.float32`."""
    if isinstance(dtype, tl.dtype):
        return dtype.name
    matched = re.match(r"^torch\.(\w+)$", str(dtype))
    if matched is None:
        raise TypeError(f"not a dtype of torch or of tritium.language: {type(dtype).__name__}")
    return matched[1]


def to_numpy(x: Any) -> npt.NDArray[Any]:
    """The data of a tensor, wrapped or not; bfloat16 as float32."""
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().astype(getattr(np, torch_dtype_name(x.dtype)))
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    return x.cpu().numpy()


def supports_tma(byval_only: bool = False) -> bool:
    """True if kernels with tensor descriptors in hardware can run: the interpreter or Hopper on."""
    return is_interpreter() or is_hopper_or_newer()


def supports_ws() -> bool:
    """True if warp specialization does something on the active device."""
    return is_hopper_or_newer()


def tma_skip_msg(byval_only: bool = False) -> str:
    return "Requires TMA: an NVIDIA GPU of compute capability 9.0 or above"


def _fresh_knobs_impl(  # pyright: ignore[reportUnusedFunction]  (the reference's name)
    skipped_attr: Collection[str] | None = None,
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Two functions: one gives `knobs` with all settings but those of the named groups at their
    defaults, the other puts everything back."""
    stack = ExitStack()

    def fresh() -> Any:
        stack.callback(setattr, knobs, "propagate_env", knobs.propagate_env)
        knobs.propagate_env = True
        for name, group in vars(knobs).items():
            if isinstance(group, knobs.base_knobs) and name not in (skipped_attr or ()):
                stack.enter_context(group.scope())
                group.reset()
                for knob in group.knob_descriptors.values():
                    knobs.setenv(knob.key, None)
        return knobs

    return fresh, stack.close


def unwrap_tensor(t: Any) -> Any:
    """The torch tensor in a `TensorWrapper`; others as they are."""
    return t.base if isinstance(t, TensorWrapper) else t


def __getattr__(name: str) -> Any:
    if name == "requires_tma":
        import pytest  # only test suites ask for the marker

        return pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
