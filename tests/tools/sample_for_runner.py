"""Tests that `test_runner.py` runs: two are well, one fails, one hangs, one ends the
process."""

import os
import time

GPU_PARTS = 2


def test_before():
    pass


def test_that_hangs():
    time.sleep(100)


def test_that_fails():
    raise AssertionError("".join(f"reason {i}\n" for i in range(1000)))


def test_that_ends_the_process():
    os._exit(9)


def test_after():
    pass
