"""A headless Chromium that a test asks through pipes: it opens pages, tells of their faults, and answers questions.

The protocol is that of Chromium's developer tools: https://chromedevtools.github.io/devtools-protocol
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# The browser reads from 3 and writes to 4, once it has this option.
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
           "--remote-debugging-pipe")  # fmt: skip
READS, WRITES, ABOVE = 3, 4, 10
# Ends a browser that hangs, on whatever host: a page takes a second, but not beside other work.
HANG_SECONDS = 840


def find_chromium() -> str | None:
    """Return the browser of this host, if it has one."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@dataclass
class Browser:
    """One page at a time, in one tab. `faults` are errors and warnings of its scripts, its policy and its files."""

    to: int
    answers: Iterator[dict[str, Any]]
    session: str = ""
    last: int = 0
    faults: list[str] = field(default_factory=list)
    has_loaded: bool = False

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send one question and return its answer; what happens meanwhile is noted."""
        self.last += 1
        own = {"sessionId": self.session} if self.session else {}
        os.write(self.to, json.dumps({"id": self.last, "method": method, "params": parameters, **own}).encode() + b"\0")
        for message in self.answers:
            if message.get("id") == self.last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._note(message)
        raise AssertionError(f"{method}: the browser ended")

    def open_tab(self) -> None:
        """Open the tab in which all pages are shown."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def show(self, address: str, width: int, height: int = 1000, scheme: str = "light") -> list[str]:
        """Load a page at a width, in light or dark colours; return its faults."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=False)  # fmt: skip
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.faults, self.has_loaded = [], False
        self.ask("Page.navigate", url=address)
        while not self.has_loaded:
            self._note(next(self.answers))
        # Its scripts are deferred: they have run, and this answer stands behind what they said.
        self.evaluate("document.readyState")
        return self.faults

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, f"{script}: {found['exceptionDetails']}"
        return found["result"].get("value")

    def save_picture(self, path: Path) -> None:
        """Write what the page shows, all of its height, as a PNG."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.has_loaded = True
        elif method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.faults.append(f"{details['text']} {details.get('exception', {}).get('description', '')}")
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")


def read_messages(descriptor: int) -> Iterator[dict[str, Any]]:
    """Yield what the browser says, until it ends."""
    left = b""
    while data := os.read(descriptor, 1 << 16):
        *whole, left = (left + data).split(b"\0")
        yield from (json.loads(each) for each in whole)


@contextmanager
def run_chromium(program: str, folder: Path) -> Iterator[Browser]:
    """Run a browser with its files in a folder; it has ended when the block has."""
    (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
    # Numbers that 3 and 4 do not overwrite.
    given = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in (theirs_in, theirs_out)]

    def place_pipes() -> None:
        os.dup2(given[0], READS)
        os.dup2(given[1], WRITES)

    argv = [
        "timeout",
        "--kill-after=5",
        str(HANG_SECONDS),
        program,
        *OPTIONS,
        f"--user-data-dir={folder}",
        "about:blank",
    ]
    child = subprocess.Popen(
        argv, preexec_fn=place_pipes, pass_fds=(READS, WRITES), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for each in (*given, theirs_in, theirs_out):
        os.close(each)
    try:
        browser = Browser(ours_out, read_messages(ours_in))
        browser.open_tab()
        yield browser
    finally:
        # Without its pipe the browser ends by itself.
        os.close(ours_out)
        os.close(ours_in)
        child.wait(HANG_SECONDS)
