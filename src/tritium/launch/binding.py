"""Native code that matches a launch's arguments with the kernel's parameters, up to the key."""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.launch.parsing import NO, YES, ParseWriter
from tritium.launch.records import CONTEXT, CURSOR, NAMES, PARAM, PLAN, Tag
from tritium.native.pyobjects_writer import call_object, is_null, write_read_plain, write_unchanged
from tritium.native.writer import NULL, Code, i32, i64


class BindWriter:
    """Writes `front`, and what it calls."""

    def __init__(self, module: Module):
        self.module = module

    def write(self) -> None:
        """Write every function."""
        self.module.globals[NAMES] = "global [5 x ptr] zeroinitializer, align 16"
        ParseWriter(self.module, f"@{NAMES}").write()
        write_unchanged(self.module)
        write_read_plain(self.module)
        self._bind()
        self._front()

    def _code(self, name: str, arguments: str, result: str, *, exported: bool = False) -> Code:
        pairs: list[tuple[str, str]] = []
        for argument in arguments.split(","):
            type_, _, label = argument.strip().partition(" ")
            pairs.append((type_, label))
        return Code(self.module, name, pairs, result, exported=exported)

    def _unless(self, f: Code, condition: Value) -> Value:
        return f.op("xor", condition, YES)

    # Arguments and parameters

    def _bind(self) -> None:
        """i1 bind(plan, args, given, names, objects, cursor): each parameter's argument (borrowed)
        into `objects`; options, which are keywords that name no parameter, into the key."""
        f = self._code(
            "bind", "ptr plan, ptr args, i64 given, ptr names, ptr objects, ptr cursor", "i1"
        )
        plan, args, given, names, objects, cursor = f.arguments
        count, params = f.read(plan, PLAN, "param_count"), f.read(plan, PLAN, "params")
        with f.when(f.icmp("sgt", given, f.read(plan, PLAN, "positional"))):
            f.ret(NO)
        step = f.op("shl", given, i64(3))
        f.call("void", "llvm.memcpy.p0.p0.i64", objects, args, step, NO)
        rest = f.gep("i8", objects, step)
        left = f.op("shl", f.sub(count, given), i64(3))
        f.call("void", "llvm.memset.p0.i64", rest, const("i8", 0), left, NO)
        with f.when(f.icmp("ne", names, NULL)):
            self._keywords(f, (plan, args, given, names, objects, cursor))
        with f.counted(count, given) as (i, _):  # defaults
            place = f.gep("ptr", objects, i)
            with f.when(is_null(f, f.get("ptr", place))):
                param = f.gep("i8", params, f.op("mul", i, i64(PARAM.size)))
                default = f.read(param, PARAM, "default")
                with f.when(is_null(f, default)):
                    f.ret(NO)
                f.put(place, default)
        f.ret(YES)

    def _keywords(self, f: Code, values: tuple[Value, ...]) -> None:
        plan, args, given, names, objects, cursor = values
        count, params = f.read(plan, PLAN, "param_count"), f.read(plan, PLAN, "params")
        named = f.call("i64", "PyTuple_Size", names)
        at = f.variable("i64", given)
        tries = f.variable("i64")
        with f.counted(named) as (i, loop):
            name = f.call("ptr", "PyTuple_GetItem", names, i)
            obj = f.get("ptr", f.gep("ptr", args, f.add(given, i)))
            # Keywords mostly come in the order of the parameters: search from the last one found.
            f.put(tries, f.sub(count, given))
            with f.forever() as search:
                left = f.get("i64", tries)
                with f.when(f.icmp("sle", left, i64(0))):
                    search.leave()
                f.put(tries, f.sub(left, i64(1)))
                with f.when(f.icmp("sge", f.get("i64", at), count)):
                    f.put(at, given)
                p = f.get("i64", at)
                f.put(at, f.add(p, i64(1)))
                param = f.gep("i8", params, f.op("mul", p, i64(PARAM.size)))
                with f.when(f.icmp("eq", f.read(param, PARAM, "name"), name)):
                    f.put(f.gep("ptr", objects, p), obj)
                    loop.restart()
            with f.when(self._unless(f, f.call("i1", "room", cursor))):
                f.ret(NO)
            words = f.read(cursor, CURSOR, "words")
            f.put(words, i64(Tag.OPTION))
            f.put(f.offset(words, 8), name)
            f.write(cursor, CURSOR, "words", f.offset(words, 16))
            with f.when(self._unless(f, f.call("i1", "constant", obj, cursor))):
                f.ret(NO)

    def _front(self) -> None:
        """i1 front(plan, args, nargs, names, objects, cursor): everything up to the key."""
        f = self._code(
            "front", "ptr plan, ptr args, i64 nargs, ptr names, ptr objects, ptr cursor", "i1"
        )
        plan, args, nargs, names, objects, cursor = f.arguments
        with f.when(f.icmp("eq", f.read(plan, PLAN, "enabled"), i64(0))):
            f.ret(NO)
        with f.when(f.icmp("slt", nargs, i64(1))):
            f.ret(NO)
        context = f.get("ptr", f.read(plan, PLAN, "context"))
        with f.when(f.icmp("eq", context, NULL)):  # no launch has been learned yet
            f.ret(NO)
        guards, count = f.read(context, CONTEXT, "guards"), f.read(context, CONTEXT, "count")
        with f.when(self._unless(f, f.call("i1", "unchanged", guards, count))):
            f.ret(NO)
        hooks = f.call("i64", "PyList_Size", f.read(plan, PLAN, "hooks"))
        with f.when(f.icmp("ne", hooks, i64(0))):
            f.ret(NO)
        words = f.read(cursor, CURSOR, "words")
        f.put(words, f.read(context, CONTEXT, "epoch"))
        f.put(f.offset(words, 8), self._device(f, f.read(context, CONTEXT, "device")))
        f.write(cursor, CURSOR, "words", f.offset(words, 16))
        f.write(cursor, CURSOR, "small", f.read(context, CONTEXT, "small"))
        first, given = f.offset(args, 8), f.sub(nargs, i64(1))
        bound = f.call("i1", "bind", plan, first, given, names, objects, cursor)
        with f.when(self._unless(f, bound)):
            f.ret(NO)
        params, total = f.read(plan, PLAN, "params"), f.read(plan, PLAN, "param_count")
        with f.counted(total) as (i, loop):
            obj = f.get("ptr", f.gep("ptr", objects, i))
            param = f.gep("i8", params, f.op("mul", i, i64(PARAM.size)))
            with f.when(f.icmp("ne", f.read(param, PARAM, "constant"), i32(0))):
                with f.when(self._unless(f, f.call("i1", "constant", obj, cursor))):
                    f.ret(NO)
                loop.restart()
            with f.when(self._unless(f, f.call("i1", "dynamic", param, obj, cursor))):
                f.ret(NO)
        f.ret(YES)

    def _device(self, f: Code, function: Value) -> Value:
        """The current device's number; 0 where there is one only."""
        device = f.variable("i64", i64(0))
        with f.when(f.icmp("ne", function, NULL)):
            answer = call_object(f, function)
            with f.when(is_null(f, answer)):
                f.call("void", "PyErr_Clear")
                f.ret(NO)
            f.put(device, f.call("i64", "PyLong_AsLong", answer))
            f.call("void", "Py_DecRef", answer)
        return f.get("i64", device)
