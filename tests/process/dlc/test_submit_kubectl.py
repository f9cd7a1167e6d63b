"""`dlc submit --to kubernetes` beside a stand-in of kubectl: what is created, what is removed when a step fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.cluster_rules import find_mistakes
from harness.pages import find_blocks

SOURCES = Path(__file__).parents[3] / "src"
# Only a hang takes that long.
WAIT_SECONDS = 600.0
STAND_IN = Path(__file__).parent / "stand_in_kubectl.py"
JOB = """\
image: registry.example/dlc/pytorch:2.13
name: digits
script: train.py
hosts: 2
environment: {HF_TOKEN: {from: environment}}
"""
KINDS = {
    "jobset": ["configmap", "jobset", "secret"],
    "trainjob": ["configmap", "secret", "trainingruntime", "trainjob"],
}


class Login:
    """A machine with a job's file, and a kubectl whose cluster is the folder `state`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder / "home", folder / "cluster"
        for each in (self.folder, self.state, folder / "bin"):
            each.mkdir()
        (self.folder / "train.py").write_text("print(1)")
        (self.folder / "job.yml").write_text(JOB)
        kubectl = folder / "bin/kubectl"
        # Without the environment's packages it starts at once, also if the machine is busy: a job makes many calls.
        kubectl.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {STAND_IN} "$@"\n')
        kubectl.chmod(0o755)
        self.environ = {
            "PATH": f"{kubectl.parent}:/usr/bin:/bin", "HF_TOKEN": "of the shell",
            "DLC_CACHE_DIR": str(folder / "cache"), "STAND_IN_KUBECTL": str(self.state),
        }  # fmt: skip

    def dlc(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-P", "-m", "dlc", *words]
        return subprocess.run(
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
        )

    def submit(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.dlc("submit", "job.yml", "--to", "kubernetes", *words)

    def objects(self) -> dict[str, dict[str, Any]]:
        """Kind -> the object that the cluster has."""
        found = [json.loads(path.read_text()) for path in self.state.glob("*.dlc-digits.json")]
        return {each["kind"].lower(): each for each in found}

    def calls(self) -> list[str]:
        return (self.state / "calls").read_text().splitlines()

    def end(self, condition: str, pods: Sequence[tuple[str, int]]) -> None:
        """The JobSet has ended, or ends at once, with pods of these exit codes, the first one first."""
        path = self.state / "jobset.dlc-digits.json"
        (self.state / "ends").write_text(condition)
        if path.exists():
            status = {"conditions": [{"type": condition, "status": "True"}]}
            write_whole(path, {**json.loads(path.read_text()), "status": status})
        items = [make_pod(name, code, second) for second, (name, code) in enumerate(pods)]
        write_whole(self.state / "pods.json", {"kind": "List", "items": items})


def write_whole(path: Path, found: dict[str, Any]) -> None:
    """Write an object that a kubectl may read at the same time."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(found))
    draft.replace(path)


def make_pod(host: str, code: int, second: int) -> dict[str, Any]:
    end = {"exitCode": code, "finishedAt": f"2026-11-28T10:00:0{second}Z"}
    return {
        "metadata": {"name": f"{host}-x7k2p", "uid": host},
        "spec": {"hostname": host, "subdomain": "dlc-digits"},
        "status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"state": {"terminated": end}}]},
    }


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cluster_gets_the_objects_with_the_secrets_and_an_owner(login: Login, kind: str) -> None:
    done = login.submit("--with", f"kind={kind}")
    assert (done.returncode, done.stdout) == (0, "dlc-digits\n"), done.stderr
    objects = login.objects()
    assert sorted(objects) == KINDS[kind]
    assert objects["secret"]["stringData"]["HF_TOKEN"] == "of the shell"
    assert len(objects["secret"]["stringData"]["DLC_JOB_TOKEN"]) == 32
    owners = {name: found["metadata"].get("ownerReferences") for name, found in objects.items()}
    owner = objects[kind]
    assert owners.pop(kind) is None
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "dlc-digits", "uid": "0c7b1de0"}
    assert all(found == [reference] for found in owners.values())
    for found in objects.values():
        found["metadata"].pop("ownerReferences", None)
        found["metadata"].pop("uid")
    order = ["secret", "configmap", "trainingruntime", "trainjob", "jobset"]
    assert find_mistakes([objects[name] for name in order if name in objects]) == []


def test_no_secret_is_in_a_command_or_in_what_is_shown(login: Login) -> None:
    shown = login.submit("--dry-run")
    assert not login.objects()
    login.submit()
    token = login.objects()["secret"]["stringData"]["DLC_JOB_TOKEN"]
    assert not [line for line in [*login.calls(), shown.stdout] if "of the shell" in line or token in line]


def test_a_secret_of_the_file_is_in_the_secret_alone(login: Login) -> None:
    path = login.folder / "job.yml"
    path.write_text(path.read_text().replace("HF_TOKEN: {from: environment}", "API_TOKEN: s3cret-of-the-file"))
    shown = login.submit("--dry-run")
    assert "environment.API_TOKEN: its value is in the file" in shown.stderr
    assert login.submit().returncode == 0
    objects = login.objects()
    assert objects.pop("secret")["stringData"]["API_TOKEN"] == "s3cret-of-the-file"
    for text in (shown.stdout, shown.stderr, *login.calls(), json.dumps(objects)):
        assert "s3cret-of-the-file" not in text


def test_the_server_is_asked_before_anything_is_created(login: Login) -> None:
    (login.state / "refuse").write_text(
        'dry-run JobSet no matches for kind "JobSet" in version "jobset.x-k8s.io/v1alpha2"'
    )
    done = login.submit()
    assert done.returncode == 25
    assert 'no matches for kind "JobSet"' in done.stderr
    assert "install JobSet in the cluster" in done.stderr
    assert not login.objects()
    assert len(login.calls()) == 1


@pytest.mark.parametrize(
    ("option", "kind", "remedy"),
    [
        ("queue", "localqueues.kueue.x-k8s.io", "kubectl get localqueues; --with queue=NAME"),
        ("service_account", "serviceaccounts", "kubectl get serviceaccounts; --with service_account=NAME"),
        ("pull_secret", "secrets", "kubectl create secret docker-registry NAME"),
    ],
)
def test_what_the_job_would_wait_for_without_a_word_has_to_be_there(
    login: Login, option: str, kind: str, remedy: str
) -> None:
    done = login.submit("--with", f"{option}=mine")
    assert done.returncode == 2
    assert f'{kind} "mine" not found' in done.stderr
    assert remedy in done.stderr
    assert len(login.calls()) == 1
    (login.state / f"{kind.partition('.')[0].removesuffix('s')}.mine.json").write_text("{}")
    assert login.submit("--with", f"{option}=mine").returncode == 0


def test_who_may_not_read_a_queue_may_name_it(login: Login) -> None:
    (login.state / "refuse").write_text("get localqueue (Forbidden): localqueues is forbidden: User me cannot get")
    assert login.submit("--with", "queue=mine").returncode == 0


def test_without_kueue_a_queue_is_refused(login: Login) -> None:
    (login.state / "refuse").write_text('get localqueue the server doesn\'t have a resource type "localqueues"')
    done = login.submit("--with", "queue=mine")
    assert done.returncode == 25
    assert "leave out queue, or install Kueue" in done.stderr
    assert len(login.calls()) == 1


def test_ctrl_c_leaves_no_object(login: Login) -> None:
    (login.state / "refuse").write_text("create JobSet hang")
    words = [sys.executable, "-P", "-m", "dlc", "submit", "job.yml", "--to", "kubernetes"]
    with subprocess.Popen(words, cwd=login.folder, env=login.environ, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (login.state / "hangs").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert sorted(login.objects()) == ["configmap", "secret"]
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
    assert not login.objects()


def test_what_cannot_be_removed_is_named_with_the_command_that_removes_it(login: Login) -> None:
    (login.state / "refuse").write_text("create JobSet exceeded quota: pods\ndelete configmap connection refused")
    done = login.submit("--with", "namespace=ml")
    assert done.returncode == 25
    assert "exceeded quota" in done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("dlc: warning: ")]
    assert "what was created may be left" in warning
    command = warning.partition("; ")[2].split()
    assert command[:4] == ["kubectl", "--namespace", "ml", "delete"]
    (login.state / "refuse").unlink()
    subprocess.run(command, env=login.environ, check=True, capture_output=True)
    assert not login.objects()


@pytest.mark.parametrize("step", ["create ConfigMap", "create JobSet", "patch secret", "patch configmap"])
def test_nothing_is_left_of_a_job_whose_later_step_fails(login: Login, step: str) -> None:
    (login.state / "refuse").write_text(f"{step} exceeded quota: pods, requested: 2, limited: 1")
    done = login.submit()
    assert done.returncode == 25
    assert "exceeded quota" in done.stderr
    assert "kubectl describe resourcequota" in done.stderr
    assert not login.objects()


def test_a_name_that_is_taken_leaves_the_other_job_alone(login: Login) -> None:
    assert login.submit().returncode == 0
    before = login.objects()
    done = login.submit()
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert "another --name" in done.stderr
    assert login.objects() == before


@pytest.mark.parametrize(
    ("said", "code", "remedy"),
    [
        ('(NotFound): namespaces "ml" not found', 2, "kubectl get namespaces"),
        ("(Forbidden): jobsets is forbidden: User me cannot create", 25, "kubectl auth can-i --list"),
        ("(Unauthorized): the server has asked for the client to provide credentials", 25, "renew your credentials"),
        ("dial tcp 127.0.0.1:8080: connect: connection refused", 25, "kubectl cluster-info"),
    ],
)
def test_what_the_cluster_refuses_names_the_remedy(login: Login, said: str, code: int, remedy: str) -> None:
    (login.state / "refuse").write_text(f"dry-run Secret {said}")
    done = login.submit("--with", "namespace=ml", "--with", "context=there")
    assert done.returncode == code
    assert said in done.stderr
    assert remedy in done.stderr
    assert login.calls()[0].startswith("--context there --namespace ml create --dry-run=server")


def test_without_kubectl_the_message_says_what_to_install(login: Login) -> None:
    login.environ["PATH"] = str(login.folder)
    done = login.submit()
    assert done.returncode == 25
    assert "kubectl: no such program" in done.stderr
    assert "install kubectl" in done.stderr


def test_a_job_is_listed_read_and_deleted_by_its_name(login: Login) -> None:
    login.submit("--with", "namespace=ml")
    listed = login.dlc("ps", "--to", "kubernetes", "--with", "namespace=ml")
    assert "dlc-digits" in listed.stdout, listed.stderr
    assert "Running" in listed.stdout
    login.end("Completed", [("dlc-digits-node-0-1", 0), ("dlc-digits-node-0-0", 0)])
    for rank in range(2):
        (login.state / f"logs.dlc-digits-node-0-{rank}-x7k2p").write_text(f"rank {rank}\n")
    assert "Completed" in login.dlc("ps", "--to", "kubernetes", "--with", "namespace=ml").stdout
    lines = login.dlc("logs", "digits").stdout.splitlines()
    assert lines == [f"[dlc-digits-node-0-{rank}.dlc-digits] rank {rank}" for rank in range(2)]
    assert sorted(login.dlc("logs", "digits", "-f").stdout.splitlines()) == lines
    stopped = login.dlc("stop", "digits")
    assert stopped.returncode == 0, stopped.stderr
    assert not login.objects()


def test_the_code_of_a_job_is_that_of_the_pod_that_failed_first(login: Login, tmp_path: Path) -> None:
    login.submit()
    login.end("Failed", [("dlc-digits-node-0-1", 7), ("dlc-digits-node-0-0", 69)])
    script = """if True:
    from dlc.places import kubernetes
    print(kubernetes.wait_for_job("dlc-digits", kubernetes.OPTIONS()))
    print(kubernetes.wait_for_job("dlc-gone", kubernetes.OPTIONS()))"""
    done = subprocess.run([sys.executable, "-c", script], env=login.environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "1"]


def test_a_train_job_of_which_no_job_set_is_made_yet_can_be_stopped(login: Login) -> None:
    login.submit("--with", "kind=trainjob")
    stopped = login.dlc("stop", "digits")
    assert stopped.returncode == 0, stopped.stderr
    assert not login.objects()
    again = login.dlc("stop", "digits")
    assert again.returncode == 2
    assert "expected a job in the context's namespace, found none" in again.stderr


def test_a_train_job_that_fails_before_its_pods_ends_the_wait(login: Login) -> None:
    path = login.state / "trainjob.dlc-digits.json"
    script = f"""if True:
    import json, pathlib
    from dlc.places import kubernetes
    path = pathlib.Path({str(path)!r})
    found = json.loads(path.read_text())
    path.write_text(json.dumps({{**found, "status": {{"conditions": [{{"type": "Failed", "status": "True"}}]}}}}))
    print(kubernetes.wait_for_job("dlc-digits", kubernetes.OPTIONS(kind="trainjob")))"""
    login.submit("--with", "kind=trainjob")
    done = subprocess.run([sys.executable, "-c", script], env=login.environ, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@pytest.mark.parametrize(("condition", "code"), [("Completed", 0), ("Failed", 7)])
def test_a_wait_ends_with_the_jobs_code(login: Login, condition: str, code: int) -> None:
    login.end(condition, [("dlc-digits-node-0-1", code), ("dlc-digits-node-0-0", code)])
    for rank in range(2):
        (login.state / f"logs.dlc-digits-node-0-{rank}-x7k2p").write_text(f"rank {rank}\n")
    done = login.submit("--wait")
    assert done.returncode == code
    assert sorted(done.stdout.splitlines()) == [
        f"[dlc-digits-node-0-{rank}.dlc-digits] rank {rank}" for rank in range(2)
    ]


def test_a_pod_that_cannot_start_is_named_with_the_reason(login: Login) -> None:
    login.end("Failed", [("dlc-digits-node-0-0", 0)])
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    pods = json.loads((login.state / "pods.json").read_text())
    pods["items"][0]["status"] = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    (login.state / "pods.json").write_text(json.dumps(pods))
    done = login.submit("--wait")
    assert "dlc: dlc-digits-node-0-0.dlc-digits waits: ImagePullBackOff: not found" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ('pods "a" is forbidden: exceeded quota: gpus, requested: 8, limited: 4', "kubectl describe resourcequota"),
        ('pods "a" is forbidden: error looking up service account ml/x: serviceaccount "x" not found', "kubectl auth"),
    ],
)
def test_why_no_pod_is_made_is_told_with_the_remedy(login: Login, message: str, remedy: str) -> None:
    login.end("Failed", [])
    events = [{"involvedObject": {"name": name}, "message": message} for name in ("other-node-0", "dlc-digits-node-0")]
    (login.state / "events.json").write_text(json.dumps({"kind": "List", "items": events}))
    done = login.submit("--wait")
    assert f"dlc: dlc-digits has 0 of 2 pods: {message}; {remedy}" in done.stderr
    assert done.returncode == 1


def test_a_job_that_waits_for_its_turn_says_in_which_queue(login: Login) -> None:
    (login.state / "localqueue.training.json").write_text("{}")
    login.end("Suspended", [])
    words = [sys.executable, "-P", "-m", "dlc", "submit", "job.yml", "--to", "kubernetes", "--with", "queue=training"]
    with subprocess.Popen(
        [*words, "--wait"],
        cwd=login.folder,
        env=login.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        said = next(line for line in process.stderr if "waits" in line)
        login.end("Completed", [])
        assert process.wait(WAIT_SECONDS) == 0
    assert said == "dlc: dlc-digits waits in the queue training: kubectl describe localqueue training\n"


def test_the_commands_of_the_page_run(login: Login) -> None:
    login.end("Completed", [("dlc-digits-node-0-0", 0)])
    (login.state / "logs.dlc-digits-node-0-0-x7k2p").write_text("trained\n")
    page = (SOURCES.parent / "docs/clusters/kubernetes.md").read_text()
    lines = [line for block in find_blocks(page) for line in block.splitlines()]
    commands = [line.replace("JOB", "digits").split() for line in lines]
    assert [words[1] for words in commands] == ["submit", "submit", "ps", "logs", "stop"]
    for words in commands:
        done = login.dlc(*words[1:])
        assert (words[0], done.returncode) == ("dlc", 0), done.stderr
    assert not login.objects()
