"""What a cluster cannot do of a job, found before anything is sent. Reads the job's code, for its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from dlc.submit.kubernetes.document import make_hyperparameters
from dlc.submit.kubernetes.machines import refuse_resources
from dlc.submit.kubernetes.names import refuse_names
from dlc.submit.kubernetes.options import KubernetesOptions, leads_out, read_claim
from dlc.submit.kubernetes.source import MOST_BYTES, SourceTooLargeError, pack_code
from dlc.submit.places import Refusal, SubmittedJob
from dlc.submit.refusals import refuse_image, refuse_variables

CLAIM_HINT = "copy it into a volume, and name it by its claim: pvc://CLAIM/FOLDER"
# With the code's archive an object stays below etcd's 1.5 MiB.
MOST_HYPERPARAMETERS = 64 << 10


def refuse_job(job: SubmittedJob, options: KubernetesOptions) -> Sequence[Refusal]:
    """Return all that a cluster cannot do."""
    return [
        *refuse_names(job),
        *(() if options.pull_policy == "Never" else refuse_image(job, "pull_policy=Never if the nodes have it")),
        *_refuse_volumes(job),
        *_refuse_code(job, options),
        *refuse_resources(job),
        *_refuse_user(job),
        *refuse_variables(job, "the cluster"),
    ]


def _refuse_volumes(job: SubmittedJob) -> Iterator[Refusal]:
    named = {("channels", name): address for name, address in job.channels.items()}
    for keys, address in [*named.items(), (("checkpoints",), job.checkpoints)]:
        if address and not read_claim(address):
            yield Refusal(keys, "a volume of the cluster, such as pvc://CLAIM/FOLDER", address, CLAIM_HINT)
        elif leads_out(address):
            yield Refusal(keys, "a folder in the volume, without ..", address)


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


def _refuse_user(job: SubmittedJob) -> Iterator[Refusal]:
    if job.user and not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", job.user):
        yield Refusal(("user",), "numbers, such as 1000 or 1000:100", job.user, "id -u USER")
