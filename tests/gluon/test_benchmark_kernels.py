"""The Gluon kernels of the benchmarks: what they compute, interpreted and as compiled for sm_90,
and that the compiled ones keep their values in registers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import gluon_clusters, gluon_early, gluon_kernels
from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import compiled, launcher, type_of


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize(
    "m,n,k,programs", [(200, 136, 72, 2), (128, 64, 32, 1), (300, 72, 104, 3)]
)
def test_products(m: int, n: int, k: int, programs: int, how: str) -> None:
    rng = np.random.default_rng(m)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    made = [gluon_kernels.described(x, s)
            for x, s in ((a, [128, 32]), (b, [32, 64]), (out, [64, 32]))]  # fmt: skip
    launcher(how)(gluon_kernels.matmul, (programs,), *made, STAGES=3, GROUP=2)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize(
    "m,n,k,blocks,group,parts,turned", [
        (300, 136, 72, 2, 2, 2, False), (512, 128, 40, 2, 0, 2, True),
        (512, 256, 64, 1, 0, 4, True), (600, 72, 104, 4, 1, 4, False), (200, 40, 72, 4, 1, 2, True),
    ]
)  # fmt: skip
def test_products_on_clusters(
    m: int, n: int, k: int, blocks: int, group: int, parts: int, turned: bool, how: str
) -> None:
    rng = np.random.default_rng(m)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    tile, right = (64 * parts // 2, 32), np.ascontiguousarray(b.T) if turned else b
    made, constants = gluon_clusters.arguments(a, right, out, blocks, parts, tile, turned)
    launcher(how)(gluon_clusters.matmul, (2,), *made, STAGES=3, GROUP=group, **constants)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize("blocks,parts,programs", [
    (1, 2, 5), (1, 4, 4), pytest.param(2, 4, 4, marks=pytest.mark.slow),  # of 24 s
])  # fmt: skip
def test_tiles_that_are_shared_out(blocks: int, parts: int, programs: int, how: str) -> None:
    """Six tiles of seven steps."""
    rng, m, n, k = np.random.default_rng(1), 256 * blocks - 30, 96 * parts - 8, 200
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    out, tile = np.zeros((m, n), np.float16), (32 * parts, 32)
    sums = np.full(programs * 128 * blocks * tile[0], np.nan, np.float32)
    told = np.zeros(2 * programs, np.int32)
    made, constants = gluon_clusters.arguments(a, b, out, blocks, parts, tile, sums=sums, told=told)
    launcher(how)(gluon_clusters.matmul, (programs,), *made, STAGES=3, GROUP=2, **constants)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))
    assert not told.any()


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "engine"])
@pytest.mark.parametrize("m,n,k,blocks,parts,buffers,turned,programs,ahead", [
    (300, 136, 200, 1, 4, 2, False, 3, False), (300, 200, 104, 1, 2, 1, True, 2, True),
    (600, 136, 72, 2, 4, 4, True, 2, True), (200, 40, 40, 1, 2, 2, False, 2, False),
    (300, 104, 200, 1, 1, 0, False, 6, False), (200, 104, 136, 1, 1, 1, False, 2, True),
])  # fmt: skip
def test_products_that_begin_early(
    m: int, n: int, k: int, blocks: int, parts: int, buffers: int, turned: bool, programs: int,
    ahead: bool, how: str,
) -> None:  # fmt: skip
    """The fourth has fewer steps than stages, so that copies begin that have nothing to copy."""
    rng = np.random.default_rng(m)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    tile = (32 * parts, 32) if parts > 1 else (64, 64)
    right = np.ascontiguousarray(b.T) if turned else b
    made, constants = gluon_early.arguments(a, right, out, blocks, parts, tile, turned, buffers,
                                            ahead=ahead)  # fmt: skip
    launcher(how)(gluon_early.matmul, (programs,), *made, STAGES=3, GROUP=2, **constants)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


@pytest.mark.parametrize("how", ["interpreted", "engine"])
def test_copies(how: str) -> None:
    source = (np.arange(100 * 64) % 1999).astype(np.float16).reshape(100, 64)
    out = np.zeros_like(source)
    made = [gluon_kernels.described(x, [32, 64]) for x in (source, out)]
    launcher(how)(gluon_kernels.copy_block, (4,), *made)
    np.testing.assert_array_equal(out, source)


def test_no_spills(recwarn: pytest.WarningsRecorder) -> None:
    shapes = ([128, 64], [64, 256], [64, 128])
    types = " ".join(f"tensordesc<fp16{s},{block_layout(s)!r}>" for s in shapes)
    kernel = compiled(gluon_kernels.matmul, types, {"STAGES": 4, "GROUP": 8})
    assert kernel.metadata.n_spills == 0 and "m64n256k16" in kernel.asm["ptx"]
    assert "stmatrix" in kernel.asm["ptx"]
    assert not [w for w in recwarn if "C75" in str(w.message)]
    assert kernel.metadata.shared <= 227 * 1024


def test_no_spills_on_clusters(recwarn: pytest.WarningsRecorder) -> None:
    spare = np.zeros((256, 256), np.float16)
    sums, told = np.zeros(4, np.float32), np.zeros(4, np.int32)
    made, constants = gluon_clusters.arguments(spare, spare, spare, parts=4, sums=sums, told=told)
    types = " ".join(map(type_of, made))
    constants |= {"STAGES": 4, "GROUP": 8}
    kernel = compiled(gluon_clusters.matmul, types, constants, num_ctas=constants.pop("num_ctas"))
    assert kernel.metadata.n_spills == 0 and "m64n256k16" in kernel.asm["ptx"]
    assert not [w for w in recwarn if "C75" in str(w.message)]
    assert kernel.metadata.shared <= 227 * 1024
    assert kernel.asm["ptx"].count(".multicast::cluster") == 2  # of 4 pieces of the right operand


@pytest.mark.parametrize("ahead", [False, True])
def test_early_copies(ahead: bool, recwarn: pytest.WarningsRecorder) -> None:
    """The first of them start before warps wait for registers; sums become halves before the next
    tile's product begins."""
    spare = np.zeros((256, 256), np.float16)
    made, constants = gluon_early.arguments(spare, spare, spare, ahead=ahead)
    constants |= {"STAGES": 4, "GROUP": 8}
    kernel = compiled(gluon_early.matmul, " ".join(map(type_of, made)), constants,
                      num_ctas=constants.pop("num_ctas"))  # fmt: skip
    assert kernel.metadata.n_spills == 0 and kernel.metadata.shared <= 227 * 1024
    assert not [w for w in recwarn if "C75" in str(w.message)]
    first, *later = kernel.asm["ptx"].split("setmaxnreg.inc")
    assert len(later) == 2 and first.count("cp.async.bulk.tensor.2d.shared") == 4 * 6
    if ahead:
        last = later[0].index("cvt.rn.f16x2"), later[0].rindex("cvt.rn.f16x2")
        assert "wgmma.mma" not in later[0][slice(*last)] and "wgmma.mma" in later[0][last[1] :]
