"""`python -m tritium.tools.triton_to_gluon_translator package.module.kernel [-o FILE]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tritium.tools.triton_to_gluon_translator import TranslatorTarget, translate_paths


def main() -> None:
    """Write the translation to a file, or to the standard output."""
    parser = argparse.ArgumentParser(description="Translate Triton kernels to Gluon.")
    parser.add_argument("kernels", nargs="+", help="package.module.kernel")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--target", type=TranslatorTarget, default=TranslatorTarget.GENERIC,
                        help=", ".join(t.value for t in TranslatorTarget) + "; or another gfx...")
    given = parser.parse_args()
    text = translate_paths(given.kernels, given.target)
    if given.output is None:
        print(text, end="")
    else:
        given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
