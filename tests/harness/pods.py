"""A cluster for the objects of `dlc submit --to kubernetes`: a container for each pod, on a network of the engine.

    with Cluster(render_objects(file), folder, secrets={...}) as cluster:
        ended = cluster.run()

Pods get the arguments, variables, volumes, limits and names of the document; what controllers add (index, host name,
the label of the JobSet) is added here, and the policies of Jobs and of the JobSet are followed: what starts again,
what ends the job. Only `image` may be another name, for one that the engine has.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dlc.job.job_file import read_job_file
from dlc.job.limits import count_bytes
from dlc.places.place import load_place, read_place_options
from harness.cluster_rules import find_job_set, find_mistakes
from harness.engine import CALM, HANG_BOUND, RUN_LABEL, docker

POLL_SECONDS = 0.5
COMPLETED, FAILED = "Completed", "Failed"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """One pod of a replicated job."""

    job: str
    # The host's name; its pods of several starts have it one after the other.
    host: str
    index: int
    spec: Object
    failure_rules: Sequence[Object]


@dataclass
class Ended:
    """How the JobSet has ended."""

    state: str
    # Of each start: host -> exit code.
    codes: list[dict[str, int]] = field(default_factory=list)
    log: str = ""


def render_objects(file: Path, *words: str) -> list[Object]:
    """The objects of a job's file, as `dlc submit --with WORD` would create them for the job digits."""
    place, found = load_place("kubernetes"), read_job_file(file)
    options = read_place_options(place, "kubernetes", found.node, ["pull_policy=Never", *words])
    job = found.spec.place("digits", file.parent, lambda image: image)
    assert place.refuse_job(job, options) == []
    rendered: list[Object] = place.render_job(job, options).value
    return rendered


class Cluster:
    """The pods of one JobSet. Leaving the `with` removes them and their network."""

    def __init__(self, objects: Sequence[Object], folder: Path, *, secrets: Mapping[str, str], image: str = "") -> None:
        """`folder` keeps volumes: `volumes/CLAIM` of claims, which outlive pods, `pods/START/HOST` of others."""
        mistakes = find_mistakes(objects)
        assert not mistakes, mistakes
        self._objects, self._folder, self._secrets, self._image = objects, folder, secrets, image
        owner = next(each for each in objects if each["kind"] in ("JobSet", "TrainJob"))
        self._name = str(owner["metadata"]["name"])
        self._network = f"dlc-test-{time.monotonic_ns():x}"
        spec = next(found for each in objects if (found := find_job_set(each)))
        self._failure, self._success = spec["failurePolicy"], spec["successPolicy"]
        self.pods = [pod for job in spec["replicatedJobs"] for pod in self._make_pods(job)]
        self.ended = Ended("")
        self._disrupted: set[str] = set()

    def _make_pods(self, job: Object) -> list[Pod]:
        inner = job["template"]["spec"]
        rules = inner["podFailurePolicy"]["rules"]
        # Kubeflow Trainer has the number of its nodes in the TrainJob.
        return [
            Pod(job["name"], f"{self._name}-{job['name']}-0-{index}", index, inner["template"]["spec"], rules)
            for index in range(inner["completions"])
        ]

    def __enter__(self) -> Self:
        docker("network", "create", "--label", RUN_LABEL, self._network)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.log())
        self._remove_pods()
        deadline = time.monotonic() + HANG_BOUND
        while docker("network", "rm", self._network, check=False).returncode and time.monotonic() < deadline:
            time.sleep(1)

    # --- what a test does

    def run(self) -> Ended:
        """Start the job and follow it to its end, with all new starts."""
        self.start()
        return self.wait()

    def start(self) -> None:
        """Start all pods, as BlockingRecreate does: when those of the last start are gone."""
        self._remove_pods()
        self._disrupted.clear()
        self.ended.codes.append({})
        for pod in self.pods:
            docker(*self._words(pod))

    def wait(self) -> Ended:
        """Follow the policies until the JobSet has ended."""
        deadline = time.monotonic() + HANG_BOUND
        while not self.ended.state:
            assert time.monotonic() < deadline, self.log()
            codes = self.codes()
            self.ended.codes[-1] = codes
            failed = [pod for pod in self.pods if codes.get(pod.host) and pod.host not in self._disrupted]
            if failed:
                self._end_start(failed)
            elif self._is_complete(codes):
                self._stop_pods()
                self.ended.state = COMPLETED
            else:
                time.sleep(POLL_SECONDS)
        self.ended.codes[-1] = self.codes()
        self.ended.log += self.log()
        return self.ended

    def stop(self) -> dict[str, int]:
        """Delete the JobSet: all pods are stopped, with the grace of their specification. Exit codes of the hosts."""
        self._stop_pods()
        return self.codes()

    def drain(self, host: str) -> None:
        """Stop one pod, as the drain of its node does."""
        docker("stop", self._container(host), seconds=HANG_BOUND)

    def lose(self, host: str) -> None:
        """Kill one pod, as the loss of its node does: for minutes the cluster hears nothing of it."""
        self._disrupted.add(host)
        docker("kill", self._container(host))

    def codes(self) -> dict[str, int]:
        """Host -> exit code of the pods that have ended."""
        form = "{{.State.Status}} {{.State.ExitCode}}"
        found = docker("inspect", "--format", form, *(self._container(pod.host) for pod in self.pods)).stdout
        states = [line.split() for line in found.splitlines()]
        return {pod.host: int(code) for pod, (state, code) in zip(self.pods, states, strict=True) if state == "exited"}

    def log(self) -> str:
        """What the pods of the last start have said."""
        done = [docker("logs", self._container(pod.host), check=False) for pod in self.pods]
        return "".join(each.stdout + each.stderr for each in done)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Return when pods have said it so often."""
        deadline = time.monotonic() + HANG_BOUND
        while (log := self.log()).count(text) < times:
            assert time.monotonic() < deadline, log
            time.sleep(POLL_SECONDS)

    # --- policies

    def _end_start(self, failed: Sequence[Pod]) -> None:
        """Do as the controllers do when a pod has failed: the Job fails, and JobSet starts all again or fails."""
        codes = self.codes()
        again = all(self._counts(pod, codes[pod.host]) for pod in failed)
        # The others hear of it from the launcher; JobSet deletes them as well.
        self._stop_pods()
        self.ended.codes[-1] = self.codes()
        if again and len(self.ended.codes) <= self._failure["maxRestarts"]:
            self.ended.log += self.log()
            self.start()
        else:
            self.ended.state = FAILED

    def _counts(self, pod: Pod, code: int) -> bool:
        """Whether the first rule that matches counts the failure, so that the Job fails for another reason than it."""
        for rule in pod.failure_rules:
            codes = rule.get("onExitCodes")
            if codes and (code in codes["values"]) == (codes["operator"] == "In"):
                return bool(rule["action"] == "Count")
        return True

    def _is_complete(self, codes: Mapping[str, int]) -> bool:
        targets = self._success.get("targetReplicatedJobs") or {pod.job for pod in self.pods}
        return all(codes.get(pod.host) == 0 for pod in self.pods if pod.job in targets)

    def _stop_pods(self) -> None:
        running = [self._container(pod.host) for pod in self.pods if pod.host not in self.codes()]
        if running:
            docker("stop", *running, seconds=HANG_BOUND)

    def _remove_pods(self) -> None:
        for pod in self.pods:
            docker("rm", "--force", "--volumes", self._container(pod.host), check=False)

    # --- one pod as a container

    def _container(self, host: str) -> str:
        return f"{self._network}-{host}"

    def _words(self, pod: Pod) -> list[str]:
        (container,) = pod.spec["containers"]
        words = ["run", "--detach", "--pull", "never", "--name", self._container(pod.host), "--label", RUN_LABEL]
        words += ["--hostname", pod.host, "--network", self._network, "--network-alias", f"{pod.host}.{self._name}"]
        words += ["--stop-timeout", str(pod.spec["terminationGracePeriodSeconds"])]
        words += self._limit(container.get("resources", {}).get("limits", {}))
        user = pod.spec.get("securityContext", {})
        words += ["--user", f"{user['runAsUser']}:{user.get('runAsGroup', 0)}"] if user else []
        for mount in container["volumeMounts"]:
            words += self._mount(pod, mount)
        variables = {**CALM, "JOB_COMPLETION_INDEX": str(pod.index)}
        for each in container["env"]:
            variables[each["name"]] = self._read_variable(each, variables)
        for name, value in variables.items():
            words += ["--env", f"{name}={value}"]
        return [*words, self._image or container["image"], *(expand(word, variables) for word in container["args"])]

    def _limit(self, limits: Mapping[str, str]) -> list[str]:
        cpus, memory = limits.get("cpu", ""), limits.get("memory", "")
        return [*(("--cpus", cpus) if cpus else ()), *(("--memory", memory.rstrip("i").lower()) if memory else ())]

    def _read_variable(self, each: Object, before: Mapping[str, str]) -> str:
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == f"metadata.labels['{JOB_SET_LABEL}']"
            return self._name
        if "secretKeyRef" in source:
            return self._secrets[source["secretKeyRef"]["key"]]
        return expand(each["value"], before)

    def _mount(self, pod: Pod, mount: Object) -> list[str]:
        volume = next(each for each in pod.spec["volumes"] if each["name"] == mount["name"])
        if volume.get("emptyDir", {}).get("medium") == "Memory":
            return ["--shm-size", str(count_bytes(volume["emptyDir"]["sizeLimit"].rstrip("i").lower()))]
        folder = self._find_volume(pod, volume) / mount.get("subPath", "")
        folder.mkdir(parents=True, exist_ok=True)
        # As kubelet makes an emptyDir.
        folder.chmod(0o777)
        return ["--volume", f"{folder}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"]

    def _find_volume(self, pod: Pod, volume: Object) -> Path:
        if "persistentVolumeClaim" in volume:
            return self._folder / "volumes" / volume["persistentVolumeClaim"]["claimName"]
        own = self._folder / "pods" / str(len(self.ended.codes)) / pod.host / volume["name"]
        if "configMap" in volume:
            self._write_config(volume["configMap"]["name"], own)
        return own

    def _write_config(self, name: str, folder: Path) -> None:
        """Write a ConfigMap's keys as files."""
        found = next(each for each in self._objects if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", name))
        folder.mkdir(parents=True, exist_ok=True)
        for key, text in found.get("data", {}).items():
            (folder / key).write_text(text)
        for key, packed in found.get("binaryData", {}).items():
            (folder / key).write_bytes(base64.b64decode(packed))


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Do as kubelet does: $$ is $, $(NAME) is the variable's value if there is one, and stays as it is if not."""

    def replace(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", replace, text)
