"""A page in headless Chromium, driven through its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """An open page."""

    def __init__(self, read: int, write: int):
        self._input, self._write, self._number = os.fdopen(read, "rb"), write, 0
        self._session: str | None = None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            text = bytearray()
            while (byte := self._input.read(1)) != b"\0":
                assert byte, "the browser has ended"
                text += byte
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, file: Path) -> None:
        """Load a file, and wait until its scripts have run."""
        target = self.call("Target.createTarget", url=file.as_uri())
        attached = self.call("Target.attachToTarget", flatten=True, **target)
        self._session = attached["sessionId"]
        self.wait(f'location.href === "{file.as_uri()}" && document.readyState === "complete"')

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        options = {"awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", expression=script, **options)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + 20
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.01)

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, file: Path) -> None:
        """Write a PNG of what is seen."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def page(folder: Path) -> Generator[Page]:
    """A browser with no page yet; its profile is in the folder."""
    (read_there, write), (read, write_there) = os.pipe(), os.pipe()
    program = chromium()
    assert program is not None
    options = (
        "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1400,900 "
        f"--remote-debugging-pipe --user-data-dir={folder / 'browser'}"
    )
    command = f"exec {program} {options} 3<&{read_there} 4>&{write_there}"
    browser = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(read_there, write_there), stderr=subprocess.DEVNULL
    )
    os.close(read_there)
    os.close(write_there)
    try:
        yield Page(read, write)
    finally:
        browser.kill()
        browser.wait()
        os.close(write)
