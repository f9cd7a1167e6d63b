"""A kubectl without a cluster: objects are files of the folder STAND_IN_KUBECTL, and nothing starts.

It knows the commands that dlc.places.kubernetes uses. The file `refuse` has lines `VERB KIND MESSAGE`: what the server
refuses; with `hang` for a message it never answers, and the file `hangs` appears. Files `pods.json` and `events.json`
are what `get` answers, `logs.NAME` what a pod has said. With a file `ends` a JobSet has ended, with the condition in
it, as soon as it is created.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

STATE = Path(os.environ["STAND_IN_KUBECTL"])
DRY_RUN = "--dry-run=server"
UID = "0c7b1de0"


def refuse(verb: str, kind: str) -> None:
    path = STATE / "refuse"
    for line in path.read_text().splitlines() if path.exists() else ():
        refused, of, message = line.split(" ", 2)
        if (refused, of) == (verb, kind) and message == "hang":
            (STATE / "hangs").touch()
            time.sleep(600)
        if (refused, of) == (verb, kind):
            sys.exit(f"Error from server: {message}")


def singular(kind: str) -> str:
    return kind.partition(".")[0].removesuffix("s")


def path_of(kind: str, name: str) -> Path:
    return STATE / f"{singular(kind).lower()}.{name}.json"


def read(pattern: str, selector: str) -> list[Path]:
    key, _, value = selector.partition("=")
    found = []
    for path in sorted(STATE.glob(pattern)):
        labels = json.loads(path.read_text())["metadata"]["labels"]
        if key in labels and value in ("", labels[key]):
            found.append(path)
    return found


def create(options: dict[str, str], words: list[str]) -> str:
    items = json.loads(sys.stdin.read())["items"]
    is_dry = DRY_RUN in words
    for item in items:
        path = path_of(item["kind"], item["metadata"]["name"])
        refuse("dry-run" if is_dry else "create", item["kind"])
        if path.exists():
            sys.exit(f'Error from server (AlreadyExists): {item["kind"].lower()}s "{path.stem}" already exists')
        item["metadata"]["uid"] = UID
        if item["kind"] == "JobSet" and (STATE / "ends").exists():
            item["status"] = {"conditions": [{"type": (STATE / "ends").read_text(), "status": "True"}]}
        if not is_dry:
            path.write_text(json.dumps(item))
    return json.dumps(items[0]) if options.get("--output") == "json" else "created"


def patch(options: dict[str, str], words: list[str]) -> str:
    kind, _, name = words[0].partition("/")
    refuse("patch", kind)
    path = path_of(kind, name)
    found = json.loads(path.read_text())
    found["metadata"].update(json.loads(options["--patch"])["metadata"])
    path.write_text(json.dumps(found))
    return "patched"


def get(options: dict[str, str], words: list[str]) -> str:
    kind = singular(words[0])
    refuse("get", kind)
    if kind in ("pod", "event"):
        path = STATE / f"{kind}s.json"
        return path.read_text() if path.exists() else json.dumps({"kind": "List", "items": []})
    if "--selector" in options:
        found: Any = [json.loads(path.read_text()) for path in read(f"{kind}.*.json", options["--selector"])]
        return json.dumps({"kind": "List", "items": found})
    path = path_of(kind, words[1])
    if not path.exists() and "--ignore-not-found" not in words:
        sys.exit(f'Error from server (NotFound): {words[0]} "{words[1]}" not found')
    return path.read_text() if path.exists() else ""


def delete(options: dict[str, str], words: list[str]) -> str:
    for kind in words[0].split(","):
        refuse("delete", singular(kind))
        named = [path_of(kind, words[1])] if "--selector" not in options else []
        for path in named or read(f"{singular(kind)}.*.json", options["--selector"]):
            path.unlink()
            for owned in STATE.glob("*.json"):
                owners = json.loads(owned.read_text()).get("metadata", {}).get("ownerReferences", [])
                if f"{owners[0]['kind'].lower()}.{owners[0]['name']}.json" == path.name if owners else False:
                    owned.unlink()
    return "deleted"


def logs(options: dict[str, str], words: list[str]) -> str:
    return (STATE / f"logs.{words[-1]}").read_text().rstrip("\n")


def main(words: list[str]) -> None:
    with (STATE / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    takes = ("--context", "--namespace", "--output", "--filename", "--selector", "--type", "--patch")
    options: dict[str, str] = {}
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word in takes:
            options[word] = words.pop(0)
        else:
            rest.append(word)
    verb, *rest = rest
    print({"create": create, "patch": patch, "get": get, "delete": delete, "logs": logs}[verb](options, rest))


main(sys.argv[1:])
