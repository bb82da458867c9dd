"""Parsing from several threads."""

import ast
import threading

import pytest

from tritium.language.jit import syntax


def test_a_clash_of_threads_is_tried_again(monkeypatch):
    real, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch")] * 3

    def parse(source):
        if failures:
            raise failures.pop()
        return real(source)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.dump(syntax.parse("x = 1")) == ast.dump(real("x = 1"))


def test_errors_in_the_source_are_not():
    with pytest.raises(SyntaxError):
        syntax.parse("def f(:")


def test_threads():
    line = "x = " + "(" * 20 + "1" + ")" * 20 + " + [y for y in range(9)]"
    source = "\n".join([line] * 50)
    errors = []

    def work():
        try:
            for _ in range(20):
                syntax.parse(source)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
