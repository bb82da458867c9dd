"""The command line: what each command prints, and how it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tritium import compat, knobs
from tritium.cache.files import FileCacheManager
from tritium.cli import doctor
from tritium.cli.app import app

SRC = str(Path(__file__).parents[2] / "src")


def tritium(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": SRC, "COLUMNS": "200", **environment}
    command = [sys.executable, "-m", "tritium", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def refused(*arguments: str) -> str:
    """The message about a wrong use of a command, run in this process."""
    done = CliRunner().invoke(app, arguments, terminal_width=200, env={"COLUMNS": "200"})
    compat.uninstall()
    assert done.exit_code == 2
    return " ".join(done.stderr.split())


def test_version_names_the_reference_too():
    assert tritium("--version").stdout == "tritium 0.1.0 (follows triton 3.9.0)\n"


def test_help_lists_every_command():
    text = tritium("--help").stdout
    for command in ("demo", "run", "pytest", "opt", "cache", "doctor"):
        assert command in text


def test_an_unknown_command_is_a_usage_error():
    assert "compil" in refused("compil")


# ---- run ----------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    def write(text: str, name: str = "prog.py") -> str:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return str(file)

    return write


def test_run_with_sanitize_reports_the_first_access_out_of_bounds(program):
    file = program("""
        import numpy as np, triton, triton.language as tl

        @triton.jit
        def kernel(x, out):
            i = tl.arange(0, 16)
            tl.store(out + i, tl.load(x + i))

        kernel[(1,)](np.zeros(15, np.float32), np.zeros(16, np.float32))
    """)
    done = tritium("run", "--sanitize", "bounds", file)
    assert done.returncode == 1
    assert f"load out of bounds in kernel 'kernel', program (0, 0, 0), at {file}:7" in done.stderr
    assert "is index 15 of argument 'x', which has 15 elements of float32" in done.stderr
    wrong = refused("run", "--sanitize", "bonds", file)
    assert "'bonds' is no program and none of bounds" in wrong
    for checks in (["--sanitize"], ["--sanitize", "-m"], ["--sanitize", "bounds"]):
        assert refused("run", *checks)
    assert "'absent.py' is no program and none" in refused("run", "--sanitize", "absent.py")
    unnamed = tritium("run", "--sanitize", file)
    assert unnamed.returncode == 1 and "is index 15 of argument 'x'" in unnamed.stderr


def test_run_gives_the_program_its_arguments_name_and_folder(program):
    program("VALUE = 7\n", "beside.py")
    file = program("""
        import sys, triton, triton.language as tl
        from beside import VALUE
        print(triton.__version__, tl.__name__, VALUE, sys.argv[1:], __name__, __file__)
    """)
    done = tritium("run", file, "--help", "-x", "a b")
    assert done.stderr == ""
    expected = f"3.9.0 tritium.language 7 ['--help', '-x', 'a b'] __main__ {file}\n"
    assert done.stdout == expected


KERNEL = """
    import sys
    import {array} as xp
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    @triton.jit
    def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
        i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(out_ptr + i, x * factor, mask=i < n)

    x = xp.ones(1000)
    out = xp.zeros_like(x)
    grid = lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)
    scale[grid](x, out, 1000, float(sys.argv[1]), BLOCK=256)
    print(float(out.sum()), triton.__version__, "tritium" in sys.modules)
"""


@pytest.mark.parametrize("array", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
def test_run_an_unmodified_program_with_a_kernel(program, array):
    if importlib.util.find_spec(array) is None:
        pytest.skip(f"{array} is not installed")
    done = tritium("run", program(KERNEL.format(array=array)), "2.5")
    assert done.stdout == "2500.0 3.9.0 True\n", done.stderr


def test_run_a_module(program, tmp_path):
    program("import sys, triton; print(triton.__version__, sys.argv[1:])", "pkg/tool.py")
    env = {**os.environ, "PYTHONPATH": SRC}
    command = [sys.executable, "-m", "tritium", "run", "-m", "pkg.tool", "-q"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "3.9.0 ['-q']\n", done.stderr


def test_run_a_folder(program, tmp_path):
    program("import triton; print(triton.__version__)", "app/__main__.py")
    assert tritium("run", str(tmp_path / "app")).stdout == "3.9.0\n"


def test_run_ends_as_the_program_does(program):
    assert tritium("run", program("raise SystemExit(3)")).returncode == 3
    assert tritium("run", program("import sys; sys.exit()")).returncode == 0


def test_run_shows_the_program_s_frames_only(program):
    done = tritium("run", program("def f():\n    return 1 / 0\nf()\n"))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "prog.py" in lines[1] and lines[-1] == "ZeroDivisionError: division by zero"
    assert "tritium" not in done.stderr.replace(SRC, "")


def test_run_leaves_names_to_exit_handlers(program):
    file = program("""
        import atexit, sys
        state = ["kept"]
        atexit.register(lambda: print(state[0], sys.modules["__main__"].state))
    """)
    assert tritium("run", file).stdout == "kept ['kept']\n"


def test_run_spawned_children_import_the_alias_and_the_program(program):
    file = program("""
        import multiprocessing
        import triton
        def f(x):
            return triton.__version__, x + 1
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(f, [1]))
    """)
    done = tritium("run", file)
    assert done.stdout == "[('3.9.0', 2)]\n", done.stderr


KERNEL_TEXT = """
import os, sys
print(__name__, sys.argv)
os.chdir("/")
import numpy, triton, triton.language as tl
@triton.jit
def k(x):
    tl.store(x, 7.0)
x = numpy.zeros(1, "f4"); k[(1,)](x); print(x[0], globals().get("__file__"))
"""


def _run_in(folder, *arguments: str, given: str | None = None):
    command = [sys.executable, "-m", "tritium", "run", *arguments]
    env = {**os.environ, "PYTHONPATH": SRC}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, input=given, timeout=120
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("interpret", ["0", "1"])
def test_run_a_program_that_changes_its_directory(program, tmp_path, interpret, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    file = program(KERNEL_TEXT)
    done = _run_in(tmp_path, "prog.py", "a")
    assert done.stdout == f"__main__ ['prog.py', 'a']\n7.0 {file}\n", done.stderr


@pytest.mark.every(2)
@pytest.mark.parametrize("interpret", ["0", "1"])
def test_run_the_text_of_a_program(tmp_path, interpret, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    done = _run_in(tmp_path, "-c", KERNEL_TEXT, "a", "-b")
    assert done.stdout == "__main__ ['-c', 'a', '-b']\n7.0 None\n", done.stderr
    done = _run_in(tmp_path, "-", "a", given=KERNEL_TEXT)
    assert done.stdout == "__main__ ['-', 'a']\n7.0 None\n", done.stderr


def test_run_shows_the_frames_of_a_text_only(tmp_path):
    done = _run_in(tmp_path, "-c", "def f():\n    return 1 / 0\nf()\n")
    assert done.returncode == 1 and done.stderr.splitlines()[1].startswith('  File "<string>"')


def test_run_without_a_text():
    assert "-c needs the text of a program" in refused("run", "-c")


def test_run_without_such_a_file():
    assert "no_such_program.py: no such file" in refused("run", "no_such_program.py")
    assert "is no program: it is no text" in refused("run", sys.executable)
    assert refused("run")


def test_run_with_sanitize_fills_new_arrays(tmp_path):
    file = tmp_path / "prog.py"
    file.write_text("import numpy as np\nprint(np.isnan(np.empty(9)).all())\n")
    assert tritium("run", "--sanitize", "unwritten", str(file)).stdout == "True\n"


def test_run_of_a_folder_without_a_program(tmp_path):
    assert "a folder without __main__.py" in refused("run", str(tmp_path))


SUITE = """
    import pytest, triton
    def test_fixtures(device, fresh_knobs, fresh_triton_cache, with_allocator):
        assert device == "cpu" and fresh_knobs is triton.knobs
        assert triton.__version__ == "3.9.0"
"""


@pytest.mark.parametrize("conftest", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_pytest_has_options_and_fixtures(program, tmp_path, conftest):
    """By the plug-in alone; beside a conftest.py of such options, with worker processes too."""
    file = program(SUITE, "test_it.py")
    if conftest:
        pytest.importorskip("xdist")
        text = """
            import pytest
            def pytest_addoption(parser):
                parser.addoption("--device", default="cuda")
            @pytest.fixture
            def device(request):
                return request.config.getoption("--device")
        """
        program(text, "conftest.py")
    more = ("-n", "1", "--device", "cpu") if conftest else ()
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    done = tritium("pytest", *options, *more, file, TRITON_DEFAULT_BACKEND="cpu")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


# ---- cache --------------------------------------------------------------------------------------


KERNELS = ("A" * 52, "B" * 51 + "Q")


@pytest.fixture
def cache(tmp_path):
    """Two kernels, a launcher, and what is not the cache's."""
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        for number, size in ((1, 100), (2, 50)):
            FileCacheManager(KERNELS[number - 1]).publish(
                "kernel.json", {"kernel.json": b"{}", "kernel.o": b"x" * size}
            )
        FileCacheManager("C" * 51 + "A").publish("launcher.json", {"launcher.o": b"x" * 10})
    (tmp_path / "a_file.txt").write_text("not a kernel")
    (tmp_path / "my_thesis").mkdir()
    (tmp_path / "my_thesis" / "a.txt").write_text("text")
    return tmp_path


def test_cache_tells_where_and_how_big(cache):
    here = {"TRITON_CACHE_DIR": str(cache)}
    assert tritium("cache", "where", **here).stdout == f"{cache}\n"
    total = sum(f.stat().st_size for f in cache.glob("*/*") if f.parent.name != "my_thesis")
    assert tritium("cache", "size", **here).stdout == (
        f"2 kernels, 1 other entries, {total} bytes\n"
    )
    text = tritium("cache", **here).stdout
    assert text.startswith(f"{cache}: 2 kernels, 1 other entries, 1.")


def test_cache_clear_removes_kernels_and_nothing_else(cache):
    (cache / KERNELS[0] / "tmp.pid_1_x").mkdir()
    (cache / KERNELS[0] / "tmp.pid_1_x" / "part").write_text("left by a killed process")
    done = tritium("cache", "clear", "--yes", TRITON_CACHE_DIR=str(cache))
    assert done.stdout == "removed 2 kernels, 1 other entries\n"
    assert done.stderr == "left 1 folders that are not the cache's\n"
    assert sorted(p.name for p in cache.iterdir()) == ["a_file.txt", "my_thesis"]
    assert (cache / "my_thesis" / "a.txt").read_text() == "text"


def test_cache_clear_leaves_what_only_looks_like_an_entry(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / ("D" * 51 + "A")).symlink_to(elsewhere, target_is_directory=True)
    (cache / ("E" * 51 + "A") / "sources").mkdir(parents=True)
    (cache / ("F" * 51 + "A")).mkdir()
    (cache / ("F" * 51 + "A") / "link").symlink_to(elsewhere, target_is_directory=True)
    (cache / ("F" * 52)).mkdir()  # not the base-32 form of 256 bits
    before = sorted(tmp_path.rglob("*"))
    done = tritium("cache", "clear", "--yes", TRITON_CACHE_DIR=str(cache))
    assert done.stdout == "removed 0 kernels\n" and sorted(tmp_path.rglob("*")) == before


def test_cache_clear_asks_first(cache):
    before = sorted(cache.rglob("*"))
    done = tritium("cache", "clear", TRITON_CACHE_DIR=str(cache))
    assert done.returncode == 1 and sorted(cache.rglob("*")) == before


def test_a_cache_that_does_not_exist_is_empty(tmp_path):
    done = tritium("cache", "size", TRITON_CACHE_DIR=str(tmp_path / "none"))
    assert done.stdout == "0 kernels, 0 bytes\n" and done.returncode == 0


@pytest.mark.parametrize("command", [(), ("size",), ("clear", "--yes")])
def test_a_cache_folder_that_is_a_file_is_refused(tmp_path, command):
    (tmp_path / "file").write_text("")
    done = tritium("cache", *command, TRITON_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == 1 and "is a file; set TRITON_CACHE_DIR to a folder" in done.stderr
    assert "Traceback" not in done.stderr


# ---- doctor -------------------------------------------------------------------------------------


def test_doctor_reports_every_part():
    done = tritium("doctor", "--json", TRITIUM_NUM_THREADS="3")
    assert done.returncode == 0, done.stdout
    report = {f["name"]: f for f in json.loads(done.stdout)}
    assert report["llvmlite"]["state"] == "ok" and "LLVM 22" in report["llvmlite"]["detail"]
    assert "kernels use 3" in report["cores"]["detail"]
    for name in ("model", "features", "driver", "ptxas", "cuda-bindings", "torch", "folder"):
        finding = report[name]
        assert finding["state"] == "ok" or finding["remedy"]


def test_doctor_prints_a_verdict_and_remedies():
    done = tritium("doctor")
    assert done.returncode == 0 and "CPU backend: ready" in done.stdout
    finding = doctor._package("optional", "no-such-distribution", "pip install it")
    assert (finding.state, finding.remedy) == ("missing", "pip install it")


def test_doctor_fails_where_native_code_cannot_run(monkeypatch, capsys):
    def forbidden() -> int:
        raise OSError("cannot allocate executable memory")

    monkeypatch.setattr(doctor, "_compile_and_call", forbidden)
    assert not doctor.run_doctor(as_json=False)
    text = capsys.readouterr().out
    assert "broken" in text and "executable memory" in text and "cannot work here" in text


def test_doctor_reports_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "cache")
    report = json.loads(tritium("doctor", "--json", TRITON_CACHE_DIR=place).stdout)
    folder = next(f for f in report if f["name"] == "folder")
    assert folder["state"] == "missing" and "TRITON_CACHE_DIR" in folder["remedy"]


def test_the_commands_do_not_import_torch():
    code = "import sys\nfrom tritium.cli import doctor\ndoctor.examine()\n"
    code += "print('torch' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
