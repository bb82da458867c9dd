"""Arguments of an interpreted kernel, and the memory that its pointers may reach."""

import array
import types

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.arguments import Arguments
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.errors import InterpreterError
from tritium.runtime.specialize import int_type

torch = pytest.importorskip("torch")


def add_one(x, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i * stride, tl.load(x + i * stride, i < n) + 1, i < n)


def launch(x, n, stride=1):
    InterpretedKernel(add_one)[(1,)](x, n, stride, BLOCK=16)


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32",
     "float64", ml_dtypes.bfloat16],
)  # fmt: skip
def test_numpy_arrays(dtype):
    x = np.arange(8).astype(dtype)
    launch(x, 8)
    assert x.astype(float).tolist() == list(range(1, 9))


@pytest.mark.parametrize("name", ["int32", "float16", "bfloat16", "float32", "float64", "uint8"])
def test_torch_tensors(name):
    x = torch.arange(8).to(getattr(torch, name))
    launch(x, 8)
    assert x.tolist() == list(range(1, 9))


def test_strided_and_negative_views():
    x = np.zeros((4, 6), np.float32)
    launch(x[:, 2], 4, 6)
    assert x[:, 2].tolist() == [1] * 4 and x.sum() == 4
    y = np.arange(8, dtype=np.int32)
    launch(y[::-1][:3], 3, -1)
    assert y.tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    memory = np.zeros(4, np.int32).tobytes()
    z = np.ndarray((4,), np.int32, bytearray(memory), offset=12, strides=(-4,))
    launch(z[:3], 3, -1)
    assert z.tolist() == [1, 1, 1, 0]


def test_arguments_share_memory():
    def kernel(x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, i < n) * 10, i < n)

    for data in (np.arange(8, dtype=np.float32), torch.arange(8, dtype=torch.float32)):
        InterpretedKernel(kernel)[(1,)](data[:4], data[2:6], 4, BLOCK=4)
        assert data.tolist() == [0, 1, 0, 10, 20, 30, 6, 7]


def test_a_tensor_on_the_device_meta():
    with pytest.raises(ValueError, match="argument 'x' has no elements: it is on the device meta"):
        launch(torch.ones(8, device="meta"), 8)


def test_torch_views_keep_their_offset():
    x = torch.zeros(4, 4)
    launch(x[1:, 1], 3, 4)
    assert x[:, 1].tolist() == [0, 1, 1, 1] and x.sum() == 3


def test_other_objects():
    buffer = array.array("f", [1, 2, 3])
    launch(buffer, 3)
    assert list(buffer) == [2, 3, 4]
    data = np.zeros(4, np.float32)
    launch(types.SimpleNamespace(__array_interface__=data.__array_interface__), 4)
    assert data.tolist() == [1] * 4
    address = data.__array_interface__["data"][0]
    launch(types.SimpleNamespace(data_ptr=lambda: address, dtype="float32"), 4)
    assert data.tolist() == [2] * 4
    launch(types.SimpleNamespace(data_ptr=lambda: address, dtype=tl.float32), 4)
    assert data.tolist() == [3] * 4


def test_bad_arguments():
    for value, text in (
        (object(), "argument 'x' has type object"),
        (torch.zeros(2, dtype=torch.complex64), "argument 'x': .* dtype torch.complex64"),
        (torch.eye(2).to_sparse(), "argument 'x' is a tensor without memory of its own"),
    ):
        with pytest.raises(TypeError, match=text):
            launch(value, 2)


def test_out_of_bounds_names_the_argument():
    x, y = np.zeros(8, np.float32), np.zeros(3, np.float32)
    with pytest.raises(
        InterpreterError,
        match=r"4 bytes at 0x\w+: 4 bytes beyond the end of argument 'x' \(float32\[8\]",
    ):
        launch(x, 9)
    assert x.tolist() == [0] * 8  # checked before anything is written
    with pytest.raises(InterpreterError, match="4 bytes before the start of argument 'x'"):
        launch(y, 2, -1)

    def wild(n):
        tl.load(n.to(tl.int64))

    with pytest.raises(InterpreterError, match="Unsupported ptr type"):
        InterpretedKernel(wild)[(1,)](3)


def test_host_descriptors():
    def kernel(desc, out):
        tile = desc.load([2, 0])
        i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
        tl.store(out + i, tile)

    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    out = np.full((4, 8), -1, np.float32)
    desc = types.SimpleNamespace(base=x, shape=[5, 8], strides=[8, 1], block_shape=[4, 8])
    InterpretedKernel(kernel)[(1,)](desc, out)
    np.testing.assert_array_equal(out[:3], x[2:])
    assert (out[3] == 0).all()


class Storage:
    """The memory of a device, as torch shows it: not to be touched directly."""

    def __init__(self, data):
        self.data = data

    def data_ptr(self):
        return 0xDEAD0000

    def nbytes(self):
        return self.data.nbytes()

    def cpu(self):
        return self.data.clone()

    def copy_(self, source):
        self.data.copy_(source)


class DeviceTensor:
    """Two tensors of one device storage."""

    def __init__(self, storage, offset):
        self.storage, self.offset = storage, offset
        self.dtype, self.shape = torch.float32, (4,)
        self.device = types.SimpleNamespace(type="cuda")

    def untyped_storage(self):
        return self.storage

    def data_ptr(self):
        return self.storage.data_ptr() + 4 * self.offset


def test_device_memory_is_copied_there_and_back():
    def kernel(x, y):
        i = tl.arange(0, 4)
        tl.store(y + i, tl.load(x + i) + 1)

    memory = torch.arange(8, dtype=torch.float32)
    storage = Storage(memory.untyped_storage())
    InterpretedKernel(kernel)[(1,)](DeviceTensor(storage, 0), DeviceTensor(storage, 4))
    assert memory.tolist() == [0, 1, 2, 3, 1, 2, 3, 4]


def test_every_python_float_is_an_fp32():
    def kernel(out, value):
        tl.static_assert(value.dtype == tl.float32)
        tl.store(out, value)

    for value, stored in ((1e300, np.inf), (1e-300, 0), (0.1, np.float32(0.1)), (np.float64(2), 2)):
        out = np.full(1, 7.0)
        InterpretedKernel(kernel)[(1,)](out, value)
        assert out[0] == stored


def test_a_tensor_that_only_says_where_its_memory_is():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, kinds, args=(), kwargs=None):
            raise AssertionError("nothing is computed")

        def data_ptr(self):
            return self.inner.data_ptr()

    x = torch.arange(8)
    launch(Wrapper(x), 8)
    assert x.tolist() == list(range(1, 9))


def test_numpy_numbers_are_scalars():
    found = Arguments().convert("n", np.int64(5))
    assert found.dtype == tl.int32 and found.value == 5
    assert Arguments().convert("n", np.float32(0.5)).dtype == tl.float32
    assert Arguments().convert("n", 200, "u8").value == 200


def test_constant_integers_are_scalars_as_in_compiled_kernels():
    def kernel(out, x, pair):
        tl.store(out, isinstance(x, tl.tensor) and not isinstance(pair[0], tl.tensor))
        tl.store(out + 1, x / 2 + pair[0])

    out = np.zeros(2, np.float32)
    for fn in (InterpretedKernel(kernel), tritium.jit(kernel)):
        out[:] = 0
        fn[(1,)](out, tl.constexpr(3), (tl.constexpr(0.5), None))
        assert out.tolist() == [1, 2]


def test_read_only_arrays():
    x = np.arange(8, dtype=np.float32)
    seen = x.view()
    seen.flags.writeable = False
    with pytest.raises(InterpreterError, match="argument 'x' is read-only and the kernel writes"):
        launch(seen, 8)
    assert x.tolist() == list(range(8))

    def kernel(x, y):
        i = tl.arange(0, 8)
        tl.store(y + i, tl.load(x + i) + 1)

    InterpretedKernel(kernel)[(1,)](seen, x)  # the same memory, through an array that is writable
    assert x.tolist() == list(range(1, 9))


def test_any_number_of_arguments():
    def kernel(out, *args):
        ...
        for i in tl.static_range(len(args)):
            tl.store(out + i, args[i])

    out = np.zeros(3, np.int32)
    InterpretedKernel(kernel)[(1,)](out, 4, 5, 6)
    assert out.tolist() == [4, 5, 6]


@pytest.mark.parametrize("n", [-(2**31), 2**31 - 1, 2**31, 2**32 - 1, -(2**63), 2**63])
def test_integers_have_the_dtype_of_a_signature(n):
    def kernel(out, n):
        tl.store(out, n)
        tl.store(out + 1, n.dtype.int_bitwidth)
        tl.store(out + 2, n.dtype.is_int_signed())

    out = np.zeros(3, np.uint64)
    InterpretedKernel(kernel)[(1,)](out, n)
    name = int_type(n)
    assert out.tolist() == [n % 2**64, int(name[1:]), name[0] == "i"]
