"""What a user of SageMaker's SDKs writes for their local mode: `docker compose` starts a container for each host.

    python local_mode.py 2|3 IMAGE SOURCE_DIR ENTRY_POINT HOSTS FOLDER

Training is below torchrun. The model's archive comes to FOLDER/model.tar.gz with SDK 2, and to
FOLDER/compressed_artifacts/model.tar.gz with SDK 3.
"""

import sys

ROLE = "arn:aws:iam::123456789012:role/Training"
CALM = {"OMP_NUM_THREADS": "1"}


def fit_estimator(image, source_dir, entry_point, hosts, folder):
    """Train by an estimator of SDK 2."""
    from sagemaker.local import LocalSession
    from sagemaker.pytorch import PyTorch

    session = LocalSession()
    session.config = {"local": {"local_code": True, "container_root": folder}}
    estimator = PyTorch(
        entry_point=entry_point,
        source_dir=source_dir,
        image_uri=image,
        role=ROLE,
        instance_type="local",
        instance_count=int(hosts),
        distribution={"torch_distributed": {"enabled": True}},
        hyperparameters={"epochs": 1},
        environment=CALM,
        output_path=f"file://{folder}",
        sagemaker_session=session,
    )
    estimator.fit()


def run_trainer(image, source_dir, entry_script, hosts, folder):
    """Train by a trainer of SDK 3."""
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import Torchrun
    from sagemaker.train.model_trainer import Mode

    trainer = ModelTrainer(
        training_mode=Mode.LOCAL_CONTAINER,
        training_image=image,
        base_job_name="digits",
        role=ROLE,
        source_code=SourceCode(source_dir=source_dir, entry_script=entry_script),
        distributed=Torchrun(process_count_per_node=1),
        compute=Compute(instance_type="local_cpu", instance_count=int(hosts)),
        hyperparameters={"epochs": 1},
        environment=CALM,
        local_container_root=folder,
    )
    trainer.train()


{"2": fit_estimator, "3": run_trainer}[sys.argv[1]](*sys.argv[2:])
