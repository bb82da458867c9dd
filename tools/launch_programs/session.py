"""A session: one process that does random host actions on a few kernels and checks each."""

from __future__ import annotations

import os
import random
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.launch_programs.arguments import Arguments
from tools.launch_programs.kernels import load, random_kernel, text_of
from tools.launch_programs.launches import (
    Call,
    Live,
    Mismatch,
    check_kernel,
    check_values,
    describe,
    in_threads,
    make_call,
    random_call,
    random_grid,
)
from tools.launch_programs.layout import check_layout
from tools.launch_programs.tuning import Tuned
from tritium import knobs


class Session:
    """Random actions on the kernels of one generated module.

    Args:
        seed: of all that is random.
        device: torch's name of the device; `interpreter` for interpreted kernels.
        folder: for the module and the cache.
    """

    def __init__(self, seed: int, device: str, folder: Path):
        self.source = random.Random(seed)
        self.interpreted = device == "interpreter"
        self.device = "cpu" if self.interpreted else device
        self.folder, self.cache = folder, folder / "cache"
        knobs.cache.dir = str(self.cache)
        self.path = folder / f"launched_{seed}.py"
        self.kernels = [random_kernel(self.source, f"kernel_{seed}_{i}")
                        for i in range(self.source.choice((1, 2, 2)))]  # fmt: skip
        self.version = 0
        self.lives: list[Live] = []
        self.tuned: Tuned | None = None
        self.kept: list[tuple[Live, Any, int]] = []
        self.events: list[tuple[str, str]] = []
        self.entered: list[str] = []
        self.log: list[str] = []
        knobs.runtime.jit_cache_hook = self._compiles
        self.redefine()
        functions = [self.module.double, self.module.triple]
        self.arguments = Arguments(self.source, self.device, functions)

    def _compiles(self, **told: Any) -> None:
        data = told["compile"]["specialization_data"]
        self.events.append((told["fn"].name, data))

    def run(self, actions: int) -> None:
        """Do so many actions."""
        weighted: list[tuple[int, Callable[[], None]]] = [
            (30, self.launch), (14, self.launch_again), (5, self.warm_up), (4, self.bad_argument),
            (3, self.bad_call), (3, self.use_kept), (3, self.threads), (2, self.clear),
            (2, self.preload), (2, self.change_global), (2, self.harm_cache), (1, self.redefine),
            (2, self.pre_run_hook), (2, self.launch_hooks), (1, self.fork), (2, self.tune),
            (3, self.layout),
        ]  # fmt: skip
        choices = [action for weight, action in weighted for _ in range(weight)]
        for _ in range(actions):
            action = self.source.choice(choices)
            self.log.append(action.__name__)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                action()

    def pick(self) -> Live:
        """Any of the kernels, mostly of the latest module."""
        recent = self.lives[-len(self.kernels) :]
        return self.source.choice(recent if self.source.random() < 0.8 else self.lives)

    # Launching

    def launch(self) -> None:
        """A launch with new arguments."""
        live = self.pick()
        self.do(live, random_call(self.source, live, self.arguments))

    def launch_again(self) -> None:
        """Launches with arguments of before, some of them replaced."""
        live = self.pick()
        if not live.calls:
            return
        call = self.source.choice(list(live.calls.values()))
        for _ in range(self.source.choice((2, 3, 4))):
            self.do(live, call)
        parameters, given = live.kernel.parameters, list(call.given)
        at = self.source.randrange(len(parameters))
        given[at] = self.arguments.good(parameters[at])
        self.do(live, make_call(self.source, parameters, given))

    def do(self, live: Live, call: Call, expected: bool | None = None) -> Any:
        """Launch and check everything; `expected`: whether it compiles, if the caller knows."""
        grid, programs = random_grid(self.source)
        out, counts = call.buffers(self.device)
        args, kwargs = call.arguments(live.kernel.parameters)
        before = len(self.events)
        compiled = self._launched(live, grid, (out, counts, *args), kwargs)
        self._check_events(live, call, before, expected)
        check_values(live, call, out, programs)
        if not self.interpreted:
            check_kernel(live, call, compiled)
            if self.source.random() < 0.1 and programs:
                out.zero_()
                compiled[(2, 1)](out, counts, *call.values())
                check_values(live, call, out, 2)
        return compiled

    def _launched(self, live: Live, grid: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        function = live.function
        if self.source.random() < 0.15:
            return function.run(*args, grid=grid, warmup=False, **kwargs)
        return function[grid](*args, **kwargs)

    def _check_events(
        self, live: Live, call: Call, before: int, expected: bool | None = None
    ) -> None:
        if self.interpreted:
            return
        new = self.events[before:]
        if expected is None:
            expected = call.key not in live.known and call.key not in live.preloaded
        if len(new) != expected:
            raise Mismatch(
                f"{describe(live, call)}: compiled {len(new)} times, wanted {int(expected)}"
            )
        live.known.add(call.key)
        live.calls[call.key] = call
        if new:
            live.data[call.key] = new[0][1]

    def warm_up(self) -> None:
        """`warmup`, with dtypes in place of some tensors that are aligned."""
        live = self.pick()
        call = random_call(self.source, live, self.arguments)
        out, counts = call.buffers(self.device)
        args, kwargs = call.arguments(live.kernel.parameters)
        if self.source.random() < 0.5:
            pairs = zip(call.given, args, strict=False)
            args = [self._by_dtype(given, arg) for given, arg in pairs]
        before = len(self.events)
        compiled = live.function.warmup(out.dtype, counts.dtype, *args, grid=(1,), **kwargs)
        self._check_events(live, call, before)
        if not self.interpreted:
            check_kernel(live, call, compiled)
        if out.any():
            raise Mismatch(f"{describe(live, call)}: a warmup ran the kernel")

    def _by_dtype(self, given: Any, arg: Any) -> Any:
        return arg.dtype if hasattr(given, "address") and given.address % 16 == 0 else arg

    def use_kept(self) -> None:
        """A launcher `kernel[grid]` that was kept from before."""
        live = self.pick()
        if not self.kept or self.source.random() < 0.3:
            grid, programs = random_grid(self.source)
            self.kept.append((live, live.function[grid], programs))
        live, launcher, programs = self.source.choice(self.kept)
        call = random_call(self.source, live, self.arguments)
        if live.calls and self.source.random() < 0.6:
            call = self.source.choice(list(live.calls.values()))
        out, counts = call.buffers(self.device)
        args, kwargs = call.arguments(live.kernel.parameters)
        before = len(self.events)
        launcher(out, counts, *args, **kwargs)
        self._check_events(live, call, before)
        check_values(live, call, out, programs)

    def threads(self) -> None:
        """Several threads launch at once, with new and known arguments."""
        work: list[list[tuple[Live, Call]]] = []
        calls = [(live, random_call(self.source, live, self.arguments))
                 for live in (self.pick(), self.pick())]  # fmt: skip
        calls += [(live, call) for live in {id(v): v for v, _ in calls}.values()
                  for call in list(live.calls.values())[-3:]]  # fmt: skip
        for _ in range(3):
            work.append([self.source.choice(calls) for _ in range(6)])
        before = len(self.events)

        def run(todo: list[tuple[Live, Call]]) -> None:
            for live, call in todo:
                out, counts = call.buffers(self.device)
                args, kwargs = call.arguments(live.kernel.parameters)
                live.function[(2,)](out, counts, *args, **kwargs)
                check_values(live, call, out, 2)

        in_threads(run, work)
        self._check_threads([pair for todo in work for pair in todo], before)

    def _check_threads(self, done: list[tuple[Live, Call]], before: int) -> None:
        if self.interpreted:
            return
        wanted = set[Any]()
        for live, call in done:
            if call.key not in live.known and call.key not in live.preloaded:
                wanted.add((id(live), call.key))
        for live, call in done:
            live.known.add(call.key)
            live.calls[call.key] = call
        if len(self.events) - before != len(wanted):
            raise Mismatch(
                f"threads: compiled {len(self.events) - before} times, wanted {len(wanted)}: "
                + " / ".join(describe(live, call) for live, call in done)
            )

    # Errors

    def bad_argument(self) -> None:
        """One argument that the parameter cannot take: an error that names it, and no launch."""
        live = self.pick()
        parameters = live.kernel.parameters
        at = self.source.randrange(len(parameters))
        if self.interpreted and parameters[at].is_constexpr:
            return  # which keeps no kernels, and takes any object
        value, errors = self.arguments.bad(parameters[at])
        if self.interpreted and isinstance(value, type):
            return  # it may be called
        call = random_call(self.source, live, self.arguments)
        out, counts = call.buffers(self.device)
        values = call.values()
        values[at] = value
        positional = [v for v, p in zip(values, parameters, strict=True) if not p.keyword_only]
        named = {p.name: v for v, p in zip(values, parameters, strict=True) if p.keyword_only}
        self._raises(live, f"{parameters[at].text()} <- {value!r}", errors, parameters[at].name,
                     lambda: live.function[(1,)](out, counts, *positional, **named))  # fmt: skip
        if out.any():
            raise Mismatch(f"{live.kernel.name}: a refused launch has run")

    def bad_call(self) -> None:
        """A call that does not match the parameters or the options."""
        live = self.pick()
        call = random_call(self.source, live, self.arguments)
        parameters = live.kernel.parameters
        out, counts = call.buffers(self.device)
        args, kwargs = call.arguments(parameters)
        function = live.function
        required = [i for i, p in enumerate(parameters) if not p.default and not p.keyword_only]
        ways: list[tuple[str, tuple[type[BaseException], ...], str, Callable[[], Any]]] = [
            ("an unknown option", (KeyError, TypeError), "nonsense",
             lambda: function[(1,)](out, counts, *args, nonsense=1, **kwargs)),
            ("out twice", (TypeError,), "out",
             lambda: function[(1,)](out, counts, *args, out=out, **kwargs)),
            ("too many arguments", (TypeError,), "positional",
             lambda: function[(1,)](out, counts, *range(len(parameters) + 1))),
            ("a bad grid", (TypeError, ValueError), "grid",
             lambda: function[self.source.choice(((), (1, 1, 1, 1), (1.5,), "x", (-1,), (None,)))](
                 out, counts, *args, **kwargs)),
        ]  # fmt: skip
        if required:
            name = parameters[required[-1]].name
            ways.append(
                ("a missing argument", (TypeError,), name,
                 lambda: function[(1,)](out, counts, *call.values()[: required[-1]]))
            )  # fmt: skip
        what, errors, text, act = self.source.choice(ways)
        if self.interpreted and what == "an unknown option":
            return  # options of backends are passed over
        self._raises(live, f"{what}: {describe(live, call)}", errors, text, act)
        if out.any():
            raise Mismatch(f"{live.kernel.name}: a refused launch has run ({what})")

    def _raises(
        self, live: Live, what: str, errors: tuple[type[BaseException], ...], text: str,
        act: Callable[[], Any],
    ) -> None:  # fmt: skip
        before = len(self.events)
        for _ in range(self.source.choice((1, 2))):
            try:
                act()
            except errors as error:
                if text not in str(error):
                    raise Mismatch(f"{what}: the error does not say {text!r}: {error}") from error
            else:
                raise Mismatch(f"{live.kernel.name}: {what}: no error")
        if len(self.events) != before:  # it was compiled, for a key that we do not know
            self._forget(live)

    def _forget(self, live: Live) -> None:
        live.function.device_caches.clear()
        live.known.clear()

    # The state of the process

    def clear(self) -> None:
        """Empty the caches of a kernel."""
        live = self.pick()
        if self.interpreted:
            return
        if self.source.random() < 0.5:
            live.function.device_caches.clear()
        else:
            for cache in live.function.device_caches.values():
                cache[0].clear()
        live.known.clear()

    def preload(self) -> None:
        """Forget all kernels, preload one of them, launch it: it is not compiled."""
        live = self.pick()
        if self.interpreted or not live.data:
            return
        key = self.source.choice(list(live.data))
        call = live.calls[key]
        self._forget(live)
        try:
            live.function.preload(live.data[key])
        except RuntimeError as error:
            if "cannot restore" not in str(error):
                raise
            return
        live.preloaded.add(key)
        self.do(live, call)

    def change_global(self) -> None:
        """A global of another value is an error; one of the same value is none."""
        live = self.pick()
        if self.interpreted or not live.known or not live.calls:
            return
        key = self.source.choice(list(live.known))
        call = live.calls[key]
        module = live.function.fn.__globals__
        before = module["SCALE"]
        kind = type(before)
        try:
            module["SCALE"] = kind(self.source.choice((4, 3.0, True)))
            self._raises(live, f"SCALE changed: {describe(live, call)}", (RuntimeError,), "SCALE",
                         lambda: self.do(live, call))  # fmt: skip
            module["SCALE"] = kind(3)
            self.do(live, call)
        finally:
            module["SCALE"] = before
        self.do(live, call)

    def harm_cache(self) -> None:
        """Damage, delete or obstruct the cache on disk, forget what is in memory, and launch."""
        live = self.pick()
        self.tuned = None
        how = self.source.choice(("delete", "damage", "empty", "obstruct"))
        files = [path for path in self.cache.rglob("*") if path.is_file()]
        if how in ("delete", "obstruct"):
            shutil.rmtree(self.cache, ignore_errors=True)
        else:
            for path in files:
                if self.source.random() < 0.7:
                    path.write_bytes(b"" if how == "empty" else b"\xff{not what was stored")
        if how == "obstruct":
            self.cache.write_text("in the way")
        if not self.interpreted and self.source.random() < 0.7:
            self._forget(live)
        try:
            for call in list(live.calls.values())[-2:]:
                self.do(live, call)
            self.do(live, random_call(self.source, live, self.arguments))
        finally:
            if how == "obstruct":
                self.cache.unlink(missing_ok=True)

    def redefine(self) -> None:
        """Edit the source and import it again; the functions of before stay as they are."""
        self.version += 1
        self.path.write_text(text_of(self.kernels, self.version))
        self.module = load(self.path.stem, self.path)
        self.lives += [Live(k, getattr(self.module, k.name), self.version) for k in self.kernels]

    def pre_run_hook(self) -> None:
        """A pre-run hook sees each launch, and may prevent it."""
        live = self.pick()
        if self.interpreted:
            return
        seen: list[int] = []
        call = random_call(self.source, live, self.arguments)
        live.function.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
        for _ in range(3):
            self.do(live, call)
        if len(seen) < 3:
            raise Mismatch(f"{describe(live, call)}: the pre-run hook was called {seen}")

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError("refused")

        live.function.add_pre_run_hook(refuse)
        self._raises(live, "a hook that raises", (ZeroDivisionError,), "refused",
                     lambda: self.do(live, call))  # fmt: skip
        live.function.pre_run_hooks.clear()
        self.do(live, call)

    def launch_hooks(self) -> None:
        """Hooks around launches are called in order, with the kernel's name, and not later."""
        if self.interpreted:
            return
        live = self.pick()
        call = random_call(self.source, live, self.arguments)
        told: list[str] = []

        def enter(data: Any) -> None:
            told.append(f"enter {data.get()['name']}")

        def leave(data: Any) -> None:
            told.append(f"leave {data.get()['name']}")

        knobs.runtime.launch_enter_hook.add(enter)
        knobs.runtime.launch_exit_hook.add(leave)
        try:
            args, kwargs = call.arguments(live.kernel.parameters)
            for _ in range(3):
                out, counts = call.buffers(self.device)
                before = len(self.events)
                compiled = live.function[(1,)](out, counts, *args, **kwargs)
                self._check_events(live, call, before)
                check_values(live, call, out, 1)
            wanted = [f"{word} {compiled.name}" for word in ("enter", "leave")] * 3
            if told != wanted:
                raise Mismatch(f"{describe(live, call)}: hooks {told}, wanted {wanted}")
        finally:
            knobs.runtime.launch_enter_hook.remove(enter)
            knobs.runtime.launch_exit_hook.remove(leave)
        told.clear()
        self.do(live, call)
        if told:
            raise Mismatch(f"hooks that were removed are called: {told}")

    def tune(self) -> None:
        """Launches of an autotuned kernel."""
        if self.tuned is None or self.source.random() < 0.2:
            self.tuned = Tuned(self.source, self.device, self.interpreted)
        before = len(self.events)
        self.source.choice((self.tuned.act, self.tuned.act, self.tuned.again, self.tuned.threads))()
        del self.events[before:]

    def layout(self) -> None:
        """Launches on a CUDA driver that only records."""
        if self.device == "cpu" and not self.interpreted:
            before = len(self.events)
            check_layout(self.source, self.pick(), self.arguments)
            del self.events[before:]

    def fork(self) -> None:
        """A child of a fork launches while a thread of this process does."""
        if self.device != "cpu" or not hasattr(os, "fork"):
            return
        live = self.pick()
        call = random_call(self.source, live, self.arguments)
        self.do(live, call)
        stop = threading.Event()
        errors: list[BaseException] = []

        def busy() -> None:
            try:
                while not stop.is_set():
                    out, counts = call.buffers(self.device)
                    args, kwargs = call.arguments(live.kernel.parameters)
                    live.function[(3,)](out, counts, *args, **kwargs)
                    check_values(live, call, out, 3)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=busy)
        thread.start()
        child = os.fork()
        if child == 0:
            self._in_child(live, call)
        _, status = os.waitpid(child, 0)
        stop.set()
        thread.join()
        if status:
            raise Mismatch(f"{describe(live, call)}: a forked child ended with {status}")
        if errors:
            raise errors[0]

    def _in_child(self, live: Live, call: Call) -> None:
        try:
            self.do(live, call)
            for _ in range(2):
                self.do(live, random_call(self.source, live, self.arguments))
            self.do(live, call)
        except BaseException as error:
            print(f"in a forked child: {type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
