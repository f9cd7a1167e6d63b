"""How a job asks for a strategy; scripts/launcher_tables.py writes it from the launcher's rows."""

# What `--distributed` and a job's file take -> the hyperparameter that asks for it.
STRATEGIES = {
    "horovod": "sagemaker_horovod_enabled",
    "mpi": "sagemaker_mpi_enabled",
    "ray": "sagemaker_ray_enabled",
    "tensorflow": "sagemaker_multi_worker_mirrored_strategy_enabled",
    "tf_multi_worker": "sagemaker_multi_worker_mirrored_strategy_enabled",
    "tf_parameter_server": "sagemaker_parameter_server_enabled",
    "torchrun": "sagemaker_torch_distributed_enabled",
    "xla": "sagemaker_pytorch_xla_multi_worker_enabled",
}
