"""Runs of `ptxas`, which may begin before there is PTX."""

from __future__ import annotations

import gc
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tritium import knobs
from tritium.backends.waiting import catch_up
from tritium.errors import PTXASError
from tritium.forking import held_while_forking
from tritium.system import at_fork

_INPUT: str | None = "/dev/stdin" if os.path.exists("/proc/self/fd") else None
"""The file that is a program's input from a pipe, where there is one."""

_lock: Any = held_while_forking(threading.RLock())
_open: set[Any] = set()
"""Pipes to processes of ptxas, which forked children inherit: a reader waits until all have closed
their copies."""


class AssemblerRun:
    """A process of ptxas for one text, that begins at once: to load takes it 10 ms, in which the
    caller makes the PTX. Where its input cannot be a pipe it begins with `assemble`.

    ptxas reads nothing but files, and reads them twice (the text becomes a section of the cubin):
    its file is a link to the pipe at first, and has the text when the pipe ends."""

    def __init__(self, path: str, arguments: Sequence[str]):
        self.program = (path, *arguments)
        self._folder = tempfile.TemporaryDirectory(prefix="tritium-")
        self._process: subprocess.Popen[bytes] | None = None
        self._end = weakref.finalize(self, self._folder.cleanup)
        self._source = os.path.join(self._folder.name, "kernel.ptx")
        self._target = os.path.join(self._folder.name, "kernel.cubin")
        if _INPUT is not None:
            os.symlink(_INPUT, self._source)
            self._start()

    def _start(self) -> None:
        command = [*self.program, self._source, "-o", self._target]
        # What it says goes to a file: it never waits for a reader, and reads what it is given.
        with open(os.path.join(self._folder.name, "log"), "wb") as log, _lock:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
            _open.add(process.stdin)
        self._process = process
        self._end.detach()
        self._end = weakref.finalize(self, _end, process, self._folder, os.getpid())

    def close(self) -> None:
        """End the process, if it still runs, and remove its files."""
        self._end()

    def assemble(self, ptx: str) -> tuple[bytes, str]:
        """The cubin, and what ptxas reported. The process has ended then. Raises `PTXASError`."""
        try:
            return self._assemble(ptx)
        finally:
            self.close()

    def _assemble(self, ptx: str) -> tuple[bytes, str]:
        text, written = ptx.encode(), f"{self._source}.new"
        with open(written, "wb") as file:
            file.write(text)
        os.replace(written, self._source)
        if self._process is None:
            self._start()
            text = b""
        process = self._process
        assert process is not None and process.stdin is not None
        limit = knobs.nvidia.ptxas_timeout
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
        if limit:
            timer.start()  # `wait` with a limit looks only every 50 ms in the end
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(text)
                process.stdin.flush()
            _close(process.stdin)
            catch_up()
            if gc.isenabled():  # otherwise it follows when ptxas has ended
                gc.collect(0)
            code = process.wait()
        finally:
            timer.cancel()
        with open(os.path.join(self._folder.name, "log"), encoding="utf-8") as file:
            log = file.read()
        if late.is_set():
            what = (
                f"`ptxas` took longer than {limit} seconds (TRITIUM_PTXAS_TIMEOUT; 0 for no limit) "
                "and was ended; smaller tiles make less code"
            )
            raise PTXASError(self._failure(what, "", ptx))
        if code != 0:
            raise PTXASError(self._failure(_meaning(code), log, ptx))
        with open(self._target, "rb") as file:
            return file.read(), log

    def _failure(self, what: str, log: str, ptx: str) -> str:
        """The message for the user; the PTX is kept in a file so that the command can be
        repeated."""
        with tempfile.NamedTemporaryFile(
            "w", suffix=".ptx", delete=False, encoding="utf-8"
        ) as file:
            file.write(ptx)
        kept = " ".join([*self.program, file.name, "-o", self._target])
        return f"{what}\n`ptxas` stderr:\n{log}\nRepro command: {kept}\n"


def _meaning(code: int) -> str:
    """The failure that an exit status of ptxas stands for."""
    if code == 255:
        return "Internal Triton PTX codegen error"
    if code in (-11, 128 + 11):
        return "`ptxas` raised SIGSEGV"
    return f"`ptxas` failed with error code {code}"


def _end(process: subprocess.Popen[bytes], folder: Any, owner: int) -> None:
    if os.getpid() != owner:  # a fork's copy of the object
        return
    _close(process.stdin)
    if process.poll() is None:
        process.kill()
        process.wait()
    folder.cleanup()


def _close(pipe: Any) -> None:
    with _lock, suppress(BrokenPipeError):
        _open.discard(pipe)
        pipe.close()


def _close_all() -> None:
    while _open:
        os.close(_open.pop().fileno())


at_fork(after_in_child=_close_all)
