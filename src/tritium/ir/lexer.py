"""Tokens of IR text: xDSL's lexer with one regular expression for most tokens, and reading them."""

from __future__ import annotations

import re
from typing import Any

from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind

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


class IRToken(Token[MLIRTokenKind, str]):
    """A token that knows its text, for which a parser asks several times, and makes its span for
    those who ask."""

    __slots__ = ("end", "input", "start", "text")

    def __init__(self, kind: MLIRTokenKind, text: str, start: int, end: int, input: Input[str]):
        self.kind = kind
        self.text = text  # pyright: ignore[reportAttributeAccessIssue, reportIncompatibleMethodOverride]
        self.start, self.end, self.input = start, end, input

    span: Any = property(lambda self: _Span(self.start, self.end, self.input))


class IRLexer(MLIRLexer):
    """xDSL's lexer, faster: it gives the same tokens."""

    def lex(self) -> IRToken:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            token = super().lex()
            span = token.span
            return IRToken(token.kind, span.text, span.start, span.end, self.input)
        group = match.lastindex
        assert group is not None
        start, self.pos = match.span(group)
        text: str = match[group]
        kind = _KINDS[group] or KIND_BY_PUNCTUATION_SPELLING[text]  # pyright: ignore
        return IRToken(kind, text, start, self.pos, self.input)


class _Operand(UnresolvedOperand):
    """An operand without a number behind its name; it makes its span for those who ask."""

    def __init__(self, token: IRToken):
        self.token, self.index = token, 0

    span: Any = property(lambda self: self.token.span)
    operand_name: Any = property(lambda self: self.token.text[1:])


class TokenReader(Parser):
    """The questions that xDSL's parser asks of the next token most often, with the same answers in
    fewer calls."""

    _parser_state: Any

    @property
    def pos(self) -> int:
        """The place at which the next token begins."""
        return self._parser_state.current_token.start

    def _resume_from(self, pos: Any) -> None:
        if pos.__class__ is not int:
            super()._resume_from(pos)
            return
        state = self._parser_state
        state.lexer.pos = pos
        state.current_token = state.lexer.lex()

    def _consume_token(self, expected_kind: MLIRTokenKind | None = None) -> IRToken:
        state = self._parser_state
        token = state.current_token
        assert expected_kind is None or token.kind is expected_kind, f"{token}; {expected_kind}"
        state.current_token = state.lexer.lex()
        return token

    def _parse_optional_token(self, expected_kind: MLIRTokenKind) -> IRToken | None:
        state = self._parser_state
        token = state.current_token
        if token.kind is not expected_kind:
            return None
        state.current_token = state.lexer.lex()
        return token

    def parse_optional_characters(self, text: str) -> str | None:
        """Read a token of exactly this text, if it is the next one."""
        state = self._parser_state
        if state.current_token.text != text:
            return None
        state.current_token = state.lexer.lex()
        return text

    def parse_optional_punctuation(self, punctuation: Any) -> Any:
        """Read this punctuation, if it is the next token."""
        found = self._parse_optional_token(KIND_BY_PUNCTUATION_SPELLING[punctuation])
        return None if found is None else punctuation

    def parse_punctuation(self, punctuation: Any, context_msg: str = "") -> Any:
        """Read this punctuation; an error if another token is next."""
        if self._parse_optional_token(KIND_BY_PUNCTUATION_SPELLING[punctuation]) is None:
            self.raise_error(f"Expected '{punctuation}'{context_msg}", self._current_token.span)
        return punctuation

    def parse_optional_keyword(self, keyword: str) -> str | None:
        """Read this identifier, if it is the next token."""
        state = self._parser_state
        token = state.current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text != keyword:
            return None
        state.current_token = state.lexer.lex()
        return keyword

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        """Read the name of a value, and its number among an op's results, if that is next."""
        state = self._parser_state
        token = state.current_token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return None
        state.current_token = state.lexer.lex()
        if state.current_token.kind is not MLIRTokenKind.HASH_IDENT:
            return _Operand(token)
        self._resume_from(token.start)
        return super().parse_optional_unresolved_operand()

    def parse_optional_attr_dict(self) -> dict[str, Attribute]:
        """Read attributes in braces, if those are next."""
        if self._parser_state.current_token.kind is not MLIRTokenKind.L_BRACE:
            return {}
        return super().parse_optional_attr_dict()
