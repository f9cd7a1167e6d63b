"""Runs the user's own kubectl, and says what to do about its errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from dlc.core.errors import ProcessError, UsageError
from dlc.core.process import Completed, run_program, stream_program
from dlc.places.kubernetes.options import KubernetesOptions

Object = dict[str, Any]
PROGRAM = "kubectl"
KUBECTL_REMEDY = "install kubectl, https://kubernetes.io/docs/tasks/tools, and try `kubectl get namespaces`"
# Of an answer; the server has its own bound, 60 s.
SECONDS = 120.0
# Words of a message -> what to do; the first one counts. Each is of the server or of kubectl itself.
REMEDIES = {
    'matches for kind "TrainJob"': "install Kubeflow Trainer in the cluster, or kind=jobset",
    'matches for kind "TrainingRuntime"': "install Kubeflow Trainer in the cluster, or kind=jobset",
    'matches for kind "JobSet"': "install JobSet in the cluster: https://jobset.sigs.k8s.io/docs/installation",
    'resource type "localqueues"': "leave out queue, or install Kueue: https://kueue.sigs.k8s.io/docs/installation",
    "have a resource type": "install JobSet in the cluster: https://jobset.sigs.k8s.io/docs/installation",
    "namespaces ": "kubectl get namespaces; --with namespace=NAME",
    "already exists": "another --name, or dlc stop the job that has it",
    'localqueues.kueue.x-k8s.io "': "kubectl get localqueues; --with queue=NAME",
    'serviceaccounts "': "kubectl get serviceaccounts; --with service_account=NAME",
    'secrets "': "kubectl create secret docker-registry NAME; --with pull_secret=NAME",
    "exceeded quota": "kubectl describe resourcequota; ask for less, or have the quota raised",
    "orbidden": "kubectl auth can-i --list shows what you may do; have somebody give you the right",
    "nauthorized": "renew your credentials: what did `kubectl config view --minify` have them from?",
    "must be logged in": "renew your credentials: what did `kubectl config view --minify` have them from?",
    "context": "kubectl config get-contexts; --with context=NAME",
    "connect": "kubectl cluster-info; is KUBECONFIG set to the cluster's file?",
    "no configuration": "kubectl cluster-info; is KUBECONFIG set to the cluster's file?",
}
USER_ERRORS = ("namespaces ", "already exists", 'localqueues.kueue.x-k8s.io "', 'serviceaccounts "', 'secrets "')


def make_words(options: KubernetesOptions, *words: str) -> list[str]:
    """Return the command for the options' cluster and namespace."""
    place = [*(("--context", options.context) if options.context else ())]
    place += [*(("--namespace", options.namespace) if options.namespace else ())]
    return [PROGRAM, *place, *words]


def run_kubectl(
    options: KubernetesOptions, *words: str, given: Sequence[Object] = (), seconds: float = SECONDS, check: bool = True
) -> Completed:
    """Run kubectl, which reads the given objects. Raises DlcError with a remedy if it fails and `check`."""
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(given)}) if given else None
    argv = make_words(options, *words)
    try:
        done = run_program(argv, stdin=stdin, check=False, timeout=seconds)
    except ProcessError as error:
        raise type(error)(error.message, KUBECTL_REMEDY) from None
    if check and done.returncode:
        raise explain_failure(words, done.stderr or done.stdout)
    return done


def explain_failure(words: Sequence[str], said: str) -> ProcessError | UsageError:
    """Return the error of a kubectl that failed, with its own last line and what to do."""
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "no word of it")
    kind = UsageError if _find_word(said) in USER_ERRORS else ProcessError
    return kind(f"{PROGRAM} {' '.join(words[:2])}: {last}", find_remedy(said))


def find_remedy(said: str) -> str:
    """Return what to do about words of the server or of kubectl."""
    return REMEDIES.get(_find_word(said), "try the same with kubectl")


def _find_word(said: str) -> str:
    return next((word for word in REMEDIES if word in said), "")


def read_objects(options: KubernetesOptions, *words: str) -> list[Object]:
    """Return the items of `kubectl get WORDS`."""
    found = json.loads(run_kubectl(options, "get", *words, "--output", "json").stdout)
    items: list[Object] = found["items"] if found.get("kind", "").endswith("List") else [found]
    return items


def stream_lines(options: KubernetesOptions, *words: str, on_line: Callable[[str], None]) -> int:
    """Hand on each line that kubectl prints; return its exit code."""
    return stream_program(make_words(options, *words), on_line)
