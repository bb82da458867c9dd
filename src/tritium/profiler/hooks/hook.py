"""Hooks that sessions of other profilers attach to loading and launching kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar

from tritium import knobs


class Hook:
    """Actions of a profiler when kernels are loaded and launched: a hook defines those that it
    takes. Hooks of a higher `priority` are asked first at a beginning, and last at an end."""

    priority: int = 0

    def init_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel was loaded."""

    def destroy_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel is unloaded."""

    def enter(self, metadata: Any) -> None:
        """A launch begins."""

    def exit(self, metadata: Any) -> None:
        """A launch was made."""

    def activate(self) -> None:
        """The first session that has the hook becomes active."""

    def deactivate(self) -> None:
        """The last such session becomes inactive."""


class HookManager:
    """The hooks of all sessions. `session_hooks` tells by session which are active."""

    active_hooks: ClassVar[list[Hook]] = []
    session_hooks: ClassVar[dict[int, dict[Hook, bool]]] = defaultdict(dict)

    @staticmethod
    def init_handle(*handle: Any) -> None:
        for hook in HookManager.active_hooks:
            hook.init_handle(*handle)

    @staticmethod
    def destroy_handle(*handle: Any) -> None:
        for hook in reversed(HookManager.active_hooks):
            hook.destroy_handle(*handle)

    @staticmethod
    def enter(metadata: Any) -> None:
        for hook in HookManager.active_hooks:
            hook.enter(metadata)

    @staticmethod
    def exit(metadata: Any) -> None:
        for hook in reversed(HookManager.active_hooks):
            hook.exit(metadata)

    @staticmethod
    def register(hook: Hook, session: int) -> None:
        """Add a hook to a session, active."""
        HookManager.session_hooks[session][hook] = True
        HookManager._update()

    @staticmethod
    def activate(session: int | None = None) -> None:
        """Have the hooks of a session, or of all, called again."""
        HookManager._set(session, True)

    @staticmethod
    def deactivate(session: int | None = None) -> None:
        """Have the hooks of a session, or of all, called no more."""
        HookManager._set(session, False)

    @staticmethod
    def unregister(session: int | None = None) -> None:
        """Forget the hooks of a session, or of all."""
        for number in HookManager._sessions(session):
            HookManager.session_hooks.pop(number, None)
        HookManager._update()

    @staticmethod
    def _sessions(session: int | None) -> Iterable[int]:
        return list(HookManager.session_hooks) if session is None else [session]

    @staticmethod
    def _set(session: int | None, active: bool) -> None:
        for number in HookManager._sessions(session):
            if number in HookManager.session_hooks:
                hooks = HookManager.session_hooks[number]
                hooks.update(dict.fromkeys(hooks, active))
        HookManager._update()

    @staticmethod
    def _update() -> None:
        """Activate and deactivate what has become so; listen while there is any hook."""
        before, wanted = HookManager.active_hooks, dict[Hook, None]()
        for hooks in HookManager.session_hooks.values():
            wanted.update((hook, None) for hook, active in hooks.items() if active)
        for hook in before:
            if hook not in wanted:
                hook.deactivate()
        for hook in wanted:
            if hook not in before:
                hook.activate()
        HookManager.active_hooks[:] = sorted(wanted, key=lambda hook: -hook.priority)
        for name, listener in (
            ("kernel_load_end_hook", HookManager.init_handle),
            ("kernel_unload_hook", HookManager.destroy_handle),
            ("launch_enter_hook", HookManager.enter),
            ("launch_exit_hook", HookManager.exit),
        ):
            chain = getattr(knobs.runtime, name)
            if not isinstance(chain, knobs.HookChain):
                raise NotImplementedError(f"the profiler beside a {name} that is no HookChain")
            (chain.add if wanted else chain.remove)(listener)
