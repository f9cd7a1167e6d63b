"""What a cluster cannot do of a job, found before anything is sent. Reads the job's code, for its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from dlc.core.errors import DlcError
from dlc.job.job_spec import JobSpec
from dlc.places.kubernetes.document import make_hyperparameters
from dlc.places.kubernetes.machines import refuse_resources
from dlc.places.kubernetes.names import refuse_names
from dlc.places.kubernetes.options import KubernetesOptions, leads_out, read_claim
from dlc.places.kubernetes.source import MOST_BYTES, SourceTooLargeError, pack_code
from dlc.places.place import Refusal
from dlc.places.refusals import refuse_images, refuse_variables

CLAIM_HINT = "copy it into a volume, and name it by its claim: pvc://CLAIM/FOLDER"
IMAGE_HINT = "pull_policy=Never if the nodes have it"
# With the code's archive an object stays below etcd's 1.5 MiB.
MOST_HYPERPARAMETERS = 64 << 10


def refuse_job(job: JobSpec, options: KubernetesOptions) -> Sequence[Refusal]:
    """Return all that a cluster cannot do."""
    return [
        *refuse_names(job),
        *(() if options.pull_policy == "Never" else refuse_images(job.list_images(), IMAGE_HINT)),
        *_refuse_volumes(job),
        *_refuse_code(job, options),
        *refuse_resources(job),
        *_refuse_user(job),
        *refuse_variables(job, "the cluster"),
    ]


def _refuse_volumes(job: JobSpec) -> Iterator[Refusal]:
    for keys, address in job.list_data():
        if not read_claim(address):
            yield Refusal(keys, "a volume of the cluster, such as pvc://CLAIM/FOLDER", address, CLAIM_HINT)
        elif leads_out(address):
            yield Refusal(keys, "a folder in the volume, without ..", address)


def _refuse_code(job: JobSpec, options: KubernetesOptions) -> Iterator[Refusal]:
    if not options.source:
        try:
            pack_code(job.code)
        except SourceTooLargeError:
            expected = f"code of at most {MOST_BYTES >> 10} KiB in a ConfigMap, packed"
            hint = "put it into a volume or into S3: --with source=pvc://CLAIM/FOLDER, s3://BUCKET/code.tar.gz"
            yield Refusal(("source",), expected, f"more in {job.code[0]}", hint)
        except DlcError as error:
            yield Refusal(("source",), "files that can be read", error.message)
    size = len(json.dumps(make_hyperparameters(job, options)))
    if size > MOST_HYPERPARAMETERS:
        yield Refusal(("hyperparameters",), f"at most {MOST_HYPERPARAMETERS} characters in all", str(size))


def _refuse_user(job: JobSpec) -> Iterator[Refusal]:
    if job.user and not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", job.user):
        yield Refusal(("user",), "numbers, such as 1000 or 1000:100", job.user, "id -u USER")
