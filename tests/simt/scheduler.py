"""The native part of `machine`: coroutines for threads, and the loop that runs them in turn.

A thread runs until it stops: at a shuffle until all lanes of its warp are there, at a barrier until
all warps of the barrier are, at an mbarrier until its phase ends, at the end of the kernel until
the next program starts. So a warp reads what later warps write only if a barrier is between: one
that is missing shows. Copies that a thread starts are done when it waits for them, so that a wait
that is missing shows as well; those of the copy engine, which other threads wait for, at once.
Where all warps wait and nothing has happened since they began to, the program fails.

The thread blocks of a program, a cluster, run together, each in its own memory and at a pace of its
own: a block rests for some rounds at random, and a thread may stop for others between accesses to
another block's memory. What is written to a block that has not begun is lost, and such an access,
and one to a block that has ended, fails. Where all wait, the rounds that are decided on have no
rests. A failure of an mbarrier or of such an access has the source line of the op.

Two programs of the grid are under way at a time. A thread that has released memory by an atomic
operation lets the other program run before the rest of its own, so that what other threads ought to
have written before shows as missing; so does one that looks at memory again and again. With a seed,
programs also take turns at stores to global memory, and warps run in either order, at random.
"""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value
from tritium.native.records import Record
from tritium.native.writer import Code, i32, i64

START, SHUFFLE, BARRIER, END, FAILED, PHASE, SWITCH, CLUSTER, PAUSE = range(9)
"""Why a thread has stopped."""
OK, LANES_DIFFER, DEADLOCK, FAILURE = range(4)
"""How a launch has ended."""
BARRIERS = 16
"""Barriers of a block, by number."""

JUMP = "bytes 512"  # jmp_buf: 200 bytes on x86-64, 312 on AArch64
THREAD = Record(
    ("state", JUMP), ("number", "i32"), ("started", "i32"), ("request", "i32"), ("word", "i32"),
    ("lane", "i32"), ("reply", "i32"), ("stack", "ptr"), ("copies", "ptr"), ("made", "i64"),
    ("done", "i64"), ("groups", "i64"), ("barrier", "i32"), ("meeting", "i32"), ("block", "i32"),
    ("paused", "i32"), ("line", "i32"), ("file", "ptr"), align=16,
)  # fmt: skip
"""`number`: in its block; `barrier`: the number of the one that it is at, for `meeting` warps;
`paused`: of the first thread of a warp, the lane from which on the others have still to run;
`file`, `line`: of the op that it has come to last, of those that concern other threads."""
BLOCK = Record(("state", "i32"), ("rest", "i32"))
"""A thread block of a cluster; `rest`: the rounds that it leaves out."""
AHEAD, RUNS, ENDED = range(3)
"""States of a block."""
PACE, REST, ACCESSES, ARRIVALS = 4, 8, 16, 2
"""One round in `PACE` is one from which on a block rests, for `REST` at most; before one of so many
accesses to, and arrivals in, other blocks' memory a thread stops for others. Powers of two."""
MBARRIER = Record(("bytes", "i32"), ("count", "i16"), ("missing", "i8"), ("phase", "i8"))
"""In shared memory: the bytes and arrivals that the phase lacks, the arrivals of a phase."""
COPY = Record(("to", "ptr"), ("source", "ptr"), ("size", "i64"), ("group", "i64"))
"""A copy under way; zeros are copied where `source` is null."""
COPIES = 4096
"""Copies of a thread that may be under way."""
PROGRAM = Record(
    ("state", JUMP), ("live", "i32"), ("started", "i32"), ("status", "i32"), ("x", "i32"),
    ("y", "i32"), ("z", "i32"), ("threads", "ptr"), ("warp_memory", "ptr"), ("shared", "ptr"),
    ("stack", "ptr"), ("states", "ptr"), ("rested", "i32"), ("awake", "i32"), align=16,
)  # fmt: skip
"""A program under way. `shared`: the memory of its blocks, one after the other; `states`: a `BLOCK`
for each; `rested`: 1 if a block has left out this round; `awake`: 1 if none may."""
PROGRAMS = 2
"""Programs that may be under way."""
MACHINE = Record(
    ("state", JUMP), ("context", "bytes 8192"), ("entry", "ptr"), ("arguments", "ptr"),
    ("current", "ptr"), ("threads", "ptr"), ("lanes", "i32"), ("warps", "i32"),
    ("backwards", "i32"), ("last_first", "i32"), ("looks", "i32"), ("shared", "ptr"),
    ("shared_bytes", "i64"), ("stack_bytes", "i64"), ("x", "i32"), ("y", "i32"), ("z", "i32"),
    ("sizes_x", "i32"), ("sizes_y", "i32"), ("sizes_z", "i32"), ("message", "ptr"), ("file", "ptr"),
    ("line", "i32"), ("warp_memory", "ptr"), ("events", "i64"), ("programs", "ptr"),
    ("program", "ptr"), ("scheduler", JUMP), ("total", "i64"), ("random", "i32"), ("blocks", "i32"),
    ("states", "ptr"), align=16,
)  # fmt: skip
"""`warps`: of a block."""
STACK = Record(
    ("flags", "i64"), ("link", "ptr"), ("start", "ptr"), ("more", "i64"), ("size", "i64")
)  # fmt: skip
"""The head of `ucontext_t` on 64-bit Linux."""
LOOKS = 1 << 22
"""Atomic accesses since a program began after which the programs are taken to wait for one that
runs after them."""
PATIENCE = 16
"""Atomic accesses after which the other program runs."""
UNREST = 8
"""Stores to global memory of which one, on the average, lets the other program run."""

_MACHINE = Value("ptr", "@machine")


def _machine(f: Code) -> Value:
    return f.get("ptr", _MACHINE)


def _current(f: Code) -> Value:
    return f.read(_machine(f), MACHINE, "current")


def _set_jump(f: Code, state: Value) -> Value:
    f.module.declarations["_setjmp"] = "declare i32 @_setjmp(ptr) returns_twice"
    return f.emit("i32", f"call i32 @_setjmp({state}) returns_twice")


def _jump(f: Code, state: Value) -> None:
    f.call("void", "_longjmp", state, i32(1))
    f.unreachable()
    f._open = False


def _body(module: Module) -> None:
    """A thread: the kernel for one program after the other."""
    f = Code(module, "body", [], cold=True)
    with f.forever():
        machine = _machine(f)
        f.invoke("void", f.read(machine, MACHINE, "entry"), f.read(machine, MACHINE, "arguments"))
        f.call("void", "stop", i32(END))
    f.unreachable()


def _stop(module: Module) -> None:
    """Go back to the loop until the thread is resumed."""
    f = Code(module, "stop", [("i32", "request")], cold=True)
    thread = _current(f)
    f.write(thread, THREAD, "request", f.arguments[0])
    with f.when(f.icmp("eq", _set_jump(f, f.at(thread, THREAD, "state")), i32(0))):
        _jump(f, f.at(_machine(f), MACHINE, "state"))
    f.ret()


def _enter(f: Code, stack: Value, body: str) -> None:
    """Leave for a function of no arguments on a stack of its own."""
    machine = _machine(f)
    context = f.at(machine, MACHINE, "context")
    f.call("i32", "getcontext", context)
    f.write(context, STACK, "start", stack)
    f.write(context, STACK, "size", f.read(machine, MACHINE, "stack_bytes"))
    f.module.declarations["makecontext"] = "declare void @makecontext(ptr, ptr, i32, ...)"
    f.line(f"call void (ptr, ptr, i32, ...) @makecontext({context}, ptr @{body}, i32 0)")
    f.call("i32", "setcontext", context)
    f.unreachable()
    f._open = False


def _programs(module: Module) -> None:
    f = Code(module, "program_body", [], cold=True)
    status = f.call("i32", "run_program")
    machine = _machine(f)
    program = f.read(machine, MACHINE, "program")
    f.write(program, PROGRAM, "status", status)
    for name in ("live", "started"):
        f.write(program, PROGRAM, name, i32(0))
    _jump(f, f.at(machine, MACHINE, "scheduler"))
    # Let the other program run.
    f = Code(module, "switch_program", [], cold=True)
    machine = _machine(f)
    program = f.read(machine, MACHINE, "program")
    with f.when(f.icmp("eq", _set_jump(f, f.at(program, PROGRAM, "state")), i32(0))):
        _jump(f, f.at(machine, MACHINE, "scheduler"))
    f.ret()
    # Run a program until it switches or ends.
    f = Code(module, "resume_program", [("ptr", "program")], cold=True)
    machine, (program,) = _machine(f), f.arguments
    f.write(machine, MACHINE, "program", program)
    for name in ("x", "y", "z", "threads", "warp_memory", "shared", "states"):
        f.write(machine, MACHINE, name, f.read(program, PROGRAM, name))
    scheduler = f.at(machine, MACHINE, "scheduler")
    with f.when(f.icmp("eq", _set_jump(f, scheduler), i32(0))):
        with f.when(f.icmp("ne", f.read(program, PROGRAM, "started"), i32(0))):
            _jump(f, f.at(program, PROGRAM, "state"))
        f.write(program, PROGRAM, "started", i32(1))
        _enter(f, f.read(program, PROGRAM, "stack"), "program_body")
    f.ret()


def _resume(module: Module) -> None:
    """Run a thread until it stops."""
    f = Code(module, "resume", [("ptr", "thread")], cold=True)
    machine, (thread,) = _machine(f), f.arguments
    f.write(machine, MACHINE, "current", thread)
    with f.when(f.icmp("eq", _set_jump(f, f.at(machine, MACHINE, "state")), i32(0))):
        with f.when(f.icmp("ne", f.read(thread, THREAD, "started"), i32(0))):
            _jump(f, f.at(thread, THREAD, "state"))
        f.write(thread, THREAD, "started", i32(1))
        _enter(f, f.read(thread, THREAD, "stack"), "body")
    f.ret()


def _thread_at(f: Code, index: Value) -> Value:
    offset = f.op("mul", f.cast("sext", index, "i64"), i64(THREAD.size))
    return f.gep("i8", f.read(_machine(f), MACHINE, "threads"), offset)


def _block_at(f: Code, index: Value) -> Value:
    offset = f.op("mul", f.cast("sext", index, "i64"), i64(BLOCK.size))
    return f.gep("i8", f.read(_machine(f), MACHINE, "states"), offset)


def _memory_of(f: Code, block: Value) -> Value:
    """The start of a block's shared memory."""
    machine = _machine(f)
    size = f.read(machine, MACHINE, "shared_bytes")
    offset = f.op("mul", f.cast("sext", block, "i64"), size)
    return f.gep("i8", f.read(machine, MACHINE, "shared"), offset)


def _run_warp(module: Module) -> None:
    """Run a warp to its next barrier or its end, or until one of its threads stops for others."""
    f = Code(module, "run_warp", [("i32", "first")], "i32", exported=True)
    (first,), machine = f.arguments, _machine(f)
    lanes, leader = f.read(machine, MACHINE, "lanes"), _thread_at(f, first)
    with f.forever():
        with f.loop(f.read(leader, THREAD, "paused"), lanes, i32(1)) as loop:
            thread = _thread_at(f, f.add(first, loop.index))
            f.call("void", "resume", thread)
            with f.forever() as switching:
                with f.when(f.icmp("ne", f.read(thread, THREAD, "request"), i32(SWITCH))):
                    switching.leave()
                f.call("void", "switch_program")
                f.call("void", "resume", thread)
            request = f.read(thread, THREAD, "request")
            with f.when(f.icmp("eq", request, i32(FAILED))):
                f.ret(i32(FAILURE))
            with f.when(f.icmp("eq", request, i32(PAUSE))):
                f.write(leader, THREAD, "paused", loop.index)
                f.ret(i32(OK))
        f.write(leader, THREAD, "paused", i32(0))
        request = f.read(leader, THREAD, "request")
        with f.loop(i32(0), lanes, i32(1)) as loop:
            thread = _thread_at(f, f.add(first, loop.index))
            with f.when(f.icmp("ne", f.read(thread, THREAD, "request"), request)):
                f.ret(i32(LANES_DIFFER))
        with f.when(f.icmp("ne", request, i32(SHUFFLE))):
            f.ret(i32(OK))
        with f.loop(i32(0), lanes, i32(1)) as loop:
            thread = _thread_at(f, f.add(first, loop.index))
            lane = f.op("and", f.read(thread, THREAD, "lane"), f.sub(lanes, i32(1)))
            word = f.read(_thread_at(f, f.add(first, lane)), THREAD, "word")
            f.write(thread, THREAD, "reply", word)
    f.unreachable()


def _run_program(module: Module) -> None:
    """Run all warps of a program to its end."""
    f = Code(module, "run_program", [], "i32")
    machine = _machine(f)
    lanes, warps, blocks = (f.read(machine, MACHINE, n) for n in ("lanes", "warps", "blocks"))
    program = f.read(machine, MACHINE, "program")
    f.write(machine, MACHINE, "looks", i32(0))
    f.write(program, PROGRAM, "awake", i32(0))
    threads = f.op("mul", blocks, f.op("mul", lanes, warps))
    with f.loop(i32(0), threads, i32(1)) as loop:
        thread = _thread_at(f, loop.index)
        f.write(thread, THREAD, "request", i32(START))
        for name in ("barrier", "paused", "line"):
            f.write(thread, THREAD, name, i32(0))
        for name in ("made", "done", "groups"):
            f.write(thread, THREAD, name, i64(0))
    with f.loop(i32(0), blocks, i32(1)) as loop:
        block = _block_at(f, loop.index)
        f.write(block, BLOCK, "state", i32(AHEAD))
        f.write(block, BLOCK, "rest", i32(0))
    with f.forever():
        before = f.read(machine, MACHINE, "events")
        f.write(program, PROGRAM, "rested", i32(0))
        ended = f.call("i32", "run_round")
        with f.when(f.icmp("ne", ended, i32(OK))):
            f.ret(ended)
        with f.when(f.icmp("eq", f.call("i32", "ended_blocks"), blocks)):
            f.ret(i32(OK))
        barriers = f.op("mul", blocks, i32(BARRIERS))
        with f.loop(i32(0), barriers, i32(1)) as loop:
            block, number = (f.op(o, loop.index, i32(BARRIERS)) for o in ("udiv", "urem"))
            f.call("void", "release", block, number)
        f.call("void", "release_cluster")
        quiet = f.icmp("eq", f.read(machine, MACHINE, "events"), before)
        all_ran = f.icmp("eq", f.read(program, PROGRAM, "rested"), i32(0))
        with f.when(f.op("and", quiet, all_ran)):
            f.ret(i32(DEADLOCK))
        f.write(program, PROGRAM, "awake", f.cast("zext", quiet, "i32"))
    f.unreachable()


def _run_round(module: Module) -> None:
    """Run each block that does not rest."""
    f = Code(module, "run_round", [], "i32")
    machine = _machine(f)
    blocks = f.read(machine, MACHINE, "blocks")
    backwards = f.icmp("ne", f.read(machine, MACHINE, "backwards"), i32(0))
    backwards = f.op("xor", backwards, f.icmp("eq", f.call("i32", "any_of", i32(2)), i32(1)))
    with f.loop(i32(0), blocks, i32(1)) as loop:
        last = f.sub(f.sub(blocks, i32(1)), loop.index)
        block = f.select(backwards, last, loop.index)
        with f.when(f.icmp("eq", f.call("i32", "rests", block), i32(0))):
            status = f.call("i32", "run_block", block, f.cast("zext", backwards, "i32"))
            with f.when(f.icmp("ne", status, i32(OK))):
                f.ret(status)
    f.ret(i32(OK))
    # 1 if a block leaves out this round.
    f = Code(module, "rests", [("i32", "number")], "i32")
    machine, block = _machine(f), _block_at(f, f.arguments[0])
    program = f.read(machine, MACHINE, "program")
    alone = f.icmp("eq", f.read(machine, MACHINE, "blocks"), i32(1))
    with f.when(f.op("or", alone, f.icmp("ne", f.read(program, PROGRAM, "awake"), i32(0)))):
        f.ret(i32(0))
    with f.when(f.icmp("eq", f.read(block, BLOCK, "rest"), i32(0))):
        with f.when(f.icmp("ne", f.call("i32", "any_of", i32(PACE)), i32(1))):
            f.ret(i32(0))
        f.write(block, BLOCK, "rest", f.call("i32", "any_of", i32(REST)))
    f.write(block, BLOCK, "rest", f.sub(f.read(block, BLOCK, "rest"), i32(1)))
    f.write(program, PROGRAM, "rested", i32(1))
    f.ret(i32(1))


def _run_block(module: Module) -> None:
    """Run each warp of a block that waits for no barrier to its next stop."""
    f = Code(module, "run_block", [("i32", "number"), ("i32", "backwards")], "i32")
    machine, (number, backwards) = _machine(f), f.arguments
    lanes, warps = (f.read(machine, MACHINE, n) for n in ("lanes", "warps"))
    block = _block_at(f, number)
    with f.when(f.icmp("eq", f.read(block, BLOCK, "state"), i32(AHEAD))):
        size = f.read(machine, MACHINE, "shared_bytes")
        f.call("ptr", "memset", _memory_of(f, number), i32(0xC5), size)
        f.write(block, BLOCK, "state", i32(RUNS))
    with f.loop(i32(0), warps, i32(1)) as loop:
        last = f.sub(f.sub(warps, i32(1)), loop.index)
        warp = f.select(f.icmp("ne", backwards, i32(0)), last, loop.index)
        warp = f.op("mul", f.add(f.op("mul", number, warps), warp), lanes)
        thread = _thread_at(f, warp)
        with f.when(f.op("xor", _waits(f, thread), Value("i1", "true"))):
            status = f.call("i32", "run_warp", warp)
            with f.when(f.icmp("ne", status, i32(OK))):
                f.ret(status)
            looks = f.op("or", f.icmp("ne", f.read(thread, THREAD, "request"), i32(PHASE)),
                         f.icmp("ne", f.read(thread, THREAD, "paused"), i32(0)))  # fmt: skip
            with f.when(looks):
                f.call("void", "event")
    ended = f.call("i32", "count_warps", number, i32(END), i32(0))
    with f.when(f.icmp("eq", ended, warps)):
        f.write(block, BLOCK, "state", i32(ENDED))
    f.ret(i32(OK))


def _waits(f: Code, thread: Value) -> Value:
    """True if a warp, of this first thread, is at a barrier or has ended."""
    request = f.read(thread, THREAD, "request")
    waits = f.op("or", *(f.icmp("eq", request, i32(why)) for why in (BARRIER, END)))
    waits = f.op("or", waits, f.icmp("eq", request, i32(CLUSTER)))
    return f.op("and", waits, f.icmp("eq", f.read(thread, THREAD, "paused"), i32(0)))


def _is_at(f: Code, thread: Value, request: Value, number: Value) -> Value:
    """True if a warp, of this first thread, has stopped for a reason, and at a barrier of a number
    if that is why."""
    here = f.op("and", f.icmp("eq", f.read(thread, THREAD, "request"), request),
                f.icmp("eq", f.read(thread, THREAD, "barrier"), number))  # fmt: skip
    return f.op("and", here, f.icmp("eq", f.read(thread, THREAD, "paused"), i32(0)))


def _release(f: Code, thread: Value) -> None:
    f.write(thread, THREAD, "request", i32(START))
    f.write(thread, THREAD, "barrier", i32(0))
    f.call("void", "event")


def _barriers(module: Module) -> None:
    f = Code(module, "event", [])
    machine = _machine(f)
    events = f.read(machine, MACHINE, "events")
    f.write(machine, MACHINE, "events", f.op("add", events, i64(1)))
    f.ret()
    # The warps of a block for which `_is_at` is true.
    arguments = [("i32", "block"), ("i32", "request"), ("i32", "number")]
    f = Code(module, "count_warps", arguments, "i32")
    machine, (block, request, number) = _machine(f), f.arguments
    lanes, warps = (f.read(machine, MACHINE, n) for n in ("lanes", "warps"))
    count, first = f.variable("i32", i32(0)), f.op("mul", block, warps)
    with f.loop(first, f.add(first, warps), i32(1)) as loop:
        thread = _thread_at(f, f.op("mul", loop.index, lanes))
        with f.when(_is_at(f, thread, request, number)):
            f.put(count, f.add(f.get("i32", count), i32(1)))
    f.ret(f.get("i32", count))
    # Let the warps at a barrier of a block go on if all that it is for are there.
    f = Code(module, "release", [("i32", "block"), ("i32", "number")])
    machine, (block, number) = _machine(f), f.arguments
    lanes, warps = (f.read(machine, MACHINE, n) for n in ("lanes", "warps"))
    there = f.call("i32", "count_warps", block, i32(BARRIER), number)
    start = f.op("mul", block, warps)
    for first in (True, False):
        with f.loop(start, f.add(start, warps), i32(1)) as loop:
            thread = _thread_at(f, f.op("mul", loop.index, lanes))
            with f.when(_is_at(f, thread, i32(BARRIER), number)):
                if first:
                    meeting = f.read(thread, THREAD, "meeting")
                    wanted = f.select(f.icmp("eq", meeting, i32(0)), warps, meeting)
                    with f.when(f.icmp("ult", there, wanted)):
                        f.ret()
                else:
                    _release(f, thread)
    f.ret()


def _cluster(module: Module) -> None:
    f = Code(module, "ended_blocks", [], "i32")
    count, blocks = f.variable("i32", i32(0)), f.read(_machine(f), MACHINE, "blocks")
    with f.loop(i32(0), blocks, i32(1)) as loop:
        state = f.read(_block_at(f, loop.index), BLOCK, "state")
        with f.when(f.icmp("eq", state, i32(ENDED))):
            f.put(count, f.add(f.get("i32", count), i32(1)))
    f.ret(f.get("i32", count))
    # Let all warps go on if all that have not ended are at the cluster's barrier.
    f = Code(module, "release_cluster", [])
    machine = _machine(f)
    lanes, warps, blocks = (f.read(machine, MACHINE, n) for n in ("lanes", "warps", "blocks"))
    for first in (True, False):
        with f.loop(i32(0), f.op("mul", blocks, warps), i32(1)) as loop:
            thread = _thread_at(f, f.op("mul", loop.index, lanes))
            here = _is_at(f, thread, i32(CLUSTER), i32(0))
            if first:
                there = f.op("or", here, _is_at(f, thread, i32(END), i32(0)))
                with f.when(f.op("xor", there, Value("i1", "true"))):
                    f.ret()
            else:
                with f.when(here):
                    _release(f, thread)
    f.ret()
    # An address (that fits into 32 bits) in this block's memory, as a pointer to the memory of a
    # block. Unless `chances` is 0, the block must be running; before one of so many accesses the
    # thread stops for others.
    arguments = [("i32", "address"), ("i32", "block"), ("i32", "chances")]
    f = Code(module, "simt_remote", arguments, "ptr", exported=True)
    address, block, chances = f.arguments
    last = f.sub(f.read(_machine(f), MACHINE, "blocks"), i32(1))
    with f.when(f.icmp("ne", chances, i32(0))):
        with f.when(f.icmp("eq", f.call("i32", "any_of", chances), i32(1))):
            f.call("void", "stop", i32(PAUSE))
        with f.when(f.icmp("ugt", block, last)):
            _fail(f, "the cluster has no block of that number", placed=True)
        state = f.read(_block_at(f, block), BLOCK, "state")
        for which, what in ((AHEAD, "has not begun"), (ENDED, "has ended")):
            with f.when(f.icmp("eq", state, i32(which))):
                _fail(f, f"access to the shared memory of a block of the cluster that {what}",
                      placed=True)  # fmt: skip
    own = _memory_of(f, f.read(_current(f), THREAD, "block"))
    offset = f.sub(address, f.cast("trunc", f.cast("ptrtoint", own, "i64"), "i32"))
    f.ret(f.gep("i8", _memory_of(f, f.op("and", block, last)), f.cast("zext", offset, "i64")))


def _run_grid(module: Module) -> None:
    """Run every program of a grid of a machine; returns how it ended."""
    f = Code(module, "run_grid", [("ptr", "of")], "i32", exported=True)
    machine = f.arguments[0]
    f.put(_MACHINE, machine)
    first = f.read(machine, MACHINE, "programs")
    started, turn = f.variable("i64", i64(0)), f.variable("i64", i64(0))
    with f.forever() as loop:
        program = f.gep("i8", first, f.op("mul", f.get("i64", turn), i64(PROGRAM.size)))
        f.put(turn, f.op("xor", f.get("i64", turn), i64(PROGRAMS - 1)))
        waiting = f.icmp("ult", f.get("i64", started), f.read(machine, MACHINE, "total"))
        idle = f.icmp("eq", f.read(program, PROGRAM, "live"), i32(0))
        with f.when(f.op("and", waiting, idle)):
            _start(f, program, f.get("i64", started))
            f.put(started, f.op("add", f.get("i64", started), i64(1)))
        with f.when(f.icmp("eq", f.read(program, PROGRAM, "live"), i32(0))):
            other = f.gep("i8", first, f.op("mul", f.get("i64", turn), i64(PROGRAM.size)))
            with f.when(f.icmp("eq", f.read(other, PROGRAM, "live"), i32(0))):
                loop.leave()
            loop.restart()
        f.call("void", "resume_program", program)
        with f.when(f.icmp("eq", f.read(program, PROGRAM, "live"), i32(0))):
            status = f.read(program, PROGRAM, "status")
            with f.when(f.icmp("ne", status, i32(OK))):
                f.ret(status)
    f.ret(i32(OK))


def _start(f: Code, program: Value, number: Value) -> None:
    """Make a program of the grid the next one to run there, the last one first if `last_first`."""
    machine = _machine(f)
    last = f.sub(f.sub(f.read(machine, MACHINE, "total"), i64(1)), number)
    backwards = f.icmp("ne", f.read(machine, MACHINE, "last_first"), i32(0))
    number = f.select(backwards, last, number)
    for axis in "xyz":
        size = f.cast("zext", f.read(machine, MACHINE, f"sizes_{axis}"), "i64")
        f.write(program, PROGRAM, axis, f.cast("trunc", f.op("urem", number, size), "i32"))
        number = f.op("udiv", number, size)
    f.write(program, PROGRAM, "live", i32(1))


def _positions(module: Module) -> None:
    """The thread, the program and the size of the grid, and memory of the warp that runs."""
    for name in ("thread", "block"):
        f = Code(module, f"simt_{name}", [], "i32", exported=True)
        f.ret(f.read(_current(f), THREAD, "number" if name == "thread" else name))
    f = Code(module, "simt_shared", [], "ptr", exported=True)
    f.ret(_memory_of(f, f.read(_current(f), THREAD, "block")))
    for name, first in (("simt_program", "x"), ("simt_programs", "sizes_x")):
        f = Code(module, name, [("i32", "axis")], "i32", exported=True)
        f.ret(f.get("i32", f.gep("i32", f.at(_machine(f), MACHINE, first), f.arguments[0])))
    f = Code(module, "simt_warp_memory", [], "ptr", exported=True)
    f.ret(f.read(_machine(f), MACHINE, "warp_memory"))


def _stops(module: Module) -> None:
    numbers = [("i32", "barrier"), ("i32", "meeting")]
    f = Code(module, "simt_barrier", numbers, exported=True)
    for (_, name), value in zip(numbers, f.arguments, strict=True):
        f.write(_current(f), THREAD, name, value)
    f.call("void", "stop", i32(BARRIER))
    f.ret()
    f = Code(module, "simt_cluster", [], exported=True)
    f.call("void", "stop", i32(CLUSTER))
    f.ret()
    f = Code(module, "simt_at", [("ptr", "file"), ("i32", "line")], exported=True)
    for name, value in zip(("file", "line"), f.arguments, strict=True):
        f.write(_current(f), THREAD, name, value)
    f.ret()
    f = Code(module, "simt_shuffle", [("i32", "word"), ("i32", "lane")], "i32", exported=True)
    thread = _current(f)
    for name, value in zip(("word", "lane"), f.arguments, strict=True):
        f.write(thread, THREAD, name, value)
    f.call("void", "stop", i32(SHUFFLE))
    f.ret(f.read(_current(f), THREAD, "reply"))
    arguments = [("ptr", "message"), ("ptr", "file"), ("i32", "line")]
    f = Code(module, "simt_fail", arguments, exported=True)
    for (_, name), value in zip(arguments, f.arguments, strict=True):
        f.write(_machine(f), MACHINE, name, value)
    f.call("void", "stop", i32(FAILED))
    f.ret()


def _fail(f: Code, text: str, *, placed: bool = False) -> None:
    """End the launch with a message, at the line that the thread has come to if it is `placed`."""
    data = text.encode() + b"\0"
    message = f.module.constant(f"[{len(data)} x i8]", f'c"{text}\\00"', align=1)
    file, line = Value("ptr", "null"), i32(0)
    if placed:
        file, line = (f.read(_current(f), THREAD, name) for name in ("file", "line"))
    f.call("void", "simt_fail", message, file, line)


def _checks(module: Module) -> None:
    f = Code(module, "simt_aligned", [("ptr", "pointer"), ("i64", "size")], exported=True)
    pointer, size = f.arguments
    rest = f.op("and", f.cast("ptrtoint", pointer, "i64"), f.sub(size, i64(1)))
    with f.when(f.icmp("ne", rest, i64(0))):
        _fail(f, "misaligned address")
    f.ret()
    f = Code(module, "simt_look", [], exported=True)
    machine = _machine(f)
    looks = f.add(f.read(machine, MACHINE, "looks"), i32(1))
    f.write(machine, MACHINE, "looks", looks)
    with f.when(f.icmp("eq", looks, i32(LOOKS))):
        _fail(f, "the program waits for one that runs after it")
    with f.when(f.icmp("eq", f.op("and", looks, i32(PATIENCE - 1)), i32(0))):
        f.call("void", "simt_published")
    f.ret()
    f = Code(module, "simt_published", [], exported=True)
    with f.when(f.icmp("ne", f.read(_machine(f), MACHINE, "total"), i64(1))):
        f.call("void", "stop", i32(SWITCH))
    f.ret()


def _chance(module: Module) -> None:
    """A number from 1 to a power of two, each as likely; 0 without a seed."""
    f = Code(module, "any_of", [("i32", "count")], "i32")
    machine, random = _machine(f), f.read(_machine(f), MACHINE, "random")
    with f.when(f.icmp("eq", random, i32(0))):
        f.ret(i32(0))
    for shift, by in (("shl", 13), ("lshr", 17), ("shl", 5)):  # Marsaglia's xorshift
        random = f.op("xor", random, f.op(shift, random, i32(by)))
    f.write(machine, MACHINE, "random", random)
    number = f.op("and", f.op("lshr", random, i32(16)), f.sub(f.arguments[0], i32(1)))
    f.ret(f.add(number, i32(1)))
    f = Code(module, "simt_store", [], exported=True)
    with f.when(f.icmp("eq", f.call("i32", "any_of", i32(UNREST)), i32(1))):
        f.call("void", "simt_published")
    f.ret()


def _copies(module: Module) -> None:
    arguments = [("ptr", "to"), ("ptr", "source"), ("i64", "size")]
    f = Code(module, "simt_copy", arguments, exported=True)
    thread = _current(f)
    made, done = (f.read(thread, THREAD, n) for n in ("made", "done"))
    with f.when(f.icmp("eq", f.sub(made, done), i64(COPIES))):
        _fail(f, "too many copies under way")
    entry = _copy_at(f, thread, made)
    for (_, name), value in zip(arguments, f.arguments, strict=True):
        f.write(entry, COPY, name, value)
    f.write(entry, COPY, "group", f.read(thread, THREAD, "groups"))
    f.write(thread, THREAD, "made", f.add(made, i64(1)))
    f.ret()
    f = Code(module, "simt_commit", [], exported=True)
    thread = _current(f)
    f.write(thread, THREAD, "groups", f.add(f.read(thread, THREAD, "groups"), i64(1)))
    f.ret()
    f = Code(module, "simt_wait", [("i64", "pending")], exported=True)
    thread = _current(f)
    last = f.sub(f.read(thread, THREAD, "groups"), f.arguments[0])
    with f.forever() as loop:
        done = f.read(thread, THREAD, "done")
        with f.when(f.icmp("eq", done, f.read(thread, THREAD, "made"))):
            loop.leave()
        entry = _copy_at(f, thread, done)
        with f.when(f.icmp("sge", f.read(entry, COPY, "group"), last)):
            loop.leave()
        to, source, size = (f.read(entry, COPY, n) for n in ("to", "source", "size"))
        f.write(thread, THREAD, "done", f.add(done, i64(1)))
        with f.when(f.icmp("eq", source, Value("ptr", "null"))):
            f.call("ptr", "memset", to, i32(0), size)
            loop.restart()
        f.call("ptr", "memcpy", to, source, size)
    f.ret()


def _mbarriers(module: Module) -> None:
    """Barriers in shared memory, of which a phase ends when arrivals and bytes are complete."""
    f = Code(module, "simt_mbarrier_init", [("ptr", "at"), ("i32", "count")], exported=True)
    at, count = f.arguments
    _check_mbarrier(f, at)
    f.write(at, MBARRIER, "bytes", i32(0))
    f.write(at, MBARRIER, "count", f.cast("trunc", count, "i16"))
    f.write(at, MBARRIER, "missing", f.cast("trunc", count, "i8"))
    f.write(at, MBARRIER, "phase", Value("i8", "0"))
    f.ret()
    # Returns the parity of the phase that it is of.
    arguments = [("ptr", "at"), ("i32", "arrivals"), ("i32", "bytes")]
    f = Code(module, "simt_mbarrier_arrive", arguments, "i32", exported=True)
    at, arrivals, more = f.arguments
    _check_made(f, at)
    before = f.cast("zext", f.read(at, MBARRIER, "phase"), "i32")
    missing = f.cast("zext", f.read(at, MBARRIER, "missing"), "i32")
    with f.when(f.icmp("ugt", arrivals, missing)):
        _fail(f, "more arrivals than a phase of an mbarrier has", placed=True)
    missing, expected = f.sub(missing, arrivals), f.add(f.read(at, MBARRIER, "bytes"), more)
    f.write(at, MBARRIER, "missing", f.cast("trunc", missing, "i8"))
    f.write(at, MBARRIER, "bytes", expected)
    with f.when(f.icmp("eq", f.op("or", missing, expected), i32(0))):
        f.write(at, MBARRIER, "missing", f.cast("trunc", f.read(at, MBARRIER, "count"), "i8"))
        phase = f.read(at, MBARRIER, "phase")
        f.write(at, MBARRIER, "phase", f.op("xor", phase, Value("i8", "1")))
        f.call("void", "event")
    f.ret(before)
    f = Code(module, "simt_mbarrier_wait", [("ptr", "at"), ("i32", "parity")], exported=True)
    at, parity = f.arguments
    with f.forever() as loop:
        f.call("void", "stop", i32(SHUFFLE))  # the lanes look at the same time
        _check_made(f, at)
        phase = f.cast("zext", f.read(at, MBARRIER, "phase"), "i32")
        with f.when(f.icmp("ne", phase, f.op("and", parity, i32(1)))):
            loop.leave()
        f.call("void", "stop", i32(PHASE))
    f.call("void", "event")
    f.ret()


def _check_mbarrier(f: Code, at: Value) -> None:
    rest = f.op("and", f.cast("ptrtoint", at, "i64"), i64(MBARRIER.size - 1))
    with f.when(f.icmp("ne", rest, i64(0))):
        _fail(f, "misaligned mbarrier", placed=True)


def _check_made(f: Code, at: Value) -> None:
    with f.when(f.icmp("ugt", f.read(at, MBARRIER, "phase"), Value("i8", "1"))):
        _fail(f, "use of an mbarrier that is not initialized", placed=True)


def _copy_at(f: Code, thread: Value, number: Value) -> Value:
    index = f.op("mul", f.op("and", number, i64(COPIES - 1)), i64(COPY.size))
    return f.gep("i8", f.read(thread, THREAD, "copies"), index)


def scheduler_ir() -> str:
    """The LLVM IR of the machine."""
    module = Module()
    module.globals["machine"] = "internal global ptr null"
    for write in (_body, _stop, _programs, _resume, _run_warp, _chance, _run_round, _run_block,
                  _barriers, _cluster, _run_program, _run_grid, _positions, _stops, _checks,
                  _copies, _mbarriers):  # fmt: skip
        write(module)
    return module.text()


SYMBOLS = (
    "simt_thread", "simt_block", "simt_shared", "simt_remote", "simt_cluster", "simt_at",
    "simt_program", "simt_programs", "simt_warp_memory", "simt_barrier",
    "simt_shuffle", "simt_fail", "simt_aligned", "simt_look", "simt_published", "simt_store",
    "simt_copy", "simt_commit",
    "simt_wait", "simt_mbarrier_init", "simt_mbarrier_arrive", "simt_mbarrier_wait",
)  # fmt: skip
"""The functions that kernels call."""
