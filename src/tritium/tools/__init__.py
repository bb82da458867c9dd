"""Tools beside the compiler: descriptors for hosts, microscaled formats, disassembly."""
