"""What is written from the launcher's tables: tables of docs/launcher-reference.md, and dlc's strategies.

`python scripts/launcher_tables.py docs/launcher-reference.md` writes the tables into the document, between their
markers, and src/dlc/job/strategies.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src/entrypoint"))

from launch.base.settings import SETTINGS
from launch.base.variables import VARIABLES
from launch.plan.strategies import load_strategies

# Switch -> who needs it, and when. Kept here because no image needs to carry it.
USERS = {
    "DLC_HOSTS": "whoever starts containers by hand or under a scheduler that the launcher does not know",
    "DLC_GROUPS": "a job with data hosts and training hosts outside of SageMaker",
    "DLC_RANK": "hosts whose HOSTNAME is not in the list, such as containers with random names",
    "DLC_NUM_HOSTS": "an Indexed Job, to which Kubernetes does not tell its completions",
    "DLC_SERVICE": "pods behind a headless service that is not named as the JobSet",
    "DLC_NETWORK_INTERFACE": "hosts with a second network for training",
    "DLC_NUM_CPUS": "`--explain` on a laptop, for a host with other CPUs",
    "DLC_NUM_GPUS": "`--explain` on a laptop; a job that leaves some of a host's GPUs to another",
    "DLC_NUM_NEURONS": "`--explain` on a laptop, for a host with Neuron cores",
    "DLC_EFA": "`--explain` on a laptop; a host whose EFA is to stay unused",
    "DLC_STRATEGY": "whoever does not write the hyperparameters, such as outside of SageMaker",
    "DLC_GROUP_PROGRAMS": "a job whose data hosts run another script than its training hosts",
    "DLC_TF_DATA_WORKERS": "training hosts with CPUs to spare for the input",
    "DLC_ARGV_DIALECT": "a script that was not written for SageMaker, such as one with `store_true` flags",
    "DLC_COMPILER": "compiled training of an unchanged script, or none although the job asks for it",
    "DLC_COMPILER_DEFAULT": "whoever builds an image for jobs that ask for the Training Compiler",
    "DLC_COMPILER_DEBUG": "whoever reports a fault of a compiler",
    "DLC_COMPILER_STRICT": "a test that is to fail as soon as a model is compiled no longer",
    "DLC_COMPILER_REPORT": "jobs whose output folder is not kept",
    "DLC_ELASTIC": "jobs on hosts that are taken away, such as spot instances",
    "DLC_HOROVOD_CONTROLLER": "Adasum without GPUs; scripts that call MPI beside Horovod",
    "DLC_TF_CHIEF": "ParameterServerStrategy before TensorFlow 2.16, which wants `chief`",
    "DLC_STOP_GRACE": "a script that saves for longer, or shorter, than the place's usual time",
    "DLC_TERMINATION_GRACE": "a pod with its own terminationGracePeriodSeconds; `docker stop -t`",
    "DLC_STOPPED_EXIT_CODE": "Kubernetes, which takes 0 as complete, for a job to be started again",
    "DLC_LOGS": "whoever looks for one rank's lines, or reads events by a program",
    "DLC_STEPS": "a script that patches the same classes, and a search for what slows a step",
    "DLC_END_GRACE": "a script that cleans up for longer after a failure of another host",
    "DLC_HANG_TIMEOUT": "jobs at night: a hang costs minutes, and leaves stacks",
    "DLC_PREFLIGHT": "a cluster whose hosts differ on purpose, or whose firewall stops the check only",
    "DLC_CONTENT_KEY": "nobody by hand: dlc sets it in the images that it builds",
    "DLC_PEER_TIMEOUT": "clusters that start hosts, or pull images, slower than in 15 minutes",
    "DLC_HEARTBEAT_TIMEOUT": "hosts that are paused for longer, or jobs that are to end sooner",
    "DLC_MAX_RESTARTS": "long jobs that go on from checkpoints after a failure of a machine",
    "DLC_DATA_HOSTS_MAY_FAIL": "data hosts with a program of one's own that others can take over from",
    "DLC_GROUP_PORT": "two jobs on the network of one host; a firewall that opens other ports",
    "DLC_MPI_PORT": "the same, for jobs over MPI",
    "DLC_HOROVOD_PORT": "the same, for Horovod without MPI",
    "DLC_RAY_PORT": "the same, for Ray",
    "DLC_MASTER_PORT": "the same, for PyTorch; a script that uses port 7777 itself",
    "DLC_TF_WORKER_PORT": "the same, for workers beside parameter servers",
    "DLC_TF_SERVER_PORT": "the same, for parameter servers",
    "DLC_TF_MULTI_WORKER_PORT": "the same, for MultiWorkerMirroredStrategy",
    "DLC_JOB_TOKEN": "several hosts on a network with strangers; MPI outside of SageMaker",
    "DLC_JOB_TOKEN_FILE": "the same, with a script that must not read the token: a Kubernetes secret",
    "DLC_VENV": "an image with the user's own environment beside the image's",
    "DLC_RUN_DIR": "containers with a read-only /run, and users who may write elsewhere only",
    "DLC_DEBUG": "whoever reports a fault of the launcher",
}


def variables_table() -> str:
    """Return the variables as a Markdown table."""
    rows = [
        f"| `{variable.name}` | {variable.when} | {'yes' if variable.user_wins else 'no'} | {variable.why} |"
        for variable in VARIABLES
    ]
    return "\n".join(["| variable | set | your value stays | why |", "|---|---|---|---|", *rows])


def switches_table() -> str:
    """Return the switches as a Markdown table."""
    rows = [
        f"| `{setting.name}` | {setting.default or '-'} | {setting.meaning} | {USERS[setting.name]} |"
        for setting in SETTINGS
    ]
    return "\n".join(["| switch | default | meaning | who needs it, and when |", "|---|---|---|---|", *rows])


def refreshed(document: str) -> str:
    """Return the document with both tables as they are now."""
    for name, table in (("variables", variables_table()), ("switches", switches_table())):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = document.partition(begin)
        document = f"{head}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return document


STRATEGIES = Path(__file__).parents[1] / "src/dlc/job/strategies.py"
STRATEGIES_HEAD = '''"""How a job asks for a strategy; scripts/launcher_tables.py writes it from the launcher's rows."""

# What `--distributed` and a job's file take -> the hyperparameter that asks for it.
STRATEGIES = {
'''


def strategies_module() -> str:
    """Return the file by which dlc knows the launcher's strategies, which it does not import."""
    rows = [row for row in load_strategies() if row.asked_by]
    words = [f'    "{word}": "{row.asked_by[0]}",\n' for row in rows for word in (row.name, *row.also_called)]
    return f"{STRATEGIES_HEAD}{''.join(sorted(words))}}}\n"


if __name__ == "__main__":
    STRATEGIES.write_text(strategies_module())
    page = Path(sys.argv[1])
    page.write_text(refreshed(page.read_text()))
