"""A page in Chromium, asked by its DevTools protocol through two pipes: as wide, and as dark, as a test wants it.

https://chromedevtools.github.io/devtools-protocol
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
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in PROGRAMS if (path := shutil.which(name))), "")
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: see docs/tests.md")
# Of --remote-debugging-pipe: it reads commands from the first, and writes answers to the second.
COMMANDS, ANSWERS = 3, 4
# Ends a browser that hangs, and with it the test that waits for its answer.
HANG_SECONDS = 840
HEIGHT = 844
# Up to this width a page is shown as a telephone shows it.
TELEPHONE = 600
# No watchdog ends it on a machine that is busy, and a container's small /dev/shm is not used.
OPTIONS = (
    "--headless", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars", "--disable-gpu",
    "--disable-gpu-watchdog", "--disable-hang-monitor", "--disable-dev-shm-usage", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
Json = dict[str, Any]


class Browser:
    """One page of one browser. `errors` are those of its scripts, its files and its policy; `warnings` the same."""

    def __init__(self, commands: int, answers: int, log: Path) -> None:
        self.commands, self.answers, self.log, self.rest = commands, answers, log, b""
        self.count, self.session, self.is_loaded = 0, "", False
        self.errors: list[str] = []
        self.warnings: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Json:
        """Send a command; return its answer. What happens meanwhile is noted."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read_message()).get("id") != self.count:
            self._note_event(answer)
        assert "error" not in answer, (method, answer)
        result: Json = answer["result"]
        return result

    def show(self, page: Path | str, width: int, *, dark: bool = False) -> None:
        """Open a page in a window so wide; return once it is loaded and its scripts have run."""
        self.errors.clear()
        self.warnings.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1,
            mobile=width < TELEPHONE,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.is_loaded = False
        answer = self.ask("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        assert "errorText" not in answer, answer
        # A place in the page that is shown already is not loaded again.
        while "loaderId" in answer and not self.is_loaded:
            self._note_event(self._read_message())
        # This answer stands behind what deferred scripts said.
        self.evaluate("document.readyState")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def save_picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1})
        path.write_bytes(base64.b64decode(answer["data"]))

    def _read_message(self) -> Json:
        while b"\0" not in self.rest:
            found = os.read(self.answers, 1 << 16)
            assert found, f"the browser has ended: {self.log.read_text(errors='replace')[-4000:]}"
            self.rest += found
        message, _, self.rest = self.rest.partition(b"\0")
        value: Json = json.loads(message)
        return value

    def _note_event(self, event: Json) -> None:
        method, held = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.is_loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(held["exceptionDetails"]))
        elif method == "Log.entryAdded" and held["entry"]["level"] in ("error", "warning"):
            noted = self.errors if held["entry"]["level"] == "error" else self.warnings
            noted.append(f"{held['entry']['text']} {held['entry'].get('url', '')}")


def _move_up(number: int) -> int:
    """Return a copy of a descriptor above those that the browser's are to be, and close it."""
    copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, ANSWERS + 6)
    os.close(number)
    return copy


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with nobody's settings; end it, and what it started."""
    theirs_in, ours_out = (_move_up(each) for each in os.pipe())
    ours_in, theirs_out = (_move_up(each) for each in os.pipe())
    log = folder / "browser.log"
    moved = f'exec {COMMANDS}<&{theirs_in} {ANSWERS}>&{theirs_out}; exec timeout --kill-after=5 {HANG_SECONDS} "$@"'
    with log.open("wb") as said:
        child = subprocess.Popen(
            ["bash", "-c", moved, "browser", CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'browser'}"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in, log)
    finally:
        # Without its pipe the browser ends by itself.
        os.close(ours_out)
        os.close(ours_in)
        child.wait(HANG_SECONDS)
