"""libdevice by the path that the reference has for NVIDIA GPUs."""

from tritium.language.extra.libdevice import __all__ as __all__
from tritium.language.extra.libdevice import __dir__ as __dir__
from tritium.language.extra.libdevice import __getattr__ as __getattr__
