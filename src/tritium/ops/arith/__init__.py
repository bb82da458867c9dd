"""The `arith` dialect: numbers and tiles of numbers, one element at a time."""

from tritium.ops.arith.casts import BitcastOp as BitcastOp
from tritium.ops.arith.casts import ExtFOp as ExtFOp
from tritium.ops.arith.casts import ExtSIOp as ExtSIOp
from tritium.ops.arith.casts import ExtUIOp as ExtUIOp
from tritium.ops.arith.casts import FPToSIOp as FPToSIOp
from tritium.ops.arith.casts import FPToUIOp as FPToUIOp
from tritium.ops.arith.casts import IndexCastOp as IndexCastOp
from tritium.ops.arith.casts import RoundingMode as RoundingMode
from tritium.ops.arith.casts import SIToFPOp as SIToFPOp
from tritium.ops.arith.casts import TruncFOp as TruncFOp
from tritium.ops.arith.casts import TruncIOp as TruncIOp
from tritium.ops.arith.casts import UIToFPOp as UIToFPOp
from tritium.ops.arith.compare import CmpFOp as CmpFOp
from tritium.ops.arith.compare import CmpFPredicate as CmpFPredicate
from tritium.ops.arith.compare import CmpIOp as CmpIOp
from tritium.ops.arith.compare import CmpIPredicate as CmpIPredicate
from tritium.ops.arith.compare import SelectOp as SelectOp
from tritium.ops.arith.constant import ConstantOp as ConstantOp
from tritium.ops.arith.constant import attr_value as attr_value
from tritium.ops.arith.constant import constant_int as constant_int
from tritium.ops.arith.constant import constant_value as constant_value
from tritium.ops.arith.constant import is_zero as is_zero
from tritium.ops.arith.flags import FastMathAttr, OverflowAttr
from tritium.ops.arith.floating import AddFOp as AddFOp
from tritium.ops.arith.floating import DivFOp as DivFOp
from tritium.ops.arith.floating import MaximumFOp as MaximumFOp
from tritium.ops.arith.floating import MaxNumFOp as MaxNumFOp
from tritium.ops.arith.floating import MinimumFOp as MinimumFOp
from tritium.ops.arith.floating import MinNumFOp as MinNumFOp
from tritium.ops.arith.floating import MulFOp as MulFOp
from tritium.ops.arith.floating import NegFOp as NegFOp
from tritium.ops.arith.floating import RemFOp as RemFOp
from tritium.ops.arith.floating import SubFOp as SubFOp
from tritium.ops.arith.integer import AddIOp as AddIOp
from tritium.ops.arith.integer import AndIOp as AndIOp
from tritium.ops.arith.integer import CeilDivSIOp as CeilDivSIOp
from tritium.ops.arith.integer import CeilDivUIOp as CeilDivUIOp
from tritium.ops.arith.integer import DivisionOp as DivisionOp
from tritium.ops.arith.integer import DivSIOp as DivSIOp
from tritium.ops.arith.integer import DivUIOp as DivUIOp
from tritium.ops.arith.integer import FloorDivSIOp as FloorDivSIOp
from tritium.ops.arith.integer import MaxSIOp as MaxSIOp
from tritium.ops.arith.integer import MaxUIOp as MaxUIOp
from tritium.ops.arith.integer import MinSIOp as MinSIOp
from tritium.ops.arith.integer import MinUIOp as MinUIOp
from tritium.ops.arith.integer import MulIOp as MulIOp
from tritium.ops.arith.integer import OrIOp as OrIOp
from tritium.ops.arith.integer import RemSIOp as RemSIOp
from tritium.ops.arith.integer import RemUIOp as RemUIOp
from tritium.ops.arith.integer import ShLIOp as ShLIOp
from tritium.ops.arith.integer import ShRSIOp as ShRSIOp
from tritium.ops.arith.integer import ShRUIOp as ShRUIOp
from tritium.ops.arith.integer import SubIOp as SubIOp
from tritium.ops.arith.integer import XOrIOp as XOrIOp

ATTRIBUTES = (FastMathAttr, OverflowAttr)
