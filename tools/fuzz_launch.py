"""Random host actions: launches of all kinds, errors, hooks, caches, threads, forks, autotuning.

    python tools/fuzz_launch.py --minutes 5 [--seed 0] [--device cpu|interpreter|cuda]

A session is a process of its own with one generated module of kernels and an empty cache. Its
kernels record what they see of each argument (type, value, elements); the oracle says in plain
Python what that must be, for what each launch is specialized, how often is compiled and which
arguments are refused. Session number N is the same everywhere: `--seed N --sessions 1` runs it
again. Exits with 1 if a session fails, dies or hangs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
HANGS = 300.0
"""Seconds after which a session counts as one that does not end."""


def work(seed: int, device: str, actions: int) -> int:
    """One session in this process."""
    sys.dont_write_bytecode = True  # files change within a second
    from tools.launch_programs.session import Session

    with tempfile.TemporaryDirectory(prefix="tritium-launch-", ignore_cleanup_errors=True) as where:
        session = Session(seed, device, Path(where))
        try:
            session.run(actions)
        except BaseException as error:
            traceback.print_exc()
            print(f"after {len(session.log)} actions ({', '.join(session.log[-5:])})")
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    print(f"{len(session.events)} compiled", flush=True)
    return 0


def run_session(seed: int, given: argparse.Namespace) -> str | None:
    """Run one session in a process; the end of its output if it fails."""
    command = [
        sys.executable, __file__, "--work", "--seed", str(seed), "--device", given.device,
        "--actions", str(given.actions),
    ]  # fmt: skip
    environment = dict(os.environ)
    if given.device == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    try:
        done = subprocess.run(
            command, env=environment, timeout=HANGS, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"does not end within {HANGS:.0f} s"
    if done.returncode == 0:
        return None
    return f"ended with {done.returncode}\n{done.stdout[-given.lines * 100 :]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="random host actions with an oracle")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--sessions", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--actions", type=int, default=60, help="of a session")
    parser.add_argument("--seed", type=int, default=0, help="of the first session")
    parser.add_argument("--device", default="cpu", choices=("cpu", "interpreter", "cuda"))
    parser.add_argument("--lines", type=int, default=30, help="of a failure's output to show")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work(given.seed, given.device, given.actions)
    until, failed, ran = time.time() + 60 * given.minutes, 0, 0
    for seed in range(given.seed, given.seed + given.sessions):
        if time.time() > until:
            break
        ran += 1
        if text := run_session(seed, given):
            failed += 1
            print(f"session {seed} {text}", flush=True)
    print(f"{ran} sessions of {given.actions} actions on {given.device}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
