"""Functions that rewritten kernels call (`rewrite.py`): the kernel language's meaning of Python's
constructs, on values that are known."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tritium import knobs
from tritium import language as tl
from tritium.errors import UnsupportedLanguageConstruct
from tritium.frontend.python_calls import call_python, calls_directly
from tritium.frontend.scope import BUILTINS, Scope
from tritium.frontend.values import (
    assigned,
    carriable,
    check_loop,
    contains,
    declared,
    formatted,
    identical,
    is_dynamic,
    is_number,
    items_of,
    make_dynamic,
    mismatch,
    owner_of,
    scalar_condition,
    spread,
    unpacked,
    wrap,
)
from tritium.language.builtins.casts import to_tensor
from tritium.language.builtins.debug import assert_statement
from tritium.language.builtins.operators import both_hold
from tritium.language.decorators import builtin
from tritium.language.emitter import current
from tritium.language.jit.function import JITCallable
from tritium.language.values.aggregate import is_mutable
from tritium.language.values.base import REFERENCE_MARK, base_value
from tritium.language.values.constexpr import constexpr, unwrap


class Truth:
    """The outcome of a condition, and whether it is known only at run time. For an `if` it also
    keeps what the variables were before the branches."""

    def __init__(self, value: bool, dynamic: bool):
        self.value = value
        self.dynamic = dynamic
        self._before: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return self.value

    def noted(self, name: str, value: Any) -> None:
        """The value of a variable before a branch that may assign it."""
        self._before[name] = value

    def merged(self, name: str, value: Any) -> Any:
        """A variable after a run-time `if` that assigns it: compile-time numbers are none any
        more."""
        before = self._before.get(name)
        if value is before or not carriable(value):
            return value
        if before is None or not carriable(before):
            return make_dynamic(value)
        # The other branch leaves what there was before.
        value = make_dynamic(value, None if is_number(before) else before.type)
        other = make_dynamic(before, None if is_number(before) else value.type)
        if value.type != other.type:
            first, second = (value, other) if self.value else (other, value)
            raise TypeError(mismatch(name, first.type, second.type))
        return value

    def forgets(self, name: str) -> bool:
        """True if only one branch gave the variable a value."""
        return self.dynamic and name not in self._before


class Loop:
    """A loop that runs on the device, and the variables that it carries; or, `dynamic` False, one
    that is unrolled."""

    def __init__(self, items: Iterable[Any], dynamic: bool, type: tl.dtype | None = None):
        self._items = items
        self._dynamic, self._type = dynamic, type
        self._types: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def again(self) -> Iterable[Any]:
        """The iterations, for a tool that iterates."""
        return self._items

    def noted(self, name: str, value: Any) -> None:
        """The value of a variable before the loop."""
        self._before[name] = value

    def entered(self, name: str, value: Any) -> Any:
        """A variable that the loop's body assigns, as it is before the first iteration."""
        self._before[name] = value
        if not self._dynamic or not carriable(value):
            return value
        value = make_dynamic(value)
        self._types[name] = value.type
        return value

    def next(self, name: str, value: Any) -> Any:
        """A variable at the end of an iteration. Raises `TypeError` if its type has changed."""
        type = self._types.get(name)
        if type is None:
            return value
        if carriable(value):
            value = make_dynamic(value, type)
        if not type.carries(getattr(value, "type", None)):
            found = value.type if isinstance(value, tl.tensor) else repr(value)
            raise TypeError(
                f"Loop-carried variable {name} has initial type {type} but is re-assigned "
                f"to {found} in loop! Please make sure that the type stays consistent."
            )
        return value

    def kept(self, name: str, value: Any) -> Any:
        """A loop's own variable before it, which stays if there is no iteration; after the loop it
        has the value of the last one, if its type is still the same."""
        if not self._dynamic:
            return self.entered(name, value)
        kept = make_dynamic(value, self._type) if carriable(value) else value
        return self.entered(name, kept) if getattr(kept, "type", None) == self._type else value

    def forgets(self, name: str) -> bool:
        """True if the variable exists only inside the loop's body."""
        return self._dynamic and name not in self._before

    def holds(self, test: Any) -> bool:
        """The condition of a `while`."""
        test = test.condition if isinstance(test, tl.condition) else test
        if is_dynamic(test):
            return bool(scalar_condition(test))
        if unwrap(test):
            raise ValueError("this condition is always true, and the loop has no end")
        return False


class Semantics:
    """The state of one rewritten function.

    Args:
        function: the function.

    Attributes:
        refusals: constructs that kernels cannot have, with the messages; raised when reached.
    """

    def __init__(self, function: JITCallable):
        self.function = function
        self.refusals: list[tuple[ast.AST, str]] = []

    # Names and calls

    def _scope(self) -> Scope:
        return Scope(self.function, knobs.compilation.allow_non_constexpr_globals)

    def reads_itself(self, name: str) -> bool:
        """True if Python finds under a global name what the kernel language does."""
        captured = self.function.get_capture_scope()
        try:
            return name in captured and self._scope().lookup(name) is captured[name]
        except NameError:
            return False

    def look_up(self, name: str) -> Any:
        """A global or builtin, for the kernel language. Raises `NameError` as its compiler.

        `print` and `breakpoint` are Python's own: one debugs an interpreted kernel with them.
        """
        if name in _DEBUGGING and name not in self.function.get_capture_scope():
            return _DEBUGGING[name]
        return BUILTINS[name] if self._is_builtin(name) else self._scope().lookup(name)

    def _is_builtin(self, name: str) -> bool:
        return name in BUILTINS and name not in self.function.get_capture_scope()

    def callee(self, function: Any) -> Any:
        """The object to call for `function`."""
        if isinstance(function, constexpr):
            function = function.value
        direct = calls_directly(function) and not hasattr(function, REFERENCE_MARK)
        if isinstance(function, JITCallable) or direct:
            return function
        if getattr(current(), "of_tool", False):  # which puts its functions into the language
            return partial(_call_of_tool, function)

        def call(*args: Any, **kwargs: Any) -> Any:
            return call_python(function, args, kwargs)

        return call

    def effect(self, function: Any) -> Any:
        """The object to call for `function()` as a statement. There is no value to convert, and a
        debugger that the call starts (`breakpoint()`) stops in the frame that it comes from."""
        function = unwrap(function)
        of_kernel = isinstance(getattr(function, "__self__", None), JITCallable)
        return function if inspect.isroutine(function) and not of_kernel else self.callee(function)

    def dropping(self, function: Any, name: str) -> Any:
        """The object to call for a call whose result is not used. Raises `ValueError` if the result
        must be used."""
        actual = unwrap(function) if isinstance(function, constexpr) else function
        message = getattr(actual, "must_use_result", None)
        if message is None or message is False:
            return function
        text = f"The result of {name} is not being used."
        text = text if message is True else f"{text} {message}"

        def call(*args: Any, **kwargs: Any) -> None:
            function(*args, **kwargs)
            raise ValueError(text)

        return call

    def refuse(self, number: int) -> Any:
        """Raise for a construct that kernels cannot have."""
        node, message = self.refusals[number]
        raise UnsupportedLanguageConstruct.in_function(self.function, node, message)

    # Values

    @staticmethod
    def constant(value: Any) -> constexpr:
        """A literal."""
        return constexpr(value)

    @staticmethod
    def sequence(values: Sequence[Any]) -> Any:
        """A tuple or list display, or a comprehension."""
        return tl.tuple([wrap(v) for v in values])

    @staticmethod
    def declared(name: str, value: Any) -> Any:
        """`name: tl.constexpr = value` in the calling function."""
        if name in sys._getframe(1).f_locals:  # pyright: ignore[reportPrivateUsage]
            raise ValueError(f"{name} is already defined. constexpr cannot be reassigned.")
        return assigned(value) if is_dynamic(value) else declared(value)

    @staticmethod
    def weak(value: object) -> object:
        """The value of a name that was declared `tl.constexpr` before."""
        return value if is_dynamic(value) else declared(value)

    @staticmethod
    def assigned(value: Any) -> Any:
        """The value that an assignment to a plain name stores."""
        return assigned(value)

    @staticmethod
    def owner(value: Any, attribute: str) -> Any:
        """The object on which `value.attribute` is looked up."""
        return owner_of(value, attribute)

    @staticmethod
    def mutable(owner: Any) -> Any:
        """The object of which a field is assigned."""
        if not is_mutable(owner):
            raise TypeError("only the fields of an aggregate can be assigned")
        return owner

    @staticmethod
    def spread(value: Any) -> list[Any]:
        """The elements of `*value` in a display or a call."""
        return spread(value)

    @staticmethod
    def unpacked(value: Any, count: int, star: int | None) -> list[Any]:
        """The values for the targets of an assignment."""
        return unpacked(value, count, star)

    @staticmethod
    def formatted(value: Any, conversion: constexpr | str, spec: str) -> str:
        """One part of an f-string; also of values that only the interpreter knows."""
        if is_dynamic(value):
            convert: Any = {"r": repr, "a": ascii}.get(unwrap(conversion), _shown)
            return format(convert(value), spec)
        return formatted(value, unwrap(conversion), spec)

    items = staticmethod(items_of)

    @staticmethod
    def truth(value: Any) -> bool:
        """A compile-time condition."""
        if is_dynamic(value):
            raise TypeError("this condition must be known at compile time")
        return bool(unwrap(value))

    # Operators

    @staticmethod
    def same(left: Any, right: Any) -> constexpr:
        """`left is right`."""
        return constexpr(identical(left, right))

    @staticmethod
    def different(left: Any, right: Any) -> constexpr:
        """`left is not right`."""
        return constexpr(not identical(left, right))

    @staticmethod
    def inside(item: Any, container: Any) -> constexpr:
        """`item in container`."""
        return constexpr(contains(container, item))

    @staticmethod
    def outside(item: Any, container: Any) -> constexpr:
        """`item not in container`."""
        return constexpr(not contains(container, item))

    @staticmethod
    def negated(value: Any) -> Any:
        """`not value`."""
        return tl.logical_not(value) if is_dynamic(value) else constexpr(not unwrap(value))

    @staticmethod
    def is_false(value: Any) -> bool:
        """True if `value and ...` is known at compile time to be `value`."""
        return not is_dynamic(value) and not unwrap(value)

    @staticmethod
    def is_true(value: Any) -> bool:
        """True if `value or ...` is known at compile time to be `value`."""
        return not is_dynamic(value) and bool(unwrap(value))

    @staticmethod
    def both(left: Any, right: Any) -> Any:
        """`left and right`, where `left` does not decide it at compile time."""
        return _combined(tl.logical_and, left, right, decides=False)

    @staticmethod
    def chained(left: Any, right: Any) -> Any:
        """`left and right` of two comparisons of a chain, where `left` does not decide it."""
        return _combined(both_hold, left, right, decides=False)

    @staticmethod
    def either(left: Any, right: Any) -> Any:
        """`left or right`, where `left` does not decide it at compile time."""
        return _combined(tl.logical_or, left, right, decides=True)

    # Conditions and loops

    @staticmethod
    def test(value: Any) -> Truth:
        """The condition of an `if`."""
        if is_dynamic(value):
            return Truth(bool(scalar_condition(value)), True)
        return Truth(bool(unwrap(value)), False)

    @staticmethod
    def chosen(value: Any, condition: Truth) -> Any:
        """The value of `a if condition else b`."""
        chosen_at_run_time = condition.dynamic and is_number(value)
        return to_tensor(value) if chosen_at_run_time else value

    @staticmethod
    def check(test: Any, message: Any) -> None:
        """`assert test, message`."""
        assert_statement(test, message)

    @staticmethod
    def loop(iterator: Any, simple: bool) -> Loop:
        """The iterable of a `for`; `simple`: its variable is a single name."""
        check_loop(iterator)
        if isinstance(iterator, tl.static_range):
            return Loop(iterator, False)
        if not simple:
            raise TypeError("the variable of a loop must be a single name")
        if not is_dynamic(iterator.step) and unwrap(iterator.step) == 0:
            raise ValueError("the step of a loop cannot be 0")
        if is_dynamic(iterator.step) and int(iterator.step) < 1:
            raise ValueError(
                f"the step of this loop is {int(iterator.step)}; one that is not known at compile "
                "time must be positive"
            )
        return Loop(list(iterator), True, iterator.variable_type())

    @staticmethod
    def repeat() -> Loop:
        """A `while`."""
        return Loop((), True)


def _call_of_tool(function: Any, *args: Any, **kwargs: Any) -> Any:
    return wrap(function(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))


def _combined(combine: Callable[..., Any], left: Any, right: Any, decides: bool) -> Any:
    if not is_dynamic(left):
        return wrap(right)
    if is_dynamic(right):
        return combine(left, right)
    # The value that decides is the result, as where it comes first.
    return wrap(right) if bool(unwrap(right)) is decides else left


def returned(value: Any) -> Any:
    """The result of a call of a kernel function."""
    return value if isinstance(value, base_value) else wrap(value)


def _shown(value: Any) -> Any:
    """A kernel's value as Python prints it: a tensor as its array, a constant as itself."""
    value = unwrap(value)
    if isinstance(value, tl.tensor):
        return value.value if value.shape else np.asarray(value.value).item()
    if isinstance(value, tl.tuple) or type(value) in (tuple, list):
        return tuple(_shown(v) for v in value)
    return value


@builtin
def _print(*values: Any, **options: Any) -> None:
    """Python's `print` in an interpreted kernel."""
    print(*map(_shown, values), **options)


_DEBUGGING: Mapping[str, Any] = {"print": _print, "breakpoint": breakpoint}
"""Python's own functions that interpreted kernels may call."""
