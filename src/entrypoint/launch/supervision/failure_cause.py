"""Which process failed first, and the lines that tell why. Loaded only by a failure, and by the parents of ranks.

A cause is easily buried: an array of 2,000 characters in the message, lines of `^^^^`, a hundred lines that a library
logs while it goes down. Below torchrun and mpirun the starter's closing report and the ranks' files say which rank
it was.
"""

from __future__ import annotations

import re
import signal
from itertools import takewhile

from launch.base.errors import UNAVAILABLE, Failure, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launch.supervision.rank_files import RankEnd


# Characters that are shown of a line; both of its ends, for each may be the end that tells the cause
LONGEST_ERROR = 300
_TRACEBACK = "Traceback (most recent call last):"
# Faulthandler writes it without the comma
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(,? in .*)?')
# Before each line of an ExceptionGroup, and the lines between its parts
_GROUP = "+ Exception Group Traceback (most recent call last):"
_MARGIN = re.compile(r" *(\| ?|\+ (?=Exception Group )|\+[-+]+( \d+ -+)?$)")
# Of the errors in an ExceptionGroup
MOST_ERRORS = 4
# Words that tell a crash: of faulthandler, and of C++ before it
_FATAL = "Fatal Python error: "
_WHAT = re.compile(r"\s*what\(\):\s+\S")
_THREAD = re.compile(r"(?P<is_current>Current t|T)hread 0x\w+ .*\(most recent call first\):")
# Lines between the C++ error and faulthandler's
FURTHEST_WHAT = 200
# PyTorch's, before each line of a traceback
_RANK = re.compile(r"\[rank\d+\]: ?")
# Python 3.11 and later mark the expression
_MARKS = re.compile(r"\s*[~^]+\s*")
_CHATTER = re.compile(
    # Absl, glog and torch's own logs
    r"[IWEF]\d{4} \d\d:\d\d:\d\d"
    # TensorFlow
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] "
    r"|WARNING: All log messages before absl::InitializeLog"
    # Faulthandler's last line
    r"|Extension modules: "
)
# The last line of a program that only started the failed one; the failed program's traceback is above.
_STARTER = re.compile(r"torch\.distributed\.elastic\..*ChildFailedError|subprocess\.CalledProcessError")
_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "<frozen ", "<string>")


def error_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the frame in the user's code and the error line of the last traceback; () if there is none.

    A crash after it counts too, and an ExceptionGroup, which has several errors. The traceback of a program that only
    started the failed one counts if there is no other.
    """
    lines = tuple(_RANK.sub("", line) for line in lines)
    last = max((number for number, line in enumerate(lines) if line.strip().endswith(_TRACEBACK)), default=-1)
    if crash := _lines_of_crash(lines, last + 1):
        return crash
    if group := _lines_of_group(lines):
        return group
    starts = [number for number, line in enumerate(lines) if line.strip().endswith(_TRACEBACK)]
    found = [_lines_of_traceback(lines[start + 1 : end]) for start, end in zip(starts, [*starts[1:], len(lines)])]
    told = [each for each in found if each]
    own = [each for each in told if not _STARTER.match(each[-1])]
    return (own or told or [()])[-1]


def user_frames(lines: tuple[str, ...]) -> list[str]:
    """Return `FILE:LINE` of the user's frames in the last traceback or crash, outermost first."""
    lines = tuple(_RANK.sub("", line) for line in lines)
    heads = [n for n, line in enumerate(lines) if line.strip().endswith(_TRACEBACK) or line.startswith(_FATAL)]
    start = heads[-1] if heads else len(lines)
    found = [match for match in map(_FRAME.fullmatch, lines[start:]) if match and _is_users(match["file"])]
    frames = list(dict.fromkeys(f"{match['file']}:{match['line']}" for match in found))
    return frames[::-1] if heads and lines[start].startswith(_FATAL) else frames


def _is_users(line: str) -> bool:
    return not any(part in line for part in _LIBRARY)


def _lines_of_crash(lines: tuple[str, ...], start: int) -> tuple[str, ...]:
    """Return the same of what faulthandler writes of a crash behind line `start`: innermost frame first, no source."""
    found = [number for number, line in enumerate(lines) if line.startswith(_FATAL) and number >= start]
    if not found:
        return ()
    before = [line.strip() for line in lines[max(0, found[-1] - FURTHEST_WHAT) : found[-1]] if _WHAT.match(line)]
    error = shorten(before[-1] if before else lines[found[-1]])
    frames: dict[bool, list[str]] = {True: [], False: []}
    is_current = False
    for line in lines[found[-1] :]:
        if thread := _THREAD.match(line):
            is_current = thread["is_current"] != "T"
        elif _FRAME.fullmatch(line) and _is_users(line):
            frames[is_current].append(shorten(line))
    return (*(frames[True] or frames[False])[:1], error)


def _lines_of_group(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the last frame in the user's code and the errors of an ExceptionGroup, if that is the last traceback."""
    heads = [number for number, line in enumerate(lines) if line.strip() == _GROUP and line.lstrip()[0] == "+"]
    if not heads:
        return ()
    marked = takewhile(lambda line: _MARGIN.match(line), lines[heads[-1] :])
    body = tuple(_MARGIN.sub("", line, count=1) for line in marked)
    if any(line.strip().endswith(_TRACEBACK) for line in lines[heads[-1] + len(body) :]):
        return ()
    own = [number for number, line in enumerate(body) if _FRAME.fullmatch(line) and _is_users(line)]
    errors = [line for line in body if line and not line[0].isspace() and not line.endswith(_TRACEBACK)]
    return (*(_frame_lines(body, own[-1]) if own else ()), *map(shorten, errors[:MOST_ERRORS]))


def most_telling_lines(error: tuple[str, ...], lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the `error` if it is known, else what the last lines say of it; without a traceback the last line."""
    return error or error_lines(lines) or tuple(map(shorten, lines[-1:]))


def last_whole_lines(text: str, room: int) -> str:
    """Return the last whole lines that fit into so many characters; of a longer line its end."""
    cut = text[-room:]
    whole = cut if len(text) <= room or text[-room - 1] == "\n" else cut.partition("\n")[2]
    return whole or cut


def _lines_of_traceback(body: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same of the lines below one traceback's head."""
    frames = [number for number, line in enumerate(body) if _FRAME.fullmatch(line)]
    own = [number for number in frames if _is_users(body[number])]
    last_frame = frames[-1] if frames else -1
    error = next((line for line in body[last_frame + 1 :] if line and not line[0].isspace()), "")
    if not error:
        return ()
    frame = _frame_lines(body, (own or frames)[-1]) if frames else ()
    return (*frame, shorten(error))


def without_noise(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines without marks below code and logs of libraries; all of them if nothing else is left."""
    kept = tuple(line for line in lines if not _MARKS.fullmatch(line) and not _CHATTER.match(line))
    return kept or lines


def shorten(line: str) -> str:
    """Return a long line's two ends."""
    if len(line) <= LONGEST_ERROR:
        return line
    half = LONGEST_ERROR // 2
    return f"{line[:half]} ... {line[-half:]}"


def _frame_lines(body: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Return the frame and the source line that follows it."""
    following = body[number + 1 : number + 2]
    source = tuple(line for line in following if line[:1].isspace() and not _FRAME.fullmatch(line))
    return tuple(shorten(line) for line in (body[number], *source))


LAST_LINES = 20
# Ranks
MOST_NAMED = 4

# These are compiled when they are first used: the parent of each rank loads this file for `telling` alone.
# torchrun exits with 1 whatever its ranks exit with.
_TORCHRUN = (
    r"(?s)Root Cause \(first observed failure\):.*?rank\s*: (?P<rank>\d+) \(local_rank: \d+\)"
    r".*?exitcode\s*: (?P<code>-?\d+) \(pid: \d+\)"
)
# Stopped, it exits with 1 as well, and this is all it says of the signal.
_STOPPED = r"stopped by (?P<name>SIG[A-Z]+)\b"
# The first line that torchrun (of today, and PyTorch 1.10) writes about an end: before it are the words of the ranks.
_TORCHRUN_OWN = r"(?m)^([EW]\d{4} [\d:.]+ \d+ torch/distributed/elastic/|(ERROR|WARNING):torch\.distributed\.elastic\.)"
_LINE = r"(?m)^\[([^\]]+):(\d+)\] (.*)$"
# SIGTERM, SIGKILL: with these a starter ends the remaining ranks
_ENDED_BY_OTHERS = (-15, -9)
# Open MPI 4 and 5
_MPIRUN_EXIT = r"Process name: \[(\[\d+,\d+\]|[^\s\]]+@\d+),(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"
# What mpirun's agent says of a host that could not be started, before 30 lines in which mpirun guesses at the reason.
_MPI_AGENT = r"(?m)^dlc: mpirun: (?P<why>.*)$"
_MPIRUN_SIGNAL = r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<signal>\d+)"
# It called MPI_Init and not MPI_Finalize, and its exit code was 0. mpirun's own is 1, and it guesses at three reasons.
_MPIRUN_LEFT = r"due to process rank (?P<rank>\d+) with PID \d+ on\s+node (?P<host>\S+)\s+exiting\s+improperly"


def cause_after_stop(ranks: Sequence[RankEnd], why: str, grace: float) -> Failure | None:
    """Return the failure of a stopped run as its ranks' files tell it; None if each ended with 0.

    The starter's own exit code says nothing after a stop. `why` is what asked for the stop; `grace` the seconds that
    ran out, or 0.
    """
    for rank in ranks:
        if rank.code is None:
            failure = _failure_of_rank_file(rank._replace(code=-9))
            late = f", because it was still running {grace:g} s later" if grace else ""
            return failure._replace(cause=f"{why}: {failure.cause}{late}")
        if rank.code:
            failure = _failure_of_rank_file(rank)
            return failure._replace(cause=f"{why}: {failure.cause}")
    return None


def root_cause(failure: Failure, output: str, ranks: Sequence[RankEnd] = ()) -> Failure:
    """Return the failure with rank, code and last lines of the rank that failed first; itself without a report.

    `output` is the last of the starter's stderr, in which the ranks' lines begin with [host:rank]; `ranks` are those on
    this host, as their files tell.
    """
    # A stopped starter ends its ranks with signals and reports those: the stop request is the cause.
    if not failure.cause.startswith(failure.role):
        return _stopped_starter(failure, output)
    match = re.search(_TORCHRUN, output) or re.search(_MPIRUN_EXIT, output) or re.search(_MPIRUN_SIGNAL, output)
    if match is None and (left := re.search(_MPIRUN_LEFT, output)):
        return failure._replace(cause=f"worker rank {left['rank']} on {left['host']} left without MPI_Finalize")
    # It was killed, or says it in words that we do not know
    if match is None:
        first = next((rank for rank in ranks if rank.code and rank.code not in _ENDED_BY_OTHERS), None)
        return _failure_of_rank_file(first) if first else _not_started(failure, output)
    found = match.groupdict()
    signum = int(found["signal"]) if "signal" in found else max(0, -int(found["code"]))
    named = _failure_of_rank(failure, int(found["rank"]), int(found.get("code", 0)), signum, output)
    named = next((_in_own_words(named, rank) for rank in ranks if rank.rank == found["rank"]), named)
    told = _with_lost_rank(named, output, ranks) if is_consequence(named.last_lines) else named
    return with_other_ranks(told, ranks)


def _with_lost_rank(named: Failure, output: str, ranks: Sequence[RankEnd]) -> Failure:
    """Return the failure of a rank that this rank lost: it took longer to end, so its starter saw this rank first."""
    said: dict[tuple[str, str], list[str]] = {}
    for host, rank, line in re.findall(_LINE, output):
        said.setdefault((host, rank), []).append(line)
    for (host, rank), lines in said.items():
        last_lines, error = tuple(lines[-LAST_LINES:]), error_lines(tuple(lines))
        if error and not is_consequence(last_lines):
            code = next((end.code for end in ranks if end.rank == rank and (end.code or 0) > 0), named.exit_code)
            cause = f"worker rank {rank} on {host} failed; then {named.cause}"
            return Failure(cause, "worker", int(rank), host, code or 1, "", last_lines, error)
    return named


def _not_started(failure: Failure, output: str) -> Failure:
    """Add to the failure why mpirun could not start another host, if that was it."""
    agent = re.search(_MPI_AGENT, output) if failure.role == "mpirun" else None
    return (
        failure._replace(cause=f"{failure.cause}: {agent['why']}", exit_code=UNAVAILABLE, last_lines=())
        if agent
        else failure
    )


def _failure_of_rank_file(rank: RankEnd) -> Failure:
    code = rank.code or 0
    name = signal_name(-code) if code < 0 else ""
    how = f"was ended by {name}" if name else f"exited with code {code}"
    number = int(rank.rank) if rank.rank.isdigit() else -1
    cause = f"worker rank {rank.rank} on {rank.host} {how}"
    return Failure(
        cause, "worker", number, rank.host, 128 - code if code < 0 else code, name, rank.last_lines, rank.error
    )


def _in_own_words(named: Failure, rank: RankEnd) -> Failure:
    """Add what the rank's parent kept of it: the starter's output may be full of other ranks' lines."""
    return named._replace(last_lines=rank.last_lines or named.last_lines, error=rank.error)


def _stopped_starter(failure: Failure, output: str) -> Failure:
    """Return the failure of a starter that was asked to stop: it exits with 1, which says nothing."""
    match = re.match(_STOPPED, failure.cause)
    if match is None:
        return failure

    signum = int(signal.Signals[match["name"]])
    words = _lines_of_ranks(output) or failure.last_lines
    return failure._replace(exit_code=128 + signum, signal=match["name"], last_lines=words)


def _lines_of_ranks(output: str) -> tuple[str, ...]:
    """Return the last lines before torchrun's own; no line if torchrun did not write."""
    own = re.search(_TORCHRUN_OWN, output)
    return tuple(output[: own.start()].splitlines()[-LAST_LINES:]) if own else ()


def _failure_of_rank(failure: Failure, rank: int, code: int, signum: int, output: str) -> Failure:
    pattern = re.compile(rf"^\[([^\]]+):{rank}\] (.*)$", re.MULTILINE)
    lines = tuple(line for _, line in pattern.findall(output))
    # mpirun does not say on which host the rank was; its lines do, and it was not always on mpirun's own.
    host = next((host for host, _ in pattern.findall(output)), "" if failure.role == "mpirun" else failure.host)
    name = signal_name(signum) if signum else ""
    how = f"was ended by {name}" if signum else f"exited with code {code}"
    # Such as: out of memory
    why = "".join(failure.cause.partition(": ")[1:])
    return failure._replace(
        cause=" ".join(filter(None, [f"worker rank {rank}", host and f"on {host}", how])) + why,
        role="worker",
        rank=rank,
        host=host,
        exit_code=128 + signum if signum else code,
        signal=name,
        last_lines=lines[-LAST_LINES:] or _lines_of_ranks(output) or failure.last_lines,
    )


def with_early_ends(failure: Failure, ranks: Sequence[RankEnd], children: Sequence[str]) -> Failure:
    """Name in the failure the ranks of this host that had ended with 0 before it: it may only follow from that.

    `ranks` are those below a starter, in the order of their ends; `children` are names of the launcher's own.
    """
    early = [f"worker rank {rank.rank}" for rank in takewhile(lambda rank: rank.code == 0, ranks)] or list(children)
    if not early:
        return failure
    more = f" and {len(early) - MOST_NAMED} more" if len(early) > MOST_NAMED else ""
    return failure._replace(
        cause=f"{failure.cause}; before that {', '.join(early[:MOST_NAMED])}{more} had ended with code 0"
    )


# Words of Horovod, TensorFlow, gloo and NCCL when another rank has gone.
_LOST = (
    r"Horovod has been shut ?down|Collective ops is aborted by|Connection (closed|reset) by peer|Socket closed"
    r"|Broken pipe|remote process exit(ed|ing)|failed to connect to all addresses"
)


def is_consequence(last_lines: Sequence[str]) -> bool:
    """Return whether the error in a process's last lines only says that another process has gone."""
    heads = [number for number, line in enumerate(last_lines) if line.endswith("Traceback (most recent call last):")]
    words = last_lines[heads[-1] :] if heads else last_lines
    return any(re.search(_LOST, line) for line in words if not line.startswith(" ") or _WHAT.match(line))


# Words of gloo and PyTorch if a rank ran another collective than the others. NCCL says nothing: it hangs.
_MISMATCH = (
    r"distributed collective mismatch|[Mm]ismatch between collective|op\.preamble\.length <= op\.nbytes"
    r"|failed to pass monitoredBarrier|did not all call the same collective"
)
_BLAME = (
    "the ranks ran different collectives, so the rank that failed first may be the healthy one and another one skipped"
    " a call; TORCH_DISTRIBUTED_DEBUG=DETAIL tells what each rank ran"
)


def with_other_ranks(failure: Failure, ranks: Sequence[RankEnd]) -> Failure:
    """Add to a failure by different collectives which line each rank of this host was in: any of them may be wrong."""
    if not any(re.search(_MISMATCH, line) for line in (*failure.error, *failure.last_lines)):
        return failure
    frames = {rank.rank: user_frames(rank.last_lines) for rank in ranks}
    common = 0
    while len({tuple(each[: common + 1]) for each in frames.values() if each}) == 1 and common < 100:
        common += 1
    where = [f"rank {rank} in {each[min(common, len(each) - 1)]}" for rank, each in frames.items() if each]
    more = f" (+{len(where) - MOST_NAMED} more)" if len(where) > MOST_NAMED else ""
    were = f"; {', '.join(sorted(where)[:MOST_NAMED])}{more}" if len(where) > 1 else ""
    return failure._replace(cause=f"{failure.cause}: {_BLAME}{were}")
