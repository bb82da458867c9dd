"""The remote cache in Redis, against a server that the test starts on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tritium import cache, knobs
from tritium.cache import remote
from tritium.runtime.cache import RedisRemoteCacheBackend

SERVER = shutil.which("redis-server")
KEY = "ab" * 32

pytestmark = pytest.mark.skipif(SERVER is None, reason="redis-server is not installed")
pytest.importorskip("redis", reason="needs the extra `redis`")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A Redis server in memory."""

    def __init__(self, folder: Path):
        self.port = free_port()
        command = [str(SERVER), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            [*command, "--appendonly", "no", "--dir", str(folder)], stdout=subprocess.DEVNULL
        )
        for _ in range(5000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        self.stop()
        raise AssertionError("redis-server does not answer")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def client(self) -> Any:
        return remote._client("127.0.0.1", self.port, 5.0)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    with knobs.redis.scope(), knobs.cache.scope():
        knobs.redis.host, knobs.redis.port = "127.0.0.1", server.port
        knobs.cache.remote_manager_class = RedisRemoteCacheBackend
        knobs.cache.dir = str(tmp_path / "cache")
        remote._down.clear()  # pyright: ignore[reportPrivateUsage]
        remote._warned.clear()  # pyright: ignore[reportPrivateUsage]
        yield server
    remote._down.clear()  # pyright: ignore[reportPrivateUsage]
    server.stop()


def test_files(server: Server) -> None:
    backend = RedisRemoteCacheBackend("K")
    backend.put("f", b"\x00\xff")
    assert backend.get(["f", "g"]) == {"f": b"\x00\xff"}
    assert server.client().get("triton:K:f") == b"\x00\xff"
    knobs.redis.key_format = "mine/{filename}/{key}"
    RedisRemoteCacheBackend("K").put("f", b"2")
    assert server.client().get("mine/f/K") == b"2"


PROGRAM = """
    import sys
    import numpy as np
    import tritium, tritium.language as tl
    from tritium import knobs

    @tritium.jit
    def increment(x, N: tl.constexpr):
        tl.store(x + tl.arange(0, N), tl.load(x + tl.arange(0, N)) + 1)

    hits = []
    knobs.compilation.listener = lambda cache_hit, **_: hits.append(cache_hit)
    x = np.zeros(16, np.int32)
    increment[(1,)](x, 16)
    assert (x == 1).all()
    print(hits)
"""


def run(tmp_path: Path, server: Server, own: str, **more: str) -> str:
    """Run the program with a cache directory of its own."""
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    env = knobs.child_environment(
        PYTHONPATH=os.pathsep.join(sys.path), TRITON_CACHE_DIR=str(tmp_path / own),
        TRITON_REDIS_HOST="127.0.0.1", TRITON_REDIS_PORT=str(server.port),
        TRITON_REMOTE_CACHE_BACKEND="tritium.runtime.cache:RedisRemoteCacheBackend", **more,
    )  # fmt: skip
    command = [sys.executable, "-W", "error", str(tmp_path / "program.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_machine_finds_what_one_has_compiled(tmp_path: Path, server: Server) -> None:
    assert run(tmp_path, server, "one") == "[False]"
    assert run(tmp_path, server, "two") == "[True]"
    names = {k.decode().rsplit(":", 1)[1] for k in server.client().keys("*:*increment*")}
    stages = {f"increment.{e}" for e in ("source", "ttir", "tile", "llir", "obj", "json")}
    assert names == {*stages, "__grp__increment.json"}
    server.client().flushall()
    assert run(tmp_path, server, "two") == "[True]", "it is kept on the machine, too"
    assert run(tmp_path, server, "three") == "[False]"


def group() -> dict[str, str]:
    return cache.publish(KEY, "k.json", {"k.ttir": "text", "k.obj": b"code"})


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Requests to the server."""
    asked: list[Any] = []
    for name in ("get", "put"):
        ask = getattr(RedisRemoteCacheBackend, name)

        def counted(self: Any, what: Any, *data: bytes, ask: Any = ask) -> Any:
            asked.append(what)
            return ask(self, what, *data)

        monkeypatch.setattr(RedisRemoteCacheBackend, name, counted)
    return asked


def test_a_server_that_is_down(server: Server, questions: list[Any]) -> None:
    server.stop()
    with pytest.warns(RuntimeWarning, match=r"RedisRemoteCacheBackend failed with ConnectionError.*"
                      r"kept on this machine alone") as caught:  # fmt: skip
        assert cache.find(KEY, "k.json") is None
        stored = group()
        assert cache.find(KEY, "k.json") == stored and "cache" in stored["k.ttir"]
    assert len(caught) == 1 and len(questions) == 1


def test_a_server_that_does_not_answer(server: Server, questions: list[Any]) -> None:
    knobs.redis.timeout_ms = 200
    server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.warns(RuntimeWarning, match=r"failed with TimeoutError") as caught:
            for number in range(20):
                cache.publish(f"{number:064x}", "k.json", {"k.ttir": "text"})
        assert len(caught) == 1 and len(questions) == 1, "it is asked once"
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_a_server_that_comes_back(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: now[0]))
    knobs.redis.timeout_ms = 200
    server.process.send_signal(signal.SIGSTOP)
    with pytest.warns(RuntimeWarning, match=r"TimeoutError"):
        group()
    server.process.send_signal(signal.SIGCONT)
    server.client().ping()
    knobs.redis.timeout_ms = 20_000
    now[0] += 59
    cache.publish("cd" * 32, "k.json", {"k.ttir": "text"})
    assert not server.client().keys("*k.ttir"), "not asked for a minute"
    now[0] += 2
    cache.publish("ef" * 32, "k.json", {"k.ttir": "text"})
    assert len(server.client().keys("*k.ttir")) == 1


def test_damage_on_the_server_is_a_miss(server: Server, tmp_path: Path) -> None:
    group()
    (name,) = server.client().keys("*k.obj")
    server.client().set(name, b"evil")
    knobs.cache.dir = str(tmp_path / "second")
    with pytest.warns(RuntimeWarning, match=r"of the remote cache: the content of k\.obj"):
        assert cache.find(KEY, "k.json") is None
    group()
    knobs.cache.dir = str(tmp_path / "third")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cache.find(KEY, "k.json")
    assert found and Path(found["k.obj"]).read_bytes() == b"code"


def test_autotuning_over_redis(server: Server) -> None:
    from tests.runtime.autotuning.test_tuning import double, launch, tuned

    launch(tuned(double, incremental=False), dtype="uint8")  # the children store there, too
    assert len(server.client().keys("*:double.obj")) == 5
