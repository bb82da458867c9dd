"""Work that a compilation puts off until it waits for another program, such as ptxas."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_tasks: ContextVar[list[Callable[[], None]] | None] = ContextVar("tasks", default=None)


@contextmanager
def waiting() -> Generator[None]:
    """Collect the tasks that `put_off` is given meanwhile; those that are left are done at the
    end, if nothing has failed."""
    token = _tasks.set([])
    try:
        yield
        catch_up()
    finally:
        _tasks.reset(token)


def put_off(task: Callable[[], None]) -> None:
    """Do a task in the next wait; now outside of `waiting`."""
    tasks = _tasks.get()
    if tasks is None:
        task()
    else:
        tasks.append(task)


def catch_up() -> None:
    """Do what has been put off. To be called where this process would wait."""
    tasks = _tasks.get() or []
    while tasks:
        tasks.pop(0)()
