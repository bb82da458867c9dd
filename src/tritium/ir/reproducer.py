"""Modules with the pipeline that is to run over them, as MLIR's tools write them.

    module { ... }
    {-#
      external_resources: {
        mlir_reproducer: {
          pipeline: "builtin.module(inline,canonicalize,cse)",
          disable_threading: false,
          verify_each: true
        }
      }
    #-}
"""

from __future__ import annotations

import json
import re

_RESOURCES = re.compile(r"\{-#.*?#-\}\s*\Z", re.DOTALL)
_STRING = r'("(?:[^"\\]|\\.)*")'
_PIPELINE = re.compile(rf"mlir_reproducer\s*:\s*\{{[^}}]*?pipeline\s*:\s*{_STRING}", re.DOTALL)
_NESTED = re.compile(r"\A\s*builtin\.module\((.*)\)\s*\Z", re.DOTALL)


def with_reproducer(text: str, pipeline: str) -> str:
    """The module's text with a pipeline (`inline,cse`) to run over it."""
    return (
        f"{text.rstrip()}\n\n{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n"
        f"      pipeline: {json.dumps(f'builtin.module({pipeline})')},\n"
        "      disable_threading: false,\n      verify_each: true\n    }\n  }\n#-}\n"
    )


def split_reproducer(text: str) -> tuple[str, str | None]:
    """The module's text with the resources blanked out, and the pipeline that they name."""
    match = _RESOURCES.search(text)
    if match is None:
        return text, None
    found = _PIPELINE.search(match[0])
    blank = re.sub(r"[^\n]", " ", match[0])  # positions in messages stay those of the file
    if found is None:
        return text[: match.start()] + blank, None
    pipeline: str = json.loads(found[1])
    nested = _NESTED.match(pipeline)
    return text[: match.start()] + blank, nested[1] if nested else pipeline
