"""The interfaces of the operating system that Tritium uses: Linux's own, and a portable form.

`knobs.system()` is the one that this process uses: Linux's on Linux, unless `TRITIUM_PORTABLE=1`
asks for the portable one, which needs nothing but Python's standard library. What native code calls
for threads and sleeping is in `native/threads`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # a bundle starts without `collections` and `typing`
if TYPE_CHECKING:
    from collections.abc import Callable

    from tritium.system.interface import System


def system(portable: bool) -> System:
    """The interfaces to use here; with `portable`, the portable ones on Linux too."""
    if sys.platform.startswith("linux") and not portable:
        from tritium.system.linux import Linux

        return Linux.here()
    from tritium.system.portable import Portable

    return Portable.here()


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Have functions called around each fork of this process, where there are forks."""
    if hasattr(os, "register_at_fork"):
        given = {"before": before, "after_in_parent": after_in_parent,
                 "after_in_child": after_in_child}  # fmt: skip
        os.register_at_fork(**{name: call for name, call in given.items() if call is not None})
