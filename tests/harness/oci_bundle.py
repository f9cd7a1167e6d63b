"""An image unpacked as a bundle, as `srun --container` wants it: its files, and a config.json with the mounts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlc.core.process import run_program
from harness.engine import HANG_BOUND, RUN_LABEL, connect, docker

# A task of Slurm has the network and the name of its node.
SHARED_WITH_THE_NODE = ("network", "uts", "cgroup")
# The image's files are the same for all tasks, so none of them writes there.
WRITABLE = ("/tmp", "/run", "/var/tmp", "/root")


def make_bundle(image: str, folder: Path, mounts: Mapping[Path, str]) -> Path:
    """Unpack an image into `folder`; return the bundle. `mounts` are paths of this machine and where tasks see them."""
    (folder / "rootfs").mkdir(parents=True)
    _unpack_files(image, folder / "rootfs")
    (about,) = json.loads(docker("image", "inspect", image).stdout)
    return _write_config(folder, about["Config"]["Env"], mounts)


def make_bundle_of_this_machine(folder: Path, mounts: Mapping[Path, str]) -> Path:
    """Return a bundle without an image: tasks see this machine's own programs."""
    rootfs = folder / "rootfs"
    rootfs.mkdir(parents=True)
    seen: dict[Path, str] = {}
    for path in map(Path, ("/usr", "/bin", "/lib", "/lib64", "/etc")):
        if path.is_symlink():
            (rootfs / path.name).symlink_to(path.readlink())
        elif path.exists():
            seen[path] = str(path)
    return _write_config(folder, ["PATH=/usr/bin:/bin"], {**seen, **mounts})


def _write_config(folder: Path, environment: Sequence[str], mounts: Mapping[Path, str]) -> Path:
    run_program(["runc", "spec"], cwd=folder, timeout=HANG_BOUND)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config["root"] = {"path": str(folder / "rootfs"), "readonly": True}
    process = config["process"]
    process |= {"terminal": False, "cwd": "/", "env": list(environment), "rlimits": []}
    linux = config["linux"]
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] not in SHARED_WITH_THE_NODE]
    linux.pop("resources", None)
    config.pop("hostname", None)
    # The mounts of cgroups want a namespace of their own.
    config["mounts"] = [each for each in config["mounts"] if each["type"] != "cgroup"]
    config["mounts"] += [_make_mount("tmpfs", "tmpfs", path, "nosuid", "nodev", "mode=1777") for path in WRITABLE]
    config["mounts"] += [_make_mount("bind", str(path), place, "rbind") for path, place in mounts.items()]
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    return folder


def _make_mount(kind: str, source: str, place: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": source, "options": [*options, "rw"]}


def _unpack_files(image: str, folder: Path) -> None:
    name = docker("create", "--label", RUN_LABEL, image).stdout.strip()
    try:
        with subprocess.Popen(
            ["docker", "export", name], stdout=subprocess.PIPE, env=connect().environment
        ) as exported:
            run = subprocess.run(["tar", "-x", "-C", str(folder)], stdin=exported.stdout, check=False)
        assert (exported.returncode, run.returncode) == (0, 0), f"{image} cannot be unpacked"
    finally:
        docker("rm", name, check=False)
