"""The frontend on random functions: a few here, more with `make fuzz`."""

import pytest

from tests.frontend.judging import TooLong, complaint, divergence, limited, parses
from tests.frontend.random_functions import PARAMETERS, Writer
from tritium.frontend import expressions
from tritium.language.builtins import arithmetic


def texts(first, count, tame=False):
    """Functions of consecutive seeds that Python can read."""
    writers = [Writer(seed) for seed in range(first, first + count)]
    written = [w.function() for w in writers if w.tame or not tame]
    return [text for text in written if parses(text)]


def check(functions):
    wrong = [f"{found}\n{text}" for text in functions if (found := complaint(text))]
    assert not wrong, f"{len(wrong)} wrong\n\n" + "\n\n".join(wrong[:5])


def test_only_compilation_errors():
    check(texts(0, 150))


@pytest.mark.slow
def test_only_compilation_errors_of_many():
    check(texts(1000, 20000))


def compare(functions):
    """How many kernels ran both ways; fails if any differed."""
    ran, wrong = 0, []
    for text in functions:
        try:
            with limited(5):
                found = divergence(text)
        except TooLong:
            continue
        ran += found is not None
        if found:
            wrong.append(f"{found}\n{text}")
    assert not wrong, f"{len(wrong)} wrong\n\n" + "\n\n".join(wrong[:5])
    return ran


def test_native_and_interpreted():
    assert compare(texts(0, 60, tame=True)) > 5


@pytest.mark.slow
def test_native_and_interpreted_many():
    assert compare(texts(1000, 2000, tame=True)) > 100


def test_what_is_complained_of(monkeypatch):
    """The judge itself: an error from within the compiler is told from one with a message."""
    start = f"def kernel({PARAMETERS}):\n    "
    assert complaint(start + "tl.arange(0, 3)\n") == ""
    assert complaint(start + "tl.store(x, i + 1)\n") == ""
    monkeypatch.setattr(arithmetic, "binary_operands", None)
    fault = complaint(start + "tl.store(x, i + 1)\n")
    assert "TypeError in language/builtins/arithmetic.py" in fault
    monkeypatch.setattr(expressions, "call_python", None)
    assert "TypeError in frontend/expressions.py" in complaint(start + "tl.arange(0, 4)\n")


def test_what_diverges():
    start = f"def kernel({PARAMETERS}):\n    "
    assert divergence(start + "tl.store(x, i + 1)\n") == ""
    assert divergence(start + "tl.load(x + 2**40)\n") is None
    assert divergence(start + "tl.arange(0, 3)\n") is None
    only = "@tl.core.builtin\ndef known(v):\n    return 1 if hasattr(v.handle, 'array') else 2\n\n"
    assert "interpreted" in divergence(only + start + "tl.store(x, known(i))\n")
