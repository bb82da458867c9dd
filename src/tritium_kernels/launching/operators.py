"""Functions of tensors as ops of `torch.library`, called without torch's dispatcher where that adds
nothing: it takes 25 us for a call, and 100 us more with gradients."""

from __future__ import annotations

import functools
import operator as operator_module
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from tritium_kernels.launching.launch import empty_like
from tritium_kernels.launching.plans import current_record, repeated

F = TypeVar("F", bound=Callable[..., Any])


_CAST = (torch.float16, torch.bfloat16, torch.float32)
"""Types that `torch.autocast` casts."""


def autocast(*given: Any) -> tuple[Any, ...]:
    """The operands of a product, in the type that `torch.autocast` has for products, inside of it;
    the first is a tensor on the device."""
    first = given[0]
    if not isinstance(first, Tensor):
        return given
    kind = "cpu" if first.is_cpu else first.device.type
    if not _autocasts(kind):
        return given
    dtype = torch.get_autocast_dtype(kind)
    return tuple(
        t.to(dtype) if isinstance(t, Tensor) and t.dtype in _CAST else t for t in given
    )


def autocast_wide(x: Any) -> Any:
    """The operand of a function that `torch.autocast` computes in float32, as it casts it."""
    if isinstance(x, Tensor) and x.is_cuda and _autocasts("cuda"):
        return x.float() if x.dtype in _CAST else x
    return x


def _autocasts(kind: str) -> bool:
    return kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)


def untraced(function: F) -> F:
    """A function that launches kernels and is no op of torch: `torch.compile` breaks the graph at
    its calls and does not look into it. Tensors that torch has yet to negate (`is_neg`) are."""
    # As torch marks its own functions: Dynamo is imported at the first call only.
    hidden = torch._disable_dynamo(function)  # pyright: ignore

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return hidden(*args, **kwargs)
        named = {name: _negated(value) for name, value in kwargs.items()}
        return function(*map(_negated, args), **named)

    return cast(F, call)


def _negated(value: Any) -> Any:
    return value.resolve_neg() if isinstance(value, Tensor) else value


class Operator:
    """An op `tritium_kernels::NAME`, and what plain calls of it run.

    Calls with subclasses of tensors, in modes of dispatch, below torch.func's transformations and
    in what torch traces go to the op. Others run the function itself, as a
    `torch.autograd.Function` if a gradient is asked for. The result's first tensor is the only one
    that has gradients.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], mutates: Sequence[str] = (),
        like: Sequence[str] | None = None,
    ):  # fmt: skip
        self.name, self.function = name, function
        self.op = torch.library.custom_op(
            f"tritium_kernels::{name}", function, mutates_args=tuple(mutates)
        )
        self.register_fake = self.op.register_fake
        self._tensors = _places(self.op, ("Tensor", "Optional[Tensor]"))
        self._lists = _places(self.op, ("List[Tensor]",))
        self._primary: Callable[..., Tensor] | None = None
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self._mutated = [names.index(name) for name in mutates]
        if like is not None:
            self.op.register_fake(_memory_like([names.index(name) for name in like]))
        self._apply: Callable[..., Any] = self.op
        self._apply_primary: Callable[..., Any] = self._first_of_op
        is_repeated = not self._lists and not mutates
        self._call = repeated(self._run) if is_repeated else self._run
        self.primary = repeated(self._run_primary)
        """The result's first tensor; where no gradient is asked for, the others, which only serve
        gradients, are not computed."""

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None]
    ) -> None:
        """Give the op's gradients as `torch.library.register_autograd` takes them; all results but
        the first have none, which is not for `setup_context` to say."""

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            setup_context(ctx, inputs, output)
            if isinstance(output, tuple):
                ctx.mark_non_differentiable(*output[1:])

        self.op.register_autograd(backward, setup_context=setup)
        compute = repeated(self.function)
        self._apply = _differentiated(self.name, compute, setup, backward)
        self._apply_primary = _differentiated(self.name, compute, setup_context, backward, 1)

    def register_primary(self, function: Callable[..., Tensor]) -> None:
        """Give a function of the same arguments that computes the result's first tensor alone."""
        self._primary = function

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def _run(self, *args: Any) -> Any:
        route = self._route(args)
        if route is not None:
            return self._follow(route, args)
        output = self.function(*args)
        if self._mutated:
            increment_version(_flat(args[i] for i in self._mutated))
        return output

    def _run_primary(self, *args: Any) -> Tensor:
        route = self._route(args)
        if route is not None:
            first = self._apply_primary if route is self._apply else self._first_of_op
            return self._follow(first, args)
        return self.function(*args)[0] if self._primary is None else self._primary(*args)

    def _first_of_op(self, *args: Any) -> Tensor:
        return self.op(*args)[0]

    def _follow(self, route: Callable[..., Any], args: Sequence[Any]) -> Any:
        record = current_record()
        return route(*args) if record is None else record.call(route, args)

    def _route(self, args: Sequence[Any]) -> Callable[..., Any] | None:
        """torch's op or the differentiated function, where a call has to go there."""
        if torch.compiler.is_compiling():
            return self.op
        if forward_ad._current_level >= 0:  # pyright: ignore[reportPrivateUsage]
            self._refuse_tangents(_flat(args))
        if not _is_eager():
            if _transformation() is not None:
                self._refuse_transformed_gradients(_flat(args))
            return self.op
        if self._lists:
            return self._route_lists(_flat(args[i] for i in (*self._lists, *self._tensors)))
        differentiates = False
        for place in self._tensors:
            value = args[place]
            if value is not None:
                kind = type(value)
                if (kind is not Tensor and kind is not Parameter) or _is_left_over(value):
                    return self.op
                if value.is_neg():  # torch's op gets the numbers as they are to be read
                    return self.op
                differentiates = differentiates or value.requires_grad
        if args[self._tensors[0]].is_meta:  # torch's op gives the results' shapes
            return self.op
        return self._apply if differentiates and torch.is_grad_enabled() else None

    def _route_lists(self, tensors: Sequence[Tensor]) -> Callable[..., Any] | None:
        """`_route` of calls with many tensors, of which there is one at least."""
        if not _PLAIN.issuperset(map(type, tensors)) or any(map(_is_left_over, tensors)):
            return self.op
        if tensors[0].is_meta or any(map(Tensor.is_neg, tensors)):
            return self.op
        differentiates = torch.is_grad_enabled() and any(map(_requires_grad, tensors))
        return self._apply if differentiates else None

    def _refuse_transformed_gradients(self, args: Sequence[Any]) -> None:
        """Refuse gradients by torch.func, which torch's op does not have."""
        if self._apply is self.op or not torch.is_grad_enabled():
            return
        kinds = [transformation.key() for transformation in _transformations() or ()]
        wanting = any(isinstance(value, Tensor) and value.requires_grad for value in args)
        if wanting and _functorch.TransformType.Grad in kinds:
            raise NotImplementedError(
                f"tritium_kernels {self.name}: gradients by torch.func (grad, vjp, jacrev) are not "
                "built; use backward or torch.autograd.grad"
            )

    def _refuse_tangents(self, args: Sequence[Any]) -> None:
        """Refuse tensors with tangents, which torch's op would drop without a word."""
        for value in args:
            if isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None:
                raise NotImplementedError(
                    f"tritium_kernels {self.name}: derivatives in forward mode are not built; use "
                    "those of reverse mode (backward, torch.autograd.grad)"
                )


_PLAIN = {Tensor, Parameter}
_requires_grad = operator_module.attrgetter("requires_grad")

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_modes = _C._len_torch_dispatch_stack
_functorch: Any = _C._functorch
_transformation = _functorch.maybe_current_level
_transformations = _functorch.get_interpreter_stack
_is_traced = _C._is_tracing
_is_left_over = _functorch.is_dead_tensor_wrapper
"""True if a tensor is one that a transformation of torch.func passed on, and has ended since."""


def increment_version(written: list[Tensor]) -> None:
    """Tell autograd that tensors were written to."""
    _C._increment_version(written)


def _is_eager() -> bool:
    """True if no mode but our own record, no transformation and no tracer looks at a call."""
    modes = 0 if current_record() is None else 1
    return _modes() == modes and _transformation() is None and not _is_traced()


class _Final(torch.autograd.Function):
    """Gradients as they are; their derivatives by what they were computed from are not built."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor | None) -> Any:
        ctx.name = name
        return tensors[:count]

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            f"tritium_kernels {ctx.name}: the derivative of its gradient is not built"
        )


def once(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a `backward` one whose gradients cannot be differentiated: torch would take them for
    constants, also where `once_differentiable` is given a gradient that requires none. What they
    depend on has to be among the saved tensors. It gets no tensors that torch has yet to negate."""

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(backward)
        def call(ctx: Any, *gradients: Any) -> Any:
            with torch.no_grad():
                found = backward(ctx, *map(_negated, gradients))
            if not torch.is_grad_enabled():
                return found
            tensors = [t for t in found if t is not None]
            left = iter(_Final.apply(name, len(tensors), *tensors, *ctx.saved_tensors, *gradients))
            return tuple(None if t is None else next(left) for t in found)

        return call

    return decorate


def _differentiated(
    name: str, compute: Callable[..., Any], setup: Callable[..., None],
    backward: Callable[..., Any], results: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The function `compute` with its gradients; `results`: 1 if only the first one is given."""

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            output = compute(*args)
            setup(ctx, args, output)
            ctx.set_materialize_grads(False)
            return output if results is None else output[0]

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            if gradients[0] is None:
                return (None,) * len(ctx.needs_input_grad)
            return backward(ctx, *gradients)

    Gradient.__name__ = Gradient.__qualname__ = name
    # Past `Function.apply`, which asks again what `Operator._route` has asked.
    base: Any = super(torch.autograd.Function, Gradient)
    return base.apply


def _places(op: Any, types: Sequence[str]) -> list[int]:
    """The places of an op's arguments of these types."""
    given = op._opoverload._schema.arguments
    return [i for i, argument in enumerate(given) if str(argument.type) in types]


def _flat(args: Iterable[Any]) -> list[Any]:
    """The arguments, with the elements of lists in place of the lists."""
    return [x for a in args for x in (cast("list[Any]", a) if isinstance(a, list) else (a,))]


def _memory_like(places: Sequence[int]) -> Callable[..., Any]:
    """A function that gives memory for results of the shapes and types of some arguments."""

    def fake(*args: Any) -> Any:
        made = tuple(empty_like(args[i]) for i in places)
        return made if len(made) > 1 else next(iter(made), None)

    return fake


def operator(
    name: str, mutates: Sequence[str] = (), like: Sequence[str] | None = None
) -> Callable[[Callable[..., Any]], Operator]:
    """Make a function of tensors, typed as `torch.library.custom_op` wants it, an `Operator`; it
    writes to the arguments `mutates`. `like`: for each result the argument whose shape and type it
    has; without it the op needs `register_fake`."""
    return lambda function: Operator(name, function, mutates, like)
