"""The change of a kernel to native launches: the second launch in Python prepares it, and loads the
native launcher then and not before, because it would make a program's first launches later."""

from __future__ import annotations

from typing import Any


class Teacher:
    """Follows the launches of one kernel's function in Python, and teaches the native launcher.

    `drivers` is the `DriverConfig`, whose active driver a native launch relies on.
    """

    def __init__(self, drivers: Any) -> None:
        self._drivers = drivers
        self._launches = 0
        self._made: dict[str, Any] = {}
        self._possible = True

    @property
    def _native(self) -> Any:
        return self._made.get("native")

    def forget(self) -> None:
        """Forget the kernels known so far: they may not be those of the caches any more."""
        if self._native is not None:
            self._native.forget()

    def grew(self, kernels: dict[Any, Any], before: int) -> None:
        """A kernel was added to a cache, which had `before` of them."""
        if self._native is not None:
            self._native.grew(kernels, before)

    def close(self) -> None:
        """Leave every launch to Python: what was prepared is not true any more."""
        if self._native is not None:
            self._native.close()

    def teach(
        self,
        function: Any,
        active: Any,
        caches: tuple[dict[Any, Any], dict[Any, Any]],
        found: tuple[Any, Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> Any:
        """A launch of `function` was done in Python.

        Args:
            active: the driver.
            caches: the function's caches by device, and the kernels of the one used.
            found: the kernel and its backend's launcher.
            arguments: of the native launch (the grid first), and keywords.

        Returns:
            The native launcher, once there is one.
        """
        self._launches += 1
        if self._launches < 2 or not self._possible:
            return None
        kernel, launcher = found
        native_device = type(active).__dict__.get("native_device")
        if native_device is None or not hasattr(launcher, "native_end"):
            return None  # a driver or a launcher that knows nothing of native launches
        from tritium.launch import native

        end = launcher.native_end(native.link)
        if end is None:
            return None
        mine = self._native
        if mine is None:
            self._possible = native.can_launch(function)
            if not self._possible:
                return None
            # The first of several threads decides for all.
            mine = self._made.setdefault("native", native.NativeKernel(function))
        launched = native.Launched(self._drivers, *arguments, *caches, kernel, end)
        mine.learn(launched, native_device(active))
        return mine.launch
