"""Kernels of published libraries as tests: found, given arguments, compiled and run.

    pip download --no-deps liger-kernel && unzip -d libs liger_kernel-*.whl
    python -m tools.libraries.find libs found.jsonl          # what each kernel compiles for
    python -m tools.libraries.agree libs found.jsonl         # natively as interpreted?

`find` may run with Triton instead (`--with triton`, in an environment that has it): what it finds
then is what the reference takes, and what we should. Nothing of a library is kept here.
"""
