"""Encodings that stand for one that a pass finds: `#gluon.auto_encoding` (the layout that the
neighbours have) and `#gluon.coalesced_encoding` (the one best for an access of memory)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.ir.layouts.encodings import Encoding


class UndecidedEncoding(Encoding):
    """Base of the two; they have no parameters."""

    def print_parameters(self, printer: Printer) -> None:
        """Do nothing."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return [DictionaryAttr({})]


@irdl_attr_definition
class AutoEncoding(UndecidedEncoding):
    """The encoding of the blocks that this one is computed with."""

    name = "gluon.auto_encoding"


@irdl_attr_definition
class CoalescedEncoding(UndecidedEncoding):
    """The encoding in which neighbouring threads access neighbouring memory."""

    name = "gluon.coalesced_encoding"


AUTO, COALESCED = AutoEncoding.make(), CoalescedEncoding.make()
