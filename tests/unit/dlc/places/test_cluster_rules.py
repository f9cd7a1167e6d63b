"""Mistakes that are planted in the documents of the docs: each is found, by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster_rules import find_mistakes

DOCS = Path(__file__).parents[4] / "docs/clusters"
Object = dict[str, Any]
Mistake = Callable[[list[Object]], object]


def read(kind: str) -> list[Object]:
    objects = list(yaml.safe_load_all((DOCS / f"{kind}.yml").read_text()))
    objects[1]["binaryData"]["source.tar.gz"] = "YQ=="
    return objects


def spec(objects: list[Object]) -> Any:
    last = next(each for each in objects if each["kind"] in ("JobSet", "TrainingRuntime"))
    return last["spec"]["template"]["spec"] if last["kind"] == "TrainingRuntime" else last["spec"]


def job(objects: list[Object], index: int = 1) -> Any:
    return spec(objects)["replicatedJobs"][index]["template"]["spec"]


def pod(objects: list[Object]) -> Any:
    return job(objects)["template"]["spec"]


def container(objects: list[Object]) -> Any:
    return pod(objects)["containers"][0]


def codes(objects: list[Object]) -> Any:
    return job(objects)["podFailurePolicy"]["rules"][1]["onExitCodes"]


def rename(mapping: Object, old: str, new: str) -> None:
    mapping[new] = mapping.pop(old)


# What is wrong -> how it gets in, and a part of what is said of it.
MISTAKES: dict[str, tuple[Mistake, str]] = {
    "typo in the JobSet's specification": (
        lambda of: rename(spec(of), "successPolicy", "succesPolicy"),
        "succesPolicy: no such field; did you mean 'successPolicy'?",
    ),
    "typo in the network": (
        lambda of: rename(spec(of)["network"], "enableDNSHostnames", "enableDnsHostnames"),
        "network.enable",
    ),
    "typo in a group": (
        lambda of: rename(spec(of)["replicatedJobs"][0], "replicas", "replica"),
        "replicatedJobs.0.replica",
    ),
    "typo in a Job": (lambda of: rename(job(of), "backoffLimit", "backOffLimit"), "backOffLimit"),
    "typo in a pod": (
        lambda of: rename(pod(of), "terminationGracePeriodSeconds", "terminationGracePeriod"),
        "terminationGracePeriod: no such field",
    ),
    "typo in a container": (lambda of: rename(container(of), "args", "arg"), "containers.0.arg"),
    "typo in a volume": (lambda of: rename(pod(of)["volumes"][0], "emptyDir", "emptydir"), "volumes.0.emptydir"),
    "typo in the Secret": (lambda of: rename(of[0], "stringData", "stringdata"), "stringdata"),
    "typo in the ConfigMap": (lambda of: rename(of[1], "binaryData", "binarydata"), "binarydata"),
    "unknown kind": (lambda of: of[0].update(kind="Secrets"), "Secrets"),
    "number as text": (lambda of: job(of).update(completions="1"), "completions"),
    "text as number": (lambda of: container(of)["env"][1].update(value=2), "env"),
    "wrong completion mode": (lambda of: job(of).update(completionMode="indexed"), "completionMode"),
    "wrong restart policy": (lambda of: pod(of).update(restartPolicy="never"), "restartPolicy"),
    "restart policy that the failure policy forbids": (
        lambda of: pod(of).update(restartPolicy="OnFailure"),
        "wants Never",
    ),
    "wrong pull policy": (lambda of: container(of).update(imagePullPolicy="IfNotThere"), "imagePullPolicy"),
    "wrong restart strategy": (
        lambda of: spec(of)["failurePolicy"].update(restartStrategy="Restart"),
        "failurePolicy.restartStrategy: Restart is none of Recreate",
    ),
    "wrong action of the JobSet": (
        lambda of: spec(of)["failurePolicy"]["rules"][0].update(action="FailJob"),
        "failurePolicy.rules.action: FailJob is none of",
    ),
    "wrong reason of a failure": (
        lambda of: spec(of)["failurePolicy"]["rules"][0].update(onJobFailureReasons=["PodFailed"]),
        "onJobFailureReasons: PodFailed is none of",
    ),
    "name of a rule with a dash": (
        lambda of: spec(of)["failurePolicy"]["rules"][0].update(name="a-b"),
        "rules.name: a-b",
    ),
    "wrong operator of the success": (
        lambda of: spec(of)["successPolicy"].update(operator="all"),
        "successPolicy.operator",
    ),
    "wrong operator of the exit codes": (lambda of: codes(of).update(operator="in"), "operator"),
    "0 among the codes of a failure": (lambda of: codes(of).update(values=[0, 69]), "0 is no failure"),
    "a code twice": (lambda of: codes(of).update(values=[69, 69]), "each once, in order"),
    "success of a group that is not there": (
        lambda of: spec(of)["successPolicy"].update(targetReplicatedJobs=["dnn_group"]),
        "successPolicy.targetReplicatedJobs: no replicated job dnn_group",
    ),
    "missing group": (lambda of: spec(of)["replicatedJobs"].pop(0), "DLC_GROUPS"),
    "group of another size": (lambda of: job(of, 0).update(completions=3, parallelism=3), "DLC_GROUPS"),
    "hosts that do not start together": (
        lambda of: job(of, 0).update(parallelism=1),
        "not all hosts would start together",
    ),
    "group's name that is none": (lambda of: spec(of)["replicatedJobs"][0].update(name="data_group"), "pods called"),
    "job's name that is too long": (
        lambda of: [each["metadata"].update(name="dlc-" + "a" * 50) for each in of],
        "63 at most",
    ),
    "label that is too long": (
        lambda of: job(of)["template"]["metadata"]["labels"].update({"org.dlc.job": "a" * 64}),
        "is no label",
    ),
    "memory in the words of docker": (
        lambda of: container(of)["resources"]["limits"].update(memory="4g"),
        "resources.limits.memory: 4g is no quantity",
    ),
    "mount without its volume": (lambda of: pod(of)["volumes"].pop(0), "volumeMounts: no volume shm"),
    "two mounts at one place": (
        lambda of: container(of)["volumeMounts"].append({"name": "shm", "mountPath": "/opt/ml"}),
        "volumeMounts.mountPath: one twice",
    ),
    "ConfigMap that is not there": (lambda of: pod(of)["volumes"][2]["configMap"].update(name="x"), "no ConfigMap x"),
    "key that the Secret lacks": (lambda of: of[0]["stringData"].clear(), "env.DLC_JOB_TOKEN: no such key in a Secret"),
    "grace that the launcher does not know": (
        lambda of: pod(of).update(terminationGracePeriodSeconds=60),
        "the launcher counts on DLC_TERMINATION_GRACE",
    ),
    "command in place of the image's entry point": (lambda of: container(of).update(command=["train"]), "command: "),
    "container without a name": (lambda of: container(of).pop("name"), "name"),
}
IN_A_TRAIN_JOB: dict[str, tuple[Mistake, str]] = {
    "typo in the TrainJob": (lambda of: rename(of[3]["spec"], "runtimeRef", "runtimeref"), "runtimeref: no such field"),
    "typo in the runtime": (lambda of: rename(of[2]["spec"], "mlPolicy", "mlpolicy"), "mlpolicy: no such field"),
    "runtime that is not there": (lambda of: of[3]["spec"]["runtimeRef"].update(name="torch"), "no such runtime"),
    "other number of nodes": (lambda of: of[3]["spec"]["trainer"].update(numNodes=5), "not as many as the trainer's"),
    "no group that is the trainer": (
        lambda of: spec(of)["replicatedJobs"][1]["template"]["metadata"]["labels"].clear(),
        "0 are the trainer",
    ),
    "runtime that the Kubeflow SDK does not take": (
        lambda of: of[2]["metadata"]["labels"].pop("trainer.kubeflow.org/framework"),
        "the Kubeflow SDK lists no job",
    ),
    "trainer whose container has another name": (lambda of: container(of).update(name="main"), "has to be called node"),
}  # fmt: skip


def say(objects: list[Object]) -> str:
    return "\n".join(find_mistakes(objects))


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_the_documents_have_no_mistake(kind: str) -> None:
    assert say(read(kind)) == ""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_job_set_is_named(name: str) -> None:
    plant, said = MISTAKES[name]
    objects = read("jobset")
    plant(objects)
    assert said in say(objects)


@pytest.mark.parametrize("name", IN_A_TRAIN_JOB)
def test_a_mistake_in_a_train_job_is_named(name: str) -> None:
    plant, said = IN_A_TRAIN_JOB[name]
    objects = read("trainjob")
    plant(objects)
    assert said in say(objects)
