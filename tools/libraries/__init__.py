"""Kernels of published libraries as tests: found, given arguments, compiled and run.

    pip download --no-deps --only-binary :all: liger-kernel
    unzip liger_kernel-*.whl '*.py' -d libs
    python -m tools.libraries.find libs found.jsonl          # what each kernel compiles for
    python -m tools.libraries.agree libs found.jsonl         # natively as interpreted?
    python -m tools.libraries.beside libs found.jsonl beside.jsonl   # on a GPU as with Triton?

`find` may run with Triton instead (`--with triton`, in an environment that has it): what it finds
then is what the reference takes, and what we should. Nothing of a library is kept here.

Run them from a checkout that does not change meanwhile. "did not compile or run" of arguments that
the reference takes is a fault; "refused" is one only where the message is not about the arguments
(an access outside of them, inline assembly, the time limit). "different" is one unless programs
write where others do, or 16-bit floats are added in another order ("in float32: same").

A library's own functions say more than random arguments, where it has a plain reference beside
them: run them with `tritium run` on the CPU, forward and backward, against that in float64.
"""
