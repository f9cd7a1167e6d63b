"""Carries whole lines of ranks through mpirun, which cuts its input at every 4 KiB.

A rank's parent writes packets to the pipe that mpirun gave it for stderr: mpirun reads each of them by itself
(O_DIRECT, pipe(7)), whole lines of at most 4 KiB. For stdout mpirun gives it a terminal, which knows no packets; so
lines of stdout go the same way, marked, and a longer line goes in marked parts. The launcher puts all together again.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from itertools import groupby

from launch.supervision.output import LONGEST_LINE, PIPE_BUF, Sink, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from launch.supervision.event_log import ProcessLog
    from launch.supervision.output import Console


# A marked line: the mark, the stream, whether it is a whole line or a part, the rank, a blank, the text. A user's line
# never begins with the mark, because its prefix comes first. mpirun may add to the front: `[1,3]<stderr>:` with
# --tag-output.
_MARK = b"\x1e"
_STDOUT, _STDERR = b"1", b"2"
_WHOLE, _PART, _LAST_PART = b".", b"+", b"="
_STDOUT_LINE = _MARK + _STDOUT + _WHOLE + b" "
_MARKED = re.compile(rb"((?:[^\x1e\n]*<std[a-z]*>: ?)?)\x1e([12])([.+=])([^ \n]*) (.*\n)")
_LONGEST_RANK_BYTES = 300
# Of a line that is put together
_LONGEST_HELD = 4 * LONGEST_LINE


def use_frames(console: Console, rank: str) -> None:
    """Have the console of a rank's parent below mpirun write packets, if its stderr is a pipe that can."""
    if _can_take_packets(2):
        console.stdout = FramedSink(2, rank, _STDOUT)
        console.stderr = FramedSink(2, rank, _STDERR)


def _can_take_packets(fd: int) -> bool:
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:  # Linux before 4.5, and kernels that only look like Linux
        return False
    return True


class FramedSink(Sink):
    """Takes whole lines and writes as many at once as fit into a packet."""

    def __init__(self, fd: int, rank: str, stream: bytes) -> None:
        super().__init__(fd)
        self._rank = rank.encode("utf-8", "surrogateescape")[:_LONGEST_RANK_BYTES]
        self._stream = stream
        self._mark = _STDOUT_LINE if stream == _STDOUT else b""

    def write(self, data: bytes) -> None:
        """Queue whole lines."""
        lines = data[:-1].split(b"\n")
        room = PIPE_BUF - len(self._mark) - 1
        if max(map(len, lines)) > room:
            fitting = [self._parts(line) if len(line) > room else [self._mark + line] for line in lines]
            super().write(b"".join(part + b"\n" for parts in fitting for part in parts))
        elif self._mark:
            super().write(self._mark + (b"\n" + self._mark).join(lines) + b"\n")
        else:
            super().write(data)

    def _parts(self, line: bytes) -> list[bytes]:
        heads = [_MARK + self._stream + kind + self._rank + b" " for kind in (_PART, _LAST_PART)]
        room = PIPE_BUF - len(heads[0]) - 1
        last = (len(line) - 1) // room * room
        return [heads[at == last] + line[at : at + room] for at in range(0, len(line), room)]


class FramedStream(Stream):
    """mpirun's stderr, with its ranks' packets: what is stdout's goes to `stdout`, parts become lines."""

    def __init__(self, fd: int, sink: Sink, prefix: bytes, log: ProcessLog | None, stdout: Stream) -> None:
        super().__init__(fd, sink, prefix, log)
        self._stdout = stdout
        self._has_marks = False
        # The beginning of a line
        self._held = b""
        # (stream, rank) -> the beginning of a long line
        self._parts: dict[tuple[bytes, bytes], bytes] = {}

    @property
    def is_stalled(self) -> bool:
        """Return whether a reader is too far behind."""
        return super().is_stalled or self._stdout.is_stalled

    def take(self, data: bytes) -> None:
        """Sort what was read."""
        self._has_marks = self._has_marks or _MARK in data
        if not self._has_marks:
            super().take(data)
            return
        whole, newline, self._held = (self._held + data).rpartition(b"\n")
        self._sort(whole + newline)
        if len(self._held) > _LONGEST_HELD:
            self._sort(self._held + b"\n")
            self._held = b""

    def close(self) -> None:
        """End of the stream: what was not brought to its end is shown as it is."""
        self._sort(self._held + b"\n" if self._held else b"")
        for (stream, _), line in self._parts.items():
            self._deliver(stream, line + b"\n")
        self._held, self._parts = b"", {}
        super().close()

    def _sort(self, lines: bytes) -> None:
        marks, begun = lines.count(_MARK), lines.count(b"\n" + _STDOUT_LINE) + lines.startswith(_STDOUT_LINE)
        # Nothing but whole lines of stdout: no need to look at each
        if marks == begun == lines.count(b"\n"):
            self._deliver(_STDOUT, lines.replace(b"\n" + _STDOUT_LINE, b"\n")[len(_STDOUT_LINE) :])
            return
        for stream, group in groupby(self._lines(lines), key=lambda line: line[0]):
            self._deliver(stream, b"".join(text for _, text in group))

    def _deliver(self, stream: bytes, text: bytes) -> None:
        if stream == _STDOUT:
            self._stdout.take(text)
        else:
            super().take(text)

    def _lines(self, lines: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield stream and line, without marks; parts that are not the last are kept for later."""
        # splitlines() would split at a carriage return too
        for line in lines.split(b"\n")[:-1]:
            yield from self._unmarked(line + b"\n")

    def _unmarked(self, line: bytes) -> Iterator[tuple[bytes, bytes]]:
        match = _MARKED.fullmatch(line) if _MARK in line else None
        if not match:
            yield _STDERR, line
            return
        tag, stream, kind, rank, text = match.groups()
        tag = tag.replace(b"<stderr>", b"<stdout>") if stream == _STDOUT else tag
        if kind == _WHOLE:
            yield stream, tag + text
            return
        begun = self._parts.pop((stream, rank), b"")
        if kind == _LAST_PART or len(begun) > _LONGEST_HELD:
            yield stream, begun + text
        else:
            self._parts[stream, rank] = (begun or tag) + text[:-1]
