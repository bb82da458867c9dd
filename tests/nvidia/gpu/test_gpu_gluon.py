"""Gluon programs on a GPU, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.gluon import cluster_programs
from tests.gluon.support import launcher
from tests.gluon.test_programs import FOR_HOPPER, PROGRAMS
from tests.simt.test_bulk_copies import summed
from tests.support.device import from_gpu, to_gpu
from tritium.backends.active import driver
from tritium.launch.allocation import set_allocator
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.gpu


@pytest.fixture
def with_allocator() -> Iterator[None]:
    """Memory for the tensor maps that a kernel makes."""
    torch = pytest.importorskip("torch")
    set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    yield
    set_allocator(None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    PROGRAMS[name](launcher("gpu"))


@pytest.mark.usefixtures("with_allocator")
@pytest.mark.parametrize("name", FOR_HOPPER)
def test_programs_for_hopper(name: str) -> None:
    if driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is of sm_90 alone")
    FOR_HOPPER[name](launcher("gpu"))


@pytest.mark.parametrize("name", cluster_programs.PROGRAMS)
def test_programs_for_clusters(name: str) -> None:
    if driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is of sm_90 alone")
    cluster_programs.PROGRAMS[name](launcher("gpu"))


@pytest.mark.parametrize("shape", [(1, 64), (1, 128), (2, 64), (4, 64), (8, 64)])
def test_few_rows_in_loops_of_tl(shape: tuple[int, int]) -> None:
    """Buffers of blocks of few rows begin where their swizzle does."""
    if driver.active.get_current_target().arch < 90:
        pytest.skip("bulk copies are of sm_90 and later")
    rows, columns = shape
    array = np.random.default_rng(0).integers(-9, 9, (rows, 5 * columns)).astype(np.float16)
    found, out = np.zeros(shape, np.float32), to_gpu(np.zeros(shape, np.float32))
    desc = replace(TensorDescriptor.from_tensor(array, [rows, columns]), base=to_gpu(array))
    summed[(1,)](desc, out, 5, ROWS=rows, COLUMNS=columns, STAGES=3)
    from_gpu(out, found)
    want = array.reshape(rows, 5, columns).astype(np.float32).sum(1)
    np.testing.assert_array_equal(found, want)
