"""Every DLC_* variable of the launcher, what it means and what it comes to; the TCP ports of a job."""

from __future__ import annotations

import contextlib
import os
import re
import zlib

from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, NO_INPUT, LaunchError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


JOB_TOKEN = "DLC_JOB_TOKEN"  # noqa: S105 - the name of a variable
JOB_TOKEN_FILE = "DLC_JOB_TOKEN_FILE"  # noqa: S105 - the same


class Setting(NamedTuple):
    """A variable that the user may set, by SageMaker's Environment or `docker run -e`."""

    name: str
    default: str
    meaning: str


SETTINGS = (
    Setting("DLC_HOSTS", "", "the job's hosts, such as a,b[1-3]; comes before resourceconfig.json, Slurm, Kubernetes"),
    Setting(
        "DLC_GROUPS",
        "",
        "instance groups elsewhere: data=h1,h2;dnn=h[3-4], in a JobSet data=2;dnn=2; also beside DLC_HOSTS",
    ),
    Setting("DLC_RANK", "by HOSTNAME", "which of DLC_HOSTS (else of DLC_GROUPS' hosts) this host is, from 0"),
    Setting("DLC_NUM_HOSTS", "", "pods of a Kubernetes Indexed Job (completions), 1 if each is a job of its own"),
    Setting("DLC_SERVICE", "JOBSET_NAME", "the headless service that Kubernetes pods resolve under"),
    Setting("DLC_NETWORK_INTERFACE", "default route", "interface for NCCL, gloo and MPI if no place names one"),
    Setting("DLC_NUM_CPUS", "detected", "CPUs of this host"),
    Setting("DLC_NUM_GPUS", "detected", "GPUs of this host"),
    Setting("DLC_NUM_NEURONS", "detected", "Neuron cores of this host"),
    Setting("DLC_EFA", "detected", "1: this host has EFA that reads remote memory, 0: it has none"),
    Setting("DLC_STRATEGY", "from the job", "the strategy's name, whatever the hyperparameters ask for"),
    Setting(
        "DLC_GROUP_PROGRAMS",
        "",
        'entry points of instance groups, as JSON: {"data_group": "train_data.py"}; other groups run the job\'s',
    ),
    Setting("DLC_TF_DATA_WORKERS", "data", "`all`: workers of tf.data.service also beside the training"),
    Setting(
        "DLC_ARGV_DIALECT",
        "toolkit",
        "hyperparameters as arguments: `toolkit` is `--key value`, `flags` the bare `--key` for true and nothing for "
        "false, `equals` is `--key=value`, `sdk3` as the drivers of SDK 3.x pass them",
    ),
    Setting(
        "DLC_COMPILER",
        "off",
        "`inductor` or `xla` compiles the training (compiler.md), `off` nothing, whatever the job says",
    ),
    Setting("DLC_COMPILER_DEFAULT", "set in the image", "the compiler if the job's hyperparameters ask for one"),
    Setting("DLC_COMPILER_DEBUG", "from the job", "1: the compilers' own logs and dumps in output/data/compiler"),
    Setting("DLC_COMPILER_STRICT", "", "1: the job fails if something that should be compiled stays eager"),
    Setting("DLC_COMPILER_REPORT", "output/data/compiler", "folder for the report of what was compiled"),
    Setting("DLC_ELASTIC", "", "MIN:MAX or MIN:MAX:RESTARTS hosts: torchrun goes on while hosts leave and come"),
    Setting("DLC_HOROVOD_CONTROLLER", "gloo", "`mpi`: Horovod below mpirun"),
    Setting("DLC_TF_CHIEF", "by version", "`master` or `chief`: the first task of a parameter server job"),
    Setting(
        "DLC_STOP_GRACE",
        "by place",
        "seconds to save after a stop: 100 on SageMaker, 21 on Kubernetes and Slurm, else 7",
    ),
    Setting("DLC_TERMINATION_GRACE", "by place", "seconds from the place's SIGTERM to its SIGKILL, if it is told"),
    Setting(
        "DLC_STOPPED_EXIT_CODE",
        "0",
        "exit code when all state was saved after a stop; 143 for Kubernetes to start again",
    ),
    Setting("DLC_LOGS", "", "1: a log per rank and events as JSON in output/data/launcher"),
    Setting("DLC_STEPS", "on", "off: training steps are not counted, and nothing is said of the progress"),
    Setting(
        "DLC_END_GRACE",
        "10, 3 with Ray",
        "seconds from SIGTERM to SIGKILL for what is left after the end or a failure of the job",
    ),
    Setting(
        "DLC_HANG_TIMEOUT", "0", "seconds without output and CPU use after which the job ends with all stacks; 0: never"
    ),
    Setting("DLC_PREFLIGHT", "", "`warn`: start although the hosts do not fit together or reach each other"),
    Setting("DLC_CONTENT_KEY", "set in the image", "content key of the image, compared between the hosts"),
    Setting("DLC_PEER_TIMEOUT", "900", "seconds to wait for the job's other hosts"),
    Setting("DLC_HEARTBEAT_TIMEOUT", "60", "seconds of silence after which another host counts as vanished"),
    Setting("DLC_MAX_RESTARTS", "0", "how often all hosts start their processes again after a failure"),
    Setting(
        "DLC_DATA_HOSTS_MAY_FAIL",
        "by program",
        "1: the job goes on without a data host that failed while another of its group runs, 0: it never does; unset: "
        "if the data hosts' program says that others can take over, as `dlc_runtime.dataservice` does",
    ),
    Setting(
        "DLC_GROUP_PORT", "7790", "port of the leader at which hosts meet; under Slurm all ports follow the job's id"
    ),
    Setting("DLC_MPI_PORT", "7791", "port at which the leader's mpirun starts the other hosts"),
    Setting("DLC_HOROVOD_PORT", "7778", "port of the leader at which Horovod's ranks meet"),
    Setting("DLC_RAY_PORT", "6379", "port of the leader at which Ray's head listens"),
    Setting("DLC_MASTER_PORT", "7777", "port of the leader at which torchrun's hosts and PyTorch's ranks meet"),
    Setting("DLC_TF_WORKER_PORT", "2222", "port of TensorFlow's workers beside parameter servers"),
    Setting("DLC_TF_SERVER_PORT", "2223", "port of TensorFlow's parameter servers"),
    Setting("DLC_TF_MULTI_WORKER_PORT", "8890", "port of TensorFlow's MultiWorkerMirroredStrategy"),
    Setting(
        JOB_TOKEN,
        "from the job's ARN",
        "secret that the hosts of one job prove themselves to each other with; not passed on, but a script of the same "
        "user can read it in the launcher's own environment",
    ),
    Setting(
        JOB_TOKEN_FILE,
        "",
        "file that holds the token instead: read once, removed if it may be, and in no process's environment",
    ),
    Setting("DLC_VENV", "/opt/venv", "the virtual environment that the user's code runs in"),
    Setting(
        "DLC_RUN_DIR",
        "/run/dlc",
        "folder for private files of a running job; /tmp/dlc-UID if /run is not ours",
    ),
    Setting("DLC_DEBUG", "", "1: a traceback if the launcher itself fails"),
)


# What dlc_runtime reads in the user's processes, beside what the launcher sets for it.
RUNTIME_SETTINGS = (
    *("DLC_COMPILER_BUDGET", "DLC_COMPILER_DEBUG_MB", "DLC_COMPILER_DYNAMIC", "DLC_COMPILER_EAGER_STEPS"),
    *("DLC_COMPILER_EFFORT", "DLC_COMPILER_MODE", "DLC_COMPILER_REPORT_MINUTES", "DLC_COMPILER_UNCHECKED"),
    *("DLC_COMPILER_OPTIMIZER", "DLC_COMPILER_TF32"),
    *("DLC_COMPILE_CACHE", "DLC_COMPILE_CACHE_ARTIFACT", "DLC_COMPILE_CACHE_CHOSEN", "DLC_COMPILE_CACHE_GB"),
    *("DLC_DATA_COMPARE", "DLC_DATA_LEASE_PORT", "DLC_DATA_PORT", "DLC_DATA_TLS", "DLC_DATA_TOKEN"),
    *("DLC_PROFILE", "DLC_PROFILE_ENDS_JOB", "DLC_PROFILE_FETCHES", "DLC_PROFILE_REPORT", "DLC_PROFILE_SKIP"),
    *("DLC_PROFILE_STEPS", "DLC_TF_DATA_OPEN", "DLC_TF_DATA_PORT", "DLC_TF_DATA_WORKER_PORT"),
)
# For the job's other hosts to come: one may pull its image for minutes (DLC_PEER_TIMEOUT)
PEER_SECONDS = 900.0
LONGEST_TOKEN_BYTES = 4096
# Of two names, from 0 to 1, from which on one may be meant for the other
LEAST_LIKENESS = 0.8

# Some settings are read late, or never: check them all at the start.
CHOICES = ("DLC_EFA", "DLC_LOGS", "DLC_DATA_HOSTS_MAY_FAIL", "DLC_DEBUG")


def check_settings(environ: Mapping[str, str]) -> None:
    """Raise LaunchError for a value that would be ignored, or be found out when much has been done."""
    for name in CHOICES:
        read_choice(environ, name)
    warns_only(environ, "DLC_PREFLIGHT")
    is_on(environ, "DLC_STEPS")
    read_exit_code(environ, "DLC_STOPPED_EXIT_CODE")
    read_count(environ, "DLC_MAX_RESTARTS", 0)


def warns_only(environ: Mapping[str, str], name: str) -> bool:
    """Return whether it says `warn`, the only word that it takes. Raises LaunchError for another one."""
    stated = environ.get(name, "")
    if stated not in ("", "warn"):
        raise LaunchError(CONFIG, "unknown", where=name, expected="warn, or nothing", found=shown(stated))
    return stated == "warn"


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Return whether something that is on by default stays so. Raises LaunchError for another word than on and off."""
    stated = environ.get(name, "")
    if stated not in ("", "on", "off"):
        raise LaunchError(CONFIG, "unknown", where=name, expected="on or off", found=shown(stated))
    return stated != "off"


def read_seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    """Read a duration. Raises LaunchError unless it is a number that is not negative."""
    return float(
        _read_number(environ, name, "a duration", "a number of seconds", r"[0-9]{1,9}(\.[0-9]{1,6})?") or default
    )


def read_exit_code(environ: Mapping[str, str], name: str) -> int:
    """Read an exit code, 0 if it is not set. Raises LaunchError for anything else than a number up to 255."""
    return int(_read_number(environ, name, "an exit code", "a number from 0 to 255", r"[0-9]{1,3}", range(256)) or 0)


def read_count(environ: Mapping[str, str], name: str, default: int) -> int:
    """Read a number of times. Raises LaunchError unless it is a whole number that is not negative."""
    return int(_read_number(environ, name, "a number of times", "a whole number", r"[0-9]{1,6}") or default)


def read_port(environ: Mapping[str, str], name: str, default: int) -> int:
    """Read a TCP port. Raises LaunchError for anything else."""
    ports = range(1, 65536)
    return int(_read_number(environ, name, "a port", "a number from 1 to 65535", r"[0-9]{1,5}", ports) or default)


def read_choice(environ: Mapping[str, str], name: str) -> bool | None:
    """Read 1 or 0, None if it is not set. Raises LaunchError for anything else."""
    text = _read_number(environ, name, "a choice", "1 or 0", r"[01]")
    return bool(int(text)) if text else None


def _read_number(
    environ: Mapping[str, str], name: str, what: str, expected: str, pattern: str, known: range | None = None
) -> str:
    """Return the variable's text, which matches `pattern` and is a `known` number; empty if it is not set."""
    text = environ.get(name, "")
    if text and (not re.fullmatch(pattern, text) or (known is not None and int(text) not in known)):
        raise LaunchError(CONFIG, what, where=name, expected=expected, found=shown(text))
    return text


def find_misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the DLC_* variables that nothing reads and that look like one that is read: name -> the one meant."""
    known = {*(setting.name for setting in SETTINGS), *RUNTIME_SETTINGS}
    strange = [name for name in environ if name.startswith("DLC_") and name not in known]
    if not strange:
        return {}
    # A job without a mistake has no use for it
    from difflib import get_close_matches

    near = {name: get_close_matches(name, sorted(known), 1, LEAST_LIKENESS) for name in strange}
    return {name: meant[0] for name, meant in near.items() if meant}


def with_job_token(environ: Mapping[str, str], keep: bool = False) -> Mapping[str, str]:
    """Return the environment with the job's token as the file says it that DLC_JOB_TOKEN_FILE names, if one is named.

    The file is removed if that can be done, unless `keep`: no script of the job shall find it. Raises LaunchError if
    it cannot be read or holds no token, or both variables are set.
    """
    path = environ.get(JOB_TOKEN_FILE)
    if not path:
        return environ
    if environ.get(JOB_TOKEN):
        raise LaunchError(CONFIG, f"set beside {JOB_TOKEN}", where=JOB_TOKEN_FILE, expected="one of the two")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            token = file.read(LONGEST_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise LaunchError(
            NO_INPUT, "cannot be read", where=f"{JOB_TOKEN_FILE}={path}", found=os.strerror(error.errno or 0),
            remedy="write it anew before each start of the container: it is removed when it has been read",
        ) from error  # fmt: skip
    if not 0 < len(token) <= LONGEST_TOKEN_BYTES:
        expected = f"1 to {LONGEST_TOKEN_BYTES} characters"
        raise LaunchError(CONFIG, "no token", where=f"{JOB_TOKEN_FILE}={path}", expected=expected)
    if not keep:
        # A secret that the place mounts for reading
        with contextlib.suppress(OSError):
            os.unlink(path)
    return {name: value for name, value in environ.items() if name != JOB_TOKEN_FILE} | {JOB_TOKEN: token}


GROUP_PORT, MPI_PORT, HOROVOD_PORT, MASTER_PORT = (
    "DLC_GROUP_PORT",
    "DLC_MPI_PORT",
    "DLC_HOROVOD_PORT",
    "DLC_MASTER_PORT",
)
RAY_PORT = "DLC_RAY_PORT"
TF_WORKER_PORT, TF_SERVER_PORT, TF_MULTI_WORKER_PORT = (
    "DLC_TF_WORKER_PORT",
    "DLC_TF_SERVER_PORT",
    "DLC_TF_MULTI_WORKER_PORT",
)

# switch -> default; the last four are SageMaker's own
PORTS = {
    GROUP_PORT: 7790,
    MPI_PORT: 7791,
    HOROVOD_PORT: 7778,
    RAY_PORT: 6379,
    MASTER_PORT: 7777,
    TF_WORKER_PORT: 2222,
    TF_SERVER_PORT: 2223,
    TF_MULTI_WORKER_PORT: 8890,
}
FIRST_DERIVED_PORT, PORT_BLOCKS, PORT_BLOCK = (
    20000,
    1500,
    8,
)  # derived ports: 20000 to 31999, below those that the kernel gives out


def port_of(environ: Mapping[str, str], name: str) -> int:
    """Return the port that a setting names, the same on every host of the job. Raises LaunchError for no port."""
    job = _shared_nodes_job(environ)
    default = PORTS[name]
    if job:
        default = FIRST_DERIVED_PORT + zlib.crc32(job.encode()) % PORT_BLOCKS * PORT_BLOCK + list(PORTS).index(name)
    return read_port(environ, name, default)


def _shared_nodes_job(environ: Mapping[str, str]) -> str:
    """Return the id of the job if its nodes may run another one as well; empty if not."""
    job = environ.get("SLURM_JOB_ID", "")
    return f"{job}.{environ.get('SLURM_STEP_ID', '')}" if job and "SLURM_STEP_NODELIST" in environ else ""
