"""The functions of the Windows API that the thread pool calls, made of Linux's: so the pool's code
for Windows runs here."""

from __future__ import annotations

import functools
import platform

from tritium.native.loader import Image, compile_ir, load_object
from tritium.system.linux import FUTEX

TEXT = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @pthread_self()
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare i32 @clock_gettime(i32, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i64 @syscall(i64, ...)
declare void @llvm.trap()

define ptr @CreateThread(ptr %security, i64 %stack, ptr %run, ptr %argument, i32 %flags, ptr %id) {
  %thread = alloca i64
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr %run, ptr %argument)
  %created = icmp eq i32 %status, 0
  br i1 %created, label %detach, label %fail
detach:
  %t = load i64, ptr %thread
  call i32 @pthread_detach(i64 %t)
  %handle = inttoptr i64 1 to ptr
  ret ptr %handle
fail:
  ret ptr null
}
define i32 @CloseHandle(ptr %handle) {
  %right = icmp eq ptr %handle, inttoptr (i64 1 to ptr)
  br i1 %right, label %done, label %wrong
done:
  ret i32 1
wrong:
  call void @llvm.trap()
  unreachable
}
define i32 @GetCurrentThreadId() {
  %own = call i64 (i64, ...) @syscall(i64 GETTID)
  %id = trunc i64 %own to i32
  ret i32 %id
}
define i32 @SwitchToThread() {
  %status = call i32 @sched_yield()
  ret i32 1
}
define void @Sleep(i32 %milliseconds) {
  %us = mul i32 %milliseconds, 1000
  %status = call i32 @usleep(i32 %us)
  ret void
}
define i32 @QueryPerformanceFrequency(ptr %place) {
  store i64 10000000, ptr %place
  ret i32 1
}
define i32 @QueryPerformanceCounter(ptr %place) {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %p
  %a = mul i64 %seconds, 10000000
  %b = udiv i64 %rest, 100
  %count = add i64 %a, %b
  store i64 %count, ptr %place
  ret i32 1
}
define i32 @WaitOnAddress(ptr %address, ptr %compare, i64 %size, i32 %milliseconds) {
  %expected = load i32, ptr %compare
  %four = icmp eq i64 %size, 4
  br i1 %four, label %sleep, label %wrong
sleep:
  %seconds = udiv i32 %milliseconds, 1000
  %left = urem i32 %milliseconds, 1000
  %wide = zext i32 %left to i64
  %nanoseconds = mul i64 %wide, 1000000
  %whole = zext i32 %seconds to i64
  %limit = alloca [2 x i64]
  store i64 %whole, ptr %limit
  %p = getelementptr i64, ptr %limit, i64 1
  store i64 %nanoseconds, ptr %p
  %for_ever = icmp eq i32 %milliseconds, -1
  %until = select i1 %for_ever, ptr null, ptr %limit
  call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i32 128, i32 %expected, ptr %until,
                               ptr null, i32 0)
  ret i32 1
wrong:
  call void @llvm.trap()
  unreachable
}
define void @WakeByAddressAll(ptr %address) {
  call i64 (i64, ...) @syscall(i64 FUTEX, ptr %address, i32 129, i32 2147483647, ptr null,
                               ptr null, i32 0)
  ret void
}
define ptr @_aligned_malloc(i64 %size, i64 %alignment) {
  %place = alloca ptr
  store ptr null, ptr %place
  %status = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %size)
  %memory = load ptr, ptr %place
  ret ptr %memory
}
define void @_aligned_free(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}
"""
GETTID = {"x86_64": 186, "aarch64": 178}
NAMES = [
    "CloseHandle", "CreateThread", "GetCurrentThreadId", "QueryPerformanceCounter",
    "QueryPerformanceFrequency", "Sleep", "SwitchToThread", "WaitOnAddress", "WakeByAddressAll",
    "_aligned_free", "_aligned_malloc",
]  # fmt: skip


@functools.cache
def _image() -> Image:
    machine = platform.machine()
    text = TEXT.replace("GETTID", str(GETTID[machine])).replace("FUTEX", str(FUTEX[machine]))
    return load_object(compile_ir(text), NAMES)


def windows_functions() -> dict[str, int]:
    """Their addresses."""
    return {name: _image()[name] for name in NAMES}
