"""Tokens of IR text: xDSL's lexer, with one regular expression for most tokens."""

from __future__ import annotations

import re

from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind

_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_TOKEN = re.compile(
    r"\s*(?:"
    r"([:,()}\[\]<>=+*?|]|/(?!/)|->|\{(?!-#))"
    r"|([a-zA-Z_][a-zA-Z0-9_$.]*)"
    rf"|(%{_SUFFIX})|(#(?!-\}}){_SUFFIX})|(!{_SUFFIX})|(\^{_SUFFIX})"
    r"|([1-9][0-9]*(?![0-9.])|0(?![x0-9.])))",
    re.ASCII,
)
"""A token behind white space, but for strings, symbols, floats and a few others, and comments."""
_KINDS = (
    None, None, MLIRTokenKind.BARE_IDENT, MLIRTokenKind.PERCENT_IDENT, MLIRTokenKind.HASH_IDENT,
    MLIRTokenKind.EXCLAMATION_IDENT, MLIRTokenKind.CARET_IDENT, MLIRTokenKind.INTEGER_LIT,
)  # fmt: skip
"""The kind of each group; that of punctuation depends on the text."""


class _Span(Span[str]):
    """A span; made without the checks of frozen dataclasses that no field is set."""

    def __init__(self, start: int, end: int, input: Input[str]):
        fields = self.__dict__
        fields["start"], fields["end"], fields["input"] = start, end, input


class IRLexer(MLIRLexer):
    """xDSL's lexer, faster: it gives the same tokens."""

    def lex(self) -> MLIRToken:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            return super().lex()
        group = match.lastindex
        assert group is not None
        start, self.pos = match.span(group)
        kind = _KINDS[group] or KIND_BY_PUNCTUATION_SPELLING[match[1]]  # pyright: ignore
        return Token(kind, _Span(start, self.pos, self.input))
