"""mpirun on the leader starts every rank; each other host waits for its start, which only this job can ask for."""

from __future__ import annotations

import json
import re
import shlex

from launch.base import process_spec, settings
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.discovery import kubeflow
from launch.plan.context import Context
from launch.plan.strategies import Strategy
from launch.plan.strategies.horovod import imports_horovod, require_gpus

CUSTOM_OPTIONS = "sagemaker_mpi_custom_mpi_options"
# The same of smdistributed, which may run below mpirun
SMDDP_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"
EXPORTED = ("LD_LIBRARY_PATH", "PATH")
# Exported with a value
NCCL = ("NCCL_MIN_NRINGS", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_PROTO")
# Options by which mpirun itself writes the ranks' output, or makes one stream of two.
OWN_OUTPUT = re.compile(r"--?(output-filename|output|xml|merge-stderr-to-stdout)")
PROCESSES = "sagemaker_mpi_num_processes"
# In the run directory of each host, which only its user can read: what this host's ranks find in their environment.
RANK_ENVIRONMENT = "rank_environment.json"
# There too: how the hosts start each other (remote_exec.py)
SITE, SITE_VARIABLE = "mpi_site.json", "DLC_MPI_SITE"


def plan(context: Context) -> Launch:
    """Plan mpirun on the group's first host; on the others what starts Open MPI's daemon for it.

    Raises LaunchError for custom options that are no text or have an unclosed quote, and for IPv6 literals as hosts.
    """
    if imports_horovod(context):
        require_gpus(context)
    if context.cluster.source == kubeflow.MPI_JOB:
        return _of_the_operator(context)
    _check_names(context)
    site = f"{context.run_dir}/{SITE}"
    files = {f"{context.run_dir}/{RANK_ENVIRONMENT}": json.dumps(dict(context.env))}
    if len(context.hosts) > 1:
        files[site] = json.dumps(_exec_site(context))
    if context.host_rank:
        host = (*process_spec.SYSTEM_PYTHON, process_spec.program_path("mpi_host"), site)
        rank = context.host_rank * context.processes_per_host
        return Launch("mpi", (context.process(host, "mpi host", rank, essential=False),), files=files)
    nccl_debug, custom = _custom_options(context)
    argv = (
        "mpirun",
        *_placement(context),
        *_transport(context),
        *_exported_variables(context, nccl_debug),
        *custom,
        *_rank_command(context, custom),
    )
    variables = {SITE_VARIABLE: site} if len(context.hosts) > 1 else {}
    process = context.process(argv, "mpirun", 0, variables, _mpirun_variables(context))
    # In a Slurm job mpirun would call srun, which the image does not hold, and count Slurm's tasks as slots. Ranks get
    # these variables all the same, each its own host's.
    env = {name: value for name, value in process.env.items() if not name.startswith("SLURM_")}
    return Launch("mpi", (process._replace(env=env),), _decisions(context), files=files)


def _check_names(context: Context) -> None:
    """Refuse IPv6 literals: mpirun reads what follows a host's first colon as its number of slots."""
    literal = next((reached for reached in map(context.address, context.hosts) if ":" in reached), "")
    if literal and len(context.hosts) > 1:
        raise LaunchError(
            CONFIG,
            "an IPv6 literal, which mpirun cannot take",
            where="hosts",
            expected="names or IPv4 addresses below MPI",
            found=shown(literal),
            remedy="give the hosts names, or use torchrun or Horovod's gloo controller",
        )


def _of_the_operator(context: Context) -> Launch:
    """Plan mpirun in a Kubeflow MPIJob: hosts, slots, keys, ssh are the operator's; ranks get our variables."""
    nccl_debug, custom = _custom_options(context)
    ours = sorted(name for name, value in context.env.items() if context.environ.get(name) != value)
    brought = (part for name in ours if name not in (*EXPORTED, *NCCL) for part in ("-x", name))
    argv = (
        "mpirun",
        "--allow-run-as-root",
        "-bind-to",
        "none",
        *_exported_variables(context, nccl_debug),
        *brought,
        *custom,
    )
    # The operator starts all pods at once, and ssh does not wait for a name or for sshd
    servers = kubeflow.ssh_servers(context.environ)
    seconds = int(settings.read_seconds(context.environ, "DLC_PEER_TIMEOUT", settings.PEER_SECONDS))
    waiting = process_spec.command_after_servers(seconds, servers) if servers else ()
    # Ranks run on the workers; the launcher pod may have none
    first = kubeflow.worker_hosts(context.environ)[:1]
    defaults = {"LD_LIBRARY_PATH": "", **({"MASTER_ADDR": first[0]} if first else {})}
    process = context.process((*waiting, *argv, *_command(context)), "mpirun", 0, defaults=defaults)
    return Launch("mpi", (process,), (Decision("hosts of the operator's host file", "MPIJob"), *_decisions(context)))


def _exec_site(context: Context) -> tuple[object, ...]:
    """Return the fields of remote_exec.ExecSite."""
    network = context.network
    others = tuple(context.address(host) for host in context.hosts[1:])
    leader = network.sources.get(context.hosts[0], "")
    known = {context.address(host): network.sources[host] for host in context.hosts[1:] if host in network.sources}
    port = settings.port_of(context.environ, settings.MPI_PORT)
    return (network.secret, port, others, network.listen, leader, known)


def _placement(context: Context) -> tuple[str, ...]:
    per_host = context.processes_per_host
    slots = f":{per_host}" if per_host > 1 else ""
    processes = context.job.number(PROCESSES) or per_host * len(context.hosts)
    return (
        *("--host", ",".join(f"{context.address(host)}{slots}" for host in context.hosts)),
        *("-np", str(processes), "--allow-run-as-root"),
    )


def _transport(context: Context) -> tuple[str, ...]:
    interface = context.cluster.network_interface
    return (
        *("-mca", "btl_tcp_if_include", interface),
        *("-mca", "oob_tcp_if_include", interface),
        *("-mca", "plm_rsh_no_tree_spawn", "1"),
        *("-mca", "plm_rsh_agent", _agent_command()),
        *("-bind-to", "none", "-map-by", "slot"),
        *("-mca", "pml", "ob1"),
        *("-mca", "btl", "^openib"),
        *("-mca", "orte_abort_on_non_zero_status", "1"),
        *("-mca", "btl_vader_single_copy_mechanism", "none"),
    )


def _mpirun_variables(context: Context) -> dict[str, str]:
    """Open MPI 5 starts hosts by PRRTE, which has these options under names of its own."""
    return {
        "LD_LIBRARY_PATH": "",
        # Without an entry in /etc/passwd it is asked which shell the other hosts have
        "SHELL": "/bin/bash",
        "PRTE_MCA_plm_ssh_agent": _agent_command(),
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_if_include": context.cluster.network_interface,
    }


def _agent_command() -> str:
    """Return what mpirun calls instead of ssh, which it splits at blanks and colons: the site is in a variable."""
    return " ".join((*process_spec.SYSTEM_PYTHON, process_spec.program_path("mpi_agent")))


def _custom_options(context: Context) -> tuple[str, tuple[str, ...]]:
    """Return NCCL_DEBUG's value and the other options. `--NCCL_DEBUG V` is SageMaker's notation."""
    name = CUSTOM_OPTIONS if context.job.text(CUSTOM_OPTIONS) else SMDDP_OPTIONS
    text = context.job.text(name)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise LaunchError(
            CONFIG, name, where=context.job.hyperparameters_file, expected="options of mpirun", found=shown(text)
        ) from error
    nccl_debug, options = context.environ.get("NCCL_DEBUG", "INFO"), []
    while words:
        word = words.pop(0)
        match = re.fullmatch(r"--?NCCL_DEBUG(?:=(.*))?", word)
        if not match:
            options.append(word)
        elif match[1] is not None:
            nccl_debug = match[1]
        elif words:
            nccl_debug = words.pop(0)
    return nccl_debug, tuple(options)


def _exported_variables(context: Context, nccl_debug: str) -> tuple[str, ...]:
    """Return variables for every rank. SM_* are not among them: each rank gets those of its own host (see _rank)."""
    variables = {
        "NCCL_MIN_NRINGS": "4",
        "NCCL_SOCKET_IFNAME": context.cluster.network_interface,
        "NCCL_DEBUG": nccl_debug,
        **({"NCCL_PROTO": "simple"} if context.devices.efa else {}),
    }
    stated = {name: context.environ.get(name, value) for name, value in variables.items() if name != "NCCL_DEBUG"}
    stated["NCCL_DEBUG"] = nccl_debug
    pairs = [part for name, value in stated.items() for part in ("-x", f"{name}={value}")]
    return (*pairs, *(part for name in EXPORTED for part in ("-x", name)))


def _rank_command(context: Context, custom: tuple[str, ...]) -> tuple[str, ...]:
    """Return one rank's command: our program sets the host's own environment, then becomes the user's."""
    own_host = (
        *process_spec.SYSTEM_PYTHON,
        process_spec.program_path("mpi_rank"),
        f"{context.run_dir}/{RANK_ENVIRONMENT}",
    )
    as_is = ("--as-is",) if any(map(OWN_OUTPUT.fullmatch, custom)) else ()
    return (*own_host, *as_is, *_command(context))


def _command(context: Context) -> tuple[str, ...]:
    if not context.entry.is_python or not _has_mpi4py(context):
        return context.entry.command(context.python, context.job.arguments)
    return (context.python, "-m", "mpi4py", *context.entry.target(), *context.job.arguments)


def _has_mpi4py(context: Context) -> bool:
    """Return whether ranks run below `python -m mpi4py`, which aborts all when one raises. Unknown is yes."""
    return "mpi4py" in context.installed or not context.installed


def _decisions(context: Context) -> tuple[Decision, ...]:
    decisions = []
    if not _has_mpi4py(context):
        decisions.append(Decision("ranks run without mpi4py", "the image does not hold it"))
    if "mp_parameters" in context.job.hyperparameters:
        decisions.append(Decision("the script splits its model itself", "smdistributed.modelparallel is not public"))
    return tuple(decisions)


ROW = Strategy(
    "mpi",
    plan,
    asked_by=("sagemaker_mpi_enabled",),
    order=3,
    expected_by=kubeflow.MPI_JOB,
    led=True,
    starts_remotely=True,
    starters=("mpirun",),
    needs_keras_2=True,
)
