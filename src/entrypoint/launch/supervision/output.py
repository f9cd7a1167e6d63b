"""The processes' output on its way out: prefixed lines if there are several, byte-exact if there is one."""

from __future__ import annotations

import math
import os
import re
import select
import stat
import time

from launch import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launch.supervision.event_log import ProcessLog

# A pipe's default capacity
READ_SIZE = 1 << 16
# A longer line is shown as several lines: it cannot fill the memory
LONGEST_LINE = 1 << 16
# Kept of each stream for the failure report
TAIL_SIZE = 1 << 15
# With more than this unwritten nothing more is read: the writers wait, as without us
BACKLOG = 1 << 20
# A pipe that polls as writable takes this much without blocking (pipe(7))
PIPE_BUF = 4096
# While lines trickle in: one turn for many lines
PAUSE_SECONDS = 0.02
# Between two states of a progress bar that are shown
REDRAW_SECONDS = 1.0
# The most that a pipe can hold without privilege
MOST_HELD = 1 << 20
# A reader took nothing for so long: after a stop nobody waits for it
STALLED_SECONDS = 5.0

# A carriage return redraws a line on a terminal. In a log a drawing becomes a line of its own; drawings beside a
# newline draw nothing.
_REDRAW = re.compile(rb"\r*\n\r*|\r+")


class Sink:
    """Where output goes (our stdout or stderr). Never blocks: a reader that stalls must not keep us from a SIGTERM."""

    def __init__(self, fd: int, lock: int = -1) -> None:
        """`lock`: a descriptor for flock() that all who write lines to the same pipe share, if there are several."""
        self.fd = fd
        self.pending = bytearray()
        self._lock = lock
        self._chunk = (1 << 20) if stat.S_ISREG(os.fstat(fd).st_mode) else PIPE_BUF
        self._broken = False
        self._writable = select.poll()
        self._writable.register(fd, select.POLLOUT)

    def write(self, data: bytes) -> None:
        """Queue bytes; `flush` moves them on."""
        if not self._broken:
            self.pending += data

    def flush(self) -> None:
        """Write what the reader takes now. A reader that is gone loses output, it does not end the training."""
        try:
            while self.pending and self._writable.poll(0):
                size = self._whole_lines()
                written = self._write_alone(size) if self._lock >= 0 else os.write(self.fd, self.pending[:size])
                del self.pending[:written]
        except BlockingIOError:
            return
        except OSError:
            self._broken = True
            self.pending.clear()

    def _whole_lines(self) -> int:
        """Return how much to write at once: whole lines, so that no other line comes between two halves of one.

        A line of at most PIPE_BUF goes into a pipe in one piece; a longer line has to be written alone.
        """
        if len(self.pending) <= self._chunk:
            return len(self.pending)
        whole = self.pending.rfind(b"\n", 0, self._chunk) + 1
        return whole or (self.pending.find(b"\n") + 1 if self._lock >= 0 else self._chunk)

    def _write_alone(self, size: int) -> int:
        """Write all of it while the others wait: they are parents of ranks, and these would wait for the reader too."""
        # Only they have a lock
        import fcntl

        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            left = memoryview(bytes(self.pending[:size]))
            while left:
                self._writable.poll()
                left = left[os.write(self.fd, left[:PIPE_BUF]) :]
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return size


class Stream:
    """One output stream of one process: read end of its pipe, its prefix (may be empty), its last bytes."""

    def __init__(self, fd: int, sink: Sink, prefix: bytes = b"", log: ProcessLog | None = None) -> None:
        self.fd = fd
        self.sink = sink
        self._log = log
        # When a state of a progress bar was shown last
        self._redrawn_at = 0.0
        # Its newest state since then
        self._hidden = b""
        self.tail = b""
        # A copy of what is read, while somebody wants it
        self.captured: bytearray | None = None
        self._prefix = prefix
        self._partial = b""
        self._held_return = False
        os.set_blocking(fd, False)

    def read(self) -> int:
        """Move what is there, at most READ_SIZE bytes, to the sink. Returns its size, 0 for none, -1 at the end."""
        try:
            data = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return 0
        if not data:
            return -1
        self.take(data)
        return len(data)

    @property
    def is_stalled(self) -> bool:
        """Return whether the reader is so far behind that nothing more is to be read."""
        return len(self.sink.pending) >= BACKLOG

    def take(self, data: bytes) -> None:
        """Keep, and pass on, what was read."""
        self.tail = (self.tail + data)[-TAIL_SIZE:]
        if self._log:
            self._log.write(data)
        if self.captured is not None:
            self.captured += data
        if self._prefix:
            self._feed(data)
        else:
            self.sink.write(data)

    def last_lines(self, number: int) -> tuple[str, ...]:
        """Return the last lines that say something, at most `number`."""
        text = self.tail.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        return tuple(line for line in text.split("\n") if line.strip())[-number:]

    def close(self) -> None:
        """End the stream: a last line without newline gets a newline, or it would swallow another rank's prefix."""
        last = self._partial or self._hidden
        if last:
            self._emit(last + b"\n")
        self._partial = self._hidden = b""
        if self._log:
            self._log.close()
        os.close(self.fd)

    def _feed(self, data: bytes) -> None:
        if self._redrawn_at or self._held_return or b"\r" in data:
            data = self._thin_out(data)
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            self._emit(self._partial + whole + newline)
            self._partial = rest
        else:
            self._partial += data
        while len(self._partial) >= LONGEST_LINE:
            self._emit(self._partial[:LONGEST_LINE] + b"\n")
            self._partial = self._partial[LONGEST_LINE:]

    def _thin_out(self, data: bytes) -> bytes:
        """Return the data with line ends alone: of a progress bar's states one a second, and the last.

        A carriage return at the very end is held until it is known what follows it.
        """
        text = self._partial + (b"\r" if self._held_return else b"") + data
        self._held_return = text.endswith(b"\r")
        text = text[:-1] if self._held_return else text
        self._partial = b""
        lines, start = [], 0
        for match in _REDRAW.finditer(text):
            line, start = text[start : match.start()], match.end()
            if b"\n" in match.group() or (line and time.monotonic() - self._redrawn_at >= REDRAW_SECONDS):
                self._redrawn_at = 0.0 if b"\n" in match.group() else time.monotonic()
                self._hidden = b""
                lines.append(line + b"\n")
            else:
                self._hidden = line or self._hidden
        return b"".join(lines) + text[start:]

    def _emit(self, lines: bytes) -> None:
        """Queue whole lines, each with the prefix."""
        self.sink.write(self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n")


class Console:
    """All streams, their sinks, and descriptors that only wake us up, behind one poll()."""

    def __init__(self, wake_fds: list[int], lock: int = -1) -> None:
        self.bytes_read = 0
        self.stdout = Sink(1, lock)
        # With `2>&1` one queue keeps lines whole and in order.
        self.stderr = self.stdout if os.path.samestat(os.fstat(1), os.fstat(2)) else Sink(2, lock)
        self._streams: dict[int, Stream] = {}
        self._wake_fds = wake_fds
        self._trickling = False
        self._capturing: list[Stream] = []

    def add(self, stream: Stream) -> None:
        """Carry this stream from now on; it is closed at its end."""
        self._streams[stream.fd] = stream

    @property
    def is_open(self) -> bool:
        """Return whether any stream has not come to its end."""
        return bool(self._streams)

    def turn(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for output or a wake-up, and carry what there is one step further."""
        if self._trickling:
            _poll(self._wake_fds, [], min(timeout, PAUSE_SECONDS))
        readable = [fd for fd, stream in self._streams.items() if not stream.is_stalled]
        writable = [sink.fd for sink in (self.stdout, self.stderr) if sink.pending]
        largest = 0
        for fd in _poll(readable + self._wake_fds, writable, timeout):
            if fd in self._streams:
                largest = max(largest, self._advance(self._streams[fd]))
        self._trickling = 0 < largest < READ_SIZE // 2
        self.flush()

    def drain(self, streams: list[Stream]) -> None:
        """Take what these streams hold right now: what a process wrote before it ended is known after this."""
        for stream in streams:
            # Bounded: a relative that lives on may write for ever
            for _ in range(1 + MOST_HELD // READ_SIZE):
                if stream.fd not in self._streams or self._advance(stream) <= 0:
                    break
            self.flush()

    def finish(self, timeout: float) -> None:
        """Carry the rest out, waiting at most `timeout` seconds for a slow reader."""
        streams = list(self._streams.values())
        self.drain(streams)
        for stream in streams:
            if stream.fd in self._streams:
                self._close(stream)
        self.flush_all(timeout)

    def flush_all(self, timeout: float, is_short: Callable[[], object] = signals.received) -> None:
        """Write what is queued, for `timeout` seconds; if time `is_short`, for STALLED_SECONDS without a reader."""
        taken_at, size = time.monotonic(), -1
        deadline = taken_at + timeout
        while self.stdout.pending or self.stderr.pending:
            now = time.monotonic()
            if now >= deadline or (now - taken_at >= STALLED_SECONDS and is_short()):
                return
            wait = min(deadline - now, STALLED_SECONDS)
            _poll([], [sink.fd for sink in (self.stdout, self.stderr) if sink.pending], wait)
            self.flush()
            if (left := len(self.stdout.pending) + len(self.stderr.pending)) != size:
                taken_at, size = time.monotonic(), left

    def begin_capture(self) -> None:
        """Keep a copy of everything that is read from now on."""
        # Some of them end meanwhile
        self._capturing = list(self._streams.values())
        for stream in self._capturing:
            stream.captured = bytearray()

    def end_capture(self) -> bytes:
        """Return the copies, one stream after the other."""
        copies = b"".join(stream.captured or b"" for stream in self._capturing)
        for stream in self._capturing:
            stream.captured = None
        return copies

    def flush(self) -> None:
        """Write what the readers of our stdout and stderr take now."""
        self.stdout.flush()
        self.stderr.flush()

    def _advance(self, stream: Stream) -> int:
        size = stream.read()
        if size < 0:
            self._close(stream)
        self.bytes_read += max(0, size)
        return size

    def _close(self, stream: Stream) -> None:
        del self._streams[stream.fd]
        stream.close()


def _poll(readable: list[int], writable: list[int], timeout: float) -> list[int]:
    """Return descriptors that are ready (or broken, which a read or write then finds out) within `timeout` seconds."""
    poll = select.poll()
    for fd in readable:
        poll.register(fd, select.POLLIN)
    for fd in writable:
        poll.register(fd, select.POLLOUT)
    return [fd for fd, _ in poll.poll(max(0, math.ceil(timeout * 1000)))]
