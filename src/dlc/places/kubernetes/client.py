"""Hands a job to a cluster by kubectl and looks after it there: submit, list, wait, stop."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from secrets import token_hex

from dlc.core.errors import DlcError, UsageError
from dlc.core.labels import JOB
from dlc.job.job_spec import JobSpec
from dlc.places.kubernetes.kubectl import Object, explain_failure, make_words, read_objects, run_kubectl
from dlc.places.kubernetes.options import KubernetesOptions
from dlc.places.kubernetes.pod import JOB_SET_LABEL
from dlc.places.place import Document, ListedJob

JOB_SETS, TRAIN_JOBS, RUNTIMES = (
    "jobsets.jobset.x-k8s.io",
    "trainjobs.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
)
LOCAL_QUEUES, SERVICE_ACCOUNTS, SECRETS = "localqueues.kueue.x-k8s.io", "serviceaccounts", "secrets"
# One for each call of submit_job: by it what a failed one made is found.
SUBMISSION = "org.dlc.submission"
COMPLETED, FAILED, SUSPENDED = "Completed", "Failed", "Suspended"
ASK_AGAIN_SECONDS = 2.0
# After the grace, for the controllers.
STOP_SECONDS = 120.0
# A job that is gone, or whose pods say no code.
UNKNOWN_CODE = 1


def submit_job(job: JobSpec, options: KubernetesOptions, document: Document, secrets: Mapping[str, str]) -> str:
    """Create the objects; return the name of the job. The server is asked first whether it would take them.

    If a later step fails, or Ctrl-C comes, what earlier ones made is removed.
    """
    submission = token_hex(8)
    objects = [_prepare(found, submission, secrets) for found in document.value]
    *before, last = objects
    _require_named(options)
    # The server takes a TrainJob only when its runtime is there.
    asked = before if last["kind"] == "TrainJob" else objects
    run_kubectl(options, "create", "--dry-run=server", "--output", "name", "--filename", "-", given=asked)
    try:
        for found in before:
            run_kubectl(options, "create", "--output", "name", "--filename", "-", given=[found])
        done = run_kubectl(options, "create", "--output", "json", "--filename", "-", given=[last])
        _own_objects(options, before, _read_item(done.stdout))
    except BaseException:
        _remove_submission(options, submission, {found["kind"] for found in objects})
        raise
    return str(last["metadata"]["name"])


def _require_named(options: KubernetesOptions) -> None:
    """Raise UsageError for a queue, an account or a Secret that is not there.

    The server takes a job that names it all the same, and the job waits for it without a word.
    """
    named = {LOCAL_QUEUES: options.queue, SERVICE_ACCOUNTS: options.service_account, SECRETS: options.pull_secret}
    for kind, name in named.items():
        if not name:
            continue
        done = run_kubectl(options, "get", kind, name, "--output", "name", check=False)
        # Who may create jobs need not have the right to read these.
        if done.returncode and "orbidden" not in done.stderr:
            raise explain_failure(("get", kind), done.stderr)


def _read_item(text: str) -> Object:
    """Return what `kubectl create` has created, which is in a list if it was in one."""
    found: Object = json.loads(text)
    item: Object = found["items"][0] if found.get("kind") == "List" else found
    return item


def _prepare(found: Object, submission: str, secrets: Mapping[str, str]) -> Object:
    """Return an object with the label of this submission; a Secret with its values."""
    labels = {**found["metadata"]["labels"], SUBMISSION: submission}
    values = {"stringData": dict(secrets)} if found["kind"] == "Secret" else {}
    return {**found, "metadata": {**found["metadata"], "labels": labels}, **values}


def _own_objects(options: KubernetesOptions, objects: Sequence[Object], owner: Object) -> None:
    """Let the job own its other objects: the cluster removes them with it."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    patch = json.dumps({"metadata": {"ownerReferences": [reference]}})
    for found in objects:
        name = f"{_name_kind(found['kind'])}/{found['metadata']['name']}"
        run_kubectl(options, "patch", name, "--type", "merge", "--patch", patch)


def _name_kind(kind: str) -> str:
    return {"JobSet": JOB_SETS, "TrainJob": TRAIN_JOBS, "TrainingRuntime": RUNTIMES}.get(kind, kind.lower())


def _remove_submission(options: KubernetesOptions, submission: str, kinds: set[str]) -> None:
    """Remove what one submission made. An error of it hides not why it was to be removed."""
    names = ",".join(sorted(_name_kind(kind) for kind in kinds))
    words = ("delete", names, "--selector", f"{SUBMISSION}={submission}", "--wait=false")
    try:
        run_kubectl(options, *words)
    except DlcError as error:
        command = shlex.join(make_words(options, *words))
        print(f"dlc: warning: what was created may be left: {error.message}; {command}", file=sys.stderr)


def list_jobs(options: KubernetesOptions) -> list[ListedJob]:
    """Return the jobs of dlc in the namespace, ended ones too, until they are deleted."""
    found = read_objects(options, JOB_SETS, "--selector", JOB)
    return [
        ListedJob(
            id=each["metadata"]["name"],
            name=each["metadata"]["labels"][JOB],
            state=read_state(each),
            since=each["metadata"].get("creationTimestamp", ""),
            hosts=str(count_hosts(each)),
        )
        for each in sorted(found, key=lambda each: str(each["metadata"].get("creationTimestamp", "")))
    ]


def read_state(job_set: Object) -> str:
    """Return Completed, Failed, Suspended, else Running, with the number of new starts."""
    status = job_set.get("status", {})
    true = {each["type"] for each in status.get("conditions", []) if each["status"] == "True"}
    ended = next((word for word in (COMPLETED, FAILED, SUSPENDED) if word in true), "Running")
    return f"{ended}, start {status['restarts'] + 1}" if status.get("restarts") else ended


def has_ended(job_set: Object) -> bool:
    """Tell whether no pod of the job will start again."""
    return read_state(job_set).startswith((COMPLETED, FAILED))


def count_hosts(job_set: Object) -> int:
    """Return how many pods a job has at a time."""
    return sum(each["template"]["spec"].get("completions", 1) for each in job_set["spec"]["replicatedJobs"])


def find_job(options: KubernetesOptions, job_id: str, kind: str = JOB_SETS) -> Object | None:
    """Return the JobSet, or the object of another kind; None if it is gone."""
    found = run_kubectl(options, "get", kind, job_id, "--ignore-not-found", "--output", "json").stdout
    job: Object | None = json.loads(found) if found.strip() else None
    return job


def await_job(options: KubernetesOptions, job_id: str) -> Object | None:
    """Return the JobSet, once Kubeflow Trainer has made it of a TrainJob; None if the job is gone, or will get none."""
    while (job_set := find_job(options, job_id)) is None and options.kind == "trainjob":
        train_job = find_job(options, job_id, TRAIN_JOBS)
        if train_job is None or read_state(train_job) == FAILED:
            return None
        time.sleep(ASK_AGAIN_SECONDS)
    return job_set


def absence_error(options: KubernetesOptions, job_id: str) -> UsageError:
    """Return the error of a job that is gone, or never was in this namespace."""
    where = f"in the namespace {options.namespace}" if options.namespace else "in the context's namespace"
    return UsageError(f"{job_id}: expected a job {where}, found none", "dlc ps --to kubernetes --with namespace=NAME")


def list_pods(options: KubernetesOptions, job_id: str) -> list[Object]:
    """Return the job's pods, in the order of its hosts."""
    found = read_objects(options, "pods", "--selector", f"{JOB_SET_LABEL}={job_id}")
    return sorted(found, key=lambda pod: (len(_name_host(pod)), _name_host(pod), pod["metadata"]["name"]))


def _name_host(pod: Object) -> str:
    return str(pod["spec"].get("hostname", pod["metadata"]["name"]))


def name_host(pod: Object) -> str:
    """Return a pod's host as the launcher calls it."""
    domain = pod["spec"].get("subdomain", "")
    return f"{_name_host(pod)}.{domain}" if domain else _name_host(pod)


def wait_for_job(job_id: str, options: KubernetesOptions) -> int:
    """Return 0, else the code of the pod that failed first; 1 if the job is gone."""
    while (job_set := await_job(options, job_id)) is not None:
        if has_ended(job_set):
            return 0 if read_state(job_set).startswith(COMPLETED) else read_code(list_pods(options, job_id))
        time.sleep(ASK_AGAIN_SECONDS)
    return UNKNOWN_CODE


def read_code(pods: Sequence[Object]) -> int:
    """Return the exit code of the pod that was the first to fail, 1 if no pod tells one."""
    ends = [
        (end["finishedAt"], end["exitCode"])
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", [])
        if (end := status.get("state", {}).get("terminated")) and end["exitCode"]
    ]
    return int(min(ends)[1]) if ends else UNKNOWN_CODE


def stop_job(job_id: str, options: KubernetesOptions) -> str:
    """Delete the job and return when its pods have ended: they have the job's grace to save."""
    job_set = find_job(options, job_id)
    owners = [each["kind"] for each in job_set["metadata"].get("ownerReferences", [])] if job_set else [options.kind]
    # Kubeflow Trainer would make a JobSet anew; of a TrainJob that is new it has made none yet.
    kind = TRAIN_JOBS if {"TrainJob", "trainjob"} & set(owners) else JOB_SETS
    found = job_set or find_job(options, job_id, kind)
    if found is None:
        raise absence_error(options, job_id)
    seconds = (_read_grace(job_set) if job_set else 0.0) + STOP_SECONDS
    words = ("--cascade=foreground", "--wait=true", f"--timeout={seconds:.0f}s")
    run_kubectl(options, "delete", kind, job_id, *words, seconds=seconds + STOP_SECONDS)
    # A dlc that was killed between creating them and giving them an owner left these.
    if name := found["metadata"].get("labels", {}).get(JOB):
        run_kubectl(options, "delete", "secret,configmap", "--selector", f"{JOB}={name}", "--wait=false")
    return f"{job_id} has ended"


def _read_grace(job_set: Object) -> float:
    """Return the longest time that a pod has to save."""
    pods = [each["template"]["spec"]["template"]["spec"] for each in job_set["spec"]["replicatedJobs"]]
    return max(float(pod.get("terminationGracePeriodSeconds", 30)) for pod in pods)
