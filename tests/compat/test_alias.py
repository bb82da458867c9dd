"""`tritium.compat`: each case in a process of its own, because imports cannot be undone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SRC = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def python(tmp_path: Path):
    """Run a program in a new process, return its output; a fake 'real' Triton is importable."""
    fake = tmp_path / "site" / "triton"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("__version__ = '9.9'\nREAL = True\n")
    (fake / "only_in_the_real_one.py").write_text("")

    def run(program: str, *, path: tuple[str, ...] = (), check: bool = True) -> str:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(program))
        entries = [*path, SRC, str(tmp_path / "site")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entries)}
        done = subprocess.run(
            [sys.executable, str(file)], env=environment, capture_output=True, text=True
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout.strip() if check else done.stderr

    return run


def test_modules_that_programs_reach_as_attributes(python):
    program = """
        import tritium.compat
        tritium.compat.install()
        import triton
        print(triton.compiler.errors.CompilationError is triton.CompilationError)
        print(triton.compiler.compiler.ASTSource is triton.compiler.ASTSource)
        print(triton.compiler.code_generator.ast_to_ttir.__name__)
        print(triton.backends.compiler.GPUTarget.__name__, triton.backends.driver.__name__)
        print(triton.runtime._allocation.NullAllocator.__name__)
        for package in (triton.compiler, triton.backends, triton.runtime):
            assert not hasattr(package, "no_such_module")
    """
    assert python(program).split("\n") == [
        "True", "True", "ast_to_ttir", "GPUTarget tritium.backends.driver", "NullAllocator"
    ]  # fmt: skip


def test_modules_below_the_alias_are_the_same_objects(python):
    program = """
        import tritium, tritium.errors, tritium.language
        before = tritium.language.__spec__
        import tritium.compat
        tritium.compat.install()
        import triton, triton.errors, triton.language as tl
        from triton.errors import CompilationError
        assert tl is tritium.language and triton.errors is tritium.errors
        assert CompilationError is tritium.errors.CompilationError
        assert triton.cdiv is tritium.cdiv
        assert tritium.language.__name__ == "tritium.language"
        assert tritium.language.__spec__ is before
        print(triton.__version__, tritium.__version__)
    """
    assert python(program) == "3.9.0 0.1.0"


def test_a_module_does_not_hide_a_function_of_the_same_name(python):
    program = """
        from tritium import compat
        compat.install()
        import triton.runtime.jit, triton.runtime.driver, triton.compiler.compiler
        from triton.runtime.cache import triton_key
        import triton
        assert type(triton.runtime.jit) is type(triton.runtime)  # classes are looked up there
        print(callable(triton.jit), hasattr(triton.runtime.driver, "active"), len(triton_key()) > 8)
    """
    assert python(program) == "True True True"


def test_what_existing_programs_import(python):
    program = """
        from tritium import compat
        compat.install()
        import triton
        import triton.language as tl
        import triton._filecheck, triton._internal_testing, triton.testing, triton.knobs
        from triton import Config, aggregate, autotune, cdiv, heuristics, jit, next_power_of_2
        from triton._C.libtriton import ir, native_specialize_impl
        from triton.backends.compiler import BaseBackend, GPUTarget
        from triton.backends.driver import DriverBase
        from triton.compiler import ASTSource, CompiledKernel
        from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
        from triton.errors import TritonError
        from triton.language.extra import libdevice
        from triton.language.extra.libdevice import exp
        from triton.runtime import Autotuner, JITFunction, KernelInterface, driver
        from triton.runtime._allocation import NullAllocator
        from triton.runtime.errors import OutOfResources
        from triton.runtime.jit import JITCallable, MockTensor, TensorWrapper, get_device_key
        from triton.runtime.jit import reinterpret, type_canonicalisation_dict
        active = triton.runtime.driver.active
        properties = active.utils.get_device_properties(active.get_current_device())
        assert all(name in properties for name in
                   ("multiprocessor_count", "max_shared_mem", "max_num_regs", "warpSize"))
        print(get_device_key(), active.get_active_torch_device())
    """
    assert python(program) == "cpu:0 cpu"


def test_import_tritium_alone_leaves_the_installed_triton(python):
    assert python("import tritium, tritium.compat, triton; print(triton.__version__)") == "9.9"


def test_the_alias_hides_the_installed_one_and_uninstall_brings_it_back(python):
    program = """
        from tritium import compat
        compat.install(); compat.install()
        import triton, triton.language
        try:
            import triton.only_in_the_real_one
        except ModuleNotFoundError as error:
            assert "tritium.only_in_the_real_one" in str(error), error
            assert error.name == "triton.only_in_the_real_one"
        compat.uninstall()
        assert not compat.is_installed()
        import triton
        import triton.only_in_the_real_one
        print(triton.__version__)
    """
    assert python(program) == "9.9"


def test_refuses_when_the_real_one_was_imported(python):
    message = python("import triton; from tritium import compat; compat.install()", check=False)
    assert "Triton 9.9 was imported before from" in message
    assert "tritium run" in message


def test_writing_to_the_alias_writes_to_tritium(python):
    program = """
        from tritium import compat
        compat.install()
        import triton, tritium
        triton.cdiv = "replaced"
        assert tritium.cdiv == "replaced"
        triton.__version__ = "0.0"
        print(tritium.__version__)
    """
    assert python(program) == "0.1.0"


def test_what_was_read_follows_later_changes_of_tritium(python):
    program = """
        import tritium, tritium.compat
        tritium.compat.install()
        import triton
        real = triton.cdiv
        assert "cdiv" in vars(triton)  # read once; found at once from then on
        tritium.cdiv = lambda x, y: "changed"
        assert triton.cdiv(1, 2) == "changed"
        tritium.fresh = 1
        assert triton.fresh == 1
        del tritium.fresh
        assert not hasattr(triton, "fresh")
        triton.cdiv = real
        assert triton.cdiv is tritium.cdiv is real
        tritium.compat.uninstall()
        tritium.cdiv = None
        assert triton.cdiv is None
        print(triton.__version__ != tritium.__version__, triton.__name__, tritium.__name__)
    """
    assert python(program) == "True triton tritium"


def test_the_version_is_found_in_the_metadata_too(python):
    program = """
        from importlib import metadata
        from tritium import compat
        compat.install()
        print(metadata.version("triton"), metadata.version("pytest") != "3.9.0")
    """
    assert python(program) == "3.9.0 True"


def test_an_import_that_fails_inside_a_module_is_reported_as_itself(python, tmp_path):
    package = tmp_path / "tritium_part.py"
    package.write_text("import a_module_that_nobody_has\n")
    program = f"""
        import tritium
        tritium.__path__.append({str(tmp_path)!r})
        from tritium import compat
        compat.install()
        import triton.tritium_part
    """
    assert "No module named 'a_module_that_nobody_has'" in python(program, check=False)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_child_processes_of_multiprocessing_have_the_alias(python, method):
    program = f"""
        from tritium import compat
        compat.install()
        import multiprocessing
        def child(queue):
            import triton, triton.language
            queue.put((triton.__version__, triton.language.__name__))
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            print(*queue.get(timeout=60))
            process.join()
    """
    assert python(program) == "3.9.0 tritium.language"


def test_other_child_processes_have_it_unless_it_was_taken_back(python):
    program = """
        import os, subprocess, sys
        from tritium import compat
        before = os.environ["PYTHONPATH"]
        def version():
            code = "import triton; print(triton.__version__)"
            return subprocess.check_output([sys.executable, "-c", code], text=True).strip()
        compat.install(in_children=False)
        first = version()
        compat.install()
        second = version()
        compat.uninstall()
        assert os.environ["PYTHONPATH"] == before
        print(first, second, version())
    """
    assert python(program) == "9.9 3.9.0 9.9"


def test_children_whose_path_is_made_of_sys_path_have_it(python):
    program = """
        import os, subprocess, sys
        from tritium import compat
        before = list(sys.path)
        compat.install()
        assert sys.path[0] == before[0]
        def version():
            code = "import triton; print(triton.__version__)"
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            command = [sys.executable, "-c", code]
            return subprocess.check_output(command, text=True, env=env, cwd="/").strip()
        first = version()
        compat.install()
        again = version()
        compat.uninstall()
        assert sys.path == before
        print(first, again, version())
    """
    assert python(program) == "3.9.0 3.9.0 9.9"


def test_grandchildren_whose_path_is_made_of_sys_path_have_it(python):
    program = """
        import os, subprocess, sys
        if len(sys.argv) > 1:
            import triton
            print(triton.__version__)
        if len(sys.argv) < 3:
            from tritium import compat
            compat.install()
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            command = [sys.executable, *sys.argv, "again"]
            sys.stdout.flush()
            subprocess.run(command, env=env, check=True)
    """
    assert python(program).split() == ["3.9.0", "3.9.0"]


def test_a_sitecustomize_that_was_there_before_still_runs(python, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins; builtins.seen = 'hello'\n")
    program = """
        import subprocess, sys
        from tritium import compat
        compat.install()
        code = "import triton; print(seen, triton.__version__)"
        print(subprocess.check_output([sys.executable, "-c", code], text=True).strip())
    """
    assert python(program, path=(str(other),)) == "hello 3.9.0"


def test_the_kernel_library_has_the_alias_too(python):
    program = """
        import tritium.compat
        tritium.compat.install()
        import triton_kernels.errors, triton_kernels.dense.softmax, tritium_kernels.errors, sys
        print(triton_kernels.errors is tritium_kernels.errors)
        print(callable(triton_kernels.dense.softmax))
        tritium.compat.uninstall()
        print([m for m in sys.modules if m.startswith("triton_kernels")])
    """
    assert python(program).split("\n") == ["True", "True", "[]"]


@pytest.mark.parametrize("module", ["triton.tools.link", "triton.profiler.viewer"])
def test_modules_that_are_commands(module: str) -> None:
    command = [sys.executable, "-m", "tritium", "run", "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: "), done.stderr
