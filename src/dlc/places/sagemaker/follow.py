"""Jobs that SageMaker has: which they are, what they print, how they end, and their stop."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from dlc.core.errors import PlatformError
from dlc.places.place import STOPPED_CODE, ListedJob, say_asked
from dlc.places.sagemaker.aws import AwsError, call_aws
from dlc.places.sagemaker.settings import Settings

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
ENDED = ("Completed", "Failed", "Stopped")
# Jobs that `dlc ps` shows at most.
MOST_JOBS = 50
ASK_SECONDS = 10.0
# The service appends it to the failure file's text.
EXIT_CODE = re.compile(r"exit code:? (?P<code>[0-9]{1,3})\b(?!.*exit code:? [0-9])", re.IGNORECASE | re.DOTALL)


def list_jobs(options: Settings) -> list[ListedJob]:
    """Return the account's jobs of this region, the newest first."""
    answer = call_aws(
        "sagemaker",
        "list_training_jobs",
        options.region,
        MaxResults=MOST_JOBS,
        SortBy="CreationTime",
        SortOrder="Descending",
    )
    return [
        ListedJob(
            id=job["TrainingJobName"],
            name=job["TrainingJobName"],
            state=job.get("SecondaryStatus") or job["TrainingJobStatus"],
            since=job["CreationTime"].isoformat(timespec="seconds"),
        )
        for job in answer["TrainingJobSummaries"]
    ]


def print_logs(job_id: str, options: Settings, out: TextIO, *, follow: bool) -> None:
    """Print the lines of all hosts, each with its host's name; with `follow` until the job has ended."""
    lines = JobLines(job_id, options.region)
    while True:
        # Asked before the lines: what a job prints last is there when it has ended.
        has_ended = describe_job(job_id, options.region)["TrainingJobStatus"] in ENDED
        for line in lines.read_new():
            print(line, file=out, flush=True)
        if has_ended or not follow:
            return
        time.sleep(ASK_SECONDS)


def wait_for_job(job_id: str, options: Settings) -> int:
    """Return the exit code of the job when it has ended; why it failed goes to stderr."""
    told = ""
    while True:
        job = describe_job(job_id, options.region)
        state = job.get("SecondaryStatus") or job["TrainingJobStatus"]
        if state != told:
            print(f"dlc: {job_id}: {state}", file=sys.stderr)
            told = state
        if job["TrainingJobStatus"] in ENDED:
            if job.get("FailureReason"):
                print(f"dlc: {job_id}: {job['FailureReason']}", file=sys.stderr)
            return read_exit_code(job)
        time.sleep(ASK_SECONDS)


def stop_job(job_id: str, options: Settings) -> str:
    """Stop the job: its hosts get SIGTERM, and 120 s later SIGKILL. One that has ended is left as it is."""
    if describe_job(job_id, options.region)["TrainingJobStatus"] not in ("Stopping", *ENDED):
        call_aws("sagemaker", "stop_training_job", options.region, TrainingJobName=job_id)
    return say_asked(job_id)


def read_exit_code(job: Mapping[str, Any]) -> int:
    """Return the exit code of an ended job: that which the service has seen, else 1."""
    if job["TrainingJobStatus"] == "Completed":
        return 0
    if job["TrainingJobStatus"] == "Stopped":
        return STOPPED_CODE
    found = EXIT_CODE.search(job.get("FailureReason", ""))
    return int(found["code"]) or 1 if found else 1


def describe_job(job_id: str, region: str) -> dict[str, Any]:
    """Return what the service says of a job. Raises PlatformError if it has no such job."""
    job = find_job(job_id, region)
    if job is None:
        raise PlatformError(
            f"{job_id}: expected a training job of the account in {region or 'its region'}, found none",
            "dlc ps --to sagemaker, --with region=...",
        )
    return job


def find_job(name: str, region: str) -> dict[str, Any] | None:
    """Return what the service says of a job; None if it has no such job."""
    try:
        return call_aws("sagemaker", "describe_training_job", region, TrainingJobName=name)
    except AwsError as error:
        if error.code in ("ValidationException", "ResourceNotFound") or "not find" in error.message:
            return None
        raise


class JobLines:
    """The lines of a job's hosts that were not read yet."""

    def __init__(self, job_id: str, region: str, call: Callable[..., dict[str, Any]] = call_aws) -> None:
        self._job_id = job_id
        self._region = region
        self._call = call
        # Stream -> where to go on.
        self._tokens: dict[str, str] = {}

    def read_new(self) -> Iterator[str]:
        """Yield the new lines, host by host."""
        for stream in self._list_streams():
            host = stream.rpartition("/")[2].rpartition("-")[0]
            for text in self._read_stream(stream):
                yield f"[{host}] {text}"

    def _list_streams(self) -> list[str]:
        """Return the streams of the hosts: JOB/algo-1-1700000000. There are none before a host has printed."""
        where = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{self._job_id}/"}
        found: list[str] = []
        token: dict[str, str] = {}
        while True:
            try:
                page = self._call("logs", "describe_log_streams", self._region, **where, **token)
            except AwsError as error:
                if error.code == "ResourceNotFoundException":
                    return []
                raise
            found += [stream["logStreamName"] for stream in page["logStreams"]]
            if not page.get("nextToken"):
                return sorted(found)
            token = {"nextToken": page["nextToken"]}

    def _read_stream(self, stream: str) -> Iterator[str]:
        while True:
            token = {"nextToken": self._tokens[stream]} if stream in self._tokens else {}
            answer = self._call(
                "logs",
                "get_log_events",
                self._region,
                logGroupName=LOG_GROUP,
                logStreamName=stream,
                startFromHead=True,
                **token,
            )
            for event in answer["events"]:
                yield event["message"].rstrip("\n")
            # The same token again: this is the end for now.
            if self._tokens.get(stream) == answer["nextForwardToken"]:
                return
            self._tokens[stream] = answer["nextForwardToken"]
