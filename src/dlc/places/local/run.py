"""Runs a job from its first container to its collected results."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from dlc.core.errors import DlcError, ImageError, Interrupted, UsageError
from dlc.engine.connection import Engine
from dlc.engine.questions import ask_engine
from dlc.engine.remedies import GPU_REMEDY
from dlc.job.host_log import HostLog
from dlc.job.limits import count_bytes
from dlc.places.local.claims import claim_job, remove_leftovers
from dlc.places.local.containers import JobCommands, format_mount, make_commands, option_if_set
from dlc.places.local.host_reports import merge_host_reports
from dlc.places.local.job import Group, Job
from dlc.places.local.job_folder import PARTS, ResultFile, collect_results, remove_folders, write_folders
from dlc.places.local.known_jobs import make_facts
from dlc.places.local.lifecycle import ContainerState, JobContainers, JobRun, find_first_failure, removal_error
from dlc.places.local.memory import explain_memory, take_limit
from dlc.places.local.watch import watch_job
from dlc.places.place import BASE

# In a host's /opt/ml: why it failed.
FAILURE = "output/failure"
# Characters.
REASON_LENGTH = 1024
# 128 + SIGKILL
KILLED = 137


# Shows how long a block takes, from a name and what it does.
Show = Callable[[str, str], AbstractContextManager[object]]


def show_nothing(_name: str, _what: str) -> AbstractContextManager[object]:
    """Show nothing of a block."""
    return nullcontext()


def run_job(job: Job, engine: Engine, claims_folder: Path, *, watch: bool = False, show: Show = show_nothing) -> int:
    """Run the job; return 0, else the code of the host that failed first. Its results are in the job's folder.

    With `watch` TensorBoard shows it while it runs.

    Raises UsageError, ImageError, EngineError, and Interrupted after a Ctrl-C.
    """
    require_limits(job, engine)
    log = HostLog(len(job.hosts), sys.stdout)
    if left := remove_leftovers(claims_folder, engine):
        log.say(f"removed what a killed dlc left: {', '.join(left)}")
    job = replace(take_limit(job, engine, log.say), platform=find_platform({*map(job.image_of, job.hosts)}, engine))
    with show("code", f"copies it for {len(job.hosts)} hosts"):
        write_folders(job)
    commands = make_commands(job)
    watching = watch_job(job, engine, log.say) if watch else nullcontext()
    states: dict[str, ContainerState] = {}
    stopped: BaseException | None = None
    with ExitStack() as block:
        try:
            claim = block.enter_context(claim_job(claims_folder, job.id, engine, make_facts(job)))
        except BaseException:
            # The cache cannot be written, or Ctrl-C came.
            remove_folders(job)
            raise
        try:
            stopped = _follow_job(engine, commands, log, states, watching)
            if not stopped or _any_started(states):
                with show("results", f"collects those of {len(job.hosts)} hosts"):
                    _gather_results(job, engine, log, states, ended_by_itself=stopped is None)
        finally:
            if not stopped:
                claim.code = _find_code(states)
            # What an engine does not remove costs nobody the results.
            claim.clear()
    if stopped and not _any_started(states):
        remove_folders(job)
    if isinstance(stopped, KeyboardInterrupt):
        raise Interrupted("stopped")
    if stopped:
        raise stopped
    return _find_code(states)


def _find_code(states: dict[str, ContainerState]) -> int:
    failed = find_first_failure(states)
    return states[failed].exit_code if failed else 0


def _any_started(states: dict[str, ContainerState]) -> bool:
    return any(state.started for state in states.values())


def _gather_results(
    job: Job, engine: Engine, log: HostLog, states: dict[str, ContainerState], *, ended_by_itself: bool
) -> None:
    """Collect the results in the job's folder, and say on stderr how it has ended."""
    take_files_back(job, engine)
    for line in report_results(job, collect_results(job)):
        log.say(line)
    if ended_by_itself:
        _write_reasons_of_killed(job, states)
    log.say(_summarize(job, states, ended_by_itself=ended_by_itself))


def report_results(job: Job, results: Sequence[ResultFile]) -> list[str]:
    """Merge the hosts' reports; return a line for each report, for what failed, and for each file that stayed."""
    lines = merge_host_reports(results, job.folder / "output") if len(job.hosts) > 1 else []
    left = [file.path for file in results if file.stays and os.path.lexists(file.path)]
    stays = "stays there: another host wrote a file of that name"
    return [*lines, *(f"{path.relative_to(job.folder)} {stays}" for path in left)]


def _follow_job(
    engine: Engine,
    commands: JobCommands,
    log: HostLog,
    states: dict[str, ContainerState],
    watching: AbstractContextManager[None],
) -> BaseException | None:
    """Follow the job from the network to the last host's end; return what stopped the job, if anything did."""
    log.say(f"job {commands.job_id} starts on {', '.join(commands.containers)}")
    hosts = JobContainers(engine, commands)
    job_run = JobRun(hosts, log)
    stopped: BaseException | None = None
    # Behind the hosts, which are stopped first.
    with ExitStack() as block:
        try:
            hosts.create_network()
            block.enter_context(watching)
            job_run.start()
            job_run.wait()
        except (KeyboardInterrupt, OSError, DlcError) as error:
            stopped = error
            job_run.stop()
    states.update(hosts.states())
    gone = [host for host in hosts.containers if host not in states]
    return stopped or (removal_error(gone) if gone else None)


def require_limits(job: Job, engine: Engine) -> None:
    """Raise UsageError for the first limit that is more than the engine's host has.

    An engine tells of a limit that it cannot give only when the network and the folders of a job are there. An engine
    that says nothing of a kind is not judged by it.
    """
    for group in job.groups:
        if engine.cpus and float(group.cpus or 0) > engine.cpus:
            raise _limit_error(job, group, "--cpus", group.cpus, f"{engine.cpus} at most", str(engine.cpus))
        most = f"{engine.memory >> 20}m"
        if engine.memory and count_bytes(group.memory or "0") > engine.memory:
            raise _limit_error(job, group, "--memory", group.memory, f"{most} at most", most)
        if group.gpus and not engine.offers_gpus:
            raise UsageError(
                f"{_limit_as_typed(job, group, '--gpus', group.gpus)}: expected an engine that gives GPUs to "
                f"containers, found neither NVIDIA's runtime nor a CDI device of a GPU at "
                f"{engine.address or 'the Docker engine'}",
                GPU_REMEDY,
            )


def _limit_error(job: Job, group: Group, option: str, value: str, expected: str, most: str) -> UsageError:
    where = _limit_as_typed(job, group, option, value)
    prefix = f"{group.name}=" if len(job.groups) > 1 else ""
    return UsageError(
        f"{where}: expected {expected}, which is all that the engine's host has",
        f"{option} {prefix}{most}, or less, or leave it out",
    )


def _limit_as_typed(job: Job, group: Group, option: str, value: str) -> str:
    """Return an option as it could be typed; of a job with several groups with the group's name."""
    return f"{option} {group.name}={value}" if len(job.groups) > 1 else f"{option} {value}"


def find_platform(images: Collection[str], engine: Engine) -> str:
    """Return the platform of a job's images, empty if it is the engine's. Raises ImageError for one it lacks."""
    platforms = {image: find_foreign_platform(image, engine) for image in sorted(images)}
    if len(set(platforms.values())) > 1:
        found = ", ".join(f"{image}: {platform or engine.platform}" for image, platform in platforms.items())
        raise UsageError(f"expected images of one platform, found {found}")
    return next(iter(platforms.values()))


def find_foreign_platform(ref: str, engine: Engine) -> str:
    """Return the platform of an image, as in linux/arm64; empty if it is the engine's, which Docker need not be told.

    Raises ImageError if the engine lacks the image.
    """
    done = ask_engine(engine, "image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", ref)
    if done.returncode:
        raise ImageError(f"{ref}: the engine has no such image", "dlc build ID, or docker pull")
    found = done.stdout.strip()
    return "" if found == engine.platform else found


def take_files_back(job: Job, engine: Engine) -> None:
    """Give files that a container's root made to the user who runs dlc, who could not move or delete them."""
    mine = os.getuid()
    folders = [folder for folder in (job.folder, job.checkpoints) if folder and mine]
    for folder in folders:
        if any(path.lstat().st_uid != mine for path in folder.rglob("*")):
            words = (
                *(
                    "--user",
                    "0",
                    "--network",
                    "none",
                    "--entrypoint",
                    "chown",
                    *option_if_set("--platform", job.platform),
                ),
                *("--mount", format_mount(folder, "/given")),
            )
            owner = f"{mine}:{os.getgid()}"
            engine.docker("run", "--rm", "--pull", "never", *words, job.image, "-R", "-h", owner, "/given")


def _summarize(job: Job, states: dict[str, ContainerState], *, ended_by_itself: bool) -> str:
    """Tell how each host has ended, why the first one failed, and where the results are."""
    codes = ", ".join(f"{host} {_describe_ending(state)}" for host, state in states.items()) or "no host has started"
    failed = find_first_failure(states) if ended_by_itself else ""
    why = [f"  {line}" for line in _explain_failure(job, failed)] if failed else []
    why += [f"  {line}" for host, state in states.items() if (line := explain_memory(job, host, state))]
    return "\n".join([f"job {job.id} has ended: {codes}", *why, f"  results: {job.folder}"])


def _describe_ending(state: ContainerState) -> str:
    return f"{state.exit_code} (out of memory)" if state.out_of_memory else str(state.exit_code)


def _explain_failure(job: Job, host: str) -> list[str]:
    """Tell which rank failed on which host, the error itself, and where all of it is: from a host's failure file.

    Paths are those of this machine.
    """
    path = job.opt_ml(host) / FAILURE
    lines = [line for line in translate_paths(_read_failure(path), job, host).splitlines() if line.strip()]
    if not lines:
        return [f"{host} failed first"]
    error = [lines[-1].strip()] if len(lines) > 1 else []
    return [lines[0], *error, f"the whole reason: {path}"]


def _write_reasons_of_killed(job: Job, states: dict[str, ContainerState]) -> None:
    """Write the failure file of each host whose launcher was killed with all else, and so could not write it."""
    for host, state in states.items():
        path = job.opt_ml(host) / FAILURE
        if state.exit_code == KILLED and not path.exists():
            why = "it ran out of memory" if state.out_of_memory else "`kill -9 -1` by a script, `docker kill`"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"all was killed on {host}, the launcher too ({why})\n")


def translate_paths(text: str, job: Job, host: str) -> str:
    """Return a message of a host with its paths as they are here, once the results are collected."""
    places = {f"{BASE}/input/data/{name}": folder for name, folder in job.channels_of(host).items()}
    places |= {f"{BASE}/checkpoints": job.checkpoints} if job.checkpoints else {}
    places |= {f"{BASE}/{place}": job.folder / part for part, place in PARTS.items()}
    for inside, here in (places | {BASE: job.opt_ml(host)}).items():
        text = re.sub(rf"{re.escape(inside)}(?![\w.-])", str(here).replace("\\", r"\\"), text)
    return text


def _read_failure(path: Path) -> str:
    """Return what SageMaker would show of a failure file: its beginning, which ends with the process's last line."""
    return path.read_text(errors="replace")[:REASON_LENGTH] if path.is_file() else ""
