"""The objects of a job in a cluster: a Secret, a ConfigMap, and a JobSet or a TrainJob with its runtime. Pure."""

from __future__ import annotations

import base64
import json

from dlc.core.labels import JOB
from dlc.job.job_spec import Group, JobSpec, describe_channels
from dlc.places.kubernetes.names import PARAMETERS_FILE, name_channels_file, name_group, name_object
from dlc.places.kubernetes.options import KubernetesOptions, read_claim
from dlc.places.kubernetes.pod import CONFIG, Object, make_pod
from dlc.places.kubernetes.source import NAME, pack_code
from dlc.places.place import LOST_CODE, STOPPED_CODE, Document

JOB_SET, TRAIN_JOB = "jobset.x-k8s.io/v1alpha2", "trainer.kubeflow.org/v1alpha1"
QUEUE = "kueue.x-k8s.io/queue-name"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
# The Kubeflow SDK lists no job of a namespace if one of its runtimes lacks this label. The launcher decides what runs.
FRAMEWORK = {"trainer.kubeflow.org/framework": "dlc"}
# Another host was lost, a stop. A new start helps; after all other codes the job fails again.
RETRIED = [LOST_CODE, STOPPED_CODE]
# In place of a secret's value.
SECRET = "set by dlc submit"  # noqa: S105 - what --dry-run shows


def render_job(job: JobSpec, options: KubernetesOptions) -> Document:
    """Return the objects, those first that others need. `value` is the list of them."""
    objects = [make_secret(job, options), make_config_map(job, options)]
    if options.kind == "trainjob":
        objects += [make_runtime(job, options), make_train_job(job, options)]
    else:
        objects.append(make_job_set(job, options))
    # Slow to import, and what only asks for jobs needs none.
    from dlc.core.yaml_text import write_yaml

    return Document(f"{options.kind}.yml", write_yaml(*objects), objects)


def _make_metadata(job: JobSpec, options: KubernetesOptions, *, waits: bool = False) -> Object:
    labels = {JOB: job.name, **({QUEUE: options.queue} if waits and options.queue else {})}
    namespace = {"namespace": options.namespace} if options.namespace else {}
    return {"name": name_object(job), **namespace, "labels": labels}


def make_secret(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return the Secret of the job's token and of variables that no document shows."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _make_metadata(job, options),
        "type": "Opaque",
        "immutable": True,
        "stringData": dict.fromkeys(job.secrets, SECRET),
    }


def make_config_map(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return the ConfigMap of what is in /opt/ml/input/config: hyperparameters, channels, and the code's archive."""
    packed = {} if options.source else {NAME: base64.b64encode(pack_code(job.code)).decode()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _make_metadata(job, options),
        "immutable": True,
        "data": {
            PARAMETERS_FILE: json.dumps(make_hyperparameters(job, options), indent=2),
            **{
                name_channels_file(job, group): json.dumps(describe_channels(group.channels), indent=2)
                for group in job.host_groups
            },
        },
        **({"binaryData": packed} if packed else {}),
    }


def make_hyperparameters(job: JobSpec, options: KubernetesOptions) -> dict[str, str]:
    """Return the file's values: the job's, its entry point, and where its code is."""
    archive = options.source or f"{CONFIG}/{NAME}"
    where = {} if read_claim(options.source) else {"sagemaker_submit_directory": json.dumps(archive)}
    return {"sagemaker_program": json.dumps(job.program), **where, **job.parameters}


def make_job_set(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return the JobSet."""
    metadata = _make_metadata(job, options, waits=True)
    return {"apiVersion": JOB_SET, "kind": "JobSet", "metadata": metadata, "spec": make_spec(job, options)}


def make_spec(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return a replicated job for each group, and when all of them have ended, well or not."""
    targets = [name_group(group.name) for group in job.training_groups]
    every = len(targets) == len(job.host_groups)
    return {
        # The headless service, called as the JobSet.
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", **({} if every else {"targetReplicatedJobs": targets})},
        "failurePolicy": {
            "maxRestarts": int(options.retries),
            # All hosts start together: new pods have the names of the old ones.
            "restartStrategy": "BlockingRecreate",
            "rules": [
                {"name": "wouldFailAgain", "action": "FailJobSet", "onJobFailureReasons": _list_reasons(options)},
            ],
        },
        "replicatedJobs": [
            {"name": name_group(group.name), "replicas": 1, "template": make_group(job, group, options)}
            for group in job.host_groups
        ],
    }


def _list_reasons(options: KubernetesOptions) -> list[str]:
    """Return why a failed group ends the job without a new start. A time limit would begin anew with it."""
    return ["PodFailurePolicy", *(["DeadlineExceeded"] if options.max_run_seconds else [])]


def make_group(job: JobSpec, group: Group, options: KubernetesOptions) -> Object:
    """Return a group's Job. One host that fails ends it: the launcher has ended the others by then."""
    is_trainer = options.kind == "trainjob" and group == job.training_groups[0]
    labels = {JOB: job.name, **({ANCESTOR: "trainer"} if is_trainer else {})}
    return {
        "metadata": {"labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": group.hosts,
            "parallelism": group.hosts,
            "backoffLimit": 0,
            **({"activeDeadlineSeconds": int(options.max_run_seconds)} if options.max_run_seconds else {}),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    # A node that is drained or lost; then what a new start mends; all other codes end the job.
                    {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "Count", "onExitCodes": {"operator": "In", "values": RETRIED}},
                    {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": RETRIED}},
                ]
            },
            "template": make_pod(job, group, options),
        },
    }


def make_runtime(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return the runtime of this job alone: Kubeflow Trainer makes the JobSet of it."""
    template = {"metadata": {"labels": {JOB: job.name}}, "spec": make_spec(job, options)}
    metadata = _make_metadata(job, options)
    return {
        "apiVersion": TRAIN_JOB,
        "kind": "TrainingRuntime",
        "metadata": {**metadata, "labels": {**metadata["labels"], **FRAMEWORK}},
        "spec": {"mlPolicy": {"numNodes": job.training_groups[0].hosts}, "template": template},
    }


def make_train_job(job: JobSpec, options: KubernetesOptions) -> Object:
    """Return the TrainJob: the first training group is its trainer, the other groups are the runtime's."""
    reference = {"apiGroup": TRAIN_JOB.partition("/")[0], "kind": "TrainingRuntime", "name": name_object(job)}
    return {
        "apiVersion": TRAIN_JOB,
        "kind": "TrainJob",
        "metadata": _make_metadata(job, options, waits=True),
        "spec": {"runtimeRef": reference, "trainer": {"numNodes": job.training_groups[0].hosts}},
    }
