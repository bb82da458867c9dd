"""Changes of layout on a GPU, through registers, shuffles, matrices and shared memory."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import tritium
from tests.nvidia.support import kernel_text
from tritium.codegen.gpu.collective.shuffles import MOST_SHUFFLES
from tritium.ir.layouts.conversion import plan
from tritium.ir.layouts.encodings import Encoding, linear
from tritium.ops.parsing import parse_module

pytestmark = pytest.mark.gpu


def blocked(size: str, threads: str, warps: str, order: str) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{threads}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


MMA = (
    "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], "
    "instrShape = [16, 8]}>"
)
LAYOUTS = {
    "rows": blocked("1, 8", "4, 8", "4, 1", "1, 0"),
    "columns": blocked("8, 1", "8, 4", "1, 4", "0, 1"),
    "narrow": blocked("1, 1", "1, 32", "4, 1", "1, 0"),
    "two": blocked("1, 2", "2, 16", "4, 1", "1, 0"),
    "tall": blocked("2, 1", "1, 32", "4, 1", "1, 0"),
    "mma": MMA,
    "wgmma": "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
             "instrShape = [16, 32, 16]}>",
    "operand": f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>",
}  # fmt: skip
SHAPES = ((64, 32), (8, 32), (128, 64))


def copy_text(source: str, result: str, shape: tuple[int, int], kind: str) -> str:
    """Load a tile in one layout, store it in another."""
    (m, n), size = shape, f"{shape[0]}x{shape[1]}x"
    lines: list[str] = []
    for name, at in (("x", "a"), ("out", "b")):
        lines += [
            f"%r{at} = tt.make_range {{end = {m} : i32, start = 0 : i32}} : "
            f"tensor<{m}xi32, #ttg.slice<{{dim = 1, parent = #{at}}}>>",
            f"%e{at} = tt.expand_dims %r{at} {{axis = 1 : i32}} : "
            f"tensor<{m}xi32, #ttg.slice<{{dim = 1, parent = #{at}}}>> -> tensor<{m}x1xi32, #{at}>",
            f"%w{at} = arith.constant dense<{n}> : tensor<{m}x1xi32, #{at}>",
            f"%m{at} = arith.muli %e{at}, %w{at} : tensor<{m}x1xi32, #{at}>",
            f"%M{at} = tt.broadcast %m{at} : tensor<{m}x1xi32, #{at}> -> tensor<{size}i32, #{at}>",
            f"%c{at} = tt.make_range {{end = {n} : i32, start = 0 : i32}} : "
            f"tensor<{n}xi32, #ttg.slice<{{dim = 0, parent = #{at}}}>>",
            f"%d{at} = tt.expand_dims %c{at} {{axis = 0 : i32}} : "
            f"tensor<{n}xi32, #ttg.slice<{{dim = 0, parent = #{at}}}>> -> tensor<1x{n}xi32, #{at}>",
            f"%D{at} = tt.broadcast %d{at} : tensor<1x{n}xi32, #{at}> -> tensor<{size}i32, #{at}>",
            f"%o{at} = arith.addi %M{at}, %D{at} : tensor<{size}i32, #{at}>",
            f"%s{at} = tt.splat %{name} : !tt.ptr<{kind}> -> tensor<{size}!tt.ptr<{kind}>, #{at}>",
            f"%p{at} = tt.addptr %s{at}, %o{at} : tensor<{size}!tt.ptr<{kind}>, #{at}>, "
            f"tensor<{size}i32, #{at}>",
        ]
    lines += [
        f"%v = tt.load %pa : tensor<{size}!tt.ptr<{kind}>, #a>",
        f"%u = ttg.convert_layout %v : tensor<{size}{kind}, #a> -> tensor<{size}{kind}, #b>",
        f"tt.store %pb, %u : tensor<{size}!tt.ptr<{kind}>, #b>",
    ]
    head = f"#a = {source}\n#b = {result}\n"
    hint = "{tt.divisibility = 16 : i32}"
    arguments = f"%x: !tt.ptr<{kind}> {hint}, %out: !tt.ptr<{kind}> {hint}"
    return kernel_text("\n".join(f"    {line}" for line in lines), arguments, head=head)


def kind_of(source: str, result: str, shape: tuple[int, int], size: int) -> str:
    module: Any = parse_module(copy_text(source, result, shape, "f32"))
    layouts = {
        op.name: linear(encoding, shape)
        for op in module.walk() if op.name in ("tt.load", "ttg.convert_layout")
        if isinstance(encoding := op.results[0].type.encoding, Encoding)
    }  # fmt: skip
    return plan(layouts["tt.load"], layouts["ttg.convert_layout"], size).kind


@pytest.mark.parametrize("kind", ["i8", "f16", "f32", "i64"])
def test_elements_arrive(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    dtype = {"i8": torch.int8, "f16": torch.float16, "f32": torch.float32, "i64": torch.int64}[kind]
    kinds: set[str] = set()
    for shape in SHAPES:
        x = torch.arange(shape[0] * shape[1], device="cuda").to(dtype).reshape(shape)
        for a, b in itertools.permutations(LAYOUTS, 2):
            text = copy_text(LAYOUTS[a], LAYOUTS[b], shape, kind)
            path = tmp_path / f"{a}_{b}_{shape[0]}.ttgir"
            path.write_text(text)
            out = torch.full_like(x, -1)
            tritium.compile(path)[1, 1, 1](x, out)
            assert torch.equal(out, x), (a, b, shape)
            kinds.add(kind_of(LAYOUTS[a], LAYOUTS[b], shape, x.element_size()))
    assert {"shared", "shuffles"} <= kinds and MOST_SHUFFLES >= 4
