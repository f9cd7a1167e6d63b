"""Starts the hosts of a job as processes on loopback: each joins the group and supervises one small script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from supervised import ENTRYPOINT, SET_CONSTANTS, end_of

from harness.ports import free_port

LEADER = "127.0.0.1"  # a host's name is what the others connect to; only the leader is connected to

DRIVER = (
    SET_CONSTANTS
    + """
import json, os, sys, time
now = time.time
time.time = lambda: now() + json.loads(sys.argv[2])["ahead"]
sys.path.insert(0, sys.argv[1])
from launch import signals
signals.arm()
from launch.coordination import rendezvous
from dlc_channel.keys import job_key
from launch.coordination.membership import GroupRules, MemberConfig
from launch.supervision.supervisor import supervise
from launch.supervision.settings import Settings
from launch.base.errors import LaunchError
from launch.base.process_spec import ProcessSpec
from launch.base.errors import Failure, Outcome
job = json.loads(sys.argv[2])
set_constants(job["constants"])
rules = GroupRules(tuple(job["hosts"]), tuple(job["members"]), **job["rules"])
timeout = job["join"].pop("timeout")
config = MemberConfig(job["host"], rules, job_key(os.environ, rules.hosts), **job["join"])
try:
    group = rendezvous.join(config, {"said by": job["host"]}, timeout)
    if not rules.least:
        assert {host: facts["said by"] for host, facts in group.facts.items()} == {host: host for host in job["hosts"]}
    argv = (sys.executable, "-I", "-S", "-X", "faulthandler", "-u", "-c", job["source"])
    env = {"PATH": os.environ["PATH"]}
    spec = ProcessSpec(argv, env, job["folder"], "worker", job["rank"], job["essential"])
    settings = Settings(host=job["host"], group=group, **job["settings"])
    again = True
    while again:
        outcome = rendezvous.wait_until_ready(group) or supervise([spec], settings)
        again = group.await_restart()
except LaunchError as error:
    outcome = Outcome(error.exit_code, Failure(str(error)))
except signals.StopRequested as stop:
    outcome = Outcome(128 + stop.signum, Failure(str(stop)))
else:
    group.close()
failure = outcome.failure._asdict() if outcome.failure else None
with open(job["result"] + ".part", "w") as file:
    json.dump({"exit_code": outcome.exit_code, "failure": failure, "stopped": outcome.stopped}, file)
os.rename(job["result"] + ".part", job["result"])
"""
)


@dataclass
class Host:
    """One host of a test's job."""

    process: subprocess.Popen[bytes]
    result: Path
    outcome: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""

    def finish(self) -> Host:
        """Wait for its end and read what it left."""
        _, stderr, self.outcome = end_of(self.process, self.result)
        self.stderr = stderr.decode()
        return self

    @property
    def exit_code(self) -> int:
        code: int = self.outcome["exit_code"]
        return code

    @property
    def cause(self) -> str:
        cause: str = self.outcome["failure"]["cause"]
        return cause


class Job:
    """The hosts of one job, by name; a `with` block ends what a failed test left."""

    def __init__(
        self,
        folder: Path,
        hosts: tuple[str, ...],
        members: tuple[str, ...] = (),
        rules: dict[str, int] | None = None,
        constants: dict[str, float] | None = None,
        **join: Any,
    ) -> None:
        self.folder, self.hosts, self.members, self.rules = folder, hosts, members or hosts, rules or {}
        self.constants = constants or {}  # of the launchers, as SET_CONSTANTS takes them
        self.join = {"port": free_port(), "timeout": 30.0, "heartbeat": 5.0, **join}
        self.started: dict[str, Host] = {}

    def start(
        self, host: str, source: str, *, essential: bool = True, environ: dict[str, str] | None = None,
        join: dict[str, Any] | None = None, below: tuple[str, ...] = (), ahead: float = 0.0, **settings: Any,
    ) -> Host:  # fmt: skip
        """Start this host's launcher over a script; `join` changes how this host joins, `below` is what starts it.

        `ahead`: by how many seconds the launcher's clock is.
        """
        result = self.folder / f"{host}.{len(self.started)}.json"
        job = {
            "host": host, "hosts": self.hosts, "members": self.members, "rules": self.rules,
            "join": {**self.join, **(join or {})}, "constants": self.constants,
            "source": source, "rank": self.hosts.index(host) if host in self.hosts else -1, "essential": essential,
            "folder": str(self.folder), "result": str(result), "ahead": ahead,
            "settings": {"end_grace": 5.0, "stop_grace": 20.0, **settings},
        }  # fmt: skip
        argv = [*below, sys.executable, "-I", "-S", "-c", DRIVER, str(ENTRYPOINT), json.dumps(job)]
        env = {"PATH": os.environ["PATH"], "TRAINING_JOB_NAME": str(self.folder), **(environ or {})}
        self.started[result.name] = Host(
            subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env), result
        )
        return self.started[result.name]

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self.started.values():
            host.process.kill()
            host.process.wait()
            if host.process.stderr:
                host.process.stderr.close()
