"""The steps of each CI file run in a container, as a runner runs them, with stand-ins for docker and dlc."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.ci_machine import IMAGE, VALUES, list_calls, read_scripts, write_programs
from harness.engine import run_once
from harness.images import Image

pytestmark = pytest.mark.integration
STEPS = ("build", "test", "scan", "push", "promote")


@pytest.mark.parametrize("system", ["github", "gitlab", "codebuild"])
def test_the_steps_run_in_a_container(system: str, image: Image, tmp_path: Path) -> None:
    write_programs(tmp_path / "bin")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/images.txt").write_text(f"{IMAGE}\n")
    variables = {
        **VALUES,
        "LISTED": IMAGE,
        "CALLS": "/ci/calls",
        "KEYS": "/ci/keys",
        "GITHUB_PATH": "/ci/path",
        "GITHUB_OUTPUT": "/ci/output",
    }
    words = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    words += ["--network", "none", "--volume", f"{tmp_path}:/ci", "--workdir", "/ci/sources", "--entrypoint", "bash"]
    for script in read_scripts(system):
        text = f'PATH="/ci/bin:$PATH"\n{script}'
        done = run_once(image.ref, "--noprofile", "--norc", "-eo", "pipefail", "-c", text, options=tuple(words))
        assert done.returncode == 0, done.stdout + done.stderr
    called = list_calls(tmp_path / "calls")
    assert [line.split()[1] for line in called if line.startswith("dlc ") and line.split()[1] != "plan"] == [*STEPS]
    assert called[-2].startswith(f"dlc push {IMAGE} --to {VALUES['STAGING']} --sign /")
    assert called[-1].startswith(f"dlc promote {IMAGE} --from {VALUES['STAGING']} --to {VALUES['PROD']} --key /")
    assert (tmp_path / "keys").read_text().splitlines() == ["--sign a private|key|", "--key a public|key|"]
