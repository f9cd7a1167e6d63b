"""output: bytes are carried exactly, lines are prefixed whole, nothing is lost and nothing blocks."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from launch.supervision import output
from launch.supervision.output import LONGEST_LINE, TAIL_SIZE, Console, Sink, Stream

PREFIX = b"[algo-1:3] "


def carried(chunks: list[bytes], prefix: bytes = PREFIX) -> bytes:
    """What comes out of one stream that was written in these chunks, each read on its own."""
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as nowhere:
        sink = Sink(nowhere.fileno())
        stream = Stream(read_end, sink, prefix)
        for chunk in filter(None, chunks):
            for start_at in range(0, len(chunk), 1 << 15):
                os.write(write_end, chunk[start_at : start_at + (1 << 15)])
                stream.read()
        os.close(write_end)
        assert stream.read() == -1
        stream.close()
        return bytes(sink.pending)


@given(st.lists(st.binary(max_size=200)))
def test_without_a_prefix_every_byte_passes_in_order(chunks: list[bytes]) -> None:
    assert carried(chunks, prefix=b"") == b"".join(chunks)


@given(st.lists(st.binary(max_size=60)))
@example([b"1%\r2%", b"\n", b"1%\r2%"])
def test_lines_are_the_same_however_they_are_cut_into_writes(chunks: list[bytes]) -> None:
    assert carried(chunks) == carried([b"".join(chunks)])


@given(st.lists(st.binary(max_size=60)))
def test_every_line_has_the_prefix_and_no_byte_is_lost(chunks: list[bytes]) -> None:
    sent = b"".join(chunks).replace(b"\r", b"")
    lines = carried([sent]).split(b"\n")
    assert lines.pop() == b""
    assert all(line.startswith(PREFIX) for line in lines)
    ended = sent if sent.endswith(b"\n") or not sent else sent + b"\n"
    assert b"".join(line[len(PREFIX) :] + b"\n" for line in lines) == ended


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b" 50%"])))
def test_only_carriage_returns_and_blank_lines_around_them_are_changed(chunks: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "REDRAW_SECONDS", 0.0)
        shown = carried(chunks).replace(PREFIX, b"")
    assert re.sub(rb"[\r\n]", b"", shown) == re.sub(rb"[\r\n]", b"", b"".join(chunks))
    assert b"\r" not in shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ([b"\r  0%\r 50%\r100%\n"], [b"  0%", b"100%"]),
        ([b"\r  0%\r 50%\r 90%\r"], [b"  0%", b" 90%"]),
        ([b"\r  0%", b"\r 50%", b"\r", b"\ndone\n"], [b"  0%", b" 50%", b"done"]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"a\r", b"\nb"], [b"a", b"b"]),
        ([b"a\n\nb\n"], [b"a", b"", b"b"]),
        ([b"epoch 1\n\r  0%\r100%\n"], [b"epoch 1", b"  0%", b"100%"]),
        ([b"no newline"], [b"no newline"]),
        ([b"\xff\xfe\n"], [b"\xff\xfe"]),
    ],
)
def test_progress_bars_become_readable_lines(written: list[bytes], shown: list[bytes]) -> None:
    assert carried(written) == b"".join(PREFIX + line + b"\n" for line in shown)


def test_a_huge_line_is_bounded_in_memory_and_not_lost() -> None:
    line = random.Random(0).randbytes(5 * LONGEST_LINE + 17).replace(b"\n", b"x").replace(b"\r", b"y")
    pieces = carried([line + b"\n"]).split(b"\n")[:-1]
    assert all(len(piece) <= LONGEST_LINE + len(PREFIX) for piece in pieces)
    assert b"".join(piece.removeprefix(PREFIX) for piece in pieces) == line


def test_the_tail_keeps_the_last_bytes_only() -> None:
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as nowhere:
        stream = Stream(read_end, Sink(nowhere.fileno()))
        for number in range(9000):
            os.write(write_end, b"%d\n" % number)
            stream.read()
        assert stream.tail.endswith(b"\n8998\n8999\n")
        assert len(stream.tail) == TAIL_SIZE
        os.close(write_end)
        stream.close()


def test_a_sink_whose_reader_stalls_does_not_block_and_loses_nothing() -> None:
    read_end, write_end = os.pipe()
    sink = Sink(write_end)
    sent = os.urandom(300_000)
    sink.write(sent)
    sink.flush()
    assert sink.pending
    got = b""
    while len(got) < len(sent):
        got += os.read(read_end, 1 << 16)
        sink.flush()
    assert got == sent
    os.close(read_end)
    os.close(write_end)


def test_a_sink_whose_reader_is_gone_lets_the_training_go_on() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    sink = Sink(write_end)
    sink.write(b"lost")
    sink.flush()
    sink.write(b"lost too")
    assert not sink.pending
    os.close(write_end)


def test_stdout_and_stderr_into_one_pipe_share_one_queue(tmp_path: Path) -> None:
    saved = os.dup(1), os.dup(2)
    try:
        with (tmp_path / "log").open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            console = Console([])
    finally:
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        os.close(saved[0])
        os.close(saved[1])
    assert console.stdout is console.stderr


@pytest.mark.parametrize(("is_short", "waits"), [(True, False), (False, True)])
def test_only_where_time_is_short_a_reader_that_takes_nothing_is_left(
    is_short: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "STALLED_SECONDS", 0.05)
    read_end, write_end = os.pipe()
    console = Console([])
    console.stdout = console.stderr = Sink(write_end)
    console.stdout.write(b"x" * 300_000)
    began = time.monotonic()
    console.flush_all(0.5, lambda: is_short)
    assert (time.monotonic() - began >= 0.5) == waits
    os.close(read_end)
    os.close(write_end)
