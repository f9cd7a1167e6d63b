"""The variables that the launcher sets for the user's processes, when and why (docs/launcher-reference.md)."""

from __future__ import annotations

from launch.base.compat import NamedTuple


class Variable(NamedTuple):
    """A variable or a family of them (a name that ends with *)."""

    name: str
    when: str
    why: str
    # A value that the user set stays
    user_wins: bool = True


ALWAYS = "always"
CONTRACT = "SageMaker's contract"
SLURM = "several tasks on a node of Slurm"

VARIABLES = (
    Variable("SM_*", ALWAYS, "what training scripts read: hosts, channels, hyperparameters, folders, hardware", False),
    Variable("CURRENT_HOST", ALWAYS, CONTRACT, False),
    Variable("SAGEMAKER_JOB_NAME", ALWAYS, CONTRACT, False),
    Variable("SAGEMAKER_REGION", ALWAYS, CONTRACT, False),
    Variable("PATH", ALWAYS, "the image's virtual environment comes first, the user's PATH after it", False),
    Variable("PYTHONPATH", ALWAYS, "the code directory, the user's PYTHONPATH, what writes stacks on SIGUSR1", False),
    Variable("HOME", "it cannot be written to", "a folder in DLC_RUN_DIR: libraries keep their caches there", False),
    Variable("USER", "the same, and the user's number has no name", "the number: getpass asks for a name"),
    Variable("PYTHONUNBUFFERED", ALWAYS, "lines reach the log when they are printed, not 8 KB at once"),
    Variable("DLC_STEPS_DIR", ALWAYS, "where each process counts its training steps; empty with DLC_STEPS=off", False),
    Variable("PYTHONFAULTHANDLER", ALWAYS, "a crash in a library, or the watchdog, brings out every thread's stack"),
    Variable(
        "MASTER_ADDR",
        ALWAYS,
        "first host of the distributed group, localhost if nobody names hosts; for torch.distributed and torchrun",
    ),
    Variable("MASTER_PORT", ALWAYS, "7777, the same"),
    Variable("RANK", SLURM, "SLURM_PROCID", False),
    Variable("WORLD_SIZE", SLURM, "the step's tasks", False),
    Variable("LOCAL_RANK", SLURM, "SLURM_LOCALID; 0 if each task sees one GPU", False),
    Variable("LOCAL_WORLD_SIZE", SLURM, "this node's tasks", False),
    Variable("GROUP_RANK", SLURM, "this node's place among the hosts", False),
    Variable("ACCELERATE_USE_CPU", "no accelerator, and no XLA", "true: else each rank trains a model of its own"),
    Variable(
        "USE_TORCH_XLA",
        "torch_xla in the image, no Neuron cores, no XLA asked for",
        "0: else every Trainer goes to xla:0",
    ),
    Variable("NCCL_SOCKET_IFNAME", ALWAYS, "the interface that the place names; NCCL would try all, docker0 too"),
    Variable(
        "GLOO_SOCKET_IFNAME", "several hosts, and the interface exists", "gloo would take the host name's address"
    ),
    Variable("NCCL_DEBUG", "there are GPUs", "WARN: NCCL says why it fails"),
    Variable("NCCL_PROTO", "there is an EFA device", "simple: as SageMaker has it"),
    Variable("FI_PROVIDER", "there is an EFA device", "efa: libfabric takes EFA and nothing slower"),
    Variable("FI_EFA_USE_DEVICE_RDMA", "the EFA device reads remote memory", "1: it is used"),
    Variable("RDMAV_FORK_SAFE", "there is an EFA device", "1: data loaders fork"),
    Variable("DLC_DATA_TOKEN", "several hosts", "a secret of the job, by which its data service knows its own", False),
    Variable("DLC_TF_DATA_GROUP", "a group's program is tf.data", "the group that runs tf.data.service", False),
    Variable("DLC_HOST_ADDRESSES", "hosts whose names do not resolve", "JSON: the address of each", False),
    Variable("DLC_TAKEOVER_FILE", "data hosts", "a file to make once others of the group can take over", False),
    Variable("DLC_SERVES_FILE", "groups, no strategy", "made by a program that serves other hosts", False),
    Variable("DLC_ENDED_HOSTS_FILE", "several groups", "JSON: hosts whose program has ended, for RemoteLoader", False),
    Variable("OMP_NUM_THREADS", "several processes on the host", "each gets its share of the usable CPUs"),
    Variable("PJRT_DEVICE", "strategy or compiler xla", "CUDA, NEURON or CPU, from the devices"),
    Variable("CPU_NUM_DEVICES", "strategy xla on the CPU", "XLA devices of this host"),
    Variable("XLA_THREAD_POOL_SIZE", "strategy xla on the CPU", "a thread per device: they wait for each other"),
    Variable("GPU_NUM_DEVICES", "strategy xla on GPUs", "what torch_xla counts its processes by"),
    Variable("PYTHON_EXEC", "torchrun with several ranks", "our program, which gives each rank's lines its prefix"),
    Variable("DLC_RANK_PYTHON", "beside PYTHON_EXEC", "the Python that it becomes; neither reaches the script", False),
    Variable("DLC_RANK_FOLDER", "beside PYTHON_EXEC", "where our program says how the rank ended", False),
    Variable("TORCH_CPP_LOG_LEVEL", "torchrun, several hosts", "ERROR: strangers would fill its log; not for ranks"),
    Variable("DLC_RANK_QUIET", "beside it", "our program takes both away before the script", False),
    Variable("PET_LOCAL_ADDR", "torchrun on one host, or DLC_ELASTIC", "torchrun would look up this host's own name"),
    Variable("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "DLC_ELASTIC", "1: hosts that come back find the first rank"),
    Variable("LD_LIBRARY_PATH", "below mpirun, if it is unset", "empty: mpirun exports it, and warns without it"),
    Variable("PRTE_MCA_*", "below mpirun", "this job's agent and interface under Open MPI 5's names for them"),
    Variable("SHELL", "below mpirun, if it is unset", "/bin/bash: mpirun asks for it if the user has no name"),
    Variable("DLC_MPI_SITE", "below mpirun", "where the program that mpirun calls instead of ssh finds hosts", False),
    Variable("TF_CONFIG", "strategies tf_*", "cluster and task of TensorFlow's distribution strategies"),
    Variable("CUDA_VISIBLE_DEVICES", "parameter servers", "-1: parameters live in host memory", False),
    Variable("TORCH_NCCL_*", "PyTorch images, there are GPUs", "the flight recorder says who waits for whom in a hang"),
    Variable("TF_CPP_MIN_LOG_LEVEL", "TensorFlow images", "1: as SageMaker's TensorFlow toolkit has it"),
    Variable("TF_USE_LEGACY_KERAS", "TensorFlow 2.16 on", "1; 0 if a script imports keras (using.md)"),
    Variable("S3_REGION", "TensorFlow images", "the job's region, for TensorFlow's S3 file system"),
    Variable("S3_USE_HTTPS", "TensorFlow images", "1: the same"),
    Variable("DLC_RENDEZVOUS_SECRET", "Horovod's rendezvous server", "what a rank has to know to be let in", False),
    Variable("HOROVOD_*", "strategy horovod", "rank, size, controller and rendezvous of each process", False),
    Variable("HOROVOD_CPU_OPERATIONS", "strategy horovod", "gloo"),
    Variable(
        "HOROVOD_GLOO_TIMEOUT_SECONDS", "strategy horovod", "600: one rank may save for minutes while the others wait"
    ),
    Variable("HOROVOD_GLOO_IFACE", "strategy horovod", "the interface that the place names"),
    Variable("RAY_ADDRESS", "strategy ray, the script", "the cluster that ray.init() joins", False),
    Variable("RAY_USAGE_STATS_ENABLED", "strategy ray", "0: nothing is told to Ray's makers"),
    Variable("RAY_AUTH_MODE", "strategy ray, several hosts", "token: a secret of the job closes the cluster"),
    Variable("RAY_AUTH_TOKEN_PATH", "strategy ray, several hosts", "the file in DLC_RUN_DIR that holds it"),
    Variable("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "strategy ray, one host", "0: Ray listens on loopback only"),
    Variable("DLC_COMPILER*", "a compiler is asked for", "what dlc_runtime reads: backend, debug mode, report folder"),
    Variable("TF_XLA_FLAGS", "compiler xla, TensorFlow", "--tf_xla_auto_jit=2: XLA without a change to the script"),
    Variable("XLA_FLAGS", "compiler xla, debug mode", "XLA's programs, 200 at most: output/data/compiler/debug"),
    Variable("PT_XLA_DEBUG_*", "the same, PyTorch", "why torch_xla compiles: output/data/compiler/debug"),
    Variable("PIP_ROOT_USER_ACTION", "while requirements are installed", "ignore: in a container root is no mistake"),
)


def family_of(name: str) -> Variable | None:
    """Return the table's entry for a variable: its own, else that of its family."""
    own = next((variable for variable in VARIABLES if variable.name == name), None)
    return own or next(
        (item for item in VARIABLES if item.name.endswith("*") and name.startswith(item.name[:-1])), None
    )
