"""Run kernels of libraries on a GPU beside Triton, on the same numbers.

    python -m tools.libraries.beside FOLDER FOUND.jsonl OUT.jsonl [--seconds 450] [--jobs 14]

Both packages have to be importable, and the GPU must be one. Arguments that FOUND lacks (it may be
empty) are searched with the reference. A launch that the interpreter refuses is not made: accesses
outside of the arguments have no defined result. OUT gets a line of JSON for each launch, with
`outcome` (of both sides, or "same", "different", "interpreter refuses") and `why`. What differs is
repeated by one program (`alone`: "same" says that programs write where others do) and with float32
for 16-bit floats (`float32`). With `--compile-only`, kernels are compiled for sm_90 on both sides.

Each side of each module is a process of its own, which is killed after a time limit, and started
again after what costs it the device. Modules come in a fixed random order: a sweep that is cut
short is a sample of all.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from tools.libraries import agree, find, guessing, loading

_FORK = multiprocessing.get_context("fork")
_TRIES = 25
_GRIDS = {"": (2, 2), "alone": (1, 1), "float32": (2, 2)}


class _Module:
    """The kernels of one module, in the process that compiles and runs them."""

    def __init__(self, name: str, options: argparse.Namespace, compiler: str):
        self.reference = compiler == "triton"
        self.device = options.device
        self.kernels = {kernel.name: kernel for kernel in loading.kernels(name)}

    def search(self) -> list[tuple[str, Any]]:
        """Each kernel's arguments, as `find` writes them."""
        found = list[tuple[str, Any]]()
        for kernel in self.kernels.values():
            if not guessing.returns_a_value(kernel.fn):
                arguments = find.search(kernel, _TRIES, self.reference)["arguments"]
                found += [(kernel.name, each) for each in arguments]
        return found

    def interpret(self, name: str, arguments: Any, grid: tuple[int, int]) -> Any:
        """The tensors after the interpreter's launch."""
        from tritium.runtime.interpreted import InterpretedFunction

        fn = self.kernels[name].fn
        return _launched(InterpretedFunction(fn.fn, fn.debug), agree.values(fn, arguments), grid)

    def launch(self, name: str, arguments: Any, grid: tuple[int, int]) -> Any:
        """The tensors after the compiled kernel's launch."""
        fn = self.kernels[name].fn
        return _launched(fn, agree.values(fn, arguments, self.device), grid)

    def compile(self, name: str, arguments: Any, _: Any) -> None:
        """Compile for a GPU that need not be there."""
        from triton.backends.compiler import GPUTarget

        find.compile_for(GPUTarget("cuda", 90, 32), self.kernels[name].fn, arguments)


def _launched(fn: Any, values: dict[str, Any], grid: tuple[int, int]) -> dict[str, Any]:
    import torch

    with loading.limited(15):
        fn[grid](**values)
    tensors = {name: v for name, v in values.items() if isinstance(v, torch.Tensor)}
    bytes_of = {name: t.cpu().view(torch.uint8).numpy() for name, t in tensors.items()}
    return {name: (str(t.dtype).split(".")[1], bytes_of[name]) for name, t in tensors.items()}


def _lost_device() -> bool:
    import torch

    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except Exception:
        return True
    return False


def _serve(pipe: Any, options: argparse.Namespace, compiler: str) -> None:
    """Answer requests about one module, until the device is lost or there are no more."""
    pipe.send((0, "process", os.getpid()))
    module = None
    while message := pipe.recv():
        number, name, request, *arguments = message
        module = module or _Module(name, options, compiler)
        try:
            answer = "ok", getattr(module, request)(*arguments)
        except Exception as error:
            lost = _lost_device()
            text = f"{type(error).__name__}: {error}"[-400:]
            answer = ("loses the device" if lost else "refuses"), text
        pipe.send((number, *answer))
        if answer[0] == "loses the device":
            return


def _fork_for_modules(pipe: Any, options: argparse.Namespace, compiler: str) -> None:
    """Import what all modules use, and fork a process for one after the other."""
    if compiler == "tritium":
        importlib.import_module("tritium.compat.alias").install()
    loading.import_what_all_use()
    loading.install(options.folder.resolve())
    while True:
        if status := loading.in_child(partial(_serve, pipe, options, compiler)):
            pipe.send((0, "crashes", f"exit status {status}"))


class _Side:
    """Request of one job to one compiler."""

    def __init__(self, options: argparse.Namespace, compiler: str):
        self.options = options
        self.module = ""
        self._pipe, theirs = _FORK.Pipe()
        work = partial(_fork_for_modules, theirs, options, compiler)
        self._process = _FORK.Process(target=work, daemon=True)
        self._process.start()
        theirs.close()
        self._number = self._child = 0

    def _answer(self, limit: float) -> tuple[str, Any]:
        until = time.monotonic() + limit
        while self._pipe.poll(max(until - time.monotonic(), 0)):
            number, what, value = self._pipe.recv()
            if what == "process":
                self._child = value
            elif number in (0, self._number):
                return what, value
        return "takes too long", ""

    def ask(self, *request: Any, limit: float = 0) -> tuple[str, Any]:
        """("ok", the answer), or what happened instead and the error's text."""
        self._number += 1
        self._pipe.send((self._number, self.module, *request))
        left = self.options.end - time.monotonic()
        answer = self._answer(min(limit or self.options.limit, left))
        if answer[0] == "takes too long" and self._child:
            os.kill(self._child, signal.SIGKILL)
            self._answer(5)
        return answer

    def start(self, module: str) -> None:
        """The requests from here on are about this module."""
        if self.module:
            self._pipe.send(None)
        self.module = module

    def stop(self) -> None:
        """End all that was started."""
        for process in (self._child, self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _tensors(answer: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {
        name: torch.from_numpy(array).view(getattr(torch, kind))
        for name, (kind, array) in answer.items()
    }


def _outcome(ours: _Side, theirs: _Side, request: tuple[Any, ...]) -> tuple[str, str]:
    """How both sides' launches of the same arguments compare."""
    compile_only = ours.options.compile_only
    wanted = None
    if not compile_only:
        done, wanted = ours.ask("interpret", *request)
        if done != "ok":
            return f"interpreter {done}", wanted
    action = "compile" if compile_only else "launch"
    answers = {"ours": ours.ask(action, *request), "theirs": theirs.ask(action, *request)}
    bad = {side: answer for side, answer in answers.items() if answer[0] != "ok"}
    if bad:
        happened = ", ".join(f"{side} {what}" for side, (what, _) in bad.items())
        return happened, "; ".join(text for _, text in bad.values())
    if compile_only:
        return "same", ""
    mine, other = (_tensors(answer) for _, answer in answers.values())
    wrong = agree.difference(other, mine)
    if not wrong:
        return "same", ""
    right = _tensors(wanted)
    near = [s for s, t in (("ours", mine), ("theirs", other)) if not agree.difference(right, t)]
    return "different", f"{wrong}; as interpreted: {' and '.join(near) or 'neither'}"


def _compared(ours: _Side, theirs: _Side, kernel: str, arguments: Any) -> dict[str, Any]:
    outcome, why = _outcome(ours, theirs, (kernel, arguments, _GRIDS[""]))
    row = {"outcome": outcome, "why": why}
    if outcome in ("same", "interpreter refuses"):
        return row
    row["arguments"] = arguments
    if outcome == "different":
        row["alone"] = _outcome(ours, theirs, (kernel, arguments, _GRIDS["alone"]))[0]
        wider = agree.in_float32(arguments)
        if wider != arguments:
            row["float32"] = _outcome(ours, theirs, (kernel, wider, _GRIDS["float32"]))[0]
    return row


def _job(options: argparse.Namespace, order: list[str], found: Any, counter: Any) -> None:
    """Take modules until none is left or the time is over."""
    ours, theirs = _Side(options, "tritium"), _Side(options, options.reference)
    while time.monotonic() < options.end:
        with counter.get_lock():
            taken = counter.value
            counter.value += 1
        if taken >= len(order):
            break
        _one_module(ours, theirs, order[taken], found.get(order[taken]))
    ours.stop()
    theirs.stop()


def _one_module(ours: _Side, theirs: _Side, name: str, launches: Any) -> None:
    options = ours.options
    ours.start(name)
    theirs.start(name)
    if launches is None:
        answer = theirs.ask("search", limit=90)
        launches = answer[1] if answer[0] == "ok" else []
    for number, (kernel, arguments) in enumerate(launches):
        start = time.monotonic()
        row = _compared(ours, theirs, kernel, arguments)
        if time.monotonic() >= options.end:
            return
        seconds = round(time.monotonic() - start, 2)
        row = {"module": name, "kernel": kernel, "number": number, **row, "seconds": seconds}
        with options.out.open("a") as out:
            out.write(json.dumps(row) + "\n")


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("found", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=450, help="for everything")
    parser.add_argument("--limit", type=float, default=40, help="seconds for one launch")
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--reference", choices=("triton", "tritium"), default="triton")
    return parser.parse_args()


def main() -> None:
    options = _parsed()
    options.end = time.monotonic() + options.seconds
    # A process that is forked from one with threads of OpenMP waits for them for ever.
    importlib.import_module("torch").set_num_threads(1)
    found = collections.defaultdict[str, list[Any]](list)
    for line in map(json.loads, options.found.read_text().splitlines()):
        found[line["module"]] += [(line["kernel"], each) for each in line["arguments"]]
    order, counter = list(loading.modules(options.folder)), _FORK.Value("i", 0)
    work = partial(_job, options, order, dict(found), counter)
    jobs = [_FORK.Process(target=work) for _ in range(options.jobs)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    print(f"{min(counter.value, len(order))} of {len(order)} modules;", end=" ")
    print(dict(collections.Counter(json.loads(line)["outcome"] for line in lines)))


if __name__ == "__main__":
    main()
