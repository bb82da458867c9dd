"""The C text of a kernel that is compiled ahead of time: headers, and for CUDA the source that
holds the cubin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interface:
    """A kernel as its callers in C see it.

    Attributes:
        name: the function.
        parameters: C type and name of its arguments.
        all_parameters: with those that are fixed to 1 by a hint, for `tritium.tools.link`.
        algorithm: the constants and options, which tell apart versions of one kernel.
        about: a line for people.
        hints: what the function takes for granted of arguments: 1, or multiples of 16.
    """

    name: str
    parameters: Sequence[tuple[str, str]]
    all_parameters: Sequence[tuple[str, str]]
    algorithm: str
    about: str
    hints: Mapping[str, int] = field(default_factory=dict[str, int])


_TAKEN = """
stream gx gy gz begin end arguments algo_id auto bool break case char class const continue
default do double else enum extern float for goto if inline int long new register restrict
return short signed sizeof static struct switch template this typedef union unsigned void
volatile while
"""


def c_name(name: str) -> str:
    """The name in C of a kernel's parameter: another one where C or the functions have a use for
    it."""
    plain = "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)
    return f"{plain}_" if plain in _TAKEN.split() else plain


def declared(parameters: Sequence[tuple[str, str]]) -> str:
    """Parameters as C declares them."""
    return ", ".join(f"{type} {name}".replace("* ", "*") for type, name in parameters)


def _list(first: str, parameters: Sequence[tuple[str, str]]) -> str:
    return ", ".join(part for part in (first, declared(parameters)) if part)


def _header(to: Interface, backend: str, include: str, body: Sequence[str]) -> str:
    return "\n".join([
        f"/* {to.about} */",
        f"#ifndef {to.name}_H", f"#define {to.name}_H",
        "#include <stdint.h>", *([include] if include else []),
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        f"// tt-linker-backend: {backend}",
        f"// tt-linker: {to.name}:{declared(to.all_parameters)}:{to.algorithm}",
        f"// tt-hints: {', '.join(f'{name}={hint}' for name, hint in to.hints.items())}",
        *body,
        f"void load_{to.name}(void);", f"void unload_{to.name}(void);",
        "#ifdef __cplusplus", "}", "#endif", "#endif", "",
    ])  # fmt: skip


def cpu_header(to: Interface) -> str:
    """The header of a library or an object for the CPU."""
    some = "uint32_t gx, uint32_t gy, uint32_t gz, int64_t begin, int64_t end"
    return _header(to, "cpu", "", [
        "/* Run all programs of the grid on the calling thread; `stream` is not used. Returns 0; 1",
        "   where there is no memory for scratch; 2 where a device_assert failed. */",
        f"int32_t {to.name}({_list('void *stream', to.parameters)});",
        "/* Run programs begin <= p < end of a grid, p = x + gx * (y + gy * z). Threads may run",
        "   several ranges at the same time. */",
        f"int32_t {to.name}_programs({_list(some, to.parameters)});",
        "/* Text and line of the device_assert that failed last, and its program; or NULL. */",
        f"const char *{to.name}_failure(int32_t program[3]);",
        "/* Nothing to do: so that callers are the same for all targets. */",
    ])  # fmt: skip


def cuda_header(to: Interface) -> str:
    """The header of a CUDA kernel."""
    return _header(to, "cuda", "#include <cuda.h>", [
        f"CUresult {to.name}({_list('CUstream stream', to.parameters)});",
        "/* Loaded by the first launch in the current context, or before. */",
    ])  # fmt: skip


def cuda_source(
    to: Interface, cubin: bytes, kernel: str, grid: Sequence[str], threads: int, shared: int,
    cluster: int = 1,
) -> str:  # fmt: skip
    """The source of a CUDA kernel: the cubin, and functions that load and launch it.

    Args:
        cubin: the machine code.
        kernel: its symbol in there.
        grid: three C expressions over the arguments.
        threads: how many a block has.
        shared: bytes of dynamic shared memory.
        cluster: how many blocks a program has.
    """
    return "\n".join([
        f"/* {to.about} */",
        "#include <cuda.h>", "#include <stdint.h>", "#include <stdio.h>", "#include <stdlib.h>",
        "",
        *_cuda_variables(to.name, cubin), "",
        *_cuda_prepare(to.name, kernel, shared), "",
        *_cuda_stop(to.name), "",
        *_cuda_load_and_unload(to.name), "",
        *_cuda_launch(to, grid, threads, shared, cluster), "",
    ])  # fmt: skip


def _cuda_variables(name: str, cubin: bytes) -> list[str]:
    """C of the loaded module and function, and of the cubin's bytes, 16 a line."""
    rows = [
        "    " + ", ".join(f"0x{byte:02x}" for byte in cubin[i : i + 16]) + ","
        for i in range(0, len(cubin), 16)
    ]
    return [
        f"static CUmodule {name}_module = NULL;",
        f"static CUfunction {name}_function = NULL;",
        f"static const unsigned char {name}_cubin[{len(cubin)}] = {{", *rows, "};",
    ]  # fmt: skip


def _cuda_prepare(name: str, kernel: str, shared: int) -> list[str]:
    """C of a function that loads the cubin and finds the kernel in it."""
    large: list[str] = []
    if shared > 48 << 10:  # more than kernels get that do not ask for it
        large = [
            "  if (status == CUDA_SUCCESS)",
            f"    status = cuFuncSetAttribute({name}_function,",
            f"        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared});",
        ]
    return [
        f"static CUresult {name}_prepare(void) {{",
        f"  CUresult status = cuModuleLoadData(&{name}_module, {name}_cubin);",
        "  if (status == CUDA_SUCCESS)",
        f"    status = cuModuleGetFunction(&{name}_function, {name}_module, \"{kernel}\");",
        *large,
        "  return status;", "}",
    ]  # fmt: skip


def _cuda_stop(name: str) -> list[str]:
    """C of a function that ends the process with the message of an error, if there is one."""
    return [
        f"static void {name}_stop(CUresult status) {{",
        "  const char *message = NULL;",
        "  if (status == CUDA_SUCCESS)", "    return;",
        "  cuGetErrorString(status, &message);",
        f"  fprintf(stderr, \"{name}: %s\\n\", message ? message : \"unknown error\");",
        "  exit((int)status);", "}",
    ]  # fmt: skip


def _cuda_load_and_unload(name: str) -> list[str]:
    """C of the public functions that load the kernel before its first launch and unload it."""
    return [
        f"void load_{name}(void) {{",
        f"  if ({name}_function == NULL)",
        f"    {name}_stop({name}_prepare());", "}",
        "",
        f"void unload_{name}(void) {{",
        f"  if ({name}_module != NULL)",
        f"    {name}_stop(cuModuleUnload({name}_module));",
        f"  {name}_module = NULL;", f"  {name}_function = NULL;", "}",
    ]  # fmt: skip


def _cuda_launch(
    to: Interface, grid: Sequence[str], threads: int, shared: int, cluster: int
) -> list[str]:
    """C of the public function that launches the kernel on a stream."""
    x, y, z = grid
    values = ", ".join(f"&{name}" for _, name in to.parameters)
    return [
        f"CUresult {to.name}({_list('CUstream stream', to.parameters)}) {{",
        f"  const unsigned gx = (unsigned)({x}), gy = (unsigned)({y}), gz = (unsigned)({z});",
        f"  void *arguments[] = {{{values or 'NULL'}}};",
        "  if (gx == 0 || gy == 0 || gz == 0)", "    return CUDA_SUCCESS;",
        f"  load_{to.name}();",
        f"  return cuLaunchKernel({to.name}_function, gx * {cluster}, gy, gz, {threads}, 1, 1,",
        f"                        {shared}, stream, arguments, NULL);", "}",
    ]  # fmt: skip
