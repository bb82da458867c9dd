"""Dtypes, composite types, signature texts."""

import collections
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, eager
from tritium.ir.layouts.encodings import BlockedEncoding
from tritium.ir.types import numpy_dtype
from tritium.language.builtins.build import typed
from tritium.language.values.types import from_ir, get_int_dtype, validate_block_shape

TABLE = {
    # name in tl: (str, bits, signed, mantissa, mangled)
    "int1": ("int1", 1, False, None, "u1"),
    "int8": ("int8", 8, True, None, "i8"),
    "int16": ("int16", 16, True, None, "i16"),
    "int32": ("int32", 32, True, None, "i32"),
    "int64": ("int64", 64, True, None, "i64"),
    "uint8": ("uint8", 8, False, None, "u8"),
    "uint16": ("uint16", 16, False, None, "u16"),
    "uint32": ("uint32", 32, False, None, "u32"),
    "uint64": ("uint64", 64, False, None, "u64"),
    "float8e5": ("fp8e5", 8, None, 2, "fp8e5"),
    "float8e5b16": ("fp8e5b16", 8, None, 2, "fp8e5b16"),
    "float8e4nv": ("fp8e4nv", 8, None, 3, "fp8e4nv"),
    "float8e4b8": ("fp8e4b8", 8, None, 3, "fp8e4b8"),
    "float8e4b15": ("fp8e4b15", 8, None, 3, "fp8e4b15"),
    "float16": ("fp16", 16, None, 10, "fp16"),
    "bfloat16": ("bf16", 16, None, 7, "bf16"),
    "float32": ("fp32", 32, None, 23, "fp32"),
    "float64": ("fp64", 64, None, 52, "fp64"),
}


@pytest.mark.parametrize("name", TABLE)
def test_dtype_table(name):
    text, bits, signed, mantissa, mangled = TABLE[name]
    type = getattr(tl, name)
    assert str(type) == type.name == type.cache_key_part == text
    assert repr(type) == f"triton.language.{name}"
    assert type.primitive_bitwidth == bits and type.itemsize == bits // 8
    assert type.mangle() == mangled
    assert type.is_int() == (signed is not None) and type.is_floating() == (mantissa is not None)
    assert type.is_fp8() == name.startswith("float8")
    if signed is not None:
        assert type.is_int_signed() == signed and type.is_int_unsigned() == (not signed)
        low, high = type.get_int_min_value(), type.get_int_max_value()
        info = np.iinfo(f"{'' if signed else 'u'}int{bits}") if bits > 1 else None
        assert (low, high) == ((info.min, info.max) if info else (0, 1))
    else:
        assert type.fp_mantissa_width == mantissa
    assert type == tl.dtype(text) and hash(type) == hash(tl.dtype(text))
    assert getattr(type, "is_" + text)()


def test_ir_types():
    assert numpy_dtype(tl.uint16.to_ir()) == np.int16  # the IR's integers have no sign
    assert numpy_dtype(tl.float8e4nv.to_ir()) == ml_dtypes.float8_e4m3fn
    assert tl.float8e4b15.to_ir() == tl.int8.to_ir()
    assert str(tl.pointer_type(tl.float32).to_ir()) == "!tt.ptr<f32>"
    assert (
        str(tl.block_type(tl.pointer_type(tl.int8, 3), [4]).to_ir()) == "tensor<4x!tt.ptr<i8, 3>>"
    )
    assert str(tl.tensor_descriptor_type(tl.block_type(tl.uint8, [8, 16])).to_ir()) == (
        "!tt.tensordesc<tensor<8x16xui8>>"
    )
    with pytest.raises(TypeError, match="no values"):
        tl.void.to_ir()
    for type in (tl.int32, tl.float8e5, tl.pointer_type(tl.bfloat16), tl.block_type(tl.int1, [4])):
        assert from_ir(type.to_ir()) == type
    assert from_ir(tl.uint8.to_ir(), tl.uint8) == tl.uint8


def test_pointers_and_blocks():
    pointer = tl.pointer_type(tl.float16)
    assert pointer != tl.pointer_type(tl.float16, const=True) != tl.pointer_type(tl.bfloat16)
    assert str(pointer) == "pointer<fp16>" and pointer.mangle() == "Pfp16"
    assert str(tl.pointer_type(tl.float16, const=True)) == "const_pointer<fp16>"
    assert pointer.is_ptr() and pointer.scalar is pointer and pointer.primitive_bitwidth == 64
    block = tl.block_type(tl.int16, [tl.constexpr(2), 8])
    assert block.shape == (2, 8) and block.numel == 16 and block.nbytes == 32
    assert block.scalar == tl.int16 and block.is_block() and block.mangle() == "i16S2_8S"
    assert block.with_element_ty(tl.float64) == tl.block_type(tl.float64, [2, 8])
    with pytest.raises(TypeError, match="expected `dtype`"):
        tl.pointer_type(3)
    with pytest.raises(TypeError, match="0d block_type is forbidden"):
        tl.block_type(tl.int32, [])


def test_pointers_to_small_floats_are_pointers():
    assert tl.float8e5.is_fp8() and not tl.pointer_type(tl.float8e5).is_fp8()
    assert tl.block_type(tl.float8e4nv, [4]).is_fp8()
    with eager(supported_fp8_dtypes=()):
        pointer = block(64, tl.int64).to(tl.pointer_type(tl.float8e5))
        assert pointer.dtype == tl.pointer_type(tl.float8e5)


def test_shape_rule():
    assert validate_block_shape([4, 8]) == 32
    assert str(tl.block_type(tl.float32, [True, 4])) == "<[1, 4], fp32>"  # Python's bool is an int
    with pytest.raises(ValueError, match="Shape element 1 must be a power of 2"):
        validate_block_shape([4, 33])
    with pytest.raises(TypeError, match=r"Shape element 0 must have type `constexpr\[int\]`"):
        validate_block_shape([2.0])
    with pytest.raises(ValueError, match=f"maximum tensor numel .{tl.TRITON_MAX_TENSOR_NUMEL}."):
        validate_block_shape([1024, 2048])


def test_signature_texts():
    def parse(text, value=None):
        return tl.str_to_ty(text, value)

    assert parse("fp32") == tl.float32 and parse("u1") == tl.int1 and parse("i1") == tl.int1
    assert parse("*fp16") == tl.pointer_type(tl.float16)
    assert parse("*ki32") == tl.pointer_type(tl.int32, const=True)
    assert parse("**fp32") == tl.pointer_type(tl.pointer_type(tl.float32))
    assert parse("constexpr", 4) == tl.constexpr_type(4)
    desc = parse("tensordesc<fp16[64, 32]>")
    assert desc.block_type == tl.block_type(tl.float16, [64, 32])
    assert [str(t) for t in desc.flatten_types()[1:]] == ["i32", "i32", "i64", "i64"]
    nested = parse(("i32", ("*fp32", "constexpr")), (None, (None, 7)))
    assert nested.types[1].types[1] == tl.constexpr_type(7)
    Pair = collections.namedtuple("Pair", ["a", "b"])
    assert parse(Pair("i32", "fp32")).fields == ["a", "b"]
    with pytest.raises(ValueError, match="'float' is no type of a signature"):
        parse("float")
    with pytest.raises(ValueError, match="no descriptor type"):
        parse("tensordesc<fp16>")


def test_wrong_names():
    with pytest.raises(RuntimeError, match="'int7' is no dtype"):
        tl.dtype("int7")
    with pytest.raises(ValueError, match="Unsupported bitwidth 7"):
        get_int_dtype(7, True)
    assert get_int_dtype(64, False) == tl.uint64
    with pytest.raises(TypeError, match="not a number"):
        tl.pointer_type(tl.int8).kind()


def test_the_layout_of_a_block_is_part_of_its_type():
    rows = BlockedEncoding.make(
        sizePerThread=(1, 4), threadsPerWarp=(4, 8), warpsPerCTA=(4, 1), order=(1, 0)
    )
    plain, laid = tl.block_type(tl.uint8, [16, 32]), tl.block_type(tl.uint8, [16, 32], rows)
    assert plain != laid and plain.mangle() != laid.mangle()
    assert from_ir(laid.to_ir(), tl.uint8) == laid
    assert laid.with_element_ty(tl.float32) == tl.block_type(tl.float32, [16, 32], rows)
    handle = SimpleNamespace(type=laid.to_ir())
    x = typed(handle, tl.uint8)
    assert x.type == laid and typed(handle, x).type is x.type


def test_codegen_names():
    names = {tl.float32: "float32", tl.bfloat16: "bfloat16", tl.float8e5: "float8e5",
             tl.int32: "int32", tl.uint8: "uint8", tl.int1: "int1"}  # fmt: skip
    for dtype, name in names.items():
        assert dtype.codegen_name() == name and getattr(tl, name) == dtype
