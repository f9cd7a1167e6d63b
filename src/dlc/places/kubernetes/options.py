"""What a cluster has to be told beside the job: the options below `places: {kubernetes: ...}`. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dlc.job.values import match_stated, match_text
from dlc.places.place import PlaceOptions

# A folder of a volume: pvc://CLAIM, pvc://CLAIM/FOLDER.
CLAIM = re.compile(r"pvc://([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?:/+(.*))?")
BUCKET = re.compile(r"s3://[^/]+/.+")
# Names of Kubernetes: of a namespace, of an object.
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
OBJECT = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
# A value of a label, and its key: a name, or a domain and a name.
VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
KEY = rf"({OBJECT}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?"
# Ten years: a number of JSON without a doubt.
LONGEST_SECONDS = 10 * 365 * 86400


def read_claim(address: str) -> tuple[str, str] | None:
    """Return the claim and the folder in it of a pvc:// address, None for another address."""
    found = CLAIM.fullmatch(address)
    return (found[1], (found[2] or "").strip("/")) if found else None


def leads_out(address: str) -> bool:
    """Tell whether a folder of a claim is outside of its volume: Kubernetes mounts none with .. in it."""
    claim = read_claim(address)
    return claim is not None and ".." in claim[1].split("/")


def _within(text: str) -> str:
    if leads_out(text):
        raise ValueError("a folder in the volume, without ..")
    return text


def _seconds(text: str) -> str:
    if text and not (re.fullmatch("[1-9][0-9]{0,9}", text) and int(text) <= LONGEST_SECONDS):
        raise ValueError(f"a number of seconds from 1 to {LONGEST_SECONDS:,}")
    return text


NAME = "small letters, digits and -"
Namespace = Annotated[str, match_stated(LABEL, NAME)]
ObjectName = Annotated[str, match_stated(OBJECT, f"{NAME} and .")]
Folder = Annotated[
    str, match_stated(CLAIM.pattern, "a folder of a volume, such as pvc://CLAIM/FOLDER"), AfterValidator(_within)
]
Source = Annotated[
    str,
    match_stated(
        f"{CLAIM.pattern}|{BUCKET.pattern}", "pvc://CLAIM/FOLDER, or an archive such as s3://BUCKET/code.tar.gz"
    ),
    AfterValidator(_within),
]
LabelKey = Annotated[str, match_text(KEY, "the key of a label, such as disk or example.com/disk")]
LabelValue = Annotated[str, match_text(VALUE, "the value of a label: at most 63 letters, digits, _ . and -")]
TaintKey = Annotated[str, match_text(KEY, "the key of a taint, such as nvidia.com/gpu")]
Retries = Annotated[str, match_stated(r"[0-9]{1,3}", "a number from 0 to 999")]


class KubernetesOptions(PlaceOptions):
    """How a job gets into a cluster, and what its pods are given."""

    kind: Literal["jobset", "trainjob"] = Field(default="jobset", description="JobSet, or Kubeflow Trainer's TrainJob")
    context: str = Field(default="", description="kubectl's context; without it the current one")
    namespace: Namespace = Field(default="", description="the namespace; without it the context's")
    queue: ObjectName = Field(default="", description="a local queue of Kueue, in which the job waits for its turn")
    retries: Retries = Field(default="3", description="new starts after a lost host, a disruption or a stop")
    max_run_seconds: Annotated[str, AfterValidator(_seconds)] = Field(
        default="", description="how long the job may run after each start; without it as long as it takes"
    )
    results: Folder = Field(default="", description="keeps model and output: pvc://CLAIM/FOLDER")
    source: Source = Field(default="", description="code that is there already: pvc://CLAIM/FOLDER, s3://BUCKET/KEY")
    service_account: ObjectName = Field(default="", description="the pods' service account")
    pull_secret: ObjectName = Field(default="", description="the Secret by which nodes pull the image")
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = Field(
        default="", description="when nodes pull the image; Never: they have it"
    )
    efa: Literal["yes", "no"] = Field(default="yes", description="no: no EFA, although the machines have it")
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={}, description="labels of the nodes that the pods run on"
    )
    tolerations: tuple[TaintKey, ...] = Field(default=(), description="keys of taints that the pods tolerate")


OPTIONS = KubernetesOptions
