"""Colours of the text of stages."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, String, Text


class MLIRLexer(RegexLexer):
    """The tokens of MLIR's text, for which Pygments has no lexer."""

    name = "MLIR"
    tokens: ClassVar[dict[str, list[tuple[str, Any]]]] = {
        "root": [
            (r"//.*", Comment.Single),
            (r'"(\\.|[^"\\])*"', String),
            (r"[%^][\w$.#-]+", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"[#!][a-zA-Z_][\w$.]*", Name.Label),
            (r"\b(\d+x)*([iuf]\d+|bf16|f8E\w+|index)\b", Keyword.Type),
            (r"\b(tensor|memref|vector)(?=<)", Keyword.Type),
            (r"\b[a-z]\w*(\.\w+)+", Keyword),
            (r"\b(module|loc|dense|true|false|to|step)\b", Name.Builtin),
            (r"\b-?(0x[\da-fA-F]+|\d+(\.\d*)?([eE][+-]?\d+)?)", Number),
            (r"\w+", Text),
            (r"\s+|.", Text),
        ],
    }


def lexer_for(language: str) -> Any:
    """The lexer of a language, by Pygments' name of it or `mlir`; it keeps all lines."""
    settings = {"stripnl": False, "ensurenl": False}
    return MLIRLexer(**settings) if language == "mlir" else get_lexer_by_name(language, **settings)
