"""What matters of a failed process's last lines: the error of its last traceback and where in the user's code that was.

A cause is easily buried: an array of 2,000 characters in the message, lines of `^^^^`, a hundred lines that a library
logs while it goes down.
"""

from __future__ import annotations

import re

LONGEST_ERROR = 300  # characters that are shown of one line; both of its ends, for either may be the telling one
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line \d+(, in .*)?')
_RANK = re.compile(r"\[rank\d+\]: ?")  # PyTorch's, before each line of a traceback
_MARKS = re.compile(r"\s*[~^]+\s*")  # Python 3.11 and later mark the expression
_CHATTER = re.compile(
    r"[IWEF]\d{4} \d\d:\d\d:\d\d"  # absl, glog and torch's own logs
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "  # TensorFlow
    r"|WARNING: All log messages before absl::InitializeLog"
)
# Of a program that started the one that failed, whose own traceback is above.
_STARTER = re.compile(r"torch\.distributed\.elastic\..*ChildFailedError|subprocess\.CalledProcessError")
_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "<frozen ", "<string>")


def telling(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The frame in the user's code and the error line of the last traceback; () where there is none.

    That of a program that only started the one that failed counts where there is no other.
    """
    lines = tuple(_RANK.sub("", line) for line in lines)
    starts = [number for number, line in enumerate(lines) if line.strip().endswith(_TRACEBACK)]
    found = [_told(lines[start + 1 : end]) for start, end in zip(starts, [*starts[1:], len(lines)])]
    told = [each for each in found if each]
    own = [each for each in told if not _STARTER.match(each[-1])]
    return (own or told or [()])[-1]


def most_telling(error: tuple[str, ...], lines: tuple[str, ...]) -> tuple[str, ...]:
    """The `error` where it is known, else what the last lines say of it; without a traceback the last of them."""
    return error or telling(lines) or tuple(map(shortened, lines[-1:]))


def end_of(text: str, room: int) -> str:
    """The last whole lines that fit into so many characters; of a line that is longer than that its end."""
    cut = text[-room:]
    whole = cut if len(text) <= room or text[-room - 1] == "\n" else cut.partition("\n")[2]
    return whole or cut


def _told(body: tuple[str, ...]) -> tuple[str, ...]:
    """The same of the lines below one traceback's head."""
    frames = [number for number, line in enumerate(body) if _FRAME.fullmatch(line)]
    own = [number for number in frames if not any(part in body[number] for part in _LIBRARY)]
    last_frame = frames[-1] if frames else -1
    error = next((line for line in body[last_frame + 1 :] if line and not line[0].isspace()), "")
    if not error:
        return ()
    frame = _frame_lines(body, (own or frames)[-1]) if frames else ()
    return (*frame, shortened(error))


def without_noise(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines without marks below code and without what libraries log; all of them where nothing else is left."""
    kept = tuple(line for line in lines if not _MARKS.fullmatch(line) and not _CHATTER.match(line))
    return kept or lines


def shortened(line: str) -> str:
    """A long line's two ends."""
    if len(line) <= LONGEST_ERROR:
        return line
    half = LONGEST_ERROR // 2
    return f"{line[:half]} ... {line[-half:]}"


def _frame_lines(body: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The frame and the source line that follows it."""
    following = body[number + 1 : number + 2]
    source = tuple(line for line in following if line[:1].isspace() and not _FRAME.fullmatch(line))
    return tuple(shortened(line) for line in (body[number], *source))
