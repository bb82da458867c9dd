"""Element types that torch has no name for, beside those that it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IntegerType:
    """Integers of some bits."""

    bitwidth: int
    is_signed: bool = True


@dataclass(frozen=True)
class FloatType:
    """Numbers of a sign, an exponent and a mantissa."""

    bitwidth_exponent: int
    bitwidth_mantissa: int
    is_signed: bool = True
    unsigned_zero: bool = False

    @property
    def bitwidth(self) -> int:
        return int(self.is_signed) + self.bitwidth_exponent + self.bitwidth_mantissa


BIT = IntegerType(1, is_signed=False)
UINT8 = IntegerType(8, is_signed=False)
FP4 = FloatType(2, 1)
FP8_E4M3FN = FloatType(4, 3)
FP8_E4M3FNUZ = FloatType(4, 3, unsigned_zero=True)
FP8_E5M2 = FloatType(5, 2)
BF16 = FloatType(8, 7)
FP16 = FloatType(5, 10)
FP32 = FloatType(8, 23)
FP64 = FloatType(11, 52)
INT16, INT32, INT64 = IntegerType(16), IntegerType(32), IntegerType(64)

DataType = IntegerType | FloatType
