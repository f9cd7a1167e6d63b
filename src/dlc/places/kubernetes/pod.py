"""One pod of a group, as the template of its Job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dlc.core.labels import JOB
from dlc.job.job_spec import ONLY_GROUP, Group, JobSpec
from dlc.places.kubernetes.machines import format_quantity, list_types, make_resources
from dlc.places.kubernetes.names import CHANNELS_FILE, NODE, PARAMETERS_FILE, name_channels_file, name_object
from dlc.places.kubernetes.options import KubernetesOptions, read_claim
from dlc.places.kubernetes.source import NAME as ARCHIVE
from dlc.places.place import BASE, STOPPED, STOPPED_CODE

CONFIG = f"{BASE}/input/config"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
TYPE_LABEL = "node.kubernetes.io/instance-type"
# Folder of the results -> folder of a host.
RESULTS = {"model": "model", "output": "output/data"}

Object = dict[str, Any]


def make_pod(job: JobSpec, group: Group, options: KubernetesOptions) -> Object:
    """Return the template of a group's pods."""
    volumes = _Volumes(job, group, options)
    resources = make_resources(job, group, options)
    container: Object = {
        "name": NODE,
        "image": group.image,
        **({"imagePullPolicy": options.pull_policy} if options.pull_policy else {}),
        # No command: the image's own entry point starts the launcher.
        "args": [_keep_dollars(word) for word in ("train", *job.arguments)],
        "env": list(make_environment(job)),
        **({"resources": resources} if resources else {}),
        "volumeMounts": volumes.mounts,
        # The launcher's last lines say why a host failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "metadata": {"labels": {JOB: job.name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": job.grace,
            # Variables of services that happen to be in the namespace: one called dlc-master would set DLC_MASTER_PORT.
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            **_choose_nodes(group, options),
            **({"serviceAccountName": options.service_account} if options.service_account else {}),
            **({"imagePullSecrets": [{"name": options.pull_secret}]} if options.pull_secret else {}),
            **({"securityContext": read_user(job.user)} if job.user else {}),
            "containers": [container],
            "volumes": volumes.volumes,
        },
    }


def make_environment(job: JobSpec) -> Iterator[Object]:
    """Yield the variables: where the hosts are, the job's own, and secrets by their name."""
    yield {"name": "JOBSET_NAME", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_SET_LABEL}']"}}}
    stated = {**state_hosts(job), STOPPED: str(STOPPED_CODE), **job.variables}
    for name, value in stated.items():
        if name not in job.secrets:
            yield {"name": name, "value": _keep_dollars(value)}
    for name in job.secrets:
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": name_object(job), "key": name}}}


def state_hosts(job: JobSpec) -> Mapping[str, str]:
    """Return what tells the launcher how many pods there are: a pod knows its own name only."""
    if [group.name for group in job.host_groups] == [ONLY_GROUP]:
        return {"DLC_NUM_HOSTS": str(job.host_count)}
    return {"DLC_GROUPS": ";".join(f"{group.name}={group.hosts}" for group in job.host_groups)}


def _keep_dollars(text: str) -> str:
    """Return a text of which Kubernetes makes this one: it replaces $(NAME), and $$ by $."""
    return text.replace("$", "$$")


def read_user(user: str) -> Object:
    """Return `--user 1000:100` as a security context. Raises ValueError for names."""
    uid, _, gid = user.partition(":")
    return {"runAsUser": int(uid), **({"runAsGroup": int(gid)} if gid else {})}


def _choose_nodes(group: Group, options: KubernetesOptions) -> Object:
    found: Object = {}
    if types := list_types(group):
        terms = [{"matchExpressions": [{"key": TYPE_LABEL, "operator": "In", "values": types}]}]
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        found["affinity"] = {"nodeAffinity": rule}
    if options.node_selector:
        found["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        found["tolerations"] = [{"key": key, "operator": "Exists"} for key in options.tolerations]
    return found


def _choose_files(job: JobSpec, group: Group, options: KubernetesOptions) -> Object:
    """Return which keys of the ConfigMap are files of a group, if it has channels of its own."""
    own = name_channels_file(job, group)
    if own == CHANNELS_FILE:
        return {}
    files = {PARAMETERS_FILE: PARAMETERS_FILE, own: CHANNELS_FILE, **({} if options.source else {ARCHIVE: ARCHIVE})}
    return {"items": [{"key": key, "path": path} for key, path in files.items()]}


class _Volumes:
    """Collects the volumes of a pod and where its container finds them."""

    def __init__(self, job: JobSpec, group: Group, options: KubernetesOptions) -> None:
        self._claims: dict[str, str] = {}
        self.volumes: list[Object] = []
        self.mounts: list[Object] = []
        size = {"sizeLimit": format_quantity(job.shared_memory)} if job.shared_memory else {}
        shared = {"medium": "Memory", **size}
        self._add("shm", {"emptyDir": shared}, "/dev/shm")  # noqa: S108 - its place on Linux
        # Any user may write to it, whatever the image has there.
        self._add("opt-ml", {"emptyDir": {}}, BASE)
        config = {"name": name_object(job), **_choose_files(job, group, options)}
        self._add("config", {"configMap": config}, CONFIG, readOnly=True)
        for name, address in group.channels.items():
            self._add_claim(address, f"{BASE}/input/data/{name}", readOnly=True)
        if job.checkpoints:
            self._add_claim(job.checkpoints, f"{BASE}/checkpoints")
        if read_claim(options.source):
            self._add_claim(options.source, f"{BASE}/code", readOnly=True)
        for part, place in RESULTS.items() if options.results else ():
            self._add_claim(f"{options.results}/{job.name}/{part}", f"{BASE}/{place}")

    def _add(self, name: str, source: Object, path: str, **more: Any) -> None:
        if source:
            self.volumes.append({"name": name, **source})
        self.mounts.append({"name": name, "mountPath": path, **more})

    def _add_claim(self, address: str, path: str, **more: Any) -> None:
        """Mount a folder of a claim, which is one volume however many of its folders are mounted."""
        claim, folder = read_claim(address) or ("", "")
        is_new = claim not in self._claims
        name = self._claims.setdefault(claim, f"claim-{len(self._claims)}")
        source = {"persistentVolumeClaim": {"claimName": claim}} if is_new else {}
        self._add(name, source, path, **({"subPath": folder} if folder else {}), **more)
