"""Hooks of sessions: called when kernels are loaded and launched."""

from tritium.profiler.hooks.hook import Hook as Hook
from tritium.profiler.hooks.hook import HookManager as HookManager
from tritium.profiler.hooks.instrumentation import InstrumentationHook as InstrumentationHook
from tritium.profiler.hooks.launch import LaunchHook as LaunchHook
