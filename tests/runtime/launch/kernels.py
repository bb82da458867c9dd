"""Kernels of the CPU backend's calling convention, written by hand in LLVM IR."""

from __future__ import annotations

import functools

from tritium.native.loader import Image, compile_ir, load_object

CTX = "{ i32, i32, i32, i32, ptr, ptr, i32 }"

# Every kernel is a loop over programs around a body, which sees %p (i64), %args and %ctx.
LOOP = """
define void @NAME(ptr %args, ptr %ctx, i64 %begin, i64 %end) {
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %program, label %done
program:
  %p = phi i64 [ %begin, %entry ], [ %next, %following ]
BODY
following:
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret void
}
"""

BODIES = {
    "empty": "  br label %following",
    # out[p] = x[p] + y[p] for p < n
    "add": """
  %sn = getelementptr i64, ptr %args, i64 3
  %n = load i64, ptr %sn
  %in = icmp slt i64 %p, %n
  br i1 %in, label %body, label %following
body:
  %sy = getelementptr i64, ptr %args, i64 1
  %so = getelementptr i64, ptr %args, i64 2
  %x = load ptr, ptr %args
  %y = load ptr, ptr %sy
  %o = load ptr, ptr %so
  %xp = getelementptr float, ptr %x, i64 %p
  %yp = getelementptr float, ptr %y, i64 %p
  %op = getelementptr float, ptr %o, i64 %p
  %a = load float, ptr %xp
  %b = load float, ptr %yp
  %c = fadd float %a, %b
  store float %c, ptr %op
  br label %following""",
    # count[p] += 1 after `turns` turns of a loop
    "spin": """
  %st = getelementptr i64, ptr %args, i64 1
  %turns = load i64, ptr %st
  br label %spinning
spinning:
  %i = phi i64 [ 0, %program ], [ %i1, %spinning ]
  call void asm sideeffect "", ""()
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, %turns
  br i1 %again, label %spinning, label %finished
finished:
  %count = load ptr, ptr %args
  %at = getelementptr i32, ptr %count, i64 %p
  %ignored = atomicrmw add ptr %at, i32 1 monotonic
  br label %following""",
    # take a spin lock, increment a plain counter slowly, release the lock
    # count[p] = flag[0], once that is not 0 or after `turns` turns of a loop (a million for p = 0);
    # flag[1] = 1 before
    "until": """
  %sf = getelementptr i64, ptr %args, i64 1
  %st = getelementptr i64, ptr %args, i64 2
  %flag = load ptr, ptr %sf
  %turns = load i64, ptr %st
  %first = icmp eq i64 %p, 0
  %limit = select i1 %first, i64 1000000, i64 %turns
  %begun = getelementptr i32, ptr %flag, i64 1
  store volatile i32 1, ptr %begun
  br label %waiting
waiting:
  %i = phi i64 [ 0, %program ], [ %i1, %waiting ]
  %value = load volatile i32, ptr %flag
  %i1 = add i64 %i, 1
  %unset = icmp eq i32 %value, 0
  %less = icmp slt i64 %i1, %limit
  %again = and i1 %unset, %less
  br i1 %again, label %waiting, label %record
record:
  %c = load ptr, ptr %args
  %cp = getelementptr i32, ptr %c, i64 %p
  store i32 %value, ptr %cp
  br label %following""",
    "lock": """
  %lock = load ptr, ptr %args
  br label %try
try:
  %pair = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %took = extractvalue { i32, i1 } %pair, 1
  br i1 %took, label %locked, label %try
locked:
  %counter = getelementptr i32, ptr %lock, i64 1
  %value = load volatile i32, ptr %counter
  br label %spinning
spinning:
  %i = phi i64 [ 0, %locked ], [ %i1, %spinning ]
  call void asm sideeffect "", ""()
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, 2000
  br i1 %again, label %spinning, label %unlock
unlock:
  %value1 = add i32 %value, 1
  store volatile i32 %value1, ptr %counter
  store atomic i32 0, ptr %lock release, align 4
  br label %following""",
    # wait for flag[p] (set by program p - 1), then set flag[p + 1]
    "chain": """
  %flags = load ptr, ptr %args
  %mine = getelementptr i32, ptr %flags, i64 %p
  br label %wait
wait:
  %flag = load atomic i32, ptr %mine acquire, align 4
  %set = icmp ne i32 %flag, 0
  br i1 %set, label %go, label %wait
go:
  %after = getelementptr i32, ptr %mine, i64 1
  store atomic i32 1, ptr %after release, align 4
  br label %following""",
    # device_assert(p != n, "bad value") and a count of the programs that ran
    "fault": """
  %ran = load ptr, ptr %args
  %ignored = atomicrmw add ptr %ran, i32 1 monotonic
  %sn = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %sn
  %bad = icmp eq i64 %p, %n
  br i1 %bad, label %fail, label %following
fail:
  %nx = load i32, ptr %ctx
  %nxw = zext i32 %nx to i64
  %xw = urem i64 %p, %nxw
  %yw = udiv i64 %p, %nxw
  %x = trunc i64 %xw to i32
  %y = trunc i64 %yw to i32
  %sf = getelementptr CTX, ptr %ctx, i64 0, i32 5
  %fault = load ptr, ptr %sf
  %pair = cmpxchg ptr %fault, i32 0, i32 1 monotonic monotonic
  %first = extractvalue { i32, i1 } %pair, 1
  br i1 %first, label %tell, label %leave
tell:
  %fx = getelementptr i32, ptr %fault, i64 1
  store i32 %x, ptr %fx
  %fy = getelementptr i32, ptr %fault, i64 2
  store i32 %y, ptr %fy
  %fz = getelementptr i32, ptr %fault, i64 3
  store i32 0, ptr %fz
  %fm = getelementptr i64, ptr %fault, i64 2
  store ptr @message, ptr %fm
  br label %leave
leave:
  ret void""",
    # out[4 p : 4 p + 4] = nx, ny, nz, thread_index; the scratch is filled to its last byte
    "context": """
  %ss = getelementptr CTX, ptr %ctx, i64 0, i32 4
  %scratch = load ptr, ptr %ss
  %sb = getelementptr i64, ptr %args, i64 1
  %bytes = load i64, ptr %sb
  call void @llvm.memset.p0.i64(ptr align 64 %scratch, i8 7, i64 %bytes, i1 false)
  %out = load ptr, ptr %args
  %p4 = mul i64 %p, 4
  %at = getelementptr i32, ptr %out, i64 %p4
  %four = load <4 x i32>, ptr %ctx, align 4
  store <4 x i32> %four, ptr %at, align 4
  br label %following""",
    # count[0] += 1, slowly, without a lock if the launch is exclusive; else count[1] += 1 too
    "exclusive": """
  %sa = getelementptr CTX, ptr %ctx, i64 0, i32 6
  %word = load i32, ptr %sa
  %exclusive = icmp ne i32 %word, 0
  %count = load ptr, ptr %args
  br i1 %exclusive, label %plain, label %locked
plain:
  %value = load volatile i32, ptr %count
  br label %spinning
spinning:
  %i = phi i64 [ 0, %plain ], [ %i1, %spinning ]
  call void asm sideeffect "", ""()
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, 200
  br i1 %again, label %spinning, label %finished
finished:
  %value1 = add i32 %value, 1
  store volatile i32 %value1, ptr %count
  br label %following
locked:
  %ignored = atomicrmw add ptr %count, i32 1 monotonic
  %others = getelementptr i32, ptr %count, i64 1
  %ignored1 = atomicrmw add ptr %others, i32 1 monotonic
  br label %following""",
    # copy all slots of the launch (8 bytes each) to out
    "slots": """
  %out = load ptr, ptr %args
  %sn = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %sn
  %bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %args, i64 %bytes, i1 false)
  br label %following""",
}

HEAD = """
@message = private constant [10 x i8] c"bad value\\00"
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@functools.cache
def image() -> Image:
    """All kernels, loaded."""
    text = HEAD + "".join(
        LOOP.replace("NAME", name).replace("BODY", body.strip("\n").replace("CTX", CTX))
        for name, body in BODIES.items()
    )
    return load_object(compile_ir(text), list(BODIES))
