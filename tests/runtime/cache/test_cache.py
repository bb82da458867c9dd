"""The cache on disk: layout, verification, degradation, concurrency, pluggable and remote parts."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tritium import cache, knobs
from tritium.cache import files, remote
from tritium.cache.base import RemoteCacheBackend

KEY = hashlib.sha256(b"key").hexdigest()


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("TRITON_CACHE_MANAGER", "TRITON_REMOTE_CACHE_BACKEND"):
        monkeypatch.delenv(variable, raising=False)
    for kind in ("CACHE", "DUMP", "OVERRIDE"):
        monkeypatch.setenv(f"TRITON_{kind}_DIR", str(tmp_path / kind.lower()))
    monkeypatch.setattr(files, "memory", files._Memory())
    return tmp_path / "cache"


def store(**files: str) -> dict[str, str]:
    manager = cache.get_cache_manager(KEY)
    group = {f"k.{ext}": manager.put(text, f"k.{ext}") for ext, text in files.items()}
    manager.put_group("k.json", group)
    return group


def entry(directory: Path) -> Path:
    (only,) = directory.iterdir()
    return only


def test_layout(directory: Path):
    group = store(ttir="a", llir="b")
    path = entry(directory)
    assert len(path.name) == 52 and path.name.isupper()
    assert sorted(p.name for p in path.iterdir()) == ["__grp__k.json", "k.llir", "k.ttir"]
    content = json.loads((path / "__grp__k.json").read_text())
    assert content["child_paths"] == group
    assert cache.get_cache_manager(KEY).get_group("k.json") == group
    manager = cache.get_cache_manager(KEY)
    assert manager.get_file("k.ttir") == str(path / "k.ttir")
    assert manager.has_file("k.ttir") and not manager.has_file("other")
    assert manager.get_file("other") is None
    assert manager.get_group("other") is None


def test_dump_and_override_directories(directory: Path):
    cache.get_dump_manager(KEY).put("d", "f")
    cache.get_override_manager(KEY).put(b"o", "f")
    name = cache.base32(KEY)
    assert (directory.parent / "dump" / name / "f").read_text() == "d"
    assert (directory.parent / "override" / name / "f").read_text() == "o"
    assert not directory.exists()


def test_bad_key():
    with pytest.raises(ValueError, match="'nothex': expected a digest in hexadecimal"):
        cache.get_cache_manager("nothex")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("k.ttir", b"A", "its content is not what was stored"),
        ("k.ttir", b"", "its content is not what was stored"),
        ("__grp__k.json", b'{"child_pa', "Unterminated string"),
        ("__grp__k.json", b"[]", "no digests"),
        ("__grp__k.json", b"\x80{}", "codec"),
        ("__grp__k.json", b'{"child_paths": {"k.ttir": "x"}}', "no digests"),
    ],
)
def test_damage_is_reported_once_and_is_a_miss(directory: Path, file, content, message):
    store(ttir="a", llir="b")
    (entry(directory) / file).write_bytes(content)
    with pytest.warns(RuntimeWarning, match=f"damaged cache entry .*{file}.*") as caught:
        assert cache.get_cache_manager(KEY).get_group("k.json") is None
    assert len(caught) == 1 and message in str(caught[0].message)
    group = store(ttir="a", llir="b")  # storing again repairs it
    assert cache.get_cache_manager(KEY).get_group("k.json") == group


def test_unreadable_is_a_miss(directory: Path):
    store(ttir="a")
    (entry(directory) / "k.ttir").unlink()
    (entry(directory) / "k.ttir").mkdir()  # reading it fails even for root
    with pytest.warns(RuntimeWarning, match="k.ttir: .*directory"):
        assert cache.get_cache_manager(KEY).get_group("k.json") is None


def test_deleted_children_are_left_out(directory: Path):
    group = store(ttir="a", llir="b")
    os.unlink(group.pop("k.ttir"))
    assert cache.get_cache_manager(KEY).get_group("k.json") == group


def test_a_moved_cache_directory_still_works(directory: Path, monkeypatch: pytest.MonkeyPatch):
    store(ttir="a")
    directory.rename(directory.parent / "elsewhere")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(directory.parent / "elsewhere"))
    (path,) = cache.get_cache_manager(KEY).get_group("k.json").values()
    assert "elsewhere" in path and Path(path).read_text() == "a"


@pytest.mark.parametrize(
    ("function", "number"),
    [("replace", errno.ENOSPC), ("makedirs", errno.EROFS), ("makedirs", errno.EACCES)],
)
def test_unwritable_directory_degrades_to_memory(
    directory: Path, monkeypatch: pytest.MonkeyPatch, function, number
):
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, function, fail)
    with pytest.warns(RuntimeWarning, match="kept in memory.*TRITON_CACHE_DIR") as caught:
        group = store(ttir="a", llir="b")
        other = cache.get_cache_manager(hashlib.sha256(b"2").hexdigest())
        other.put("c", "x")
    assert len(caught) == 1 and os.strerror(number) in str(caught[0].message)
    assert cache.get_cache_manager(KEY).get_group("k.json") == group
    assert Path(group["k.llir"]).read_text() == "b"
    reader = subprocess.run(["cat", group["k.ttir"]], capture_output=True, check=True)
    assert reader.stdout == b"a"
    left = [p for p in directory.rglob("*") if p.is_file()] if directory.exists() else []
    assert left == []


def test_full_disk_while_writing(directory: Path, monkeypatch: pytest.MonkeyPatch):
    real = open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *args):
            self.file.close()

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    def opening(path, mode="r", **options):
        file = real(path, mode, **options)
        return Full(file) if "w" in mode and "tmp.pid" in str(path) else file

    monkeypatch.setattr(files, "open", opening, raising=False)
    with pytest.warns(RuntimeWarning, match="No space left"):
        group = store(ttir="aaaa")
    assert Path(group["k.ttir"]).read_text() == "aaaa"
    assert list(entry(directory).iterdir()) == []


@pytest.mark.parametrize("function", ["replace", "makedirs"])
def test_interrupt_leaves_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch, function):
    manager = cache.get_cache_manager(KEY)
    manager.put("first", "k.ttir")

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, function, interrupt)
    with pytest.raises(KeyboardInterrupt):
        manager.put("second", "k.llir")
    assert [p.name for p in entry(directory).iterdir()] == ["k.ttir"]
    assert manager.get_group("k.json") is None


HAMMER = """
import sys, warnings
from tritium import cache
warnings.simplefilter("error")
for i in range(40):
    manager = cache.get_cache_manager(sys.argv[1])
    text = "x" * 20000
    manager.put_group("k.json", {"k.o": manager.put(text, "k.o")})
    group = cache.get_cache_manager(sys.argv[1]).get_group("k.json")
    assert group and open(group["k.o"]).read() == text
"""


def test_concurrent_processes(directory: Path):
    children = [subprocess.Popen([sys.executable, "-c", HAMMER, KEY]) for _ in range(8)]
    assert [child.wait(timeout=60) for child in children] == [0] * 8
    assert sorted(p.name for p in entry(directory).iterdir()) == ["__grp__k.json", "k.o"]


class RecordingManager(cache.CacheManager):
    calls: list[tuple[object, ...]]

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.calls = []
        self.made = (key, override, dump)

    def get_file(self, filename):
        self.calls.append(("get_file", filename))

    def put(self, data, filename, binary=True):
        self.calls.append(("put", filename))
        return filename

    def get_group(self, filename):
        self.calls.append(("get_group", filename))

    def put_group(self, filename, group):
        self.calls.append(("put_group", filename))
        return filename


def test_custom_manager():
    with knobs.cache.scope():
        knobs.cache.manager_class = RecordingManager
        manager = cache.get_dump_manager(KEY)
        with pytest.warns(RuntimeWarning, match=r"raised FileNotFoundError.*'native\.o'"):
            cache.CachedObjects("native").save(KEY, b"x")  # `put` names a file that is not there
        assert cache.CachedObjects("native").load(KEY) is None
    assert isinstance(manager, RecordingManager)
    assert manager.made == (cache.base32(KEY), False, True)


class FakeRemote(RemoteCacheBackend):
    files: ClassVar[dict[str, bytes]] = {}

    def __init__(self, key: str):
        self.key = key

    def get(self, filenames):
        return {n: self.files[self.key + n] for n in filenames if self.key + n in self.files}

    def put(self, filename, data):
        self.files[self.key + filename] = data


@pytest.fixture
def fake_remote():
    FakeRemote.files = {}
    with knobs.cache.scope():
        knobs.cache.remote_manager_class = FakeRemote
        yield FakeRemote


def test_remote_cache_fills_an_empty_directory(directory: Path, fake_remote, monkeypatch):
    store(ttir="a", llir="b")
    assert len(fake_remote.files) == 3
    assert str(directory) not in str(fake_remote.files)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(directory.parent / "second"))
    manager = cache.get_cache_manager(KEY)
    assert isinstance(manager, remote.RemoteCacheManager)
    group = manager.get_group("k.json")
    assert {n: Path(p).read_text() for n, p in group.items()} == {"k.ttir": "a", "k.llir": "b"}
    fake_remote.files = {}
    assert cache.get_cache_manager(KEY).get_group("k.json") == group
    assert manager.get_file("nothing") is None
    assert cache.get_dump_manager(KEY).get_file("k.ttir") is None


def test_remote_damage_is_a_miss(directory: Path, fake_remote, monkeypatch):
    store(ttir="a")
    key = next(k for k in fake_remote.files if k.endswith("k.ttir"))
    fake_remote.files[key] = b"b"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(directory.parent / "second"))
    with pytest.warns(RuntimeWarning, match=r"remote cache: the content of k\.ttir"):
        assert cache.get_cache_manager(KEY).get_group("k.json") is None


def test_remote_manager_needs_a_backend():
    with pytest.raises(RuntimeError, match="TRITON_REMOTE_CACHE_BACKEND is not set"):
        remote.RemoteCacheManager("k")


def test_redis_is_optional(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with knobs.redis.scope():
        knobs.redis.host = "another.host"  # a client that is known already needs no import
        with pytest.raises(RuntimeError, match=r"tritium\[redis\]"):
            remote.RedisRemoteCacheBackend("K")


class RaisingManager(cache.CacheManager):
    def __init__(self, key: str, override: bool = False, dump: bool = False):
        pass

    def get_file(self, filename):
        raise OSError("no route to the cache")

    def put(self, data, filename, binary=True):
        raise OSError("no route to the cache")

    def get_group(self, filename):
        raise OSError("no route to the cache")

    def put_group(self, filename, group):
        raise OSError("no route to the cache")


def test_a_manager_that_raises(directory: Path):
    cache._warned.discard(RaisingManager)
    with knobs.cache.scope():
        knobs.cache.manager_class = RaisingManager
        message = r"test_cache.RaisingManager raised OSError: no route to the cache; compiled"
        with pytest.warns(RuntimeWarning, match=message) as caught:
            assert cache.find(KEY, "k.json") is None
            group = cache.publish(KEY, "k.json", {"k.ttir": "a", "k.obj": b"b"})
            assert cache.find(KEY, "k.json") == group
    assert len(caught) == 1
    assert Path(group["k.ttir"]).read_text() == "a" and str(directory) in group["k.ttir"]


class UnmadeManager(RaisingManager):
    def __init__(self, key: str, override: bool = False, dump: bool = False):
        raise OSError("no route to the cache")


class ForgetfulManager(files.FileCacheManager):
    def get_group(self, filename):
        group = super().get_group(filename)
        return None if group is None else {name: f"/nowhere/{name}" for name in group}


@pytest.mark.parametrize("kind", [UnmadeManager, ForgetfulManager, cache.CacheManager])
def test_a_manager_that_cannot_be_used(directory: Path, kind):
    cache._warned.discard(kind)
    with knobs.cache.scope():
        knobs.cache.manager_class = kind
        with pytest.warns(RuntimeWarning, match=f"{kind.__name__} raised") as caught:
            cache.publish(KEY, "k.json", {"k.ttir": "a"})
            group = cache.find(KEY, "k.json")
    assert len(caught) == 1 and Path(group["k.ttir"]).read_text() == "a"


class UnmadeRemote(FakeRemote):
    def __init__(self, key: str):
        raise ConnectionError("no route to the cache")


def test_a_remote_cache_that_cannot_be_made(directory: Path):
    with knobs.cache.scope():
        knobs.cache.remote_manager_class = UnmadeRemote
        with pytest.warns(RuntimeWarning, match="UnmadeRemote failed with ConnectionError") as seen:
            group = cache.publish(KEY, "k.json", {"k.ttir": "a"})
            assert cache.find(KEY, "k.json") == group
    assert len(seen) == 1 and Path(group["k.ttir"]).read_text() == "a"


def test_a_process_that_may_write_no_file(directory: Path):
    """As under a limit on the size of files, which holds for those in memory, too."""
    code = (
        "import resource, sys, warnings\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "from tritium import cache\n"
        "warnings.simplefilter('ignore')\n"
        "code = cache.CachedObjects('native')\n"
        f"code.save({KEY!r}, b'x' * 1000)\n"
        f"print(len(code.load({KEY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1000\n", "")


def test_few_files_are_open_in_memory(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(directory / "file" / "below"))
    directory.mkdir()
    (directory / "file").write_text("no directory")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.warns(RuntimeWarning, match="the cache directory .* cannot be written"):
        for number in range(200):
            name, key = f"k{number}", hashlib.sha256(b"%d" % number).hexdigest()
            cache.CachedObjects(name).save(key, b"%d" % number)
            assert cache.CachedObjects(name).load(key) == b"%d" % number
    assert len(os.listdir("/proc/self/fd")) <= before + 128


def test_a_dump_directory_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="the dump directory .* TRITON_DUMP_DIR") as seen:
        cache.get_dump_manager(KEY).put("a", "k.ttir")
        cache.get_dump_manager(KEY).put("b", "k.llir")
    assert len(seen) == 1 and not files.memory.paths


def test_the_first_to_publish_wins(directory: Path):
    first = cache.publish(KEY, "k.json", {"k.ttir": "a", "k.obj": b"1"})
    assert cache.publish(KEY, "k.json", {"k.ttir": "b", "k.obj": b"2"}) == first
    assert Path(first["k.ttir"]).read_text() == "a"
    cache.publish(KEY, "k.json", {"k.ttir": "b", "k.obj": b"2"}, replace=True)
    assert Path(first["k.ttir"]).read_text() == "b"
    (entry(directory) / "k.obj").write_bytes(b"damaged")
    cache.publish(KEY, "k.json", {"k.ttir": "c", "k.obj": b"3"})
    assert Path(first["k.obj"]).read_bytes() == b"3", "a damaged entry is replaced"


def test_leftovers_are_swept(directory: Path):
    for name, age in (("tmp.pid_1_a", 3600), ("tmp.pid_1_b", 5)):
        folder = directory / cache.base32(KEY) / name
        folder.mkdir(parents=True)
        (folder / "part").write_text("x")
        os.utime(folder, (time.time() - age,) * 2)
    cache.publish(KEY, "k.json", {"k.ttir": "a"})
    names = sorted(p.name for p in entry(directory).iterdir())
    assert names == ["__grp__k.json", "k.ttir", "tmp.pid_1_b"]


def test_what_is_being_replaced_is_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch):
    """A reader in the middle of a replacement gets the new files, without a warning."""
    cache.publish(KEY, "k.json", {"k.ttir": "a", "k.obj": b"1"})
    manager = cache.FileCacheManager(cache.base32(KEY))
    (entry(directory) / "k.obj").write_bytes(b"2")  # as a writer of old would do it
    locked = cache.FileCacheManager._locked

    @contextmanager
    def after_the_writer(self):
        with locked(self):
            pass
        monkeypatch.setattr(cache.FileCacheManager, "_locked", locked)
        cache.publish(KEY, "k.json", {"k.ttir": "b", "k.obj": b"2"}, replace=True)
        with locked(self):
            yield

    monkeypatch.setattr(cache.FileCacheManager, "_locked", after_the_writer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = manager.get_group("k.json")
    assert group and Path(group["k.ttir"]).read_text() == "b"


def test_cached_objects():
    objects = cache.CachedObjects("native")
    assert objects.load(KEY) is None
    objects.save(KEY, b"\x7fELF")
    assert objects.load(KEY) == b"\x7fELF"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.CachedObjects("native").load(KEY) == b"\x7fELF"


def test_the_folder_of_a_key_by_the_name_that_torch_imports(tmp_path: Path) -> None:
    from tritium.runtime.cache import _base32

    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        assert cache.get_cache_manager(KEY).put(b"x", "k.cubin") == str(
            tmp_path / _base32(KEY) / "k.cubin"
        )
