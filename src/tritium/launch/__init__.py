"""`kernel[grid](...)` in native code, after a kernel's first launches."""
