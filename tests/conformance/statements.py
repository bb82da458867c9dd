"""More kinds of statement for random kernels: sorting, gathers, scans, products, atomics, pointers
with odd strides, block pointers, descriptors, early returns, calls.

`programs.Generator` has these besides its own. Indices into memory are kept in bounds by masks of
bits or remainders, so that every program is defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.conformance.checking import View
from tests.conformance.nodes import Assign, Block, Effect, Shape, Store, Var
from tests.conformance.support import DTYPES, FLOATS, FP8, INTEGERS, SIGNED, UNSIGNED, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDE = ("int32", "int64", "uint32", "uint64")


class Statements:
    """Methods of a generator; each returns a node, or None where nothing in the pool fits."""

    if TYPE_CHECKING:
        pick: Callable[[Sequence[Any]], Any]
        some: Callable[..., Var | None]
        new: Callable[..., Var]
        _result: Callable[..., Assign]
        pool: list[Var]
        arrays: dict[str, np.ndarray | View]
        how: dict[str, Any]
        count: int
        m: int
        n: int
        grid: int

    def _tile(self, test: Callable[[Var], bool] = lambda v: True) -> Var | None:
        return self.some(lambda v: bool(v.shape) and test(v))

    def _integers(self, var: Var, dtype: str = "int32") -> str:
        """`var` as integers of a dtype."""
        if var.dtype == dtype:
            return var.name
        if var.dtype in FLOATS:
            return f"safe_int({var.name}).to(tl.{dtype})"
        return f"{var.name}.to(tl.{dtype})"

    def array(self, dtype: str, size: int) -> str:
        """A new argument, of values as inputs have."""
        name = f"y{len(self.arrays)}"
        values = samples(dtype, max(size, 8), len(self.arrays))[:size]
        if dtype in FLOATS:
            with np.errstate(all="ignore"):
                wide = np.where(np.abs(values.astype(np.float64)) < 50, values, 1)
            values = wide.astype(DTYPES[dtype])
        self.arrays[name] = values
        return name

    # Order

    def _order(self, depth: int) -> Assign | None:
        a = self._tile(lambda v: v.dtype != "int1")
        if a is None:
            return None
        size = a.shape[-1]
        k = self.pick([k for k in (1, 2, 4, 16) if k <= size])
        text, shape = self.pick([
            (f"tl.sort({a.name})", a.shape), (f"tl.sort({a.name}, descending=True)", a.shape),
            (f"tl.topk({a.name}, {k}).to(tl.{a.dtype})", (*a.shape[:-1], k)),
            (f"tl.flip({a.name}, {self.pick(range(len(a.shape)))})", a.shape),
        ])  # fmt: skip
        return self._result(text, a.dtype, shape)

    def _gather(self, depth: int) -> Assign | None:
        a = self._tile()
        if a is None:
            return None
        axis = self.pick(range(len(a.shape)))
        size = a.shape[axis]
        b = self.some(lambda v: v.shape == a.shape and v.dtype in INTEGERS)
        if b is not None and self.pick([True, False]):
            index = f"({self._integers(b)}) & {size - 1}"
        else:
            ones = [size if i == axis else 1 for i in range(len(a.shape))]
            line = self.pick(["{0} - 1 - r", "r ^ 1", "(r + 3) % {0}", "r // 2", "r * 0"])
            line = line.format(size).replace("r", f"tl.arange(0, {size})")
            index = f"tl.broadcast_to(tl.reshape(({line}) & {size - 1}, {ones}), {list(a.shape)})"
        name = a.name if a.dtype != "int1" else f"{a.name}.to(tl.int8)"
        dtype = a.dtype if a.dtype != "int1" else "int8"
        return self._result(f"tl.gather({name}, {index}, {axis})", dtype, a.shape)

    def _histogram(self, depth: int) -> Assign | None:
        a = self.some(lambda v: len(v.shape) == 1)
        if a is None:
            return None
        bins = self.pick([2, 8, 32])
        mask = self.some(lambda v: v.shape == a.shape and v.dtype == "int1")
        more = f", {mask.name}" if mask is not None and self.pick([True, False]) else ""
        text = f"tl.histogram({self._integers(a)} & {2 * bins - 1}, {bins}{more})"
        return self._result(text, "int32", (bins,))

    # Scans and reductions with a function

    def _scan_by(self, depth: int) -> Assign | None:
        a = self._tile(lambda v: v.dtype in WIDE)
        if a is None:
            return None
        axis, reverse = self.pick(range(len(a.shape))), self.pick([False, True])
        kind = self.pick(["larger", "compose", "pick_larger", "first", "cumprod"])
        if kind == "cumprod":
            return self._result(f"tl.cumprod({a.name}, {axis}, {reverse})", a.dtype, a.shape)
        if kind in ("larger", "first"):
            text = f"tl.associative_scan({a.name}, {axis}, {kind}, {reverse})"
            return self._result(text, a.dtype, a.shape)
        b = self.some(lambda v: v.shape == a.shape and v.dtype == a.dtype) or a
        part = self.pick([0, 1])
        text = f"tl.associative_scan(({a.name}, {b.name}), {axis}, {kind}, {reverse})[{part}]"
        return self._result(text, a.dtype, a.shape)

    def _reduce_by(self, depth: int) -> Assign | None:
        a = self._tile(lambda v: v.dtype in WIDE)
        if a is None:
            return None
        axis = self.pick([*range(len(a.shape)), None])
        shape: Shape = ()
        if axis is not None:
            shape = tuple(e for i, e in enumerate(a.shape) if i != axis)
        kind = self.pick(["larger", "tl.sum", "tl.max", "tl.xor_sum", "tl.min"])
        text = f"{kind}({a.name}, {axis})"
        if kind == "larger":
            text = f"tl.reduce({a.name}, {axis}, larger)"
        return self._result(text, a.dtype, shape)

    # Shapes

    def _pair_up(self, depth: int) -> Assign | None:
        a = self._tile(lambda v: int(np.prod(v.shape)) < 256)
        if a is None:
            return None
        b = self.some(lambda v: v.shape == a.shape and v.dtype == a.dtype) or a
        size = int(np.prod(a.shape))
        both, rank = f"tl.join({a.name}, {b.name})", len(a.shape)
        choices = [
            (both, (*a.shape, 2)),
            (f"tl.split({both})[{self.pick([0, 1])}]", a.shape),
            (f"tl.permute({both}, {self.pick([(rank, *range(rank)), (*range(rank)[::-1], rank)])})",
             None),
            (f"tl.reshape(tl.permute({both}, {(rank, *range(rank))}), [{2 * size}])", (2 * size,)),
            (f"tl.interleave({a.name}, {b.name})", (*a.shape[:-1], 2 * a.shape[-1])),
        ]  # fmt: skip
        if rank == 1:
            choices.append((f"tl.cat({a.name}, {b.name}, can_reorder=True)", (2 * size,)))
        text, shape = self.pick(choices)
        if shape is None:
            order = eval(text.split(", ", 2)[2].rsplit(")", 1)[0])
            shape = tuple((*a.shape, 2)[d] for d in order)
        return self._result(text, a.dtype, shape) if len(shape) <= 3 else None

    def _spread(self, depth: int) -> Assign | None:
        """A scalar or a row in a whole tile, of three axes too."""
        a = self.some(lambda v: v.shape in ((), (self.n,)))
        if a is None:
            return None
        shape = self.pick([(self.m, self.n), (2, self.m, self.n)])
        if a.shape:
            ones = [1] * (len(shape) - 1)
            text = f"tl.broadcast_to(tl.reshape({a.name}, {[*ones, self.n]}), {list(shape)})"
        else:
            text = f"tl.full({list(shape)}, {a.name}, tl.{a.dtype})"
        return self._result(text, a.dtype, shape)

    # Numbers

    def _fp8(self, depth: int) -> Assign | None:
        """Values of eight bits: moved and converted, which is all that is allowed."""
        a = self.some(lambda v: v.dtype in FLOATS)
        if a is None:
            return None
        name, back = self.pick(FP8), self.pick(["float16", "float32", "bfloat16"])
        if a.dtype == "float64":
            return None
        held = f"{a.name}.to(tl.{name})"
        if a.shape and self.pick([True, False]):
            held = f"tl.trans({held})" if len(a.shape) == 2 else f"tl.reshape({held}, {[*a.shape]})"
        shape = a.shape[::-1] if "trans" in held else a.shape
        return self._result(f"{held}.to(tl.{back})", back, shape)

    def _bits(self, depth: int) -> Assign | None:
        """The same bits as another type (NaNs are not told apart, so integers only come out)."""
        a = self.some(lambda v: v.dtype in (*SIGNED, *UNSIGNED))
        if a is None:
            return None
        width = 8 * DTYPES[a.dtype].itemsize
        if width == 8 or self.pick([True, False]):
            other = f"uint{width}" if a.dtype in SIGNED else f"int{width}"
            return self._result(f"{a.name}.to(tl.{other}, bitcast=True)", other, a.shape)
        small = f"({a.name} & 127)"
        text = f"{small}.to(tl.float{width}, bitcast=True).to(tl.int{width}, bitcast=True)"
        return self._result(text, f"int{width}", a.shape)

    def _number(self, depth: int) -> Assign | None:
        a = self.some(lambda v: v.dtype in WIDE)
        if a is None:
            return None
        unsigned = self._integers(a, "uint32")
        text, dtype = self.pick([
            (f"tl.cdiv({self._integers(a)} & 1023, 7)", "int32"),
            (f"tl.umulhi({unsigned}, {unsigned} + 3)", "uint32"),
            (f"tl.randint(7, {self._integers(a)} & 255)", "uint32"),
            (f"tl.map_elementwise(steps, {self._integers(a)} & 15)", "int32"),
            (f"tl.clamp({self._integers(a)}.to(tl.float32), -5.0, 7.0)", "float32"),
        ])  # fmt: skip
        if "map_elementwise" in text and not a.shape:
            return None
        return self._result(text, dtype, a.shape)

    def _dot(self, depth: int) -> Assign | None:
        """A product of small whole numbers, which every dtype has exactly."""
        a = self.some(lambda v: len(v.shape) == 2 and min(v.shape) > 1)
        if a is None:
            return None
        kind = self.pick(["int8", "float16", "bfloat16", "float32"])
        if kind == "int8":
            # LLVM 22 takes for ever over the packing of 8-bit operands after its pipelines from
            # -O1 on, which kernels are not compiled with.
            self.how["levels"] = (None, 0)
        left = f"(({self._integers(a)} & 7) - 3).to(tl.{kind})"
        out = "int32" if kind == "int8" else "float32"
        if self.pick([True, False]):
            text, shape = f"tl.dot({left}, tl.trans({left}))", (a.shape[0],) * 2
        else:
            text, shape = f"tl.dot(tl.trans({left}), {left})", (a.shape[1],) * 2
        if self.pick([True, False]):
            start = "1" if out == "int32" else "1.0"
            text = f"{text[:-1]}, acc=tl.full({list(shape)}, {start}, tl.{out}))"
        return self._result(text, out, shape)

    # Memory

    def _strided(self, depth: int) -> Assign:
        """A load through pointers at odd strides, moved on by a scalar."""
        dtype = self.pick([*INTEGERS, *FLOATS, *FP8])
        shape: Shape = self.pick([(self.n,), (self.m, self.n), (self.n, 2)])
        size, stride = int(np.prod(shape)), self.pick([1, 2, 3, 5, -1])
        name = self.array(dtype if dtype not in FP8 else "int8", 5 * size + 16)
        if dtype in FP8:
            self.arrays[name] = (self.arrays[name] & 0x37).view(DTYPES[dtype])
        flat = f"tl.arange(0, {size})"
        at = f"tl.reshape({flat}, {list(shape)}) * {stride}" + (f" + {size}" if stride < 0 else "")
        moved = f"({name} + {at}) + (k & 7)" if stride < 5 else f"{name} + {at}"
        text = f"tl.load({moved}, tl.reshape({flat}, {list(shape)}) % 5 != n % 5"
        other = self.pick(["", ", other=1"]) if dtype not in FP8 else ""
        text = f"{text}{other or ', other=0'})"
        if dtype in FP8:
            text, dtype = f"{text[: -len(', other=0)')]}, other=0.0).to(tl.float32)", "float32"
        return self._result(text, dtype, shape)

    def _by_index(self, depth: int) -> Assign | None:
        """A load at computed addresses."""
        a = self._tile(lambda v: v.dtype in INTEGERS)
        if a is None:
            return None
        dtype, size = self.pick([*INTEGERS, *FLOATS]), self.pick([16, 64])
        name = self.array(dtype, size)
        index = f"{self._integers(a)} & {size - 1}"
        mask = self.some(lambda v: v.shape == a.shape and v.dtype == "int1")
        more = f", {mask.name}, other=3" if mask is not None else ""
        return self._result(f"tl.load({name} + ({index}){more})", dtype, a.shape)

    def _block_pointer(self, depth: int) -> Assign:
        rows, columns = self.pick([5, 8, 16]), self.pick([7, 8, 32])
        dtype = self.pick([*INTEGERS, *FLOATS])
        name = self.array(dtype, rows * columns)
        shape = (self.pick([2, 4, 8]), self.pick([4, 8, 16]))
        first, second = self.pick(["0", "k", "-1", "pid"]), self.pick(["0", "3", "-2", "n & 7"])
        made = f"tl.make_block_ptr({name}, ({rows}, {columns}), ({columns}, 1), "
        made += f"({first}, {second}), {shape}, (1, 0))"
        if self.pick([True, False]):
            made = f"tl.advance({made}, (1, 2))"
        text = f"tl.load({made}, boundary_check=(0, 1), padding_option='zero')"
        return self._result(text, dtype, shape)

    def _descriptor(self, depth: int) -> Assign:
        dtype = self.pick(["int32", "float32", "float16", "int8", "bfloat16"])
        each = 16 // DTYPES[dtype].itemsize
        rows, columns = self.pick([3, 8]), each * self.pick([1, 2])
        name = self.array(dtype, rows * columns)
        shape = (self.pick([2, 4]), each * self.pick([1, 2]))
        made = f"tl.make_tensor_descriptor({name}, [{rows}, {columns}], [{columns}, 1], "
        made += f"[{shape[0]}, {shape[1]}])"
        first, second = self.pick(["0", "k", "pid"]), self.pick(["0", "2", "n & 7"])
        return self._result(f"{made}.load([{first}, {second}])", dtype, shape)

    def _atomic(self, depth: int) -> Assign | None:
        """Atomic operations, the programs and elements of which come one after the other."""
        a = self._tile(lambda v: v.dtype in WIDE)
        if a is None:
            return None
        kind = self.pick(["add", "max", "min", "and", "or", "xor", "xchg"])
        name = self.array(a.dtype, 32)
        self.arrays[f"t{name[1:]}"] = self.arrays.pop(name)
        index = f"({self._integers(a)}) & {self.pick([0, 3, 31])}"
        mask = self.some(lambda v: v.shape == a.shape and v.dtype == "int1")
        more = f", mask={mask.name}" if mask is not None and self.pick([True, False]) else ""
        text = f"tl.atomic_{kind}(t{name[1:]} + ({index}), {a.name}{more})"
        if more:  # what masked elements give is not defined
            text = f"tl.where({mask.name}, {text}, 0)" if mask is not None else text
        return self._result(text, a.dtype, a.shape)

    def _store(self, depth: int) -> Effect | None:
        """A store in the middle of a program, at odd places, through a descriptor or pointers."""
        a = self._tile(lambda v: v.dtype in (*INTEGERS, *FLOATS))
        if a is None or not a.exact:
            return None
        size, stride = int(np.prod(a.shape)), self.pick([1, 3])
        name = self.array(a.dtype, 5 * size * stride)
        self.arrays[f"t{name[1:]}"] = self.arrays.pop(name)
        at = f"pid * {size * stride} + tl.reshape(tl.arange(0, {size}), {list(a.shape)}) * {stride}"
        return Effect([f"tl.store(t{name[1:]} + {at}, {a.name})"])

    def _over(self, depth: int) -> Effect:
        """Memory that is read, and written over in another order and place, also by way of another
        argument; twice or more."""
        dtype = self.pick([*INTEGERS, *FLOATS])
        shape: Shape = self.pick([(self.n,), (self.m, self.n), (8, 8), (32, 16)])
        size = int(np.prod(shape))
        name = self.array(dtype, 4 * size + 64)
        names = [f"t{name[1:]}"] * 2
        self.arrays[names[0]] = self.arrays.pop(name)
        if self.pick([True, False]):
            names[1] = f"w{name[1:]}"
            self.arrays[names[1]] = View(names[0], self.pick([0, 0, 0, 1, 4, size // 2, size]))
        lines: list[str] = []
        for turn in range(self.pick([1, 2, 2, 3])):
            value = f"a{name[1:]}_{turn}"
            place = self._place(shape)
            lines.append(f"{value} = tl.load({self.pick(names)} + {place}{self._edge(shape)})")
            text, result = self._rearranged(value, shape)
            to = self._place(result) if result != shape or self.pick([True, False]) else place
            edge = self._edge(result).removesuffix(", other=0")
            lines.append(f"tl.store({self.pick(names)} + {to}, {text}{edge})")
        return Effect(lines)

    def _place(self, shape: Shape) -> str:
        """Different places within the first 4 * size + 64 elements of an array, for each program
        others or the same."""
        *_, last = shape
        size = int(np.prod(shape))
        start = self.pick(["0", "0", "k & 3", "pid * 3", f"{last}", f"pid * {size // 2}"])
        flat = [f"tl.reshape(tl.arange(0, {size}), {list(shape)})"] * 2
        flat.append(f"{size - 1} - {flat[0]}")
        if len(shape) == 2:
            rows, columns = (f"tl.arange(0, {e})" for e in shape)
            flat.append(f"({rows}[:, None] * {last} + {columns}[None, :])")
            flat.append(f"({rows}[:, None] * {last + 1} + {columns}[None, :])")
            flat.append(f"({rows}[:, None] + {columns}[None, :] * {shape[0]})")
        return f"({start}) + {self.pick(flat)}"

    def _edge(self, shape: Shape) -> str:
        """A mask, or none."""
        size = int(np.prod(shape))
        flat = f"tl.reshape(tl.arange(0, {size}), {list(shape)})"
        return self.pick(["", "", f", {flat} < n * 2 + 1, other=0", f", {flat} % 3 != 1, other=0"])

    def _rearranged(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """Text for the elements of a tile in another order or shape, or as they are."""
        size, (*_, last) = int(np.prod(shape)), shape
        choices: list[tuple[str, Shape]] = [(value, shape), (f"{value} + 1", shape)]
        choices.append((f"tl.flip({value}, {len(shape) - 1})", shape))
        ones = [1] * (len(shape) - 1)
        index = f"tl.reshape((tl.arange(0, {last}) * 3 + 1) & {last - 1}, {[*ones, last]})"
        index = f"tl.broadcast_to({index}, {list(shape)})"
        choices.append((f"tl.gather({value}, {index}, {len(shape) - 1})", shape))
        choices.append((f"tl.reshape({value}, [{size}])", (size,)))
        if last > 1:
            halves = f"tl.split(tl.reshape({value}, [{size // 2}, 2]))"
            swapped = f"tl.join({halves}[1], {halves}[0])"
            choices.append((f"tl.reshape({swapped}, {list(shape)})", shape))
        if len(shape) == 2:
            turned = shape[::-1]
            choices += [(f"tl.trans({value})", turned)] * 2
            choices.append((f"tl.reshape(tl.trans({value}), {list(shape)})", shape))
            if shape[0] == last:
                choices.append((f"{value} + tl.trans({value})", shape))
        return self.pick(choices)

    # Calls and control

    def _call_more(self, depth: int) -> Assign | None:
        a = self.some(lambda v: v.dtype in WIDE)
        if a is None:
            return None
        if self.pick([True, False]):
            by = self.pick([0, 1, 3])
            named = self.pick([f"{by}", f"BY={by}", f"{by}, TWICE=True"])
            return self._result(f"scaled({a.name}, {named})", a.dtype, a.shape)
        if self.pick([True, False]) and a.shape:
            return self._result(f"far({a.name}, {a.name})", a.dtype, a.shape)
        return self._result(f"both({a.name}, 3)[{self.pick([0, 1])}]", a.dtype, a.shape)

    def _leave(self, depth: int) -> Block | None:
        """A return from the middle, with a store before it."""
        scalar = self.some(lambda v: v.shape == () and v.dtype in INTEGERS)
        a = self.some(lambda v: v.name.startswith("v"))
        if scalar is None or depth or a is None:
            return None
        copy = self.new(a.dtype, a.shape, a.exact)
        test = f"({scalar.name} & 3) == {self.pick([0, 1])}"
        body: list[Any] = [Assign(copy, a.name), Store(copy, False)]
        return Block(f"if {test}:", body, update="return")
