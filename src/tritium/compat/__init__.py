"""Run programs that say `import triton` on Tritium.

    import tritium.compat
    tritium.compat.install()
    import triton                      # this is Tritium, as is every triton.X below it

`tritium run PROG` does the same around an unmodified program. An installed Triton is neither
changed nor removed: within the process the name means Tritium, until `uninstall()`.
"""

from __future__ import annotations

from tritium.compat.alias import install as install
from tritium.compat.alias import is_installed as is_installed
from tritium.compat.alias import uninstall as uninstall

__all__ = ["install", "is_installed", "uninstall"]
