"""The sbatch file of a job: its components, what each host finds, and one step over all of them. Pure."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dlc.core.image_references import split_registry
from dlc.job.job_spec import GRACE, ONLY_GROUP, Group, JobSpec, describe_channels
from dlc.job.limits import count_bytes
from dlc.places.place import BASE, STOPPED, STOPPED_CODE, Document
from dlc.places.slurm.options import (
    APPTAINER,
    NONE,
    OCI,
    OPTIONS,
    SIF,
    SQSH,
    GroupOptions,
    by_group,
    find_folder,
    is_file,
)

NAME = "job.sbatch"
LOG = "log"
CHECKPOINTS = "checkpoints"
# The signal of which the batch script hears before the time limit, if the job is to be queued again.
WARNING = "USR1"
MEBIBYTE = 1 << 20
# Between the words of two components of one step.
COMPONENTS = " \\\n  : "

# What the script does whatever the job is. $folder is the job's.
PREPARE = """\
# Each host has a folder of its own, which is /opt/ml to the job.
hosts=$(for list in "${nodes[@]}"; do scontrol show hostnames "$list"; done)
for host in $hosts; do
  mkdir -p "$folder/hosts/$host"/{input/config,input/data,model,output/data}
  rm -rf "$folder/hosts/$host/code"
  cp -R "$folder/code" "$folder/hosts/$host/code"
  printf '%s\\n' "$hyperparameters" >"$folder/hosts/$host/input/config/hyperparameters.json"
  printf '%s\\n' "$channels" >"$folder/hosts/$host/input/config/inputdataconfig.json"
done
"""
# Slurm itself says of a bundle that is not there only that the task was interrupted.
CHECK_BUNDLE = """\
if [ ! -f {bundle}/config.json ]; then
  echo "dlc: places.slurm.bundle: expected {bundle}/config.json on $(uname -n), found none" >&2
  exit 78
fi
"""
# Slurm kills what is left after its KillWait, and no option of a job changes that.
KILL_WAIT = """\
kill_wait=$(scontrol show config | sed -n 's/^KillWait *= *\\([0-9]*\\).*/\\1/p')
if [ -n "$kill_wait" ] && [ "$kill_wait" -lt "$DLC_TERMINATION_GRACE" ]; then
  echo "dlc: Slurm's KillWait leaves $kill_wait s of the $DLC_TERMINATION_GRACE s of grace" >&2
  export DLC_TERMINATION_GRACE=$kill_wait
fi
"""
# The shell waits for the step whatever signal comes: a batch script that ends takes the step with it. A signal ends a
# `wait`, and the last one says again how the step has ended.
WAIT = """\
trap : TERM
wait "$step"
while kill -0 "$step" 2>/dev/null; do
  wait "$step"
done
wait "$step"
code=$?
"""
# Slurm 22.05 loses the OCI container of all components of a step but the last, so each has a step of its own then. The
# first code that is not 0 is the job's.
WAIT_FOR_ALL = f"""\
worst=0
for step in $steps; do
{WAIT}[ "$worst" -ne 0 ] || worst=$code
done
exit "$worst"
) &
step=$!
"""
# Slurm 22.05 gives an OCI container the variables of the batch script, and none of the task.
NAME_OF_THE_NODE = "export SLURMD_NODENAME=${SLURMD_NODENAME:-$(uname -n)}"
# The launcher's ports follow from the numbers of job and step, which have to be the same on all hosts.
ONE_JOB = "export SLURM_JOB_ID=$SLURM_JOB_ID_HET_GROUP_0 SLURM_STEP_ID=0"
REQUEUE = """\
warned=
trap 'warned=yes; scancel --signal=TERM "$SLURM_JOB_ID"' {signal}
"""
# Of nodes that are taken away the step alone is told, a grace before; Slurm does not start a job again that ends then.
REQUEUE_END = """\
if scontrol show job "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]'; then
  warned=yes
fi
if [ -n "$warned" ] && [ "$code" -ne 0 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  sleep 60
fi
"""
COLLECT = """\
# Of several files with one name the first host's is taken, so it is copied last; the others stay in hosts/.
mkdir -p "$folder/model" "$folder/output"
lost=
collect() {
  [ ! -d "$1" ] || cp -R "$1/." "$2/" || lost="$lost $1"
}
for host in $(printf '%s\\n' $hosts | tac); do
  collect "$folder/hosts/$host/model" "$folder/model"
  collect "$folder/hosts/$host/output/data" "$folder/output"
done
if [ -n "$lost" ]; then
  echo "dlc: not all results are in $folder/model and $folder/output; look in$lost" >&2
  [ "$code" -ne 0 ] || code=1
fi
exit "$code"
"""


def render_job(job: JobSpec, options: OPTIONS) -> Document:
    """Return the sbatch file."""
    folder = find_folder(job, options)
    parts = [
        "\n".join(["#!/bin/bash", *_list_directives(job, options, folder)]) + "\n",
        "\n".join(_list_settings(job, options, folder)) + "\n",
        KILL_WAIT,
        PREPARE + "".join(f"{line}\n" for line in _list_links(job, options, folder)),
        *([CHECK_BUNDLE.format(bundle=shlex.quote(options.bundle))] if options.container == OCI else []),
        _make_step(job, options, folder),
        COLLECT,
    ]
    return Document(NAME, "\n".join(parts), folder)


def _list_directives(job: JobSpec, options: OPTIONS, folder: Path) -> Iterator[str]:
    """Yield the lines for sbatch: those of the whole job, then those of each component."""
    whole = [
        f"--job-name={job.name}",
        f"--output={folder / LOG}",
        # A job that starts again goes on in its log.
        "--open-mode=append",
        "--requeue" if options.requeue == "yes" else "--no-requeue",
        "--export=ALL",
    ]
    yield from (f"#SBATCH {word}" for word in whole)
    for number, group in enumerate(job.host_groups):
        if number:
            yield "#SBATCH hetjob"
        yield from (f"#SBATCH {word}" for word in _list_component(job, group, options))


def _list_component(job: JobSpec, group: Group, options: OPTIONS) -> Iterator[str]:
    yield f"--nodes={group.hosts}"
    yield f"--ntasks={group.hosts}"
    yield "--ntasks-per-node=1"
    if group.cpus:
        yield f"--cpus-per-task={math.ceil(float(group.cpus))}"
    if group.memory:
        yield f"--mem={math.ceil(count_bytes(group.memory) / MEBIBYTE)}M"
    if group.gpus:
        yield f"--gpus-per-node={group.gpus}"
    yield from (f"--{key}={value}" for key, value in by_group(options, group).items())
    if options.exclusive == "yes":
        yield "--exclusive"
    # Before the time limit the job has its grace to save; KillWait follows the limit.
    if options.time and options.time != "UNLIMITED":
        target = f"B:{WARNING}" if options.requeue == "yes" else "TERM"
        yield f"--signal={target}@{job.grace}"
    yield from (*options.extra, *options.groups.get(group.name, GroupOptions()).extra)


def _list_settings(job: JobSpec, options: OPTIONS, folder: Path) -> Iterator[str]:
    """Yield what the shell is told of the job: its folder, its config files, its nodes, its variables."""
    yield f"folder={shlex.quote(str(folder))}"
    program = {"sagemaker_program": json.dumps(job.program)}
    yield f"hyperparameters={_quote_json({**program, **job.parameters})}"
    yield f"channels={_quote_json(describe_channels(job.channels))}"
    lists = _name_node_lists(job)
    quoted = " ".join(f'"${name}"' for name in lists.values())
    yield f"nodes=({quoted})"
    for key, value in job.variables.items():
        yield f"export {key}={shlex.quote(value)}"
    if GRACE not in job.variables:
        yield f"export {GRACE}={job.grace}"
    # Slurm calls a job complete whose script ends with 0, and jobs that follow it would begin.
    if STOPPED not in job.variables:
        yield f"export {STOPPED}={STOPPED_CODE}"
    if list(lists) != [ONLY_GROUP]:
        groups = ";".join(f"{group}=${name}" for group, name in lists.items())
        yield f'export DLC_GROUPS="{groups}"'


def _quote_json(value: Mapping[str, object]) -> str:
    return shlex.quote(json.dumps(value, indent=2))


def _name_node_lists(job: JobSpec) -> dict[str, str]:
    """Map groups to the variable that has the list of their nodes."""
    if len(job.host_groups) == 1:
        return {job.host_groups[0].name: "SLURM_JOB_NODELIST"}
    return {group.name: f"SLURM_JOB_NODELIST_HET_GROUP_{number}" for number, group in enumerate(job.host_groups)}


def _list_links(job: JobSpec, options: OPTIONS, folder: Path) -> Iterator[str]:
    """Yield the lines by which a host's folder leads to the channels and the checkpoints.

    In a container of apptainer they are mounted instead.
    """
    checkpoints = _find_checkpoints(job, options, folder)
    if checkpoints:
        yield f"mkdir -p {shlex.quote(checkpoints)}"
    links = {**_find_links(job.channels), **({CHECKPOINTS: checkpoints} if checkpoints else {})}
    if links and options.container != APPTAINER:
        yield from _loop("$hosts", _link(links))
    yield from _list_own_channels(job, options)


def _list_own_channels(job: JobSpec, options: OPTIONS) -> Iterator[str]:
    """Yield the lines that give the hosts of a group its channels, if it has some beside the job's."""
    for name, variable in _name_node_lists(job).items():
        own = job.groups[name].channels if name in job.groups else {}
        known = _quote_json(describe_channels({**job.channels, **own}))
        told = f"printf '%s\\n' {known} >\"$folder/hosts/$host/input/config/inputdataconfig.json\""
        links = _link(_find_links(own)) if options.container != APPTAINER else []
        if own:
            yield from _loop(f'$(scontrol show hostnames "${variable}")', [told, *links])


def _find_links(channels: Mapping[str, str]) -> dict[str, str]:
    return {f"input/data/{name}": path for name, path in channels.items()}


def _link(links: Mapping[str, str]) -> list[str]:
    return [f'ln -sfn {shlex.quote(path)} "$folder/hosts/$host/{place}"' for place, path in links.items()]


def _loop(hosts: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"for host in {hosts}; do"
    yield from (f"  {line}" for line in lines)
    yield "done"


def _find_checkpoints(job: JobSpec, options: OPTIONS, folder: Path) -> str:
    """Return the folder of checkpoints; a job that may start again on other nodes always has a common one."""
    return job.checkpoints or (str(folder / CHECKPOINTS) if options.requeue == "yes" else "")


def _make_step(job: JobSpec, options: OPTIONS, folder: Path) -> str:
    """Return the lines that run one step over all components, or one for each, and wait for the end."""
    begin = REQUEUE.format(signal=WARNING) if options.requeue == "yes" else ""
    end = REQUEUE_END if options.requeue == "yes" else ""
    parts = _list_components(job, options, folder)
    if options.container == OCI and len(parts) > 1:
        steps = "".join(f'srun {part} &\nsteps="$steps $!"\n' for part in parts)
        start = f"(\nsteps=\n{steps}{WAIT_FOR_ALL}"
    else:
        start = f"srun {COMPONENTS.join(parts)} &\nstep=$!\n"
    name = "unset SLURMD_NODENAME\n" if options.container == OCI else ""
    hosts = _name_host_words(job, options, folder)
    said = "".join(f"{variable}={shlex.quote(words)}\n" for words, variable in hosts.items())
    return f"{begin}{name}{said}{start}{WAIT}{end}"


def _name_host_words(job: JobSpec, options: OPTIONS, folder: Path) -> dict[str, str]:
    """Map what runs on hosts to its variable; groups may differ in their image and their channels."""
    found = dict.fromkeys(_make_host(job, group, options, folder) for group in job.host_groups)
    return {words: f"host_{number}" if number else "host" for number, words in enumerate(found)}


def _make_host(job: JobSpec, group: Group, options: OPTIONS, folder: Path) -> str:
    """Return what runs on each host of a group, in which $0 is its folder without its name."""
    train = shlex.join(("train", *job.arguments))
    launcher = shlex.join(options.launcher)
    inside = f'SAGEMAKER_BASE_DIR="$0/$SLURMD_NODENAME" exec {launcher} {train}'
    if options.container == OCI:
        several = f"{ONE_JOB}; " if len(job.host_groups) > 1 else ""
        inside = f"{NAME_OF_THE_NODE}; {several}{inside}"
    if options.container == APPTAINER:
        binds = [f'"$0/$SLURMD_NODENAME:{BASE}"']
        binds += [shlex.quote(f"{path}:{BASE}/input/data/{name}:ro") for name, path in group.channels.items()]
        checkpoints = _find_checkpoints(job, options, folder)
        binds += [shlex.quote(f"{checkpoints}:{BASE}/{CHECKPOINTS}")] if checkpoints else []
        gpus = " --nv" if any(group.gpus for group in job.host_groups) else ""
        words = " ".join(f"--bind {bind}" for bind in binds)
        inside = (
            f"exec apptainer exec --no-home --writable-tmpfs{gpus} {words} {_name_sif(group.image)} {launcher} {train}"
        )
    return inside


def _list_components(job: JobSpec, options: OPTIONS, folder: Path) -> list[str]:
    """Return what srun is told of each component."""
    several = len(job.host_groups) > 1
    hosts = _name_host_words(job, options, folder)
    parts = []
    for number, group in enumerate(job.host_groups):
        words = [f"--het-group={number}"] if several else []
        words += ["--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--export=ALL"]
        # srun takes it from sbatch no more since Slurm 22.05.
        words += [f"--cpus-per-task={math.ceil(float(group.cpus))}"] if group.cpus else []
        words += _list_container_words(job, group, options, folder)
        host = hosts[_make_host(job, group, options, folder)]
        parts.append(f'{" ".join(words)} /bin/sh -c "${host}" "$folder/hosts"')
    return parts


def _list_container_words(job: JobSpec, group: Group, options: OPTIONS, folder: Path) -> list[str]:
    """Return the options of srun that start a container; apptainer is a command of each host."""
    if options.container == OCI:
        return [f"--container={shlex.quote(options.bundle)}"]
    if options.container in (NONE, APPTAINER):
        return []
    checkpoints = _find_checkpoints(job, options, folder)
    mounts = [f"{folder}:{folder}", *(f"{path}:{path}:ro" for path in group.channels.values())]
    mounts += [f"{checkpoints}:{checkpoints}"] if checkpoints and not checkpoints.startswith(f"{folder}/") else []
    return [
        f"--container-image={shlex.quote(_name_enroot(group.image))}",
        f"--container-mounts={shlex.quote(','.join(mounts))}",
        "--no-container-mount-home",
    ]


def _name_enroot(image: str) -> str:
    """Return the image as enroot wants it: REGISTRY#REPOSITORY:TAG; a file of it as it is."""
    registry, rest = split_registry(image)
    return f"{registry}#{rest}" if registry and not is_file(image, SQSH) else image


def _name_sif(image: str) -> str:
    """Return the image as apptainer wants it; a file of it as it is."""
    return shlex.quote(image if is_file(image, SIF) or "://" in image else f"docker://{image}")
