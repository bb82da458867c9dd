"""The source of a third party's backend: kernels become text, launches are counted."""

COMPILER = """
import hashlib
from dataclasses import dataclass

from tritium.backends.base import BaseBackend, Language
from tritium.backends.compiler import GPUTarget


@dataclass(frozen=True)
class DummyOptions:
    num_warps: int = 2
    flavour: str = "plain"
    debug: bool = False

    def hash(self):
        return hashlib.sha256(repr(self).encode()).hexdigest()


class DummyBackend(BaseBackend):
    binary_ext = "words"

    @staticmethod
    def supports_target(target):
        return target.backend == "dummy"

    def hash(self):
        return "dummy-1"

    def parse_options(self, options):
        names = DummyOptions.__dataclass_fields__
        return DummyOptions(**{k: v for k, v in options.items() if k in names})

    def add_stages(self, stages, options, language=Language.TRITON):
        stages["ttir"] = lambda module, metadata: module
        stages["words"] = lambda module, metadata: self.words(module, metadata, options)

    def words(self, module, metadata, options):
        metadata["shared"] = 0
        names = [op.name for op in module.body.block.first_op.body.walk()]
        return f"{options.flavour}: {' '.join(names)}".encode()

    def load_dialects(self, context):
        pass

    def get_module_map(self):
        return {}
"""

DRIVER = """
from tritium.backends.base import DriverBase
from tritium.backends.compiler import GPUTarget

launches = []


class DummyUtils:
    def load_binary(self, name, kernel, shared, device):
        return object(), kernel, 0, 0, 1


class DummyDriver(DriverBase):
    usable = False

    def __init__(self):
        self.utils = DummyUtils()

    @classmethod
    def is_active(cls):
        return cls.usable

    def map_python_to_cpp_type(self, ty):
        return "int"

    def get_current_target(self):
        return GPUTarget("dummy", "v1", 1)

    def get_active_torch_device(self):
        return "cpu"

    def get_benchmarker(self):
        return lambda call, quantiles, **_: [1.0 for _ in quantiles]

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def launcher_cls(self, src, metadata):
        return lambda gx, gy, gz, stream, function, packed, data, enter, exit_, *args: (
            launches.append((gx * gy * gz, function, args))
        )
"""
