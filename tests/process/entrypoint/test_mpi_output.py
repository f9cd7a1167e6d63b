"""mpi_output: lines of ranks pass whole through a program that reads 4 KiB at a time, as mpirun does."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from supervised import Run, Script, run

from launch.base import process_spec
from launch.supervision.mpi_output import FramedSink, FramedStream
from launch.supervision.output import LONGEST_LINE, PIPE_BUF, Sink, Stream

# What Open MPI 4 and 5 do with their ranks' output: a terminal for stdout, a pipe for stderr, 4,096 bytes at a time of
# whichever is readable, written as they are.
MPIRUN = """
import os, pty, select, subprocess, sys, tty
number, own_streams, *command = sys.argv[1:]
sinks, ranks = {}, []
for rank in range(int(number)):
    reads, writes = [], []
    for fd in (1, 2):
        kind = pty.openpty if fd == 1 and own_streams == "terminal" else os.pipe
        read_end, write_end = kind()
        if kind is pty.openpty:
            tty.setraw(write_end)
        sinks[read_end] = fd
        writes.append(write_end)
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}
    ranks.append(subprocess.Popen(command, env=env, stdout=writes[0], stderr=writes[1]))
    for fd in writes:
        os.close(fd)
while sinks:
    for fd in select.select(list(sinks), [], [])[0]:
        try:
            data = os.read(fd, 4096)
        except OSError:  # a terminal's other end is closed
            data = b""
        if not data:
            os.close(fd)
            sinks.pop(fd)
        else:
            tag = os.environ.get("TAG", "").replace("FD", "out" if sinks.get(fd) == 1 else "err").encode()
            data = data.replace(b"\\n", b"\\n" + tag).removesuffix(tag) if tag else data
            while data:
                data = data[os.write(sinks[fd], tag + data if tag else data) - len(tag):]
sys.exit(max(rank.wait() for rank in ranks))
"""
RANK = """
import os, random, sys
rank, lines = os.environ["OMPI_COMM_WORLD_RANK"], int(sys.argv[1])
numbers = random.Random(rank)
for number in range(lines):
    size = numbers.randrange(4000, 65000) if number % 500 == 499 else numbers.randrange(150)
    print(rank, number, rank * size, file=sys.stdout if number % 3 else sys.stderr)
"""
LINE = re.compile(rb"\[(algo-1):(\d+)\] (\d+) (\d+) (\d*)")


def mpirun(folder: Path, source: str, *arguments: str, ranks: int = 8, streams: str = "terminal", tag: str = "") -> Run:
    """A supervised program that stands for mpirun, with ranks below our own parents of ranks."""
    host = folder / "rank_environment.json"
    host.write_text(json.dumps({"CURRENT_HOST": "algo-1", "PATH": os.environ["PATH"], "TAG": tag}))
    (folder / "mpirun").write_text(MPIRUN)
    rank = (sys.executable, "-I", "-S", process_spec.program_path("mpi_rank"), str(host))
    user = (sys.executable, "-I", "-S", "-c", source, *arguments)
    argv = (sys.executable, str(folder / "mpirun"), str(ranks), streams, *rank, *user)
    before = f"specs[0].env['TAG'] = {tag!r}"
    return run(folder, Script("", role="mpirun", argv=argv), before=before)


@pytest.mark.parametrize("streams", ["terminal", "pipe"])
def test_ranks_flooding_through_mpirun_lose_no_line_and_mix_no_lines(tmp_path: Path, streams: str) -> None:
    lines = 3000
    done = mpirun(tmp_path, RANK, str(lines), streams=streams)
    assert done.exit_code == 0, done.stderr[-2000:]
    for text, share in ((done.stdout, lines * 2 // 3), (done.stderr, lines // 3)):
        seen: Counter[bytes] = Counter()
        last: dict[bytes, int] = {}
        for line in text.splitlines():
            match = LINE.fullmatch(line)
            assert match, line[:200]
            _, rank, said, number, rest = match.groups()
            assert rank == said
            assert rest.strip(rank) == b""
            assert int(number) > last.get(rank, -1), "lines of one rank stay in order"
            last[rank] = int(number)
            seen[rank] += 1
        assert seen == {str(rank).encode(): share for rank in range(8)}


def test_a_failed_ranks_own_words_stay_on_stderr(tmp_path: Path) -> None:
    source = "import sys; print('much output ' * 1000); print('ValueError: no', file=sys.stderr); sys.exit(3)"
    done = mpirun(tmp_path, source, ranks=1)
    assert done.exit_code == 3
    assert b"ValueError" not in done.stdout
    assert done.stderr.startswith(b"[algo-1:0] ValueError: no\n")
    assert b"\x1e" not in done.stdout + done.stderr
    assert list(done.failure["last_lines"]) == ["[algo-1:0] ValueError: no"]


def test_mpiruns_own_tags_stay_before_the_line_and_name_its_stream(tmp_path: Path) -> None:
    done = mpirun(tmp_path, "print('x'); print('y' * 5000)", ranks=1, tag="[1,0]<stdFD>:")
    assert done.stdout == b"[1,0]<stdout>:[algo-1:0] x\n[1,0]<stdout>:[algo-1:0] " + b"y" * 5000 + b"\n"


def test_what_looks_like_a_mark_in_a_users_line_is_text(tmp_path: Path) -> None:
    source = r"import sys; sys.stderr.write('\x1e1. x\na\x1e1=algo-1:0 x\n'); print('\x1e2. y')"
    done = mpirun(tmp_path, source, ranks=1)
    assert done.stderr == b"[algo-1:0] \x1e1. x\n[algo-1:0] a\x1e1=algo-1:0 x\n"
    assert done.stdout == b"[algo-1:0] \x1e2. y\n"


def through(lines: bytes, cuts: list[int], is_stdout: bool) -> tuple[bytes, bytes]:
    """(stdout, stderr) of lines written by a rank and read by the launcher in pieces of these sizes."""
    out_read, out_write = os.pipe()
    with open(os.devnull, "wb") as nowhere:
        writer = FramedSink(nowhere.fileno(), "algo-1:3", b"1" if is_stdout else b"2")
        writer.write(lines)
        assert all(len(line) < PIPE_BUF for line in bytes(writer.pending).split(b"\n"))
        sent = bytes(writer.pending)
        sinks = Sink(nowhere.fileno()), Sink(nowhere.fileno())
        stdout = Stream(out_read, sinks[0])
        stream = FramedStream(os.dup(out_read), sinks[1], b"", None, stdout)
        for size in (*cuts, len(sent)):
            stream.take(sent[:size])
            sent = sent[size:]
        stream.close()
        stdout.close()
        os.close(out_write)
        return bytes(sinks[0].pending), bytes(sinks[1].pending)


TEXTS = st.binary(max_size=40) | st.integers(4000, LONGEST_LINE).map(lambda size: b"x\r" * (size // 2))


@given(st.lists(TEXTS, min_size=1), st.lists(st.integers(1, 5000)), st.booleans())
def test_every_byte_arrives_on_its_stream_however_it_is_cut(
    texts: list[bytes], cuts: list[int], is_stdout: bool
) -> None:
    lines = b"".join(b"[algo-1:3] " + line + b"\n" for text in texts for line in text.split(b"\n"))
    assert through(lines, cuts, is_stdout) == ((lines, b"") if is_stdout else (b"", lines))


def test_the_beginning_of_a_long_line_whose_rank_was_killed_is_shown() -> None:
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as nowhere:
        sink = Sink(nowhere.fileno())
        stream = FramedStream(read_end, sink, b"", None, Stream(os.dup(read_end), sink))
        stream.take(b"\x1e2+algo-1:3 [algo-1:3] begun\nwords of mpirun")
        stream.close()
        os.close(write_end)
        assert bytes(sink.pending) == b"words of mpirun\n[algo-1:3] begun\n"
