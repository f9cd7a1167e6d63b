"""What servers would say of the objects of a job: types and names by models, the rest by the rules of their webhooks.

`kubeflow_trainer_api` has JobSet, TrainJob and all that is in them; its models take unknown keys as they are, so they
are walked here. `kubernetes_validate` has the core's own schemas. Neither knows what a webhook refuses: the functions
`_rules_*` do (JobSet's pkg/webhooks/jobset_webhook.go, Trainer's pkg/webhooks, Kubernetes' pkg/apis/batch/validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import kubernetes_validate
from kubeflow_trainer_api import models
from pydantic import BaseModel, ValidationError

from dlc.checked_yaml.problems import did_you_mean

Object = dict[str, Any]
VERSION = "1.34"
MODELS: dict[str, type[BaseModel]] = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
}
LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?"
QUANTITY = r"[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?"
LONGEST = 63
# Of JobSet's own fields, whose models have no enums.
ENUMS = {
    "operator": ("All", "Any"),
    "restartStrategy": ("Recreate", "BlockingRecreate", "InPlaceRestart"),
    "action": ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob"),
}
REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
RULE_NAME = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
TRAINER = ("trainer.kubeflow.org/trainjob-ancestor-step", "trainer")
FRAMEWORK = "trainer.kubeflow.org/framework"


def find_mistakes(objects: Sequence[Object]) -> list[str]:
    """Every mistake of a job's objects, as `path: what is wrong`; none if a cluster runs the job as it is meant."""
    found = [mistake for each in objects for mistake in check_shape(each)]
    specs = [(each, spec) for each in objects if (spec := find_job_set(each)) is not None]
    for _, spec in specs:
        found += [mistake for job in spec.get("replicatedJobs", []) for mistake in _check_core(job)]
    if found:
        # What the rules read has to have its types.
        return list(dict.fromkeys(found))
    for each, spec in specs:
        found += [*_rules_of_job_set(each, spec), *_rules_of_pods(spec), *_rules_of_names(objects, spec)]
    return [*dict.fromkeys(found), *_rules_of_train_job(objects)]


def find_job_set(each: Object) -> Object | None:
    """The specification of the JobSet that an object is, or that Kubeflow Trainer makes of it."""
    if each["kind"] == "JobSet":
        return dict(each["spec"])
    return dict(each["spec"]["template"]["spec"]) if each["kind"] == "TrainingRuntime" else None


# --- types, names of fields


def check_shape(each: Object) -> list[str]:
    """Return what a model, or the schema of the core, has against an object."""
    if each.get("kind") not in MODELS:
        return _validate_core(each, each.get("kind", "?"))
    model = MODELS[each["kind"]]
    found = list(_walk(model, each, each["kind"]))
    try:
        model.model_validate(each)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            # A number or a text, for which the generator writes a model that takes neither.
            if not re.search("Quantity|IntOrString", details["msg"]):
                found.append(f"{each['kind']}.{'.'.join(map(str, details['loc']))}: {details['msg']}")
    return found


def _walk(model: type[BaseModel], value: Any, path: str) -> Iterator[str]:
    """Yield the keys of a value that its model does not have."""
    if not isinstance(value, dict) or "actual_instance" in model.model_fields:
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, item in value.items():
        if key not in fields:
            yield f"{path}.{key}: no such field; {did_you_mean(key, fields)}"
            continue
        inner = _find_model(fields[key].annotation)
        if inner is None:
            continue
        if isinstance(item, list):
            for index, each in enumerate(item):
                yield from _walk(inner, each, f"{path}.{key}.{index}")
        elif _is_mapping(fields[key].annotation):
            for name, each in item.items() if isinstance(item, dict) else ():
                yield from _walk(inner, each, f"{path}.{key}.{name}")
        else:
            yield from _walk(inner, item, f"{path}.{key}")


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _find_model(each))), None)


def _is_mapping(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict or any(_is_mapping(each) for each in get_args(annotation))


def _check_core(job: Object) -> list[str]:
    """Validate a group's Job by Kubernetes' own schema."""
    template = job.get("template", {})
    inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": template.get("spec", {})}
    return _validate_core(inner, f"replicatedJobs.{job.get('name')}")


def _validate_core(each: Object, path: str) -> list[str]:
    try:
        kubernetes_validate.validate(each, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{path}.{'.'.join(map(str, error.path))}: {error.message[:200]}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [f"{path}.kind: {error.message}"]
    return []


# --- what webhooks refuse


def _rules_of_job_set(each: Object, spec: Object) -> Iterator[str]:
    names = [job.get("name", "") for job in spec.get("replicatedJobs", [])]
    if len(set(names)) < len(names):
        yield f"replicatedJobs: a name twice: {names}"
    success, failure = spec.get("successPolicy", {}), spec.get("failurePolicy", {})
    yield from (
        f"successPolicy.targetReplicatedJobs: no replicated job {name}"
        for name in success.get("targetReplicatedJobs", [])
        if name not in names
    )
    yield from _check_word("successPolicy.operator", success.get("operator", "All"), ENUMS["operator"])
    strategy = failure.get("restartStrategy", "Recreate")
    yield from _check_word("failurePolicy.restartStrategy", strategy, ENUMS["restartStrategy"])
    for rule in failure.get("rules", []):
        yield from _check_word("failurePolicy.rules.action", rule.get("action"), ENUMS["action"])
        if not re.fullmatch(RULE_NAME, rule.get("name", "a")):
            yield f"failurePolicy.rules.name: {rule['name']}"
        for reason in rule.get("onJobFailureReasons", []):
            yield from _check_word("failurePolicy.rules.onJobFailureReasons", reason, REASONS)
    for job in spec.get("replicatedJobs", []):
        pods = job.get("template", {}).get("spec", {}).get("completions") or 1
        longest = f"{each['metadata']['name']}-{job.get('name')}-{job.get('replicas', 1) - 1}-{pods - 1}-abcde"
        if len(longest) > LONGEST or not re.fullmatch(LABEL, longest):
            yield f"replicatedJobs.name: pods called {longest}: small letters, digits and -, {LONGEST} at most"


def _check_word(path: str, word: Any, known: Sequence[str]) -> Iterator[str]:
    if word not in known:
        yield f"{path}: {word} is none of {', '.join(known)}"


def _rules_of_pods(spec: Object) -> Iterator[str]:
    for job in spec.get("replicatedJobs", []):
        path = f"replicatedJobs.{job.get('name')}"
        inner = job.get("template", {}).get("spec", {})
        pod = inner.get("template", {}).get("spec", {})
        if inner.get("completionMode") != "Indexed":
            yield f"{path}.completionMode: pods without an index have no names"
        if inner.get("completions") != inner.get("parallelism"):
            yield f"{path}.parallelism: not all hosts would start together"
        yield from (f"{path}: {text}" for text in _check_failure_policy(inner, pod))
        volumes = [volume.get("name") for volume in pod.get("volumes", [])]
        for container in pod.get("containers", []):
            yield from (f"{path}: {text}" for text in _check_container(container, volumes, pod))


def _check_failure_policy(inner: Object, pod: Object) -> Iterator[str]:
    rules = inner.get("podFailurePolicy", {}).get("rules", [])
    if rules and pod.get("restartPolicy") != "Never":
        yield "restartPolicy: a podFailurePolicy wants Never"
    if rules and inner.get("podReplacementPolicy", "Failed") != "Failed":
        yield "podReplacementPolicy: a podFailurePolicy wants Failed"
    for rule in rules:
        codes = rule.get("onExitCodes", {})
        if ("onExitCodes" in rule) == ("onPodConditions" in rule):
            yield "podFailurePolicy.rules: one of onExitCodes and onPodConditions"
        if 0 in codes.get("values", []) and codes.get("operator") == "In":
            yield "podFailurePolicy.rules.onExitCodes.values: 0 is no failure"
        if codes.get("values", []) != sorted(set(codes.get("values", []))):
            yield "podFailurePolicy.rules.onExitCodes.values: each once, in order"


def _check_container(container: Object, volumes: Sequence[str], pod: Object) -> Iterator[str]:
    mounts = container.get("volumeMounts", [])
    yield from (f"volumeMounts: no volume {each['name']}" for each in mounts if each.get("name") not in volumes)
    paths = [each.get("mountPath") for each in mounts]
    if len(set(paths)) < len(paths):
        yield f"volumeMounts.mountPath: one twice: {paths}"
    if "command" in container:
        yield "command: it would take the place of the image's entry point"
    for kind, amounts in container.get("resources", {}).items():
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            if not re.fullmatch(QUANTITY, str(amount)):
                yield f"resources.{kind}.{name}: {amount} is no quantity"
            if "/" in name and amount != container["resources"].get("limits", {}).get(name):
                yield f"resources.limits.{name}: expected as much as in requests, {amount}"
    stated = {each.get("name"): each.get("value") for each in container.get("env", [])}
    if len(stated) < len(container.get("env", [])):
        yield "env: a variable twice"
    if stated.get("DLC_TERMINATION_GRACE") != str(pod.get("terminationGracePeriodSeconds", 30)):
        yield "terminationGracePeriodSeconds: the launcher counts on DLC_TERMINATION_GRACE"


def _rules_of_names(objects: Sequence[Object], spec: Object) -> Iterator[str]:
    """Objects that pods name are among those of the job; labels are what a selector finds."""
    keys = {
        (each["kind"], each["metadata"]["name"]): {*each.get("data", {}), *each.get("stringData", {})}
        for each in objects
        if each["kind"] in ("Secret", "ConfigMap")
    }
    for job in spec.get("replicatedJobs", []):
        pod = job.get("template", {}).get("spec", {}).get("template", {})
        for name, value in pod.get("metadata", {}).get("labels", {}).items():
            if not re.fullmatch(LABEL_VALUE, str(value)):
                yield f"labels.{name}: {value} is no label"
        for volume in pod.get("spec", {}).get("volumes", []):
            named = volume.get("configMap", {}).get("name")
            if named and ("ConfigMap", named) not in keys:
                yield f"volumes.{volume['name']}: no ConfigMap {named}"
        for container in pod.get("spec", {}).get("containers", []):
            yield from _check_variables(container, keys, spec)


def _check_variables(container: Object, keys: dict[tuple[str, str], set[str]], spec: Object) -> Iterator[str]:
    for each in container.get("env", []):
        reference = each.get("valueFrom", {}).get("secretKeyRef")
        if reference and reference.get("key") not in keys.get(("Secret", reference.get("name")), set()):
            yield f"env.{each['name']}: no such key in a Secret"
        if each.get("name") == "DLC_GROUPS":
            stated = dict(word.split("=") for word in each["value"].split(";"))
            sizes = {re.sub("[_.]", "-", name.lower()): int(pods) for name, pods in stated.items()}
            there = {job.get("name"): job["template"]["spec"].get("completions") for job in spec["replicatedJobs"]}
            if sizes != there:
                yield f"env.DLC_GROUPS: {sizes} are not the replicated jobs {there}"


def _rules_of_train_job(objects: Sequence[Object]) -> Iterator[str]:
    runtimes = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "TrainingRuntime"}
    for each in objects:
        if each["kind"] == "TrainingRuntime" and FRAMEWORK not in each["metadata"].get("labels", {}):
            yield f"labels: for a runtime without {FRAMEWORK} the Kubeflow SDK lists no job at all"
        if each["kind"] != "TrainJob":
            continue
        reference = each["spec"].get("runtimeRef", {})
        if reference.get("name") not in runtimes or reference.get("kind") != "TrainingRuntime":
            yield f"runtimeRef: no such runtime: {reference}"
            continue
        spec = find_job_set({"kind": "TrainingRuntime", "spec": runtimes[reference["name"]]}) or {}
        trainers = [job for job in spec["replicatedJobs"]
                    if job["template"].get("metadata", {}).get("labels", {}).get(TRAINER[0]) == TRAINER[1]]  # fmt: skip
        if len(trainers) != 1:
            yield f"replicatedJobs: {len(trainers)} are the trainer, by the label {TRAINER[0]}"
            continue
        inner = trainers[0]["template"]["spec"]
        if "node" not in [container["name"] for container in inner["template"]["spec"]["containers"]]:
            yield "containers: the trainer's has to be called node"
        if trainers[0].get("replicas") != 1:
            yield "replicas: always must be 1"
        # A TrainJob that says no number has its runtime's.
        nodes = each["spec"].get("trainer", {}).get("numNodes", runtimes[reference["name"]]["mlPolicy"]["numNodes"])
        if nodes != inner["completions"]:
            yield "trainer.numNodes: not as many as the trainer's pods"
