"""Places in torch's structs of what it otherwise takes a call to ask a tensor.

torch says nothing of its structs, and they change with its version. So the places are found by
comparing tensors that differ in one property; whoever reads them asks torch where they are not
found, and of tensors that are of another kind than those compared.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tritium.native.records import Record, allocate

_WORDS = 22
"""Words of a TensorImpl that are looked at: as many as the smallest of known versions has."""
_STORAGE_WORDS = 8
"""The same of a StorageImpl."""
DTYPES = 64

PLAIN = Record(
    ("impl", "i64"), ("keys", "i64"), ("plain", "i64"), ("storage", "i64"), ("start", "i64"),
    ("dtype", "i64"), ("data", "i64"), ("copied", "i64"), ("mask", "i64"),
    ("dtypes", f"bytes {8 * DTYPES}"),
)  # fmt: skip
"""Places in torch's structs that a dense tensor of the CPU is read from. `impl`: the place of the
TensorImpl's address in a tensor's object; in the TensorImpl those of what torch dispatches by
(`keys`, which is `plain` for a tensor of this kind), of the StorageImpl's address, of the first
element's number, and of a number (an i16) for the dtype; in the StorageImpl those of the memory's
address, and of a word that has none of the bits `mask` unless writing to the memory needs torch's
help, as it does to what is copied when it is written. `dtypes`: by the dtype's number the size of
an element, above the 32 bits of DLPack's type; 0: not known."""

Export = Callable[[Any], "tuple[int, int] | None"]
"""A tensor's address and DLPack type; None where torch does not tell."""


class TensorStruct(NamedTuple):
    """The places in torch's structs of what it takes a call each to ask a tensor; zeros where they
    are not found.

    Attributes:
        impl: in a tensor's object, the address of its TensorImpl.
        gradient: in that, what autograd knows of the tensor; 0: nothing, so it requires no grad.
        keys: in that too, the bits that torch dispatches by.
        negative: the bit of them that a tensor has whose numbers have the other sign in memory.
    """

    impl: int = 0
    gradient: int = 0
    keys: int = 0
    negative: int = 0


def _words(address: int, count: int = _WORDS) -> list[int]:
    return memoryview(ctypes.string_at(address, 8 * count)).cast("Q").tolist()


def _pairs(first: Any, second: Any) -> list[tuple[int, int, int]]:
    """(place, word of the first, word of the second) of two TensorImpls."""
    words = zip(_words(first._cdata), _words(second._cdata), strict=True)
    return [(8 * i, *both) for i, both in enumerate(words)]


@functools.cache
def tensor_struct() -> TensorStruct:
    """Found by comparing tensors that differ in one property; torch is loaded."""
    torch: Any = sys.modules["torch"]
    found: list[set[tuple[int, int, tuple[int, int]]]] = []
    for shape, dtype in (((3,), torch.float32), ((2, 0, 5), torch.float64), ((), torch.bfloat16)):
        plain = torch.empty(shape, dtype=dtype, device="cpu")
        wanting, negated = plain.detach().requires_grad_(), torch._neg_view(plain)
        size = torch.Tensor.__basicsize__
        held = (ctypes.c_uint64 * (size // 8)).from_address(id(plain))
        impls = [8 * i for i, word in enumerate(held) if word == plain._cdata]
        gradients = [at for at, old, new in _pairs(plain, wanting) if not old and new]
        sets = [(at, new ^ old) for at, old, new in _pairs(plain, negated) if not old & ~new]
        bits = [(at, bit) for at, bit in sets if bit.bit_count() == 1]
        found.append({*itertools.product(impls, gradients, bits)})
    common = found.pop().intersection(*found)
    if len(common) != 1:
        return TensorStruct()
    impl, gradient, (keys, negative) = common.pop()
    return TensorStruct(impl, gradient, keys, negative)


def plain_struct(torch: Any, export: Export) -> tuple[int, object] | None:
    """The address of the `PLAIN` of this torch, and what owns it; None where a place is not found.

    Args:
        torch: the module.
        export: tells what the record is to give; each probe is checked against it.
    """
    try:
        modes: Any = importlib.import_module("torch.utils._python_dispatch")
        # In a mode of torch's tensors of other kinds may be made.
        with modes._disable_current_modes(), torch.inference_mode(False):
            return _found(torch, export)
    except Exception:  # of whatever kind: a torch that lacks what is asked here
        return None


def _found(torch: Any, export: Export) -> tuple[int, object] | None:
    struct = tensor_struct()
    probes = [*_probes(torch)]
    exported = [*map(export, probes)]
    if not struct.impl or not all(exported):
        return None
    impls = [_words(probe._cdata) for probe in probes]
    storages = [probe.untyped_storage() for probe in probes]
    memories = [_words(storage._cdata, _STORAGE_WORDS) for storage in storages]
    plain = {words[struct.keys // 8] for words in impls}
    storage = _place(impls, [storage._cdata for storage in storages])
    start = _place(impls, [probe.storage_offset() for probe in probes])
    data = _place(memories, [storage.data_ptr() for storage in storages])
    dtype, copied = _dtype_place(probes), _copied_place(torch, memories)
    if storage is None or start is None or data is None or dtype is None or copied is None:
        return None
    if len(plain) != 1:
        return None
    address, owner = allocate(PLAIN.size)
    PLAIN.write(
        address, impl=struct.impl, keys=struct.keys, plain=plain.pop(), storage=storage,
        start=start, dtype=dtype, data=data, copied=copied[0], mask=copied[1],
    )  # fmt: skip
    table = (ctypes.c_uint64 * DTYPES).from_address(address + PLAIN.fields["dtypes"].offset)
    for probe, memory, told in zip(probes, storages, exported, strict=True):
        at, kind = told or (0, 0)
        size: int = probe.element_size()
        table[_halves(probe)[dtype // 2]] = size << 32 | kind
        if at != memory.data_ptr() + probe.storage_offset() * size:
            return None
    return address, owner


def _probes(torch: Any) -> Iterable[Any]:
    """Tensors of all kinds that are read alike."""
    names = (
        "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
        "bfloat16", "uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn",
        "complex64",
    )  # fmt: skip
    kinds = [kind for name in names if (kind := getattr(torch, name, None)) is not None]
    for number, kind in enumerate(kinds):
        first = 0x1234 + 37 * number
        yield torch.empty(3 * first, dtype=kind, device="cpu")[first:]
        yield torch.empty((2, 3, first + 11), dtype=kind, device="cpu")[1, :, 5:].t()
    array: Any = torch.empty(0x4321, device="cpu").numpy()
    yield torch.from_numpy(array)[0x1235:]
    yield torch.nn.Parameter(torch.empty(0x2345, device="cpu")[0x1236:])


def _place(structs: Sequence[list[int]], wanted: Sequence[int]) -> int | None:
    """The only place where all structs hold the words that are wanted."""
    columns = zip(*structs, strict=True)
    found = [8 * i for i, column in enumerate(columns) if [*column] == [*wanted]]
    return found[0] if len(found) == 1 else None


def _halves(tensor: Any) -> list[int]:
    """The words of a TensorImpl as four i16 each."""
    return memoryview(ctypes.string_at(tensor._cdata, 8 * _WORDS)).cast("H").tolist()


def _dtype_place(probes: Sequence[Any]) -> int | None:
    """The only place of a small i16 that is the same for, and only for, tensors of one dtype."""
    dtypes = [probe.dtype for probe in probes]
    found: list[int] = []
    for i, column in enumerate(zip(*map(_halves, probes), strict=True)):
        numbers = {*zip(dtypes, column, strict=True)}
        if len(numbers) == len({*dtypes}) == len({*column}) and max(column) < DTYPES:
            found.append(2 * i)
    return found[0] if len(found) == 1 else None


def _copied_place(torch: Any, plain: Sequence[list[int]]) -> tuple[int, int] | None:
    """The place and bits of the flag of memory that is still to be copied when it is written."""
    clones = [torch._lazy_clone(torch.empty(50 + number, device="cpu")) for number in range(3)]
    lazy = [_words(clone.untyped_storage()._cdata, _STORAGE_WORDS) for clone in clones]
    for clone in clones:
        clone.fill_(1.0)
    written = [_words(clone.untyped_storage()._cdata, _STORAGE_WORDS) for clone in clones]
    return flag(lazy, written, plain)


def flag(
    before: Sequence[list[int]], after: Sequence[list[int]], never: Sequence[list[int]]
) -> tuple[int, int] | None:
    """The only place of a word, and its bits, that a change of structs takes away and that others
    never had. Nothing else of the word changes: an address, which may lack any bit in another
    process, changes in other bits as well."""
    found: list[tuple[int, int]] = []
    for i in range(len(before[0])):
        changes = {old[i] ^ new[i] for old, new in zip(before, after, strict=True)}
        mask = changes.pop()
        flags = mask and not mask & ~0x0101010101010101  # each is a byte of its own
        unset = not any(words[i] & mask for words in (*after, *never))
        if flags and unset and not changes:
            found.append((8 * i, mask))
    return found[0] if len(found) == 1 else None
