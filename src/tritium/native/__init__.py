"""Native code of the process itself: the host, compiling and loading, the thread pool, Python's
objects and the writer of such code."""
