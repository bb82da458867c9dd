"""Our lexer of IR text gives the tokens of xDSL's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from tritium.ir.lexer import IRLexer

FILES = sorted(Path(__file__).parent.glob("**/*.tt*ir"))
CASES = [
    "0 7 10 0x1F 0xi32 64x32xf32 1. 12.5e-3 007 0.5", "a.b$c _x ->-> - > -1 {-# #-} {- # {",
    "%0 %a-b %x#1 #map #-x ^bb0 !tt.ptr<f32>", '@f @"g h" "a\\n\\22" "" "\\ff"',
    "... : , ( ) [ ] < >", "// one\n  x // two\n// three", "= + / * ? | x/y", "?x", "..", "@", "%",
    "é", "%é", '"open', "", " \n\t",
]  # fmt: skip


def tokens(kind: type[MLIRLexer], text: str) -> list[Any]:
    """Kinds and places of the tokens, and the error behind them."""
    lexer, found = kind(Input(text, "text")), list[Any]()
    while True:
        try:
            token = lexer.lex()
        except ParseError as error:
            return [*found, error.msg, error.span.start, error.span.end]
        found.append((token.kind, token.span.start, token.span.end, token.text))
        if token.kind is MLIRTokenKind.EOF:
            return found


@pytest.mark.parametrize("text", CASES)
def test_tokens(text: str) -> None:
    assert tokens(IRLexer, text) == tokens(MLIRLexer, text)


def test_tokens_of_files() -> None:
    assert FILES
    for file in FILES:
        text = file.read_text()
        assert tokens(IRLexer, text) == tokens(MLIRLexer, text), file.name
