"""The processes of a group, which exchange messages and handles of memory over Unix sockets.

The process of rank 0 gathers what the others send, and gives all of it to each. Every call is made
by all processes, in the same order.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import reduction
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Any

_PATIENCE = 300.0
"""Seconds that the processes of a group wait for each other where nobody says how long."""
_ANSWER = 0.5
"""More seconds for rank 0's answer, which names the process that did not come."""


class Circle:
    """The processes of a group.

    Args:
        rank: this process's.
        size: how many there are.
        broadcast: gives all processes the object of rank 0.

    Raises `TimeoutError` in rank 0 if another process does not come.
    """

    def __init__(self, rank: int, size: int, broadcast: Callable[[Any], Any]):
        self.rank, self.size = rank, size
        self._broken = ""
        self._others: dict[int, Connection] = {}
        if rank:
            where, key = broadcast(None)
            self._others[0] = Client(where, "AF_UNIX", authkey=key)
            self._others[0].send(rank)
            return
        key, end = secrets.token_bytes(32), time.monotonic() + _PATIENCE
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            place = os.path.join(folder, "circle")
            listener.bind(place)
            listener.listen(size)
            broadcast((place, key))
            while len(self._others) < size - 1:
                listener.settimeout(max(end - time.monotonic(), 0.01))  # 0 is not to wait at all
                try:
                    other = Connection(listener.accept()[0].detach())
                except TimeoutError:
                    raise TimeoutError(
                        f"{len(self._others) + 1} of the {size} processes of the group came in "
                        f"{_PATIENCE:g} seconds"
                    ) from None
                deliver_challenge(other, key)
                answer_challenge(other, key)
                self._others[other.recv()] = other

    def gather(self, title: str, mine: Any, seconds: float | None = None) -> list[Any]:
        """The objects that all processes give, by rank.

        Args:
            title: the occasion, which is the same for all.
            seconds: how long to wait for the others.

        Raises:
            TimeoutError: another process did not come in time.
            RuntimeError: another process has ended, or does something else; or that was so before.
        """
        with self._in_step(title):
            end = time.monotonic() + (_PATIENCE if seconds is None else seconds)
            if self.rank:
                self._send(0, (title, mine))
                found, failure = self._receive(title, 0, end + _ANSWER)
            else:
                found, failure = self._collect(title, mine, end)
                for rank in self._others:
                    with suppress(OSError):  # it has ended, which `failure` says
                        self._send(rank, (found, failure))
            if failure is not None:
                raise failure
        return found

    def exchange(self, mine: int | bytes) -> list[int | bytes]:
        """The handles of memory of all processes, by rank: file descriptors of this process, or
        bytes. Its own is the one that it gave. Raises as `gather` does, and `ValueError` where some
        give files and others bytes."""
        title = "exchange of handles"
        every = self.gather(title, None if isinstance(mine, int) else mine)
        if len({handle is None for handle in every}) > 1:
            raise ValueError(f"{title}: some processes share memory by files, others by handles of "
                             "the fabric; gsan.configure must say the same in all")  # fmt: skip
        if not isinstance(mine, int):
            return every
        found: list[int | bytes] = [mine] * self.size
        with self._in_step(title):
            if self.rank:
                self._give(0, mine)
                for rank in range(self.size):
                    if rank != self.rank:
                        found[rank] = reduction.recv_handle(self._others[0])
                return found
            for rank, other in sorted(self._others.items()):
                found[rank] = reduction.recv_handle(other)
            for rank in self._others:
                for of, handle in enumerate(found):
                    if of != rank and isinstance(handle, int):
                        self._give(rank, handle)
        return found

    def close(self) -> None:
        """Leave the group."""
        for other in self._others.values():
            other.close()
        self._broken = self._broken or "this process has left"

    @contextmanager
    def _in_step(self, title: str) -> Generator[None]:
        """Refuse a group whose processes are out of step, as they are for good once one of them
        did not come, has ended or has done something else."""
        if self._broken:
            raise RuntimeError(f"{title}: the group's processes are out of step since: "
                               f"{self._broken}")  # fmt: skip
        try:
            yield
        except (OSError, EOFError, RuntimeError) as error:
            failure: Exception = error
            if not isinstance(error, (TimeoutError, RuntimeError)):
                failure = RuntimeError(f"{title}: another process has ended")
            self._broken = str(failure)
            raise failure from None

    def _collect(self, title: str, mine: Any, end: float) -> tuple[list[Any], Exception | None]:
        found: list[Any] = [mine] * self.size
        for rank in sorted(self._others):
            try:
                theirs, found[rank] = self._receive(title, rank, end)
            except TimeoutError as error:
                return [], error
            except (OSError, EOFError):
                return [], RuntimeError(f"{title}: the process of rank {rank} has ended")
            if theirs != title:
                return [], RuntimeError(f"rank 0 is at the {title}, rank {rank} at the {theirs}: "
                                        "all processes must make the same calls")  # fmt: skip
        return found, None

    def _receive(self, title: str, rank: int, end: float) -> Any:
        if not self._others[rank].poll(max(end - time.monotonic(), 0)):
            raise TimeoutError(f"{title}: rank {rank} did not come in time")
        return self._others[rank].recv()

    def _send(self, rank: int, message: Sequence[Any]) -> None:
        self._others[rank].send(message)

    def _give(self, rank: int, handle: int) -> None:
        reduction.send_handle(self._others[rank], handle, None)  # pyright: ignore[reportArgumentType]
