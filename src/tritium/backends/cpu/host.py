"""The host's processor, at the path by which programs import it (`tritium.native.host`)."""

from tritium.native.host import CPU, host

__all__ = ["CPU", "host"]
