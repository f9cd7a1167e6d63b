"""output of processes that run: passed through byte for byte, no line lost, and no reader holds the end up."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from supervised import Script, run, start, wait_for


def test_one_process_is_passed_through_byte_for_byte(tmp_path: Path) -> None:
    source = """
import os, random
data = random.Random(1).randbytes(3_000_000)
while data:
    data = data[os.write(1, data[:70_000]):]
os.write(2, b'\\xff\\r 10%\\r\\n no end')
"""
    done = run(tmp_path, source)
    assert done.stdout == random.Random(1).randbytes(3_000_000)
    assert done.stderr == b"\xff\r 10%\r\n no end"


def test_64_ranks_flooding_lose_no_line_and_mix_no_lines(tmp_path: Path) -> None:
    lines = 2000
    source = f"""
import os, sys
text = ''.join('%s line %d %s\\n' % (sys.argv[1], n, 'x' * 60) for n in range({lines})).encode()
for at in range(0, len(text), 1777):  # cuts lines anywhere
    os.write(1, text[at:at + 1777])
"""
    argv = (sys.executable, "-I", "-S", "-c", source)
    done = run(tmp_path, *(Script("", rank=rank, argv=(*argv, str(rank))) for rank in range(64)))
    assert done.exit_code == 0
    line = re.compile(rb"\[algo-1:(\d+)\] (\d+) line (\d+) x{60}")
    seen: dict[int, int] = Counter()
    for text in done.stdout.splitlines():
        match = line.fullmatch(text)
        assert match, text
        rank, said, number = map(int, match.groups())
        assert rank == said
        assert number == seen[rank], "lines of one rank stay in order"
        seen[rank] += 1
    assert seen == dict.fromkeys(range(64), lines)


def test_output_written_just_before_the_end_is_there(tmp_path: Path) -> None:
    source = "import os; os.write(1, b'x' * 65536); os.write(2, b'last words'); os.kill(os.getpid(), 9)"
    done = run(tmp_path, source)
    assert len(done.stdout) == 65536
    assert done.failure["last_lines"] == ["last words"]


def test_a_reader_that_never_reads_does_not_hold_the_end_up(tmp_path: Path) -> None:
    source = "import os, pathlib\npathlib.Path('ready').touch()\nwhile True: os.write(1, b'flood' * 1000)"
    running = start(
        tmp_path, source, before="from launch.supervision import supervisor; supervisor.OUTPUT_SECONDS = 0.2"
    )
    wait_for(tmp_path / "ready")
    running.process.send_signal(signal.SIGTERM)
    wait_for(tmp_path / "result.json")
    assert running.finish().exit_code == 128 + signal.SIGTERM


def test_a_reader_that_is_slow_gets_every_line_however_long_it_takes(tmp_path: Path) -> None:
    """It takes many times as long as a reader has that takes nothing."""
    source = "import os\nfor number in range(20000): os.write(1, b'%099d\\n' % number)"
    before = "from launch.supervision import output; output.STALLED_SECONDS = 0.2"
    running = start(tmp_path, source, before=before)
    output, seen = running.process.stdout, b""
    assert output
    while data := os.read(output.fileno(), 1 << 16):
        seen += data
        time.sleep(0.05)
    assert running.finish().exit_code == 0
    assert seen.split() == [b"%099d" % number for number in range(20000)]


def test_a_reader_that_stands_still_at_the_end_gets_every_line(tmp_path: Path) -> None:
    """An engine that waits for its disk; only a stop leaves no time for it."""
    source = "import os\nfor number in range(5000): os.write(1, b'%099d\\n' % number)"
    running = start(tmp_path, source, before="from launch.supervision import output; output.STALLED_SECONDS = 0.1")
    time.sleep(2)
    done = running.finish()
    assert done.exit_code == 0
    assert done.stdout.split() == [b"%099d" % number for number in range(5000)]
