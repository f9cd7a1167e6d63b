"""What a cluster cannot do of a job, found before anything is sent. Reads the job's code, for its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from dlc.jobs.run.job import GRACE
from dlc.submit.kubernetes.document import make_hyperparameters
from dlc.submit.kubernetes.machines import refuse_resources
from dlc.submit.kubernetes.names import refuse_names
from dlc.submit.kubernetes.options import KubernetesOptions, read_claim
from dlc.submit.kubernetes.source import MOST_BYTES, SourceTooLargeError, pack_code
from dlc.submit.places import Refusal, SubmittedJob

# The cluster says these.
TAKEN = ("DLC_GROUPS", "DLC_HOSTS", "DLC_NUM_HOSTS", "DLC_RANK", "DLC_SERVICE", "JOBSET_NAME")
CLAIM_HINT = "copy it into a volume, and name it by its claim: pvc://CLAIM/FOLDER"
# With the code's archive an object stays below etcd's 1.5 MiB.
MOST_HYPERPARAMETERS = 64 << 10


def refuse_job(job: SubmittedJob, options: KubernetesOptions) -> Sequence[Refusal]:
    """Return all that a cluster cannot do."""
    return [
        *refuse_names(job),
        *_refuse_image(job, options),
        *_refuse_volumes(job),
        *_refuse_code(job, options),
        *refuse_resources(job),
        *_refuse_settings(job),
    ]


def _refuse_image(job: SubmittedJob, options: KubernetesOptions) -> Iterator[Refusal]:
    """Yield an image without a registry: nodes would ask Docker Hub, where the name is somebody else's."""
    registry, slash, _ = job.image.partition("/")
    is_host = bool(slash) and (registry == "localhost" or bool(re.search("[.:]", registry)))
    if not is_host and options.pull_policy != "Never":
        hint = "dlc push it and name it with --image; pull_policy=Never if the nodes have it"
        yield Refusal(("image",), "an image with its registry, such as REGISTRY/NAME:TAG", job.image, hint)


def _refuse_volumes(job: SubmittedJob) -> Iterator[Refusal]:
    named = {("channels", name): address for name, address in job.channels.items()}
    for keys, address in [*named.items(), (("checkpoints",), job.checkpoints)]:
        if address and not read_claim(address):
            yield Refusal(keys, "a volume of the cluster, such as pvc://CLAIM/FOLDER", address, CLAIM_HINT)


def _refuse_code(job: SubmittedJob, options: KubernetesOptions) -> Iterator[Refusal]:
    if not options.source:
        try:
            pack_code(job.code)
        except SourceTooLargeError:
            expected = f"code of at most {MOST_BYTES >> 10} KiB in a ConfigMap, packed"
            hint = "put it into a volume or into S3: --with source=pvc://CLAIM/FOLDER, s3://BUCKET/code.tar.gz"
            yield Refusal(("source",), expected, f"more in {job.code[0]}", hint)
        except OSError as error:
            yield Refusal(("source",), "files that can be read", str(error))
    size = len(json.dumps(make_hyperparameters(job, options)))
    if size > MOST_HYPERPARAMETERS:
        yield Refusal(("hyperparameters",), f"at most {MOST_HYPERPARAMETERS} characters in all", str(size))


def _refuse_settings(job: SubmittedJob) -> Iterator[Refusal]:
    if job.user and not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", job.user):
        yield Refusal(("user",), "numbers, such as 1000 or 1000:100", job.user, "id -u USER")
    for name in (*job.environment, *job.secrets):
        if name in TAKEN:
            yield Refusal(("environment", name), "hosts that the cluster names", name, "leave it out")
    if (stated := job.environment.get(GRACE, str(job.grace))) != str(job.grace):
        yield Refusal(("environment", GRACE), f"the job's grace, {job.grace}", stated, "say it with grace")
