"""What `dlc completion` prints, in bash, zsh and fish on a pseudo-terminal: Tab completes verbs, options, images, jobs.

Each shell reads it from where `dlc completion --help` says that it goes. A stand-in for dlc lets the real one answer
the shell, and prints how it was called: so a line that Tab completed is seen as dlc gets it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BOUND_SECONDS = 300.0
PROMPT = "ready> "
DLC = f"""#!/bin/sh
[ "$1" = completion ] && exec {sys.executable} -m dlc "$@"
printf '\\n<%s>\\n' "$*"
"""
# A shell -> the file of a home that it reads, the file's text, and how it is started.
SHELLS = {
    "bash": (".bashrc", f"PS1='{PROMPT}'\n" + 'eval "$(dlc completion bash)"\n', ("bash", "-i")),
    "zsh": (
        ".zshrc",
        f"PS1='{PROMPT}'\nautoload -Uz compinit\ncompinit -u\n" + 'eval "$(dlc completion zsh)"\n',
        ("zsh", "--no-global-rcs", "-i"),
    ),
    "fish": (
        ".config/fish/config.fish",
        f"function fish_prompt; echo -n '{PROMPT}'; end\nset -g fish_greeting\n",
        ("fish", "-i"),
    ),
}
# Moves of the cursor, colours, titles of windows.
SEQUENCES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()].|[=>])")


class Shell:
    """An interactive shell on a terminal of 100 columns, with a home of its own."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        settings = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "TERM": "xterm",
                    "HOME": str(home), "DLC_CACHE_DIR": str(home / "cache"), "HISTFILE": "", "INPUTRC": "/dev/null",
                    "LANG": "C.UTF-8", "SHELL": str(shutil.which(name))}  # fmt: skip
        self.child = subprocess.Popen(
            SHELLS[name][2], cwd=home, env=settings, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.shown = ""
        self.await_text(PROMPT)

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self.master, text.encode())

    def await_text(self, pattern: str) -> str:
        """Return what is shown without sequences, once the pattern is in it."""
        deadline = time.monotonic() + BOUND_SECONDS
        while not re.search(pattern, text := SEQUENCES.sub("", self.shown)):
            ready, _, _ = select.select([self.master], [], [], max(deadline - time.monotonic(), 0))
            assert ready, text
            self.shown += os.read(self.master, 65536).decode(errors="replace")
        return text

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.master)


def make_home(home: Path, shell: str) -> None:
    """Write the files of a user: settings of the shell, dlc, a script, and a job that runs."""
    name, text, _ = SHELLS[shell]
    for path, content in {
        name: text, "bin/dlc": DLC, "my-script.py": "", "cache/jobs/20261120-093000-0a1b2c": "unix:///a.sock\n",
    }.items():  # fmt: skip
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(content)
    (home / "bin/dlc").chmod(0o755)
    if shell == "fish":
        file = home / ".config/fish/completions/dlc.fish"
        file.parent.mkdir()
        with file.open("w") as opened:
            subprocess.run(
                [sys.executable, "-m", "dlc", "completion", "fish"], stdout=opened, check=True, timeout=BOUND_SECONDS,
            )  # fmt: skip


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    home = tmp_path_factory.mktemp(request.param)
    make_home(home, request.param)
    started = Shell(request.param, home)
    yield started
    started.end()


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("prof", "profile"),
        ("run pytorch-2.13", "run pytorch-2.13-training-cpu-py311"),
        ("run x --distr", "run x --distributed"),
        ("run x --distributed torchr", "run x --distributed torchrun"),
        ("run x my-", "run x my-script.py"),
        ("run x --wa", "run x --watch"),
        ("logs 2026", "logs 20261120-093000-0a1b2c"),
        ("push x --compression gz", "push x --compression gzip"),
        ("run x y.py -- my-", "run x y.py -- my-script.py"),
    ],
)
def test_tab_completes(typed: str, called: str, shell: Shell) -> None:
    shell.type(f"dlc {typed}\t\n")
    shell.await_text(rf"<{re.escape(called)} ?>")


def test_words_that_a_verb_can_become_are_listed_in_zsh_and_fish_with_what_they_do(shell: Shell) -> None:
    """Bash lists words alone, at the second Tab."""
    shell.type("dlc p\t\t")
    shown = shell.await_text(r"(?s)\bplan\b.*\bpush\b")
    # Fish takes the first of them at one Enter, and runs it at the next.
    shell.type("\n\n")
    shell.await_text(r"<p\w* ?>")
    if shell.name != "bash":
        assert re.search(r"\bplan +(--|\() ?show what", shown), shown
