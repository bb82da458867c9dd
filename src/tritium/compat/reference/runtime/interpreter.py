"""The reference's path of kernels under `TRITON_INTERPRET=1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritium.ir.types import numpy_dtype
from tritium.language import emitter
from tritium.language.emitter import Evaluated
from tritium.language.semantic import OperationBuilder
from tritium.language.values.types import dtype
from tritium.runtime.interface import Grid
from tritium.runtime.interpreted import InterpretedFunction

__all__ = ["GridExecutor", "InterpretedFunction", "InterpreterBuilder", "TensorHandle",
           "interpreter_builder"]  # fmt: skip


class _Handles(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Evaluated)


class TensorHandle(Evaluated, metaclass=_Handles):
    """The handle of a tensor of an interpreted kernel. All such handles are instances.

    Args:
        data: the elements; a scalar has one dimension of one. Of bfloat16 and FP8 the bits.
        dtype: the language's type of an element.

    Raises `ValueError` if the elements of `data` are wider than those of `dtype`.
    """

    def __init__(self, data: np.ndarray, dtype: dtype):
        width = 64 if dtype.is_ptr() else dtype.primitive_bitwidth
        if data.dtype != np.bool_ and data.itemsize * 8 > width:
            raise ValueError(
                f"numpy data itemsize ({data.itemsize * 8} bits) exceeds dtype primitive_bitwidth "
                f"({width} bits) for triton type {dtype}"
            )
        type = dtype.to_ir()
        storage = numpy_dtype(type)
        bits = data.dtype.kind == "u" and data.itemsize == storage.itemsize
        super().__init__(type, data.view(storage) if bits else data.astype(storage))

    def read_as(self, type: dtype) -> Evaluated:
        """The handle of the same elements for a tensor of this type; a scalar's is one number."""
        array = self.array if type.is_block() else self.array.reshape(-1)[0]
        return Evaluated(type.to_ir(), array).read_as(type)


class InterpreterBuilder(OperationBuilder):
    """State of the running interpreted program, for tools that inspect it.

    The reference's interpreter also evaluates each operation by a method `create_...` of its
    builder, which tools may replace. Here operations evaluate themselves (`tritium.ops`): names
    that `OperationBuilder` does not have raise `NotImplementedError`.
    """

    @property
    def grid_idx(self) -> tuple[int, int, int]:
        """The program's place in the grid. Raises `ValueError` outside of an interpreted kernel."""
        return self._running().program_id

    @property
    def grid_dim(self) -> tuple[int, int, int]:
        """The grid's sizes. Raises `ValueError` outside of an interpreted kernel."""
        return self._running().num_programs

    @staticmethod
    def _running() -> Any:
        current: Any = emitter.current()
        if not hasattr(current, "program_id"):
            raise ValueError("interpreter_builder: no interpreted kernel is running")
        return current


interpreter_builder = InterpreterBuilder()


class GridExecutor:
    """Runs a function as an interpreted kernel for each program of a grid.

    Args:
        fn: the function, which need not be under `jit`.
        arg_names: the names of its parameters.
        grid: 1 to 3 sizes, or a function of the arguments by name that returns them.
        pre_run_hooks: called with the arguments before the programs run.
    """

    def __init__(
        self, fn: Callable[..., object], arg_names: Sequence[str], grid: Grid,
        pre_run_hooks: Sequence[Callable[..., object]] = (),
    ):  # fmt: skip
        self.fn, self.arg_names, self.grid = fn, arg_names, grid
        self.pre_run_hooks = pre_run_hooks
        self._function = InterpretedFunction(fn)
        self.constexprs = [p.name for p in self._function.params if p.is_constexpr]

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Run all programs. Raises `InterpreterError` for what goes wrong in one."""
        self._function.pre_run_hooks = list(self.pre_run_hooks)
        self._function.run(*args, grid=self.grid, warmup=False, **kwargs)
