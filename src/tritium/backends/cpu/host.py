"""The host's processor, at the path by which programs import it (`tritium.native.host`)."""

from tritium.native.host import Host, host

__all__ = ["Host", "host"]
