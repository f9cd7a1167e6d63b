"""Machines of CI systems for tests: stand-ins for the programs that a job calls, and the shell of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dlc.core.checkout import find_root
from dlc.plan.ci.jobs import make_key

ROOT = find_root(Path(__file__).parent)
EXAMPLES = ROOT / "examples/ci"
BUILDSPEC = "codebuild/buildspec.yml"
IMAGE, PARENT = "pytorch-2.9-training-cu128-py311-xla", "pytorch-2.9-training-cu128-py311"
VALUES = {
    "BUILDER": "dlc-ci", "CACHE": "registry.example/cache/dlc", "STAGING": "registry.example/staging",
    "PROD": "prod.example/dlc", "REGISTRY_USER": "ci", "REGISTRY_PASSWORD": "secret", "PROMOTE": "yes",
    "SIGNING_KEY": "a private\nkey", "PUBLIC_KEY": "a public\nkey", "CI_MERGE_REQUEST_DIFF_BASE_SHA": "0123abc",
    "CODEBUILD_WEBHOOK_TRIGGER": "branch/main", "IMAGE": IMAGE, "PARENTS": PARENT,
}  # fmt: skip
# Writes down how it was called. A builder is not there yet; aws prints a password.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
    "docker buildx inspect"*) exit 1 ;;
    "docker login"*) cat >>"$CALLS"; echo >>"$CALLS" ;;
    aws*) echo secret ;;
    sudo*) "$@" ;;
esac
"""
# Of the images that are to be built it lists those of the test; it reads keys as often as dlc does, once; its verbs of
# FAILS end with CODE.
DLC = """#!/bin/bash
echo "dlc $*" >>"$CALLS"
verb=$1
if [ "$verb" = plan ]; then printf %s "${LISTED:+$LISTED
}"; fi
while [ $# -gt 0 ]; do
  case "$1" in --sign | --key) echo "$1 $(tr '\\n' '|' <"$2")" >>"$KEYS" ;; esac
  shift
done
case " ${FAILS:-} " in *" $verb "*) exit "${CODE:-32}" ;; esac
"""
# jq, as far as the step uses it: this host may have none.
JQ = """#!/usr/bin/env python3
import json, sys
print(json.dumps(open(sys.argv[-1]).read().split("\\n")[:-1], separators=(",", ":")))
"""


def read_example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return found


def read_scripts(system: str) -> list[str]:
    """The shell of the image's job in an example: of each step that a shell of its own runs."""
    content = read_example({"github": "github/images.yml", "gitlab": "gitlab/.gitlab-ci.yml"}.get(system, BUILDSPEC))
    if system == "github":
        assert content["jobs"][make_key(IMAGE)]["env"] == {"IMAGE": IMAGE, "PARENTS": PARENT}
    if system == "gitlab":
        assert content[IMAGE]["variables"] == {"IMAGE": IMAGE, "PARENTS": PARENT}
    return list_scripts(system, content, IMAGE)


def list_scripts(system: str, content: dict[str, Any], image: str) -> list[str]:
    """The same of any file."""
    if system == "github":
        return [step["run"] for step in content["jobs"][make_key(image)]["steps"] if "run" in step]
    if system == "gitlab":
        return ["\n".join(content[".image"]["script"])]
    return ["\n".join(command for phase in content["phases"].values() for command in phase["commands"])]


def list_first_scripts(system: str, content: dict[str, Any]) -> list[str]:
    """The shell of the job before those of images, which lists them; CodeBuild has none."""
    if system == "github":
        return [step["run"] for step in content["jobs"]["plan"]["steps"] if "run" in step]
    return ["\n".join(content["plan"]["script"])] if system == "gitlab" else []


def write_programs(folder: Path) -> None:
    """Write the programs of a machine."""
    folder.mkdir()
    texts = dict.fromkeys(("sudo", "apt-get", "make", "docker", "sysctl", "aws"), PROGRAM)
    texts |= {"dlc": DLC, "jq": JQ}
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def list_calls(path: Path) -> list[str]:
    """What was called, the installation aside."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.split()[0] not in ("sudo", "apt-get", "sysctl", "make")]
